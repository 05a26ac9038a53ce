#include "guest/cgroup.h"
#include "guest/agent.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define TOOLS            "tools"
#define MEMORY_RESERVE   ((uint64_t)16 << 20) /* never the tools': agent, relay, kernel */
#define MEMORY_SHARE     16                   /* or this part of it all, if that is more */
#define MEMORY_CEILING   ((uint64_t)128 << 20)
#define MEMORY_A_PROCESS ((uint64_t)1 << 20) /* what a small one takes, with its share of the kernel */
#define PROCESSES_MIN    ((uint64_t)512)
#define PROCESSES_MAX    ((uint64_t)16384) /* half of the kernel's pids */
#define WORKING_SET_MS   "1000"
#define MEMINFO_MAX      4096
#define EVENTS_TEXT_MAX  512

uint64_t gb_flat_key(const char *text, const char *key)
{
	size_t len = strlen(key);
	uint64_t v = 0;

	for (const char *p = text; p && *p;) {
		const char *end = strchr(p, '\n');

		if (strncmp(p, key, len) == 0 && p[len] == ' ') {
			p += len;
			p += strspn(p, " ");
			for (; *p >= '0' && *p <= '9'; p++)
				v = v * 10 + (uint64_t)(*p - '0');
			return v;
		}
		p = end ? end + 1 : NULL;
	}
	return 0;
}

static uint64_t read_key(int fd, const char *key)
{
	char text[EVENTS_TEXT_MAX];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = 0;
	return gb_flat_key(text, key);
}

static int write_number(int dir, const char *path, uint64_t n, struct gb_err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return gb_write_knob(dir, path, text, err);
}

static int available_memory(struct gb_agent *a, uint64_t *ret, struct gb_err *err)
{
	gb_auto_fd fd = openat(a->proc, "meminfo", O_RDONLY | O_CLOEXEC);
	char text[MEMINFO_MAX];
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read the memory's size");
	text[n] = 0;
	*ret = gb_flat_key(text, "MemAvailable:") << 10;
	return 0;
}

/* Without swap, a machine whose memory is full reads its programs from the disk again and
 * again for minutes before the kernel gives up. The multi-generation LRU ends that at once:
 * when it would have to evict what was used within the last second, something is killed.
 * False: this kernel lacks it. */
static bool stop_thrashing(struct gb_agent *a)
{
	return gb_write_knob(a->sys, "kernel/mm/lru_gen/enabled", "y", NULL) == 0 &&
		gb_write_knob(a->sys, "kernel/mm/lru_gen/min_ttl_ms", WORKING_SET_MS, NULL) == 0;
}

/* Without that, a reserve makes the tools run out of memory before the machine does, and
 * the kernel's victim is one of them in any case. No request may take all processes that
 * there can be, so that another one can still be started. */
static int limit_tools(struct gb_agent *a, struct gb_err *err)
{
	uint64_t memory, reserve, processes;
	int r = available_memory(a, &memory, err);

	if (r < 0)
		return r;
	reserve = GB_MIN(GB_MAX(MEMORY_RESERVE, memory / MEMORY_SHARE), MEMORY_CEILING);
	processes = GB_MAX(GB_MIN(memory / MEMORY_A_PROCESS, PROCESSES_MAX), PROCESSES_MIN);
	a->cgroup_pool.processes = processes / 2;
	if (!stop_thrashing(a) && memory > 2 * reserve)
		r = write_number(a->cgroups, TOOLS "/memory.max", memory - reserve, err);
	return r < 0 ? r : write_number(a->cgroups, TOOLS "/pids.max", processes, err);
}

int gb_cgroups_init(struct gb_agent *a, struct gb_err *err)
{
	int r = gb_write_knob(a->cgroups, "cgroup.subtree_control", "+memory +pids", err);

	if (r < 0)
		return r;
	if (mkdirat(a->cgroups, TOOLS, 0755) < 0)
		return gb_fail_sys(err, errno, "cannot make the tools' cgroup");
	r = gb_write_knob(
		a->cgroups, TOOLS "/cgroup.subtree_control", "+memory +pids", err);
	return r < 0 ? r : limit_tools(a, err);
}

