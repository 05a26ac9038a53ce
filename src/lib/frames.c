/* Frames from the peer to their calls. What is not of its call's kind, not in turn, or of no
 * call, is fatal: the peer is broken or worse, and nothing it says can be relied on. */
#include "lib/link_impl.h"

#include <string.h>

static int unexpected(const struct gb_frame *f, struct gb_err *err)
{
	return gb_fail(err, GB_E_PROTOCOL, "the machine's supervisor sent %s for request %u",
		gb_frame_type_name(f->type), f->request);
}

/* What a call of each kind may get beside ERROR: streams of DATA, and its last frame. */
static const struct {
	uint8_t last;
	bool out, err, started, info, file;
} kinds[GB_CALL_KINDS] = {
	[GB_CALL_PLAIN] = { .last = GB_FRAME_OK },
	[GB_CALL_EXEC] = { .last = GB_FRAME_EXIT, .out = true, .err = true, .started = true },
	[GB_CALL_SESSION] = { .last = GB_FRAME_SESSION_OUTPUT, .out = true, .started = true },
	[GB_CALL_ATTACH] = { .last = GB_FRAME_EXIT, .out = true, .started = true },
	[GB_CALL_LIST] = { .last = GB_FRAME_OK, .info = true },
	[GB_CALL_READ] = { .last = GB_FRAME_OK, .out = true, .file = true },
	[GB_CALL_WRITE] = { .last = GB_FRAME_OK },
	[GB_CALL_PATCH] = { .last = GB_FRAME_EXIT, .out = true, .err = true },
	[GB_CALL_MEMORY] = { .last = GB_FRAME_MEMORY_REPLY },
};

/* Memory is out: this call fails, the others go on. */
static void starve(struct gb_call *c)
{
	struct gb_err e = { 0 };

	gb_nomem(&e);
	gb_call_end(c, &e);
	gb_link_abandon(c);
}

static int take_data(struct gb_call *c, const struct gb_frame *f, struct gb_err *err)
{
	bool fits = f->stream == GB_STREAM_OUT ? kinds[c->kind].out
					       : f->stream == GB_STREAM_ERR && kinds[c->kind].err;
	int r;

	if (!fits || (kinds[c->kind].file && !c->has_file))
		return unexpected(f, err);
	r = gb_flow_receiver_arrived(&c->from[f->stream], f->length, err);
	if (r < 0)
		return r;
	c->received += f->length;
	if (c->ended)
		gb_call_grant(c, f->stream, f->length);
	else if (f->length &&
		!gb_call_push(c, GLOVEBOX_EVENT_OUTPUT, f->stream, f->payload, f->length))
		starve(c);
	return 0;
}

static int take_credit(struct gb_call *c, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_msg_credit m;
	int r = gb_msg_credit_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (f->stream != GB_STREAM_IN || !gb_call_takes_input(c->kind))
		return unexpected(f, err);
	r = gb_flow_sender_grant(&c->to_guest, m.bytes, err);
	gb_call_may_write(c);
	return r;
}

static int take_started(struct gb_call *c, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_msg_started m;
	int r = gb_msg_started_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (!kinds[c->kind].started || c->started)
		return unexpected(f, err);
	c->started = true;
	if (c->ended)
		return 0;
	if (!gb_call_push(c, GLOVEBOX_EVENT_STARTED, 0, NULL, 0))
		starve(c);
	else
		c->last->value = m.pid;
	return 0;
}

static int take_info(struct gb_call *c, const struct gb_frame *f, struct gb_err *err)
{
	int r;

	if (!kinds[c->kind].info || c->info_count == GB_CALL_INFOS)
		return unexpected(f, err);
	if (!gb_grow(&c->infos, &c->info_cap, c->info_count + 1, sizeof(*c->infos)))
		return gb_nomem(err);
	r = gb_msg_session_info_decode(f->payload, f->length, &c->infos[c->info_count], err);
	if (r == 0)
		c->info_count++;
	return r;
}

static int take_file(struct gb_call *c, const struct gb_frame *f, struct gb_err *err)
{
	if (!kinds[c->kind].file || c->has_file)
		return unexpected(f, err);
	c->has_file = true;
	return gb_msg_file_info_decode(f->payload, f->length, &c->file, err);
}

/* How the call ends by its last frame: 0 in order, or with failure filled. A fatal code is
 * returned through *fatal. */
