#include "guest/session.h"
#include "base/clock.h"
#include "guest/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TERMINATE_MS 10000
#define CHAR_INT     3  /* what a terminal's keys would send */
#define CHAR_EOF     4
#define CHAR_QUIT    28

struct gb_session_job {
	struct gb_session *session; /* borrowed; START and INPUT */
	uint64_t id;
	bool starts; /* until it was answered the session is part of the request */
	bool sending;
	uint64_t arrived;
	uint64_t due; /* when it is answered in any case */
	struct gb_buf out;
	size_t sent;
	struct gb_msg_session_output result;
	/* ATTACH */
	struct gb_ring queue;
	uint64_t dropped;
	bool ended;
	struct gb_msg_exit exit;
};

static struct gb_session_job *job_of(
	struct gb_agent *a, enum gb_job_kind kind, uint32_t request, struct gb_job **ret, struct gb_err *err)
{
	struct gb_session_job *sj = calloc(1, sizeof(*sj));
	struct gb_job *j = sj ? gb_job_new(a, kind, request) : NULL;

	if (!j) {
		if (!sj)
			gb_nomem(err);
		else
			gb_fail(err, GB_E_BUSY, "%d requests are being served", GB_JOB_MAX);
		free(sj);
		return NULL;
	}
	j->state = GB_JOB_RUNNING;
	j->session = sj;
	sj->arrived = gb_now_ns();
	sj->due = GB_NEVER;
	gb_buf_init(&sj->out, GB_SESSION_CAPTURE);
	gb_ring_init(&sj->queue, GB_ATTACH_QUEUE);
	*ret = j;
	return sj;
}

void gb_session_job_free(struct gb_agent *a, struct gb_job *j)
{
	struct gb_session_job *sj = j->session;

	(void)a;
	if (!sj)
		return;
	if (sj->session && sj->session->waiter == j)
		sj->session->waiter = NULL;
	gb_buf_done(&sj->out);
	gb_ring_done(&sj->queue);
	free(sj);
	j->session = NULL;
}

static int not_there(uint64_t id, struct gb_err *err)
{
	return gb_fail(err, GB_E_NOTFOUND,
		"there is no session %llu (a session is gone when its end was told)",
		(unsigned long long)id);
}

static uint64_t yield_deadline(uint64_t ms)
{
	return gb_deadline_ms(GB_MIN(ms, GB_SESSION_YIELD_MAX));
}

int gb_session_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_session_start) m = { 0 };
	struct gb_session_job *sj;
	struct gb_job *j;
	int r = gb_msg_session_start_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	sj = job_of(a, GB_JOB_SESSION, f->request, &j, err);
	if (!sj)
		return err->code;
	sj->starts = true;
	sj->due = yield_deadline(m.yield_ms);
	r = gb_session_new(a, j, &m, err);
	if (r < 0) {
		gb_job_free(a, j);
		return r;
	}
	sj->session = a->sessions;
	sj->id = sj->session->id;
	return 0;
}

/* Keys that mean something where there is no terminal to know it. False: plain input. */
static bool key(struct gb_session *s, const struct gb_bytes *chars)
{
	if (s->tty || chars->len != 1)
		return false;
	switch (chars->data[0]) {
	case CHAR_INT:
		gb_session_signal(s, SIGINT);
		return true;
	case CHAR_QUIT:
		gb_session_signal(s, SIGQUIT);
		return true;
	case CHAR_EOF:
		s->input_eof = s->has_stdin;
		return s->has_stdin;
	default:
		return false;
	}
}

static int apply_input(struct gb_session *s, const struct gb_msg_session_input *m,
	struct gb_err *err)
{
	int r = 0;

	if (s->state == GB_SESSION_ENDED)
		return 0;
	if (s->tty && m->rows && m->cols && s->out.fd >= 0)
		gb_terminal_resize(s->out.fd, m->rows, m->cols);
	if (m->signo)
		gb_session_signal(s, (int)m->signo);
	if (!key(s, &m->chars))
		r = gb_session_feed(s, m->chars.data, m->chars.len, err);
	if (r == 0 && (m->flags & GB_SESSION_INPUT_EOF))
		s->input_eof = s->has_stdin;
	return r;
}

int gb_session_input(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_session_input) m = { 0 };
	struct gb_session_job *sj;
	struct gb_session *s;
	struct gb_job *j;
	int r = gb_msg_session_input_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (m.signo >= (uint32_t)NSIG)
		return gb_fail(err, GB_E_INVALID, "%u is no signal", m.signo);
	s = gb_session_find(a, m.session);
	if (!s)
		return not_there(m.session, err);
	if (s->waiter)
		return gb_fail(err, GB_E_BUSY, "another call waits for session %llu",
			(unsigned long long)s->id);
	r = apply_input(s, &m, err);
	if (r < 0)
		return r;
	sj = job_of(a, GB_JOB_SESSION, f->request, &j, err);
	if (!sj)
		return err->code;
	sj->due = yield_deadline(m.yield_ms);
	sj->session = s;
	sj->id = s->id;
	s->waiter = j;
	return 0;
}

