#include "machine/client_impl.h"
#include "base/clock.h"
#include "proto/flow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>

#define CHUNK ((size_t)128 << 10)
#define MEM_MAJOR  1 /* /dev/null */
#define NULL_MINOR 3

/* One output stream on its way from the machine to a descriptor of ours. */
struct sink {
	int fd;       /* where to: borrowed, or our own second opening of a pipe */
	int own;      /* that second opening, -1 if none */
	bool broken;  /* nobody reads it any more: what comes is dropped */
	bool direct;  /* a write never blocks for long: no need to ask first */
	struct gb_buf pending;
	struct gb_flow_receiver flow;
};

struct exec_run {
	struct gb_client *c;
	const struct gb_exec_io *io;
	uint32_t id;
	struct sink sinks[GB_STREAM_COUNT]; /* [GB_STREAM_IN] is not used */
	struct gb_flow_sender to_guest;
	bool in_open;
	bool ended;
	struct gb_msg_exit exit;
};

/* A pipe that we share with others is opened again for ourselves, so that it can be written
 * without blocking and without changing the flags of everybody else's end. */
static void sink_init(struct sink *s, int fd)
{
	struct stat st;
	char path[32];

	memset(s, 0, sizeof(*s));
	s->own = -1;
	s->fd = fd;
	s->broken = fd < 0;
	gb_buf_init(&s->pending, GB_FLOW_MAX + GB_FRAME_MAX);
	gb_flow_receiver_init(&s->flow);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	s->direct = S_ISREG(st.st_mode) ||
		(S_ISCHR(st.st_mode) && st.st_rdev == makedev(MEM_MAJOR, NULL_MINOR));
	if (!S_ISFIFO(st.st_mode))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	s->own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (s->own < 0)
		return;
	s->fd = s->own;
	s->direct = true;
}

static void sink_done(struct sink *s)
{
	gb_fd_close(&s->own);
	gb_buf_done(&s->pending);
}

static void grant(struct exec_run *run, enum gb_stream stream, size_t consumed)
{
	struct gb_msg_credit m = { 0 };
	struct gb_frame f = { .type = GB_FRAME_CREDIT, .stream = (uint16_t)stream,
		.request = run->id };
	uint8_t payload[4];

	m.bytes = gb_flow_receiver_consumed(&run->sinks[stream].flow, (uint32_t)consumed);
	if (!m.bytes)
		return;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(m.bytes >> (8 * i));
	f.payload = payload;
	f.length = sizeof(payload);
	gb_frame_add(&run->c->wire.out, &f);
}

/* Bytes written, which are granted again; 0: none now. */
static ssize_t write_some(struct exec_run *run, enum gb_stream stream, const uint8_t *data,
	size_t len, struct gb_err *err)
{
	ssize_t n = write(run->sinks[stream].fd, data, len);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0 && errno == EPIPE)
		return gb_fail(err, GB_E_CLOSED, "the reader of the output is gone");
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot write the output");
	grant(run, stream, (size_t)n);
	return n;
}

static int sink_write(struct exec_run *run, enum gb_stream stream, struct gb_err *err)
{
	struct gb_buf *pending = &run->sinks[stream].pending;
	ssize_t n = write_some(run, stream, pending->data, GB_MIN(pending->len, CHUNK), err);

	if (n < 0)
		return (int)n;
	gb_buf_consume(pending, (size_t)n);
	return 0;
}

static int take_data(struct exec_run *run, const struct gb_frame *f, struct gb_err *err)
{
	struct sink *s;
	ssize_t done = 0;
	int r;

	if (f->stream != GB_STREAM_OUT && f->stream != GB_STREAM_ERR)
		return gb_client_unexpected(f, err);
	s = &run->sinks[f->stream];
	r = gb_flow_receiver_arrived(&s->flow, f->length, err);
	if (r < 0)
		return r;
	if (s->broken) {
		grant(run, f->stream, f->length);
		return 0;
	}
	if (s->direct && !s->pending.len && f->length)
		done = write_some(run, f->stream, f->payload, f->length, err);
	if (done < 0)
		return (int)done;
	gb_buf_add(&s->pending, f->payload + done, f->length - (size_t)done);
	return gb_buf_check(&s->pending, "output", err);
}

static int take_credit(struct exec_run *run, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_msg_credit m;
	int r = gb_msg_credit_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	return gb_flow_sender_grant(&run->to_guest, m.bytes, err);
}

static int take_frame(struct exec_run *run, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_note) note = { 0 };
	int r;

	if (f->type == GB_FRAME_NOTE) {
		r = gb_msg_note_decode(f->payload, f->length, &note, err);
		if (r == 0 && run->io->note)
			run->io->note(run->io->note_ctx, note.text);
		return r;
	}
	if (f->request != run->id)
		return 0;
	switch (f->type) {
	case GB_FRAME_STARTED:
		return 0;
	case GB_FRAME_DATA:
		return take_data(run, f, err);
	case GB_FRAME_CREDIT:
		return take_credit(run, f, err);
	case GB_FRAME_ERROR:
		return gb_msg_take_error(f->payload, f->length, err);
	case GB_FRAME_EXIT:
		run->ended = true;
		return gb_msg_exit_decode(f->payload, f->length, &run->exit, err);
	default:
		return gb_client_unexpected(f, err);
	}
}

static void send_stdin(struct exec_run *run, const uint8_t *data, size_t len, bool eof)
{
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = GB_STREAM_IN, .request = run->id,
		.flags = eof ? GB_FRAME_EOF : 0, .payload = data, .length = (uint32_t)len };

	gb_frame_add(&run->c->wire.out, &f);
}

