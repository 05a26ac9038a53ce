/* The link's state machine, against a supervisor that the test plays. "invariant N" names the
 * statement of the requirements that a test is about. */
#include "peer.h"

#include <pthread.h>

static void test_reverse_order(void **state)
{
	struct gb_call *calls[8];
	uint32_t ids[8];
	struct peer p;

	(void)state;
	peer_open(&p);
	for (size_t i = 0; i < 8; i++) {
		calls[i] = start_exec(&p);
		ids[i] = peer_next(&p).request;
	}
	for (size_t i = 8; i-- > 0;)
		peer_exit(&p, ids[i], (uint32_t)(10 + i), 0);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(outcome(calls[i], NULL), 0);
		assert_int_equal(gb_call_exit(calls[i])->code, 10 + i);
		gb_call_drop(calls[i]);
	}
	peer_close(&p);
}

/* A request that is larger than the socket takes at once is dropped while it is being written. */
static void test_drop_sends_one_cancel_behind_the_frame(void **state)
{
	const struct gb_call_options o = { false, 0 };
	struct gb_msg_exec m = { 0 };
	char *words[5] = { 0 };
	struct gb_call *big = NULL;
	struct gb_call *next;
	struct gb_frame f;
	struct peer p;
	uint32_t id;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		words[i] = malloc(240 << 10);
		memset(words[i], 'x', 240 << 10);
		words[i][(240 << 10) - 1] = 0;
	}
	m.argv = (struct gb_list){ words, 4 };
	peer_open(&p);
	assert_int_equal(gb_call_start(p.link, GB_CALL_EXEC, GB_FRAME_EXEC, &gb_msg_exec_desc, &m,
				 &o, &big, NULL), 0);
	gb_call_cancel(big);
	gb_call_cancel(big);
	gb_call_drop(big);
	next = start_nop(&p);
	f = peer_next(&p);
	id = f.request;
	assert_int_equal(f.type, GB_FRAME_EXEC);
	assert_true(f.length > 4 * (239 << 10));
	f = peer_next(&p);
	assert_int_equal(f.type, GB_FRAME_CANCEL);
	assert_int_equal(f.request, id);
	assert_int_equal(f.length, 0);
	f = peer_next(&p);
	assert_int_equal(f.type, GB_FRAME_NOP);
	peer_exit(&p, id, 0, GB_EXIT_CANCELLED);
	peer_ok(&p, f.request);
	assert_int_equal(outcome(next, NULL), 0);
	assert_true(peer_quiet(&p));
	gb_call_drop(next);
	for (size_t i = 0; i < 4; i++)
		free(words[i]);
	peer_close(&p);
}

/* 63 that fly and 63 that wait are dropped. The slots are free after the answers, not before. */
static void test_dropped_requests_leave_all_slots_free(void **state)
{
	struct gb_call *calls[2 * GB_LINK_SLOTS];
	struct gb_call *after[GB_LINK_SLOTS];
	uint32_t ids[GB_LINK_SLOTS];
	struct peer p;

	(void)state;
	peer_open(&p);
	for (size_t i = 0; i < GB_ARRAY_SIZE(calls); i++)
		calls[i] = start_nop(&p);
	for (size_t i = 0; i < GB_LINK_SLOTS; i++)
		ids[i] = peer_next(&p).request;
	for (size_t i = GB_ARRAY_SIZE(calls); i-- > 0;)
		gb_call_drop(calls[i]);
	for (size_t i = 0; i < GB_LINK_SLOTS; i++)
		assert_int_equal(peer_next(&p).type, GB_FRAME_CANCEL);
	for (size_t i = 0; i < GB_LINK_SLOTS; i++)
		after[i] = start_nop(&p);
	assert_true(peer_quiet(&p));
	for (size_t i = 0; i < GB_LINK_SLOTS; i++) {
		peer_error(&p, ids[i], GB_E_CANCELLED, "cancelled");
		assert_int_equal(peer_next(&p).type, GB_FRAME_NOP);
	}
	for (size_t i = 0; i < GB_LINK_SLOTS; i++)
		gb_call_drop(after[i]);
	peer_close(&p);
}

