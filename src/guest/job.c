#include "guest/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/answer.h"
#include "guest/session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define IDLE_GRACE_MS  200  /* the background holds a pipe, and nothing comes */
#define BULK_MIN       (16 << 10) /* bytes at once for which a second write to the port pays */
#define DRAIN_TOTAL_MS 2000 /* or something keeps coming */

static void clear(struct gb_job *j)
{
	memset(j, 0, sizeof(*j));
	j->started.fd = j->in.w.fd = j->out[0].w.fd = j->out[1].w.fd = j->fuse = -1;
	j->timeout_at = j->kill_at = j->idle_at = j->drain_at = GB_NEVER;
	for (int i = 0; i < 2; i++) {
		j->out[i].stream = i ? GB_STREAM_ERR : GB_STREAM_OUT;
		gb_flow_sender_init(&j->out[i].flow);
	}
	gb_flow_receiver_init(&j->in.flow);
}

_Static_assert(GB_JOB_MAX == 64, "a bit of gb_agent.live a slot");

static uint64_t slot_bit(const struct gb_agent *a, const struct gb_job *j)
{
	return UINT64_C(1) << (j - a->jobs);
}

struct gb_job *gb_job_new(struct gb_agent *a, enum gb_job_kind kind, uint32_t request)
{
	struct gb_job *j;

	if (!~a->live)
		return NULL;
	j = &a->jobs[__builtin_ctzll(~a->live)];
	a->live |= slot_bit(a, j);
	clear(j);
	j->kind = kind;
	j->request = request;
	return j;
}

/* Walks the slots in use only: slots are large, and each that is looked at is a page more to
 * be found by a processor that has just served somebody else. left starts as a->live. */
static struct gb_job *next_live(struct gb_agent *a, uint64_t *left)
{
	struct gb_job *j;

	if (!*left)
		return NULL;
	j = &a->jobs[__builtin_ctzll(*left)];
	*left &= *left - 1;
	return j;
}

struct gb_job *gb_job_find(struct gb_agent *a, uint32_t request)
{
	uint64_t left = a->live;
	struct gb_job *j;

	while ((j = next_live(a, &left)))
		if (j->request == request)
			return j;
	return NULL;
}

void gb_job_free(struct gb_agent *a, struct gb_job *j)
{
	gb_watch_close(&j->started);
	gb_watch_close(&j->in.w);
	gb_watch_close(&j->out[0].w);
	gb_watch_close(&j->out[1].w);
	gb_fd_close(&j->fuse);
	gb_buf_done(&j->in.pending);
	free(j->program);
	gb_session_job_free(a, j);
	if (j->cgroup)
		gb_cgroup_leave(a, j->cgroup);
	clear(j);
	a->live &= ~slot_bit(a, j);
}

void gb_job_fail(struct gb_agent *a, struct gb_job *j, const struct gb_err *err)
{
	gb_ctl_error(&a->ctl, j->request, err);
	gb_job_free(a, j);
}

static void on_started(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	struct gb_job *j = w->owner;

	(void)a;
	(void)events;
	j->started_end = true;
	gb_watch_close(w);
}

static void on_stream(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	(void)a;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		w->in = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		w->out = true;
}

int gb_job_watch_started(struct gb_agent *a, struct gb_job *j, int fd_consume, struct gb_err *err)
{
	return gb_watch_add(a, &j->started, fd_consume, EPOLLIN, on_started, j, err);
}

int gb_job_use_out(struct gb_agent *a, struct gb_job *j, int i, int fd_consume, struct gb_err *err)
{
	j->out[i].used = true;
	return gb_watch_add(a, &j->out[i].w, fd_consume, EPOLLIN, on_stream, j, err);
}

int gb_job_use_in(struct gb_agent *a, struct gb_job *j, int fd_consume, struct gb_err *err)
{
	j->in.used = true;
	gb_buf_init(&j->in.pending, GB_FLOW_MAX);
	return gb_watch_add(a, &j->in.w, fd_consume, EPOLLOUT, on_stream, j, err);
}

/* Frames from the host. */

static void grant(struct gb_agent *a, struct gb_job *j, size_t consumed)
{
	struct gb_msg_credit m = { 0 };

	while (consumed) {
		uint32_t n = (uint32_t)GB_MIN(consumed, (size_t)GB_FLOW_WINDOW);

		m.bytes += gb_flow_receiver_consumed(&j->in.flow, n);
		consumed -= n;
	}
	if (m.bytes)
		gb_msg_add_frame(&a->ctl.out, GB_FRAME_CREDIT, j->request, &gb_msg_credit_desc, &m);
}

