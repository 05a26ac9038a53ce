/* Internal: the little that is said to the agent of a machine that becomes a template. */
#ifndef GB_VMM_QEMU_MAKE_TALK_H
#define GB_VMM_QEMU_MAKE_TALK_H

#include "vmm/qemu/make_impl.h"

struct gb_talk {
	struct gb_vm *vm; /* owned */
	int ctl;	  /* borrowed */
	struct gb_frame_reader reader;
	uint32_t request;
};
void gb_talk_init(struct gb_talk *t, int ctl);
/* Ends the machine too. */
void gb_talk_done(struct gb_talk *t);
int gb_talk_greet(struct gb_talk *t, struct gb_err *err);
/* Time and root are filled in. */
int gb_talk_configure(struct gb_talk *t, struct gb_msg_configure *m, struct gb_err *err);
/* Run a command as the default user and wait for its end, whatever that is. Its output is
 * dropped. */
int gb_talk_run(struct gb_talk *t, const char *const *argv, struct gb_err *err);

#endif