static void test_cancel_leaves_siblings_alone(void **state)
{
	struct gb_call *a, *b;
	uint32_t ida, idb;
	struct gb_err err = { 0 };
	struct peer p;

	(void)state;
	peer_open(&p);
	a = start_exec(&p);
	ida = peer_next(&p).request;
	b = start_exec(&p);
	idb = peer_next(&p).request;
	gb_call_cancel(a);
	assert_int_equal(peer_next(&p).request, ida);
	peer_data(&p, idb, GB_STREAM_OUT, "hello", 5);
	peer_exit(&p, ida, 137, GB_EXIT_CANCELLED);
	peer_exit(&p, idb, 0, 0);
	assert_int_equal(outcome(a, &err), GB_E_CANCELLED);
	assert_int_equal(outcome(b, &err), 0);
	/* it has ended: nothing is sent */
	gb_call_cancel(b);
	gb_call_cancel(a);
	assert_true(peer_quiet(&p));
	gb_call_drop(a);
	gb_call_drop(b);
	peer_close(&p);
}

static void test_oversize_request_is_refused_here(void **state)
{
	const struct gb_call_options o = { false, 0 };
	struct gb_msg_session_input m = { .session = 1 };
	uint8_t *chars = calloc(1, GB_FRAME_MAX);
	struct gb_call *c = NULL;
	struct gb_frame f;
	struct peer p;

	(void)state;
	m.chars = (struct gb_bytes){ chars, GB_FRAME_MAX };
	peer_open(&p);
	assert_int_equal(gb_call_start(p.link, GB_CALL_SESSION, GB_FRAME_SESSION_INPUT,
				 &gb_msg_session_input_desc, &m, &o, &c, NULL), GB_E_LIMIT);
	assert_null(c);
	/* the last size that fits */
	m.chars.len = GB_FRAME_MAX - 44;
	assert_int_equal(gb_call_start(p.link, GB_CALL_SESSION, GB_FRAME_SESSION_INPUT,
				 &gb_msg_session_input_desc, &m, &o, &c, NULL), 0);
	f = peer_next(&p);
	assert_int_equal(f.type, GB_FRAME_SESSION_INPUT);
	assert_true(f.length <= GB_FRAME_MAX);
	gb_call_drop(c);
	free(chars);
	peer_close(&p);
}

/* What ends the connection: bytes that are sent, with ID standing for the pending request's. */
struct fatal {
	const char *name;
	enum gb_call_kind kind;
	uint8_t type; /* of the request */
	void (*send)(struct peer *p, uint32_t id);
	int code;
	const char *message; /* a part of it */
};

static void send_short_exit(struct peer *p, uint32_t id)
{
	struct gb_frame f = { .type = GB_FRAME_EXIT, .request = id,
		.payload = (const uint8_t *)"abc", .length = 3 };

	gb_frame_add(&p->wire.out, &f);
}

static void send_long_exit(struct peer *p, uint32_t id)
{
	struct gb_frame f = { .type = GB_FRAME_EXIT, .request = id,
		.payload = (const uint8_t[64]){ 0 }, .length = 64 };

	gb_frame_add(&p->wire.out, &f);
}

static void send_raw(struct peer *p, uint32_t length, uint8_t type, uint32_t id)
{
	struct gb_frame f = { .length = length, .type = type, .request = id };
	uint8_t header[GB_FRAME_HEADER];

	gb_frame_put_header(header, &f);
	gb_buf_add(&p->wire.out, header, sizeof(header));
}

static void send_unknown_type(struct peer *p, uint32_t id)
{
	send_raw(p, 0, 200, id);
}

static void send_oversize(struct peer *p, uint32_t id)
{
	send_raw(p, GB_FRAME_MAX + 1, GB_FRAME_DATA, id);
}

static void send_unknown_id(struct peer *p, uint32_t id)
{
	send_raw(p, 0, GB_FRAME_OK, id + 1000);
}

static void send_answer_twice(struct peer *p, uint32_t id)
{
	struct gb_call *other = start_nop(p);
	uint32_t other_id = peer_next(p).request;

	(void)id;
	peer_ok(p, other_id);
	outcome(other, NULL);
	gb_call_drop(other);
	send_raw(p, 0, GB_FRAME_OK, other_id);
}

static void send_wrong_last(struct peer *p, uint32_t id)
{
	send_raw(p, 0, GB_FRAME_OK, id);
}

static void send_request(struct peer *p, uint32_t id)
{
	send_raw(p, 0, GB_FRAME_STATUS, id);
}

static void send_hello(struct peer *p, uint32_t id)
{
	(void)id;
	gb_msg_add_hello(&p->wire.out, "supervisor");
}

static void send_wrong_stream(struct peer *p, uint32_t id)
{
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = GB_STREAM_IN, .request = id };

	gb_frame_add(&p->wire.out, &f);
}

