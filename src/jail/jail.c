#include "jail/jail.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

void gb_jail_close_others(int *keep, size_t count)
{
	int from = 3;

	if (count)
		qsort(keep, count, sizeof(*keep), by_number);
	for (size_t i = 0; i < count; i++) {
		if (keep[i] > from)
			syscall(SYS_close_range, from, keep[i] - 1, 0);
		from = GB_MAX(from, keep[i] + 1);
	}
	syscall(SYS_close_range, from, ~0U, 0);
}

int gb_jail_privileges(uint64_t keep, struct gb_err *err)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return gb_fail_sys(err, errno, "cannot set no_new_privs");
	if (syscall(SYS_capget, &h, d) < 0)
		return gb_fail_sys(err, errno, "cannot read capabilities");
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (unsigned long cap = 0; cap < 64; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		d[i].permitted &= (uint32_t)(keep >> (32 * i));
		d[i].effective = d[i].permitted;
		d[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &h, d) < 0)
		return gb_fail_sys(err, errno, "cannot drop capabilities");
	return 0;
}