int gb_session_hold(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_session_hold) m = { 0 };
	struct gb_session *s;
	int r = gb_msg_session_hold_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	s = gb_session_find(a, m.session);
	if (!s)
		return not_there(m.session, err);
	if (m.bytes > s->last.len)
		return gb_fail(err, GB_E_LIMIT, "the last %zu bytes can be given back, not %u",
			s->last.len, m.bytes);
	gb_capture_unread(&s->capture, s->last.data + s->last.len - m.bytes, m.bytes);
	gb_buf_reset(&s->last);
	gb_ctl_ok(&a->ctl, f->request);
	return 0;
}

static uint32_t flags_of(const struct gb_session *s)
{
	return (s->state == GB_SESSION_ENDED ? GB_SESSION_EXITED : 0u) |
	       (s->oom ? GB_SESSION_OOM : 0u) | (s->tty ? GB_SESSION_IS_TTY : 0u) |
	       (s->has_stdin ? GB_SESSION_HAS_STDIN : 0u);
}

static uint32_t followers(struct gb_agent *a, uint64_t id)
{
	uint32_t n = 0;

	for (size_t i = 0; i < GB_JOB_MAX; i++)
		n += a->jobs[i].kind == GB_JOB_ATTACH && a->jobs[i].session->id == id;
	return n;
}

int gb_session_list(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	(void)err;
	for (const struct gb_session *s = a->sessions; s; s = s->next) {
		struct gb_msg_session_info m = {
			.session = s->id,
			.flags = flags_of(s),
			.pid = s->shown_pid,
			.cmd = s->cmd,
			.workdir = s->workdir,
			.started_realtime_ns = s->started_realtime,
			.bytes = s->bytes,
			.attached = followers(a, s->id),
		};

		if (s->state == GB_SESSION_ENDED)
			gb_exit_of(s->status, &m.code, &m.signal);
		gb_msg_add_frame(&a->ctl.out, GB_FRAME_SESSION_INFO, f->request,
			&gb_msg_session_info_desc, &m);
	}
	gb_ctl_ok(&a->ctl, f->request);
	return 0;
}

/* Following a session. */

static void note_end(struct gb_session_job *sj, const struct gb_session *s)
{
	sj->ended = true;
	gb_exit_of(s->status, &sj->exit.code, &sj->exit.signal);
	sj->exit.spawn_ns = s->spawn_ns;
	if (s->oom)
		sj->exit.flags |= GB_EXIT_OOM;
}

static void add_scrollback(struct gb_session_job *sj, const struct gb_session *s, uint64_t want)
{
	size_t first;
	const uint8_t *p = gb_ring_front(&s->scrollback, &first);
	size_t skip = s->scrollback.len - (size_t)GB_MIN(want, (uint64_t)s->scrollback.len);

	if (skip < first)
		gb_ring_add(&sj->queue, p + skip, first - skip);
	skip = skip > first ? skip - first : 0;
	gb_ring_add(&sj->queue, s->scrollback.data + skip, s->scrollback.len - first - skip);
}

static int follow_input(struct gb_agent *a, struct gb_job *j, const struct gb_session *s,
	struct gb_err *err)
{
	int fd;

	if (s->in.fd < 0 || s->input_eof)
		return 0;
	fd = fcntl(s->in.fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot follow the session's input");
	return gb_job_use_in(a, j, fd, err);
}

int gb_session_attach(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_attach) m = { 0 };
	struct gb_session_job *sj;
	struct gb_session *s;
	struct gb_job *j;
	int r = gb_msg_attach_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	s = gb_session_find(a, m.session);
	if (!s)
		return not_there(m.session, err);
	sj = job_of(a, GB_JOB_ATTACH, f->request, &j, err);
	if (!sj)
		return err->code;
	sj->id = s->id;
	j->tty = s->tty;
	add_scrollback(sj, s, m.scrollback);
	if (s->state == GB_SESSION_ENDED)
		note_end(sj, s);
	if (s->tty && s->out.fd >= 0 && m.rows && m.cols)
		gb_terminal_resize(s->out.fd, m.rows, m.cols);
	r = follow_input(a, j, s, err);
	if (r < 0)
		gb_job_free(a, j);
	return r;
}

