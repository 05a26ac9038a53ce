#include "machine/supervisor/supervisor.h"
#include "machine/supervisor/impl.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define CLOCK_EVERY_MS  30000
#define LAST_CLIENT_STOP_MS 10000
#define LAST_FLUSH_MS   2000 /* for the last words to clients that are slow to read */

/* What a disposable machine wrote goes with it, but a root in place is the user's: it is
 * synced and left in order. */
static void check_last_client(struct gb_sup *s)
{
	bool disposable = s->spec.ephemeral && !*s->spec.root;

	if (s->bound && !s->clients && !s->ended)
		gb_sup_stop(s, disposable ? 0 : LAST_CLIENT_STOP_MS, disposable);
}

static void client_unlink(struct gb_sup_client *c)
{
	struct gb_sup_client **at = &c->sup->clients;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
}

static void client_ended(struct gb_conn *conn, const struct gb_err *reason)
{
	struct gb_sup_client *c = conn->owner;
	struct gb_sup *s = c->sup;

	if (reason->code != GB_E_CLOSED) {
		gb_log(GB_LOG_WARN, "a client was dropped: %s", reason->msg);
		gb_sup_send_error(c, 0, reason);
	}
	gb_sup_client_forget(c);
	client_unlink(c);
	gb_conn_close(conn, &s->flusher);
	check_last_client(s);
}

static void client_closed(struct gb_conn *conn)
{
	free(conn->owner);
}

static int client_frame(struct gb_conn *conn, const struct gb_frame *f, struct gb_err *err)
{
	return gb_sup_client_frame(conn->owner, f, err);
}

static const struct gb_conn_ops client_ops = {
	.frame = client_frame,
	.ended = client_ended,
	.closed = client_closed,
};

static int add_client(struct gb_sup *s, int fd_consume, struct gb_err *err)
{
	struct gb_sup_client *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		close(fd_consume);
		return gb_nomem(err);
	}
	c->sup = s;
	c->next = s->clients;
	s->clients = c;
	r = gb_conn_init(&c->conn, &s->loop, fd_consume, &client_ops, c, err);
	if (r < 0) {
		client_unlink(c);
		gb_conn_close(&c->conn, &s->flusher);
	}
	return r;
}

