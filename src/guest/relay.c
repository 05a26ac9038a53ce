/* Theory. One FUSE message is one read of /dev/fuse, one frame on the port, and the reverse.
 * The relay looks at no message, but for one thing: a *notification* from the host (its
 * unique is 0: "forget what you cached") may block inside the kernel on a page or a folder
 * that a request holds locked, and the answer to that request comes through this very
 * process. So notifications are written by a second thread, and everything else goes on.
 *
 * The port's queue is bounded: while more than QUEUE_HIGH bytes wait for the host, no
 * /dev/fuse is read, and the guest's file operations wait. Answers are always taken. */
#include "guest/relay.h"
#include "base/fd.h"
#include "base/log.h"
#include "proto/frame.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define SHARES       64
#define QUEUE_HIGH   (1u << 20)
#define QUEUE_MAX    (8u << 20)
#define NOTES_MAX    (16u << 20) /* bytes of notifications that wait; more are dropped */
#define READS_A_TURN 16
#define UNIQUE_AT    8  /* of fuse_out_header: u32 len, i32 error, u64 unique */
#define OUT_HEADER   16

struct note {
	struct note *next;
	unsigned index;
	size_t len;
	uint8_t data[];
};

struct relay {
	int sock, port;
	struct gb_frame_reader reader;
	struct gb_buf out;
	size_t sent;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;
	int fuse[SHARES]; /* owned; -1: none */
	struct note *first, **last;
	size_t note_bytes;
};

static void queue_frame(struct relay *r, uint8_t type, unsigned index)
{
	struct gb_frame f = { .type = type, .stream = (uint16_t)index };

	gb_frame_add(&r->out, &f);
}

/* The write may block; its descriptor is a copy, so that the share may go away meanwhile. */
static void write_note(struct relay *r, struct note *n)
{
	int fd;

	pthread_mutex_lock(&r->lock);
	fd = r->fuse[n->index] >= 0 ? dup(r->fuse[n->index]) : -1;
	pthread_mutex_unlock(&r->lock);
	if (fd >= 0) {
		/* ENOENT: it was not cached */
		if (write(fd, n->data, n->len) < 0 && errno != ENOENT)
			gb_log(GB_LOG_DEBUG, "notification refused: %s", strerror(errno));
		close(fd);
	}
	free(n);
}

static void *notify_main(void *data)
{
	struct relay *r = data;

	for (;;) {
		struct note *n;

		pthread_mutex_lock(&r->lock);
		while (!r->first)
			pthread_cond_wait(&r->wake, &r->lock);
		n = r->first;
		r->first = n->next;
		if (!r->first)
			r->last = &r->first;
		r->note_bytes -= n->len;
		pthread_mutex_unlock(&r->lock);
		write_note(r, n);
	}
	return NULL;
}

static void queue_note(struct relay *r, unsigned index, const uint8_t *data, size_t len)
{
	struct note *n = malloc(sizeof(*n) + len);
	bool full;

	if (!n)
		return;
	n->next = NULL;
	n->index = index;
	n->len = len;
	memcpy(n->data, data, len);
	pthread_mutex_lock(&r->lock);
	full = r->note_bytes + len > NOTES_MAX;
	if (!full) {
		*r->last = n;
		r->last = &n->next;
		r->note_bytes += len;
		pthread_cond_signal(&r->wake);
	}
	pthread_mutex_unlock(&r->lock);
	if (full) {
		gb_log(GB_LOG_WARN, "too many notifications of share %u: one was dropped", index);
		free(n);
	}
}

static void drop_share(struct relay *r, unsigned index)
{
	pthread_mutex_lock(&r->lock);
	gb_fd_close(&r->fuse[index]);
	pthread_mutex_unlock(&r->lock);
	queue_frame(r, GB_FRAME_FUSE_GONE, index);
}

static bool is_note(const struct gb_frame *f)
{
	static const uint8_t none[8];

	return f->length >= OUT_HEADER && memcmp(f->payload + UNIQUE_AT, none, sizeof(none)) == 0;
}

static void from_host(struct relay *r, const struct gb_frame *f)
{
	if (f->type != GB_FRAME_FUSE || f->stream >= SHARES) {
		gb_log(GB_LOG_WARN, "share port: unexpected frame of type %u", f->type);
		return;
	}
	if (r->fuse[f->stream] < 0)
		return; /* it was unmounted meanwhile */
	if (is_note(f)) {
		queue_note(r, f->stream, f->payload, f->length);
		return;
	}
	if (write(r->fuse[f->stream], f->payload, f->length) >= 0)
		return;
	if (errno == ENODEV)
		drop_share(r, f->stream);
	else if (errno != ENOENT) /* ENOENT: who asked was interrupted and does not wait */
		gb_log(GB_LOG_WARN, "answer on share %u refused: %s", f->stream, strerror(errno));
}

