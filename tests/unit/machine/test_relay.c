/* The relay between clients and a guest agent that this test plays itself. */
#include "machine/supervisor/impl.h"
#include "machine/wire.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define DEADLINE_MS 5000

struct world {
	struct gb_sup sup;
	struct gb_sup_client client;
	struct gb_wire guest;  /* our end of the agent's connection */
	struct gb_wire person; /* our end of the client's */
	struct gb_err agent_err;  /* why the relay dropped the agent */
	struct gb_err client_err; /* why it dropped the client */
};

static int on_agent_frame(struct gb_conn *c, const struct gb_frame *f, struct gb_err *err)
{
	return gb_sup_agent_frame(&((struct world *)c->owner)->sup, f, err);
}

static void on_agent_ended(struct gb_conn *c, const struct gb_err *reason)
{
	((struct world *)c->owner)->agent_err = *reason;
}

static int on_client_frame(struct gb_conn *c, const struct gb_frame *f, struct gb_err *err)
{
	return gb_sup_client_frame(&((struct world *)c->owner)->client, f, err);
}

static void on_client_ended(struct gb_conn *c, const struct gb_err *reason)
{
	struct world *w = c->owner;

	w->client_err = *reason;
	gb_sup_client_forget(&w->client);
}

static void on_closed(struct gb_conn *c)
{
	(void)c;
}

static const struct gb_conn_ops agent_ops = { on_agent_frame, on_agent_ended, on_closed, NULL };
static const struct gb_conn_ops client_ops = { on_client_frame, on_client_ended, on_closed, NULL };

/* Lets the relay and us exchange what is under way until the wire has a frame. */
static void next_frame(struct world *w, struct gb_wire *wire, struct gb_frame *ret)
{
	uint64_t deadline = gb_deadline_ms(DEADLINE_MS);

	for (;;) {
		int r = gb_wire_next(wire, ret, NULL);

		if (r > 0)
			return;
		if (r < 0 || gb_deadline_passed(deadline)) {
			memset(ret, 0, sizeof(*ret));
			return;
		}
		gb_wire_flush(&w->guest, NULL);
		gb_wire_flush(&w->person, NULL);
		uv_run(&w->sup.loop, UV_RUN_NOWAIT);
		gb_wire_fill(wire, NULL);
	}
}

/* Until the relay has taken what was sent to it. */
static void settle(struct world *w)
{
	for (int i = 0; i < 20; i++) {
		gb_wire_flush(&w->guest, NULL);
		gb_wire_flush(&w->person, NULL);
		uv_run(&w->sup.loop, UV_RUN_NOWAIT);
	}
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct gb_frame f;
	int agent[2], client[2];

	if (gb_socketpair(agent, NULL) < 0 || gb_socketpair(client, NULL) < 0)
		return -1;
	gb_machine_spec_init(&w->sup.spec);
	uv_loop_init(&w->sup.loop);
	gb_flusher_init(&w->sup.flusher, &w->sup.loop);
	gb_conn_init(&w->sup.agent, &w->sup.loop, agent[0], &agent_ops, w, NULL);
	w->client.sup = &w->sup;
	w->sup.clients = &w->client;
	gb_conn_init(&w->client.conn, &w->sup.loop, client[0], &client_ops, w, NULL);
	gb_wire_init(&w->guest, agent[1]);
	gb_wire_init(&w->person, client[1]);
	gb_msg_add_hello(&w->person.out, "client");
	next_frame(w, &w->person, &f);
	*state = w;
	return f.type == GB_FRAME_HELLO ? 0 : -1;
}

static int teardown(void **state)
{
	struct world *w = *state;
	struct gb_err e = { .code = GB_E_STATE };

	gb_sup_fail_requests(&w->sup, &e);
	gb_conn_close(&w->sup.agent, &w->sup.flusher);
	gb_conn_close(&w->client.conn, &w->sup.flusher);
	uv_close((uv_handle_t *)&w->sup.flusher.prepare, NULL);
	uv_run(&w->sup.loop, UV_RUN_DEFAULT);
	gb_wire_done(&w->guest);
	gb_wire_done(&w->person);
	gb_machine_spec_done(&w->sup.spec);
	return uv_loop_close(&w->sup.loop);
}

