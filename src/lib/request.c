/* Requests as the public header has them. */
#include "lib/request.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

struct gb_list gb_list_of(const char *const *v)
{
	struct gb_list l = { (char **)(uintptr_t)v, 0 };

	while (v && v[l.n])
		l.n++;
	return l;
}

char *gb_text_of(const char *text)
{
	return (char *)(uintptr_t)(text ? text : "");
}

static struct glovebox_request *request_new(struct glovebox_tools *tools)
{
	struct glovebox_request *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->core = gb_core_ref(tools->core);
	if (!tools->owner && !tools->internal)
		q->tools = glovebox_tools_ref(tools);
	return q;
}

static void request_release(struct glovebox_request *q)
{
	/* the capability first: whoever sees it gone may shut down */
	glovebox_tools_unref(q->tools);
	gb_core_unref(q->core);
	free(q);
}

int gb_request_start(struct glovebox_tools *tools, enum gb_call_kind kind, uint8_t type,
	const struct gb_msg_desc *d, const void *msg, uint64_t deadline_ms,
	struct glovebox_request **ret, struct gb_err *err)
{
	const struct gb_call_options options = { tools->owner, deadline_ms };
	struct glovebox_request *q;
	int r = gb_core_check(tools->core, err);

	if (r < 0)
		return r;
	q = request_new(tools);
	if (!q)
		return gb_nomem(err);
	r = gb_call_start(tools->core->link, kind, type, d, msg, &options, &q->call, err);
	if (r < 0) {
		request_release(q);
		return r;
	}
	*ret = q;
	return 0;
}

int gb_request_local(struct glovebox_tools *tools, struct gb_request_extra *extra,
	struct glovebox_request **ret, struct gb_err *err)
{
	const struct gb_call_options options = { .owner = tools->owner };
	struct glovebox_request *q;
	int r = gb_core_check(tools->core, err);

	if (r < 0)
		return r;
	q = request_new(tools);
	if (!q)
		return gb_nomem(err);
	r = gb_call_local(tools->core->link, &options, &q->call, err);
	if (r < 0) {
		request_release(q);
		return r;
	}
	q->extra = extra;
	*ret = q;
	return 0;
}

void glovebox_request_free(struct glovebox_request *request)
{
	if (!request)
		return;
	if (gb_core_check(request->core, NULL) == 0) {
		if (request->extra) {
			request->extra->cancel(request->extra);
			request->extra->release(request->extra);
		}
		gb_call_drop(request->call);
	}
	request_release(request);
}

void glovebox_request_cancel(struct glovebox_request *request)
{
	if (!request || gb_core_check(request->core, NULL) < 0)
		return;
	if (request->extra)
		request->extra->cancel(request->extra);
	gb_call_cancel(request->call);
}

int glovebox_request_fd(struct glovebox_request *request, struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0)
		r = gb_call_fd(request->call, &e);
	return gb_give_error(err, &e, r);
}

int glovebox_request_next(struct glovebox_request *request, struct glovebox_event *event,
	struct glovebox_error *err)
{
	struct glovebox_event ours;
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);
	int got;

	if (r == 0 && event->size < sizeof(event->size))
		r = gb_fail(&e, GB_E_INVALID, "the size of the event is not set");
	if (r < 0)
		return gb_give_error(err, &e, r);
	got = gb_call_next(request->call, &ours);
	if (got)
		gb_result_copy(event, sizeof(ours), &ours, NULL);
	return got;
}

bool glovebox_request_ended(struct glovebox_request *request)
{
	return gb_core_check(request->core, NULL) < 0 || gb_call_ended(request->call);
}

/* One event to its callback; false: the callback wants no more. */
static bool call_back(const struct glovebox_callbacks *cb, const struct glovebox_event *event)
{
	switch (event->type) {
	case GLOVEBOX_EVENT_STARTED:
		if (cb->started)
			cb->started(cb->ctx, (uint32_t)event->value);
		return true;
	case GLOVEBOX_EVENT_OUTPUT:
		return !cb->output ||
			cb->output(cb->ctx, event->stream, event->data, event->len) == 0;
	case GLOVEBOX_EVENT_NOTE:
		if (cb->note)
			cb->note(cb->ctx, event->data);
		return true;
	default:
		return true;
	}
}

int gb_request_wait(struct glovebox_request *request, uint64_t deadline_ns,
	const struct glovebox_callbacks *callbacks, struct gb_err *err)
{
	bool wanted = callbacks != NULL;

	for (;;) {
		struct glovebox_event event;
		int r;

		while (gb_call_next(request->call, &event)) {
			if (!wanted || call_back(callbacks, &event))
				continue;
			wanted = false;
			glovebox_request_cancel(request);
		}
		r = gb_call_outcome(request->call, err);
		if (r != GB_E_STATE || gb_call_ended(request->call))
			return r < 0 ? r : 1;
		if (gb_deadline_passed(deadline_ns))
			return 0;
		gb_call_await(request->call, deadline_ns);
	}
}

