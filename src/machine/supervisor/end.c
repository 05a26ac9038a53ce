/* How a machine ends: by STOP or SIGTERM (the guest is asked to sync and power off, then the
 * VMM is killed), by the loss of its VMM, its agent or its share server (everybody is told why),
 * or, when bound, with its last client. Whatever it was, the loop is left through finish(). */
#include "machine/supervisor/impl.h"
#include "base/log.h"
#include "base/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SIGNAL_STOP_MS   10000
#define LOST_WAIT_MS     500   /* from the agent's hang-up to the VMM's end */
#define SPACE_CHECK_MS   1000
#define SPACE_NEEDED     (UINT64_C(64) << 20)

static void finish(struct gb_sup *s, const char *how)
{
	if (s->ended)
		return;
	s->ended = true;
	snprintf(s->end_text, sizeof(s->end_text), "%s", how);
	uv_stop(&s->loop);
}

static void answer_stoppers(struct gb_sup *s)
{
	struct gb_sup_stopper *next;

	for (struct gb_sup_stopper *p = s->stoppers; p; p = next) {
		next = p->next;
		if (p->client)
			gb_msg_add_frame(gb_conn_out(&p->client->conn, &s->flusher),
				GB_FRAME_OK, p->client_id, NULL, NULL);
		free(p);
	}
	s->stoppers = NULL;
}

/* A client that asks for nothing just now hears of the end by a word of the connection itself. */
static void tell_clients(struct gb_sup *s, const struct gb_err *reason)
{
	gb_sup_fail_requests(s, reason);
	for (struct gb_sup_client *c = s->clients; c; c = c->next)
		if (c->greeted)
			gb_sup_send_error(c, 0, reason);
}

/* The VMM is gone as we wanted. */
static void stopped(struct gb_sup *s)
{
	struct gb_err e = { 0 };

	gb_fail(&e, GB_E_CLOSED, "machine '%s' was stopped", s->spec.name);
	tell_clients(s, &e);
	answer_stoppers(s);
	finish(s, "ok");
}

void gb_sup_fail(struct gb_sup *s, const struct gb_err *reason)
{
	if (s->ended)
		return;
	gb_log(GB_LOG_ERROR, "%s", reason->msg);
	tell_clients(s, reason);
	s->boot.driver->kill(s->boot.vm);
	answer_stoppers(s);
	finish(s, reason->msg);
}

static void kill_and_stop(struct gb_sup *s)
{
	s->boot.driver->kill(s->boot.vm);
	stopped(s);
}

static void stop_timed_out(uv_timer_t *t)
{
	struct gb_sup *s = t->data;

	gb_log(GB_LOG_WARN, "the guest did not power off in time: its VM was ended");
	kill_and_stop(s);
}

void gb_sup_stop(struct gb_sup *s, uint32_t deadline_ms, bool force)
{
	struct gb_msg_shutdown m = { .deadline_ms = deadline_ms };

	if (force) {
		s->stopping = true;
		kill_and_stop(s);
		return;
	}
	if (s->stopping)
		return;
	s->stopping = true;
	gb_msg_add_frame(gb_conn_out(&s->agent, &s->flusher), GB_FRAME_SHUTDOWN,
		gb_sup_control_id(s), &gb_msg_shutdown_desc, &m);
	uv_timer_start(&s->stop_timer, stop_timed_out, deadline_ms, 0);
}

static void vm_exited(struct gb_sup *s, int status)
{
	struct gb_err e = { 0 };
	char how[128];

	if (s->stopping) {
		stopped(s);
		return;
	}
	gb_describe_status(status, how, sizeof(how));
	gb_fail(&e, GB_E_CLOSED, "machine '%s' is gone: its VM was %s", s->spec.name,
		WIFSIGNALED(status) ? how : "ended by the guest");
	gb_sup_fail(s, &e);
}

static void check_space(uv_timer_t *t)
{
	struct gb_sup *s = t->data;
	struct statvfs fs;

	if (statvfs(s->dirs.data, &fs) < 0 || fs.f_bavail * fs.f_frsize < SPACE_NEEDED)
		return;
	uv_timer_stop(t);
	if (s->boot.driver->resume(s->boot.vm, NULL) < 0)
		return;
	s->note[0] = 0;
	gb_sup_send_note(s, "the host's disk has room again, the machine goes on");
}

