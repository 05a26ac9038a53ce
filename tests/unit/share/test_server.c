/* The server's loop from outside, in a thread of its own: its start, its ends, and ports
 * that break the rules. */
#include "raw.h"

#include "base/clock.h"
#include "base/fd.h"
#include "proto/frame.h"
#include "proto/msg.h"
#include "share/server.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define PATIENCE_MS 20000

struct peer {
	struct tmpdir dir;
	pthread_t thread;
	bool running;
	int port, control;
	struct gb_share_server_config config;
};

/* 0 for a good end, 1 for a broken protocol, 2 for anything else. */
static void *serve(void *arg)
{
	struct peer *p = arg;
	int r = gb_share_serve(&p->config, NULL);

	close(p->config.port);
	close(p->config.control);
	return (void *)(intptr_t)(r == 0 ? 0 : r == GB_E_PROTOCOL ? 1 : 2);
}

static int setup(void **state)
{
	struct peer *p = calloc(1, sizeof(*p));
	int port[2], control[2];

	signal(SIGPIPE, SIG_IGN);
	if (!p || !tmpdir_make(&p->dir) || gb_socketpair(port, NULL) < 0 ||
		gb_socketpair(control, NULL) < 0 || chdir("/proc/self/fd") < 0)
		return -1;
	p->port = port[0];
	p->control = control[0];
	p->config.port = port[1];
	p->config.control = control[1];
	p->config.max_fds = 256;
	p->config.shares[3].used = true;
	p->config.shares[3].root_fd = open(p->dir.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	p->running = pthread_create(&p->thread, NULL, serve, p) == 0;
	return p->running ? 0 : -1;
}

/* How the server ended; 3 when it did not. */
static int ended(struct peer *p)
{
	struct timespec until;
	void *code;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_MS / 1000;
	if (!p->running || pthread_timedjoin_np(p->thread, &code, &until) != 0)
		return 3;
	p->running = false;
	return (int)(intptr_t)code;
}

static int teardown(void **state)
{
	struct peer *p = *state;
	int r;

	gb_fd_close(&p->port);
	gb_fd_close(&p->control);
	r = p->running ? ended(p) == 3 : 0;
	r |= tmpdir_remove(&p->dir);
	free(p);
	return r;
}

/* Read one frame's header and payload; its length, or -1. */
static int take(int fd, struct gb_frame *ret, uint8_t *payload, size_t room)
{
	uint8_t header[GB_FRAME_HEADER];
	size_t got;

	if (gb_fd_wait(fd, 1 /* POLLIN */, gb_deadline_ms(PATIENCE_MS), NULL) < 0 ||
		gb_fd_read_full(fd, header, sizeof(header), &got, NULL) < 0 ||
		got < sizeof(header))
		return -1;
	ret->length = header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16;
	ret->type = header[4];
	ret->stream = header[6];
	ret->request = header[8];
	if (ret->length > room ||
		gb_fd_read_full(fd, payload, ret->length, &got, NULL) < 0)
		return -1;
	return (int)got;
}

static bool put(int fd, uint8_t type, uint16_t stream, const void *payload, uint32_t len)
{
	struct gb_frame f = {.type = type,
		.stream = stream,
		.request = 9,
		.length = len,
		.payload = payload};
	gb_auto_done(gb_buf) b;

	gb_buf_init(&b, 0);
	gb_frame_add(&b, &f);
	return gb_fd_write_full(fd, b.data, b.len, NULL) == 0;
}

static bool say_owner(struct peer *p)
{
	struct gb_msg_owner m = {1000, 1000};
	gb_auto_done(gb_buf) b;

	gb_buf_init(&b, 0);
	gb_msg_add_frame(&b, GB_FRAME_OWNER, 0, &gb_msg_owner_desc, &m);
	/* in two pieces */
	return gb_fd_write_full(p->control, b.data, 5, NULL) == 0 &&
	       gb_fd_write_full(p->control, b.data + 5, b.len - 5, NULL) == 0;
}

static bool is_ready(struct peer *p)
{
	struct gb_frame f;
	uint8_t none[1];

	return take(p->control, &f, none, 0) == 0 && f.type == GB_FRAME_READY;
}

static uint32_t init_message(uint8_t *out)
{
	struct fuse_in_header h = {.opcode = FUSE_INIT,
		.unique = 77,
		.len = sizeof(h) + sizeof(struct fuse_init_in)};
	struct fuse_init_in in = {.major = 7, .minor = 38};

	memcpy(out, &h, sizeof(h));
	memcpy(out + sizeof(h), &in, sizeof(in));
	return h.len;
}

static bool init_works(struct peer *p)
{
	uint8_t msg[256], reply[256];
	uint32_t len = init_message(msg);
	struct fuse_out_header h;
	struct gb_frame f;
	int n;

	if (!put(p->port, GB_FRAME_FUSE, 3, msg, len))
		return false;
	n = take(p->port, &f, reply, sizeof(reply));
	memcpy(&h, reply, sizeof(h));
	return n == (int)(sizeof(h) + sizeof(struct fuse_init_out)) &&
	       f.type == GB_FRAME_FUSE && f.stream == 3 && f.request == 9 &&
	       h.unique == 77 && h.error == 0;
}

static void test_serves(void **state)
{
	struct peer *p = *state;

	assert_true(is_ready(p));
	assert_true(say_owner(p));
	assert_true(init_works(p));
	assert_true(put(p->port, GB_FRAME_FUSE_GONE, 3, NULL, 0));
	assert_true(init_works(p)); /* mounted again */
	gb_fd_close(&p->port);
	assert_int_equal(ended(p), 0);
}

static void test_control_ends(void **state)
{
	struct peer *p = *state;

	assert_true(is_ready(p));
	assert_true(say_owner(p));
	assert_true(init_works(p));
	gb_fd_close(&p->control);
	assert_int_equal(ended(p), 0);
}

static void test_control_ends_early(void **state)
{
	struct peer *p = *state;

	gb_fd_close(&p->control);
	assert_int_equal(ended(p), 0);
}

/* The guest may talk before the owner is known; it is not heard. */
static void test_waits_for_owner(void **state)
{
	struct peer *p = *state;
	uint8_t msg[256];
	uint32_t len = init_message(msg);
	struct gb_frame f;

	assert_true(is_ready(p));
	assert_true(put(p->port, GB_FRAME_FUSE, 3, msg, len));
	assert_int_equal(gb_fd_wait(p->port, 1, gb_deadline_ms(100), NULL), GB_E_TIMEOUT);
	assert_true(say_owner(p));
	assert_true(take(p->port, &f, msg, sizeof(msg)) > 0);
}

/* A guest that asks and never reads: the server stops reading, and still ends at once. */
static void test_guest_does_not_read(void **state)
{
	struct peer *p = *state;
	uint8_t msg[256];
	uint32_t len = init_message(msg);
	size_t sent = 0;

	assert_true(is_ready(p));
	assert_true(say_owner(p));
	while (gb_fd_wait(p->port, 4 /* POLLOUT */, gb_deadline_ms(200), NULL) == 0) {
		assert_true(put(p->port, GB_FRAME_FUSE, 3, msg, len));
		assert_true(++sent < 1000000);
	}
	gb_fd_close(&p->control);
	assert_int_equal(ended(p), 0);
}

struct bad {
	const char *name;
	uint8_t type;
	uint16_t stream;
	const char *payload;
	uint32_t len;
};

static const struct bad bad[] = {
	{"no such share", GB_FRAME_FUSE, 2, "", 0},
	{"a share beyond the last", GB_FRAME_FUSE, 64, "", 0},
	{"a share far beyond", GB_FRAME_FUSE_GONE, 65535, "", 0},
	{"another kind of frame", GB_FRAME_EXEC, 3, "", 0},
	{"a kind that is none", 200, 3, "", 0},
	{"a message without header", GB_FRAME_FUSE, 3, "abc", 3},
	{"a message that lies", GB_FRAME_FUSE, 3,
		"\xff\xff\xff\xff............................................", 44},
};

static void test_bad(void **state)
{
	const struct bad *row = *state;
	void *peer = NULL;
	struct peer *p;
	bool sent;
	int end;

	assert_int_equal(setup(&peer), 0);
	p = peer;
	sent = is_ready(p) && say_owner(p) &&
	       put(p->port, row->type, row->stream, row->payload, row->len);
	end = ended(p);
	assert_int_equal(teardown(&peer), 0);
	assert_true(sent);
	assert_int_equal(end, 1);
}

static void test_bad_control(void **state)
{
	struct peer *p = *state;

	assert_true(is_ready(p));
	assert_true(put(p->control, GB_FRAME_TIME, 0, NULL, 0));
	assert_int_equal(ended(p), 1);
}

#define WITH(name, fn)                                                                   \
	(struct CMUnitTest)                                                              \
	{                                                                                \
		name, fn, setup, teardown, NULL                                          \
	}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, bad, test_bad);
	l.tests[l.n++] = WITH("answers, and again after an unmount", test_serves);
	l.tests[l.n++] = WITH("ends with the control socket", test_control_ends);
	l.tests[l.n++] = WITH("ends before it began", test_control_ends_early);
	l.tests[l.n++] = WITH("hears nothing before the owner", test_waits_for_owner);
	l.tests[l.n++] = WITH("a guest that does not read", test_guest_does_not_read);
	l.tests[l.n++] = WITH("a wrong frame on control", test_bad_control);
	return rows_run("share-server", &l);
}