/* False when the port is of no more use. */
static bool read_port(struct relay *r)
{
	for (int i = 0; i < READS_A_TURN * 4; i++) {
		struct gb_frame f;
		struct gb_err err;
		size_t room;
		uint8_t *to = gb_frame_reader_room(&r->reader, &room);
		ssize_t n = to ? read(r->port, to, room) : -1;
		int got;

		if (n < 0 && to && errno == EAGAIN)
			return true;
		if (n < 0 && to && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		gb_frame_reader_filled(&r->reader, (size_t)n);
		while ((got = gb_frame_reader_next(&r->reader, &f, &err)) > 0)
			from_host(r, &f);
		if (got < 0) {
			gb_log(GB_LOG_ERROR, "share port: %s", err.msg);
			return false;
		}
	}
	return true;
}

/* One message. False: nothing there now. */
static bool read_fuse(struct relay *r, unsigned index)
{
	struct gb_frame f = { .type = GB_FRAME_FUSE, .stream = (uint16_t)index };
	uint8_t *to = gb_buf_reserve(&r->out, GB_FRAME_HEADER + GB_FRAME_MAX);
	ssize_t n;

	if (!to)
		return false;
	n = read(r->fuse[index], to + GB_FRAME_HEADER, GB_FRAME_MAX);
	if (n < 0 && (errno == EINTR || errno == ENOENT))
		return true; /* that request was taken back */
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		drop_share(r, index);
		return false;
	}
	f.length = (uint32_t)n;
	gb_frame_put_header(to, &f);
	r->out.len += GB_FRAME_HEADER + (size_t)n;
	return true;
}

static bool flush(struct relay *r)
{
	if (r->out.error)
		return false;
	while (r->sent < r->out.len) {
		ssize_t n = write(r->port, r->out.data + r->sent, r->out.len - r->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return false;
		if (n < 0)
			break;
		r->sent += (size_t)n;
	}
	if (r->sent == r->out.len || r->sent > QUEUE_HIGH) {
		gb_buf_consume(&r->out, r->sent);
		r->sent = 0;
	}
	return true;
}

/* False: the agent is gone. */
static bool take_share(struct relay *r)
{
	uint8_t index;
	int fd = -1;
	size_t count = 1;

	if (gb_fd_recv(r->sock, &index, &fd, &count, NULL) < 0)
		return false;
	if (count == 0)
		return true;
	if (index >= SHARES) {
		close(fd);
		return true;
	}
	pthread_mutex_lock(&r->lock);
	gb_fd_close(&r->fuse[index]);
	r->fuse[index] = fd;
	pthread_mutex_unlock(&r->lock);
	return true;
}

static bool room(const struct relay *r)
{
	return r->out.len - r->sent < QUEUE_HIGH;
}

static bool serve_shares(struct relay *r, const struct pollfd *p, const unsigned *index, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!p[i].revents)
			continue;
		for (int k = 0; k < READS_A_TURN && room(r); k++)
			if (!read_fuse(r, index[i]))
				break;
		if (!flush(r))
			return false;
	}
	return true;
}

#define STALL_POLL_MS 20 /* the port may be writable without saying so */

static bool turn(struct relay *r)
{
	struct pollfd p[SHARES + 2] = { { .fd = r->sock, .events = POLLIN },
		{ .fd = r->port, .events = POLLIN } };
	unsigned index[SHARES];
	size_t n = 0;
	bool unsent = r->sent < r->out.len;

	if (unsent)
		p[1].events |= POLLOUT;
	for (unsigned i = 0; room(r) && i < SHARES; i++) {
		if (r->fuse[i] < 0)
			continue;
		p[2 + n] = (struct pollfd){ .fd = r->fuse[i], .events = POLLIN };
		index[n++] = i;
	}
	if (poll(p, n + 2, unsent ? STALL_POLL_MS : -1) < 0)
		return errno == EINTR;
	if (p[0].revents && !take_share(r))
		return false;
	if (p[1].revents && !read_port(r))
		return false;
	return serve_shares(r, p + 2, index, n) && flush(r);
}

_Noreturn void gb_relay_run(int sock, int port)
{
	static struct relay r = { .lock = PTHREAD_MUTEX_INITIALIZER,
		.wake = PTHREAD_COND_INITIALIZER };
	pthread_t thread;

	r.sock = sock;
	r.port = port;
	r.last = &r.first;
	for (int i = 0; i < SHARES; i++)
		r.fuse[i] = -1;
	gb_frame_reader_init(&r.reader);
	gb_buf_init(&r.out, QUEUE_MAX);
	if (pthread_create(&thread, NULL, notify_main, &r) == 0)
		while (turn(&r))
			;
	gb_log(GB_LOG_ERROR, "the share relay ends");
	_exit(1);
}