static int teardown_free(void **state)
{
	int r = teardown(state);

	free(*state);
	return r;
}

static void send_exec(struct world *w, uint32_t id)
{
	struct gb_msg_exec m = { 0 };

	gb_msg_add_frame(&w->person.out, GB_FRAME_EXEC, id, &gb_msg_exec_desc, &m);
}

static void send_data(struct gb_wire *wire, uint32_t id, uint16_t stream, uint32_t len)
{
	static const uint8_t zeros[GB_FRAME_MAX];
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = stream, .request = id,
		.payload = zeros, .length = len };

	gb_frame_add(&wire->out, &f);
}

static void send_exit(struct world *w, uint32_t id)
{
	struct gb_msg_exit m = { .code = 7 };

	gb_msg_add_frame(&w->guest.out, GB_FRAME_EXIT, id, &gb_msg_exit_desc, &m);
}

static void ids_are_mapped_both_ways(void **state)
{
	struct world *w = *state;
	struct gb_frame f;
	uint32_t agent_id;

	send_exec(w, 41);
	next_frame(w, &w->guest, &f);
	assert_int_equal(f.type, GB_FRAME_EXEC);
	assert_int_not_equal(f.request, 41);
	agent_id = f.request;
	send_data(&w->guest, agent_id, GB_STREAM_OUT, 3);
	next_frame(w, &w->person, &f);
	assert_int_equal(f.type, GB_FRAME_DATA);
	assert_int_equal(f.request, 41);
	assert_int_equal(f.length, 3);
	send_exit(w, agent_id);
	next_frame(w, &w->person, &f);
	assert_int_equal(f.type, GB_FRAME_EXIT);
	assert_int_equal(gb_sup_requests(&w->sup), 0);
}

static void the_64th_waits_with_its_input(void **state)
{
	struct world *w = *state;
	struct gb_frame f;
	uint32_t first = 0;

	for (uint32_t i = 0; i < GB_SUP_SLOTS + 1; i++)
		send_exec(w, 100 + i);
	send_data(&w->person, 100 + GB_SUP_SLOTS, GB_STREAM_IN, 5);
	for (uint32_t i = 0; i < GB_SUP_SLOTS; i++) {
		next_frame(w, &w->guest, &f);
		assert_int_equal(f.type, GB_FRAME_EXEC);
		first = first ? first : f.request;
	}
	settle(w);
	assert_int_equal(w->sup.waiting_count, 1);
	send_exit(w, first);
	next_frame(w, &w->guest, &f);
	assert_int_equal(f.type, GB_FRAME_EXEC);
	next_frame(w, &w->guest, &f);
	assert_int_equal(f.type, GB_FRAME_DATA);
	assert_int_equal(f.length, 5);
	assert_int_equal(w->sup.waiting_count, 0);
}

static void a_late_answer_reaches_nobody(void **state)
{
	struct world *w = *state;
	struct gb_frame f;
	uint32_t old;

	send_exec(w, 1);
	next_frame(w, &w->guest, &f);
	old = f.request;
	send_exit(w, old);
	next_frame(w, &w->person, &f);
	send_exec(w, 2);
	next_frame(w, &w->guest, &f);
	assert_int_not_equal(f.request, old);
	send_exit(w, old);
	settle(w);
	assert_int_equal(w->agent_err.code, GB_E_PROTOCOL);
	assert_int_equal(gb_sup_requests(&w->sup), 1);
}

static void more_than_granted_is_fatal(void **state)
{
	struct world *w = *state;
	struct gb_frame f;

	send_exec(w, 1);
	next_frame(w, &w->guest, &f);
	send_data(&w->guest, f.request, GB_STREAM_OUT, GB_FLOW_WINDOW);
	settle(w);
	assert_int_equal(w->agent_err.code, 0);
	send_data(&w->guest, f.request, GB_STREAM_OUT, 1);
	settle(w);
	assert_int_equal(w->agent_err.code, GB_E_PROTOCOL);
}

