#include "base/proc.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

#define SPAWN_MAX_FDS 32 /* descriptors that a child is given */

static int highest_target(const struct gb_spawn *s)
{
	int top = 2;

	for (size_t i = 0; i < s->fd_count; i++)
		top = GB_MAX(top, s->fds[i].to);
	return top;
}

/* What the child could not do, sent through the pipe that exec closes. */
enum spawn_step { STEP_DESCRIPTORS = 1, STEP_FOLDER = 2, STEP_EXEC = 3 };
struct spawn_report {
	int step;
	int why; /* errno */
};

/* In the child: move all sources above every target first, so that no dup2 overwrites a
 * source that is still needed; then close everything else. */
static int child_descriptors(const struct gb_spawn *s, int *report)
{
	int top = highest_target(s);
	int high[SPAWN_MAX_FDS];
	int moved = fcntl(*report, F_DUPFD_CLOEXEC, top + 1);
	int null;

	if (moved < 0)
		return -1;
	*report = moved;
	for (size_t i = 0; i < s->fd_count; i++) {
		high[i] = fcntl(s->fds[i].from, F_DUPFD_CLOEXEC, top + 1);
		if (high[i] < 0)
			return -1;
	}
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -1;
	for (int fd = 0; fd <= 2; fd++)
		if (null != fd && dup2(null, fd) < 0)
			return -1;
	for (size_t i = 0; i < s->fd_count; i++)
		if (dup2(high[i], s->fds[i].to) < 0)
			return -1;
	for (int fd = 3; fd <= top; fd++) {
		bool wanted = false;

		for (size_t i = 0; i < s->fd_count; i++)
			wanted |= s->fds[i].to == fd;
		if (!wanted)
			close(fd);
	}
	return (int)syscall(SYS_close_range, top + 1, ~0U, CLOSE_RANGE_CLOEXEC);
}

static void child_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static __attribute__((noreturn)) void run_child(
	const struct gb_spawn *s, int report, pid_t parent)
{
	struct spawn_report failed = { 0 };

	child_signals();
	if (s->new_session)
		setsid();
	/* the parent may have died before prctl took hold: nobody is left to report to */
	if (s->die_with_parent &&
		(prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		_exit(127);
	if (child_descriptors(s, &report) < 0) {
		failed.step = STEP_DESCRIPTORS;
	} else if (s->cwd && chdir(s->cwd) < 0) {
		failed.step = STEP_FOLDER;
	} else {
		execvpe(s->argv[0], s->argv, s->envp ? s->envp : environ);
		failed.step = STEP_EXEC;
	}
	failed.why = errno;
	if (write(report, &failed, sizeof(failed)) < 0)
		_exit(126);
	_exit(127);
}

static int spawn_failed(
	const struct gb_spawn *s, const struct spawn_report *failed, struct gb_err *err)
{
	if (failed->step == STEP_FOLDER)
		return gb_fail_sys(err, failed->why, "cannot run '%s' in folder '%s'",
			s->argv[0], s->cwd);
	if (failed->step == STEP_DESCRIPTORS)
		return gb_fail_sys(err, failed->why, "cannot pass descriptors to '%s'",
			s->argv[0]);
	return gb_fail_sys(err, failed->why, "cannot run '%s'", s->argv[0]);
}

/* The child starts with all signals blocked, so that no handler of ours runs in it. */
static pid_t fork_blocked(const struct gb_spawn *s, int report)
{
	pid_t parent = getpid();
	sigset_t all;
	sigset_t old;
	pid_t pid;
	int saved;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	saved = errno;
	if (pid == 0)
		run_child(s, report, parent);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return pid;
}

int gb_spawn(const struct gb_spawn *s, pid_t *ret_pid, struct gb_err *err)
{
	gb_auto_fd report_read = -1;
	gb_auto_fd report_write = -1;
	int pipe_fds[2];
	struct spawn_report failed = { 0 };
	pid_t pid;
	size_t got = 0;

	if (s->fd_count > SPAWN_MAX_FDS)
		return gb_fail(err, GB_E_LIMIT, "over %d descriptors for '%s'", SPAWN_MAX_FDS,
			s->argv[0]);
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	report_read = pipe_fds[0];
	report_write = pipe_fds[1];
	pid = fork_blocked(s, report_write);
	if (pid < 0)
		return gb_fail_sys(err, errno, "cannot fork");
	gb_fd_close(&report_write);
	if (gb_fd_read_full(report_read, &failed, sizeof(failed), &got, NULL) == 0 && got == 0) {
		*ret_pid = pid;
		return 0;
	}
	gb_kill_child(pid);
	return spawn_failed(s, &failed, err);
}

#define WAIT_NAP_MS 5

/* Where pidfd_open is not known or not allowed (old container profiles, valgrind). */
static int wait_napping(pid_t pid, uint64_t deadline_ns, int *ret_status, struct gb_err *err)
{
	for (;;) {
		pid_t done = waitpid(pid, ret_status, WNOHANG);
		int left = gb_deadline_poll_ms(deadline_ns);

		if (done == pid)
			return 0;
		if (done < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot wait for process %d", (int)pid);
		if (left == 0)
			return gb_fail(err, GB_E_TIMEOUT, "timed out");
		poll(NULL, 0, left < 0 ? WAIT_NAP_MS : GB_MIN(left, WAIT_NAP_MS));
	}
}

int gb_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status, struct gb_err *err)
{
	gb_auto_fd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int r;

	if (pidfd < 0 && (errno == ENOSYS || errno == EPERM))
		return wait_napping(pid, deadline_ns, ret_status, err);
	if (pidfd < 0)
		return gb_fail_sys(err, errno, "cannot watch process %d", (int)pid);
	r = gb_fd_wait(pidfd, POLLIN, deadline_ns, err);
	if (r < 0)
		return r;
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return gb_fail_sys(err, errno, "cannot wait for process %d", (int)pid);
	return 0;
}

void gb_kill_child(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void gb_describe_status(int status, char *text, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		snprintf(text, size, "exited with %d", WEXITSTATUS(status));
}
