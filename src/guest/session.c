#include "guest/session.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "guest/answer.h"
#include "guest/env.h"
#include "guest/shell.h"
#include "guest/world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define OUT_CHUNK      (64u << 10)
#define READS_A_TURN   16   /* of one session, so that the others have their turn */
#define DRAIN_MS       2000 /* from the group's end to that of its pipe */
#define DEFAULT_ROWS   24u
#define DEFAULT_COLS   80u

struct gb_session *gb_session_find(const struct gb_agent *a, uint64_t id)
{
	struct gb_session *s = a->sessions;

	while (s && s->id != id)
		s = s->next;
	return s;
}

static void session_free(struct gb_agent *a, struct gb_session *s)
{
	gb_watch_close(&s->started);
	gb_watch_close(&s->out);
	gb_watch_close(&s->in);
	if (s->cgroup)
		gb_cgroup_leave(a, s->cgroup);
	gb_buf_done(&s->pending);
	gb_buf_done(&s->last);
	gb_capture_done(&s->capture);
	gb_ring_done(&s->scrollback);
	free(s->cmd);
	free(s->workdir);
	free(s);
}

void gb_session_forget(struct gb_agent *a, struct gb_session *s)
{
	struct gb_session **p = &a->sessions;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	session_free(a, s);
}

/* Starting one. */

static void on_started(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	struct gb_session *s = w->owner;

	(void)a;
	(void)events;
	s->started_end = true;
	gb_watch_close(w);
}

static void on_stream(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	(void)a;
	w->in |= (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
	w->out |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
}

static bool is_file(void *ctx, const char *path)
{
	const struct gb_agent *a = ctx;
	gb_auto_fd fd = -1;
	struct stat st;

	return gb_open_in_root(a->root, path, O_PATH, 0, &fd, NULL) == 0 && fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode);
}

static struct gb_session *session_alloc(const struct gb_msg_session_start *m)
{
	struct gb_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->started.fd = s->out.fd = s->in.fd = -1;
	s->tty = m->flags & GB_SESSION_TTY;
	s->has_stdin = s->tty || (m->flags & GB_SESSION_STDIN);
	s->drain_at = GB_NEVER;
	gb_buf_init(&s->pending, GB_SESSION_INPUT_MAX);
	gb_buf_init(&s->last, GB_SESSION_HOLD_MAX);
	gb_capture_init(&s->capture, GB_SESSION_CAPTURE / 2);
	gb_ring_init(&s->scrollback, GB_SESSION_SCROLLBACK);
	s->started_realtime = gb_realtime_ns();
	s->cmd = strdup(m->cmd);
	return s;
}

/* Its ends of the streams: child[] is closed by the caller. */
static int open_streams(struct gb_agent *a, struct gb_session *s, const struct gb_user *u,
	const struct gb_msg_session_start *m, int child[2], struct gb_err *err)
{
	gb_auto_fd out = -1;
	gb_auto_fd in = -1;
	int p[2];
	int r;

	if (s->tty) {
		r = gb_terminal_open(a, u, &out, &child[1], err);
		if (r < 0)
			return r;
		gb_terminal_resize(out, m->rows ? m->rows : DEFAULT_ROWS,
			m->cols ? m->cols : DEFAULT_COLS);
		in = fcntl(out, F_DUPFD_CLOEXEC, 3);
		if (in < 0)
			return gb_fail_sys(err, errno, "cannot open a terminal");
	} else {
		r = gb_exec_make_pipe(p, 0, true, err);
		if (r < 0)
			return r;
		out = p[0];
		child[1] = p[1];
	}
	if (!s->tty && s->has_stdin) {
		r = gb_exec_make_pipe(p, 1, false, err);
		if (r < 0)
			return r;
		in = p[1];
		child[0] = p[0];
	}
	r = gb_watch_add(a, &s->out, gb_take_fd(&out), EPOLLIN, on_stream, s, err);
	if (r == 0 && in >= 0)
		r = gb_watch_add(a, &s->in, gb_take_fd(&in), EPOLLOUT, on_stream, s, err);
	return r;
}

static int spawn(struct gb_agent *a, struct gb_session *s, struct gb_job *j,
	const struct gb_msg_session_start *m, const struct gb_user *u, struct gb_err *err)
{
	gb_auto_done(gb_strv) env = { 0 };
	gb_auto_done(gb_strv) argv = { 0 };
	struct gb_shell_world shells = { .user_shell = u->shell, .is_file = is_file, .ctx = a };
	struct gb_child c = { .cgroup = s->cgroup,
		.report = &a->reports[j - a->jobs],
		.tty = s->tty,
		.user = u,
		.cwd = s->workdir,
		.program = -1 };
	int child[2] = { -1, -1 };
	int started;
	int r = gb_env_build_tool(a->env.v, m->env.v, u, &env, err);

	shells.path = gb_env_get(env.v, "PATH");
	if (r == 0)
		r = gb_shell_argv(&shells, m->shell, m->cmd, m->flags & GB_SESSION_LOGIN, &argv, err);
	if (r == 0)
		r = open_streams(a, s, u, m, child, err);
	if (r == 0) {
		c.argv = argv.v;
		c.envp = env.v;
		c.stdio[1] = c.stdio[2] = child[1];
		c.stdio[0] = s->tty ? child[1] : child[0] >= 0 ? child[0] : a->null;
		s->begun = gb_now_ns();
		r = gb_child_start(a, &c, &s->pid, &started, err);
	}
	gb_fd_close(&child[0]);
	gb_fd_close(&child[1]);
	return r < 0 ? r : gb_watch_add(a, &s->started, started, EPOLLIN, on_started, s, err);
}

