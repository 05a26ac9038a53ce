#include "guest/answer.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/own.h"
#include "guest/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PIPE_BYTES (256 << 10)

static int copy_in(struct gb_own *o, struct gb_err *err)
{
	return gb_copy_in(&o->copy, 0, err);
}

static int copy_out(struct gb_own *o, struct gb_err *err)
{
	return gb_copy_out(&o->copy, 1, err);
}

static const struct own_kind {
	uint8_t frame;
	const char *what; /* "the copy was cancelled" */
	int (*run)(struct gb_own *o, struct gb_err *err);
	bool in, out;
	bool as_root; /* it may write for others: root among the tools, and no more */
} kinds[] = {
	{ GB_FRAME_COPY_IN, "the copy", copy_in, true, false, true },
	{ GB_FRAME_COPY_OUT, "the copy", copy_out, false, true, true },
	{ GB_FRAME_FILE_READ, "reading", gb_own_read, false, true, false },
	{ GB_FRAME_FILE_WRITE, "writing", gb_own_write, true, false, false },
	{ GB_FRAME_MKDIR, "making a folder", gb_own_mkdir, false, false, false },
	{ GB_FRAME_PATCH, "the patch", gb_own_patch, true, true, false },
};

static const struct own_kind *kind_of(uint8_t frame)
{
	const struct own_kind *k = kinds;

	while (k->frame != frame)
		k++;
	return k;
}

struct child {
	const struct own_kind *kind;
	struct gb_own own;
};

/* In the child, among the tools. */
static int run(void *data, struct gb_err *err)
{
	struct child *c = data;
	struct rlimit nofile;
	gb_auto_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return gb_fail_sys(err, errno, "cannot open the root");
	if (getrlimit(RLIMIT_NOFILE, &nofile) == 0) {
		nofile.rlim_cur = nofile.rlim_max;
		setrlimit(RLIMIT_NOFILE, &nofile);
	}
	if (c->kind->as_root)
		umask(0);
	c->own.copy.root = root;
	return c->kind->run(&c->own, err);
}

/* i: 0 for its input, 1 for its output; *theirs is closed by the caller. */
static int open_stream(struct gb_agent *a, struct gb_job *j, int i, int *theirs, struct gb_err *err)
{
	int ours;
	int p[2];
	int r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	*theirs = p[i];
	ours = p[!i];
	fcntl(ours, F_SETPIPE_SZ, PIPE_BYTES);
	r = i ? gb_job_use_out(a, j, 0, ours, err) : gb_job_use_in(a, j, ours, err);
	return r < 0 ? r : gb_fd_nonblock(ours, true, err);
}

static int spawn(struct gb_agent *a, struct gb_job *j, struct child *child,
	const struct gb_user *u, struct gb_err *err)
{
	static const struct gb_user root = { .name = (char *)(uintptr_t) "root" };
	struct gb_child c = { .cgroup = j->cgroup,
		.report = &a->reports[j - a->jobs],
		.stdio = { a->null, a->null, a->null },
		.user = child->kind->as_root ? &root : u,
		.program = -1,
		.run = run,
		.ctx = child };
	gb_auto_fd in = -1;
	gb_auto_fd out = -1;
	int r = child->kind->in ? open_stream(a, j, 0, &in, err) : 0;

	if (r == 0 && child->kind->out)
		r = open_stream(a, j, 1, &out, err);
	if (r < 0)
		return r;
	if (in >= 0)
		c.stdio[0] = in;
	if (out >= 0)
		c.stdio[1] = out;
	/* the end of a stream is told where there was one */
	j->out[0].used &= j->frame != GB_FRAME_FILE_READ;
	child->own.report = c.report;
	j->begun = gb_now_ns();
	return gb_child_start(a, &c, &j->pid, NULL, err);
}

char *gb_agent_path(const struct gb_agent *a, const char *path)
{
	char *s = NULL;

	if (path[0] == '/' || !*path)
		return strdup(*path ? path : a->workdir);
	if (asprintf(&s, "%s/%s", a->workdir, path) < 0)
		return NULL;
	return s;
}

static int start(struct gb_agent *a, struct gb_job *j, struct child *c, const char *path,
	const char *user, struct gb_err *err)
{
	const struct gb_user *u;
	int r = gb_user_cached(&a->user_cache, a->root, *user ? user : a->user,
		GB_USER_SETTLED_NS, &u, err);

	if (r < 0)
		return r;
	j->state = GB_JOB_RUNNING;
	j->frame = c->kind->frame;
	j->program = gb_agent_path(a, path);
	if (!j->program)
		return gb_nomem(err);
	c->own.path = c->own.copy.path = j->program;
	c->own.copy.uid = u->uid;
	c->own.copy.gid = u->gid;
	r = gb_cgroup_take(a, &j->cgroup, err);
	return r < 0 ? r : spawn(a, j, c, u, err);
}

