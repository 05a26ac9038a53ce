#include "guest/answer.h"
#include "guest/session.h"

void gb_job_on_started(struct gb_agent *a, struct gb_job *j)
{
	if (j->kind == GB_JOB_EXEC)
		gb_exec_started(a, j, &a->reports[j - a->jobs]);
	else
		j->state = GB_JOB_RUNNING;
}

void gb_job_answer(struct gb_agent *a, struct gb_job *j)
{
	switch (j->kind) {
	case GB_JOB_EXEC:
		gb_exec_answer(a, j);
		break;
	case GB_JOB_OWN:
		gb_own_answer(a, j);
		break;
	case GB_JOB_SHARE:
		gb_share_answer(a, j);
		break;
	case GB_JOB_SPAWN:
	case GB_JOB_SEND:
	case GB_JOB_RECV:
		gb_bench_answer(a, j);
		break;
	case GB_JOB_SESSION:
	case GB_JOB_ATTACH:
	case GB_JOB_TERMINATE:
		gb_session_job_answer(a, j);
		break;
	case GB_JOB_NONE:
		break;
	}
}
