/* Internal: what the files that make templates share. */
#ifndef GB_VMM_QEMU_MAKE_IMPL_H
#define GB_VMM_QEMU_MAKE_IMPL_H

#include "proto/msg.h"
#include "proto/frame.h"
#include "store/publish.h"
#include "vmm/prepare.h"
#include "vmm/qemu/template_key.h"
#include "vmm/qemu/vm.h"

/* One making. */
struct gb_making {
	const struct gb_template_key *key;
	const struct gb_template_want *want;
	const struct gb_template_disk *disk; /* NULL: a generic one */
	const char *base;		     /* folder of the generic one, with disk */
	const char *cache_dir;
	gb_progress progress;
	void *ctx;
	struct gb_publish place;
	int dir; /* owned; of the folder in the making */
	unsigned tsc_khz;
	uint64_t boot_ns;
	char qemu[64]; /* version */
};

/* Our ends of the ports that a machine has, and the child's. */
struct gb_make_ports {
	int ctl[2];
	int share[2];
	int net[2];
};
#define GB_MAKE_PORTS_INIT { {-1, -1}, {-1, -1}, {-1, -1} }
int gb_make_ports_open(struct gb_make_ports *p, bool network, struct gb_err *err);
void gb_make_ports_given(struct gb_make_ports *p);
void gb_make_ports_done(struct gb_make_ports *p);

/* The agent's next frame. What it points to lasts until the next call. */
int gb_make_next(struct gb_vm *vm, int ctl, struct gb_frame_reader *reader,
	struct gb_frame *ret, struct gb_err *err);
/* The same, which must be of this type. */
int gb_make_expect(struct gb_vm *vm, int ctl, struct gb_frame_reader *reader, uint8_t type,
	struct gb_frame *ret, struct gb_err *err);
/* Write the machine's state beside its memory, end it. */
int gb_make_save(struct gb_making *m, struct gb_vm *vm, struct gb_err *err);

/* make_vm.c: boot a machine until its agent waits, and save it. */
int gb_make_boot(struct gb_making *m, struct gb_make_ports *ports, struct gb_err *err);
/* make_image.c: restore m->base with the image's disk, prepare it, and save it. */
int gb_make_prepared(struct gb_making *m, struct gb_make_ports *ports, struct gb_err *err);
/* Copy a file; holes stay holes. */
int gb_make_copy(int from, int to, struct gb_err *err);
/* make_hot.c: try the template out, and note which pages that touched. */
int gb_make_hot(struct gb_making *m, struct gb_err *err);

#endif
