/* A call from its user's side: start, events, input, end. */
#include "lib/link_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#define SMALL_PIECE  ((size_t)4096) /* small pieces share one of this size */
#define INPUT_CHUNK  ((size_t)128 << 10)

bool gb_call_takes_input(enum gb_call_kind kind)
{
	return kind == GB_CALL_EXEC || kind == GB_CALL_ATTACH || kind == GB_CALL_WRITE ||
		kind == GB_CALL_PATCH;
}

static void release(struct gb_call *c)
{
	while (c->first) {
		struct gb_piece *p = c->first;

		c->first = p->next;
		free(p);
	}
	free(c->current);
	gb_buf_done(&c->frame);
	gb_fd_close(&c->event_fd);
	pthread_cond_destroy(&c->changed);
	gb_msg_exit_done(&c->exit);
	gb_msg_session_output_done(&c->session);
	for (size_t i = 0; i < c->info_count; i++)
		gb_msg_session_info_done(&c->infos[i]);
	free(c->infos);
	free(c);
}

void gb_call_unhold(struct gb_call *c)
{
	if (!c->held_by_user && !c->held_by_link)
		release(c);
}

void gb_call_notify(struct gb_call *c)
{
	uint64_t one = 1;

	pthread_cond_signal(&c->changed);
	if (c->event_fd < 0 || c->event_set)
		return;
	c->event_set = write(c->event_fd, &one, sizeof(one)) == sizeof(one);
}

void gb_call_end(struct gb_call *c, const struct gb_err *failure)
{
	if (c->ended)
		return;
	c->ended = true;
	if (failure)
		c->error = *failure;
	if (c->owner)
		c->link->owner_open--;
	gb_call_notify(c);
}

bool gb_call_push(struct gb_call *c, int type, int stream, const void *data, size_t len)
{
	struct gb_piece *last = c->last;
	struct gb_piece *p;
	size_t cap = GB_MAX(len + 1, SMALL_PIECE);

	/* one byte a frame must not cost a piece each */
	if (last && type == GLOVEBOX_EVENT_OUTPUT && last->type == type &&
		last->stream == stream && last->cap - last->len > len) {
		memcpy(last->data + last->len, data, len);
		last->len += len;
		return true;
	}
	p = malloc(sizeof(*p) + cap);
	if (!p)
		return false;
	*p = (struct gb_piece){ .type = type, .stream = stream, .len = len, .cap = cap };
	if (len)
		memcpy(p->data, data, len);
	p->data[len] = 0;
	if (last)
		last->next = p;
	else
		c->first = p;
	c->last = p;
	gb_call_notify(c);
	return true;
}

void gb_call_grant(struct gb_call *c, unsigned stream, size_t consumed)
{
	struct gb_msg_credit m = { 0 };
	struct gb_frame f = { .type = GB_FRAME_CREDIT, .stream = (uint16_t)stream,
		.request = c->id, .length = sizeof(m.bytes) };
	uint8_t payload[sizeof(m.bytes)];

	m.bytes = gb_flow_receiver_consumed(&c->from[stream], (uint32_t)consumed);
	if (!m.bytes || c->state != GB_CALL_IS_FLYING)
		return;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(m.bytes >> (8 * i));
	f.payload = payload;
	gb_frame_add(&c->link->wire.out, &f);
	gb_link_flush(c->link);
}

static size_t input_room(const struct gb_call *c)
{
	size_t queued = c->link->wire.out.len;

	if (c->state != GB_CALL_IS_FLYING || queued >= GB_LINK_OUT_HIGH)
		return 0;
	return GB_MIN((size_t)c->to_guest.credit, GB_LINK_OUT_HIGH - queued);
}

void gb_call_may_write(struct gb_call *c)
{
	if (!c->want_writable || !input_room(c))
		return;
	c->want_writable = false;
	c->writable = true;
	gb_call_notify(c);
}

