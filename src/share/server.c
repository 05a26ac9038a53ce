#include "share/server.h"

#include "base/clock.h"
#include "base/fd.h"
#include "proto/frame.h"
#include "proto/msg.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* A reply is laid out behind its frame header, both to be written in one call:
 *   | pad 4 | frame header 12 | fuse_out_header 16 | data ... |    data is aligned to 8 */
#define REPLY_PAD 4u
#define REPLY_AT  (REPLY_PAD + GB_FRAME_HEADER)
#define REPLY_BUF (REPLY_AT + sizeof(struct fuse_out_header) + GB_SHARE_REPLY_MAX)

#define REST_MS 1000

_Static_assert(REPLY_AT % 8 == 0, "replies must be aligned");

struct server {
	const struct gb_share_server_config *config; /* borrowed */
	struct gb_share_budget budget;
	struct gb_share *shares[GB_SHARE_MAX]; /* owned */
	size_t taken; /* shares before this one have taken over their folder */
	struct gb_frame_reader in;
	uint8_t *reply;   /* owned; REPLY_BUF bytes */
	uint64_t rest_at; /* when to rest, GB_NEVER when there was nothing since */
};

static void server_done(struct server *s)
{
	for (size_t i = 0; i < GB_SHARE_MAX; i++)
		gb_share_free(s->shares[i]);
	for (size_t i = s->taken; i < GB_SHARE_MAX; i++)
		if (s->config->shares[i].used)
			close(s->config->shares[i].root_fd);
	gb_frame_reader_done(&s->in);
	free(s->reply);
}

static void rest(struct server *s)
{
	for (size_t i = 0; i < GB_SHARE_MAX; i++)
		if (s->shares[i])
			gb_share_rest(s->shares[i]);
	s->rest_at = GB_NEVER;
}

/* Wait until the port is ready, or the control socket has something (which can only be its
 * end): GB_E_CLOSED. */
