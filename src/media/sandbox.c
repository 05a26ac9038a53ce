#include "media/sandbox.h"

#include "jail/jail.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>

static const int allowed_calls[] = {
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(futex),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(getrandom),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
#ifdef __SANITIZE_ADDRESS__ /* a build for tests */
	SCMP_SYS(sigaltstack),
	SCMP_SYS(sched_yield),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(readlink),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
#endif
};

static const struct gb_jail_masked masked_calls[] = {
	{SCMP_SYS(mmap), 2, PROT_EXEC, 0},
	{SCMP_SYS(mprotect), 2, PROT_EXEC, 0},
};

static int set_limit(int what, rlim_t most, const char *name, struct gb_err *err)
{
	struct rlimit l;

	if (getrlimit(what, &l) < 0)
		return gb_fail_sys(err, errno, "cannot read the limit for %s", name);
	l.rlim_cur = l.rlim_max = GB_MIN(l.rlim_max, most);
	if (setrlimit(what, &l) < 0)
		return gb_fail_sys(err, errno, "cannot limit %s", name);
	return 0;
}

static int set_limits(struct gb_err *err)
{
	int r = set_limit(RLIMIT_CORE, 0, "core dumps", err);

	if (r == 0)
		r = set_limit(RLIMIT_CPU, GB_MEDIA_CPU_MAX, "processor time", err);
#ifndef __SANITIZE_ADDRESS__ /* which maps terabytes */
	if (r == 0)
		r = set_limit(RLIMIT_AS, GB_MEDIA_MEMORY_MAX, "memory", err);
#endif
	return r;
}

/* A stage of which the kernel has the last word: it may not have it, or not grant it. */
static int try_stage(int r, unsigned int stage, unsigned int *stages)
{
	if (r == 0)
		*stages |= stage;
	return r == GB_E_UNSUPPORTED || r == GB_E_DENIED ? 0 : r;
}

static int enter_namespaces(unsigned int *stages, struct gb_err *err)
{
	int r = try_stage(gb_jail_namespaces(err), GB_MEDIA_NAMESPACES, stages);

	if (r == 0 && *stages & GB_MEDIA_NAMESPACES)
		r = try_stage(gb_jail_mounts(NULL, 0, err), GB_MEDIA_MOUNTS, stages);
	return r;
}

int gb_media_jail(int keep, unsigned int *ret_stages, struct gb_err *err)
{
	static const struct gb_jail_calls calls = {allowed_calls,
		GB_ARRAY_SIZE(allowed_calls), masked_calls, GB_ARRAY_SIZE(masked_calls)};
	unsigned int stages = 0;
	int r = set_limits(err);

	if (r < 0)
		return r;
	gb_jail_close_others(&keep, keep >= 0);
	r = enter_namespaces(&stages, err);
	if (r == 0)
		r = gb_jail_privileges(0, err);
	if (r == 0)
		r = try_stage(gb_jail_landlock(NULL, 0, err), GB_MEDIA_LANDLOCK, &stages);
	if (r == 0)
		r = gb_jail_seccomp(&calls, err);
	if (r < 0)
		return gb_wrap(err, r, "cannot lock the picture decoder in");
	*ret_stages = stages | GB_MEDIA_PRIVILEGES | GB_MEDIA_SECCOMP;
	return 0;
}
