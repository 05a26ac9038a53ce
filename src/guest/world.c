/* The tools' world: a pid and a mount namespace of their own, and the way into it.
 *
 * What a tool that is root may try, and what stands in its way:
 * - our ports, the disk, /dev/mem by mknod: no CAP_MKNOD; the root and shares are nodev; /dev
 *   is a tmpfs with a handful of nodes, not devtmpfs; devtmpfs cannot be mounted without
 *   CAP_SYS_ADMIN, and not at all in a user namespace.
 * - the agent's memory and descriptors through /proc or ptrace: their proc shows their pid
 *   namespace only; process 1 in there, and each child before it executes, is not dumpable
 *   and has capabilities that they lack, and CAP_SYS_PTRACE is gone.
 * - a fresh proc or sysfs from a user namespace, with a writable /proc/sys: theirs has locked
 *   mounts over parts of it, so the kernel refuses a new one that would show more.
 * - the agent's mounts: they are attached nowhere, or in the agent's own namespace; the
 *   folder below our root is an emptied initramfs that ".." cannot reach.
 * - kernel helpers (core_pattern, modprobe, uevent): /proc/sys and /sys are read-only, and
 *   helpers have no capabilities (boot.c).
 * - cgroups: not mounted; in a user and cgroup namespace of their own they see their group
 *   only, and cannot make groups below it. */
#include "guest/world.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/env.h"
#include "guest/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORLD_DEADLINE_MS 20000
#define COMMANDS          "/run/glovebox"
#define NOFILE_SOFT       1024
#define NOFILE_HARD       1048576

static const char *const command_links[][2] = {
	{ COMMANDS "/bin/apply_patch", "/usr/local/bin/apply_patch" },
	{ COMMANDS "/bin/applypatch", "/usr/local/bin/applypatch" },
};