void gb_attached_add(struct gb_agent *a, const struct gb_session *s, const void *data, size_t len)
{
	for (size_t i = 0; i < GB_JOB_MAX; i++) {
		struct gb_job *j = &a->jobs[i];

		if (j->kind == GB_JOB_ATTACH && j->session->id == s->id)
			j->session->dropped += gb_ring_add(&j->session->queue, data, len);
	}
}

void gb_attached_end(struct gb_agent *a, const struct gb_session *s)
{
	for (size_t i = 0; i < GB_JOB_MAX; i++) {
		struct gb_job *j = &a->jobs[i];

		if (j->kind == GB_JOB_ATTACH && j->session->id == s->id)
			note_end(j->session, s);
	}
}

void gb_session_job_signal(struct gb_agent *a, struct gb_job *j, int signo)
{
	const struct gb_session *s = gb_session_find(a, j->session->id);

	if (s && s->state != GB_SESSION_ENDED)
		gb_session_signal(s, signo);
}

void gb_session_job_resize(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f)
{
	const struct gb_session *s = gb_session_find(a, j->session->id);
	struct gb_msg_winsize m;

	if (s && s->tty && s->out.fd >= 0 &&
		gb_msg_winsize_decode(f->payload, f->length, &m, NULL) == 0)
		gb_terminal_resize(s->out.fd, m.rows, m.cols);
}

/* Ending them. */

int gb_session_terminate(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_terminate) m = { 0 };
	struct gb_session_job *sj;
	struct gb_job *j;
	int r = gb_msg_terminate_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (m.session && !gb_session_find(a, m.session))
		return not_there(m.session, err);
	sj = job_of(a, GB_JOB_TERMINATE, f->request, &j, err);
	if (!sj)
		return err->code;
	sj->id = m.session;
	sj->due = gb_deadline_ms(TERMINATE_MS);
	for (struct gb_session *s = a->sessions; s; s = s->next)
		if (!m.session || s->id == m.session)
			gb_session_kill(a, s);
	for (size_t i = 0; i < GB_JOB_MAX && !m.session; i++)
		if (a->jobs[i].kind == GB_JOB_EXEC)
			gb_job_end(a, &a->jobs[i]);
	return 0;
}

static bool all_ended(struct gb_agent *a, uint64_t id)
{
	for (const struct gb_session *s = a->sessions; s; s = s->next)
		if (s->state == GB_SESSION_ENDING && (!id || s->id == id))
			return false;
	for (size_t i = 0; i < GB_JOB_MAX && !id; i++)
		if (a->jobs[i].kind == GB_JOB_EXEC && a->jobs[i].state == GB_JOB_ENDING)
			return false;
	return true;
}

static void terminate_turn(struct gb_agent *a, struct gb_job *j)
{
	struct gb_err err;

	if (all_ended(a, j->session->id)) {
		gb_ctl_ok(&a->ctl, j->request);
		gb_job_free(a, j);
	} else if (gb_deadline_passed(j->session->due)) {
		gb_fail(&err, GB_E_TIMEOUT, "killed processes have not ended in %d seconds",
			TERMINATE_MS / 1000);
		gb_job_fail(a, j, &err);
	}
}

/* Answering. */

/* Up to one frame of what is there, within credit; how much. */
static size_t send_some(struct gb_agent *a, struct gb_job *j, const uint8_t *data, size_t len)
{
	size_t n = GB_MIN(GB_MIN(len, (size_t)GB_CHUNK), (size_t)j->out[0].flow.credit);
	uint8_t *to = n && gb_ctl_has_room(&a->ctl) ? gb_ctl_data_room(&a->ctl, n) : NULL;

	if (!to)
		return 0;
	memcpy(to, data, n);
	gb_ctl_data_end(&a->ctl, j->request, GB_STREAM_OUT, (uint32_t)n, 0);
	gb_flow_sender_take(&j->out[0].flow, (uint32_t)n);
	return n;
}

static void keep_end(struct gb_session *s, const struct gb_buf *out)
{
	size_t n = GB_MIN(out->len, GB_SESSION_HOLD_MAX);

	gb_buf_reset(&s->last);
	gb_buf_add(&s->last, out->data + out->len - n, n);
}

static void begin_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_session_job *sj = j->session;
	struct gb_session *s = sj->session;
	struct gb_msg_session_output *m = &sj->result;
	struct gb_err err;

	if (s->failure.code) {
		err = s->failure;
		gb_session_forget(a, s);
		sj->session = NULL;
		gb_job_fail(a, j, &err);
		return;
	}
	if (gb_capture_take(&s->capture, &sj->out, &m->head, &m->bytes, &m->omitted, &err) < 0) {
		gb_job_fail(a, j, &err);
		return;
	}
	m->session = s->id;
	m->flags = flags_of(s);
	m->wall_ns = gb_now_ns() - sj->arrived;
	if (m->flags & GB_SESSION_EXITED) {
		gb_exit_of(s->status, &m->code, &m->signal);
		m->spawn_ns = s->spawn_ns;
	} else {
		keep_end(s, &sj->out);
	}
	sj->sending = true;
}

