/* Running the bare guest where it cannot hurt us: in a forked child, under a time limit.
 * The parent may have threads, so the child uses nothing that takes a lock. */
#include "vmm/accel_probe.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHILD_REPORT_FD 3

static const char *const stage_names[GB_KVM_STAGES] = {
	[GB_KVM_SETUP] = "setting up a guest",
	[GB_KVM_CMPXCHG16B] = "cmpxchg16b",
	[GB_KVM_INT3] = "int3",
	[GB_KVM_XSAVE] = "xsave/xrstor",
	[GB_KVM_LOOP] = "a timed loop",
};

static __attribute__((noreturn)) void child_main(
	const struct gb_kvm_ops *ops, const char *device, int report_fd, pid_t parent)
{
	struct gb_kvm_report report;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup2(report_fd, CHILD_REPORT_FD) < 0)
		_exit(1);
	syscall(SYS_close_range, CHILD_REPORT_FD + 1, ~0U, 0);
	gb_kvm_run_guest(ops, device, &report);
	_exit(write(CHILD_REPORT_FD, &report, sizeof(report)) != sizeof(report));
}

static void explain(
	const struct gb_kvm_report *r, const char *device, struct gb_kvm_verdict *ret)
{
	ret->usable = r->outcome == GB_KVM_OK;
	/* what failed before the guest ran may be different at the next try */
	ret->certain = r->stage != GB_KVM_SETUP;
	if (ret->usable)
		snprintf(ret->why, sizeof(ret->why), "%s runs a bare guest", device);
	else if (r->outcome == GB_KVM_CALL_FAILED && r->detail == ENOENT)
		snprintf(ret->why, sizeof(ret->why), "%s does not exist", device);
	else if (r->outcome == GB_KVM_CALL_FAILED && r->detail == EACCES)
		snprintf(ret->why, sizeof(ret->why),
			"%s may not be opened: join the group that owns it", device);
	else if (r->outcome == GB_KVM_CALL_FAILED)
		snprintf(ret->why, sizeof(ret->why), "%s: %s failed: %s", device, r->what,
			strerror(r->detail));
	else
		snprintf(ret->why, sizeof(ret->why),
			"%s cannot run a kernel: %s at %s (%d)", device, r->what,
			stage_names[r->stage], r->detail);
}

/* The time a stuck child got on a processor tells a KVM that hangs or crawls from a host
 * that is too busy just now. */
static void explain_timeout(
	pid_t pid, const char *device, uint64_t limit_ms, struct gb_kvm_verdict *ret)
{
	struct rusage use = {0};
	uint64_t used_ms;
	gb_auto_fd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	kill(pid, SIGKILL);
	/* in a sleep that cannot be interrupted it outlives even this; init gets it then
	 */
	if (pidfd >= 0 && gb_fd_wait(pidfd, POLLIN, gb_deadline_ms(limit_ms), NULL) == 0)
		while (wait4(pid, NULL, 0, &use) < 0 && errno == EINTR)
			;
	used_ms = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
		  (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000;
	ret->certain = used_ms >= limit_ms / 2;
	snprintf(ret->why, sizeof(ret->why), "%s cannot run a kernel: %s within %u ms",
		device,
		ret->certain ? "a bare guest hangs or crawls"
			     : "no answer from a bare guest",
		(unsigned)limit_ms);
}

static int start_child(
	const struct gb_kvm_ops *ops, const char *device, int *ret_fd, pid_t *ret)
{
	pid_t parent = getpid();
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		child_main(ops, device, fds[1], parent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -EAGAIN;
	}
	*ret_fd = fds[0];
	*ret = pid;
	return 0;
}

void gb_kvm_probe(const struct gb_kvm_ops *ops, const char *device, uint64_t limit_ms,
	struct gb_kvm_verdict *ret)
{
	struct gb_kvm_report report;
	gb_auto_fd fd = -1;
	size_t got = 0;
	pid_t pid = -1;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = start_child(ops, device, &fd, &pid);
	if (r < 0) {
		snprintf(ret->why, sizeof(ret->why), "cannot start a probe of %s: %s",
			device, strerror(-r));
		return;
	}
	if (gb_fd_wait(fd, POLLIN, gb_deadline_ms(limit_ms), NULL) < 0) {
		explain_timeout(pid, device, limit_ms, ret);
		return;
	}
	/* the report is written whole, below PIPE_BUF */
	r = gb_fd_read_full(fd, &report, sizeof(report), &got, NULL);
	gb_kill_child(pid);
	report.what[sizeof(report.what) - 1] = 0;
	if (r == 0 && got == sizeof(report) && report.stage < GB_KVM_STAGES)
		explain(&report, device, ret);
	else
		snprintf(ret->why, sizeof(ret->why), "the probe of %s died", device);
}
