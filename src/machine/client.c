#include "machine/client_impl.h"
#include "base/clock.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* Making image-independent parts (bundle, template) at the first start can take a while. */
#define START_DEADLINE_MS   UINT64_C(300000)
#define CONNECT_DEADLINE_MS UINT64_C(300000)
#define STATUS_DEADLINE_MS  UINT64_C(10000)
/* How long a kill -9 may take to be seen. */
#define KILL_DEADLINE_MS UINT64_C(10000)
/* How long a machine that ends may take until it is started anew, and how often. */
#define ENDING_DEADLINE_MS UINT64_C(15000)
#define START_ATTEMPTS     3
#define PROBE_DEADLINE_MS  UINT64_C(1000)
#define CONNECT_RETRY_MS 2
#define CONNECT_RETRY_MAX_MS 50

static struct gb_client *client_new(int fd_consume)
{
	struct gb_client *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd_consume);
		return NULL;
	}
	gb_wire_init(&c->wire, fd_consume);
	c->next_request = 1;
	gb_msg_add_hello(&c->wire.out, "client");
	return c;
}

struct gb_client *gb_client_free(struct gb_client *c)
{
	if (c)
		gb_wire_done(&c->wire);
	free(c);
	return NULL;
}

int gb_client_unexpected(const struct gb_frame *f, struct gb_err *err)
{
	return gb_fail(err, GB_E_PROTOCOL, "the supervisor sent %s out of turn",
		gb_frame_type_name(f->type));
}

static int pass_note(const struct gb_frame *f, gb_client_progress progress, void *ctx,
	struct gb_err *err)
{
	gb_auto_done(gb_msg_note) m = { 0 };
	int r = gb_msg_note_decode(f->payload, f->length, &m, err);

	if (r == 0 && progress)
		progress(ctx, m.text);
	return r;
}

/* The supervisor answers HELLO when its machine is ready, or one ERROR. A NOTE says that it makes
 * what is made once, which has time of its own. */
static int await_hello(struct gb_client *c, gb_client_progress progress, void *ctx,
	uint64_t deadline_ns, struct gb_err *err)
{
	for (;;) {
		struct gb_frame f;
		int r = gb_wire_receive(&c->wire, deadline_ns, &f, err);

		if (r < 0)
			return r;
		switch (f.type) {
		case GB_FRAME_NOTE:
			r = pass_note(&f, progress, ctx, err);
			if (r < 0)
				return r;
			deadline_ns = GB_MAX(deadline_ns, gb_deadline_ms(START_DEADLINE_MS));
			break;
		case GB_FRAME_HELLO:
			return gb_msg_check_hello(f.payload, f.length, "the supervisor", err);
		case GB_FRAME_ERROR:
			return gb_msg_take_error(f.payload, f.length, err);
		default:
			return gb_client_unexpected(&f, err);
		}
	}
}

/* Connects to the socket of a supervisor that is there or coming up. */
static int connect_running(const struct gb_dirs *d, const char *name, struct gb_client **ret,
	struct gb_err *err)
{
	gb_auto_free char *path = gb_machine_socket(d, name);
	uint64_t deadline = gb_deadline_ms(CONNECT_DEADLINE_MS);
	int wait_ms = CONNECT_RETRY_MS;

	if (!path)
		return gb_nomem(err);
	for (;;) {
		struct gb_machine_info info;
		int fd = -1;
		int r = gb_unix_connect(path, &fd, err);

		if (r == 0) {
			*ret = client_new(fd);
			return *ret ? 0 : gb_nomem(err);
		}
		if (r != GB_E_NOTFOUND && r != GB_E_CLOSED)
			return r;
		r = gb_machine_inspect(d, name, &info, err);
		if (r < 0)
			return r;
		gb_machine_info_done(&info);
		if (!info.supervisor)
			return gb_fail(err, GB_E_STATE,
				"machine '%s' is not running (glovebox start %s starts it)",
				name, name);
		if (gb_deadline_passed(deadline))
			return gb_fail(err, GB_E_TIMEOUT,
				"machine '%s' runs (process %d) but its socket '%s' is gone: "
				"stop it (glovebox stop %s)",
				name, (int)info.supervisor, path, name);
		/* between its lock and its socket a supervisor passes in a moment */
		poll(NULL, 0, wait_ms);
		wait_ms = GB_MIN(wait_ms * 2, CONNECT_RETRY_MAX_MS);
	}
}

int gb_client_connect(const struct gb_dirs *d, const char *name, struct gb_client **ret,
	struct gb_err *err)
{
	gb_auto(gb_client) *c = NULL;
	int r = connect_running(d, name, &c, err);

	if (r == 0)
		r = await_hello(c, NULL, NULL, gb_deadline_ms(CONNECT_DEADLINE_MS), err);
	if (r < 0)
		return r;
	*ret = gb_take_ptr(c);
	return 0;
}

