/* The end, in steps that each have a share of the deadline:
 * TERM to every tool; KILL to what is left, and to their namespaces' process 1, which takes
 * its mounts along; sync and unmount; the answer; power off. Nothing here relies on the
 * event loop, and nothing waits for longer than the deadline: a disk or a share that does
 * not answer must not keep the machine alive. */
#include "guest/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "guest/mnt.h"
#include "guest/world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TERM_GRACE_MS 2000
#define POLL_STEP_US  2000
#define EVENTS_MAX    256
#define ANSWER_MS     1000

static void reap_all(struct gb_agent *a)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		if (pid == a->world_init)
			a->world_init = 0;
		if (pid == a->grower)
			a->grower = 0;
	}
}

static bool tools_run(const struct gb_agent *a)
{
	gb_auto_fd fd = openat(a->cgroups, "tools/cgroup.events", O_RDONLY | O_CLOEXEC);
	char text[EVENTS_MAX];
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (n < 0)
		return false;
	text[n] = 0;
	return gb_flat_key(text, "populated") != 0;
}

static void wait_tools(struct gb_agent *a, uint64_t deadline_ns)
{
	for (;;) {
		reap_all(a);
		if (!tools_run(a) || gb_deadline_passed(deadline_ns))
			return;
		usleep(POLL_STEP_US);
	}
}

static uint64_t part_of(uint64_t deadline_ns, uint64_t ms)
{
	uint64_t now = gb_now_ns();
	uint64_t left = deadline_ns > now ? deadline_ns - now : 0;

	return now + GB_MIN(left / 2, ms * GB_NS_MS);
}

static void end_tools(struct gb_agent *a, uint64_t deadline_ns)
{
	/* all but us: the relay and helpers ignore it, the tools' process 1 is not reached by
	 * it; a shell at a terminal ends by the hang-up only */
	kill(-1, SIGTERM);
	kill(-1, SIGHUP);
	kill(-1, SIGCONT);
	wait_tools(a, part_of(deadline_ns, TERM_GRACE_MS));
	gb_write_knob(a->cgroups, "tools/cgroup.kill", "1", NULL);
	wait_tools(a, part_of(deadline_ns, TERM_GRACE_MS));
}

static void end_world(struct gb_agent *a, uint64_t deadline_ns)
{
	gb_fd_close(&a->world_mnt);
	gb_fd_close(&a->world_pid);
	gb_fd_close(&a->null);
	gb_fd_close(&a->pts);
	for (size_t i = 0; i < GB_JOB_MAX; i++)
		for (int o = 0; o < 2; o++)
			gb_watch_close(&a->jobs[i].out[o].w);
	if (a->world_init > 0)
		kill(a->world_init, SIGKILL);
	while ((a->world_init > 0 || a->grower > 0) && !gb_deadline_passed(deadline_ns)) {
		reap_all(a);
		usleep(POLL_STEP_US);
	}
}

/* Its own process: it may hang on a disk that does not answer. */
static void unmount_root(struct gb_agent *a)
{
	struct gb_err err = { 0 };

	if (syncfs(a->root) < 0)
		gb_log(GB_LOG_ERROR, "cannot sync the root: %s", strerror(errno));
	if (gb_mnt_freeze(a->root, &err) < 0)
		gb_log(GB_LOG_WARN, "%s", err.msg);
	_exit(err.code != 0);
}

static void sync_root(struct gb_agent *a, uint64_t deadline_ns)
{
	pid_t pid;

	if (a->root < 0)
		return;
	if (a->own_pid >= 0)
		setns(a->own_pid, CLONE_NEWPID);
	pid = fork();
	if (pid == 0)
		unmount_root(a);
	if (pid < 0 || gb_wait_child(pid, deadline_ns, NULL, NULL) < 0)
		gb_log(GB_LOG_ERROR, "the root could not be synced in time");
}

void gb_power_off(struct gb_agent *a, uint32_t request, uint64_t deadline_ns)
{
	if (a->cgroups >= 0 && a->world_init > 0)
		end_tools(a, deadline_ns);
	end_world(a, part_of(deadline_ns, TERM_GRACE_MS));
	sync_root(a, deadline_ns);
	if (request)
		gb_ctl_ok(&a->ctl, request);
	if (a->ctl.port.fd >= 0)
		gb_ctl_flush_wait(&a->ctl, gb_deadline_ms(ANSWER_MS));
	/* power off where there is such a thing, else a reset: the VMM takes both as the end */
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_POWER_OFF, NULL);
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_RESTART, NULL);
	for (;;)
		pause();
}
