/* The stages that filter: Landlock (which files) and seccomp (which system calls). */
#include "share/sandbox.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Newer than the oldest headers that this is built with. */
#define FS_TRUNCATE  (UINT64_C(1) << 14) /* ABI 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15) /* ABI 5 */
#define NET_ALL      UINT64_C(3)         /* ABI 4: bind and connect */
#define SCOPE_ALL    UINT64_C(3)         /* ABI 6: abstract sockets and signals */

/* Before ABI 2 no file could move from one folder to another. */
#define LANDLOCK_ABI_LEAST 2

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

static uint64_t all_rights(int abi)
{
	uint64_t rights = (LANDLOCK_ACCESS_FS_REFER << 1) - 1;

	if (abi >= 3)
		rights |= FS_TRUNCATE;
	if (abi >= 5)
		rights |= FS_IOCTL_DEV;
	return rights;
}

static uint64_t folder_rights(bool read_only, uint64_t all)
{
	uint64_t read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;

	if (read_only)
		return read;
	return all & ~(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
			     LANDLOCK_ACCESS_FS_MAKE_BLOCK | FS_IOCTL_DEV);
}

int gb_sandbox_landlock(const struct gb_sandbox_dir *dirs, size_t count, struct gb_err *err)
{
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0,
		LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr = { .net = NET_ALL, .scoped = SCOPE_ALL };
	size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
	gb_auto_fd ruleset = -1;

	if (abi < LANDLOCK_ABI_LEAST)
		return gb_fail(err, GB_E_UNSUPPORTED, "the kernel has none that is new enough");
	attr.fs = all_rights(abi);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return gb_fail_sys(err, errno, "cannot make a ruleset");
	for (size_t i = 0; i < count; i++) {
		struct landlock_path_beneath_attr rule = {
			.allowed_access = folder_rights(dirs[i].read_only, attr.fs),
			.parent_fd = dirs[i].fd,
		};

		if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule,
			    0) < 0)
			return gb_fail_sys(err, errno, "cannot allow a folder");
	}
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return gb_fail_sys(err, errno, "cannot restrict this process");
	return 0;
}

static const int allowed_calls[] = {
	/* the port, the control socket, the log */
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(poll), SCMP_SYS(ppoll),
	SCMP_SYS(close),
	/* files below a descriptor */
	SCMP_SYS(pread64), SCMP_SYS(pwrite64), SCMP_SYS(pwritev2), SCMP_SYS(lseek),
	SCMP_SYS(statx), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(fstatfs),
	SCMP_SYS(getdents64), SCMP_SYS(readlinkat), SCMP_SYS(symlinkat), SCMP_SYS(linkat),
	SCMP_SYS(unlinkat), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(truncate), SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate), SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(copy_file_range),
	SCMP_SYS(utimensat), SCMP_SYS(getxattr), SCMP_SYS(setxattr),
	SCMP_SYS(listxattr), SCMP_SYS(removexattr),
	/* memory, time, the end */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
	SCMP_SYS(clock_gettime), SCMP_SYS(getrandom), SCMP_SYS(getpid), SCMP_SYS(gettid),
	SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(restart_syscall),
	SCMP_SYS(exit), SCMP_SYS(exit_group),
#ifdef __SANITIZE_ADDRESS__ /* a build for tests */
	SCMP_SYS(sigaltstack), SCMP_SYS(sched_yield), SCMP_SYS(rt_sigaction), SCMP_SYS(readlink),
#endif
};

/* Calls that are allowed only where (argument & mask) == value. */
struct masked_call {
	int call;
	unsigned int arg;
	scmp_datum_t mask, value;
};

static const struct masked_call masked_calls[] = {
	/* memory is never executable */
	{ SCMP_SYS(mmap), 2, PROT_EXEC, 0 },
	{ SCMP_SYS(mprotect), 2, PROT_EXEC, 0 },
	/* nothing is ever setuid; setgid is for folders, which share.c sees to */
	{ SCMP_SYS(openat), 3, S_ISUID, 0 },
	{ SCMP_SYS(mkdirat), 2, S_ISUID, 0 },
	{ SCMP_SYS(fchmodat), 2, S_ISUID, 0 },
	{ SCMP_SYS(mknodat), 2, S_IFMT | S_ISUID, S_IFREG },
	{ SCMP_SYS(mknodat), 2, S_IFMT | S_ISUID, S_IFIFO },
	{ SCMP_SYS(mknodat), 2, S_IFMT | S_ISUID, S_IFSOCK },
	{ SCMP_SYS(fcntl), 1, ~UINT64_C(0), F_GETFL },
	{ SCMP_SYS(fcntl), 1, ~UINT64_C(0), F_SETFL },
	{ SCMP_SYS(fcntl), 1, ~UINT64_C(0), F_DUPFD_CLOEXEC },
};

static int add_calls(scmp_filter_ctx ctx)
{
	int r = 0;

	for (size_t i = 0; i < GB_ARRAY_SIZE(allowed_calls) && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed_calls[i], 0);
	for (size_t i = 0; i < GB_ARRAY_SIZE(masked_calls) && r == 0; i++) {
		const struct masked_call *m = &masked_calls[i];

		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, m->call, 1,
			SCMP_CMP(m->arg, SCMP_CMP_MASKED_EQ, m->mask, m->value));
	}
	return r;
}

int gb_sandbox_seccomp(struct gb_err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!ctx)
		return gb_nomem(err);
	r = add_calls(ctx);
	if (r == 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	if (r < 0)
		return gb_fail_sys(err, -r, "cannot install the seccomp filter");
	return 0;
}