static int spawn_supervisor(const struct gb_dirs *d, const char *name, bool bound, int peer,
	struct gb_err *err)
{
	gb_auto_free char *role = NULL;
	gb_auto_free char *log_path = gb_machine_path(d, name, "supervisor.log");
	gb_auto_fd log = -1;
	char *argv[] = { NULL, (char *)(uintptr_t)name,
		bound ? (char *)(uintptr_t) "--bound" : NULL, NULL };
	struct gb_fd_map fds[2] = { { .from = peer, .to = 3 } };
	struct gb_spawn s = { .argv = argv, .fds = fds, .fd_count = 2, .new_session = true,
		.cwd = "/" };
	pid_t pid;
	int status;
	int r = gb_role_path("supervisor", &role, err);

	if (r < 0)
		return r;
	if (!log_path)
		return gb_nomem(err);
	log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", log_path);
	fds[1] = (struct gb_fd_map){ .from = log, .to = 2 };
	argv[0] = role;
	r = gb_spawn(&s, &pid, err);
	if (r < 0)
		return r;
	/* it forks itself away from us at once */
	return gb_wait_child(pid, gb_deadline_ms(START_DEADLINE_MS), &status, err);
}

static uint64_t start_deadline(const struct gb_client_start_options *o)
{
	return gb_deadline_ms(o->deadline_ms ? o->deadline_ms : START_DEADLINE_MS);
}

static int start_new(const struct gb_dirs *d, const char *name,
	const struct gb_client_start_options *o, struct gb_client **ret, struct gb_err *err)
{
	gb_auto(gb_client) *c = NULL;
	gb_auto_fd peer = -1;
	int pair[2];
	int r = gb_socketpair(pair, err);

	if (r < 0)
		return r;
	peer = pair[1];
	c = client_new(pair[0]);
	if (!c)
		return gb_nomem(err);
	r = spawn_supervisor(d, name, o->bound, peer, err);
	if (r < 0)
		return r;
	gb_fd_close(&peer);
	r = await_hello(c, o->progress, o->ctx, start_deadline(o), err);
	/* while it starts it does not see that we leave */
	if (r == GB_E_TIMEOUT)
		gb_client_kill(d, name, gb_deadline_ms(KILL_DEADLINE_MS), NULL);
	if (r < 0)
		return r;
	*ret = gb_take_ptr(c);
	return 0;
}

/* A supervisor whose machine was killed a moment ago does not know it yet and greets us; what
 * we then asked for would be lost, and could not be asked for again, since it may have begun.
 * So the guest is asked for nothing first. A guest that is only slow (63 requests are being
 * served, the host's disk is full) is not waited for here: its answer is dropped later. */
static int probe(struct gb_client *c, gb_client_progress progress, void *ctx, struct gb_err *err)
{
	struct gb_msg_bench nothing = { .kind = GB_BENCH_SEND };
	uint64_t deadline = gb_deadline_ms(PROBE_DEADLINE_MS);
	uint32_t id = c->next_request++;
	int r = 0;

	gb_msg_add_frame(&c->wire.out, GB_FRAME_BENCH, id, &gb_msg_bench_desc, &nothing);
	while (r == 0) {
		struct gb_frame f;

		r = gb_wire_receive(&c->wire, deadline, &f, err);
		if (r == 0 && f.type == GB_FRAME_NOTE)
			r = pass_note(&f, progress, ctx, err);
		else if (r == 0 && f.type == GB_FRAME_ERROR)
			r = gb_msg_take_error(f.payload, f.length, err);
		else if (r == 0 && f.request == id)
			return 0;
	}
	return r == GB_E_TIMEOUT ? 0 : r;
}

static int join_running(const struct gb_dirs *d, const char *name,
	const struct gb_client_start_options *o, bool want_guest, struct gb_client **ret,
	struct gb_err *err)
{
	gb_auto(gb_client) *c = NULL;
	int r = connect_running(d, name, &c, err);

	if (r == 0)
		r = await_hello(c, o->progress, o->ctx, start_deadline(o), err);
	if (r == 0 && want_guest)
		r = probe(c, o->progress, o->ctx, err);
	if (r < 0)
		return r;
	*ret = gb_take_ptr(c);
	return 0;
}

/* True when nobody runs the machine (any more). */
static bool wait_ended(const struct gb_dirs *d, const char *name)
{
	struct gb_machine_info info;
	gb_auto_fd pidfd = -1;

	if (gb_machine_inspect(d, name, &info, NULL) < 0)
		return false;
	gb_machine_info_done(&info);
	if (!info.supervisor)
		return true;
	pidfd = (int)syscall(SYS_pidfd_open, info.supervisor, 0);
	if (pidfd < 0)
		return errno == ESRCH;
	return gb_fd_wait(pidfd, POLLIN, gb_deadline_ms(ENDING_DEADLINE_MS), NULL) == 0;
}

/* *ret_ending: it was running and ends; nothing was asked of it, so it may be started anew. */
static int start_or_join(const struct gb_dirs *d, const char *name,
	const struct gb_client_start_options *o, bool want_guest, bool *ret_ending,
	struct gb_client **ret, struct gb_err *err)
{
	struct gb_machine_info info;
	int r = gb_machine_inspect(d, name, &info, err);

