/* The order on the connection: READY (ours), HELLO, CONFIGURE, then requests. What is made a
 * template of an image has HELLO, CONFIGURE, requests, CONFIGURE first (configure.c). Who breaks it,
 * or the framing, has a fatal error: the machine ends. What is wrong with one request is
 * answered on that request only, since its sender may be one client of many. */
#include "guest/dispatch.h"
#include "base/clock.h"
#include "guest/answer.h"
#include "guest/session.h"

#include <signal.h>
#include <string.h>

#define SHUTDOWN_MAX_MS 600000u

static int on_hello(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	int r = gb_msg_check_hello(f->payload, f->length, "host", err);

	gb_msg_add_hello(&a->ctl.out, "agent");
	if (r < 0)
		gb_ctl_error(&a->ctl, f->request, err);
	a->state = GB_AGENT_GREETED;
	return r;
}

static int on_configure(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	int r = gb_configure(a, f, err);

	if (r < 0) {
		gb_wrap(err, r, "cannot configure the machine");
		gb_ctl_error(&a->ctl, f->request, err);
	}
	return r;
}

static int set_time(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_time) m = { 0 };
	int r = gb_msg_time_decode(f->payload, f->length, &m, err);

	if (r == 0)
		r = gb_set_time(m.realtime_ns, err);
	if (r == 0 && m.entropy.len)
		r = gb_add_entropy(a->dev, m.entropy.data, m.entropy.len, err);
	if (r == 0)
		gb_ctl_ok(&a->ctl, f->request);
	return r;
}

static int shut_down(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_shutdown) m = { 0 };
	int r = gb_msg_shutdown_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	gb_power_off(a, f->request, gb_deadline_ms(GB_MIN(m.deadline_ms, SHUTDOWN_MAX_MS)));
}

/* Requests that begin something. */
static int begin(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	if (gb_job_find(a, f->request))
		return gb_fail(err, GB_E_PROTOCOL, "request %u is in use", f->request);
	switch (f->type) {
	case GB_FRAME_TIME:
		return set_time(a, f, err);
	case GB_FRAME_SHARE:
		return gb_share_start(a, f, err);
	case GB_FRAME_SHUTDOWN:
		return shut_down(a, f, err);
	case GB_FRAME_EXEC:
		return gb_exec_start(a, f, err);
	case GB_FRAME_COPY_IN:
	case GB_FRAME_COPY_OUT:
	case GB_FRAME_FILE_READ:
	case GB_FRAME_FILE_WRITE:
	case GB_FRAME_MKDIR:
	case GB_FRAME_PATCH:
		return gb_own_start(a, f, err);
	case GB_FRAME_SESSION_START:
		return gb_session_start(a, f, err);
	case GB_FRAME_SESSION_INPUT:
		return gb_session_input(a, f, err);
	case GB_FRAME_SESSION_HOLD:
		return gb_session_hold(a, f, err);
	case GB_FRAME_SESSIONS:
		return gb_session_list(a, f, err);
	case GB_FRAME_ATTACH:
		return gb_session_attach(a, f, err);
	case GB_FRAME_TERMINATE:
		return gb_session_terminate(a, f, err);
	case GB_FRAME_MEMORY:
		return gb_memory_reply(a, f, err);
	case GB_FRAME_NOP:
		gb_ctl_ok(&a->ctl, f->request);
		return 0;
	case GB_FRAME_BENCH:
		return gb_bench_start(a, f, err);
	default:
		return gb_fail(err, GB_E_UNSUPPORTED, "%s is not a request to a guest",
			gb_frame_type_name(f->type));
	}
}

static void forward_signal(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f)
{
	struct gb_msg_signal m;

	if (gb_msg_signal_decode(f->payload, f->length, &m, NULL) < 0 || m.signo == 0 ||
		m.signo >= (uint32_t)NSIG)
		return;
	if (j->kind == GB_JOB_EXEC)
		gb_job_signal(j, (int)m.signo);
	else if (j->kind == GB_JOB_ATTACH)
		gb_session_job_signal(a, j, (int)m.signo);
}

/* Frames about a request that runs. One that has just been answered is not known any more:
 * the host could not know that yet. False: no such frame. */
static bool about(struct gb_agent *a, const struct gb_frame *f)
{
	struct gb_job *j = gb_job_find(a, f->request);

	switch (f->type) {
	case GB_FRAME_DATA:
		if (j)
			gb_job_data(a, j, f);
		return true;
	case GB_FRAME_CREDIT:
		if (j)
			gb_job_credit(a, j, f);
		return true;
	case GB_FRAME_CANCEL:
		if (j)
			gb_job_cancel(a, j);
		return true;
	case GB_FRAME_SIGNAL:
		if (j)
			forward_signal(a, j, f);
		return true;
	case GB_FRAME_WINSIZE:
		if (j && j->kind == GB_JOB_EXEC)
			gb_exec_resize(j, f);
		else if (j && j->kind == GB_JOB_ATTACH)
			gb_session_job_resize(a, j, f);
		return true;
	default:
		return false;
	}
}

int gb_dispatch(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	int r;

	if (a->state == GB_AGENT_BOOTED && f->type == GB_FRAME_HELLO)
		return on_hello(a, f, err);
	if ((a->state == GB_AGENT_GREETED || a->state == GB_AGENT_WARMING) &&
		f->type == GB_FRAME_CONFIGURE)
		return on_configure(a, f, err);
	if (f->type == GB_FRAME_SHUTDOWN && a->state == GB_AGENT_GREETED)
		return shut_down(a, f, err);
	if ((a->state != GB_AGENT_CONFIGURED && a->state != GB_AGENT_WARMING) ||
		f->type == GB_FRAME_HELLO || f->type == GB_FRAME_CONFIGURE)
		return gb_fail(err, GB_E_PROTOCOL, "unexpected %s frame from the host",
			gb_frame_type_name(f->type));
	if (about(a, f))
		return 0;
	if (f->request == 0)
		return gb_fail(err, GB_E_PROTOCOL, "%s frame without a request id",
			gb_frame_type_name(f->type));
	r = begin(a, f, err);
	if (r < 0 && r != GB_E_NOMEM) {
		gb_ctl_error(&a->ctl, f->request, err);
		return 0;
	}
	return r;
}
