/* One cgroup v2 a request, so that a request ends whole whatever its processes did
 * (setsid does not escape). Groups are pooled: an empty one is used again, since making one
 * costs more than a fork. Tools cannot make groups below theirs (cgroup.max.descendants is
 * 0), so empty means that nothing is left in it. */
#ifndef GB_GUEST_CGROUP_H
#define GB_GUEST_CGROUP_H

#include "guest/watch.h"
#include "base/err.h"

#define GB_CGROUP_MAX 1024 /* groups with processes in them: 64 requests and what lives on */

struct gb_cgroup {
	int dir;              /* owned: for clone3 and cgroup.kill */
	int memory_events;    /* owned */
	struct gb_watch emptied; /* cgroup.events; in: it may have changed */
	uint64_t oom_before;  /* oom_kill when it came to the pool, empty */
	bool watched;         /* emptied is in the event loop */
	bool left;            /* its request was answered; back to the pool when empty */
	struct gb_cgroup *next_free;
};
struct gb_cgroup_pool {
	struct gb_cgroup *free; /* owned */
	unsigned made;
	uint64_t processes; /* limit of one group */
};

/* Make "tools" below the root group: what all requests share (memory, processes). */
int gb_cgroups_init(struct gb_agent *a, struct gb_err *err);
int gb_cgroup_take(struct gb_agent *a, struct gb_cgroup **ret, struct gb_err *err);
/* The request is done with it: to the pool now, or when its last process has ended. */
void gb_cgroup_leave(struct gb_agent *a, struct gb_cgroup *g);
/* True when no process is in it. */
bool gb_cgroup_empty(const struct gb_cgroup *g);
/* Have the loop wake up (job_tick of everyone) when it becomes empty. */
void gb_cgroup_watch(struct gb_agent *a, struct gb_cgroup *g);
void gb_cgroup_kill(const struct gb_cgroup *g);
/* Processes of it that the OOM killer took since gb_cgroup_take. */
uint64_t gb_cgroup_oom_kills(const struct gb_cgroup *g);

/* The number after "key " on a line of its own in a flat keyed file; 0 if there is none. */
uint64_t gb_flat_key(const char *text, const char *key);

#endif
