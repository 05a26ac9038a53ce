/* The event loop: edge-triggered, one thread. A turn: wait, note what became ready, read
 * requests, move bytes of every job (one piece a stream, so that none starves), write. */
#include "guest/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/answer.h"
#include "guest/dispatch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define EVENTS_A_TURN   64
#define READS_A_TURN    32  /* of the control port: its driver hands out 4 KiB each */
#define STALL_POLL_MS   20  /* a full port may become writable without saying so */
#define HOST_POLL_MS    20  /* nobody has connected to the port yet */
#define LAST_WORDS_MS   500
#define DIE_DEADLINE_MS 5000

int gb_watch_add(struct gb_agent *a, struct gb_watch *w, int fd, uint32_t events,
	void (*fn)(struct gb_agent *, struct gb_watch *, uint32_t), void *owner, struct gb_err *err)
{
	struct epoll_event ev = { .events = events | EPOLLET, .data.ptr = w };

	w->fd = fd;
	w->fn = fn;
	w->owner = owner;
	w->in = w->out = false;
	if (epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return gb_fail_sys(err, errno, "cannot watch a descriptor");
	return 0;
}

void gb_watch_close(struct gb_watch *w)
{
	/* closing removes it from the loop; no child holds a copy of the agent's ends for
	 * longer than until its exec */
	gb_fd_close(&w->fd);
	w->in = w->out = false;
}

void gb_die(struct gb_agent *a, const struct gb_err *err)
{
	gb_log(GB_LOG_ERROR, "%s", err->msg);
	if (a->ctl.port.fd >= 0)
		gb_ctl_flush_wait(&a->ctl, gb_deadline_ms(LAST_WORDS_MS));
	gb_power_off(a, 0, gb_deadline_ms(DIE_DEADLINE_MS));
}

static void child_ended(struct gb_agent *a, pid_t pid, int status)
{
	struct gb_err err;

	if (pid == a->relay) {
		a->relay = 0;
		gb_log(GB_LOG_ERROR, "the share relay has ended: shares are gone");
	} else if (pid == a->grower) {
		a->grower = 0;
		if (status)
			gb_log(GB_LOG_WARN, "%s", a->reports[GB_JOB_MAX].err.msg);
	} else if (pid == a->world_init) {
		a->world_init = 0;
		gb_fail(&err, GB_E_STATE, "the tools' first process has ended");
		gb_die(a, &err);
	} else {
		gb_job_reaped(a, pid, status);
	}
}

static void reap(struct gb_agent *a)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		child_ended(a, pid, status);
}

static void on_child(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	while (read(w->fd, &info, sizeof(info)) > 0)
		;
	reap(a);
}

static void on_port(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	(void)a;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		w->in = true;
	if (events & (EPOLLOUT | EPOLLERR))
		w->out = true;
}

static int watch_children(struct gb_agent *a, struct gb_err *err)
{
	sigset_t chld;
	int fd;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot watch for ended processes");
	return gb_watch_add(a, &a->sigchld, fd, EPOLLIN, on_child, NULL, err);
}

static int handle_frames(struct gb_agent *a, struct gb_err *err)
{
	struct gb_frame f;
	int r;

	while ((r = gb_frame_reader_next(&a->ctl.reader, &f, err)) > 0) {
		r = gb_dispatch(a, &f, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* The other end closed: before HELLO, nobody has come yet; after it, the host is gone. */
static int host_gone(struct gb_agent *a, struct gb_err *err)
{
	if (a->state != GB_AGENT_BOOTED)
		return gb_fail(err, GB_E_CLOSED, "the host closed the control port");
	a->ctl.broken = false;
	return 0;
}

static int read_requests(struct gb_agent *a, struct gb_err *err)
{
	for (int i = 0; i < READS_A_TURN && a->ctl.port.in; i++) {
		int n;

		if (gb_ctl_unsent(&a->ctl) > GB_CTL_STALL)
			return 0;
		n = gb_ctl_fill(&a->ctl, err);
		if (n < 0)
			return n;
		if (a->ctl.broken)
			return host_gone(a, err);
		n = handle_frames(a, err);
		if (n < 0)
			return n;
	}
	return 0;
}

static int next_timeout(struct gb_agent *a)
{
	uint64_t at = GB_MIN(gb_jobs_deadline(a), gb_memory_deadline(a));

	if (gb_jobs_pending(a))
		return 0;
	if (a->ctl.port.in && gb_ctl_unsent(&a->ctl) <= GB_CTL_STALL)
		return 0;
	for (const struct gb_drain *d = a->drains; d; d = d->next)
		if (d->w.in)
			return 0;
	if (gb_ctl_unsent(&a->ctl))
		at = GB_MIN(at, gb_deadline_ms(STALL_POLL_MS));
	if (a->state == GB_AGENT_BOOTED)
		at = GB_MIN(at, gb_deadline_ms(HOST_POLL_MS));
	return gb_deadline_poll_ms(at);
}

static int turn(struct gb_agent *a, struct gb_err *err)
{
	struct epoll_event ev[EVENTS_A_TURN];
	int n = epoll_wait(a->epoll, ev, EVENTS_A_TURN, next_timeout(a));
	int r;

	if (n < 0 && errno != EINTR)
		return gb_fail_sys(err, errno, "cannot wait for events");
	for (int i = 0; i < n; i++) {
		struct gb_watch *w = ev[i].data.ptr;

		if (w->fd >= 0)
			w->fn(a, w, ev[i].events);
	}
	if (n == 0 && a->state == GB_AGENT_BOOTED)
		a->ctl.port.in = true; /* a host that connects may not be announced */
	r = read_requests(a, err);
	if (r < 0)
		return r;
	gb_jobs_turn(a);
	gb_drain_sweep(a);
	r = gb_ctl_flush(&a->ctl, err);
	if (r == 0)
		gb_jobs_prepare(a);
	gb_memory_sample(a);
	return r;
}

void gb_serve(struct gb_agent *a)
{
	struct gb_err err = { 0 };
	int r;

	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	r = a->epoll < 0 ? gb_fail_sys(&err, errno, "cannot make an event loop")
			 : watch_children(a, &err);
	if (r == 0)
		r = gb_watch_add(a, &a->ctl.port, a->ctl.port.fd, EPOLLIN | EPOLLOUT, on_port,
			NULL, &err);
	if (r == 0)
		r = gb_ctl_flush(&a->ctl, &err);
	while (r == 0)
		r = turn(a, &err);
	gb_die(a, &err);
}
