/* Shares: /dev/fuse is opened here, mounted by a helper in the tools' mount namespace, and
 * handed to the relay. The agent itself never looks at a path below a share: the host's
 * share server may be slow to answer, or never answer. */
#include "guest/answer.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "guest/mnt.h"
#include "guest/relay.h"
#include "guest/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SHARE_MAX         64
#define SHARE_DEADLINE_MS 20000
#define TARGET_MAX        4095

struct mount_job {
	const struct gb_agent *a;
	const char *target;
	int fuse;
	bool rdonly;
};

/* Open the folder at path below root, making what is missing of it. */
static int make_target(int root, const char *path, int *ret, struct gb_err *err)
{
	gb_auto_free char *copy = strdup(path);

	if (!copy)
		return gb_nomem(err);
	for (char *p = copy + 1;; p++) {
		gb_auto_fd parent = -1;
		char *slash;
		char c = *p;

		if (c && c != '/')
			continue;
		*p = 0;
		slash = strrchr(copy, '/');
		*slash = 0;
		if (slash[1] && gb_open_in_root(root, *copy ? copy : "/",
					O_PATH | O_DIRECTORY, 0, &parent, err) == 0 &&
			mkdirat(parent, slash + 1, 0755) < 0 && errno != EEXIST)
			return gb_fail_sys(err, errno, "cannot make folder '%s'", path);
		*slash = '/';
		*p = c;
		if (!c)
			break;
	}
	return gb_open_in_root(root, path, O_PATH | O_DIRECTORY, 0, ret, err);
}

static int mount_share(void *ctx, struct gb_err *err)
{
	const struct mount_job *m = ctx;
	char fd[32];
	const char *options[] = { fd, "rootmode=40000", "user_id=0", "group_id=0", "allow_other",
		"default_permissions", NULL };
	gb_auto_fd root = -1;
	gb_auto_fd target = -1;
	gb_auto_fd mnt = -1;
	int r = gb_world_enter_mounts(m->a, err);

	if (r < 0)
		return r;
	umask(022);
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = make_target(root, m->target, &target, err);
	snprintf(fd, sizeof(fd), "fd=%d", m->fuse);
	if (r == 0)
		r = gb_mnt_new("fuse", "glovebox", options,
			GB_MNT_NOSUID | GB_MNT_NODEV | (m->rdonly ? GB_MNT_RDONLY : 0), &mnt, err);
	return r == 0 ? gb_mnt_attach(mnt, target, err) : r;
}

static int start(struct gb_agent *a, struct gb_job *j, const struct gb_msg_share *m,
	struct gb_err *err)
{
	struct mount_job ctx = { .a = a, .target = m->target, .rdonly = m->flags & GB_SHARE_RDONLY };

	j->state = GB_JOB_RUNNING;
	j->index = m->index;
	j->program = strdup(m->target);
	if (!j->program)
		return gb_nomem(err);
	j->fuse = openat(a->dev, "fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (j->fuse < 0)
		return gb_fail_sys(err, errno, "cannot open /dev/fuse");
	ctx.fuse = j->fuse;
	j->kill_at = gb_deadline_ms(SHARE_DEADLINE_MS);
	j->begun = gb_now_ns();
	return gb_helper_start(a, mount_share, &ctx, &a->reports[j - a->jobs], &j->pid, err);
}

int gb_share_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_share) m = { 0 };
	struct gb_job *j;
	int r = gb_msg_share_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (m.index >= SHARE_MAX || m.target[0] != '/' || !m.target[1] ||
		strlen(m.target) > TARGET_MAX)
		return gb_fail(err, GB_E_INVALID, "cannot mount share %u at '%.200s'", m.index,
			m.target);
	if (a->shares & (UINT64_C(1) << m.index))
		return gb_fail(err, GB_E_EXISTS, "share %u is mounted already", m.index);
	if (a->relay <= 0)
		return gb_fail(err, GB_E_STATE, "the share relay has ended: restart the machine");
	j = gb_job_new(a, GB_JOB_SHARE, f->request);
	if (!j)
		return gb_fail(err, GB_E_BUSY, "%d requests are being served", GB_JOB_MAX);
	r = start(a, j, &m, err);
	if (r < 0)
		gb_job_free(a, j);
	return r;
}

void gb_share_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_report *report = &a->reports[j - a->jobs];
	struct gb_err err = { 0 };
	int r = 0;

	report->err.msg[sizeof(report->err.msg) - 1] = 0;
	if (j->failure.code)
		err = j->failure;
	else if (report->err.code)
		err = report->err;
	else if (!WIFEXITED(j->status) || WEXITSTATUS(j->status))
		gb_fail(&err, j->cancelled ? GB_E_CANCELLED : GB_E_TIMEOUT,
			"mounting a share did not end in time");
	else
		r = gb_fd_send(a->relay_sock, (uint8_t)j->index, &j->fuse, 1, &err);
	if (err.code || r < 0) {
		gb_wrap(&err, err.code, "cannot mount '%.200s'", j->program);
		gb_job_fail(a, j, &err);
		return;
	}
	a->shares |= UINT64_C(1) << j->index;
	gb_ctl_ok(&a->ctl, j->request);
	gb_job_free(a, j);
}
