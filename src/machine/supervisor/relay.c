/* Relaying requests.
 *
 * A client numbers its requests as it likes; the agent sees ids of ours: a running number
 * with the slot in the low six bits, so that an answer that comes late never reaches the next
 * user of the slot. A slot is free again only after the request's last frame, so a request
 * that was cancelled holds it until the agent says that its processes are gone.
 *
 * What the agent may send on a stream is what the client granted; we count along, so that the
 * memory a guest can make us hold is bounded. */
#include "machine/supervisor/impl.h"

#include <string.h>

#define SLOT_BITS 6
#define SLOT_MASK ((1u << SLOT_BITS) - 1)

_Static_assert(GB_SUP_SLOTS == SLOT_MASK, "the last number is for control requests");

uint32_t gb_sup_control_id(struct gb_sup *s)
{
	return ++s->control_sequence << SLOT_BITS | SLOT_MASK;
}

bool gb_sup_is_control_id(uint32_t id)
{
	return (id & SLOT_MASK) == SLOT_MASK;
}

unsigned gb_sup_requests(const struct gb_sup *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < GB_SUP_SLOTS; i++)
		n += s->slots[i].used;
	return n;
}

static struct gb_sup_slot *slot_of_client(struct gb_sup_client *c, uint32_t id)
{
	struct gb_sup *s = c->sup;

	for (size_t i = 0; i < GB_SUP_SLOTS; i++)
		if (s->slots[i].used && s->slots[i].client == c && s->slots[i].client_id == id)
			return &s->slots[i];
	return NULL;
}

static struct gb_sup_waiting *waiting_of_client(struct gb_sup_client *c, uint32_t id)
{
	struct gb_sup_waiting *w = c->sup->waiting;

	while (w && (w->client != c || w->client_id != id))
		w = w->next;
	return w;
}

static void to_agent(struct gb_sup *s, const struct gb_frame *f, uint32_t agent_id)
{
	struct gb_frame copy = *f;
	bool was_over = s->agent.over_high;

	copy.request = agent_id;
	gb_conn_send(&s->agent, &s->flusher, &copy);
	if (s->agent.over_high && !was_over)
		for (struct gb_sup_client *c = s->clients; c; c = c->next)
			gb_conn_pause(&c->conn, true);
}

static void begin(struct gb_sup_client *c, size_t slot_number, const struct gb_frame *f)
{
	struct gb_sup *s = c->sup;
	struct gb_sup_slot *slot = &s->slots[slot_number];

	memset(slot, 0, sizeof(*slot));
	slot->used = true;
	slot->client = c;
	slot->client_id = f->request;
	slot->agent_id = ++s->sequence << SLOT_BITS | (uint32_t)slot_number;
	for (size_t i = 0; i < GB_STREAM_COUNT; i++)
		gb_flow_sender_init(&slot->granted[i]);
	to_agent(s, f, slot->agent_id);
}

