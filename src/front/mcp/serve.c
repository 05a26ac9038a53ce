/* One thread waits for everything: the client's lines, room for ours, answers of calls (which run
 * in the library's threads), the machine's start (in a thread, which tells by a pipe), signals.
 *
 * When the client has closed our input but can still read, calls that run get a moment to end;
 * whatever has not by then is cancelled. When nobody reads any more, and on a signal, all is
 * cancelled at once. If we are killed, the supervisor sees the connection end and does the same. */
#include "front/mcp/serve.h"

#include "base/clock.h"
#include "base/fd.h"
#include "front/mcp/server.h"
#include "lib/tool_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#define READ_CHUNK    ((size_t)64 << 10)
#define WRITE_CHUNK   ((size_t)4096) /* what can be written to a pipe that poll calls writable */
#define OUT_HIGH      ((size_t)4 << 20) /* unread answers from which on nothing more is taken in */
#define OUT_KEEP      ((size_t)1 << 20) /* memory that is kept for the next answer */
#define EOF_GRACE_MS  1500
#define END_GRACE_MS  500

enum { SLOT_IN, SLOT_OUT, SLOT_SIGNAL, SLOT_NOTES, SLOT_CALLS };

struct serve {
	const struct gb_mcp_serve *options;
	struct gb_mcp mcp;
	struct gb_rpc_reader reader;
	size_t written; /* of mcp.out */
	struct glovebox_workspace *ws;
	struct glovebox_tools *tools;

	pthread_t starter;
	bool starting;
	int notes; /* the starter's lines; -1 when it does not run */
	int notes_in; /* the starter's end */
	struct gb_buf note;
	struct glovebox_workspace *started; /* written by the starter, read after it was joined */
	struct gb_err start_error;

	bool in_open;
	bool out_open;
	uint64_t cancel_at; /* GB_NEVER: not leaving */
	uint64_t end_at;
	struct gb_mcp_call *polled[GB_MCP_RUNNING_MAX];
};

/* ---- the starter ---- */

static void pass_note(void *ctx, const char *line)
{
	struct serve *s = ctx;
	gb_auto_done(gb_buf) text = { 0 };

	gb_buf_init(&text, 0);
	gb_buf_add_str(&text, line);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\n')
			text.data[i] = ' ';
	gb_buf_add_byte(&text, '\n');
	if (!text.error)
		gb_fd_write_full(s->notes_in, text.data, text.len, NULL);
}

static void *start_main(void *data)
{
	struct serve *s = data;

	if (s->options->open(s->options->ctx, pass_note, s, &s->started, &s->start_error) < 0)
		s->started = NULL;
	gb_fd_close(&s->notes_in);
	return NULL;
}

static void start_machine(void *ctx)
{
	struct serve *s = ctx;
	int ends[2];
	int r = pipe2(ends, O_CLOEXEC) < 0 ? errno : 0;

	s->started = NULL;
	memset(&s->start_error, 0, sizeof(s->start_error));
	if (!r) {
		s->notes = ends[0];
		s->notes_in = ends[1];
		r = pthread_create(&s->starter, NULL, start_main, s);
		if (r) {
			gb_fd_close(&s->notes_in);
			gb_fail_sys(&s->start_error, r, "cannot start a thread");
		}
		s->starting = !r;
		return;
	}
	gb_fail_sys(&s->start_error, r, "cannot make a pipe");
}

/* It has closed its pipe. */
static void machine_started(struct serve *s)
{
	if (s->starting)
		pthread_join(s->starter, NULL);
	s->starting = false;
	gb_fd_close(&s->notes);
	gb_buf_reset(&s->note);
	s->ws = gb_take_ptr(s->started);
	s->tools = s->ws ? glovebox_workspace_tools(s->ws) : NULL;
	if (s->tools) {
		gb_mcp_up(&s->mcp);
		return;
	}
	if (s->ws)
		gb_nomem(&s->start_error);
	glovebox_workspace_free(gb_take_ptr(s->ws));
	gb_mcp_failed(&s->mcp, &s->start_error);
}

