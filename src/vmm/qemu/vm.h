/* A QEMU child: started with what it inherits, listened to, ended. Used by the driver and by
 * the making of templates.
 *
 * What is held: the child; a pidfd; the monitor; a pipe with what QEMU prints (the last bytes
 * are kept for messages); a socket with what the guest prints on its console, copied to a
 * file of bounded size. All of them hang on one epoll descriptor, and all are drained by
 * gb_qemu_vm_drain: QEMU never blocks on any of them for long. */
#ifndef GB_VMM_QEMU_VM_H
#define GB_VMM_QEMU_VM_H

#include "vmm/qemu/args.h"
#include "vmm/qemu/console.h"
#include "vmm/qemu/qmp.h"

enum gb_qemu_migration { GB_QEMU_MIGRATION_NONE, GB_QEMU_MIGRATION_DONE, GB_QEMU_MIGRATION_FAILED };

struct gb_vm {
	pid_t pid;
	int pidfd; /* owned, -1 when reaped */
	int epoll; /* owned */
	int wake;  /* owned; an eventfd in it, raised while events is not empty */
	int grace; /* owned; a timer, when the monitor has ended but not yet the process */
	int said_fd; /* owned; what QEMU prints */
	char said[512]; /* its last bytes */
	struct gb_console console;
	struct gb_qmp qmp;
	unsigned events;  /* 1 << enum gb_vm_event_kind: not handed out yet */
	unsigned ignored; /* answers to come that nobody waits for */
	bool running;     /* by RESUME and STOP */
	enum gb_qemu_migration migration;
	bool reaped;
	int status; /* when reaped */
};

/* The files of a template that QEMU inherits; -1: not given. */
struct gb_qemu_files {
	int state;
	int memory;
	int hot; /* which pages are touched first (prefault.h) */
};
#define GB_QEMU_FILES_INIT { -1, -1, -1 }
void gb_qemu_files_done(struct gb_qemu_files *f);
/* Start it. files: NULL unless a template is restored. */
int gb_qemu_vm_start(const struct gb_qemu_plan *plan, const struct gb_qemu_files *files,
	struct gb_vm **ret, struct gb_err *err);
/* The events that were noted are handed out. */
void gb_qemu_vm_clear_wake(struct gb_vm *vm);
/* Read what is there, without blocking: events are noted, a child that ended is reaped. */
void gb_qemu_vm_drain(struct gb_vm *vm);
/* A child whose monitor closed or broke: end it, and turn what it printed into the error.
 * Returns the code. */
int gb_qemu_vm_explain(struct gb_vm *vm, int code, struct gb_err *err);
void gb_qemu_vm_kill(struct gb_vm *vm);
struct gb_vm *gb_qemu_vm_free(struct gb_vm *vm);

#endif