static int begin(struct gb_agent *a, const struct gb_frame *f, struct gb_own *own,
	const char *path, const char *user, struct gb_err *err)
{
	struct child c = { .kind = kind_of(f->type), .own = *own };
	struct gb_job *j;
	int r;

	if (!*path && f->type != GB_FRAME_PATCH)
		return gb_fail(err, GB_E_INVALID, "no path was given");
	j = gb_job_new(a, GB_JOB_OWN, f->request);
	if (!j)
		return gb_fail(err, GB_E_BUSY, "%d requests are being served", GB_JOB_MAX);
	r = start(a, j, &c, path, user, err);
	if (r < 0)
		gb_job_free(a, j);
	return r;
}

static int begin_copy(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_copy) m = { 0 };
	struct gb_own own = { 0 };
	int r = gb_msg_copy_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	own.copy.name = m.name;
	own.copy.flags = m.flags;
	return begin(a, f, &own, m.path, m.user, err);
}

static int begin_read(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_file_read) m = { 0 };
	struct gb_own own = { 0 };
	int r = gb_msg_file_read_decode(f->payload, f->length, &m, err);

	own.limit = m.limit;
	return r < 0 ? r : begin(a, f, &own, m.path, m.user, err);
}

static int begin_write(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_file_write) m = { 0 };
	struct gb_own own = { 0 };
	int r = gb_msg_file_write_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	own.mode = m.mode & 07777u;
	own.set_mtime = m.flags & GB_FILE_MTIME;
	own.mtime = (struct timespec){ .tv_sec = (time_t)m.mtime_s,
		.tv_nsec = (long)GB_MIN(m.mtime_ns, 999999999u) };
	return begin(a, f, &own, m.path, m.user, err);
}

static int begin_patch(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_patch) m = { 0 };
	struct gb_own own = { 0 };
	int r = gb_msg_patch_decode(f->payload, f->length, &m, err);

	own.outside = m.flags & GB_PATCH_OUTSIDE;
	return r < 0 ? r : begin(a, f, &own, m.workdir, m.user, err);
}

int gb_own_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	switch (f->type) {
	case GB_FRAME_FILE_READ:
		return begin_read(a, f, err);
	case GB_FRAME_FILE_WRITE:
	case GB_FRAME_MKDIR:
		return begin_write(a, f, err);
	case GB_FRAME_PATCH:
		return begin_patch(a, f, err);
	default:
		return begin_copy(a, f, err);
	}
}

/* What is known of the file goes before its first byte. */
void gb_own_turn(struct gb_agent *a, struct gb_job *j)
{
	const struct gb_report *r = &a->reports[j - a->jobs];
	struct gb_msg_file_info m;

	if (j->kind != GB_JOB_OWN || j->frame != GB_FRAME_FILE_READ || j->told ||
		!__atomic_load_n(&r->file_there, __ATOMIC_ACQUIRE))
		return;
	m = (struct gb_msg_file_info){ .size = r->file_size,
		.mode = r->file_mode,
		.mtime_s = r->file_mtime_s,
		.mtime_ns = r->file_mtime_ns };
	gb_msg_add_frame(&a->ctl.out, GB_FRAME_FILE_INFO, j->request, &gb_msg_file_info_desc, &m);
	j->told = true;
	j->out[0].used = true;
}

static void answer_patch(struct gb_agent *a, struct gb_job *j, bool good)
{
	struct gb_msg_exit m = { .code = !good, .spawn_ns = j->spawn_ns };

	gb_msg_add_frame(&a->ctl.out, GB_FRAME_EXIT, j->request, &gb_msg_exit_desc, &m);
}

void gb_own_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_report *report = &a->reports[j - a->jobs];
	const char *what = kind_of(j->frame)->what;
	bool exited = WIFEXITED(j->status);
	struct gb_err err = { 0 };

	report->err.msg[sizeof(report->err.msg) - 1] = 0;
	if (j->failure.code)
		err = j->failure;
	else if (j->cancelled)
		gb_fail(&err, GB_E_CANCELLED, "%s was cancelled", what);
	else if (report->err.code)
		err = report->err;
	else if (!exited || WEXITSTATUS(j->status))
		gb_fail(&err, GB_E_IO, "%s was ended in the guest", what);
	gb_own_turn(a, j);
	gb_job_close_streams(a, j);
	if (j->frame == GB_FRAME_PATCH && exited && !j->cancelled && !j->failure.code &&
		report->stage == GB_STAGE_NONE)
		answer_patch(a, j, !err.code);
	else if (err.code)
		gb_ctl_error(&a->ctl, j->request, &err);
	else
		gb_ctl_ok(&a->ctl, j->request);
	gb_job_free(a, j);
}