static void send_stream_nine(struct peer *p, uint32_t id)
{
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = 9, .request = id };

	gb_frame_add(&p->wire.out, &f);
}

static void send_data(struct peer *p, uint32_t id)
{
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = GB_STREAM_OUT, .request = id,
		.payload = (const uint8_t *)"x", .length = 1 };

	gb_frame_add(&p->wire.out, &f);
}

static void send_beyond_window(struct peer *p, uint32_t id)
{
	static uint8_t window[GB_FLOW_WINDOW + 1];
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = GB_STREAM_OUT, .request = id,
		.payload = window, .length = sizeof(window) };

	gb_frame_add(&p->wire.out, &f);
}

static void send_started_twice(struct peer *p, uint32_t id)
{
	struct gb_msg_started m = { 1 };

	gb_msg_add_frame(&p->wire.out, GB_FRAME_STARTED, id, &gb_msg_started_desc, &m);
	gb_msg_add_frame(&p->wire.out, GB_FRAME_STARTED, id, &gb_msg_started_desc, &m);
}

static void send_ok_with_more(struct peer *p, uint32_t id)
{
	struct gb_frame f = { .type = GB_FRAME_OK, .request = id,
		.payload = (const uint8_t *)"x", .length = 1 };

	gb_frame_add(&p->wire.out, &f);
}

static void send_bad_error(struct peer *p, uint32_t id)
{
	struct gb_msg_error m = { .code = 5, .text = (char *)(uintptr_t) "fine" };

	gb_msg_add_frame(&p->wire.out, GB_FRAME_ERROR, id, &gb_msg_error_desc, &m);
}

static void send_credit_bomb(struct peer *p, uint32_t id)
{
	struct gb_msg_credit m = { GB_FLOW_MAX };

	gb_msg_add_frame(&p->wire.out, GB_FRAME_CREDIT, id, &gb_msg_credit_desc, &m);
}

static void send_part_and_close(struct peer *p, uint32_t id)
{
	send_raw(p, 100, GB_FRAME_DATA, id);
	gb_buf_add(&p->wire.out, "only this", 9);
	peer_flush(p);
	shutdown(p->wire.fd, SHUT_WR);
}

static void send_close(struct peer *p, uint32_t id)
{
	(void)id;
	shutdown(p->wire.fd, SHUT_WR);
}

static void send_last_words(struct peer *p, uint32_t id)
{
	(void)id;
	peer_error(p, 0, GB_E_CLOSED, "machine 'm' is gone: its VM was killed by signal 9");
}

