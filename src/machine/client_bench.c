#include "machine/client_impl.h"
#include "base/clock.h"
#include "proto/flow.h"

#define BENCH_DEADLINE_MS UINT64_C(120000)

struct bench {
	struct gb_client *c;
	uint32_t id;
	uint64_t to_send;
	struct gb_flow_sender sender;
	struct gb_flow_receiver receiver;
};

static void send_some(struct bench *b)
{
	static const uint8_t zeros[65536];

	while (b->to_send && b->c->wire.out.len < GB_FLOW_WINDOW) {
		uint32_t n = gb_flow_sender_take(&b->sender,
			(uint32_t)GB_MIN(b->to_send, (uint64_t)sizeof(zeros)));
		struct gb_frame f = { .type = GB_FRAME_DATA, .stream = GB_STREAM_IN,
			.request = b->id, .payload = zeros, .length = n };

		if (!n)
			return;
		b->to_send -= n;
		f.flags = b->to_send ? 0 : GB_FRAME_EOF;
		gb_frame_add(&b->c->wire.out, &f);
	}
}

static void grant(struct bench *b, uint32_t arrived)
{
	uint32_t bytes = gb_flow_receiver_consumed(&b->receiver, arrived);
	uint8_t payload[4] = { (uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16),
		(uint8_t)(bytes >> 24) };
	struct gb_frame f = { .type = GB_FRAME_CREDIT, .stream = GB_STREAM_OUT,
		.request = b->id, .payload = payload, .length = sizeof(payload) };

	if (bytes)
		gb_frame_add(&b->c->wire.out, &f);
}

/* 1 when the result is there. */
static int take(struct bench *b, const struct gb_frame *f, struct gb_msg_bench_result *ret,
	struct gb_err *err)
{
	struct gb_msg_credit credit;
	int r = 0;

	if (f->type == GB_FRAME_NOTE || f->request != b->id)
		return 0;
	switch (f->type) {
	case GB_FRAME_ERROR:
		return gb_msg_take_error(f->payload, f->length, err);
	case GB_FRAME_BENCH_RESULT:
		r = gb_msg_bench_result_decode(f->payload, f->length, ret, err);
		return r < 0 ? r : 1;
	case GB_FRAME_CREDIT:
		r = gb_msg_credit_decode(f->payload, f->length, &credit, err);
		return r < 0 ? r : gb_flow_sender_grant(&b->sender, credit.bytes, err);
	case GB_FRAME_DATA:
		r = gb_flow_receiver_arrived(&b->receiver, f->length, err);
		grant(b, f->length);
		return r;
	default:
		return gb_client_unexpected(f, err);
	}
}

int gb_client_bench(struct gb_client *c, enum gb_bench_kind kind, uint64_t amount,
	uint64_t *ret_amount, uint64_t *ret_ns, struct gb_err *err)
{
	struct bench b = { .c = c, .id = c->next_request++,
		.to_send = kind == GB_BENCH_RECV ? amount : 0 };
	struct gb_msg_bench m = { .kind = kind, .amount = amount };
	uint64_t deadline = gb_deadline_ms(BENCH_DEADLINE_MS);
	struct gb_msg_bench_result result = { 0 };
	int r = 0;

	gb_flow_sender_init(&b.sender);
	gb_flow_receiver_init(&b.receiver);
	gb_msg_add_frame(&c->wire.out, GB_FRAME_BENCH, b.id, &gb_msg_bench_desc, &m);
	while (r == 0) {
		struct gb_frame f;

		send_some(&b);
		r = gb_wire_receive(&c->wire, deadline, &f, err);
		if (r == 0)
			r = take(&b, &f, &result, err);
	}
	if (r < 0)
		return r;
	*ret_amount = result.amount;
	*ret_ns = result.ns;
	return 0;
}