/* A session that is as good as started may need its cgroup killed. */
static int launch(struct gb_agent *a, struct gb_session *s, struct gb_job *j,
	const struct gb_msg_session_start *m, struct gb_err *err)
{
	const struct gb_user *u;
	int r;

	s->workdir = gb_agent_path(a, m->workdir);
	if (!s->cmd || !s->workdir)
		return gb_nomem(err);
	r = gb_user_cached(&a->user_cache, a->root, *m->user ? m->user : a->user,
		GB_USER_SETTLED_NS, &u, err);
	if (r == 0)
		r = gb_cgroup_take(a, &s->cgroup, err);
	return r < 0 ? r : spawn(a, s, j, m, u, err);
}

static unsigned count(const struct gb_agent *a, bool ended)
{
	unsigned n = 0;

	for (const struct gb_session *s = a->sessions; s; s = s->next)
		n += (s->state == GB_SESSION_ENDED) == ended;
	return n;
}

bool gb_sessions_live(const struct gb_agent *a)
{
	return count(a, false) > 0;
}

int gb_session_new(struct gb_agent *a, struct gb_job *j, const struct gb_msg_session_start *m,
	struct gb_err *err)
{
	struct gb_session *s;
	int r;

	if (count(a, false) >= GB_SESSIONS_LIVE_MAX)
		return gb_fail(err, GB_E_LIMIT,
			"%u sessions are running: end one first, with U+0003 as its input "
			"or by terminating it", GB_SESSIONS_LIVE_MAX);
	s = session_alloc(m);
	if (!s)
		return gb_nomem(err);
	s->id = ++a->session_sequence;
	r = launch(a, s, j, m, err);
	if (r < 0) {
		if (s->pid > 0)
			gb_cgroup_kill(s->cgroup);
		session_free(a, s);
		return r;
	}
	s->next = a->sessions;
	a->sessions = s;
	s->waiter = j;
	return 0;
}

/* What is done to it. */

void gb_session_signal(const struct gb_session *s, int signo)
{
	gb_signal_group(s->tty ? s->out.fd : -1, s->pid, s->reaped, signo);
}

void gb_session_kill(struct gb_agent *a, struct gb_session *s)
{
	if (s->state >= GB_SESSION_ENDING)
		return;
	s->doomed = true;
	s->state = GB_SESSION_ENDING;
	gb_cgroup_kill(s->cgroup);
	gb_cgroup_watch(a, s->cgroup);
}

int gb_session_feed(struct gb_session *s, const void *data, size_t len, struct gb_err *err)
{
	if (!len)
		return 0;
	if (!s->has_stdin)
		return gb_fail(err, GB_E_STATE,
			"stdin is closed for session %llu: run the command again with tty "
			"enabled to send it input", (unsigned long long)s->id);
	if (s->in.fd < 0 || s->input_eof)
		return gb_fail(err, GB_E_CLOSED, "session %llu takes no more input",
			(unsigned long long)s->id);
	if (s->pending.len + len > GB_SESSION_INPUT_MAX)
		return gb_fail(err, GB_E_BUSY,
			"session %llu does not read its input: %zu bytes wait for it",
			(unsigned long long)s->id, s->pending.len - s->written);
	gb_buf_add(&s->pending, data, len);
	if (s->pending.error) {
		s->pending.error = 0;
		return gb_nomem(err);
	}
	return 0;
}

/* Moving bytes. */

static void take_output(struct gb_agent *a, struct gb_session *s, const uint8_t *data, size_t n)
{
	s->bytes += n;
	gb_capture_add(&s->capture, data, n);
	gb_ring_add(&s->scrollback, data, n);
	gb_attached_add(a, s, data, n);
}