	*ret_ending = false;
	if (r < 0)
		return r;
	gb_machine_info_done(&info);
	r = info.supervisor ? GB_E_BUSY : start_new(d, name, o, ret, err);
	if (r == GB_E_BUSY) {
		r = join_running(d, name, o, want_guest, ret, err);
		*ret_ending = r == GB_E_CLOSED || r == GB_E_STATE;
	}
	return r;
}

int gb_client_start_with(const struct gb_dirs *d, const char *name,
	const struct gb_client_start_options *o, struct gb_client **ret, struct gb_err *err)
{
	gb_auto(gb_client) *c = NULL;
	bool ending;
	int r;

	for (int left = START_ATTEMPTS; left; left--) {
		r = start_or_join(d, name, o, ret != NULL, &ending, &c, err);
		if (r == 0 || !ending || !wait_ended(d, name))
			break;
	}
	if (r < 0)
		return gb_wrap(err, r, "cannot start machine '%s'", name);
	if (ret)
		*ret = gb_take_ptr(c);
	return 0;
}

int gb_client_start(const struct gb_dirs *d, const char *name, bool bound,
	gb_client_progress progress, void *ctx, struct gb_client **ret, struct gb_err *err)
{
	const struct gb_client_start_options o = { .bound = bound, .progress = progress, .ctx = ctx };

	return gb_client_start_with(d, name, &o, ret, err);
}

int gb_client_request(struct gb_client *c, uint8_t type, const struct gb_msg_desc *d,
	const void *msg, uint8_t want, uint64_t deadline_ns, struct gb_frame *ret,
	struct gb_err *err)
{
	uint32_t id = c->next_request++;

	gb_msg_add_frame(&c->wire.out, type, id, d, msg);
	for (;;) {
		int r = gb_wire_receive(&c->wire, deadline_ns, ret, err);

		if (r < 0)
			return r;
		if (ret->type == GB_FRAME_NOTE || ret->request != id)
			continue;
		if (ret->type == GB_FRAME_ERROR)
			return gb_msg_take_error(ret->payload, ret->length, err);
		if (ret->type == want)
			return 0;
		return gb_client_unexpected(ret, err);
	}
}

int gb_client_status(struct gb_client *c, struct gb_msg_status *ret, struct gb_err *err)
{
	struct gb_frame f;
	int r = gb_client_request(c, GB_FRAME_STATUS, NULL, NULL, GB_FRAME_STATUS_REPLY,
		gb_deadline_ms(STATUS_DEADLINE_MS), &f, err);

	if (r < 0)
		return r;
	return gb_msg_status_decode(f.payload, f.length, ret, err);
}

/* Asks nicely over the socket; a failure means that this way does not work. */
static int ask_to_stop(const struct gb_dirs *d, const char *name, uint64_t deadline_ms,
	bool force, struct gb_err *err)
{
	gb_auto_free char *path = gb_machine_socket(d, name);
	gb_auto(gb_client) *c = NULL;
	struct gb_msg_stop m = { .deadline_ms = (uint32_t)GB_MIN(deadline_ms, UINT32_MAX),
		.flags = force ? GB_STOP_FORCE : 0 };
	uint64_t deadline = gb_deadline_ms(deadline_ms + KILL_DEADLINE_MS);
	struct gb_frame f;
	int fd = -1;
	int r = path ? gb_unix_connect(path, &fd, err) : gb_nomem(err);

	if (r < 0)
		return r;
	c = client_new(fd);
	if (!c)
		return gb_nomem(err);
	r = await_hello(c, NULL, NULL, deadline, err);
	if (r < 0)
		return r;
	return gb_client_request(c, GB_FRAME_STOP, &gb_msg_stop_desc, &m, GB_FRAME_OK,
		deadline, &f, err);
}

int gb_client_stop(const struct gb_dirs *d, const char *name, uint64_t deadline_ms, bool force,
	struct gb_err *err)
{
	struct gb_machine_info info;
	gb_auto_fd pidfd = -1;
	int r = gb_machine_inspect(d, name, &info, err);

	if (r < 0)
		return r;
	gb_machine_info_done(&info);
	if (!info.supervisor)
		return 0;
	pidfd = (int)syscall(SYS_pidfd_open, info.supervisor, 0);
	if (pidfd < 0)
		return errno == ESRCH ? 0 : gb_fail_sys(err, errno, "cannot watch the supervisor");
	if (ask_to_stop(d, name, deadline_ms, force, NULL) < 0)
		/* its socket is gone or it does not answer: it stops in order on SIGTERM */
		syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
	if (gb_fd_wait(pidfd, POLLIN, gb_deadline_ms(deadline_ms + KILL_DEADLINE_MS), NULL) == 0)
		return 0;
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	r = gb_fd_wait(pidfd, POLLIN, gb_deadline_ms(KILL_DEADLINE_MS), err);
	if (r < 0)
		return gb_wrap(err, r, "supervisor %d of machine '%s' does not end",
			(int)info.supervisor, name);
	return 0;
}
