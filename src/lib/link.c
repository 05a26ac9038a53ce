#include "lib/link_impl.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#define THREAD_STACK    ((size_t)128 << 10)
#define WIRE_OUT_MAX    ((size_t)64 << 20)
#define IDLE_KEEP_BYTES ((size_t)64 << 10) /* what an idle link keeps of each buffer */

void gb_link_wake(struct gb_link *l)
{
	uint64_t one = 1;

	/* it can only fail when the counter is full, and then the thread wakes anyway */
	if (write(l->wake, &one, sizeof(one)) < 0)
		return;
}

/* What does not fit now is written by the thread. A failure to write is left to the thread
 * too: reading finds the peer's last words first. */
void gb_link_flush(struct gb_link *l)
{
	if (l->failed || gb_wire_flush(&l->wire, NULL) < 0)
		return;
	if (l->wire.out.len && !l->thread_polls_out)
		gb_link_wake(l);
}

static void unlink_call(struct gb_link *l, struct gb_call *c)
{
	struct gb_call **at = c->state == GB_CALL_IS_FLYING ? &l->flying : &l->waiting;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->next = NULL;
	if (c->state == GB_CALL_IS_FLYING) {
		l->flying_count--;
		return;
	}
	l->waiting_count--;
	l->waiting_bytes -= c->frame.len;
	if (l->waiting_end == &c->next)
		l->waiting_end = at;
}

static void take_off(struct gb_link *l, struct gb_call *c)
{
	unlink_call(l, c);
	c->state = GB_CALL_IS_FLYING;
	c->next = l->flying;
	l->flying = c;
	l->flying_count++;
	gb_buf_add(&l->wire.out, c->frame.data, c->frame.len);
	gb_buf_done(&c->frame);
	gb_buf_init(&c->frame, 0);
	if (c->eof_wanted) {
		struct gb_frame f = { .type = GB_FRAME_DATA, .flags = GB_FRAME_EOF,
			.stream = GB_STREAM_IN, .request = c->id };

		gb_frame_add(&l->wire.out, &f);
	}
	gb_call_may_write(c);
}

void gb_link_admit(struct gb_link *l)
{
	bool any = false;

	while (l->waiting && l->flying_count < GB_LINK_SLOTS && !l->closing && !l->failed &&
		l->wire.out.len < GB_LINK_OUT_HIGH) {
		take_off(l, l->waiting);
		any = true;
	}
	if (any)
		gb_link_flush(l);
}

void gb_link_answered(struct gb_call *c)
{
	struct gb_link *l = c->link;

	unlink_call(l, c);
	c->state = GB_CALL_IS_ANSWERED;
	c->held_by_link = false;
	gb_call_unhold(c);
	gb_link_admit(l);
}

void gb_link_abandon(struct gb_call *c)
{
	struct gb_link *l = c->link;
	struct gb_frame f = { .type = GB_FRAME_CANCEL, .request = c->id };

	if (c->state == GB_CALL_IS_WAITING) {
		gb_link_answered(c);
		return;
	}
	if (c->state == GB_CALL_IS_ANSWERED || c->cancelled)
		return;
	c->cancelled = true;
	gb_frame_add(&l->wire.out, &f);
	gb_link_flush(l);
}

static void fail_list(struct gb_link *l, struct gb_call *list)
{
	while (list) {
		struct gb_call *c = list;

		list = c->next;
		c->next = NULL;
		c->state = GB_CALL_IS_ANSWERED;
		c->held_by_link = false;
		gb_call_end(c, &l->error);
		gb_call_unhold(c);
	}
}

void gb_link_fail(struct gb_link *l, const struct gb_err *why)
{
	struct gb_call *flying = l->flying;
	struct gb_call *waiting = l->waiting;

	if (l->failed)
		return;
	l->failed = true;
	l->error = *why;
	l->flying = l->waiting = NULL;
	l->waiting_end = &l->waiting;
	l->flying_count = l->waiting_count = l->waiting_bytes = 0;
	fail_list(l, flying);
	fail_list(l, waiting);
	/* at once, so that a bound machine does not outlive its connection */
	gb_wire_done(&l->wire);
	pthread_cond_broadcast(&l->over);
}