static struct gb_call *call_new(
	struct gb_link *l, enum gb_call_kind kind, const struct gb_call_options *options)
{
	struct gb_call *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return NULL;
	c->link = l;
	c->kind = kind;
	c->owner = options->owner;
	c->held_by_user = c->held_by_link = true;
	c->event_fd = -1;
	c->in_open = gb_call_takes_input(kind);
	c->deadline_ns = options->deadline_ms ? gb_deadline_ms(options->deadline_ms) : GB_NEVER;
	gb_buf_init(&c->frame, GB_FRAME_HEADER + GB_FRAME_MAX);
	gb_flow_sender_init(&c->to_guest);
	for (size_t i = 0; i < GB_STREAM_COUNT; i++)
		gb_flow_receiver_init(&c->from[i]);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
	return c;
}

static int check_open(const struct gb_link *l, struct gb_err *err)
{
	if (l->failed) {
		gb_fail(err, l->error.code, "%s", l->error.msg);
		return l->error.code;
	}
	if (l->closing)
		return gb_fail(err, GB_E_CLOSED, "the workspace was shut down");
	return 0;
}

static bool id_is_used(const struct gb_link *l, uint32_t id)
{
	for (const struct gb_call *c = l->flying; c; c = c->next)
		if (c->id == id)
			return true;
	for (const struct gb_call *c = l->waiting; c; c = c->next)
		if (c->id == id)
			return true;
	return !id;
}

/* Four thousand million requests later the numbers begin anew, among calls that may still run. */
static uint32_t next_id(struct gb_link *l)
{
	do
		l->last_id++;
	while (id_is_used(l, l->last_id));
	return l->last_id;
}

/* With the lock held: the end of the queue. */
static int enqueue(struct gb_link *l, struct gb_call *c, uint8_t type, const struct gb_msg_desc *d,
	const void *msg, struct gb_err *err)
{
	int r = check_open(l, err);

	if (r < 0)
		return r;
	if (l->waiting_count == GB_LINK_WAITING)
		return gb_fail(err, GB_E_LIMIT, "%d requests are running and %d wait",
			GB_LINK_SLOTS, GB_LINK_WAITING);
	c->id = next_id(l);
	gb_msg_add_frame(&c->frame, type, c->id, d, msg);
	if (c->frame.error == GB_E_LIMIT)
		return gb_fail(err, GB_E_LIMIT, "a request of more than %u bytes", GB_FRAME_MAX);
	r = gb_buf_check(&c->frame, "a request", err);
	if (r < 0)
		return r;
	if (l->waiting_bytes + c->frame.len > GB_LINK_WAITING_BYTES)
		return gb_fail(err, GB_E_LIMIT, "the requests that wait are over %zu bytes",
			GB_LINK_WAITING_BYTES);
	*l->waiting_end = c;
	l->waiting_end = &c->next;
	l->waiting_count++;
	l->waiting_bytes += c->frame.len;
	l->owner_open += c->owner;
	if (c->deadline_ns < l->next_deadline) {
		l->next_deadline = c->deadline_ns;
		gb_link_wake(l);
	}
	return 0;
}

int gb_call_start(struct gb_link *l, enum gb_call_kind kind, uint8_t type,
	const struct gb_msg_desc *d, const void *msg, const struct gb_call_options *options,
	struct gb_call **ret, struct gb_err *err)
{
	struct gb_call *c = call_new(l, kind, options);
	int r;

	if (!c)
		return gb_nomem(err);
	pthread_mutex_lock(&l->lock);
	r = enqueue(l, c, type, d, msg, err);
	if (r == 0)
		gb_link_admit(l);
	pthread_mutex_unlock(&l->lock);
	if (r < 0) {
		release(c);
		return r;
	}
	*ret = c;
	return 0;
}

int gb_call_local(struct gb_link *l, const struct gb_call_options *options, struct gb_call **ret,
	struct gb_err *err)
{
	struct gb_call *c = call_new(l, GB_CALL_LOCAL, options);
	int r;

	if (!c)
		return gb_nomem(err);
	c->state = GB_CALL_IS_ANSWERED;
	pthread_mutex_lock(&l->lock);
	r = check_open(l, err);
	if (r == 0)
		l->owner_open += c->owner;
	pthread_mutex_unlock(&l->lock);
	if (r < 0) {
		release(c);
		return r;
	}
	*ret = c;
	return 0;
}

void gb_call_finish(struct gb_call *c, const struct gb_err *failure)
{
	struct gb_link *l = c->link;

	pthread_mutex_lock(&l->lock);
	gb_call_end(c, failure);
	c->held_by_link = false;
	gb_call_unhold(c);
	pthread_mutex_unlock(&l->lock);
}