/* Straight from the frame into the pipe where nothing waits before it; the rest is kept. */
static void take_input(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f)
{
	size_t done = 0;
	struct gb_err err;

	if (j->in.w.out && j->in.pending.len == 0 && f->length) {
		ssize_t n = write(j->in.w.fd, f->payload, f->length);

		if (n > 0) {
			done = (size_t)n;
			grant(a, j, done);
		}
	}
	gb_buf_add(&j->in.pending, f->payload + done, f->length - done);
	if (gb_buf_check(&j->in.pending, "input", &err) < 0)
		gb_job_break(a, j, &err);
}

void gb_job_data(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f)
{
	struct gb_err err;

	if (f->stream != GB_STREAM_IN || !j->in.used) {
		if (f->length == 0)
			return;
		gb_fail(&err, GB_E_PROTOCOL, "this request takes no input");
		gb_job_break(a, j, &err);
		return;
	}
	if (j->in.eof || gb_flow_receiver_arrived(&j->in.flow, f->length, &err) < 0) {
		if (j->in.eof)
			gb_fail(&err, GB_E_PROTOCOL, "input after its end");
		gb_job_break(a, j, &err);
		return;
	}
	j->in.eof = f->flags & GB_FRAME_EOF;
	if (j->kind == GB_JOB_RECV) {
		j->done += f->length;
		grant(a, j, f->length);
	} else if (j->in.w.fd < 0) {
		grant(a, j, f->length); /* the command closed its input */
	} else {
		take_input(a, j, f);
	}
}

void gb_job_credit(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f)
{
	struct gb_msg_credit m;
	struct gb_err err;

	if (gb_msg_credit_decode(f->payload, f->length, &m, &err) < 0) {
		gb_job_break(a, j, &err);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (j->out[i].stream != f->stream)
			continue;
		if (gb_flow_sender_grant(&j->out[i].flow, m.bytes, &err) < 0)
			gb_job_break(a, j, &err);
		return;
	}
}

static void kill_all(struct gb_agent *a, struct gb_job *j)
{
	if (j->killed)
		return;
	j->killed = true;
	j->timeout_at = j->kill_at = GB_NEVER;
	j->state = GB_JOB_ENDING;
	if (j->cgroup) {
		gb_cgroup_kill(j->cgroup);
		gb_cgroup_watch(a, j->cgroup);
	} else if (j->pid && !j->reaped) {
		kill(j->pid, SIGKILL);
	}
}

void gb_job_end(struct gb_agent *a, struct gb_job *j)
{
	kill_all(a, j);
}

void gb_job_cancel(struct gb_agent *a, struct gb_job *j)
{
	j->cancelled = true;
	kill_all(a, j);
}

void gb_job_break(struct gb_agent *a, struct gb_job *j, const struct gb_err *err)
{
	if (!j->failure.code)
		j->failure = *err;
	gb_job_cancel(a, j);
}

/* Moving bytes. */

static void close_out(struct gb_agent *a, struct gb_job *j, struct gb_out *o)
{
	gb_watch_close(&o->w);
	if (o->used && !o->eof_sent && gb_ctl_data_room(&a->ctl, 0))
		gb_ctl_data_end(&a->ctl, j->request, o->stream, 0, GB_FRAME_EOF);
	o->eof_sent = true;
}

/* Of a file that is read its facts go first; one that could not be opened has none. */
static bool waits_for_facts(const struct gb_job *j)
{
	return j->kind == GB_JOB_OWN && j->frame == GB_FRAME_FILE_READ && !j->told && !j->reaped;
}

static bool out_movable(const struct gb_agent *a, const struct gb_job *j, const struct gb_out *o)
{
	return !waits_for_facts(j) && j->state != GB_JOB_STARTING && o->w.fd >= 0 && o->w.in && o->flow.credit &&
		!j->cancelled && gb_ctl_has_room(&a->ctl);
}

/* A frame of what is there; as read(). */
static ssize_t copy_out(struct gb_agent *a, struct gb_job *j, struct gb_out *o)
{
	size_t want = GB_MIN((size_t)GB_CHUNK, (size_t)o->flow.credit);
	uint8_t *to = gb_ctl_data_room(&a->ctl, want);
	ssize_t n;

	if (!to) {
		errno = EAGAIN;
		return -1;
	}
	n = read(o->w.fd, to, want);
	if (n > 0)
		gb_ctl_data_end(&a->ctl, j->request, o->stream, (uint32_t)n, 0);
	return n;
}

