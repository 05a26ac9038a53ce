/* Bringing a machine up, blocking, before the supervisor's loop begins: find or make what is
 * needed, start the share server and the VMM, shake hands with the agent, configure it and
 * mount the shares. Leaves nothing running on failure. */
#ifndef GB_MACHINE_BOOT_H
#define GB_MACHINE_BOOT_H

#include "machine/store.h"
#include "proto/msg.h"
#include "vmm/driver.h"

enum gb_boot_kind {
	GB_BOOT_COLD,
	GB_BOOT_TEMPLATE, /* a generic one: it mounted its root itself */
	GB_BOOT_IMAGE,    /* one of its image */
};
const char *gb_boot_kind_name(enum gb_boot_kind kind);

struct gb_boot {
	const struct gb_driver *driver;
	struct gb_vm *vm;              /* owned */
	int agent_fd;                  /* owned: the agent's frames */
	pid_t share_pid;               /* 0: no share server */
	int share_ctl;                 /* owned: closing it ends the share server */
	int disk_lock;                 /* owned, -1 unless a raw root is used */
	struct gb_msg_configured guest; /* owned: what the agent said of itself */
	enum gb_accel accel;
	enum gb_boot_kind kind;
	char note[512];           /* why it was not as hoped for, "" if it was */
	struct gb_strv shares;    /* "host:guest:rw|ro" */
	struct gb_strv timings;   /* "step=nanoseconds" */
};

typedef void (*gb_boot_progress)(void *ctx, const char *line);

/* fresh: it was never started. Only such a machine, whose disk holds nothing either, is started
 * from a template of its image. */
int gb_boot_machine(const struct gb_dirs *d, const struct gb_machine_spec *spec, bool fresh,
	gb_boot_progress progress, void *ctx, struct gb_boot *ret, struct gb_err *err);
/* Kills what still runs and releases everything. */
void gb_boot_done(struct gb_boot *b);

#endif