/* Ends what is over its time and finds the next deadline. */
static void check_deadlines(struct gb_link *l)
{
	struct gb_call *lists[] = { l->flying, l->waiting };
	uint64_t now = gb_now_ns();

	if (now < l->next_deadline)
		return;
	l->next_deadline = GB_NEVER;
	for (size_t i = 0; i < GB_ARRAY_SIZE(lists); i++) {
		struct gb_call *next;

		for (struct gb_call *c = lists[i]; c; c = next) {
			struct gb_err e = { 0 };

			next = c->next;
			if (c->ended)
				continue;
			if (now < c->deadline_ns) {
				l->next_deadline = GB_MIN(l->next_deadline, c->deadline_ns);
				continue;
			}
			gb_fail(&e, GB_E_TIMEOUT, "the request was over its time");
			gb_call_end(c, &e);
			gb_link_abandon(c);
		}
	}
}

/* An idle link holds little, however large its frames were. */
static void shrink(struct gb_link *l)
{
	struct gb_wire *w = &l->wire;

	if (l->flying)
		return;
	if (w->in.in.len == w->in.taken && w->in.in.cap > 2 * IDLE_KEEP_BYTES) {
		gb_frame_reader_done(&w->in);
		gb_frame_reader_init(&w->in);
	}
	if (!w->out.len && w->out.cap > IDLE_KEEP_BYTES) {
		gb_buf_done(&w->out);
		gb_buf_init(&w->out, WIRE_OUT_MAX);
	}
}

/* With the lock held: what was read, to the calls. */
static int take_frames(struct gb_link *l, struct gb_err *err)
{
	for (;;) {
		struct gb_frame f;
		int r = gb_wire_next(&l->wire, &f, err);

		if (r <= 0)
			return r;
		r = gb_link_frame(l, &f, err);
		if (r < 0)
			return r;
	}
}

/* With the lock held, after poll. */
static int serve(struct gb_link *l, short events, int filled, struct gb_err *err)
{
	int r = 0;

	if (filled < 0 && l->closing)
		return gb_fail(err, GB_E_CLOSED, "the workspace was shut down");
	if (filled < 0)
		return filled;
	if (events & (POLLIN | POLLHUP | POLLERR))
		r = take_frames(l, err);
	if (r < 0)
		return r;
	check_deadlines(l);
	gb_link_flush(l);
	r = gb_buf_check(&l->wire.out, "what is to be sent", err);
	gb_link_admit(l);
	shrink(l);
	return r;
}

static void *thread_main(void *ctx)
{
	struct gb_link *l = ctx;
	struct gb_err err = { 0 };

	pthread_mutex_lock(&l->lock);
	while (!l->failed && !l->quit) {
		struct pollfd p[2] = { { l->wire.fd, gb_wire_events(&l->wire), 0 },
			{ l->wake, POLLIN, 0 } };
		int wait_ms = gb_deadline_poll_ms(l->next_deadline);
		uint64_t drained;
		int r = 0;

		l->thread_polls_out = l->wire.out.len != 0;
		pthread_mutex_unlock(&l->lock);
		/* signals are blocked; what else can fail here fails in the read */
		poll(p, 2, wait_ms);
		if (p[1].revents && read(l->wake, &drained, sizeof(drained)) < 0)
			r = 0;
		if (p[0].revents & (POLLIN | POLLHUP | POLLERR))
			r = gb_wire_fill(&l->wire, &err);
		pthread_mutex_lock(&l->lock);
		l->thread_polls_out = false;
		if (serve(l, p[0].revents, r, &err) < 0)
			gb_link_fail(l, &err);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int start_thread(struct gb_link *l, struct gb_err *err)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int r;

	pthread_attr_init(&attr);
	/* refused where the program's thread-local data is large: the default does then */
	pthread_attr_setstacksize(&attr, GB_MAX(THREAD_STACK, (size_t)PTHREAD_STACK_MIN));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&l->thread, &attr, thread_main, l);
	if (r == EINVAL)
		r = pthread_create(&l->thread, NULL, thread_main, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return r ? gb_fail_sys(err, r, "cannot start a thread") : 0;
}

static struct gb_link *release(struct gb_link *l)
{
	gb_fd_close(&l->wake);
	gb_wire_done(&l->wire);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->over);
	free(l);
	return NULL;
}