static int read_stdin(struct exec_run *run, struct gb_err *err)
{
	uint8_t chunk[32 << 10];
	size_t want = GB_MIN(sizeof(chunk), (size_t)run->to_guest.credit);
	ssize_t n = read(run->io->in, chunk, want);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	/* a terminal that hung up ends as a file does */
	if (n < 0 && errno != EIO)
		return gb_fail_sys(err, errno, "cannot read standard input");
	if (n <= 0) {
		run->in_open = false;
		send_stdin(run, NULL, 0, true);
		return 0;
	}
	gb_flow_sender_take(&run->to_guest, (uint32_t)n);
	send_stdin(run, chunk, (size_t)n, false);
	return 0;
}

static void read_signals(struct exec_run *run)
{
	uint8_t signals[16];
	ssize_t n = read(run->io->signal_fd, signals, sizeof(signals));

	for (ssize_t i = 0; i < n; i++) {
		struct gb_msg_signal m = { .signo = signals[i] };

		gb_msg_add_frame(&run->c->wire.out, GB_FRAME_SIGNAL, run->id,
			&gb_msg_signal_desc, &m);
	}
}

static void read_winch(struct exec_run *run)
{
	struct gb_msg_winsize m;
	struct winsize size;
	uint8_t drained[64];

	if (read(run->io->winch_fd, drained, sizeof(drained)) <= 0 ||
		ioctl(run->io->out, TIOCGWINSZ, &size) < 0)
		return;
	m.rows = size.ws_row;
	m.cols = size.ws_col;
	gb_msg_add_frame(
		&run->c->wire.out, GB_FRAME_WINSIZE, run->id, &gb_msg_winsize_desc, &m);
}

enum { POLL_WIRE, POLL_IN, POLL_WINCH, POLL_SIGNAL, POLL_OUT, POLL_ERR, POLL_COUNT };

static void fill_poll(const struct exec_run *run, struct pollfd *p)
{
	const struct sink *out = &run->sinks[GB_STREAM_OUT];
	const struct sink *e = &run->sinks[GB_STREAM_ERR];
	bool in = run->in_open && run->to_guest.credit && run->c->wire.out.len < GB_FLOW_WINDOW;

	/* once ended, only what is pending is still written */
	p[POLL_WIRE] = (struct pollfd){ run->ended ? -1 : run->c->wire.fd,
		gb_wire_events(&run->c->wire), 0 };
	p[POLL_IN] = (struct pollfd){ in && !run->ended ? run->io->in : -1, POLLIN, 0 };
	p[POLL_WINCH] = (struct pollfd){ run->ended ? -1 : run->io->winch_fd, POLLIN, 0 };
	p[POLL_SIGNAL] = (struct pollfd){ run->ended ? -1 : run->io->signal_fd, POLLIN, 0 };
	p[POLL_OUT] = (struct pollfd){ out->pending.len ? out->fd : -1, POLLOUT, 0 };
	p[POLL_ERR] = (struct pollfd){ e->pending.len ? e->fd : -1, POLLOUT, 0 };
}

static int handle_wire(struct exec_run *run, struct gb_err *err)
{
	struct gb_frame f;
	int r = gb_wire_flush(&run->c->wire, err);

	if (r == 0)
		r = gb_wire_fill(&run->c->wire, err);
	while (r == 0 && !run->ended) {
		r = gb_wire_next(&run->c->wire, &f, err);
		if (r <= 0)
			return r;
		r = take_frame(run, &f, err);
	}
	return r;
}

static int handle_events(struct exec_run *run, const struct pollfd *p, struct gb_err *err)
{
	int r = 0;

	if (p[POLL_IN].revents)
		r = read_stdin(run, err);
	if (p[POLL_WINCH].revents)
		read_winch(run);
	if (p[POLL_SIGNAL].revents)
		read_signals(run);
	if (r == 0 && p[POLL_OUT].revents)
		r = sink_write(run, GB_STREAM_OUT, err);
	if (r == 0 && p[POLL_ERR].revents)
		r = sink_write(run, GB_STREAM_ERR, err);
	if (r == 0 && !run->ended)
		r = p[POLL_WIRE].revents ? handle_wire(run, err)
					 : gb_wire_flush(&run->c->wire, err);
	return r;
}

static int exec_loop(struct exec_run *run, struct gb_err *err)
{
	while (!run->ended || run->sinks[GB_STREAM_OUT].pending.len ||
		run->sinks[GB_STREAM_ERR].pending.len) {
		struct pollfd p[POLL_COUNT];
		int r;

		fill_poll(run, p);
		if (poll(p, POLL_COUNT, -1) < 0) {
			if (errno == EINTR)
				continue;
			return gb_fail_sys(err, errno, "cannot poll");
		}
		r = handle_events(run, p, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int gb_client_exec(struct gb_client *c, const struct gb_msg_exec *msg, const struct gb_exec_io *io,
	struct gb_msg_exit *ret, struct gb_err *err)
{
	struct exec_run run = { .c = c, .io = io, .id = c->next_request++ };
	int r;

	sink_init(&run.sinks[GB_STREAM_OUT], io->out);
	sink_init(&run.sinks[GB_STREAM_ERR], io->err);
	gb_flow_sender_init(&run.to_guest);
	run.in_open = io->in >= 0 && (msg->flags & GB_EXEC_STDIN);
	gb_msg_add_frame(&c->wire.out, GB_FRAME_EXEC, run.id, &gb_msg_exec_desc, msg);
	r = gb_wire_flush(&c->wire, err);
	if (r == 0)
		r = exec_loop(&run, err);
	sink_done(&run.sinks[GB_STREAM_OUT]);
	sink_done(&run.sinks[GB_STREAM_ERR]);
	if (r < 0) {
		gb_msg_exit_done(&run.exit);
		return r;
	}
	*ret = run.exit;
	return 0;
}
