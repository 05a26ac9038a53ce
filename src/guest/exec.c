#include "guest/answer.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/env.h"
#include "guest/world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

#define PIPE_BYTES     (256 << 10) /* of a pipe that bulk goes through: fewer turns */
#define TIMEOUT_MAX_MS (UINT64_C(10) * 365 * 24 * 3600 * 1000)
#define CODE_TIMED_OUT 124
#define CODE_NO_EXEC   126
#define CODE_NOT_FOUND 127
#define CODE_SIGNALLED 128

/* The child's side of its streams while it is being started. */
struct ends {
	int fd[3]; /* owned */
};
static void ends_done(struct ends *e)
{
	for (int i = 0; i < 3; i++)
		gb_fd_close(&e->fd[i]);
}

/* ours: the index of the end that does not block. */
int gb_exec_make_pipe(int p[2], int ours, bool bulk, struct gb_err *err)
{
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	fcntl(p[!ours], F_SETFL, 0);
	if (bulk)
		fcntl(p[0], F_SETPIPE_SZ, PIPE_BYTES);
	return 0;
}

int gb_exec_make_pipes(struct gb_pipes *ret, struct gb_err *err)
{
	int r = gb_exec_make_pipe(ret->out, 0, true, err);

	if (r < 0)
		return r;
	r = gb_exec_make_pipe(ret->err, 0, false, err);
	if (r < 0) {
		gb_fd_close(&ret->out[0]);
		gb_fd_close(&ret->out[1]);
	}
	ret->there = r == 0;
	return r;
}

static int output_streams(struct gb_agent *a, struct gb_job *j, struct ends *e,
	struct gb_err *err)
{
	struct gb_pipes *p = &a->ready;
	int r = p->there ? 0 : gb_exec_make_pipes(p, err);

	if (r < 0)
		return r;
	p->there = false;
	e->fd[1] = p->out[1];
	e->fd[2] = p->err[1];
	r = gb_job_use_out(a, j, 0, p->out[0], err);
	if (r < 0) {
		gb_fd_close(&p->err[0]);
		return r;
	}
	return gb_job_use_out(a, j, 1, p->err[0], err);
}

static int plain_streams(struct gb_agent *a, struct gb_job *j, const struct gb_msg_exec *m,
	struct ends *e, struct gb_err *err)
{
	int in[2];
	int r = 0;

	if (j->detached)
		return 0;
	if (m->flags & GB_EXEC_STDIN) {
		r = gb_exec_make_pipe(in, 1, true, err);
		if (r == 0) {
			e->fd[0] = in[0];
			r = gb_job_use_in(a, j, in[1], err);
		}
	}
	return r == 0 ? output_streams(a, j, e, err) : r;
}

void gb_terminal_resize(int fd, uint32_t rows, uint32_t cols)
{
	struct winsize size = { .ws_row = (unsigned short)GB_MIN(rows, 0xffffu),
		.ws_col = (unsigned short)GB_MIN(cols, 0xffffu) };

	ioctl(fd, TIOCSWINSZ, &size);
}