static int wait_for_slot(struct gb_sup_client *c, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_sup *s = c->sup;
	struct gb_sup_waiting **end = &s->waiting;
	struct gb_sup_waiting *w;

	if (s->waiting_count == GB_SUP_WAITING_MAX) {
		struct gb_err e = { 0 };

		gb_fail(&e, GB_E_BUSY, "%d requests are running and %d wait", GB_SUP_SLOTS,
			GB_SUP_WAITING_MAX);
		gb_sup_send_error(c, f->request, &e);
		return 0;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return gb_nomem(err);
	w->client = c;
	w->client_id = f->request;
	gb_buf_init(&w->frames, GB_SUP_WAITING_BYTES);
	gb_frame_add(&w->frames, f);
	while (*end)
		end = &(*end)->next;
	*end = w;
	s->waiting_count++;
	return 0;
}

static int new_request(struct gb_sup_client *c, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_sup *s = c->sup;

	if (slot_of_client(c, f->request) || waiting_of_client(c, f->request))
		return gb_fail(err, GB_E_PROTOCOL, "request id %u is in use", f->request);
	if (s->stopping) {
		struct gb_err e = { 0 };

		gb_fail(&e, GB_E_STATE, "machine '%s' is being stopped", s->spec.name);
		gb_sup_send_error(c, f->request, &e);
		return 0;
	}
	for (size_t i = 0; i < GB_SUP_SLOTS && !s->waiting; i++) {
		if (s->slots[i].used)
			continue;
		begin(c, i, f);
		return 0;
	}
	return wait_for_slot(c, f, err);
}

/* The client gives the agent more room on a stream: we count along. */
static int count_credit(struct gb_sup_slot *slot, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_msg_credit m;
	int r = gb_msg_credit_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (f->stream >= GB_STREAM_COUNT)
		return gb_fail(err, GB_E_PROTOCOL, "credit for stream %u", f->stream);
	return gb_flow_sender_grant(&slot->granted[f->stream], m.bytes, err);
}

static void drop_waiting(struct gb_sup *s, struct gb_sup_waiting *w)
{
	struct gb_sup_waiting **at = &s->waiting;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	s->waiting_count--;
	gb_buf_done(&w->frames);
	free(w);
}

static void cancel_waiting(struct gb_sup_client *c, struct gb_sup_waiting *w)
{
	struct gb_err e = { 0 };

	gb_fail(&e, GB_E_CANCELLED, "cancelled before it began");
	gb_sup_send_error(c, w->client_id, &e);
	drop_waiting(c->sup, w);
}

/* A frame that belongs to a request that was made before. */
static int of_request(struct gb_sup_client *c, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_sup_slot *slot = slot_of_client(c, f->request);
	struct gb_sup_waiting *w;

	if (slot) {
		int r = f->type == GB_FRAME_CREDIT ? count_credit(slot, f, err) : 0;

		if (r < 0)
			return r;
		if (f->type == GB_FRAME_CANCEL)
			slot->cancelled = true;
		to_agent(c->sup, f, slot->agent_id);
		return 0;
	}
	w = waiting_of_client(c, f->request);
	if (!w)
		return 0; /* it has just ended */
	if (f->type == GB_FRAME_CANCEL) {
		cancel_waiting(c, w);
		return 0;
	}
	gb_frame_add(&w->frames, f);
	return gb_buf_check(&w->frames, "what was sent for a waiting request", err);
}

static int stop_request(struct gb_sup_client *c, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_sup_stopper *stopper;
	struct gb_msg_stop m;
	int r = gb_msg_stop_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	stopper = calloc(1, sizeof(*stopper));
	if (!stopper)
		return gb_nomem(err);
	stopper->client = c;
	stopper->client_id = f->request;
	stopper->next = c->sup->stoppers;
	c->sup->stoppers = stopper;
	gb_sup_stop(c->sup, m.deadline_ms, m.flags & GB_STOP_FORCE);
	return 0;
}

static int greet(struct gb_sup_client *c, const struct gb_frame *f, struct gb_err *err)
{
	int r;

	if (f->type != GB_FRAME_HELLO)
		return gb_fail(err, GB_E_PROTOCOL, "%s before HELLO",
			gb_frame_type_name(f->type));
	r = gb_msg_check_hello(f->payload, f->length, "the client", err);
	if (r < 0)
		return r;
	c->greeted = true;
	gb_msg_add_hello(gb_conn_out(&c->conn, &c->sup->flusher), "supervisor");
	return 0;
}

int gb_sup_client_frame(struct gb_sup_client *c, const struct gb_frame *f, struct gb_err *err)
{
	if (!c->greeted)
		return greet(c, f, err);
	switch (f->type) {
	case GB_FRAME_EXEC:
	case GB_FRAME_COPY_IN:
	case GB_FRAME_COPY_OUT:
	case GB_FRAME_BENCH:
	case GB_FRAME_NOP:
	case GB_FRAME_SESSION_START:
	case GB_FRAME_SESSION_INPUT:
	case GB_FRAME_SESSION_HOLD:
	case GB_FRAME_SESSIONS:
	case GB_FRAME_ATTACH:
	case GB_FRAME_TERMINATE:
	case GB_FRAME_FILE_READ:
	case GB_FRAME_FILE_WRITE:
	case GB_FRAME_MKDIR:
	case GB_FRAME_PATCH:
	case GB_FRAME_MEMORY:
		return new_request(c, f, err);
	case GB_FRAME_DATA:
	case GB_FRAME_CREDIT:
	case GB_FRAME_SIGNAL:
	case GB_FRAME_WINSIZE:
	case GB_FRAME_CANCEL:
		return of_request(c, f, err);
	case GB_FRAME_STATUS:
		gb_sup_send_status(c, f->request);
		return 0;
	case GB_FRAME_STOP:
		return stop_request(c, f, err);
	default:
		return gb_fail(err, GB_E_PROTOCOL, "a client may not send %s",
			gb_frame_type_name(f->type));
	}
}

/* The slot is free: the request that waits longest gets it, with all that came for it. */
static void next_waiting(struct gb_sup *s, size_t slot_number)
{
	struct gb_sup_waiting *w = s->waiting;
	struct gb_frame_reader reader;
	struct gb_frame f;
	bool first = true;
	struct gb_err e = { 0 };

	if (!w || s->stopping)
		return;
	gb_frame_reader_init(&reader);
	reader.in = w->frames;
	memset(&w->frames, 0, sizeof(w->frames));
	while (gb_frame_reader_next(&reader, &f, &e) > 0) {
		if (first)
			begin(w->client, slot_number, &f);
		else if (of_request(w->client, &f, &e) < 0)
			break;
		first = false;
	}
	gb_frame_reader_done(&reader);
	drop_waiting(s, w);
}

static struct gb_sup_slot *slot_of_agent(struct gb_sup *s, uint32_t id)
{
	struct gb_sup_slot *slot;

	if (gb_sup_is_control_id(id))
		return NULL;
	slot = &s->slots[id & SLOT_MASK];
	return slot->used && slot->agent_id == id ? slot : NULL;
}

static void to_client(struct gb_sup *s, struct gb_sup_slot *slot, const struct gb_frame *f)
{
	struct gb_frame copy = *f;

	if (!slot->client)
		return;
	copy.request = slot->client_id;
	gb_conn_send(&slot->client->conn, &s->flusher, &copy);
}

static int agent_data(struct gb_sup *s, struct gb_sup_slot *slot, const struct gb_frame *f,
	struct gb_err *err)
{
	if (f->stream >= GB_STREAM_COUNT)
		return gb_fail(err, GB_E_PROTOCOL, "the guest sent on stream %u", f->stream);
	if (gb_flow_sender_take(&slot->granted[f->stream], f->length) != f->length)
		return gb_fail(err, GB_E_PROTOCOL, "the guest sent more than was granted");
	to_client(s, slot, f);
	return 0;
}

static void agent_last(struct gb_sup *s, struct gb_sup_slot *slot, const struct gb_frame *f)
{
	to_client(s, slot, f);
	slot->used = false;
	slot->client = NULL;
	next_waiting(s, (size_t)(slot - s->slots));
}

int gb_sup_agent_frame(struct gb_sup *s, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_sup_slot *slot = slot_of_agent(s, f->request);

	/* answers to TIME and SHUTDOWN tell nothing that we wait for */
	if (gb_sup_is_control_id(f->request) &&
		(f->type == GB_FRAME_OK || f->type == GB_FRAME_ERROR))
		return 0;
	if (!slot)
		return gb_fail(err, GB_E_PROTOCOL, "the guest sent %s for no request",
			gb_frame_type_name(f->type));
	switch (f->type) {
	case GB_FRAME_DATA:
		return agent_data(s, slot, f, err);
	case GB_FRAME_CREDIT:
	case GB_FRAME_STARTED:
	case GB_FRAME_SESSION_INFO:
	case GB_FRAME_FILE_INFO:
		to_client(s, slot, f);
		return 0;
	case GB_FRAME_EXIT:
	case GB_FRAME_OK:
	case GB_FRAME_ERROR:
	case GB_FRAME_BENCH_RESULT:
	case GB_FRAME_SESSION_OUTPUT:
	case GB_FRAME_MEMORY_REPLY:
		agent_last(s, slot, f);
		return 0;
	default:
		return gb_fail(err, GB_E_PROTOCOL, "the guest may not send %s",
			gb_frame_type_name(f->type));
	}
}

void gb_sup_client_forget(struct gb_sup_client *c)
{
	struct gb_sup *s = c->sup;
	struct gb_sup_waiting *next;

	for (size_t i = 0; i < GB_SUP_SLOTS; i++) {
		struct gb_sup_slot *slot = &s->slots[i];
		struct gb_frame cancel = { .type = GB_FRAME_CANCEL };

		if (!slot->used || slot->client != c)
			continue;
		slot->client = NULL;
		if (!slot->cancelled)
			to_agent(s, &cancel, slot->agent_id);
		slot->cancelled = true;
	}
	for (struct gb_sup_waiting *w = s->waiting; w; w = next) {
		next = w->next;
		if (w->client == c)
			drop_waiting(s, w);
	}
	for (struct gb_sup_stopper *stopper = s->stoppers; stopper; stopper = stopper->next)
		if (stopper->client == c)
			stopper->client = NULL;
}

void gb_sup_fail_requests(struct gb_sup *s, const struct gb_err *reason)
{
	for (size_t i = 0; i < GB_SUP_SLOTS; i++) {
		struct gb_sup_slot *slot = &s->slots[i];

		if (slot->used && slot->client)
			gb_sup_send_error(slot->client, slot->client_id, reason);
		slot->used = false;
		slot->client = NULL;
	}
	while (s->waiting) {
		gb_sup_send_error(s->waiting->client, s->waiting->client_id, reason);
		drop_waiting(s, s->waiting);
	}
}