static int read_last(struct gb_call *c, const struct gb_frame *f, struct gb_err *failure,
	int *fatal)
{
	*fatal = 0;
	switch (f->type) {
	case GB_FRAME_EXIT:
		*fatal = gb_msg_exit_decode(f->payload, f->length, &c->exit, failure);
		c->has_exit = *fatal == 0;
		if (c->has_exit && c->exit.flags & GB_EXIT_CANCELLED)
			return gb_fail(failure, GB_E_CANCELLED, "cancelled");
		break;
	case GB_FRAME_SESSION_OUTPUT:
		*fatal = gb_msg_session_output_decode(f->payload, f->length, &c->session,
			failure);
		c->has_session = *fatal == 0;
		break;
	case GB_FRAME_MEMORY_REPLY:
		*fatal = gb_msg_memory_reply_decode(f->payload, f->length, &c->memory, failure);
		c->has_memory = *fatal == 0;
		break;
	default:
		if (f->length)
			*fatal = gb_fail(failure, GB_E_PROTOCOL, "OK with %u bytes", f->length);
		break;
	}
	if (*fatal == 0 && c->has_file && c->received != c->file.size)
		return gb_fail(failure, GB_E_IO,
			"the file is %llu bytes, but %llu were sent",
			(unsigned long long)c->file.size, (unsigned long long)c->received);
	return *fatal;
}

/* Whether an ERROR is well-formed. */
static int check_error(const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_error) m = { 0 };
	int r = gb_msg_error_decode(f->payload, f->length, &m, err);
	int code = (int)m.code;

	if (r == 0 && (code >= 0 || code < GB_E_PROTOCOL))
		r = gb_fail(err, GB_E_PROTOCOL, "ERROR with the code %d", code);
	return r;
}

static int take_last(struct gb_call *c, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_err failure = { 0 };
	int fatal = 0;
	int r;

	if (f->type == GB_FRAME_ERROR) {
		fatal = check_error(f, &failure);
		r = fatal < 0 ? fatal : gb_msg_take_error(f->payload, f->length, &failure);
		/* it is the request that broke the rules; the connection is in order */
		if (fatal == 0 && r == GB_E_PROTOCOL)
			failure.code = GB_E_INVALID;
	} else {
		if (f->type != kinds[c->kind].last)
			return unexpected(f, err);
		if (kinds[c->kind].file && !c->has_file)
			return unexpected(f, err);
		r = read_last(c, f, &failure, &fatal);
	}
	if (fatal < 0) {
		if (err)
			*err = failure;
		return fatal;
	}
	gb_call_end(c, r < 0 ? &failure : NULL);
	gb_link_answered(c);
	return 0;
}

/* A line that is for everybody. */
static int take_note(struct gb_link *l, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_note) m = { 0 };
	int r = gb_msg_note_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	for (struct gb_call *c = l->flying; c; c = c->next)
		if (!c->ended && c->notes < GB_CALL_NOTES &&
			gb_call_push(c, GLOVEBOX_EVENT_NOTE, 0, m.text, strlen(m.text)))
			c->notes++;
	return 0;
}

/* The connection itself: last words before it ends. What the end of a stopped machine is to
 * its stopper is no failure. */
static int take_own(struct gb_link *l, const struct gb_frame *f, struct gb_err *err)
{
	int r;

	if (f->type != GB_FRAME_ERROR)
		return unexpected(f, err);
	r = gb_msg_take_error(f->payload, f->length, err);
	return l->closing && r != GB_E_PROTOCOL ? 0 : r;
}

static struct gb_call *find(struct gb_link *l, uint32_t id)
{
	struct gb_call *c = l->flying;

	while (c && c->id != id)
		c = c->next;
	return c;
}

int gb_link_frame(struct gb_link *l, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_call *c;

	if (f->type == GB_FRAME_NOTE)
		return take_note(l, f, err);
	if (f->request == 0)
		return take_own(l, f, err);
	if (l->closing && f->request == l->stop_id &&
		(f->type == GB_FRAME_OK || f->type == GB_FRAME_ERROR))
		return 0; /* what counts is the end of the connection */
	c = find(l, f->request);
	if (!c)
		return f->request < l->first_id ? 0 : unexpected(f, err);
	switch (f->type) {
	case GB_FRAME_DATA:
		return take_data(c, f, err);
	case GB_FRAME_CREDIT:
		return take_credit(c, f, err);
	case GB_FRAME_STARTED:
		return take_started(c, f, err);
	case GB_FRAME_SESSION_INFO:
		return take_info(c, f, err);
	case GB_FRAME_FILE_INFO:
		return take_file(c, f, err);
	default:
		return take_last(c, f, err);
	}
}