static void credit_makes_room(void **state)
{
	struct world *w = *state;
	struct gb_msg_credit m = { .bytes = 10 };
	struct gb_buf payload = { 0 };
	struct gb_frame credit = { .type = GB_FRAME_CREDIT, .stream = GB_STREAM_OUT, .request = 1 };
	struct gb_frame f;
	uint32_t id;

	send_exec(w, 1);
	next_frame(w, &w->guest, &f);
	id = f.request;
	gb_msg_credit_encode(&m, &payload);
	credit.payload = payload.data;
	credit.length = (uint32_t)payload.len;
	gb_frame_add(&w->person.out, &credit);
	gb_buf_done(&payload);
	next_frame(w, &w->guest, &f);
	assert_int_equal(f.type, GB_FRAME_CREDIT);
	send_data(&w->guest, id, GB_STREAM_OUT, GB_FLOW_WINDOW);
	send_data(&w->guest, id, GB_STREAM_OUT, 10);
	settle(w);
	assert_int_equal(w->agent_err.code, 0);
	send_data(&w->guest, id, GB_STREAM_OUT, 1);
	settle(w);
	assert_int_equal(w->agent_err.code, GB_E_PROTOCOL);
}

static const struct {
	uint8_t type;
	uint16_t stream;
} forbidden[] = {
	{ GB_FRAME_HELLO, 0 }, { GB_FRAME_READY, 0 }, { GB_FRAME_STOP, 0 },
	{ GB_FRAME_STATUS_REPLY, 0 }, { GB_FRAME_NOTE, 0 }, { GB_FRAME_DATA, GB_STREAM_COUNT },
	{ GB_FRAME_FUSE, 0 }, { GB_FRAME_EXEC, 0 },
};

static void the_guest_may_not_say_that(void **state)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(forbidden); i++) {
		struct world *w;
		struct gb_frame bad = { .type = forbidden[i].type, .stream = forbidden[i].stream };
		struct gb_frame f;

		assert_int_equal(setup(state), 0);
		w = *state;
		send_exec(w, 1);
		next_frame(w, &w->guest, &f);
		bad.request = f.request;
		gb_frame_add(&w->guest.out, &bad);
		settle(w);
		if (w->agent_err.code != GB_E_PROTOCOL)
			fail_msg("%s was taken", gb_frame_type_name(bad.type));
		teardown_free(state);
	}
}

/* The permit of a client that is gone is held until the guest says that all is over. */
static void a_lost_client_is_cancelled(void **state)
{
	struct world *w = *state;
	struct gb_frame f;
	uint32_t id;

	send_exec(w, 1);
	next_frame(w, &w->guest, &f);
	id = f.request;
	gb_fd_close(&w->person.fd);
	next_frame(w, &w->guest, &f);
	assert_int_equal(f.type, GB_FRAME_CANCEL);
	assert_int_equal(f.request, id);
	assert_int_equal(gb_sup_requests(&w->sup), 1);
	send_data(&w->guest, id, GB_STREAM_OUT, 100);
	send_exit(w, id);
	settle(w);
	assert_int_equal(w->agent_err.code, 0);
	assert_int_equal(gb_sup_requests(&w->sup), 0);
}

static void an_id_in_use_is_refused(void **state)
{
	struct world *w = *state;

	send_exec(w, 1);
	send_exec(w, 1);
	settle(w);
	assert_int_equal(w->client_err.code, GB_E_PROTOCOL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(ids_are_mapped_both_ways),
		T(the_64th_waits_with_its_input),
		T(a_late_answer_reaches_nobody),
		T(more_than_granted_is_fatal),
		T(credit_makes_room),
		T(a_lost_client_is_cancelled),
		T(an_id_in_use_is_refused),
		cmocka_unit_test(the_guest_may_not_say_that),
	};

	return cmocka_run_group_tests_name("supervisor relay", tests, NULL, NULL);
}