int glovebox_request_wait(struct glovebox_request *request, int64_t timeout_ms,
	const struct glovebox_callbacks *callbacks, struct glovebox_error *err)
{
	struct glovebox_callbacks cb;
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0 && callbacks)
		r = gb_options_copy(&cb, sizeof(cb), callbacks, &e);
	if (r == 0)
		r = gb_request_wait(request,
			timeout_ms < 0 ? GB_NEVER : gb_deadline_ms((uint64_t)timeout_ms),
			callbacks ? &cb : NULL, &e);
	return gb_give_error(err, &e, r);
}

int64_t glovebox_request_write(struct glovebox_request *request, const void *data, size_t len,
	struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int64_t r = gb_core_check(request->core, &e);

	if (r == 0)
		r = gb_call_write(request->call, data, len, &e);
	if (r < 0)
		gb_give_error(err, &e, (int)r);
	return r;
}

int glovebox_request_write_eof(struct glovebox_request *request, struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0)
		r = gb_call_write_eof(request->call, &e);
	return gb_give_error(err, &e, r);
}

static int tell(struct glovebox_request *request, uint8_t type, const struct gb_msg_desc *d,
	const void *msg, struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0)
		r = gb_call_tell(request->call, type, d, msg, &e);
	return gb_give_error(err, &e, r);
}

int glovebox_request_signal(struct glovebox_request *request, int signo, struct glovebox_error *err)
{
	struct gb_msg_signal m = { .signo = (uint32_t)signo };

	return tell(request, GB_FRAME_SIGNAL, &gb_msg_signal_desc, &m, err);
}

int glovebox_request_resize(struct glovebox_request *request, uint32_t rows, uint32_t cols,
	struct glovebox_error *err)
{
	struct gb_msg_winsize m = { rows, cols };

	return tell(request, GB_FRAME_WINSIZE, &gb_msg_winsize_desc, &m, err);
}

void gb_exit_of(const struct gb_msg_exit *m, struct glovebox_exit *ret)
{
	*ret = (struct glovebox_exit){ .size = sizeof(*ret), .code = (int)m->code,
		.signal = (int)m->signal, .flags = m->flags, .spawn_ns = m->spawn_ns };
	snprintf(ret->note, sizeof(ret->note), "%s", m->note ? m->note : "");
}

int glovebox_request_exit(struct glovebox_request *request, struct glovebox_exit *ret,
	struct glovebox_error *err)
{
	struct glovebox_exit ours;
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0 && (!gb_call_ended(request->call) || !gb_call_exit(request->call)))
		r = gb_fail(&e, GB_E_STATE, "the request has no exit (yet)");
	if (r == 0) {
		gb_exit_of(gb_call_exit(request->call), &ours);
		r = gb_result_copy(ret, sizeof(ours), &ours, &e);
	}
	return gb_give_error(err, &e, r);
}

void gb_scope_init(struct gb_scope *scope)
{
	memset(scope, 0, sizeof(*scope));
	pthread_mutex_init(&scope->lock, NULL);
}

void gb_scope_done(struct gb_scope *scope)
{
	pthread_mutex_destroy(&scope->lock);
}

void gb_scope_cancel(struct gb_scope *scope)
{
	pthread_mutex_lock(&scope->lock);
	scope->cancelled = true;
	if (scope->running)
		glovebox_request_cancel(scope->running);
	pthread_mutex_unlock(&scope->lock);
}

static void set_running(struct gb_scope *scope, struct glovebox_request *request)
{
	pthread_mutex_lock(&scope->lock);
	scope->running = request;
	if (request && scope->cancelled)
		glovebox_request_cancel(request);
	pthread_mutex_unlock(&scope->lock);
}

int gb_scope_wait_writable(struct gb_scope *scope, struct glovebox_request *request,
	const struct glovebox_callbacks *callbacks)
{
	bool ended = false;
	bool writable = false;

	if (scope)
		set_running(scope, request);
	while (!writable && !ended) {
		struct glovebox_event event;

		ended = gb_call_ended(request->call);
		while (!writable && gb_call_next(request->call, &event)) {
			writable = event.type == GLOVEBOX_EVENT_WRITABLE;
			if (callbacks && !call_back(callbacks, &event))
				glovebox_request_cancel(request);
		}
		if (!writable && !ended)
			gb_call_await(request->call, GB_NEVER);
	}
	if (scope)
		set_running(scope, NULL);
	return writable;
}

int gb_scope_wait(struct gb_scope *scope, struct glovebox_request *request,
	const struct glovebox_callbacks *callbacks, struct gb_err *err)
{
	int r;

	if (scope)
		set_running(scope, request);
	r = gb_request_wait(request, GB_NEVER, callbacks, err);
	if (scope)
		set_running(scope, NULL);
	return r < 0 ? r : 0;
}