static void move_out(struct gb_agent *a, struct gb_job *j, struct gb_out *o)
{
	ssize_t n = -1;
	bool moved = false;

	if (o->bulk) {
		n = gb_ctl_bulk(&a->ctl, o->w.fd, j->request, o->stream, o->flow.credit);
		moved = n >= 0 || errno == EAGAIN;
	}
	if (!moved)
		n = copy_out(a, j, o);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		o->w.in = errno == EINTR;
	} else if (n <= 0) {
		close_out(a, j, o); /* EIO: the last user of a terminal left */
	} else {
		o->bulk = n >= BULK_MIN && !j->tty;
		gb_flow_sender_take(&o->flow, (uint32_t)n);
		o->owed -= GB_MIN(o->owed, (uint64_t)n);
		if (j->state == GB_JOB_DRAINING)
			j->idle_at = gb_deadline_ms(IDLE_GRACE_MS);
	}
}

static bool in_movable(const struct gb_job *j)
{
	return j->in.w.fd >= 0 && j->in.w.out &&
		(j->in.pending.len > j->in.written || j->in.eof);
}

/* End of input on a terminal is a character. */
static void end_input(struct gb_job *j)
{
	struct termios t;
	uint8_t eof = 4;

	if (j->tty) {
		if (tcgetattr(j->in.w.fd, &t) == 0 && t.c_cc[VEOF])
			eof = t.c_cc[VEOF];
		if (write(j->in.w.fd, &eof, 1) < 0)
			gb_log(GB_LOG_DEBUG, "a terminal took no end of input");
	}
	gb_watch_close(&j->in.w);
}

static void move_in(struct gb_agent *a, struct gb_job *j)
{
	struct gb_in *in = &j->in;
	size_t left = in->pending.len - in->written;
	ssize_t n;

	if (left == 0) {
		end_input(j);
		return;
	}
	n = write(in->w.fd, in->pending.data + in->written, left);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		in->w.out = errno == EINTR;
		return;
	}
	if (n < 0) { /* it reads no more: what comes is thrown away */
		gb_watch_close(&in->w);
		n = (ssize_t)left;
	}
	in->written += (size_t)n;
	grant(a, j, (size_t)n);
	if (in->written == in->pending.len) {
		gb_buf_reset(&in->pending);
		in->written = 0;
	} else if (in->written > GB_FLOW_WINDOW / 2) {
		gb_buf_consume(&in->pending, in->written);
		in->written = 0;
	}
}

/* The life of a job. */

static void count_owed(struct gb_out *o)
{
	int n = 0;

	if (o->w.fd < 0)
		return;
	o->w.in = true;
	if (ioctl(o->w.fd, FIONREAD, &n) == 0 && n > 0)
		o->owed = (uint64_t)n;
}

static void start_draining(struct gb_job *j)
{
	j->state = GB_JOB_DRAINING;
	j->timeout_at = GB_NEVER;
	j->idle_at = gb_deadline_ms(IDLE_GRACE_MS);
	j->drain_at = gb_deadline_ms(DRAIN_TOTAL_MS);
	count_owed(&j->out[0]);
	count_owed(&j->out[1]);
}

static bool out_idle(const struct gb_out *o)
{
	return o->w.fd < 0 || (!o->w.in && !o->owed);
}

/* Whether nothing more is to be sent of what belongs to the main process. */
static bool drained(struct gb_agent *a, struct gb_job *j)
{
	if (j->out[0].w.fd < 0 && j->out[1].w.fd < 0)
		return true;
	if (j->out[0].owed || j->out[1].owed)
		return false;
	if (out_idle(&j->out[0]) && out_idle(&j->out[1])) {
		if (j->cgroup && gb_cgroup_empty(j->cgroup))
			return true;
		if (j->cgroup)
			gb_cgroup_watch(a, j->cgroup);
		if (gb_deadline_passed(j->idle_at))
			return true;
	}
	return gb_deadline_passed(j->drain_at);
}

static bool all_gone(const struct gb_job *j)
{
	return (!j->pid || j->reaped) && (!j->cgroup || gb_cgroup_empty(j->cgroup));
}