static int attach(int mnt, const char *at, struct gb_err *err)
{
	gb_auto_fd target = open(at, O_PATH | O_CLOEXEC);
	int r;

	if (target < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", at);
	r = gb_mnt_attach(mnt, target, err);
	return r < 0 ? gb_wrap(err, r, "'%s'", at) : 0;
}

static int mount_at(const char *type, const char *at, const char *const *options,
	unsigned flags, struct gb_err *err)
{
	gb_auto_fd mnt = -1;
	int r = gb_mnt_new(type, type, options, flags, &mnt, err);

	return r < 0 ? r : attach(mnt, at, err);
}

/* The image's root becomes "/" of this namespace; our copy of it lies at GB_ROOT_PATH. */
static int enter_root(struct gb_err *err)
{
	gb_auto_fd root = open(GB_ROOT_PATH, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (root < 0)
		return gb_fail_sys(err, errno, "cannot open the root");
	r = attach(root, "/", err);
	if (r < 0)
		return r;
	if (fchdir(root) < 0 || chroot(".") < 0)
		return gb_fail_sys(err, errno, "cannot change the root");
	return 0;
}

static int make_nodes(struct gb_err *err)
{
	static const struct {
		const char *path;
		unsigned major, minor;
	} nodes[] = {
		{ "/dev/null", 1, 3 },
		{ "/dev/zero", 1, 5 },
		{ "/dev/full", 1, 7 },
		{ "/dev/random", 1, 8 },
		{ "/dev/urandom", 1, 9 },
		{ "/dev/tty", 5, 0 },
	};
	static const char *const links[][2] = {
		{ "/proc/self/fd", "/dev/fd" },
		{ "/proc/self/fd/0", "/dev/stdin" },
		{ "/proc/self/fd/1", "/dev/stdout" },
		{ "/proc/self/fd/2", "/dev/stderr" },
		{ "pts/ptmx", "/dev/ptmx" },
	};

	for (size_t i = 0; i < GB_ARRAY_SIZE(nodes); i++)
		if (mknod(nodes[i].path, S_IFCHR | 0666,
			    makedev(nodes[i].major, nodes[i].minor)) < 0)
			return gb_fail_sys(err, errno, "cannot make '%s'", nodes[i].path);
	for (size_t i = 0; i < GB_ARRAY_SIZE(links); i++)
		if (symlink(links[i][0], links[i][1]) < 0)
			return gb_fail_sys(err, errno, "cannot make '%s'", links[i][1]);
	if (mkdir("/dev/pts", 0755) < 0 || mkdir("/dev/shm", 01777) < 0)
		return gb_fail_sys(err, errno, "cannot fill /dev");
	return 0;
}

/* What would let root leave, or show what it need not see. Also: with these in place, the
 * kernel refuses a new proc in a user namespace. */
static int restrict_proc(struct gb_err *err)
{
	static const char *const rdonly[] = { "/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq",
		"/proc/acpi", "/proc/scsi" };
	static const char *const masked[] = { "/proc/sysrq-trigger", "/proc/kcore", "/proc/keys",
		"/proc/timer_list", "/proc/kmsg", "/proc/kallsyms", "/proc/sched_debug",
		"/proc/latency_stats", "/proc/kpagecount", "/proc/kpageflags",
		"/proc/kpagecgroup", "/proc/mtrr", "/proc/interrupts" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < GB_ARRAY_SIZE(rdonly) + GB_ARRAY_SIZE(masked); i++) {
		bool mask = i >= GB_ARRAY_SIZE(rdonly);
		const char *at = mask ? masked[i - GB_ARRAY_SIZE(rdonly)] : rdonly[i];
		gb_auto_fd mnt = -1;

		if (access(at, F_OK) < 0)
			continue;
		r = gb_mnt_clone(AT_FDCWD, mask ? "/dev/null" : at,
			GB_MNT_RDONLY | GB_MNT_NOSUID | GB_MNT_NOEXEC, &mnt, err);
		if (r == 0)
			r = attach(mnt, at, err);
	}
	return r;
}

/* This program under the name apply_patch, for models that call it from a shell. It lies in
 * /run; a link in /usr/local/bin leads there, since login shells set a PATH of their own. An
 * image that has such a command keeps it; a root that is read-only has none. */
static int add_commands(int self, struct gb_err *err)
{
	gb_auto_fd fd = -1;
	int r;

	if (mkdir(COMMANDS, 0755) < 0 || mkdir(COMMANDS "/bin", 0755) < 0)
		return gb_fail_sys(err, errno, "cannot make '" COMMANDS "/bin'");
	fd = open(COMMANDS "/bin/apply_patch", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot make a command");
	r = attach(self, COMMANDS "/bin/apply_patch", err);
	if (r == 0 && symlink("apply_patch", COMMANDS "/bin/applypatch") < 0)
		return gb_fail_sys(err, errno, "cannot make a command");
	for (size_t i = 0; r == 0 && i < GB_ARRAY_SIZE(command_links); i++)
		if (symlink(command_links[i][0], command_links[i][1]) < 0)
			gb_log(GB_LOG_DEBUG, "no link '%s'", command_links[i][1]);
	return r;
}

static int world_mounts(const struct gb_agent *a, struct gb_err *err)
{
	static const char *const dev[] = { "mode=755", "size=64k", NULL };
	static const char *const shm[] = { "mode=1777", NULL };
	static const char *const run[] = { "mode=755", "size=25%", NULL };
	const unsigned quiet = GB_MNT_NOSUID | GB_MNT_NODEV;
	gb_auto_fd self = -1;
	int r = gb_mnt_clone(AT_FDCWD, GB_SELF_PATH, GB_MNT_RDONLY | quiet, &self, err);

	if (r == 0)
		r = enter_root(err);
	if (r == 0)
		r = mount_at("proc", "/proc", NULL, quiet | GB_MNT_NOEXEC, err);
	if (r == 0)
		r = mount_at("sysfs", "/sys", NULL, quiet | GB_MNT_NOEXEC | GB_MNT_RDONLY, err);
	if (r == 0)
		r = mount_at("tmpfs", "/dev", dev, GB_MNT_NOSUID | GB_MNT_NOEXEC, err);
	if (r == 0)
		r = make_nodes(err);
	if (r == 0)
		r = attach(a->pts, "/dev/pts", err);
	if (r == 0)
		r = mount_at("tmpfs", "/dev/shm", shm, quiet, err);
	if (r == 0)
		r = mount_at("tmpfs", "/run", run, quiet, err);
	if (r == 0)
		r = add_commands(self, err);
	if (r == 0 && mkdir("/run/lock", 01777) == 0)
		chmod("/run/lock", 01777);
	return r == 0 ? restrict_proc(err) : r;
}

/* Process 1 of the tools: it reaps what they leave, and is the namespace's life. */
static _Noreturn void world_init(const struct gb_agent *a, int report)
{
	struct gb_err err = { 0 };
	sigset_t chld;

	prctl(PR_SET_NAME, "glovebox-init", 0, 0, 0);
	setsid();
	umask(0);
	if (world_mounts(a, &err) == 0)
		gb_caps_set(gb_caps_kept(), &err);
	gb_fd_write_full(report, &err, sizeof(err), NULL);
	if (err.code)
		_exit(1);
	syscall(SYS_close_range, 0, ~0u, 0);
	open("/dev/null", O_RDWR);
	dup(0);
	dup(0);
	umask(022);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	for (;;) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		sigwaitinfo(&chld, NULL);
	}
}

static pid_t clone_child(uint64_t flags, int cgroup)
{
	struct clone_args args = {
		.flags = flags | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
		.exit_signal = SIGCHLD,
		.cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* A file of a process's folder in our proc. */
static int open_of(const struct gb_agent *a, pid_t pid, const char *name, int flags, int *ret,
	struct gb_err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
	*ret = openat(a->proc, path, flags | O_CLOEXEC);
	if (*ret < 0)
		return gb_fail_sys(err, errno, "cannot open '/proc/%s'", path);
	return 0;
}

static int take_report(int fd, struct gb_err *err)
{
	struct gb_err said;
	size_t n;
	int r = gb_fd_wait(fd, POLLIN, gb_deadline_ms(WORLD_DEADLINE_MS), err);

	if (r == 0)
		r = gb_fd_read_full(fd, &said, sizeof(said), &n, err);
	if (r < 0)
		return r;
	if (n != sizeof(said))
		return gb_fail(err, GB_E_IO, "the tools' first process ended");
	if (said.code) {
		*err = said;
		return gb_wrap(err, said.code, "cannot set up the tools' namespaces");
	}
	return 0;
}

int gb_world_start(struct gb_agent *a, struct gb_err *err)
{
	gb_auto_fd in = -1;
	gb_auto_fd out = -1;
	int p[2];
	int r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	in = p[0];
	out = p[1];
	a->world_init = clone_child(CLONE_NEWPID | CLONE_NEWNS, -1);
	if (a->world_init < 0)
		return gb_fail_sys(err, errno, "cannot make the tools' namespaces");
	if (a->world_init == 0)
		world_init(a, out);
	gb_fd_close(&out);
	r = take_report(in, err);
	if (r == 0)
		r = open_of(a, a->world_init, "ns/mnt", O_RDONLY, &a->world_mnt, err);
	if (r == 0)
		r = open_of(a, a->world_init, "ns/pid", O_RDONLY, &a->world_pid, err);
	if (r == 0)
		r = open_of(a, a->world_init, "root/dev/null", O_RDWR, &a->null, err);
	if (r < 0)
		return r;
	if (setns(a->world_pid, CLONE_NEWPID) < 0)
		return gb_fail_sys(err, errno, "cannot enter the tools' pid namespace");
	return 0;
}

int gb_world_enter_mounts(const struct gb_agent *a, struct gb_err *err)
{
	if (setns(a->world_mnt, CLONE_NEWNS) < 0)
		return gb_fail_sys(err, errno, "cannot enter the tools' mounts");
	return 0;
}

static void reset_signals(void)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int set_stdio(const struct gb_child *c, struct gb_err *err)
{
	for (int i = 0; i < 3; i++)
		if (dup2(c->stdio[i], i) < 0)
			return gb_fail_sys(err, errno, "cannot set up standard streams");
	if (c->tty && ioctl(0, TIOCSCTTY, 0) < 0)
		return gb_fail_sys(err, errno, "cannot set up the terminal");
	return 0;
}

static void set_limits(void)
{
	static const struct rlimit nofile = { NOFILE_SOFT, NOFILE_HARD };
	static const struct rlimit core = { 0, RLIM_INFINITY };
	/* their number is limited for all tools together (cgroup.c) */
	static const struct rlimit processes = { RLIM_INFINITY, RLIM_INFINITY };

	setpriority(PRIO_PROCESS, 0, 0);
	setrlimit(RLIMIT_NPROC, &processes);
	setrlimit(RLIMIT_NOFILE, &nofile);
	setrlimit(RLIMIT_CORE, &core);
}

static int become(const struct gb_user *u, struct gb_err *err)
{
	if (setgroups(u->group_count, u->groups) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
		setresuid(u->uid, u->uid, u->uid) < 0)
		return gb_fail_sys(err, errno, "cannot become user %s", u->name);
	return gb_caps_set(u->uid == 0 ? gb_caps_kept() : 0, err);
}

/* From here to the exec, tools can see us: so privileges go last, but descriptors first. The
 * two that must survive (the pipe that tells of the exec, the program) close by themselves. */
static void enter(const struct gb_agent *a, const struct gb_child *c, struct gb_report *r)
{
	r->pid = getpid();
	r->stage = GB_STAGE_SETUP;
	setsid();
	reset_signals();
	if (gb_write_knob(a->proc, "self/oom_score_adj", "0", &r->err) < 0 ||
		gb_world_enter_mounts(a, &r->err) < 0 || set_stdio(c, &r->err) < 0)
		return;
	umask(022);
	set_limits();
	if (become(c->user, &r->err) < 0)
		return;
	r->stage = GB_STAGE_CWD;
	if (c->cwd && chdir(c->cwd) < 0) {
		gb_fail_sys(&r->err, errno, "working directory '%s'", c->cwd);
		return;
	}
	r->stage = GB_STAGE_NONE;
}

static _Noreturn void child_main(const struct gb_agent *a, const struct gb_child *c)
{
	struct gb_report *r = c->report;
	int cause;

	enter(a, c, r);
	if (r->stage != GB_STAGE_NONE)
		_exit(127);
	if (c->run) {
		syscall(SYS_close_range, 3, ~0u, 0);
		_exit(c->run(c->ctx, &r->err) < 0);
	}
	if (c->program >= 0) {
		syscall(SYS_execveat, c->program, "", c->argv, c->envp, AT_EMPTY_PATH);
		cause = errno;
	} else {
		cause = gb_env_exec(c->argv, c->envp);
	}
	gb_fail_sys(&r->err, cause, "'%s'", c->argv[0]);
	r->stage = GB_STAGE_EXEC;
	_exit(127);
}

int gb_child_start(struct gb_agent *a, const struct gb_child *c, pid_t *ret_pid, int *ret_started,
	struct gb_err *err)
{
	gb_auto_fd in = -1;
	gb_auto_fd out = -1;
	int p[2];
	pid_t pid;

	if (ret_started) {
		if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
			return gb_fail_sys(err, errno, "cannot make a pipe");
		in = p[0];
		out = p[1];
	}
	memset(c->report, 0, sizeof(*c->report));
	pid = clone_child(0, c->cgroup->dir);
	if (pid < 0)
		return gb_fail_sys(err, errno, "cannot start a process");
	if (pid == 0)
		child_main(a, c);
	*ret_pid = pid;
	if (ret_started)
		*ret_started = gb_take_fd(&in);
	return 0;
}

int gb_helper_start(struct gb_agent *a, int (*run)(void *ctx, struct gb_err *err), void *ctx,
	struct gb_report *report, pid_t *ret_pid, struct gb_err *err)
{
	pid_t pid;

	memset(report, 0, sizeof(*report));
	if (setns(a->own_pid, CLONE_NEWPID) < 0)
		return gb_fail_sys(err, errno, "cannot start a helper");
	pid = clone_child(0, -1);
	if (pid == 0) {
		signal(SIGTERM, SIG_IGN);
		_exit(run(ctx, &report->err) < 0);
	}
	if (setns(a->world_pid, CLONE_NEWPID) < 0 || pid < 0)
		return gb_fail_sys(err, errno, "cannot start a helper");
	*ret_pid = pid;
	return 0;
}
