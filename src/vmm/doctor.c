#include "vmm/doctor.h"
#include "vmm/accel.h"
#include "vmm/boot.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY_WAIT_MS   3000
#define SOCKET_ENDING ".sock"
#define NAME_ENOUGH   20 /* characters of a machine's name that should fit */

struct doctor {
	const char *cache_dir;
	gb_doctor_line line;
	void *ctx;
};

static void GB_PRINTF(4, 5)
	say(const struct doctor *d, const char *check, bool ok, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->line(d->ctx, check, ok, text);
}

static void check_accelerator(const struct doctor *d)
{
	struct gb_accel_result got;
	struct gb_err err = {0};

	/* whoever asks the doctor wants to know how it is now */
	gb_accel_forget(d->cache_dir);
	if (gb_accel_resolve(GB_ACCEL_AUTO, d->cache_dir, &got, &err) < 0)
		say(d, "accelerator", false, "%s", err.msg);
	else if (got.accel == GB_ACCEL_TCG)
		say(d, "accelerator", false,
			"tcg: %s (use a host with a working /dev/kvm)", got.why);
	else
		say(d, "accelerator", true, "%s: %s", gb_accel_name(got.accel), got.why);
}

static void check_qemu(const struct doctor *d)
{
	struct gb_err err = {0};
	char text[GB_DRIVER_TEXT];

	if (gb_driver_qemu_describe(text, &err) == 0)
		say(d, "qemu", true, "%s", text);
	else
		say(d, "qemu", false, "%s", err.msg);
}

static void check_kernel(const struct doctor *d)
{
	struct gb_boot_source source = {0};
	gb_auto_done(gb_boot_paths) p = {0};
	gb_auto_free char *dir = NULL;
	struct gb_err err = {0};
	int r = gb_boot_locate(&source, &p, &err);

	if (r < 0) {
		say(d, "kernel", false, "%s", err.msg);
		say(d, "boot bundle", false, "needs a kernel and the guest agent first");
		return;
	}
	say(d, "kernel", true, "%s, modules in %s", p.kernel, p.modules);
	r = gb_bundle_lookup(d->cache_dir, &p, &dir, &err);
	if (r == 0)
		say(d, "boot bundle", true, "%s", dir);
	else if (r == GB_E_NOTFOUND)
		say(d, "boot bundle", true, "%s: made at the next start", err.msg);
	else
		say(d, "boot bundle", false, "%s", err.msg);
}

static void check_templates(const struct doctor *d)
{
	gb_auto_free char *path = gb_path_join(d->cache_dir, "templates");
	DIR *dir = path ? opendir(path) : NULL;
	struct dirent *e;
	int count = 0;

	while (dir && (e = readdir(dir))) {
		char name[300];

		snprintf(name, sizeof(name), "%s/template.json", e->d_name);
		count += e->d_name[0] != '.' && faccessat(dirfd(dir), name, R_OK, 0) == 0;
	}
	if (dir)
		closedir(dir);
	if (count)
		say(d, "templates", true, "%d in %s", count, path);
	else
		say(d, "templates", true, "none yet: made at the next start");
}

static void check_landlock(const struct doctor *d)
{
	long abi = syscall(
		SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi > 0)
		say(d, "landlock", true, "version %ld", abi);
	else
		say(d, "landlock", false,
			"not available (%s): helper processes are confined by the other "
			"stages "
			"only; boot this host with lsm=landlock,... (kernel 5.13 or "
			"newer)",
			strerror(errno));
}

static void check_seccomp(const struct doctor *d)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
		say(d, "seccomp", true, "available");
	else
		say(d, "seccomp", false,
			"not available (%s): shares cannot be served; use a kernel with "
			"CONFIG_SECCOMP_FILTER",
			strerror(errno));
}

static void check_namespaces(const struct doctor *d)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
	if (pid < 0 ||
		gb_wait_child(pid, gb_deadline_ms(TRY_WAIT_MS), &status, NULL) < 0) {
		if (pid > 0)
			gb_kill_child(pid);
		say(d, "user namespaces", false,
			"cannot be tried: no process could be started");
	} else if (status == 0) {
		say(d, "user namespaces", true, "available");
	} else {
		say(d, "user namespaces", false,
			"not available (%s): helper processes see the host's mounts, and "
			"images "
			"made by debootstrap need root; allow them (sysctl "
			"kernel.unprivileged_userns_clone, user.max_user_namespaces)",
			WIFEXITED(status) ? strerror(WEXITSTATUS(status)) : "killed");
	}
}

static void check_runtime(const struct doctor *d)
{
	gb_auto_done(gb_dirs) dirs = {0};
	struct gb_err err = {0};
	size_t used;
	size_t room = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

	if (gb_dirs_init(&dirs, &err) < 0) {
		say(d, "runtime folder", false, "%s", err.msg);
		return;
	}
	used = strlen(dirs.runtime) + 1 + strlen(SOCKET_ENDING);
	if (used + NAME_ENOUGH <= room)
		say(d, "runtime folder", true, "%s, room for names of %zu characters",
			dirs.runtime, GB_MIN(room - used, (size_t)63));
	else
		say(d, "runtime folder", false,
			"'%s' is too long for sockets: set XDG_RUNTIME_DIR or "
			"GLOVEBOX_HOME to a "
			"shorter directory",
			dirs.runtime);
}

int gb_vmm_doctor(
	const char *cache_dir, gb_doctor_line line, void *ctx, struct gb_err *err)
{
	static void (*const checks[])(const struct doctor *) = {check_accelerator,
		check_qemu, check_kernel, check_templates, check_landlock, check_seccomp,
		check_namespaces, check_runtime};
	struct doctor d = {cache_dir, line, ctx};

	if (!cache_dir || !line)
		return gb_fail(err, GB_E_INVALID,
			"the doctor needs a cache folder and a reader");
	for (size_t i = 0; i < GB_ARRAY_SIZE(checks); i++)
		checks[i](&d);
	return 0;
}