static void cgroup_free(struct gb_cgroup *g)
{
	gb_fd_close(&g->dir);
	gb_fd_close(&g->memory_events);
	gb_watch_close(&g->emptied);
	free(g);
}

static int open_parts(struct gb_agent *a, struct gb_cgroup *g, struct gb_err *err)
{
	char name[32];

	snprintf(name, sizeof(name), TOOLS "/%u", a->cgroup_pool.made);
	if (mkdirat(a->cgroups, name, 0755) < 0 && errno != EEXIST)
		return gb_fail_sys(err, errno, "cannot make a cgroup");
	g->dir = openat(a->cgroups, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (g->dir < 0)
		return gb_fail_sys(err, errno, "cannot open a cgroup");
	g->memory_events = openat(g->dir, "memory.events", O_RDONLY | O_CLOEXEC);
	g->emptied.fd = openat(g->dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (g->memory_events < 0 || g->emptied.fd < 0)
		return gb_fail_sys(err, errno, "cannot open a cgroup's events");
	if (write_number(g->dir, "pids.max", a->cgroup_pool.processes, err) < 0)
		return err ? err->code : GB_E_IO;
	return gb_write_knob(g->dir, "cgroup.max.descendants", "0", err);
}

static int cgroup_make(struct gb_agent *a, struct gb_cgroup **ret, struct gb_err *err)
{
	struct gb_cgroup *g;
	int r;

	if (a->cgroup_pool.made >= GB_CGROUP_MAX)
		return gb_fail(err, GB_E_BUSY,
			"%d commands have left processes in the background: end some of them",
			GB_CGROUP_MAX);
	g = calloc(1, sizeof(*g));
	if (!g)
		return gb_nomem(err);
	g->dir = g->memory_events = g->emptied.fd = -1;
	r = open_parts(a, g, err);
	if (r < 0) {
		cgroup_free(g);
		return r;
	}
	a->cgroup_pool.made++;
	*ret = g;
	return 0;
}

int gb_cgroup_take(struct gb_agent *a, struct gb_cgroup **ret, struct gb_err *err)
{
	struct gb_cgroup *g = a->cgroup_pool.free;
	int r = 0;

	if (g)
		a->cgroup_pool.free = g->next_free;
	else
		r = cgroup_make(a, &g, err);
	if (r < 0)
		return r;
	g->next_free = NULL;
	g->left = false;
	*ret = g;
	return 0;
}

bool gb_cgroup_empty(const struct gb_cgroup *g)
{
	return read_key(g->emptied.fd, "populated") == 0;
}

uint64_t gb_cgroup_oom_kills(const struct gb_cgroup *g)
{
	return read_key(g->memory_events, "oom_kill") - g->oom_before;
}

void gb_cgroup_kill(const struct gb_cgroup *g)
{
	gb_write_knob(g->dir, "cgroup.kill", "1", NULL);
}

static void to_pool(struct gb_agent *a, struct gb_cgroup *g)
{
	if (g->watched)
		epoll_ctl(a->epoll, EPOLL_CTL_DEL, g->emptied.fd, NULL);
	g->watched = false;
	g->left = false;
	g->oom_before = read_key(g->memory_events, "oom_kill");
	g->next_free = a->cgroup_pool.free;
	a->cgroup_pool.free = g;
}

static void on_events(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	struct gb_cgroup *g = w->owner;

	(void)events;
	if (g->left && gb_cgroup_empty(g))
		to_pool(a, g);
}

void gb_cgroup_watch(struct gb_agent *a, struct gb_cgroup *g)
{
	struct epoll_event ev = { .events = EPOLLPRI | EPOLLET, .data.ptr = &g->emptied };

	if (g->watched)
		return;
	g->emptied.fn = on_events;
	g->emptied.owner = g;
	g->watched = epoll_ctl(a->epoll, EPOLL_CTL_ADD, g->emptied.fd, &ev) == 0;
}

void gb_cgroup_leave(struct gb_agent *a, struct gb_cgroup *g)
{
	if (gb_cgroup_empty(g)) {
		to_pool(a, g);
		return;
	}
	g->left = true;
	gb_cgroup_watch(a, g);
	/* it may have become empty before it was watched */
	if (gb_cgroup_empty(g))
		to_pool(a, g);
}
