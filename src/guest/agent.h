/* The agent's state. One thread, one event loop (loop.c).
 *
 * Process 1 stays in the initramfs for good: its own root is an (emptied) folder of that,
 * the image's root is mounted at /root of its private mount namespace, and every path of the
 * image is resolved below root_fd by openat2. What it needs of the kernel (proc, sysfs,
 * devtmpfs, cgroup2) are mounts without a place, reached through descriptors only. Tools
 * live in the namespaces that world.c makes, and never share one of these. */
#ifndef GB_GUEST_AGENT_H
#define GB_GUEST_AGENT_H

#include "base/str.h"
#include "guest/cgroup.h"
#include "guest/ctl.h"
#include "guest/job.h"
#include "guest/memory.h"
#include "guest/user.h"

#include <sys/types.h>

#define GB_SELF_PATH "/init"  /* this program, in the initramfs */
#define GB_ROOT_PATH "/root"  /* where the image is mounted, in our own namespace */

enum gb_agent_state {
	GB_AGENT_BOOTED,     /* READY was sent: HELLO comes next */
	GB_AGENT_GREETED,    /* CONFIGURE comes next */
	GB_AGENT_WARMING,    /* its root is mounted, it becomes a template: requests are served
				until the second CONFIGURE, which makes it BOOTED again */
	GB_AGENT_CONFIGURED, /* requests are served */
};

struct gb_agent {
	enum gb_agent_state state;
	int epoll; /* owned, as all descriptors here; -1 where not open */
	struct gb_watch sigchld;
	struct gb_ctl ctl;

	int proc, sys, dev, cgroups; /* roots of our own mounts */
	int self;                    /* this program, to be executed by BENCH */
	int root;                    /* the image's root, without what is mounted below it */
	char root_dev[64];           /* "vda" */
	int pts;                     /* the tools' devpts */
	int null;                    /* the tools' /dev/null */
	int world_mnt, world_pid;    /* namespaces of the tools */
	int own_pid;                 /* our own pid namespace */
	pid_t world_init;            /* process 1 of the tools */
	pid_t relay;
	int relay_sock;
	uint64_t shares; /* bit i: a share with index i was mounted */
	pid_t grower;    /* grows the root file system; 0: none */

	/* from CONFIGURE */
	bool prepared;       /* root and world were made before the template */
	uint64_t disk_bytes;
	struct gb_strv env;
	char *user;    /* owned */
	char *workdir; /* owned */

	struct gb_cgroup_pool cgroup_pool;
	struct gb_job jobs[GB_JOB_MAX];
	uint64_t live; /* bit i: jobs[i] is in use */
	struct gb_pipes ready; /* for the next command */
	struct gb_user_cache user_cache;
	struct gb_report *reports; /* shared with children until they exec: one a job, and the grower's */
	struct gb_session *sessions; /* owned list, the newest first (session.h) */
	uint64_t session_sequence;
	struct gb_memory memory;
	struct gb_drain *drains;   /* owned list: pipes of commands that have been answered */
	size_t drain_count;
};

/* boot.c: from the kernel's start to READY. */
int gb_boot(struct gb_agent *a, struct gb_err *err);
/* Write text to a file below dirfd (proc, sysfs, cgroups). */
int gb_write_knob(int dirfd, const char *path, const char *text, struct gb_err *err);

/* A path as a request gives it, made absolute: relative ones start at the configured working
 * directory, "" is that. Owned; NULL when memory is out. */
char *gb_agent_path(const struct gb_agent *a, const char *path);

/* loop.c: serve until the machine is to end. */
_Noreturn void gb_serve(struct gb_agent *a);
int gb_watch_add(struct gb_agent *a, struct gb_watch *w, int fd, uint32_t events,
	void (*fn)(struct gb_agent *, struct gb_watch *, uint32_t), void *owner, struct gb_err *err);
/* Stop watching and close. */
void gb_watch_close(struct gb_watch *w);
/* The protocol was broken, or what we stand on is gone: say why, end cleanly, power off. */
_Noreturn void gb_die(struct gb_agent *a, const struct gb_err *err);

/* configure.c */
struct gb_frame;
int gb_configure(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
/* entropy.c: the clock and the kernel's random pool. */
int gb_set_time(uint64_t realtime_ns, struct gb_err *err);
int gb_add_entropy(int dev, const uint8_t *data, size_t len, struct gb_err *err);

/* stop.c: end every tool, sync, unmount, answer (request 0: nobody asked), power off. */
_Noreturn void gb_power_off(struct gb_agent *a, uint32_t request, uint64_t deadline_ns);

#endif
