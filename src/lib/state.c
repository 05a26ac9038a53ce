/* The machine itself: its memory, whether it lives. */
#include "lib/request.h"

#define MEMORY_DEADLINE_MS UINT64_C(1000)
#define PING_DEADLINE_MS   UINT64_C(10000)

static int ask_memory(struct glovebox_tools *tools, struct glovebox_memory_info *ret,
	struct gb_err *err)
{
	const struct gb_msg_memory_reply *m;
	struct glovebox_request *q;
	int r = gb_request_start(tools, GB_CALL_MEMORY, GB_FRAME_MEMORY, NULL, NULL,
		MEMORY_DEADLINE_MS, &q, err);

	if (r < 0)
		return r;
	r = gb_scope_wait(NULL, q, NULL, err);
	m = gb_call_memory(q->call);
	if (r == 0 && m) {
		ret->known = true;
		ret->total_kib = m->total_kib;
		ret->available_min_kib = m->available_min_kib;
		ret->oom_kills = m->oom_kills;
	}
	glovebox_request_free(q);
	return r;
}

int glovebox_memory(struct glovebox_tools *tools, struct glovebox_memory_info *ret,
	struct glovebox_error *err)
{
	struct glovebox_memory_info ours = { .size = sizeof(ours) };
	struct gb_err e = { 0 };
	int r = ask_memory(tools, &ours, &e);

	/* figures that are not to be had are no failure of who asks for them */
	if (r < 0 && r != GB_E_CLOSED && r != GB_E_PROTOCOL && r != GB_E_STATE)
		r = 0;
	if (r == 0)
		r = gb_result_copy(ret, sizeof(ours), &ours, &e);
	return gb_give_error(err, &e, r);
}

int glovebox_ping_start(struct glovebox_tools *tools, uint64_t deadline_ms,
	struct glovebox_request **ret, struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = gb_request_start(
		tools, GB_CALL_PLAIN, GB_FRAME_NOP, NULL, NULL, deadline_ms, ret, &e);

	return gb_give_error(err, &e, r);
}

int glovebox_ping(
	struct glovebox_tools *tools, uint64_t deadline_ms, struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = gb_request_plain(tools, GB_FRAME_NOP, NULL, NULL,
		deadline_ms ? deadline_ms : PING_DEADLINE_MS, &e);

	return gb_give_error(err, &e, r);
}
