#include "guest/answer.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/copy.h"
#include "guest/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct copy_ctx {
	struct gb_copy copy;
	bool in;
};

/* In the child, among the tools: as root there, but with no more than root has there. */
static int run_copy(void *data, struct gb_err *err)
{
	struct copy_ctx *ctx = data;
	struct rlimit nofile;
	gb_auto_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return gb_fail_sys(err, errno, "cannot open the root");
	if (getrlimit(RLIMIT_NOFILE, &nofile) == 0) {
		nofile.rlim_cur = nofile.rlim_max;
		setrlimit(RLIMIT_NOFILE, &nofile);
	}
	umask(0);
	ctx->copy.root = root;
	return ctx->in ? gb_copy_in(&ctx->copy, 0, err) : gb_copy_out(&ctx->copy, 1, err);
}

static int spawn(struct gb_agent *a, struct gb_job *j, struct copy_ctx *ctx, struct gb_err *err)
{
	static const struct gb_user root = { .name = (char *)(uintptr_t) "root" };
	struct gb_child c = { .cgroup = j->cgroup,
		.report = &a->reports[j - a->jobs],
		.stdio = { a->null, a->null, a->null },
		.user = &root,
		.program = -1,
		.run = run_copy,
		.ctx = ctx };
	gb_auto_fd theirs = -1;
	int ours;
	int p[2];
	int r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	theirs = p[!ctx->in];
	ours = p[ctx->in];
	c.stdio[!ctx->in] = theirs;
	fcntl(ours, F_SETPIPE_SZ, 256 << 10);
	r = ctx->in ? gb_job_use_in(a, j, ours, err) : gb_job_use_out(a, j, 0, ours, err);
	if (r == 0)
		r = gb_fd_nonblock(ours, true, err);
	if (r < 0)
		return r;
	j->begun = gb_now_ns();
	return gb_child_start(a, &c, &j->pid, NULL, err);
}

static char *absolute(const struct gb_agent *a, const char *path)
{
	char *s = NULL;

	if (path[0] == '/')
		return strdup(path);
	if (asprintf(&s, "%s/%s", a->workdir, path) < 0)
		return NULL;
	return s;
}

static int start(struct gb_agent *a, struct gb_job *j, const struct gb_msg_copy *m, bool in,
	struct gb_err *err)
{
	gb_auto_done(gb_user) u = { 0 };
	struct copy_ctx ctx = { .in = in };
	int r = gb_user_find(a->root, *m->user ? m->user : a->user, &u, err);

	j->state = GB_JOB_RUNNING;
	j->program = absolute(a, m->path);
	if (!j->program)
		return gb_nomem(err);
	ctx.copy.path = j->program;
	ctx.copy.name = m->name;
	ctx.copy.flags = m->flags;
	ctx.copy.uid = u.uid;
	ctx.copy.gid = u.gid;
	if (r == 0)
		r = gb_cgroup_take(a, &j->cgroup, err);
	return r < 0 ? r : spawn(a, j, &ctx, err);
}

int gb_copy_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_copy) m = { 0 };
	struct gb_job *j;
	int r = gb_msg_copy_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (!*m.path)
		return gb_fail(err, GB_E_INVALID, "no path was given to copy");
	j = gb_job_new(a, GB_JOB_COPY, f->request);
	if (!j)
		return gb_fail(err, GB_E_BUSY, "%d requests are being served", GB_JOB_MAX);
	r = start(a, j, &m, f->type == GB_FRAME_COPY_IN, err);
	if (r < 0)
		gb_job_free(a, j);
	return r;
}

void gb_copy_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_report *report = &a->reports[j - a->jobs];
	struct gb_err err = { 0 };

	report->err.msg[sizeof(report->err.msg) - 1] = 0;
	if (j->failure.code)
		err = j->failure;
	else if (j->cancelled)
		gb_fail(&err, GB_E_CANCELLED, "the copy was cancelled");
	else if (report->err.code)
		err = report->err;
	else if (!WIFEXITED(j->status) || WEXITSTATUS(j->status))
		gb_fail(&err, GB_E_IO, "the copy was ended in the guest");
	gb_job_close_streams(a, j);
	if (err.code)
		gb_ctl_error(&a->ctl, j->request, &err);
	else
		gb_ctl_ok(&a->ctl, j->request);
	gb_job_free(a, j);
}
