/* From the kernel's start to READY. The machine may be made a template at READY and be
 * restored many times: nothing before it may read what must differ between machines
 * (boot_id, the disk), and the disk's pages are dropped. */
#include "guest/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/mnt.h"
#include "guest/relay.h"
#include "guest/world.h"
#include "proto/ports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULE_LIST      "/modules.list"
#define MODULE_LIST_MAX  (64u << 10)
#define PORTS_DEADLINE_MS 10000
#define POLL_STEP_US     2000
#define NOFILE           16384 /* drained pipes, cgroups, streams */

int gb_write_knob(int dirfd, const char *path, const char *text, struct gb_err *err)
{
	gb_auto_fd fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	if (write(fd, text, strlen(text)) < 0)
		return gb_fail_sys(err, errno, "cannot write '%s' to '%s'", text, path);
	return 0;
}

static int own_mounts(struct gb_agent *a, struct gb_err *err)
{
	static const char *const cgroup[] = { "nsdelegate", NULL };
	const unsigned flags = GB_MNT_NOSUID | GB_MNT_NOEXEC;
	int r = gb_mnt_new("proc", "proc", NULL, flags | GB_MNT_NODEV, &a->proc, err);

	if (r == 0)
		r = gb_mnt_new("sysfs", "sysfs", NULL, flags | GB_MNT_NODEV, &a->sys, err);
	if (r == 0)
		r = gb_mnt_new("devtmpfs", "devtmpfs", NULL, flags, &a->dev, err);
	if (r == 0)
		r = gb_mnt_new("cgroup2", "cgroup2", cgroup, flags | GB_MNT_NODEV, &a->cgroups, err);
	return r;
}

/* The console is for us alone: what tools print goes to the host in frames. */
static void open_console(struct gb_agent *a)
{
	int null = openat(a->dev, "null", O_RDWR);
	int console = openat(a->dev, "console", O_WRONLY | O_NOCTTY);
	int on = console >= 0 ? console : null;

	dup2(null, 0);
	dup2(on, 1);
	dup2(on, 2);
	if (null > 2)
		close(null);
	if (console > 2)
		close(console);
}

/* Settings of the kernel that tools cannot change any more. Missing ones do not matter: the
 * kernel lacks the feature then. */
static void harden_kernel(struct gb_agent *a)
{
	static const char *const knobs[][2] = {
		/* programs that the kernel itself starts: none, and without capabilities */
		{ "sys/kernel/core_pattern", "core" },
		{ "sys/kernel/modprobe", "" },
		{ "sys/kernel/hotplug", "" },
		{ "sys/kernel/usermodehelper/bset", "0 0" },
		{ "sys/kernel/usermodehelper/inheritable", "0 0" },
		{ "sys/kernel/sysrq", "0" },
		{ "sys/kernel/kexec_load_disabled", "1" },
		{ "sys/kernel/dmesg_restrict", "1" },
		{ "sys/kernel/unprivileged_bpf_disabled", "1" },
		{ "sys/kernel/perf_event_paranoid", "3" },
		/* debuggers attach to processes of their own user */
		{ "sys/kernel/yama/ptrace_scope", "0" },
		/* what development servers and databases ask for */
		{ "sys/fs/inotify/max_user_instances", "1024" },
		{ "sys/fs/inotify/max_user_watches", "524288" },
		{ "sys/vm/max_map_count", "262144" },
		{ "sys/net/ipv4/ping_group_range", "0 2147483647" },
	};

	for (size_t i = 0; i < GB_ARRAY_SIZE(knobs); i++) {
		struct gb_err err;

		if (gb_write_knob(a->proc, knobs[i][0], knobs[i][1], &err) < 0 &&
			err.sys != ENOENT)
			gb_log(GB_LOG_DEBUG, "%s", err.msg);
	}
}

static int protect_self(struct gb_agent *a, struct gb_err *err)
{
	static const struct rlimit nofile = { NOFILE, NOFILE };

	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	setrlimit(RLIMIT_NOFILE, &nofile);
	setpriority(PRIO_PROCESS, 0, -10);
	a->self = open(GB_SELF_PATH, O_RDONLY | O_CLOEXEC);
	if (a->self < 0)
		return gb_fail_sys(err, errno, "cannot open myself");
	return gb_write_knob(a->proc, "self/oom_score_adj", "-1000", err);
}

/* In the order of the list; each file is removed, its memory is the machine's again. */
static int load_module(const char *path, struct gb_err *err)
{
	gb_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open module '%s'", path);
	if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
		return gb_fail_sys(err, errno, "cannot load module '%s'", path);
	unlink(path);
	return 0;
}