static void fire_deadlines(struct gb_agent *a, struct gb_job *j)
{
	if (gb_deadline_passed(j->timeout_at)) {
		j->timeout_at = GB_NEVER;
		j->timed_out = true;
		j->kill_at = gb_deadline_ms(j->grace_ms);
		gb_job_signal(j, SIGTERM);
		gb_job_signal(j, SIGCONT);
	}
	if (gb_deadline_passed(j->kill_at))
		kill_all(a, j);
}

/* The main process ended in time for its grace, but some of its children did not. */
static bool waits_for_grace(struct gb_agent *a, struct gb_job *j)
{
	if (!j->timed_out || j->killed || gb_cgroup_empty(j->cgroup))
		return false;
	gb_cgroup_watch(a, j->cgroup);
	return true;
}

static void advance(struct gb_agent *a, struct gb_job *j)
{
	fire_deadlines(a, j);
	if (j->state == GB_JOB_STARTING && (j->started_end || j->reaped))
		gb_job_on_started(a, j);
	if (j->kind == GB_JOB_NONE)
		return;
	if (j->state == GB_JOB_RUNNING && j->reaped && !waits_for_grace(a, j))
		start_draining(j);
	if (j->state == GB_JOB_ENDING && all_gone(j)) {
		if (j->cancelled)
			gb_job_answer(a, j);
		else
			start_draining(j);
	}
}

static void finish(struct gb_agent *a, struct gb_job *j)
{
	if (j->kind != GB_JOB_NONE && j->state == GB_JOB_DRAINING && drained(a, j))
		gb_job_answer(a, j);
}

void gb_job_close_streams(struct gb_agent *a, struct gb_job *j)
{
	for (int i = 0; i < 2; i++) {
		struct gb_out *o = &j->out[i];

		if (o->w.fd >= 0 && !j->killed)
			gb_drain_keep(a, &o->w);
		close_out(a, j, o);
	}
}

void gb_job_reaped(struct gb_agent *a, pid_t pid, int status)
{
	uint64_t left = a->live;
	struct gb_job *j;

	while ((j = next_live(a, &left))) {
		if (j->pid != pid || j->reaped)
			continue;
		j->reaped = true;
		j->status = status;
		j->spawn_ns = gb_now_ns() - j->begun;
		if (j->kind == GB_JOB_SPAWN)
			gb_bench_reaped(a, j);
		return;
	}
	gb_session_reaped(a, pid, status);
}

void gb_jobs_turn(struct gb_agent *a)
{
	uint64_t left;
	struct gb_job *j;

	gb_sessions_turn(a);
	left = a->live;
	while ((j = next_live(a, &left))) {
		if (j->kind == GB_JOB_NONE)
			continue;
		advance(a, j);
		gb_own_turn(a, j);
		for (int o = 0; o < 2; o++)
			if (out_movable(a, j, &j->out[o]))
				move_out(a, j, &j->out[o]);
		if (in_movable(j))
			move_in(a, j);
		gb_bench_turn(a, j);
		gb_session_job_turn(a, j);
		finish(a, j);
	}
}

void gb_jobs_prepare(struct gb_agent *a)
{
	if (!a->ready.there && !a->live)
		gb_exec_make_pipes(&a->ready, NULL);
}

bool gb_jobs_pending(struct gb_agent *a)
{
	uint64_t left = a->live;
	struct gb_job *j;

	while ((j = next_live(a, &left))) {
		if (out_movable(a, j, &j->out[0]) || out_movable(a, j, &j->out[1]) ||
			in_movable(j) || gb_bench_pending(a, j) ||
			gb_session_job_pending(a, j))
			return true;
	}
	return gb_sessions_pending(a);
}

/* What is owed has no deadline: it waits for the host's credit. */
static uint64_t drain_deadline(const struct gb_job *j)
{
	if (j->state != GB_JOB_DRAINING || j->out[0].owed || j->out[1].owed)
		return GB_NEVER;
	if (out_idle(&j->out[0]) && out_idle(&j->out[1]))
		return GB_MIN(j->idle_at, j->drain_at);
	return j->drain_at;
}

uint64_t gb_jobs_deadline(struct gb_agent *a)
{
	uint64_t at = gb_sessions_deadline(a);
	uint64_t left = a->live;
	struct gb_job *j;

	while ((j = next_live(a, &left))) {
		at = GB_MIN(at, GB_MIN(j->timeout_at, j->kill_at));
		at = GB_MIN(at, drain_deadline(j));
		at = GB_MIN(at, gb_session_job_deadline(j));
	}
	return at;
}