static const struct fatal fatals[] = {
	{ "invariant 17: an answer that is too short", GB_CALL_EXEC, GB_FRAME_EXEC,
		send_short_exit, GB_E_PROTOCOL, "exit" },
	{ "invariant 17: an answer with something left over", GB_CALL_EXEC, GB_FRAME_EXEC,
		send_long_exit, GB_E_PROTOCOL, "exit" },
	{ "invariant 17: an unknown type", GB_CALL_EXEC, GB_FRAME_EXEC, send_unknown_type,
		GB_E_PROTOCOL, "unknown type 200" },
	{ "invariant 15: a frame over the limit", GB_CALL_EXEC, GB_FRAME_EXEC, send_oversize,
		GB_E_PROTOCOL, "frame of 1048577 bytes" },
	{ "invariant 17: an id that was never used", GB_CALL_EXEC, GB_FRAME_EXEC,
		send_unknown_id, GB_E_PROTOCOL, "sent OK for request" },
	{ "invariant 17: an id that was answered", GB_CALL_EXEC, GB_FRAME_EXEC,
		send_answer_twice, GB_E_PROTOCOL, "sent OK for request" },
	{ "invariant 17: the end of another kind", GB_CALL_EXEC, GB_FRAME_EXEC, send_wrong_last,
		GB_E_PROTOCOL, "sent OK for request" },
	{ "invariant 17: a request to us", GB_CALL_EXEC, GB_FRAME_EXEC, send_request,
		GB_E_PROTOCOL, "sent STATUS" },
	{ "invariant 17: HELLO out of turn", GB_CALL_EXEC, GB_FRAME_EXEC, send_hello,
		GB_E_PROTOCOL, "sent HELLO" },
	{ "data on the input stream", GB_CALL_EXEC, GB_FRAME_EXEC, send_wrong_stream,
		GB_E_PROTOCOL, "sent DATA" },
	{ "data on a stream that does not exist", GB_CALL_EXEC, GB_FRAME_EXEC, send_stream_nine,
		GB_E_PROTOCOL, "sent DATA" },
	{ "data for a request that has none", GB_CALL_PLAIN, GB_FRAME_NOP, send_data,
		GB_E_PROTOCOL, "sent DATA" },
	{ "a file's bytes before its size", GB_CALL_READ, GB_FRAME_FILE_READ, send_data,
		GB_E_PROTOCOL, "sent DATA" },
	{ "a file's end before its size", GB_CALL_READ, GB_FRAME_FILE_READ, send_wrong_last,
		GB_E_PROTOCOL, "sent OK" },
	{ "more than was granted", GB_CALL_EXEC, GB_FRAME_EXEC, send_beyond_window,
		GB_E_PROTOCOL, "were granted" },
	{ "started twice", GB_CALL_EXEC, GB_FRAME_EXEC, send_started_twice, GB_E_PROTOCOL,
		"sent STARTED" },
	{ "started, but is none that starts", GB_CALL_PLAIN, GB_FRAME_NOP, send_started_twice,
		GB_E_PROTOCOL, "sent STARTED" },
	{ "OK with a payload", GB_CALL_PLAIN, GB_FRAME_NOP, send_ok_with_more, GB_E_PROTOCOL,
		"OK with 1 bytes" },
	{ "an error with the code of success", GB_CALL_PLAIN, GB_FRAME_NOP, send_bad_error,
		GB_E_PROTOCOL, "the code 5" },
	{ "credit beyond all measure", GB_CALL_EXEC, GB_FRAME_EXEC, send_credit_bomb,
		GB_E_PROTOCOL, "credit of" },
	{ "credit for what takes no input", GB_CALL_PLAIN, GB_FRAME_NOP, send_credit_bomb,
		GB_E_PROTOCOL, "sent CREDIT" },
	{ "invariant 17: the end in the middle of a frame", GB_CALL_EXEC, GB_FRAME_EXEC,
		send_part_and_close, GB_E_CLOSED, "ended unexpectedly" },
	{ "the end between frames", GB_CALL_EXEC, GB_FRAME_EXEC, send_close, GB_E_CLOSED,
		"ended unexpectedly" },
	{ "invariant 19: last words are the diagnostic", GB_CALL_EXEC, GB_FRAME_EXEC,
		send_last_words, GB_E_CLOSED, "machine 'm' is gone: its VM was killed" },
};

/* All that is pending, waits, or comes later fails with one diagnostic; nothing succeeds. */
static void test_fatal(void **state)
{
	const struct fatal *row = *state;
	const struct gb_call_options o = { 0 };
	struct gb_call *calls[GB_LINK_SLOTS + 3];
	struct gb_call *later = NULL;
	struct gb_err first = { 0 };
	struct peer p;
	uint32_t id;

	peer_open(&p);
	calls[0] = start_call(&p, row->kind, row->type, 0, false);
	id = peer_next(&p).request;
	if (row->send == send_answer_twice)
		row->send(&p, id);
	for (size_t i = 1; i < GB_ARRAY_SIZE(calls); i++)
		calls[i] = start_nop(&p);
	if (row->send != send_answer_twice)
		row->send(&p, id);
	/* the link may hang up before it has read all of it */
	while (p.wire.out.len && gb_wire_flush(&p.wire, NULL) == 0)
		gb_fd_wait(p.wire.fd, POLLOUT, gb_deadline_ms(DEADLINE_MS), NULL);
	assert_int_equal(outcome(calls[0], &first), row->code);
	assert_non_null(strstr(first.msg, row->message));
	for (size_t i = 1; i < GB_ARRAY_SIZE(calls); i++) {
		struct gb_err err = { 0 };

		/* where it was sent early, the rest was started on a dead link */
		if (calls[i]) {
			assert_int_equal(outcome(calls[i], &err), row->code);
			assert_string_equal(err.msg, first.msg);
		}
	}
	for (int i = 0; i < 3; i++) {
		struct gb_err err = { 0 };

		assert_int_equal(gb_call_start(p.link, GB_CALL_PLAIN, GB_FRAME_NOP, NULL, NULL,
					 &o, &later, &err), row->code);
		assert_string_equal(err.msg, first.msg);
	}
	for (size_t i = 0; i < GB_ARRAY_SIZE(calls); i++)
		if (calls[i])
			gb_call_drop(calls[i]);
	peer_close(&p);
}