static int load_modules(struct gb_err *err)
{
	gb_auto_done(gb_buf) list = { 0 };
	struct gb_err cause;

	if (gb_file_read(AT_FDCWD, MODULE_LIST, MODULE_LIST_MAX, &list, &cause) < 0) {
		if (cause.sys == ENOENT) /* all is in the kernel */
			return 0;
		*err = cause;
		return cause.code;
	}
	for (char *p = (char *)list.data; *p;) {
		size_t len = strcspn(p, "\n");
		bool last = !p[len];
		int r;

		p[len] = 0;
		/* what one machine lacks is not missed: the ports and the disk are
		 * waited for */
		r = len ? load_module(p, &cause) : 0;
		if (r < 0)
			gb_log(GB_LOG_WARN, "%s", cause.msg);
		p += len + !last;
	}
	unlink(MODULE_LIST);
	rmdir("/modules");
	return 0;
}

static bool port_is_named(int folder, const char *port, const char *name)
{
	char path[300], text[64];
	gb_auto_fd fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/name", port);
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n <= 0)
		return false;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return strcmp(text, name) == 0;
}

/* -1: it is not there yet. */
static int open_port(const struct gb_agent *a, const char *name)
{
	int folder = openat(a->sys, "class/virtio-ports", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = folder >= 0 ? fdopendir(folder) : NULL;
	struct dirent *e;
	int fd = -1;

	while (d && fd < 0 && (e = readdir(d)))
		if (e->d_name[0] != '.' && port_is_named(folder, e->d_name, name))
			fd = openat(a->dev, e->d_name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (d)
		closedir(d);
	else if (folder >= 0)
		close(folder);
	return fd;
}

static int wait_port(const struct gb_agent *a, const char *name, int *ret, struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(PORTS_DEADLINE_MS);

	while ((*ret = open_port(a, name)) < 0) {
		if (gb_deadline_passed(deadline))
			return gb_fail(err, GB_E_NOTFOUND, "there is no serial port '%s'", name);
		usleep(POLL_STEP_US);
	}
	return 0;
}

/* The relay needs no privileges, and only its two descriptors. */
static _Noreturn void relay_main(int sock, int port)
{
	static int console = 2;

	dup2(sock, 3);
	dup2(port, 4);
	syscall(SYS_close_range, 5, ~0u, 0);
	prctl(PR_SET_NAME, "glovebox-relay", 0, 0, 0);
	signal(SIGTERM, SIG_IGN);
	gb_log_set_sink(gb_log_to_fd, &console, GB_LOG_INFO);
	gb_caps_set(0, NULL);
	gb_relay_run(3, 4);
}

static int start_relay(struct gb_agent *a, int port, struct gb_err *err)
{
	int pair[2];
	int r = gb_socketpair(pair, err);

	if (r < 0)
		return r;
	a->relay = fork();
	if (a->relay == 0) {
		int sock = fcntl(pair[1], F_DUPFD_CLOEXEC, 16);
		int safe = fcntl(port, F_DUPFD_CLOEXEC, 16);

		relay_main(sock, safe);
	}
	close(pair[1]);
	close(port);
	a->relay_sock = pair[0];
	return a->relay < 0 ? gb_fail_sys(err, errno, "cannot start the share relay") : 0;
}

static int open_ports(struct gb_agent *a, struct gb_err *err)
{
	int ctl, share;
	int r = wait_port(a, GB_VM_PORT_CTL, &ctl, err);

	if (r < 0)
		return r;
	gb_ctl_init(&a->ctl, ctl);
	r = wait_port(a, GB_VM_PORT_SHARE, &share, err);
	return r < 0 ? r : start_relay(a, share, err);
}

static int share_memory(struct gb_agent *a, struct gb_err *err)
{
	void *p = mmap(NULL, sizeof(*a->reports) * (GB_JOB_MAX + 1), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return gb_fail_sys(err, errno, "cannot map memory");
	a->reports = p;
	return 0;
}

int gb_boot(struct gb_agent *a, struct gb_err *err)
{
	int r = own_mounts(a, err);

	if (r < 0)
		return r;
	open_console(a);
	r = protect_self(a, err);
	if (r == 0)
		r = load_modules(err);
	if (r == 0)
		r = open_ports(a, err);
	if (r == 0)
		r = share_memory(a, err);
	if (r == 0)
		r = gb_cgroups_init(a, err);
	if (r < 0)
		return r;
	harden_kernel(a);
	a->own_pid = openat(a->proc, "self/ns/pid", O_RDONLY | O_CLOEXEC);
	if (a->own_pid < 0)
		return gb_fail_sys(err, errno, "cannot open my pid namespace");
	r = gb_caps_bound(err);
	if (r < 0)
		return r;
	gb_write_knob(a->proc, "sys/vm/drop_caches", "3", NULL);
	gb_msg_add_frame(&a->ctl.out, GB_FRAME_READY, 0, NULL, NULL);
	return 0;
}
