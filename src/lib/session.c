/* Retained sessions. */
#include "lib/request.h"

#include <stdio.h>
#include <string.h>

#define HOLD_DEADLINE_MS      UINT64_C(10000)
#define LIST_DEADLINE_MS      UINT64_C(10000)
#define TERMINATE_DEADLINE_MS UINT64_C(10000)

#define SAME(theirs, ours) _Static_assert((int)(theirs) == (int)(ours), #theirs)
SAME(GLOVEBOX_SESSION_LOGIN, GB_SESSION_LOGIN);
SAME(GLOVEBOX_SESSION_TTY, GB_SESSION_TTY);
SAME(GLOVEBOX_SESSION_STDIN, GB_SESSION_STDIN);
SAME(GLOVEBOX_SESSION_EXITED, GB_SESSION_EXITED);
SAME(GLOVEBOX_SESSION_OOM, GB_SESSION_OOM);
SAME(GLOVEBOX_SESSION_IS_TTY, GB_SESSION_IS_TTY);
SAME(GLOVEBOX_SESSION_HAS_STDIN, GB_SESSION_HAS_STDIN);

int glovebox_session_start(struct glovebox_tools *tools,
	const struct glovebox_session_options *options, struct glovebox_request **ret,
	struct glovebox_error *err)
{
	struct glovebox_session_options o;
	struct gb_msg_session_start m = { 0 };
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0 && !o.cmd)
		r = gb_fail(&e, GB_E_INVALID, "a session needs a command");
	if (r == 0) {
		m.cmd = gb_text_of(o.cmd);
		m.shell = gb_text_of(o.shell);
		m.workdir = gb_text_of(o.workdir);
		m.user = gb_text_of(o.user);
		m.env = gb_list_of(o.env);
		m.flags = o.flags;
		m.rows = o.rows;
		m.cols = o.cols;
		m.yield_ms = o.yield_ms;
		r = gb_request_start(tools, GB_CALL_SESSION, GB_FRAME_SESSION_START,
			&gb_msg_session_start_desc, &m, o.deadline_ms, ret, &e);
	}
	return gb_give_error(err, &e, r);
}

int glovebox_session_input(struct glovebox_tools *tools, uint64_t session,
	const struct glovebox_session_input *input, struct glovebox_request **ret,
	struct glovebox_error *err)
{
	struct glovebox_session_input o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), input, &e);
	struct gb_msg_session_input m = { .session = session };

	if (r == 0) {
		m.chars = (struct gb_bytes){ (uint8_t *)(uintptr_t)o.chars, o.chars ? o.len : 0 };
		m.flags = o.eof ? GB_SESSION_INPUT_EOF : 0;
		m.signo = (uint32_t)o.signo;
		m.rows = o.rows;
		m.cols = o.cols;
		m.yield_ms = o.yield_ms;
		r = gb_request_start(tools, GB_CALL_SESSION, GB_FRAME_SESSION_INPUT,
			&gb_msg_session_input_desc, &m, o.deadline_ms, ret, &e);
	}
	return gb_give_error(err, &e, r);
}

int glovebox_request_session_output(struct glovebox_request *request,
	struct glovebox_session_output *ret, struct glovebox_error *err)
{
	struct glovebox_session_output ours = { .size = sizeof(ours) };
	const struct gb_msg_session_output *m = NULL;
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0 && gb_call_ended(request->call))
		m = gb_call_session(request->call);
	if (r == 0 && !m)
		r = gb_fail(&e, GB_E_STATE, "the request has no session's output (yet)");
	if (r == 0) {
		ours.session = m->session;
		ours.flags = m->flags;
		ours.code = (int)m->code;
		ours.signal = (int)m->signal;
		ours.bytes = m->bytes;
		ours.omitted = m->omitted;
		ours.head = m->head;
		ours.wall_ns = m->wall_ns;
		ours.spawn_ns = m->spawn_ns;
		snprintf(ours.note, sizeof(ours.note), "%s", m->note);
		r = gb_result_copy(ret, sizeof(ours), &ours, &e);
	}
	return gb_give_error(err, &e, r);
}