int gb_terminal_open(struct gb_agent *a, const struct gb_user *u, int *ret_master,
	int *ret_slave, struct gb_err *err)
{
	gb_auto_fd master =
		openat(a->pts, "ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	gb_auto_fd slave = -1;
	struct termios t;
	int unlock = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return gb_fail_sys(err, errno, "cannot open a terminal");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return gb_fail_sys(err, errno, "cannot open a terminal");
	if (tcgetattr(slave, &t) == 0) {
		t.c_iflag |= IUTF8;
		tcsetattr(slave, TCSANOW, &t);
	}
	if (fchown(slave, u->uid, (gid_t)-1) < 0)
		return gb_fail_sys(err, errno, "cannot give the terminal to %s", u->name);
	*ret_master = gb_take_fd(&master);
	*ret_slave = gb_take_fd(&slave);
	return 0;
}

static int terminal_streams(struct gb_agent *a, struct gb_job *j, const struct gb_msg_exec *m,
	const struct gb_user *u, struct ends *e, struct gb_err *err)
{
	gb_auto_fd again = -1;
	int master = -1;
	int r = gb_terminal_open(a, u, &master, &e->fd[0], err);

	if (r < 0)
		return r;
	gb_terminal_resize(master, m->rows, m->cols);
	again = fcntl(master, F_DUPFD_CLOEXEC, 3);
	r = gb_job_use_out(a, j, 0, master, err);
	if (r < 0)
		return r;
	if (again < 0)
		return gb_fail_sys(err, errno, "cannot open a terminal");
	return gb_job_use_in(a, j, gb_take_fd(&again), err);
}

static int spawn(struct gb_agent *a, struct gb_job *j, const struct gb_msg_exec *m,
	const struct gb_user *u, struct gb_err *err)
{
	__attribute__((cleanup(ends_done))) struct ends e = { { -1, -1, -1 } };
	gb_auto_done(gb_strv) env = { 0 };
	struct gb_child c = { .cgroup = j->cgroup,
		.report = &a->reports[j - a->jobs],
		.tty = j->tty,
		.user = u,
		.cwd = *m->cwd ? m->cwd : a->workdir,
		.argv = m->argv.v,
		.program = -1 };
	int started;
	int r = gb_env_build(a->env.v, m->env.v, u, j->tty, &env, err);

	if (r == 0)
		r = j->tty ? terminal_streams(a, j, m, u, &e, err)
			   : plain_streams(a, j, m, &e, err);
	if (r < 0)
		return r;
	for (int i = 0; i < 3; i++)
		c.stdio[i] = j->tty ? e.fd[0] : (e.fd[i] >= 0 ? e.fd[i] : a->null);
	c.envp = env.v;
	j->begun = gb_now_ns();
	r = gb_child_start(a, &c, &j->pid, &started, err);
	return r < 0 ? r : gb_job_watch_started(a, j, started, err);
}

static int start(struct gb_agent *a, struct gb_job *j, const struct gb_msg_exec *m,
	struct gb_err *err)
{
	const struct gb_user *u;
	int r = gb_user_cached(&a->user_cache, a->root, *m->user ? m->user : a->user,
		GB_USER_SETTLED_NS, &u, err);

	if (r == 0)
		r = gb_cgroup_take(a, &j->cgroup, err);
	if (r < 0)
		return r;
	j->program = strdup(m->argv.v[0]);
	if (!j->program)
		return gb_nomem(err);
	j->detached = m->flags & GB_EXEC_DETACH;
	j->tty = (m->flags & GB_EXEC_TTY) && !j->detached;
	j->grace_ms = GB_MIN(m->grace_ms, TIMEOUT_MAX_MS);
	if (m->timeout_ms)
		j->timeout_at = gb_deadline_ms(GB_MIN(m->timeout_ms, TIMEOUT_MAX_MS));
	return spawn(a, j, m, u, err);
}

int gb_exec_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_exec) m = { 0 };
	struct gb_job *j;
	int r = gb_msg_exec_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	if (m.argv.n == 0)
		return gb_fail(err, GB_E_INVALID, "no command was given");
	j = gb_job_new(a, GB_JOB_EXEC, f->request);
	if (!j)
		return gb_fail(err, GB_E_BUSY,
			"%d requests are being served: wait for one of them to end",
			GB_JOB_MAX);
	r = start(a, j, &m, err);
	if (r < 0)
		gb_job_free(a, j);
	return r;
}

static void send_exit(struct gb_agent *a, struct gb_job *j, struct gb_msg_exit *m)
{
	m->spawn_ns = j->reaped ? j->spawn_ns : gb_now_ns() - j->begun;
	gb_job_close_streams(a, j);
	gb_msg_add_frame(&a->ctl.out, GB_FRAME_EXIT, j->request, &gb_msg_exit_desc, m);
	/* tidying up can wait, who asked need not; a failure is found again by the loop */
	gb_ctl_flush(&a->ctl, NULL);
	gb_job_free(a, j);
}