static void read_notes(struct serve *s)
{
	char data[1024];
	ssize_t n = read(s->notes, data, sizeof(data));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		machine_started(s);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		gb_buf_add_byte(&s->note, data[i] == '\n' ? 0 : (uint8_t)data[i]);
		if (data[i] != '\n')
			continue;
		if (!s->note.error)
			gb_mcp_note(&s->mcp, (const char *)s->note.data);
		gb_buf_reset(&s->note);
	}
}

/* ---- calls ---- */

static int start_call(void *ctx, struct gb_mcp_call *call, struct gb_err *err)
{
	struct serve *s = ctx;
	struct gb_tool_args args = call->args;
	struct glovebox_request *request;
	int r;

	memset(&call->args, 0, sizeof(call->args));
	r = gb_tool_call_start(s->tools, &args, &s->options->options, &request, err);
	if (r < 0)
		return r;
	if (glovebox_request_fd(request, NULL) < 0) {
		glovebox_request_free(request);
		return gb_fail(err, GB_E_LIMIT, "no descriptor for a call is left");
	}
	call->job = request;
	return 0;
}

static void cancel_call(void *ctx, struct gb_mcp_call *call)
{
	(void)ctx;
	glovebox_request_cancel(call->job);
}

static void drop_machine(void *ctx)
{
	struct serve *s = ctx;

	glovebox_tools_unref(gb_take_ptr(s->tools));
	glovebox_workspace_free(gb_take_ptr(s->ws));
}

static void complain(void *ctx, const char *text)
{
	struct serve *s = ctx;

	s->options->complain(text);
}

static const struct gb_mcp_ops ops = { start_machine, start_call, cancel_call, drop_machine,
	complain };

static void finish_call(struct serve *s, struct gb_mcp_call *call)
{
	struct glovebox_request *request = call->job;
	struct gb_tool_answer answer;
	struct gb_err why = { 0 };
	int r;

	if (!glovebox_request_ended(request))
		return;
	r = gb_tool_call_answer(request, &answer, &why);
	gb_mcp_done(&s->mcp, call, r < 0 ? NULL : &answer, &why);
	if (r == 0)
		gb_tool_answer_done(&answer);
	glovebox_request_free(request);
}

/* ---- in and out ---- */

static void leave(struct serve *s, uint64_t grace_ms)
{
	s->in_open = false;
	s->cancel_at = GB_MIN(s->cancel_at, gb_deadline_ms(grace_ms));
}

static int read_lines(struct serve *s, struct gb_err *err)
{
	uint8_t data[READ_CHUNK];
	ssize_t n = read(STDIN_FILENO, data, sizeof(data));
	const char *line;
	size_t len;
	int r;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		leave(s, EOF_GRACE_MS);
		return 0;
	}
	r = gb_rpc_reader_add(&s->reader, data, (size_t)n, err);
	while (r == 0) {
		int got = gb_rpc_reader_next(&s->reader, &line, &len);

		if (got == 0)
			break;
		if (got < 0)
			gb_mcp_too_long(&s->mcp);
		else
			gb_mcp_line(&s->mcp, line, len);
	}
	return r;
}

static void write_some(struct serve *s)
{
	struct gb_buf *out = &s->mcp.out;
	ssize_t n = write(STDOUT_FILENO, out->data + s->written,
		GB_MIN(out->len - s->written, WRITE_CHUNK));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) {
		s->out_open = false;
		leave(s, 0);
		return;
	}
	s->written += (size_t)n;
	if (s->written == out->len || s->written > OUT_KEEP) {
		gb_buf_consume(out, s->written);
		s->written = 0;
	}
	if (!out->len && out->cap > OUT_KEEP) {
		gb_buf_done(out);
		gb_buf_init(out, GB_MCP_OUT_MAX);
	}
}