int gb_link_new(struct gb_wire *wire_consume, uint32_t first_id, struct gb_link **ret,
	struct gb_err *err)
{
	struct gb_link *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;
	int r;

	if (!l) {
		gb_wire_done(wire_consume);
		return gb_nomem(err);
	}
	l->wire = *wire_consume;
	memset(wire_consume, 0, sizeof(*wire_consume));
	wire_consume->fd = -1;
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->over, &attr);
	pthread_condattr_destroy(&attr);
	l->waiting_end = &l->waiting;
	l->next_deadline = GB_NEVER;
	l->first_id = first_id;
	l->last_id = first_id - 1;
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = l->wake < 0 ? gb_fail_sys(err, errno, "cannot make an eventfd") : start_thread(l, err);
	if (r < 0) {
		release(l);
		return r;
	}
	*ret = l;
	return 0;
}

void gb_link_free(struct gb_link *l, bool forked)
{
	struct gb_err e = { 0 };

	if (!l)
		return;
	if (forked) {
		/* its lock may be held by a thread that does not exist here */
		gb_fd_close(&l->wake);
		gb_wire_done(&l->wire);
		free(l);
		return;
	}
	pthread_mutex_lock(&l->lock);
	l->quit = true;
	gb_link_wake(l);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	pthread_mutex_lock(&l->lock);
	gb_fail(&e, GB_E_CLOSED, "the workspace was closed");
	gb_link_fail(l, &e);
	pthread_mutex_unlock(&l->lock);
	release(l);
}

int gb_link_close(struct gb_link *l, unsigned held, uint32_t deadline_ms, struct gb_err *err)
{
	struct gb_msg_stop m = { .deadline_ms = deadline_ms };
	int r = 0;

	pthread_mutex_lock(&l->lock);
	if (l->closing)
		r = gb_fail(err, GB_E_CLOSED, "the workspace was shut down");
	else if (l->failed)
		r = gb_fail(err, GB_E_CLOSED, "%s", l->error.msg);
	else if (held)
		r = gb_fail(err, GB_E_BUSY, "%u capabilit%s of the workspace still live%s", held,
			held == 1 ? "y" : "ies", held == 1 ? "s" : "");
	else if (l->owner_open)
		r = gb_fail(err, GB_E_BUSY, "%u request%s of the owner %s still pending",
			l->owner_open, l->owner_open == 1 ? "" : "s",
			l->owner_open == 1 ? "is" : "are");
	if (r == 0) {
		l->closing = true;
		l->stop_id = ++l->last_id;
		gb_msg_add_frame(&l->wire.out, GB_FRAME_STOP, l->stop_id, &gb_msg_stop_desc, &m);
		gb_link_flush(l);
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int gb_link_await_end(struct gb_link *l, uint64_t deadline_ns, struct gb_err *err)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / GB_NS_SEC),
		.tv_nsec = (long)(deadline_ns % GB_NS_SEC) };
	bool failed;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->failed && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&l->over, &l->lock, &until);
	failed = l->failed;
	pthread_mutex_unlock(&l->lock);
	return failed ? 0 : gb_fail(err, GB_E_TIMEOUT, "the machine's supervisor does not end");
}