static void test_truncated_answer_is_no_success(void **state)
{
	struct gb_msg_file_info info = { .size = 10 };
	struct gb_call *exec, *file;
	struct gb_err err = { 0 };
	struct glovebox_event e;
	struct peer p;
	uint32_t id;

	(void)state;
	peer_open(&p);
	file = start_call(&p, GB_CALL_READ, GB_FRAME_FILE_READ, 0, false);
	id = peer_next(&p).request;
	peer_send(&p, GB_FRAME_FILE_INFO, id, &gb_msg_file_info_desc, &info);
	peer_data(&p, id, GB_STREAM_OUT, "123456789", 9);
	peer_ok(&p, id);
	assert_int_equal(outcome(file, &err), GB_E_IO);
	gb_call_drop(file);

	exec = start_exec(&p);
	id = peer_next(&p).request;
	peer_data(&p, id, GB_STREAM_OUT, "half of", 7);
	shutdown(p.wire.fd, SHUT_WR);
	assert_true(await_event(exec, GLOVEBOX_EVENT_OUTPUT, &e));
	assert_int_equal(outcome(exec, &err), GB_E_CLOSED);
	assert_null(gb_call_exit(exec));
	gb_call_drop(exec);
	peer_close(&p);
}

/* Nobody takes what comes for one request: a window is held, siblings go on, and taking it
 * grants more. */
static void test_slow_reader(void **state)
{
	static uint8_t block[GB_FLOW_WINDOW];
	struct gb_call *slow, *other;
	struct glovebox_event e;
	struct gb_frame f;
	struct peer p;
	uint32_t id, other_id;
	size_t got = 0;

	(void)state;
	peer_open(&p);
	slow = start_exec(&p);
	id = peer_next(&p).request;
	other = start_nop(&p);
	other_id = peer_next(&p).request;
	peer_data(&p, id, GB_STREAM_OUT, block, sizeof(block));
	peer_ok(&p, other_id);
	assert_int_equal(outcome(other, NULL), 0);
	assert_true(peer_quiet(&p));
	while (got < sizeof(block) && await_event(slow, GLOVEBOX_EVENT_OUTPUT, &e))
		got += e.len;
	assert_int_equal(got, sizeof(block));
	f = peer_next(&p);
	assert_int_equal(f.type, GB_FRAME_CREDIT);
	assert_int_equal(f.request, id);
	/* dropped: what still comes is granted again at once, so that the end can come */
	gb_call_drop(slow);
	assert_int_equal(peer_next(&p).type, GB_FRAME_CANCEL);
	peer_data(&p, id, GB_STREAM_OUT, block, sizeof(block));
	assert_int_equal(peer_next(&p).type, GB_FRAME_CREDIT);
	gb_call_drop(other);
	peer_close(&p);
}

/* A byte a frame, as much as the window holds, is held in few pieces. */
static void test_tiny_frames(void **state)
{
	struct gb_call *c;
	struct glovebox_event e;
	struct peer p;
	size_t events = 0, bytes = 0;
	uint32_t id;

	(void)state;
	peer_open(&p);
	c = start_exec(&p);
	id = peer_next(&p).request;
	for (size_t i = 0; i < 20000; i++) {
		uint8_t byte = (uint8_t)i;
		struct gb_frame f = { .type = GB_FRAME_DATA, .request = id,
			.stream = GB_STREAM_OUT, .payload = &byte, .length = 1 };

		gb_frame_add(&p.wire.out, &f);
	}
	peer_flush(&p);
	peer_exit(&p, id, 0, 0);
	while (!gb_call_ended(c))
		gb_call_await(c, gb_deadline_ms(100));
	while (gb_call_next(c, &e)) {
		for (size_t i = 0; e.type == GLOVEBOX_EVENT_OUTPUT && i < e.len; i++)
			assert_int_equal(((const uint8_t *)e.data)[i], (uint8_t)(bytes + i));
		bytes += e.len;
		events++;
	}
	assert_int_equal(bytes, 20000);
	assert_true(events < 12);
	gb_call_drop(c);
	peer_close(&p);
}

