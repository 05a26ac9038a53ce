#include "proto/flow.h"

void gb_flow_sender_init(struct gb_flow_sender *s)
{
	s->credit = GB_FLOW_WINDOW;
}

uint32_t gb_flow_sender_take(struct gb_flow_sender *s, uint32_t want)
{
	uint32_t n = GB_MIN(want, s->credit);

	s->credit -= n;
	return n;
}

int gb_flow_sender_grant(struct gb_flow_sender *s, uint32_t bytes, struct gb_err *err)
{
	if (bytes > GB_FLOW_MAX - s->credit)
		return gb_fail(err, GB_E_PROTOCOL, "credit of %u bytes on top of %u", bytes,
			s->credit);
	s->credit += bytes;
	return 0;
}

void gb_flow_receiver_init(struct gb_flow_receiver *r)
{
	r->open = GB_FLOW_WINDOW;
	r->consumed = 0;
}

int gb_flow_receiver_arrived(struct gb_flow_receiver *r, uint32_t bytes, struct gb_err *err)
{
	if (bytes > r->open)
		return gb_fail(err, GB_E_PROTOCOL, "%u bytes sent, %u were granted", bytes,
			r->open);
	r->open -= bytes;
	return 0;
}

uint32_t gb_flow_receiver_consumed(struct gb_flow_receiver *r, uint32_t bytes)
{
	uint32_t grant;

	r->consumed += bytes;
	if (r->consumed < GB_FLOW_WINDOW / 4)
		return 0;
	grant = r->consumed;
	r->open += grant;
	r->consumed = 0;
	return grant;
}