static size_t fill_polls(struct serve *s, struct pollfd *p)
{
	size_t n = SLOT_CALLS;
	bool more = s->mcp.out.len - s->written < OUT_HIGH;

	p[SLOT_IN] = (struct pollfd){ s->in_open && more ? STDIN_FILENO : -1, POLLIN, 0 };
	p[SLOT_OUT] = (struct pollfd){ s->out_open ? STDOUT_FILENO : -1,
		s->mcp.out.len > s->written ? POLLOUT : 0, 0 };
	p[SLOT_SIGNAL] = (struct pollfd){ s->options->signal_fd, POLLIN, 0 };
	p[SLOT_NOTES] = (struct pollfd){ s->notes, POLLIN, 0 };
	for (struct gb_mcp_call *c = s->mcp.first; c && more; c = c->next) {
		if (!c->running)
			continue;
		s->polled[n - SLOT_CALLS] = c;
		p[n++] = (struct pollfd){ glovebox_request_fd(c->job, NULL), POLLIN, 0 };
	}
	return n;
}

static int handle(struct serve *s, const struct pollfd *p, size_t n, struct gb_err *err)
{
	char signo;
	int r = 0;

	if (p[SLOT_SIGNAL].revents && read(p[SLOT_SIGNAL].fd, &signo, 1) > 0)
		leave(s, 0);
	if (p[SLOT_OUT].revents & (POLLERR | POLLHUP | POLLNVAL)) {
		s->out_open = false;
		leave(s, 0);
	} else if (p[SLOT_OUT].revents & POLLOUT) {
		write_some(s);
	}
	/* before new lines: a call that a line cancels must not be gone from the list */
	for (size_t i = SLOT_CALLS; i < n; i++)
		if (p[i].revents)
			finish_call(s, s->polled[i - SLOT_CALLS]);
	if (p[SLOT_NOTES].revents)
		read_notes(s);
	if (p[SLOT_IN].revents)
		r = read_lines(s, err);
	return r == 0 ? gb_buf_check(&s->mcp.out, "an answer", err) : r;
}

static bool is_over(struct serve *s)
{
	uint64_t now = gb_now_ns();
	bool quiet = !s->mcp.first && (!s->out_open || s->mcp.out.len == s->written);

	if (s->cancel_at == GB_NEVER)
		return false;
	if (s->cancel_at <= now && s->end_at == GB_NEVER) {
		gb_mcp_leave(&s->mcp);
		s->end_at = gb_deadline_ms(END_GRACE_MS);
		quiet = !s->mcp.first && !s->out_open;
	}
	return quiet || s->end_at <= now;
}

static int loop(struct serve *s, struct gb_err *err)
{
	while (!is_over(s)) {
		struct pollfd p[SLOT_CALLS + GB_MCP_RUNNING_MAX];
		uint64_t due = gb_mcp_tick(&s->mcp, gb_now_ns());
		size_t n;
		int r;

		/* its start could not even begin */
		if (s->mcp.machine == GB_MCP_STARTING && !s->starting) {
			machine_started(s);
			continue;
		}
		due = GB_MIN(due, s->end_at == GB_NEVER ? s->cancel_at : s->end_at);
		n = fill_polls(s, p);
		if (poll(p, (nfds_t)n, gb_deadline_poll_ms(due)) < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot wait");
		r = handle(s, p, n, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Calls that have not ended go with the connection. */
static void close_all(struct serve *s)
{
	for (struct gb_mcp_call *c = s->mcp.first; c; c = c->next)
		if (c->running)
			glovebox_request_free(c->job);
	drop_machine(s);
	gb_mcp_close(&s->mcp);
	gb_rpc_reader_done(&s->reader);
	gb_buf_done(&s->note);
}

int gb_mcp_serve(const struct gb_mcp_serve *options, struct gb_err *err)
{
	struct serve s = { .options = options, .notes = -1, .notes_in = -1, .in_open = true,
		.out_open = true, .cancel_at = GB_NEVER, .end_at = GB_NEVER };
	int r = gb_mcp_init(&s.mcp, &ops, &s, options->folder, err);

	if (r < 0)
		return r;
	gb_rpc_reader_init(&s.reader);
	gb_buf_init(&s.note, 4096);
	r = loop(&s, err);
	/* a start that is under way cannot be waited for: the process ends with it, and the
	 * supervisor sees its only client gone */
	if (s.starting)
		_exit(r < 0 ? 1 : 0);
	close_all(&s);
	return r;
}