static void not_run(struct gb_agent *a, struct gb_job *j, int cause)
{
	struct gb_msg_exit m = { .flags = GB_EXIT_NOT_RUN, .code = CODE_NO_EXEC };
	const char *why = strerror(cause);
	char note[600];

	switch (cause) {
	case ENOENT:
	case ENOTDIR:
		m.code = CODE_NOT_FOUND;
		why = strchr(j->program, '/') ? "no such file" : "command not found in PATH";
		break;
	case ELIBACC:
		m.code = CODE_NOT_FOUND;
		why = "the interpreter or loader that it needs is missing";
		break;
	case ENOEXEC:
		why = "not a program that this machine can run";
		break;
	case E2BIG:
		why = "arguments and environment are too long";
		break;
	default:
		break;
	}
	snprintf(note, sizeof(note), "cannot run '%.256s': %s", j->program, why);
	m.note = note;
	send_exit(a, j, &m);
}

void gb_exec_started(struct gb_agent *a, struct gb_job *j, struct gb_report *r)
{
	struct gb_msg_started m = { .pid = (uint32_t)r->pid };
	struct gb_msg_exit done = { 0 };

	r->err.msg[sizeof(r->err.msg) - 1] = 0;
	if (r->err.code && r->stage == GB_STAGE_EXEC) {
		not_run(a, j, r->err.sys);
		return;
	}
	if (r->err.code) {
		gb_job_fail(a, j, &r->err);
		return;
	}
	gb_msg_add_frame(&a->ctl.out, GB_FRAME_STARTED, j->request, &gb_msg_started_desc, &m);
	j->state = GB_JOB_RUNNING;
	if (j->detached)
		send_exit(a, j, &done);
}

void gb_exit_of(int status, uint32_t *code, uint32_t *signo)
{
	*signo = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
	*code = *signo ? CODE_SIGNALLED + *signo : (uint32_t)WEXITSTATUS(status);
}

void gb_exec_answer(struct gb_agent *a, struct gb_job *j)
{
	struct gb_msg_exit m = { 0 };

	if (j->failure.code) {
		gb_job_close_streams(a, j);
		gb_job_fail(a, j, &j->failure);
		return;
	}
	gb_exit_of(j->status, &m.code, &m.signal);
	if (j->timed_out) {
		m.code = CODE_TIMED_OUT;
		m.flags |= GB_EXIT_TIMED_OUT;
	}
	if (j->cancelled)
		m.flags |= GB_EXIT_CANCELLED;
	if (gb_cgroup_oom_kills(j->cgroup)) {
		m.flags |= GB_EXIT_OOM;
		m.note = (char *)(uintptr_t) "the machine's memory ran out";
	}
	send_exit(a, j, &m);
}

void gb_exec_resize(struct gb_job *j, const struct gb_frame *f)
{
	gb_auto_done(gb_msg_winsize) m = { 0 };

	if (j->tty && j->out[0].w.fd >= 0 &&
		gb_msg_winsize_decode(f->payload, f->length, &m, NULL) == 0)
		gb_terminal_resize(j->out[0].w.fd, m.rows, m.cols);
}

void gb_signal_group(int terminal, pid_t pid, bool reaped, int signo)
{
	pid_t group = terminal >= 0 ? tcgetpgrp(terminal) : 0;

	if (group > 0 && kill(-group, signo) == 0)
		return;
	if (pid <= 0 || reaped)
		return;
	/* before it has made its session, it has no group of its own */
	if (kill(-pid, signo) < 0 && errno == ESRCH)
		kill(pid, signo);
}

void gb_job_signal(struct gb_job *j, int signo)
{
	gb_signal_group(j->tty ? j->out[0].w.fd : -1, j->pid, j->reaped, signo);
}
