/* A started call has two ends: its request, which the caller holds, and its worker, a thread that
 * runs the tool and ends the request. Whoever lets go last frees what they share. */
#include "lib/tool_call.h"

#include "lib/request.h"
#include "machine/store.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#define WORKER_STACK ((size_t)256 << 10)

struct job {
	struct gb_request_extra extra; /* first: what the request sees of it */
	atomic_uint refs;
	struct gb_core *core; /* reference */
	struct gb_tool_run run;
	struct gb_tool_args args;
	char *texts[3]; /* owned copies of the options' strings */
	struct gb_strv env; /* owned copy of theirs */
	struct gb_call *call;
	/* written by the worker before the request ends, read after it has */
	struct gb_tool_answer answer;
	bool answered;
};

static struct job *job_of(struct gb_request_extra *extra)
{
	return (struct job *)((char *)extra - offsetof(struct job, extra));
}

static void job_unref(struct job *job)
{
	if (atomic_fetch_sub(&job->refs, 1) != 1)
		return;
	if (job->answered)
		gb_tool_answer_done(&job->answer);
	gb_tool_args_done(&job->args);
	gb_tool_run_done(&job->run);
	for (size_t i = 0; i < GB_ARRAY_SIZE(job->texts); i++)
		free(job->texts[i]);
	gb_strv_done(&job->env);
	gb_core_unref(job->core);
	free(job);
}

static void job_cancel(struct gb_request_extra *extra)
{
	gb_tool_run_cancel(&job_of(extra)->run);
}

static void job_release(struct gb_request_extra *extra)
{
	struct job *job = job_of(extra);

	gb_tool_run_cancel(&job->run);
	job_unref(job);
}

/* The values to mask: the caller's, and those in the machine's environment that look like it. */
static int fill_mask(struct gb_core *core, struct gb_mask *m, struct gb_err *err)
{
	struct gb_machine_spec spec;

	for (size_t i = 0; i < core->secrets.n; i++)
		gb_mask_add(m, core->secrets.v[i], strlen(core->secrets.v[i]));
	/* a machine whose description is gone runs on: its variables cannot be known any more */
	if (gb_machine_load(&core->dirs, core->machine, &spec, NULL) == 0) {
		gb_mask_add_env(m, spec.env.v);
		gb_machine_spec_done(&spec);
	}
	return gb_mask_check(m, err);
}

static int core_mask(struct gb_core *core, const struct gb_mask **ret, struct gb_err *err)
{
	int r = 0;

	pthread_mutex_lock(&core->lock);
	if (!core->mask_made) {
		r = fill_mask(core, &core->mask, err);
		core->mask_made = r == 0;
		if (r < 0)
			gb_mask_done(&core->mask);
	}
	pthread_mutex_unlock(&core->lock);
	*ret = &core->mask;
	return r;
}

static int copy_texts(struct job *job, struct glovebox_tool_options *o)
{
	const char **texts[] = { &o->workdir, &o->user, &o->shell };

	for (size_t i = 0; i < GB_ARRAY_SIZE(texts); i++) {
		if (!*texts[i])
			continue;
		job->texts[i] = strdup(*texts[i]);
		if (!job->texts[i])
			return GB_E_NOMEM;
		*texts[i] = job->texts[i];
	}
	for (const char *const *e = o->env; e && *e; e++)
		gb_strv_add(&job->env, *e);
	o->env = (const char *const *)job->env.v;
	return job->env.error;
}