static void test_too_many_wait(void **state)
{
	const struct gb_call_options o = { 0 };
	struct gb_call *calls[GB_LINK_SLOTS + GB_LINK_WAITING];
	struct gb_call *one_more = NULL;
	struct peer p;

	(void)state;
	peer_open(&p);
	for (size_t i = 0; i < GB_ARRAY_SIZE(calls); i++) {
		calls[i] = start_nop(&p);
		assert_non_null(calls[i]);
	}
	assert_int_equal(gb_call_start(p.link, GB_CALL_PLAIN, GB_FRAME_NOP, NULL, NULL, &o,
				 &one_more, NULL), GB_E_LIMIT);
	gb_call_drop(calls[GB_ARRAY_SIZE(calls) - 1]);
	calls[GB_ARRAY_SIZE(calls) - 1] = start_nop(&p);
	assert_non_null(calls[GB_ARRAY_SIZE(calls) - 1]);
	/* in order, each when one before it is answered */
	for (size_t i = 0; i < GB_ARRAY_SIZE(calls); i++) {
		struct gb_frame f = peer_next(&p);

		assert_int_equal(f.type, GB_FRAME_NOP);
		peer_ok(&p, f.request);
		assert_int_equal(outcome(calls[i], NULL), 0);
		gb_call_drop(calls[i]);
	}
	peer_close(&p);
}

static void test_deadline(void **state)
{
	struct gb_call *flying, *waiting, *fill[GB_LINK_SLOTS - 1];
	struct gb_err err = { 0 };
	struct gb_frame f;
	struct peer p;

	(void)state;
	peer_open(&p);
	flying = start_call(&p, GB_CALL_EXEC, GB_FRAME_EXEC, 50, false);
	f = peer_next(&p);
	for (size_t i = 0; i < GB_ARRAY_SIZE(fill); i++) {
		fill[i] = start_nop(&p);
		peer_next(&p);
	}
	waiting = start_call(&p, GB_CALL_PLAIN, GB_FRAME_NOP, 50, false);
	assert_int_equal(outcome(flying, &err), GB_E_TIMEOUT);
	assert_int_equal(outcome(waiting, &err), GB_E_TIMEOUT);
	assert_int_equal(peer_next(&p).type, GB_FRAME_CANCEL);
	/* that its answer comes late disturbs nobody */
	peer_exit(&p, f.request, 0, GB_EXIT_CANCELLED);
	assert_int_equal(outcome(flying, &err), GB_E_TIMEOUT);
	assert_true(peer_quiet(&p));
	gb_call_drop(flying);
	gb_call_drop(waiting);
	for (size_t i = 0; i < GB_ARRAY_SIZE(fill); i++)
		gb_call_drop(fill[i]);
	peer_close(&p);
}

static bool readable(int fd, int ms)
{
	return poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, ms) == 1;
}

static void test_descriptor(void **state)
{
	struct gb_call *c;
	struct glovebox_event e;
	struct peer p;
	uint32_t id;
	int fd;

	(void)state;
	peer_open(&p);
	c = start_exec(&p);
	id = peer_next(&p).request;
	fd = gb_call_fd(c, NULL);
	assert_false(readable(fd, 0));
	peer_data(&p, id, GB_STREAM_ERR, "x", 1);
	assert_true(readable(fd, DEADLINE_MS));
	assert_int_equal(gb_call_next(c, &e), 1);
	assert_int_equal(e.stream, GLOVEBOX_STREAM_ERR);
	assert_int_equal(gb_call_next(c, &e), 0);
	assert_false(readable(fd, 0));
	peer_exit(&p, id, 0, 0);
	assert_true(readable(fd, DEADLINE_MS));
	assert_int_equal(gb_call_next(c, &e), 1);
	assert_int_equal(e.type, GLOVEBOX_EVENT_DONE);
	assert_int_equal(gb_call_next(c, &e), 0);
	/* a loop that missed the end still sees it */
	assert_true(readable(fd, 0));
	gb_call_drop(c);
	peer_close(&p);
}

static void test_input(void **state)
{
	static uint8_t block[GB_FLOW_WINDOW + 1000];
	struct gb_msg_credit credit = { 300 };
	struct gb_call *c;
	struct glovebox_event e;
	struct gb_frame f;
	struct peer p;
	uint32_t id;
	size_t got = 0;

	(void)state;
	peer_open(&p);
	c = start_exec(&p);
	id = peer_next(&p).request;
	assert_int_equal(gb_call_write(c, block, sizeof(block), NULL), GB_FLOW_WINDOW);
	assert_int_equal(gb_call_write(c, block, 1, NULL), 0);
	while (got < GB_FLOW_WINDOW) {
		f = peer_next(&p);
		assert_int_equal(f.type, GB_FRAME_DATA);
		got += f.length;
	}
	peer_send(&p, GB_FRAME_CREDIT, id, &gb_msg_credit_desc, &credit);
	assert_true(await_event(c, GLOVEBOX_EVENT_WRITABLE, &e));
	assert_int_equal(gb_call_write(c, block, 1000, NULL), 300);
	f = peer_next(&p);
	assert_int_equal(f.length, 300);
	assert_int_equal(gb_call_write_eof(c, NULL), 0);
	f = peer_next(&p);
	assert_int_equal(f.flags, GB_FRAME_EOF);
	assert_int_equal(gb_call_write(c, block, 1, NULL), GB_E_CLOSED);
	assert_int_equal(gb_call_write_eof(c, NULL), GB_E_CLOSED);
	peer_exit(&p, id, 0, 0);
	gb_call_drop(c);
	peer_close(&p);
}

