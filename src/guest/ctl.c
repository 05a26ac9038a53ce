#include "guest/ctl.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

void gb_ctl_init(struct gb_ctl *c, int fd)
{
	memset(c, 0, sizeof(*c));
	c->port.fd = fd;
	c->port.out = true;
	gb_frame_reader_init(&c->reader);
	gb_buf_init(&c->out, GB_CTL_MAX);
}

static void forget_sent(struct gb_ctl *c)
{
	if (c->out_sent < c->out.len && c->out_sent <= GB_CTL_HIGH)
		return;
	gb_buf_consume(&c->out, c->out_sent);
	c->bulk_at -= c->bulk_left ? c->out_sent : 0;
	c->out_sent = 0;
}

/* The next piece to the port: bytes sent, or -1 with errno. */
static ssize_t send_piece(struct gb_ctl *c)
{
	size_t end = c->bulk_left ? c->bulk_at : c->out.len;
	ssize_t n;

	if (c->out_sent < end) {
		n = write(c->port.fd, c->out.data + c->out_sent, end - c->out_sent);
		c->out_sent += n > 0 ? (size_t)n : 0;
		return n;
	}
	n = splice(c->bulk[0], NULL, c->port.fd, NULL, c->bulk_left, SPLICE_F_NONBLOCK);
	/* no memory: nothing was taken from the pipe */
	if (n < 0 && errno == ENOMEM)
		errno = EAGAIN;
	if (n == 0) { /* it cannot be empty: the port's queue failed */
		errno = EIO;
		return -1;
	}
	c->bulk_left -= n > 0 ? (size_t)n : 0;
	return n;
}

int gb_ctl_flush(struct gb_ctl *c, struct gb_err *err)
{
	if (c->out.error)
		return gb_buf_check(&c->out, "queue to the host", err);
	while (gb_ctl_unsent(c)) {
		ssize_t n = send_piece(c);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			c->port.out = false;
			break;
		}
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot write to the host");
	}
	forget_sent(c);
	return 0;
}

#define FLUSH_POLL_MS 5

void gb_ctl_flush_wait(struct gb_ctl *c, uint64_t deadline_ns)
{
	while (gb_ctl_flush(c, NULL) == 0 && gb_ctl_unsent(c) &&
		!gb_deadline_passed(deadline_ns)) {
		uint64_t soon = gb_deadline_ms(FLUSH_POLL_MS);

		gb_fd_wait(c->port.fd, POLLOUT, GB_MIN(soon, deadline_ns), NULL);
	}
}

int gb_ctl_fill(struct gb_ctl *c, struct gb_err *err)
{
	size_t room;
	uint8_t *to = gb_frame_reader_room(&c->reader, &room);
	ssize_t n;

	if (!to)
		return gb_nomem(err);
	do {
		n = read(c->port.fd, to, room);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		c->port.in = false;
		return 0;
	}
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read from the host");
	if (n == 0) {
		c->port.in = false;
		c->broken = true;
		return 0;
	}
	gb_frame_reader_filled(&c->reader, (size_t)n);
	return (int)GB_MIN(n, (ssize_t)INT32_MAX);
}

uint8_t *gb_ctl_data_room(struct gb_ctl *c, size_t len)
{
	uint8_t *to = gb_buf_reserve(&c->out, GB_FRAME_HEADER + len);

	return to ? to + GB_FRAME_HEADER : NULL;
}

/* Only the header. */
static void data_header(
	struct gb_ctl *c, uint32_t request, uint16_t stream, uint32_t len, uint8_t flags)
{
	struct gb_frame f = { .length = len,
		.type = GB_FRAME_DATA,
		.flags = flags,
		.stream = stream,
		.request = request };

	gb_frame_put_header(c->out.data + c->out.len, &f);
	c->out.len += GB_FRAME_HEADER;
}

void gb_ctl_data_end(
	struct gb_ctl *c, uint32_t request, uint16_t stream, uint32_t len, uint8_t flags)
{
	data_header(c, request, stream, len, flags);
	c->out.len += len;
}

static bool make_bulk(struct gb_ctl *c)
{
	if (c->bulk_made)
		return true;
	if (pipe2(c->bulk, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	/* its slots are fewer than the descriptors of the port's queue (128) */
	fcntl(c->bulk[0], F_SETPIPE_SZ, 2 * GB_CTL_BULK);
	c->bulk_made = true;
	return true;
}

ssize_t gb_ctl_bulk(struct gb_ctl *c, int pipe, uint32_t request, uint16_t stream, size_t want)
{
	ssize_t n;

	if (c->bulk_left) {
		errno = EBUSY;
		return -1;
	}
	if (!make_bulk(c) || !gb_ctl_data_room(c, 0)) {
		errno = ENOMEM;
		return -1;
	}
	n = splice(pipe, NULL, c->bulk[1], NULL, GB_MIN(want, (size_t)GB_CTL_BULK),
		SPLICE_F_NONBLOCK);
	if (n <= 0)
		return n;
	data_header(c, request, stream, (uint32_t)n, 0);
	c->bulk_left = (size_t)n;
	c->bulk_at = c->out.len;
	return n;
}

void gb_ctl_error(struct gb_ctl *c, uint32_t request, const struct gb_err *err)
{
	gb_msg_add_error(&c->out, request, err);
}

void gb_ctl_ok(struct gb_ctl *c, uint32_t request)
{
	gb_msg_add_frame(&c->out, GB_FRAME_OK, request, NULL, NULL);
}