static int job_new(struct glovebox_tools *tools, struct gb_tool_args *args_consume,
	const struct glovebox_tool_options *options, struct job **ret, struct gb_err *err)
{
	struct glovebox_tool_options o = { 0 };
	const struct gb_mask *mask = NULL;
	struct job *job = calloc(1, sizeof(*job));
	int r = job ? core_mask(tools->core, &mask, err) : gb_nomem(err);

	if (r < 0) {
		gb_tool_args_done(args_consume);
		free(job);
		return r;
	}
	if (options)
		o = *options;
	atomic_init(&job->refs, 1);
	job->extra = (struct gb_request_extra){ job_cancel, job_release };
	job->core = gb_core_ref(tools->core);
	job->args = *args_consume;
	r = copy_texts(job, &o);
	gb_tool_run_init(&job->run, tools->core->link, mask, &o, tools->owner);
	if (r < 0) {
		job_unref(job);
		return gb_nomem(err);
	}
	*ret = job;
	return 0;
}

static void *worker(void *data)
{
	struct job *job = data;
	struct gb_call *call = job->call;
	struct gb_err err = { 0 };
	int r = gb_tool_run(&job->run, &job->args, &job->answer, &err);

	job->answered = r == 0;
	gb_call_finish(call, r < 0 ? &err : NULL);
	job_unref(job);
	return NULL;
}

static int start_worker(struct job *job, struct gb_err *err)
{
	pthread_attr_t attr;
	sigset_t all;
	sigset_t old;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, GB_MAX(WORKER_STACK, (size_t)PTHREAD_STACK_MIN));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, &attr, worker, job);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return r ? gb_fail_sys(err, r, "cannot start a thread") : 0;
}

int gb_tool_call_start(struct glovebox_tools *tools, struct gb_tool_args *args_consume,
	const struct glovebox_tool_options *options, struct glovebox_request **ret,
	struct gb_err *err)
{
	struct glovebox_request *request;
	struct gb_err why = { 0 };
	struct job *job;
	int r = job_new(tools, args_consume, options, &job, err);

	if (r < 0)
		return r;
	r = gb_request_local(tools, &job->extra, &request, err);
	if (r < 0) {
		job_unref(job);
		return r;
	}
	job->call = request->call;
	atomic_fetch_add(&job->refs, 1);
	r = start_worker(job, &why);
	if (r < 0) {
		gb_call_finish(job->call, &why);
		job_unref(job);
		glovebox_request_free(request);
		if (err)
			*err = why;
		return r;
	}
	*ret = request;
	return 0;
}

int gb_tool_call(struct glovebox_tools *tools, const struct gb_tool_args *args,
	const struct glovebox_tool_options *options, struct gb_tool_answer *ret,
	struct gb_err *err)
{
	const struct gb_mask *mask;
	struct gb_tool_run run;
	int r = core_mask(tools->core, &mask, err);

	if (r < 0)
		return r;
	gb_tool_run_init(&run, tools->core->link, mask, options, tools->owner);
	r = gb_tool_run(&run, args, ret, err);
	gb_tool_run_done(&run);
	return r;
}

int gb_tool_call_refuse(struct glovebox_tools *tools, const char *text,
	struct glovebox_request **ret, struct gb_err *err)
{
	struct gb_tool_args none = { 0 };
	struct job *job;
	int r = job_new(tools, &none, NULL, &job, err);

	if (r < 0)
		return r;
	gb_buf_init(&job->answer.text, 0);
	gb_buf_add_str(&job->answer.text, text);
	job->answered = true;
	r = gb_buf_check(&job->answer.text, "an answer", err);
	if (r == 0)
		r = gb_request_local(tools, &job->extra, ret, err);
	if (r < 0)
		job_unref(job);
	else
		gb_call_finish((*ret)->call, NULL);
	return r;
}

int gb_tool_call_answer(struct glovebox_request *request, struct gb_tool_answer *ret,
	struct gb_err *err)
{
	struct job *job;
	int r = gb_call_outcome(request->call, err);

	if (r < 0)
		return r;
	if (!request->extra || request->extra->release != job_release)
		return gb_fail(err, GB_E_STATE, "not the request of a tool's call");
	job = job_of(request->extra);
	if (!job->answered)
		return gb_fail(err, GB_E_STATE, "its result was taken already");
	*ret = job->answer;
	job->answered = false;
	return 0;
}