static void test_notes(void **state)
{
	struct gb_msg_note m = { .text = (char *)(uintptr_t) "the host's disk is full" };
	struct gb_call *a, *b;
	struct glovebox_event e;
	unsigned seen = 0;
	struct peer p;
	uint32_t id;

	(void)state;
	peer_open(&p);
	a = start_exec(&p);
	b = start_nop(&p);
	id = peer_next(&p).request;
	peer_next(&p);
	for (int i = 0; i < 3 * GB_CALL_NOTES; i++)
		peer_send(&p, GB_FRAME_NOTE, 0, &gb_msg_note_desc, &m);
	peer_exit(&p, id, 0, 0);
	assert_true(await_event(b, GLOVEBOX_EVENT_NOTE, &e));
	assert_string_equal(e.data, m.text);
	while (!gb_call_ended(a))
		gb_call_await(a, gb_deadline_ms(100));
	while (gb_call_next(a, &e))
		seen += e.type == GLOVEBOX_EVENT_NOTE;
	assert_int_equal(seen, GB_CALL_NOTES);
	gb_call_drop(a);
	gb_call_drop(b);
	peer_close(&p);
}

/* The link's half of invariants 4, 5, 8 and 9. */
static void test_close(void **state)
{
	const struct gb_call_options o = { 0 };
	struct gb_call *owners, *c = NULL;
	struct gb_err err = { 0 };
	struct gb_frame f;
	struct peer p;

	(void)state;
	peer_open(&p);
	owners = start_call(&p, GB_CALL_PLAIN, GB_FRAME_NOP, 0, true);
	f = peer_next(&p);
	assert_int_equal(gb_link_close(p.link, 2, 1000, &err), GB_E_BUSY);
	assert_non_null(strstr(err.msg, "2 capabilities of the workspace still live"));
	assert_int_equal(gb_link_close(p.link, 1, 1000, &err), GB_E_BUSY);
	assert_non_null(strstr(err.msg, "1 capability of the workspace still lives"));
	assert_int_equal(gb_link_close(p.link, 0, 1000, &err), GB_E_BUSY);
	assert_non_null(strstr(err.msg, "1 request of the owner is still pending"));
	assert_true(peer_quiet(&p));
	peer_ok(&p, f.request);
	assert_int_equal(outcome(owners, NULL), 0);
	assert_int_equal(gb_link_close(p.link, 0, 1000, &err), 0);
	assert_int_equal(peer_next(&p).type, GB_FRAME_STOP);
	assert_int_equal(gb_call_start(p.link, GB_CALL_PLAIN, GB_FRAME_NOP, NULL, NULL, &o, &c,
				 &err), GB_E_CLOSED);
	assert_int_equal(gb_link_close(p.link, 0, 1000, &err), GB_E_CLOSED);
	assert_int_equal(gb_link_await_end(p.link, gb_deadline_ms(1), &err), GB_E_TIMEOUT);
	shutdown(p.wire.fd, SHUT_WR);
	assert_int_equal(gb_link_await_end(p.link, gb_deadline_ms(DEADLINE_MS), &err), 0);
	assert_int_equal(gb_link_close(p.link, 0, 1000, &err), GB_E_CLOSED);
	gb_call_drop(owners);
	peer_close(&p);
}

/* A request that broke the rules is not the connection's end, and late answers to who had the
 * connection before are nobody's. */
