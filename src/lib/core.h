/* What the owner, its capabilities and their requests share: one machine, one link. */
#ifndef GB_LIB_CORE_H
#define GB_LIB_CORE_H

#include "base/path.h"
#include "base/str.h"
#include "lib/link.h"
#include "lib/tool_mask.h"

#include <pthread.h>
#include <stdatomic.h>

struct gb_core {
	atomic_uint refs; /* owner, capabilities, requests, tools' workers */
	pid_t pid;        /* the process whose handles these are */
	struct gb_link *link; /* owned */
	struct gb_dirs dirs;  /* owned */
	char *machine;        /* owned */
	bool made_ephemeral;  /* we made it, and it shall go when it ends */
	struct gb_strv secrets; /* owned */
	int logs[2];          /* owned; the machine's console and supervisor, -1 where there is none */
	pthread_mutex_t lock; /* counted against shutdown; making the mask */
	unsigned counted;     /* capabilities that live */
	bool mask_made;
	struct gb_mask mask;  /* made at the first tool call, constant then */
};

struct glovebox_tools {
	atomic_uint refs;
	struct gb_core *core; /* a counted capability's own reference */
	bool owner;           /* the owner's, inside of its workspace */
	bool internal;        /* the library's own: counts nowhere */
};

struct glovebox_workspace {
	struct gb_core *core;
	struct glovebox_tools own;
};

struct gb_core *gb_core_ref(struct gb_core *core);
void gb_core_unref(struct gb_core *core);
GB_UNUSED static inline void gb_core_cleanup(struct gb_core **core)
{
	gb_core_unref(*core);
}
/* GB_E_STATE in a child that forked. */
int gb_core_check(const struct gb_core *core, struct gb_err *err);
/* A capability for the library itself: not counted, released by gb_tools_internal_free. */
struct glovebox_tools *gb_tools_internal(struct gb_core *core);
void gb_tools_internal_free(struct glovebox_tools *tools);

/* SIGKILL to the machine's supervisor, and so to the machine; waits until it is gone, and removes
 * what was to go with it. */
int gb_core_kill(const struct gb_dirs *dirs, const char *machine, bool remove,
	uint64_t deadline_ns, struct gb_err *err);

/* Copies the caller's options over zeroed ones of ours: what it does not know is 0.
 * GB_E_INVALID without a size, GB_E_UNSUPPORTED when it sets what we do not know. */
int gb_options_copy(void *ours, size_t size, const void *theirs, struct gb_err *err);
/* A result of ours to a struct whose size the caller has set. */
int gb_result_copy(void *theirs, size_t size, const void *ours, struct gb_err *err);
/* The public error from ours; returns its code. */
int gb_give_error(struct glovebox_error *to, const struct gb_err *from, int code);

#endif
