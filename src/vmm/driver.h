/* How a machine is run: the driver's op table and what each op promises. Nothing outside
 * src/vmm/<driver>/ may name QEMU or libkrun.
 *
 * A driver is used from one thread. start blocks (with a deadline); the other ops don't. */
#ifndef GB_VMM_DRIVER_H
#define GB_VMM_DRIVER_H

#include "base/err.h"
#include "base/mem.h"
#include "proto/ports.h" /* names of the ports and of the root disk */
#include "vmm/accel.h"

#include <sys/types.h>

enum gb_disk_format { GB_DISK_RAW, GB_DISK_QCOW2 };

/* All strings and descriptors are borrowed for the call of start. */
struct gb_vm_spec {
	enum gb_accel accel; /* resolved: never GB_ACCEL_AUTO */
	unsigned cpus;       /* 1..64 */
	uint64_t memory_bytes;
	const char *disk; /* path; NULL only when a template is made */
	enum gb_disk_format disk_format;
	bool disk_readonly; /* cold boots only: GB_E_INVALID with template_path */
	const char *bundle;        /* folder of a boot bundle, see vmm/boot.h */
	const char *template_path; /* folder of a template to restore, or NULL: cold boot */
	bool template_root; /* the template has its root mounted (vmm/template.h): disk is a copy
			       of its disk that nothing has written to since */
	int ctl_fd;                /* our peer's ends: connected stream sockets that the VMM */
	int share_fd;              /* child gets as its two serial ports */
	int net_fd;                /* a stream netdev's socket, -1: no network device */
	const char *console;       /* file that the guest's console is written to, or NULL */
	/* Called once the child has been started and before it is waited for, unless NULL: what can
	 * be done beside it costs no time. A failure ends the start with that. */
	int (*meanwhile)(void *ctx, struct gb_err *err);
	void *ctx;
};

enum gb_vm_event_kind {
	GB_VM_EXITED = 1,    /* the process is gone and reaped: status is as of waitpid */
	GB_VM_DISK_FULL = 2, /* the host has no room for a write; the guest is paused */
	GB_VM_DISK_ERROR = 3, /* another failure of the disk; the guest saw it and runs on */
	GB_VM_GUEST_OFF = 4, /* the guest powered off, panicked or reset; EXITED follows */
};
struct gb_vm_event {
	enum gb_vm_event_kind kind;
	int status;
};

struct gb_vm; /* a running VMM child */

struct gb_driver {
	const char *name;
	/* Start the VMM and let the guest run; returns when its processors run (the agent's
	 * answer is the caller's business). On failure nothing is left running, and err says
	 * what the VMM printed. GB_E_STATE: the template cannot be restored. */
	int (*start)(const struct gb_vm_spec *spec, uint64_t deadline_ns, struct gb_vm **ret,
		struct gb_err *err);
	pid_t (*pid)(const struct gb_vm *vm);
	/* Readable when next_event may have something. Stays the same for the VM's life. */
	int (*event_fd)(const struct gb_vm *vm);
	/* 1 and *ret filled, 0 when there is none now, or a negative code. */
	int (*next_event)(struct gb_vm *vm, struct gb_vm_event *ret, struct gb_err *err);
	/* After room was made on the host: let a guest paused by DISK_FULL go on. Where there is
	 * none, DISK_FULL comes again at once: wait between tries. */
	int (*resume)(struct gb_vm *vm, struct gb_err *err);
	/* SIGKILL, reap; idempotent. */
	void (*kill)(struct gb_vm *vm);
	struct gb_vm *(*free)(struct gb_vm *vm); /* kills what still runs; returns NULL */
};

extern const struct gb_driver gb_driver_qemu;

#endif
