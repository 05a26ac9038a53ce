/* The system calls that answering FUSE needs. See sandbox.h. */
#include "share/sandbox.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

static const struct gb_jail_masked masked_calls[] = {
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

int gb_sandbox_seccomp(struct gb_err *err)
{
	static const struct gb_jail_calls calls = { allowed_calls,
		GB_ARRAY_SIZE(allowed_calls), masked_calls, GB_ARRAY_SIZE(masked_calls) };

	return gb_jail_seccomp(&calls, err);
}