int gb_request_plain(struct glovebox_tools *tools, uint8_t type, const struct gb_msg_desc *d,
	const void *msg, uint64_t deadline_ms, struct gb_err *err)
{
	struct glovebox_request *q;
	int r = gb_request_start(tools, GB_CALL_PLAIN, type, d, msg, deadline_ms, &q, err);

	if (r < 0)
		return r;
	r = gb_scope_wait(NULL, q, NULL, err);
	glovebox_request_free(q);
	return r;
}

int glovebox_session_hold(struct glovebox_tools *tools, uint64_t session, uint32_t bytes,
	struct glovebox_error *err)
{
	struct gb_msg_session_hold m = { session, bytes };
	struct gb_err e = { 0 };
	int r = gb_request_plain(tools, GB_FRAME_SESSION_HOLD, &gb_msg_session_hold_desc, &m,
		HOLD_DEADLINE_MS, &e);

	return gb_give_error(err, &e, r);
}

int glovebox_terminate(
	struct glovebox_tools *tools, uint64_t session, struct glovebox_error *err)
{
	struct gb_msg_terminate m = { .session = session };
	struct gb_err e = { 0 };
	int r = gb_request_plain(tools, GB_FRAME_TERMINATE, &gb_msg_terminate_desc, &m,
		TERMINATE_DEADLINE_MS, &e);

	return gb_give_error(err, &e, r);
}

int glovebox_session_attach(struct glovebox_tools *tools, uint64_t session,
	const struct glovebox_attach_options *options, struct glovebox_request **ret,
	struct glovebox_error *err)
{
	struct glovebox_attach_options o;
	struct gb_msg_attach m = { .session = session };
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0) {
		m.rows = o.rows;
		m.cols = o.cols;
		m.scrollback = o.scrollback;
		r = gb_request_start(tools, GB_CALL_ATTACH, GB_FRAME_ATTACH, &gb_msg_attach_desc,
			&m, o.deadline_ms, ret, &e);
	}
	return gb_give_error(err, &e, r);
}

void glovebox_session_list_free(struct glovebox_session_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->count; i++) {
		free(list->sessions[i].cmd);
		free(list->sessions[i].workdir);
	}
	free(list->sessions);
	free(list);
}

static bool fill_info(struct glovebox_session_info *to, const struct gb_msg_session_info *m)
{
	*to = (struct glovebox_session_info){
		.session = m->session,
		.flags = m->flags,
		.code = (int)m->code,
		.signal = (int)m->signal,
		.pid = m->pid,
		.cmd = strdup(m->cmd),
		.workdir = strdup(m->workdir),
		.started_realtime_ns = m->started_realtime_ns,
		.bytes = m->bytes,
		.attached = m->attached,
	};
	return to->cmd && to->workdir;
}

static int make_list(const struct gb_msg_session_info *infos, size_t count,
	struct glovebox_session_list **ret, struct gb_err *err)
{
	struct glovebox_session_list *list = calloc(1, sizeof(*list));
	bool ok = list != NULL;

	if (ok) {
		list->size = sizeof(*list);
		list->stride = sizeof(*list->sessions);
		list->sessions = calloc(count ? count : 1, sizeof(*list->sessions));
		ok = list->sessions != NULL;
	}
	for (size_t i = 0; ok && i < count; i++) {
		ok = fill_info(&list->sessions[i], &infos[i]);
		list->count++;
	}
	if (!ok) {
		glovebox_session_list_free(list);
		return gb_nomem(err);
	}
	*ret = list;
	return 0;
}

int glovebox_sessions(struct glovebox_tools *tools, struct glovebox_session_list **ret,
	struct glovebox_error *err)
{
	const struct gb_msg_session_info *infos;
	struct glovebox_request *q;
	struct gb_err e = { 0 };
	size_t count;
	int r = gb_request_start(tools, GB_CALL_LIST, GB_FRAME_SESSIONS, NULL, NULL,
		LIST_DEADLINE_MS, &q, &e);

	if (r < 0)
		return gb_give_error(err, &e, r);
	r = gb_scope_wait(NULL, q, NULL, &e);
	if (r == 0) {
		infos = gb_call_infos(q->call, &count);
		r = make_list(infos, count, ret, &e);
	}
	glovebox_request_free(q);
	return gb_give_error(err, &e, r);
}
