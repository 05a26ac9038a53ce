/* A link whose supervisor is the test itself, at the other end of a socket pair. */
#ifndef GB_TESTS_LIB_PEER_H
#define GB_TESTS_LIB_PEER_H

#include "base/clock.h"
#include "lib/link_impl.h"
#include "../rows.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define DEADLINE_MS 20000
#define FIRST_ID    7u /* ids below were used by who had the connection before */

struct peer {
	struct gb_link *link;
	struct gb_wire wire; /* ours */
};

static inline void peer_open(struct peer *p)
{
	struct gb_wire theirs;
	int pair[2];

	assert_int_equal(gb_socketpair(pair, NULL), 0);
	gb_wire_init(&theirs, pair[0]);
	gb_wire_init(&p->wire, pair[1]);
	assert_int_equal(gb_link_new(&theirs, FIRST_ID, &p->link, NULL), 0);
}

static inline void peer_close(struct peer *p)
{
	gb_link_free(p->link, false);
	gb_wire_done(&p->wire);
}

/* The next frame that the link sent; type 0 when none came in time. */
static inline struct gb_frame peer_next(struct peer *p)
{
	struct gb_frame f = { 0 };
	struct gb_err err = { 0 };

	if (gb_wire_receive(&p->wire, gb_deadline_ms(DEADLINE_MS), &f, &err) < 0) {
		print_error("no frame: %s\n", err.msg);
		memset(&f, 0, sizeof(f));
	}
	return f;
}

/* Whether the link has sent nothing more: what it sends is sent before the call returns, or by
 * its thread, which has gone round once when it has seen our note. */
static inline bool peer_quiet(struct peer *p)
{
	struct gb_frame f;

	if (gb_wire_next(&p->wire, &f, NULL) > 0)
		return false;
	if (poll(&(struct pollfd){ p->wire.fd, POLLIN, 0 }, 1, 0) == 0)
		return true;
	return gb_wire_fill(&p->wire, NULL) == 0 && gb_wire_next(&p->wire, &f, NULL) == 0;
}

static inline void peer_flush(struct peer *p)
{
	uint64_t deadline = gb_deadline_ms(DEADLINE_MS);

	while (gb_wire_flush(&p->wire, NULL) == 0 && p->wire.out.len)
		assert_int_equal(gb_fd_wait(p->wire.fd, POLLOUT, deadline, NULL), 0);
}

static inline void peer_send(struct peer *p, uint8_t type, uint32_t id, const struct gb_msg_desc *d,
	const void *msg)
{
	gb_msg_add_frame(&p->wire.out, type, id, d, msg);
	peer_flush(p);
}

static inline void peer_ok(struct peer *p, uint32_t id)
{
	peer_send(p, GB_FRAME_OK, id, NULL, NULL);
}

static inline void peer_data(struct peer *p, uint32_t id, unsigned stream, const void *data, size_t len)
{
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = (uint16_t)stream, .request = id,
		.payload = data, .length = (uint32_t)len };

	gb_frame_add(&p->wire.out, &f);
	peer_flush(p);
}

static inline void peer_exit(struct peer *p, uint32_t id, uint32_t code, uint32_t flags)
{
	struct gb_msg_exit m = { .code = code, .flags = flags };

	peer_send(p, GB_FRAME_EXIT, id, &gb_msg_exit_desc, &m);
}

static inline void peer_error(struct peer *p, uint32_t id, int code, const char *text)
{
	struct gb_err e = { 0 };

	gb_fail(&e, code, "%s", text);
	gb_msg_add_error(&p->wire.out, id, &e);
	peer_flush(p);
}

static inline struct gb_call *start_call(struct peer *p, enum gb_call_kind kind, uint8_t type,
	uint64_t deadline_ms, bool owner)
{
	const struct gb_call_options o = { owner, deadline_ms };
	struct gb_msg_exec exec = { 0 };
	struct gb_msg_file_read file = { 0 };
	const void *msg = type == GB_FRAME_EXEC ? (void *)&exec
		: type == GB_FRAME_FILE_READ	? (void *)&file
						: NULL;
	const struct gb_msg_desc *d = type == GB_FRAME_EXEC ? &gb_msg_exec_desc
		: type == GB_FRAME_FILE_READ		    ? &gb_msg_file_read_desc
							    : NULL;
	struct gb_call *c = NULL;
	struct gb_err err = { 0 };

	if (gb_call_start(p->link, kind, type, d, msg, &o, &c, &err) < 0)
		print_error("start: %s\n", err.msg);
	return c;
}

static inline struct gb_call *start_nop(struct peer *p)
{
	return start_call(p, GB_CALL_PLAIN, GB_FRAME_NOP, 0, false);
}

static inline struct gb_call *start_exec(struct peer *p)
{
	return start_call(p, GB_CALL_EXEC, GB_FRAME_EXEC, 0, false);
}

/* Waits until it has ended, throwing its events away; its outcome. */
static inline int outcome(struct gb_call *c, struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(DEADLINE_MS);
	struct glovebox_event e;

	while (!gb_call_ended(c) && !gb_deadline_passed(deadline)) {
		gb_call_await(c, deadline);
		while (gb_call_next(c, &e))
			;
	}
	return gb_call_outcome(c, err);
}

/* Waits for an event of a type. */
static inline bool await_event(struct gb_call *c, int type, struct glovebox_event *ret)
{
	uint64_t deadline = gb_deadline_ms(DEADLINE_MS);

	while (!gb_deadline_passed(deadline)) {
		while (gb_call_next(c, ret))
			if (ret->type == type)
				return true;
		gb_call_await(c, deadline);
	}
	return false;
}

#endif