static int wait_port(struct server *s, short events, struct gb_err *err)
{
	struct pollfd p[2] = {
		{ .fd = s->config->port, .events = events },
		{ .fd = s->config->control, .events = POLLIN },
	};

	for (;;) {
		int n = poll(p, 2, gb_deadline_poll_ms(s->rest_at));

		if (n < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot poll");
		if (gb_deadline_passed(s->rest_at))
			rest(s);
		if (n > 0 && p[1].revents)
			return gb_fail(err, GB_E_CLOSED, "the supervisor is gone");
		if (n > 0)
			return 0;
	}
}

static int send_all(struct server *s, const uint8_t *data, size_t len, struct gb_err *err)
{
	while (len) {
		ssize_t n = write(s->config->port, data, len);

		if (n < 0 && errno == EPIPE)
			return gb_fail(err, GB_E_CLOSED, "the guest is gone");
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot write to the port");
		if (n < 0) {
			int r = wait_port(s, POLLOUT, err);

			if (r < 0)
				return r;
			continue;
		}
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int take_fuse(struct server *s, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_frame out = { .type = GB_FRAME_FUSE, .stream = f->stream, .request = f->request };
	size_t len;
	int r = gb_share_handle(
		s->shares[f->stream], f->payload, f->length, s->reply + REPLY_AT, &len, err);

	if (r < 0)
		return gb_wrap(err, r, "share %u", f->stream);
	if (len == 0)
		return 0;
	out.length = (uint32_t)len;
	gb_frame_put_header(s->reply + REPLY_PAD, &out);
	return send_all(s, s->reply + REPLY_PAD, GB_FRAME_HEADER + len, err);
}

static int take_frame(struct server *s, const struct gb_frame *f, struct gb_err *err)
{
	if (f->type != GB_FRAME_FUSE && f->type != GB_FRAME_FUSE_GONE)
		return gb_fail(err, GB_E_PROTOCOL, "frame %s on the share port",
			gb_frame_type_name(f->type));
	if (f->stream >= GB_SHARE_MAX || !s->shares[f->stream])
		return gb_fail(err, GB_E_PROTOCOL, "there is no share %u", f->stream);
	if (f->type == GB_FRAME_FUSE_GONE)
		return gb_share_reset(s->shares[f->stream], err);
	return take_fuse(s, f, err);
}

/* Read once and take all whole frames. GB_E_CLOSED at the end of the stream. */
static int pump(struct server *s, struct gb_err *err)
{
	struct gb_frame f;
	size_t room;
	uint8_t *to = gb_frame_reader_room(&s->in, &room);
	ssize_t n;
	int r;

	if (!to)
		return gb_nomem(err);
	n = read(s->config->port, to, room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return gb_fail_sys(err, errno, "cannot read from the port");
	if (n <= 0)
		return gb_fail(err, GB_E_CLOSED, "the guest is gone");
	gb_frame_reader_filled(&s->in, (size_t)n);
	if (s->rest_at == GB_NEVER)
		s->rest_at = gb_deadline_ms(REST_MS);
	while ((r = gb_frame_reader_next(&s->in, &f, err)) > 0) {
		r = take_frame(s, &f, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int say_ready(const struct server *s, struct gb_err *err)
{
	struct gb_frame f = { .type = GB_FRAME_READY };
	uint8_t header[GB_FRAME_HEADER];

	gb_frame_put_header(header, &f);
	return gb_fd_write_full(s->config->control, header, sizeof(header), err);
}

/* Wait for the one frame that comes on the control socket. */
static int read_owner(const struct server *s, struct gb_msg_owner *ret, struct gb_err *err)
{
	gb_auto_done(gb_frame_reader) in;
	struct gb_frame f;
	int r;

	gb_frame_reader_init(&in);
	while ((r = gb_frame_reader_next(&in, &f, err)) == 0) {
		size_t room, got;
		uint8_t *to = gb_frame_reader_room(&in, &room);

		if (!to)
			return gb_nomem(err);
		/* a few dozen bytes, once: byte by byte needs no idea of the length */
		r = gb_fd_read_full(s->config->control, to, 1, &got, err);
		if (r < 0)
			return r;
		if (got == 0)
			return gb_fail(err, GB_E_CLOSED, "the supervisor is gone");
		gb_frame_reader_filled(&in, got);
	}
	if (r < 0)
		return r;
	if (f.type != GB_FRAME_OWNER)
		return gb_fail(err, GB_E_PROTOCOL, "frame %s on the control socket",
			gb_frame_type_name(f.type));
	return gb_msg_owner_decode(f.payload, f.length, ret, err);
}

static int open_shares(struct server *s, const struct gb_msg_owner *owner, struct gb_err *err)
{
	for (size_t i = 0; i < GB_SHARE_MAX; i++) {
		struct gb_share_config c = {
			.read_only = s->config->shares[i].read_only,
			.uid = owner->uid,
			.gid = owner->gid,
			.budget = &s->budget,
		};
		int r;

		s->taken = i + 1;
		if (!s->config->shares[i].used)
			continue;
		r = gb_share_new(s->config->shares[i].root_fd, &c, &s->shares[i], err);
		if (r < 0)
			return gb_wrap(err, r, "share %zu", i);
	}
	return 0;
}

static int run(struct server *s, struct gb_err *err)
{
	struct gb_msg_owner owner = { 0 };
	int r = say_ready(s, err);

	if (r == 0)
		r = read_owner(s, &owner, err);
	if (r == 0)
		r = open_shares(s, &owner, err);
	if (r == 0)
		r = gb_fd_nonblock(s->config->port, true, err);
	while (r == 0) {
		r = wait_port(s, POLLIN, err);
		if (r == 0)
			r = pump(s, err);
	}
	return r == GB_E_CLOSED ? 0 : r;
}

int gb_share_serve(const struct gb_share_server_config *config, struct gb_err *err)
{
	struct server s = { .config = config, .rest_at = GB_NEVER };
	int r;

	gb_share_budget_init(&s.budget, config->max_fds);
	gb_frame_reader_init(&s.in);
	s.reply = aligned_alloc(8, (REPLY_BUF + 7) / 8 * 8);
	r = s.reply ? run(&s, err) : gb_nomem(err);
	server_done(&s);
	return r;
}
