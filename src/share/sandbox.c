#include "share/sandbox.h"

#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define FDS_MAX   (1u << 17) /* more than all caps of the server together */
#define FDS_LEAST 256u       /* believed in where the limit cannot be read */
#define KEEP_MAX  80u        /* shares and a few */

static int close_others(const struct gb_jail_dir *dirs, size_t count, const int *keep,
	size_t keep_count, struct gb_err *err)
{
	int all[KEEP_MAX];
	size_t n = 0;

	if (count + keep_count > KEEP_MAX)
		return gb_fail(err, GB_E_LIMIT, "too many descriptors");
	for (size_t i = 0; i < count; i++)
		all[n++] = dirs[i].fd;
	for (size_t i = 0; i < keep_count; i++)
		all[n++] = keep[i];
	gb_jail_close_others(all, n);
	return 0;
}

/* The number of descriptors that may be open from now on. */
static size_t set_limits(void)
{
	struct rlimit none = { 0, 0 };
	struct rlimit files = { FDS_LEAST, FDS_LEAST };

	setrlimit(RLIMIT_CORE, &none);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = GB_MIN(files.rlim_max, (rlim_t)FDS_MAX);
		setrlimit(RLIMIT_NOFILE, &files);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	umask(0);
	return files.rlim_cur;
}

/* Root acts on files of any user below a share, as the person who ran it as root expects.
 * CAP_FSETID goes too: then the host's kernel strips setuid bits from what a guest writes. */
static uint64_t kept_capabilities(void)
{
	return geteuid() == 0 ? UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_FOWNER : 0;
}

/* A stage that may fail: say so, go on. */
static void try_stage(int result, const struct gb_err *why, const char *name,
	enum gb_sandbox_stage stage, unsigned int *stages)
{
	if (result < 0)
		gb_log(GB_LOG_WARN, "sandbox: no %s: %s", name, why->msg);
	else
		*stages |= stage;
}

/* Where descriptors have paths. The mounts stage has gone to a cut-out one already. */
static int go_to_fds(struct gb_err *err)
{
	if (chdir("/proc/self/fd") < 0)
		return gb_fail_sys(err, errno, "cannot use /proc/self/fd: is /proc mounted?");
	return 0;
}

int gb_sandbox_enter(struct gb_jail_dir *dirs, size_t count, const int *keep,
	size_t keep_count, struct gb_sandbox *ret, struct gb_err *err)
{
	unsigned int stages = 0;
	int r;

	ret->max_fds = set_limits();
	r = close_others(dirs, count, keep, keep_count, err);
	if (r < 0)
		return r;
	try_stage(gb_jail_namespaces(err), err, "namespaces", GB_SANDBOX_NAMESPACES, &stages);
	if (stages & GB_SANDBOX_NAMESPACES)
		try_stage(gb_jail_mounts(dirs, count, err), err, "mounts of its own",
			GB_SANDBOX_MOUNTS, &stages);
	if (!(stages & GB_SANDBOX_MOUNTS))
		r = go_to_fds(err);
	if (r == 0)
		r = gb_jail_privileges(kept_capabilities(), err);
	if (r < 0)
		return r;
	stages |= GB_SANDBOX_PRIVILEGES;
	try_stage(gb_jail_landlock(dirs, count, err), err, "landlock", GB_SANDBOX_LANDLOCK,
		&stages);
	r = gb_sandbox_seccomp(err);
	if (r < 0)
		return r;
	ret->stages = stages | GB_SANDBOX_SECCOMP;
	return 0;
}
