#include "base/proc.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static int highest_target(const struct gb_spawn *s)
{
	int top = 2;

	for (size_t i = 0; i < s->fd_count; i++)
		top = GB_MAX(top, s->fds[i].to);
	return top;
}

/* In the child: move all sources above every target first, so that no dup2 overwrites a
 * source that is still needed; then close everything else. */
static int child_descriptors(const struct gb_spawn *s, int report)
{
	int top = highest_target(s);
	int high[32];
	int null;

	if (s->fd_count > GB_ARRAY_SIZE(high))
		return -EMFILE;
	report = fcntl(report, F_DUPFD_CLOEXEC, top + 1);
	if (report < 0)
		return -errno;
	for (size_t i = 0; i < s->fd_count; i++) {
		high[i] = fcntl(s->fds[i].from, F_DUPFD_CLOEXEC, top + 1);
		if (high[i] < 0)
			return -errno;
	}
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		if (null != fd)
			dup2(null, fd);
	for (size_t i = 0; i < s->fd_count; i++)
		if (dup2(high[i], s->fds[i].to) < 0)
			return -errno;
	for (int fd = 3; fd <= top; fd++) {
		bool wanted = false;

		for (size_t i = 0; i < s->fd_count; i++)
			wanted |= s->fds[i].to == fd;
		if (!wanted)
			close(fd);
	}
	syscall(SYS_close_range, top + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	return report;
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
	int why;

	child_signals();
	if (s->new_session)
		setsid();
	/* the parent may have died before prctl took hold */
	if (s->die_with_parent &&
		(prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		_exit(127);
	report = child_descriptors(s, report);
	if (report < 0)
		_exit(127);
	if (s->cwd && chdir(s->cwd) < 0)
		goto fail;
	execvpe(s->argv[0], s->argv, s->envp ? s->envp : environ);
fail:
	why = errno;
	if (write(report, &why, sizeof(why)) < 0)
		_exit(126);
	_exit(127);
}

int gb_spawn(const struct gb_spawn *s, pid_t *ret_pid, struct gb_err *err)
{
	gb_auto_fd report_read = -1;
	gb_auto_fd report_write = -1;
	int pipe_fds[2];
	pid_t parent = getpid();
	pid_t pid;
	int why = 0;
	size_t got = 0;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	report_read = pipe_fds[0];
	report_write = pipe_fds[1];
	pid = fork();
	if (pid < 0)
		return gb_fail_sys(err, errno, "cannot fork");
	if (pid == 0)
		run_child(s, report_write, parent);
	gb_fd_close(&report_write);
	if (gb_fd_read_full(report_read, &why, sizeof(why), &got, NULL) == 0 && got == 0) {
		*ret_pid = pid;
		return 0;
	}
	gb_kill_child(pid);
	return gb_fail_sys(err, why, "cannot run '%s'", s->argv[0]);
}

int gb_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status, struct gb_err *err)
{
	gb_auto_fd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int r;

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