static void read_output(struct gb_agent *a, struct gb_session *s)
{
	static uint8_t data[OUT_CHUNK];

	for (int i = 0; i < READS_A_TURN && s->out.fd >= 0 && s->out.in; i++) {
		ssize_t n = read(s->out.fd, data, sizeof(data));

		if (n > 0)
			take_output(a, s, data, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			s->out.in = false;
		else if (n == 0 || errno != EINTR)
			gb_watch_close(&s->out); /* EIO: the last user of a terminal left */
	}
}

static bool input_movable(const struct gb_session *s)
{
	return s->in.fd >= 0 && s->in.out && (s->pending.len > s->written || s->input_eof);
}

/* End of input on a terminal is a character. */
static void end_input(struct gb_session *s)
{
	struct termios t;
	uint8_t eof = 4;

	if (!s->tty) {
		gb_watch_close(&s->in);
		return;
	}
	if (tcgetattr(s->in.fd, &t) == 0 && t.c_cc[VEOF])
		eof = t.c_cc[VEOF];
	if (write(s->in.fd, &eof, 1) == 1)
		s->input_eof = false; /* it may go on reading */
	else
		s->in.out = false;
}

static void write_input(struct gb_session *s)
{
	size_t left = s->pending.len - s->written;
	ssize_t n;

	if (left == 0) {
		end_input(s);
		return;
	}
	n = write(s->in.fd, s->pending.data + s->written, left);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		s->in.out = errno == EINTR;
		return;
	}
	if (n < 0) { /* it reads no more */
		gb_watch_close(&s->in);
		n = (ssize_t)left;
	}
	s->written += (size_t)n;
	if (s->written == s->pending.len) {
		gb_buf_done(&s->pending);
		gb_buf_init(&s->pending, GB_SESSION_INPUT_MAX);
		s->written = 0;
	}
}

/* Its life. */

static void check_started(struct gb_agent *a, struct gb_session *s)
{
	const struct gb_report *r;

	if (s->state != GB_SESSION_STARTING || (!s->started_end && !s->reaped))
		return;
	/* its job is not answered before */
	r = &a->reports[s->waiter - a->jobs];
	s->state = GB_SESSION_LIVE;
	s->shown_pid = (uint32_t)r->pid;
	if (r->err.code) {
		s->failure = r->err;
		s->failure.msg[sizeof(s->failure.msg) - 1] = 0;
		gb_session_kill(a, s);
	}
}

static void finish(struct gb_agent *a, struct gb_session *s)
{
	s->state = GB_SESSION_ENDED;
	s->oom = gb_cgroup_oom_kills(s->cgroup) > 0;
	s->drain_at = GB_NEVER;
	gb_watch_close(&s->started);
	gb_watch_close(&s->out);
	gb_watch_close(&s->in);
	gb_buf_done(&s->pending);
	gb_cgroup_leave(a, s->cgroup);
	s->cgroup = NULL;
	gb_attached_end(a, s);
}

static void advance(struct gb_agent *a, struct gb_session *s)
{
	check_started(a, s);
	if (s->state == GB_SESSION_LIVE && s->reaped) {
		gb_session_kill(a, s);
		s->doomed = false;
	}
	if (s->state != GB_SESSION_ENDING || !s->reaped || !gb_cgroup_empty(s->cgroup))
		return;
	if (s->drain_at == GB_NEVER) {
		s->drain_at = gb_deadline_ms(DRAIN_MS);
		s->out.in = true;
	}
	read_output(a, s);
	/* nobody is left who could write more */
	if (s->out.fd < 0 || !s->out.in || gb_deadline_passed(s->drain_at))
		finish(a, s);
}

/* Ended ones that nobody asks for, oldest first: the list has the newest at its front. */
static void drop_old(struct gb_agent *a)
{
	while (count(a, true) > GB_SESSIONS_ENDED_MAX) {
		struct gb_session *oldest = NULL;

		for (struct gb_session *s = a->sessions; s; s = s->next)
			if (s->state == GB_SESSION_ENDED && !s->waiter)
				oldest = s;
		if (!oldest)
			return;
		gb_session_forget(a, oldest);
	}
}

void gb_sessions_turn(struct gb_agent *a)
{
	for (struct gb_session *s = a->sessions; s; s = s->next) {
		if (s->state == GB_SESSION_ENDED)
			continue;
		read_output(a, s);
		if (input_movable(s))
			write_input(s);
		advance(a, s);
	}
	drop_old(a);
}

bool gb_sessions_pending(const struct gb_agent *a)
{
	for (const struct gb_session *s = a->sessions; s; s = s->next)
		if ((s->out.fd >= 0 && s->out.in) || input_movable(s))
			return true;
	return false;
}

uint64_t gb_sessions_deadline(const struct gb_agent *a)
{
	uint64_t at = GB_NEVER;

	for (const struct gb_session *s = a->sessions; s; s = s->next)
		at = GB_MIN(at, s->drain_at);
	return at;
}

bool gb_session_reaped(struct gb_agent *a, pid_t pid, int status)
{
	for (struct gb_session *s = a->sessions; s; s = s->next) {
		if (s->pid != pid || s->reaped)
			continue;
		s->reaped = true;
		s->status = status;
		s->spawn_ns = gb_now_ns() - s->begun;
		return true;
	}
	return false;
}
