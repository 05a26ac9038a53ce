/* Measurements of what commands are made of: the guest's own spawn (the very path of EXEC,
 * with a program that ends at once), and the port without any command behind it. */
#include "guest/answer.h"
#include "base/clock.h"
#include "guest/world.h"

#include <string.h>

#define SPAWN_ROUNDS_MAX 100000u

static int spawn_next(struct gb_agent *a, struct gb_job *j, struct gb_err *err)
{
	static char *const argv[] = { (char *)(uintptr_t) "noop", NULL };
	static char *const envp[] = { NULL };
	static const struct gb_user root = { .name = (char *)(uintptr_t) "root" };
	struct gb_child c = { .cgroup = j->cgroup,
		.report = &a->reports[j - a->jobs],
		.stdio = { a->null, a->null, a->null },
		.user = &root,
		.argv = argv,
		.envp = envp,
		.program = a->self };

	j->reaped = false;
	return gb_child_start(a, &c, &j->pid, NULL, err);
}

int gb_bench_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_msg_bench m;
	struct gb_job *j;
	int r = gb_msg_bench_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (m.kind < GB_BENCH_SPAWN || m.kind > GB_BENCH_RECV ||
		(m.kind == GB_BENCH_SPAWN && (m.amount == 0 || m.amount > SPAWN_ROUNDS_MAX)))
		return gb_fail(err, GB_E_INVALID, "no such measurement");
	j = gb_job_new(a, GB_JOB_SPAWN + (m.kind - GB_BENCH_SPAWN), f->request);
	if (!j)
		return gb_fail(err, GB_E_BUSY, "%d requests are being served", GB_JOB_MAX);
	j->amount = m.amount;
	j->begun = gb_now_ns();
	j->state = GB_JOB_RUNNING;
	j->in.used = j->kind == GB_JOB_RECV;
	j->out[0].used = j->kind == GB_JOB_SEND;
	if (j->kind != GB_JOB_SPAWN)
		return 0;
	r = gb_cgroup_take(a, &j->cgroup, err);
	if (r == 0)
		r = spawn_next(a, j, err);
	if (r < 0)
		gb_job_free(a, j);
	return r;
}

void gb_bench_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_msg_bench_result m = { .amount = j->done, .ns = gb_now_ns() - j->begun };

	gb_job_close_streams(a, j);
	if (j->failure.code)
		gb_ctl_error(&a->ctl, j->request, &j->failure);
	else
		gb_msg_add_frame(&a->ctl.out, GB_FRAME_BENCH_RESULT, j->request,
			&gb_msg_bench_result_desc, &m);
	gb_job_free(a, j);
}

/* The next round at once; the last is answered. */
void gb_bench_reaped(struct gb_agent *a, struct gb_job *j)
{
	j->done++;
	if (j->done < j->amount && !j->cancelled && spawn_next(a, j, &j->failure) == 0)
		return;
	gb_bench_answer(a, j);
}

bool gb_bench_pending(const struct gb_agent *a, const struct gb_job *j)
{
	return j->kind == GB_JOB_SEND && j->out[0].flow.credit && gb_ctl_has_room(&a->ctl);
}

static void send_some(struct gb_agent *a, struct gb_job *j)
{
	while (j->done < j->amount && gb_bench_pending(a, j)) {
		uint64_t left = j->amount - j->done;
		uint32_t n = gb_flow_sender_take(
			&j->out[0].flow, (uint32_t)GB_MIN(left, (uint64_t)GB_CHUNK));
		uint8_t *to = gb_ctl_data_room(&a->ctl, n);

		if (!to)
			return;
		memset(to, 'x', n);
		gb_ctl_data_end(&a->ctl, j->request, GB_STREAM_OUT, n, 0);
		j->done += n;
	}
}

void gb_bench_turn(struct gb_agent *a, struct gb_job *j)
{
	if (j->kind == GB_JOB_SEND)
		send_some(a, j);
	if (j->kind != GB_JOB_SEND && j->kind != GB_JOB_RECV)
		return;
	if (j->done >= j->amount || j->cancelled || (j->kind == GB_JOB_RECV && j->in.eof))
		gb_bench_answer(a, j);
}