static void accept_clients(uv_poll_t *p, int status, int events)
{
	struct gb_sup *s = p->data;
	uid_t peer;
	int fd;

	(void)status;
	(void)events;
	while ((fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		if (gb_unix_peer_uid(fd, &peer, NULL) < 0 || (peer != getuid() && peer != 0)) {
			gb_log(GB_LOG_WARN, "a connection of another user was refused");
			close(fd);
			continue;
		}
		add_client(s, fd, NULL);
	}
}

static int agent_frame(struct gb_conn *conn, const struct gb_frame *f, struct gb_err *err)
{
	return gb_sup_agent_frame(conn->owner, f, err);
}

static void agent_ended(struct gb_conn *conn, const struct gb_err *reason)
{
	gb_sup_agent_ended(conn->owner, reason);
}

static void agent_closed(struct gb_conn *conn)
{
	(void)conn;
}

static void agent_drained(struct gb_conn *conn)
{
	struct gb_sup *s = conn->owner;

	for (struct gb_sup_client *c = s->clients; c; c = c->next)
		gb_conn_pause(&c->conn, false);
}

static const struct gb_conn_ops agent_ops = {
	.frame = agent_frame,
	.ended = agent_ended,
	.closed = agent_closed,
	.drained = agent_drained,
};

static void clock_tick(uv_timer_t *t)
{
	gb_sup_send_time(t->data);
}

static int init_loop(struct gb_sup *s, int first_client_fd_consume, struct gb_err *err)
{
	int r;

	if (uv_loop_init(&s->loop) < 0 || gb_flusher_init(&s->flusher, &s->loop) < 0) {
		close(first_client_fd_consume);
		return gb_fail(err, GB_E_IO, "cannot make an event loop");
	}
	r = add_client(s, first_client_fd_consume, err);
	if (r == 0)
		r = gb_conn_init(&s->agent, &s->loop, gb_take_fd(&s->boot.agent_fd), &agent_ops,
			s, err);
	if (r == 0)
		r = gb_sup_watch(s, err);
	if (r < 0)
		return r;
	uv_poll_init(&s->loop, &s->listener, s->listen_fd);
	s->listener.data = s;
	uv_poll_start(&s->listener, UV_READABLE, accept_clients);
	uv_timer_init(&s->loop, &s->clock_timer);
	s->clock_timer.data = s;
	uv_timer_start(&s->clock_timer, clock_tick, CLOCK_EVERY_MS, CLOCK_EVERY_MS);
	return 0;
}

static int open_listener(struct gb_sup *s, const char *path, struct gb_err *err)
{
	/* in /tmp somebody else may have made it first */
	int r = gb_mkdir_private(s->dirs.runtime, err);

	if (r == 0)
		r = gb_unix_listen(path, &s->listen_fd, err);
	if (r == 0)
		r = gb_fd_nonblock(s->listen_fd, true, err);
	return r;
}

/* While it starts there is only the first client to talk to. */
struct starting {
	int client;
};

static void start_progress(void *ctx, const char *line)
{
	const struct starting *st = ctx;
	struct gb_msg_note m = { .text = (char *)(uintptr_t)line };
	gb_auto_done(gb_buf) out = { 0 };

	gb_log(GB_LOG_INFO, "%s", line);
	gb_msg_add_frame(&out, GB_FRAME_NOTE, 0, &gb_msg_note_desc, &m);
	if (!out.error)
		gb_fd_write_full(st->client, out.data, out.len, NULL);
}

static void tell_failure(int fd, const struct gb_err *e)
{
	gb_auto_done(gb_buf) out = { 0 };

	gb_msg_add_error(&out, 0, e);
	if (!out.error)
		gb_fd_write_full(fd, out.data, out.len, NULL);
}

/* A start that failed: everybody who waits in the listener's queue hears why. */
static void tell_everybody(struct gb_sup *s, int first, const struct gb_err *e)
{
	int fd;

	tell_failure(first, e);
	while (s->listen_fd >= 0 && (fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		tell_failure(fd, e);
		close(fd);
	}
}

static int bring_up(struct gb_sup *s, const char *name, const char *socket_path, int first,
	struct gb_machine_lock *lock, struct gb_err *err)
{
	struct starting st = { first };
	bool fresh = false;
	int r = gb_machine_load(&s->dirs, name, &s->spec, err);

	if (r == 0)
		r = gb_machine_lock(&s->dirs, name, lock, err);
	if (r < 0)
		return r;
	gb_machine_sweep(&s->dirs);
	r = open_listener(s, socket_path, err);
	/* asked under its lock, before this start leaves its own note */
	if (r == 0)
		fresh = !gb_machine_was_started(&s->dirs, name);
	if (r == 0)
		r = gb_machine_set_last(
			&s->dirs, name, "running", !s->spec.ephemeral, err);
	if (r == 0)
		r = gb_boot_machine(&s->dirs, &s->spec, fresh, start_progress, &st, &s->boot, err);
	if (r < 0)
		gb_machine_set_last(&s->dirs, name, err->msg, true, NULL);
	return r;
}

static void close_client_handles(struct gb_sup *s)
{
	while (s->clients) {
		struct gb_sup_client *c = s->clients;

		s->clients = c->next;
		gb_conn_close(&c->conn, &s->flusher);
	}
}

static bool words_left(const struct gb_sup *s)
{
	for (const struct gb_sup_client *c = s->clients; c; c = c->next)
		if (gb_conn_queued(&c->conn) && !c->conn.closing)
			return true;
	return false;
}

static void give_up(uv_timer_t *t)
{
	*(bool *)t->data = true;
}

/* The loop was stopped: what is queued for clients still goes out, for a moment. */
static void flush_last_words(struct gb_sup *s)
{
	uv_timer_t limit;
	bool late = false;

	uv_timer_init(&s->loop, &limit);
	limit.data = &late;
	uv_timer_start(&limit, give_up, LAST_FLUSH_MS, 0);
	while (!late && words_left(s))
		uv_run(&s->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&limit, NULL);
	uv_run(&s->loop, UV_RUN_NOWAIT);
}

static void clean_up(struct gb_sup *s, const char *socket_path)
{
	gb_boot_done(&s->boot);
	unlink(socket_path);
	gb_machine_set_last(
		&s->dirs, s->spec.name, s->end_text, !s->spec.ephemeral, NULL);
	if (s->spec.ephemeral)
		gb_machine_remove(&s->dirs, s->spec.name, NULL);
	/* only now do clients see the end: what they find then is true */
	close_client_handles(s);
	uv_run(&s->loop, UV_RUN_NOWAIT);
}

int gb_supervisor_run(const char *name, bool bound, int first_client_fd)
{
	struct gb_machine_lock lock = { { -1, -1 } };
	gb_auto_free char *socket_path = NULL;
	struct gb_sup *s = calloc(1, sizeof(*s));
	struct gb_err err = { 0 };
	int r = s ? gb_dirs_init(&s->dirs, &err) : gb_nomem(&err);

	if (r < 0) {
		tell_failure(first_client_fd, &err);
		return r;
	}
	s->bound = bound;
	s->listen_fd = s->share_pidfd = -1;
	s->started_ns = gb_realtime_ns();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	socket_path = gb_machine_socket(&s->dirs, name);
	r = bring_up(s, name, socket_path, first_client_fd, &lock, &err);
	if (r == GB_E_BUSY && s->listen_fd < 0) {
		/* somebody else starts it: our client goes to its socket */
		tell_failure(first_client_fd, &err);
		return r;
	}
	if (r < 0) {
		gb_log(GB_LOG_ERROR, "%s", err.msg);
		/* to a client BUSY says that somebody else starts the machine */
		if (r == GB_E_BUSY)
			err.code = GB_E_STATE;
		tell_everybody(s, first_client_fd, &err);
		if (s->listen_fd >= 0)
			unlink(socket_path);
		return r;
	}
	r = init_loop(s, first_client_fd, &err);
	if (r < 0)
		gb_sup_fail(s, &err);
	else
		uv_run(&s->loop, UV_RUN_DEFAULT);
	flush_last_words(s);
	clean_up(s, socket_path);
	return r;
}