void gb_call_drop(struct gb_call *c)
{
	struct gb_link *l = c->link;
	struct gb_piece *p;

	pthread_mutex_lock(&l->lock);
	gb_call_end(c, NULL);
	/* what nobody will take is granted again, so that its end can come */
	while ((p = c->first)) {
		c->first = p->next;
		if (p->type == GLOVEBOX_EVENT_OUTPUT)
			gb_call_grant(c, (unsigned)p->stream, p->len);
		free(p);
	}
	c->last = NULL;
	c->held_by_user = false;
	if (c->held_by_link && c->kind != GB_CALL_LOCAL)
		gb_link_abandon(c);
	else
		gb_call_unhold(c);
	pthread_mutex_unlock(&l->lock);
}

int gb_call_fd(struct gb_call *c, struct gb_err *err)
{
	struct gb_link *l = c->link;
	int fd;

	pthread_mutex_lock(&l->lock);
	if (c->event_fd < 0) {
		c->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (c->event_fd < 0)
			gb_fail_sys(err, errno, "cannot make an eventfd");
		else if (c->first || c->ended || c->writable)
			gb_call_notify(c);
	}
	fd = c->event_fd;
	pthread_mutex_unlock(&l->lock);
	return fd < 0 ? gb_code_from_errno(EMFILE) : fd;
}

/* Nothing waits: the descriptor is not readable any more. */
static void clear_event(struct gb_call *c)
{
	uint64_t drained;

	if (c->event_set && read(c->event_fd, &drained, sizeof(drained)) > 0)
		c->event_set = false;
}

static int take_piece(struct gb_call *c, struct glovebox_event *ret)
{
	struct gb_piece *p = c->first;

	c->first = p->next;
	if (!c->first)
		c->last = NULL;
	c->current = p;
	if (p->type == GLOVEBOX_EVENT_OUTPUT)
		gb_call_grant(c, (unsigned)p->stream, p->len);
	if (p->type == GLOVEBOX_EVENT_NOTE)
		c->notes--;
	ret->type = p->type;
	ret->stream = p->stream;
	ret->value = p->value;
	ret->data = p->data;
	ret->len = p->len;
	return 1;
}

int gb_call_next(struct gb_call *c, struct glovebox_event *ret)
{
	struct gb_link *l = c->link;
	struct gb_piece *old;
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&l->lock);
	old = gb_take_ptr(c->current);
	if (c->first) {
		r = take_piece(c, ret);
	} else if (c->writable && !c->ended) {
		c->writable = false;
		ret->type = GLOVEBOX_EVENT_WRITABLE;
		r = 1;
	} else if (c->ended && !c->done_taken) {
		c->done_taken = true;
		ret->type = GLOVEBOX_EVENT_DONE;
		ret->value = c->error.code;
		r = 1;
	} else if (!c->ended) {
		clear_event(c);
	}
	pthread_mutex_unlock(&l->lock);
	free(old);
	return r;
}

bool gb_call_ended(struct gb_call *c)
{
	bool ended;

	pthread_mutex_lock(&c->link->lock);
	ended = c->ended;
	pthread_mutex_unlock(&c->link->lock);
	return ended;
}

void gb_call_await(struct gb_call *c, uint64_t deadline_ns)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / GB_NS_SEC),
		.tv_nsec = (long)(deadline_ns % GB_NS_SEC) };
	int r = 0;

	pthread_mutex_lock(&c->link->lock);
	while (!c->first && !c->ended && !c->writable && r != ETIMEDOUT)
		r = deadline_ns == GB_NEVER
			? pthread_cond_wait(&c->changed, &c->link->lock)
			: pthread_cond_timedwait(&c->changed, &c->link->lock, &until);
	pthread_mutex_unlock(&c->link->lock);
}

void gb_call_cancel(struct gb_call *c)
{
	struct gb_link *l = c->link;
	struct gb_err e = { 0 };

	pthread_mutex_lock(&l->lock);
	if (!c->ended) {
		c->cancel_asked = true;
		if (c->state == GB_CALL_IS_WAITING) {
			gb_fail(&e, GB_E_CANCELLED, "cancelled before it began");
			gb_call_end(c, &e);
		}
		if (c->kind != GB_CALL_LOCAL)
			gb_link_abandon(c);
	}
	pthread_mutex_unlock(&l->lock);
}

