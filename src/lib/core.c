/* Owner, capabilities, and how a workspace ends. */
#include "lib/core.h"
#include "base/clock.h"
#include "machine/client.h"
#include "machine/store.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SHUTDOWN_MS     10000u
#define SHUTDOWN_MAX_MS 3600000u
#define LAST_RESORT_MS  500u /* kept of the second deadline for a supervisor that hangs itself */
#define LOG_TAIL        ((size_t)32 << 10)

struct gb_core *gb_core_ref(struct gb_core *core)
{
	atomic_fetch_add(&core->refs, 1);
	return core;
}

static bool is_forked(const struct gb_core *core)
{
	return core->pid != getpid();
}

void gb_core_unref(struct gb_core *core)
{
	if (!core || atomic_fetch_sub(&core->refs, 1) != 1)
		return;
	gb_link_free(core->link, is_forked(core));
	gb_dirs_done(&core->dirs);
	gb_strv_done(&core->secrets);
	gb_mask_done(&core->mask);
	for (size_t i = 0; i < GB_ARRAY_SIZE(core->logs); i++)
		gb_fd_close(&core->logs[i]);
	pthread_mutex_destroy(&core->lock);
	free(core->machine);
	free(core);
}

int gb_core_check(const struct gb_core *core, struct gb_err *err)
{
	if (is_forked(core))
		return gb_fail(err, GB_E_STATE,
			"a workspace cannot be used in a child that was forked");
	return 0;
}

struct glovebox_tools *glovebox_workspace_tools(struct glovebox_workspace *ws)
{
	struct glovebox_tools *tools;

	if (is_forked(ws->core))
		return NULL;
	tools = calloc(1, sizeof(*tools));
	if (!tools)
		return NULL;
	atomic_init(&tools->refs, 1);
	tools->core = gb_core_ref(ws->core);
	pthread_mutex_lock(&ws->core->lock);
	ws->core->counted++;
	pthread_mutex_unlock(&ws->core->lock);
	return tools;
}

struct glovebox_tools *glovebox_workspace_own_tools(struct glovebox_workspace *ws)
{
	return &ws->own;
}

struct glovebox_tools *gb_tools_internal(struct gb_core *core)
{
	struct glovebox_tools *tools = calloc(1, sizeof(*tools));

	if (tools) {
		atomic_init(&tools->refs, 1);
		tools->core = gb_core_ref(core);
		tools->internal = true;
	}
	return tools;
}

void gb_tools_internal_free(struct glovebox_tools *tools)
{
	if (tools)
		gb_core_unref(tools->core);
	free(tools);
}

struct glovebox_tools *glovebox_tools_ref(struct glovebox_tools *tools)
{
	if (!tools->owner)
		atomic_fetch_add(&tools->refs, 1);
	return tools;
}

void glovebox_tools_unref(struct glovebox_tools *tools)
{
	struct gb_core *core;

	if (!tools || tools->owner || atomic_fetch_sub(&tools->refs, 1) != 1)
		return;
	core = tools->core;
	if (!is_forked(core)) {
		pthread_mutex_lock(&core->lock);
		core->counted--;
		pthread_mutex_unlock(&core->lock);
	}
	gb_core_unref(core);
	free(tools);
}

const char *glovebox_tools_machine(const struct glovebox_tools *tools)
{
	return tools->core->machine;
}

const char *glovebox_workspace_machine(const struct glovebox_workspace *ws)
{
	return ws->core->machine;
}

void glovebox_workspace_free(struct glovebox_workspace *ws)
{
	if (!ws)
		return;
	gb_core_unref(ws->core);
	free(ws);
}

int gb_core_kill(const struct gb_dirs *dirs, const char *machine, bool remove,
	uint64_t deadline_ns, struct gb_err *err)
{
	int r = gb_client_kill(dirs, machine, deadline_ns, err);

	if (r == 0 && remove) {
		r = gb_machine_remove(dirs, machine, err);
		if (r == GB_E_NOTFOUND)
			r = 0;
	}
	return r;
}

/* Its last act is to let go of the machine: only then is it stopped for everybody. */
static int await_supervisor(int pidfd, uint64_t deadline_ns, struct gb_err *err)
{
	return pidfd < 0 ? 0 : gb_fd_wait(pidfd, POLLIN, deadline_ns, err);
}

static int shut_down(struct gb_core *core, uint32_t ms, struct gb_err *err)
{
	gb_auto_fd supervisor = gb_client_watch(&core->dirs, core->machine);
	uint64_t begin = gb_now_ns();
	uint64_t in_time = begin + ms * GB_NS_MS;
	uint64_t reserve = GB_MIN(ms / 4, LAST_RESORT_MS);
	uint64_t last = in_time + (ms - reserve) * GB_NS_MS;
	int r;

	pthread_mutex_lock(&core->lock);
	r = gb_link_close(core->link, core->counted, ms, err);
	pthread_mutex_unlock(&core->lock);
	if (r < 0)
		return r;
	r = gb_link_await_end(core->link, last, err);
	if (r == 0)
		r = await_supervisor(supervisor, last, err);
	if (r < 0) {
		r = gb_core_kill(&core->dirs, core->machine, core->made_ephemeral,
			last + reserve * GB_NS_MS, err);
		if (r < 0)
			return r;
	}
	if (gb_now_ns() >= in_time)
		return gb_fail(err, GB_E_TIMEOUT,
			"machine '%s' did not power off within %u ms and was ended",
			core->machine, ms);
	return 0;
}

int glovebox_workspace_shutdown(struct glovebox_workspace *ws, uint32_t deadline_ms,
	struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = gb_core_check(ws->core, &e);

	if (r == 0)
		r = shut_down(ws->core, deadline_ms ? GB_MIN(deadline_ms, SHUTDOWN_MAX_MS)
						    : SHUTDOWN_MS, &e);
	return gb_give_error(err, &e, r);
}

/* The last bytes of a log. */
static void add_tail(struct gb_buf *to, int fd, const char *title)
{
	struct stat st;
	off_t from;
	ssize_t n;
	char *room;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		return;
	from = GB_MAX(st.st_size - (off_t)LOG_TAIL, 0);
	gb_buf_printf(to, "--- %s\n", title);
	room = gb_buf_reserve(to, LOG_TAIL);
	n = room ? pread(fd, room, LOG_TAIL, from) : 0;
	if (n > 0)
		to->len += (size_t)n;
	gb_buf_add_str(to, "\n");
}

int glovebox_workspace_logs(struct glovebox_workspace *ws, char **text, struct glovebox_error *err)
{
	gb_auto_done(gb_buf) to = { 0 };
	struct gb_err e = { 0 };
	int r;

	add_tail(&to, ws->core->logs[0], "console");
	add_tail(&to, ws->core->logs[1], "supervisor");
	/* what a machine wrote may hold NULs */
	for (size_t i = 0; i < to.len; i++)
		if (!to.data[i])
			to.data[i] = '?';
	r = gb_buf_check(&to, "logs", &e);
	if (r == 0) {
		*text = gb_buf_take_str(&to);
		r = *text ? 0 : gb_nomem(&e);
	}
	return gb_give_error(err, &e, r);
}