static void disk_full(struct gb_sup *s)
{
	if (!*s->note) {
		snprintf(s->note, sizeof(s->note),
			"the host's disk is full: the machine is paused until there is room in "
			"'%.160s'",
			s->dirs.data);
		gb_log(GB_LOG_WARN, "%s", s->note);
		gb_sup_send_note(s, s->note);
	}
	uv_timer_start(&s->space_timer, check_space, SPACE_CHECK_MS, SPACE_CHECK_MS);
}

static void vm_event(uv_poll_t *p, int status, int events)
{
	struct gb_sup *s = p->data;
	struct gb_vm_event e;
	struct gb_err err = { 0 };
	int r;

	(void)status;
	(void)events;
	while (!s->ended && (r = s->boot.driver->next_event(s->boot.vm, &e, &err)) != 0) {
		if (r < 0) {
			gb_sup_fail(s, &err);
			return;
		}
		switch (e.kind) {
		case GB_VM_EXITED:
			vm_exited(s, e.status);
			break;
		case GB_VM_DISK_FULL:
			disk_full(s);
			break;
		case GB_VM_DISK_ERROR:
			gb_log(GB_LOG_WARN, "the host failed to read or write the disk");
			gb_sup_send_note(s, "the host failed to read or write the machine's disk");
			break;
		case GB_VM_GUEST_OFF:
			break;
		}
	}
}

static void share_ended(uv_poll_t *p, int status, int events)
{
	struct gb_sup *s = p->data;
	struct gb_err e = { 0 };
	int how = 0;
	char text[128];

	(void)status;
	(void)events;
	if (waitpid(s->boot.share_pid, &how, WNOHANG) <= 0)
		return;
	s->boot.share_pid = 0;
	uv_poll_stop(p);
	if (s->stopping)
		return;
	gb_describe_status(how, text, sizeof(text));
	gb_fail(&e, GB_E_CLOSED, "machine '%s' is gone: its share server was %s", s->spec.name,
		WIFSIGNALED(how) ? text : "ended (see glovebox logs)");
	gb_sup_fail(s, &e);
}

static void agent_lost(uv_timer_t *t)
{
	struct gb_sup *s = t->data;
	struct gb_err e = { 0 };

	if (s->stopping) {
		kill_and_stop(s);
		return;
	}
	gb_fail(&e, GB_E_CLOSED, "machine '%s' is gone: its guest agent hung up", s->spec.name);
	gb_sup_fail(s, &e);
}

void gb_sup_agent_ended(struct gb_sup *s, const struct gb_err *reason)
{
	struct gb_err e = *reason;

	gb_conn_close(&s->agent, &s->flusher);
	if (reason->code == GB_E_CLOSED) {
		uv_timer_start(&s->lost_timer, agent_lost, LOST_WAIT_MS, 0);
		return;
	}
	gb_wrap(&e, e.code, "machine '%s' is gone", s->spec.name);
	gb_sup_fail(s, &e);
}

static void on_signal(uv_signal_t *h, int signo)
{
	(void)signo;
	gb_sup_stop(h->data, SIGNAL_STOP_MS, false);
}

static void init_timers(struct gb_sup *s)
{
	uv_timer_t *const timers[] = { &s->stop_timer, &s->lost_timer, &s->space_timer };

	for (size_t i = 0; i < GB_ARRAY_SIZE(timers); i++) {
		uv_timer_init(&s->loop, timers[i]);
		timers[i]->data = s;
	}
}

int gb_sup_watch(struct gb_sup *s, struct gb_err *err)
{
	uv_signal_t *const signals[] = { &s->sigterm, &s->sigint };
	static const int numbers[] = { SIGTERM, SIGINT };

	init_timers(s);
	for (size_t i = 0; i < GB_ARRAY_SIZE(signals); i++) {
		uv_signal_init(&s->loop, signals[i]);
		signals[i]->data = s;
		uv_signal_start(signals[i], on_signal, numbers[i]);
	}
	uv_poll_init(&s->loop, &s->vm_poll, s->boot.driver->event_fd(s->boot.vm));
	s->vm_poll.data = s;
	uv_poll_start(&s->vm_poll, UV_READABLE, vm_event);
	if (!s->boot.share_pid)
		return 0;
	s->share_pidfd = (int)syscall(SYS_pidfd_open, s->boot.share_pid, 0);
	if (s->share_pidfd < 0)
		return gb_fail_sys(err, errno, "cannot watch the share server");
	uv_poll_init(&s->loop, &s->share_poll, s->share_pidfd);
	s->share_poll.data = s;
	uv_poll_start(&s->share_poll, UV_READABLE, share_ended);
	return 0;
}