static void test_scoped_errors(void **state)
{
	struct gb_call *a, *b;
	struct gb_err err = { 0 };
	struct peer p;
	uint32_t ida, idb;

	(void)state;
	peer_open(&p);
	a = start_nop(&p);
	ida = peer_next(&p).request;
	assert_int_equal(ida, FIRST_ID);
	b = start_nop(&p);
	idb = peer_next(&p).request;
	peer_ok(&p, FIRST_ID - 1);
	peer_error(&p, ida, GB_E_PROTOCOL, "exec: argv is missing");
	peer_ok(&p, idb);
	assert_int_equal(outcome(a, &err), GB_E_INVALID);
	assert_string_equal(err.msg, "exec: argv is missing");
	assert_int_equal(outcome(b, &err), 0);
	gb_call_drop(a);
	gb_call_drop(b);
	peer_close(&p);
}

/* Many threads, answers in another order, some dropped: each gets its own. */
#define THREADS 6
#define ROUNDS  400

static void *user_main(void *ctx)
{
	struct peer *p = ctx;
	const struct gb_call_options o = { 0 };
	uintptr_t wrong = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct gb_msg_exec m = { .rows = i };
		struct gb_call *c = NULL;

		if (gb_call_start(p->link, GB_CALL_EXEC, GB_FRAME_EXEC, &gb_msg_exec_desc, &m,
			    &o, &c, NULL) < 0)
			return (void *)1;
		if (i % 7)
			wrong += outcome(c, NULL) != 0 || gb_call_exit(c)->code != i;
		gb_call_drop(c);
	}
	return (void *)wrong;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	struct { uint32_t id, rows; } held[2];
	size_t held_count = 0, answered = 0;
	struct peer p;

	(void)state;
	peer_open(&p);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, user_main, &p);
	while (answered < (size_t)THREADS * ROUNDS) {
		struct gb_frame f;
		struct gb_msg_exec m;

		/* one is held back until another came, or none does */
		if (gb_wire_next(&p.wire, &f, NULL) == 0) {
			bool more = readable(p.wire.fd, held_count ? 1 : DEADLINE_MS);

			if (!more) {
				assert_int_equal(held_count, 1);
				peer_exit(&p, held[0].id, held[0].rows, 0);
				held_count = 0;
				answered++;
			} else {
				assert_int_equal(gb_wire_fill(&p.wire, NULL), 0);
			}
			continue;
		}
		if (f.type == GB_FRAME_CANCEL)
			continue;
		assert_int_equal(f.type, GB_FRAME_EXEC);
		assert_int_equal(gb_msg_exec_decode(f.payload, f.length, &m, NULL), 0);
		held[held_count].id = f.request;
		held[held_count++].rows = m.rows;
		gb_msg_exec_done(&m);
		if (held_count < 2)
			continue;
		peer_exit(&p, held[1].id, held[1].rows, 0);
		peer_exit(&p, held[0].id, held[0].rows, 0);
		held_count = 0;
		answered += 2;
	}
	for (size_t i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		assert_ptr_equal(wrong, NULL);
	}
	peer_close(&p);
}

int main(void)
{
	static struct rows_list l;

	rows_add_one(&l, "invariant 11: answers in reverse order reach their callers",
		test_reverse_order);
	rows_add_one(&l, "invariant 12: a dropped request: one cancel, behind its whole frame",
		test_drop_sends_one_cancel_behind_the_frame);
	rows_add_one(&l, "invariant 13: 2 x 63 dropped requests leave 63 slots free",
		test_dropped_requests_leave_all_slots_free);
	rows_add_one(&l, "invariant 14: cancelling one leaves its siblings alone",
		test_cancel_leaves_siblings_alone);
	rows_add_one(&l, "invariant 15: a request over the limit is refused here",
		test_oversize_request_is_refused_here);
	rows_add(&l, fatals, test_fatal);
	rows_add_one(&l, "invariant 18: a truncated answer is no success",
		test_truncated_answer_is_no_success);
	rows_add_one(&l, "a slow reader holds one window and stops nobody", test_slow_reader);
	rows_add_one(&l, "a byte a frame", test_tiny_frames);
	rows_add_one(&l, "1,024 wait, one more is refused", test_too_many_wait);
	rows_add_one(&l, "deadlines, of what flies and what waits", test_deadline);
	rows_add_one(&l, "the descriptor", test_descriptor);
	rows_add_one(&l, "input within credit", test_input);
	rows_add_one(&l, "notes are for all, and bounded", test_notes);
	rows_add_one(&l, "invariants 4, 5, 8, 9: closing", test_close);
	rows_add_one(&l, "invariant 16: errors of one request", test_scoped_errors);
	rows_add_one(&l, "many threads", test_threads);
	return rows_run("lib-link", &l);
}
