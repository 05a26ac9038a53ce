/* Where tools live, and how a process gets there. */
#ifndef GB_GUEST_WORLD_H
#define GB_GUEST_WORLD_H

#include "guest/agent.h"
#include "guest/user.h"

/* Make the tools' namespaces, with their process 1. Afterwards our children are born in
 * their pid namespace. */
int gb_world_start(struct gb_agent *a, struct gb_err *err);

enum gb_stage {
	GB_STAGE_NONE,
	GB_STAGE_SETUP, /* ours: err says what */
	GB_STAGE_CWD,
	GB_STAGE_EXEC,  /* err.sys: why */
};

/* What a child becomes. All borrowed for the call. */
struct gb_child {
	const struct gb_cgroup *cgroup;
	struct gb_report *report;
	int stdio[3]; /* become 0, 1, 2 */
	bool tty;     /* stdio[0] becomes the controlling terminal */
	const struct gb_user *user;
	const char *cwd; /* NULL: "/" */
	/* one of the three: */
	char *const *argv; /* execute it, found by PATH of envp */
	int program;       /* or this descriptor, with argv; -1 */
	int (*run)(void *ctx, struct gb_err *err); /* or stay, call it, end */
	void *ctx;
	char *const *envp;
};
/* Start a child in the tools' world. *ret_started: a pipe that reaches its end when the child
 * has executed, or has ended; may be NULL. */
int gb_child_start(struct gb_agent *a, const struct gb_child *c, pid_t *ret_pid, int *ret_started,
	struct gb_err *err);
/* Start a child that stays outside of it, with all our privileges, and calls run: tools can
 * neither see nor signal it. */
int gb_helper_start(struct gb_agent *a, int (*run)(void *ctx, struct gb_err *err), void *ctx,
	struct gb_report *report, pid_t *ret_pid, struct gb_err *err);
/* Enter the tools' mount namespace (a helper's step). */
int gb_world_enter_mounts(const struct gb_agent *a, struct gb_err *err);

/* Capabilities that a tool running as root has; the table in caps.c says why. */
uint64_t gb_caps_kept(void);
/* Never to be had again by our children that execute something. */
int gb_caps_bound(struct gb_err *err);
/* Give up all others now (keep: capability bits). */
int gb_caps_set(uint64_t keep, struct gb_err *err);

#endif