static int input_closed(struct gb_err *err)
{
	return gb_fail(err, GB_E_CLOSED, "its input is closed");
}

int64_t gb_call_write(struct gb_call *c, const void *data, size_t len, struct gb_err *err)
{
	struct gb_link *l = c->link;
	size_t done = 0;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	if (!c->in_open || c->ended || c->cancelled)
		r = input_closed(err);
	while (r == 0 && done < len && input_room(c)) {
		struct gb_frame f = { .type = GB_FRAME_DATA, .stream = GB_STREAM_IN,
			.request = c->id, .payload = (const uint8_t *)data + done };

		f.length = gb_flow_sender_take(&c->to_guest,
			(uint32_t)GB_MIN(GB_MIN(len - done, input_room(c)), INPUT_CHUNK));
		gb_frame_add(&l->wire.out, &f);
		gb_link_flush(l);
		done += f.length;
	}
	c->want_writable = r == 0 && done < len;
	if (!c->want_writable)
		c->writable = false;
	pthread_mutex_unlock(&l->lock);
	return r < 0 ? r : (int64_t)done;
}

int gb_call_write_eof(struct gb_call *c, struct gb_err *err)
{
	struct gb_link *l = c->link;
	struct gb_frame f = { .type = GB_FRAME_DATA, .flags = GB_FRAME_EOF,
		.stream = GB_STREAM_IN, .request = c->id };
	int r = 0;

	pthread_mutex_lock(&l->lock);
	if (!c->in_open || c->ended) {
		r = input_closed(err);
	} else if (c->state == GB_CALL_IS_WAITING) {
		c->eof_wanted = true;
	} else if (!c->cancelled) {
		gb_frame_add(&l->wire.out, &f);
		gb_link_flush(l);
	}
	c->in_open = false;
	pthread_mutex_unlock(&l->lock);
	return r;
}

int gb_call_tell(struct gb_call *c, uint8_t type, const struct gb_msg_desc *d, const void *msg,
	struct gb_err *err)
{
	struct gb_link *l = c->link;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	if (c->kind != GB_CALL_EXEC && c->kind != GB_CALL_ATTACH)
		r = gb_fail(err, GB_E_STATE, "the request has no process group");
	else if (c->ended || c->cancelled || c->state == GB_CALL_IS_ANSWERED)
		r = 0;
	else if (c->state == GB_CALL_IS_WAITING || l->wire.out.len >= GB_LINK_OUT_HIGH)
		r = gb_fail(err, GB_E_BUSY, "the request is not sent yet");
	else {
		gb_msg_add_frame(&l->wire.out, type, c->id, d, msg);
		gb_link_flush(l);
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int gb_call_outcome(struct gb_call *c, struct gb_err *err)
{
	int r = 0;

	pthread_mutex_lock(&c->link->lock);
	if (!c->ended) {
		r = gb_fail(err, GB_E_STATE, "the request has not ended");
	} else if (c->error.code) {
		r = c->error.code;
		if (err)
			*err = c->error;
	}
	pthread_mutex_unlock(&c->link->lock);
	return r;
}

enum gb_call_kind gb_call_kind_of(const struct gb_call *c)
{
	return c->kind;
}

const struct gb_msg_exit *gb_call_exit(const struct gb_call *c)
{
	return c->has_exit ? &c->exit : NULL;
}

const struct gb_msg_session_output *gb_call_session(const struct gb_call *c)
{
	return c->has_session ? &c->session : NULL;
}

const struct gb_msg_memory_reply *gb_call_memory(const struct gb_call *c)
{
	return c->has_memory ? &c->memory : NULL;
}

const struct gb_msg_session_info *gb_call_infos(const struct gb_call *c, size_t *count)
{
	*count = c->info_count;
	return c->infos;
}

bool gb_call_file_info(struct gb_call *c, struct gb_msg_file_info *ret)
{
	bool has;

	pthread_mutex_lock(&c->link->lock);
	has = c->has_file;
	*ret = c->file;
	pthread_mutex_unlock(&c->link->lock);
	return has;
}
