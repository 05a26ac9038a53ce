/* The stages that filter: Landlock (which files) and seccomp (which system calls). */
#include "jail/jail.h"

#include "base/fd.h"

#include <errno.h>
#include <linux/landlock.h>
#include <seccomp.h>
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

int gb_jail_landlock(const struct gb_jail_dir *dirs, size_t count, struct gb_err *err)
{
	int abi = (int)syscall(
		SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr = {.net = NET_ALL, .scoped = SCOPE_ALL};
	size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
	gb_auto_fd ruleset = -1;

	if (abi < LANDLOCK_ABI_LEAST)
		return gb_fail(
			err, GB_E_UNSUPPORTED, "the kernel has none that is new enough");
	attr.fs = all_rights(abi);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return gb_fail_sys(err, errno, "cannot make a ruleset");
	for (size_t i = 0; i < count; i++) {
		struct landlock_path_beneath_attr rule = {
			.allowed_access = folder_rights(dirs[i].read_only, attr.fs),
			.parent_fd = dirs[i].fd,
		};

		if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH,
			    &rule, 0) < 0)
			return gb_fail_sys(err, errno, "cannot allow a folder");
	}
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return gb_fail_sys(err, errno, "cannot restrict this process");
	return 0;
}

static int add_calls(scmp_filter_ctx ctx, const struct gb_jail_calls *calls)
{
	int r = 0;

	for (size_t i = 0; i < calls->allowed_count && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls->allowed[i], 0);
	for (size_t i = 0; i < calls->masked_count && r == 0; i++) {
		const struct gb_jail_masked *m = &calls->masked[i];

		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, m->call, 1,
			SCMP_CMP(m->arg, SCMP_CMP_MASKED_EQ, m->mask, m->value));
	}
	return r;
}

int gb_jail_seccomp(const struct gb_jail_calls *calls, struct gb_err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!ctx)
		return gb_nomem(err);
	r = add_calls(ctx, calls);
	if (r == 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	if (r < 0)
		return gb_fail_sys(err, -r, "cannot install the seccomp filter");
	return 0;
}