static void end_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_session_job *sj = j->session;

	if (sj->result.flags & GB_SESSION_OOM)
		sj->result.note = (char *)(uintptr_t) "the machine's memory ran out";
	gb_msg_add_frame(&a->ctl.out, GB_FRAME_SESSION_OUTPUT, j->request,
		&gb_msg_session_output_desc, &sj->result);
	gb_ctl_flush(&a->ctl, NULL);
	if (sj->result.flags & GB_SESSION_EXITED) {
		gb_session_forget(a, sj->session);
		sj->session = NULL;
	}
	gb_job_free(a, j);
}

static bool is_due(const struct gb_session_job *sj)
{
	const struct gb_session *s = sj->session;

	return s->state == GB_SESSION_ENDED ||
	       (s->state != GB_SESSION_STARTING && s->state != GB_SESSION_ENDING &&
		       gb_deadline_passed(sj->due));
}

static void session_turn(struct gb_agent *a, struct gb_job *j)
{
	struct gb_session_job *sj = j->session;

	if (!sj->sending && is_due(sj)) {
		begin_answer(a, j);
		if (j->kind == GB_JOB_NONE)
			return;
	}
	if (!sj->sending)
		return;
	if (sj->sent < sj->out.len)
		sj->sent += send_some(a, j, sj->out.data + sj->sent, sj->out.len - sj->sent);
	if (sj->sent == sj->out.len)
		end_answer(a, j);
}

static void attach_exit(struct gb_agent *a, struct gb_job *j)
{
	struct gb_session_job *sj = j->session;
	char note[96];

	if (sj->dropped) {
		snprintf(note, sizeof(note), "%llu bytes were left out: they came too fast",
			(unsigned long long)sj->dropped);
		sj->exit.note = note;
	}
	gb_msg_add_frame(
		&a->ctl.out, GB_FRAME_EXIT, j->request, &gb_msg_exit_desc, &sj->exit);
	gb_job_free(a, j);
}

static void attach_turn(struct gb_agent *a, struct gb_job *j)
{
	struct gb_session_job *sj = j->session;
	size_t len;
	const uint8_t *p = gb_ring_front(&sj->queue, &len);

	if (len)
		gb_ring_consume(&sj->queue, send_some(a, j, p, len));
	if (!sj->queue.len && sj->ended)
		attach_exit(a, j);
}

void gb_session_job_turn(struct gb_agent *a, struct gb_job *j)
{
	if (j->cancelled)
		return;
	if (j->kind == GB_JOB_SESSION)
		session_turn(a, j);
	else if (j->kind == GB_JOB_ATTACH)
		attach_turn(a, j);
	else if (j->kind == GB_JOB_TERMINATE)
		terminate_turn(a, j);
}

bool gb_session_job_pending(const struct gb_agent *a, const struct gb_job *j)
{
	const struct gb_session_job *sj = j->session;
	bool waits;

	if (!sj || j->cancelled)
		return false;
	waits = j->kind == GB_JOB_ATTACH ? sj->queue.len > 0 : sj->sending;
	return waits && j->out[0].flow.credit && gb_ctl_has_room(&a->ctl);
}

uint64_t gb_session_job_deadline(const struct gb_job *j)
{
	const struct gb_session_job *sj = j->session;

	if (!sj || j->cancelled || sj->sending)
		return GB_NEVER;
	/* a session that is about to begin or end wakes the loop itself */
	if (j->kind == GB_JOB_SESSION && sj->session->state != GB_SESSION_LIVE)
		return GB_NEVER;
	return sj->due;
}

/* It was cancelled: asked again each turn until what belongs to it is gone. */
void gb_session_job_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_session_job *sj = j->session;
	struct gb_session *s = sj->session;
	struct gb_err err = j->failure;

	if (!err.code)
		gb_fail(&err, GB_E_CANCELLED, "the request was cancelled");
	if (j->kind == GB_JOB_ATTACH && !j->failure.code) {
		sj->exit.flags |= GB_EXIT_CANCELLED;
		attach_exit(a, j);
		return;
	}
	if (s && sj->starts) {
		gb_session_kill(a, s);
		if (s->state != GB_SESSION_ENDED)
			return;
		gb_session_forget(a, s);
		sj->session = NULL;
	} else if (s && sj->sending) {
		/* nobody has seen it */
		gb_capture_unread(&s->capture, sj->out.data, sj->out.len);
	}
	gb_job_fail(a, j, &err);
}
