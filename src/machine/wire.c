#include "machine/wire.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define WIRE_OUT_MAX ((size_t)64 << 20)

void gb_wire_init(struct gb_wire *w, int fd_consume)
{
	w->fd = fd_consume;
	gb_fd_nonblock(fd_consume, true, NULL);
	gb_frame_reader_init(&w->in);
	gb_buf_init(&w->out, WIRE_OUT_MAX);
}

void gb_wire_done(struct gb_wire *w)
{
	gb_fd_close(&w->fd);
	gb_frame_reader_done(&w->in);
	gb_buf_done(&w->out);
}

short gb_wire_events(const struct gb_wire *w)
{
	return (short)(POLLIN | (w->out.len ? POLLOUT : 0));
}

static int gone(struct gb_err *err)
{
	return gb_fail(err, GB_E_CLOSED,
		"the machine's supervisor ended unexpectedly (glovebox logs shows why)");
}

int gb_wire_flush(struct gb_wire *w, struct gb_err *err)
{
	int r = gb_buf_check(&w->out, "what is to be sent", err);
	size_t done = 0;

	if (r < 0)
		return r;
	while (done < w->out.len) {
		ssize_t n = send(w->fd, w->out.data + done, w->out.len - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		/* its last words may still wait to be read: reading finds them, or the end */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			gb_buf_reset(&w->out);
			return 0;
		}
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot write to the supervisor");
		done += (size_t)n;
	}
	gb_buf_consume(&w->out, done);
	return 0;
}

int gb_wire_fill(struct gb_wire *w, struct gb_err *err)
{
	size_t room;
	uint8_t *to = gb_frame_reader_room(&w->in, &room);
	ssize_t n;

	if (!to)
		return gb_nomem(err);
	do {
		n = recv(w->fd, to, room, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return gone(err);
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read from the supervisor");
	gb_frame_reader_filled(&w->in, (size_t)n);
	return 0;
}

int gb_wire_next(struct gb_wire *w, struct gb_frame *ret, struct gb_err *err)
{
	return gb_frame_reader_next(&w->in, ret, err);
}

int gb_wire_receive(struct gb_wire *w, uint64_t deadline_ns, struct gb_frame *ret,
	struct gb_err *err)
{
	for (;;) {
		int r = gb_wire_next(w, ret, err);

		if (r)
			return r < 0 ? r : 0;
		r = gb_wire_flush(w, err);
		if (r == 0)
			r = gb_fd_wait(w->fd, gb_wire_events(w), deadline_ns, err);
		if (r < 0)
			return r;
		r = gb_wire_fill(w, err);
		if (r < 0)
			return r;
	}
}
