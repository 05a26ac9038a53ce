#include "guest/mnt.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/syscall.h>

static uint64_t attributes(unsigned flags)
{
	return (flags & GB_MNT_RDONLY ? MOUNT_ATTR_RDONLY : 0) |
		(flags & GB_MNT_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
		(flags & GB_MNT_NODEV ? MOUNT_ATTR_NODEV : 0) |
		(flags & GB_MNT_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

static long configure(int fs, unsigned cmd, const char *key, const char *value)
{
	return syscall(SYS_fsconfig, fs, cmd, key, value, 0);
}

static int set_option(int fs, const char *option, struct gb_err *err)
{
	const char *value = strchr(option, '=');
	gb_auto_free char *key = strndup(option, strcspn(option, "="));
	long r;

	if (!key)
		return gb_nomem(err);
	r = value ? configure(fs, FSCONFIG_SET_STRING, key, value + 1)
		  : configure(fs, FSCONFIG_SET_FLAG, key, NULL);
	if (r < 0)
		return gb_fail_sys(err, errno, "mount option '%s'", option);
	return 0;
}

/* The kernel explains a refusal in the context's log, a line a read: "e ext4: ...". */
static int refused(int fs, const char *type, struct gb_err *err)
{
	int cause = errno;
	char line[200];
	ssize_t n = read(fs, line, sizeof(line) - 1);

	if (n <= 2)
		return gb_fail_sys(err, cause, "cannot mount a %s", type);
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	return gb_fail_sys(err, cause, "cannot mount a %s: %s", type, line + 2);
}

int gb_mnt_new(const char *type, const char *source, const char *const *options,
	unsigned flags, int *ret, struct gb_err *err)
{
	gb_auto_fd fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	long mnt;
	int r;

	if (fs < 0)
		return gb_fail_sys(err, errno, "cannot use the file system %s", type);
	if (configure(fs, FSCONFIG_SET_STRING, "source", source) < 0)
		return refused(fs, type, err);
	for (; options && *options; options++) {
		r = set_option(fs, *options, err);
		if (r < 0)
			return gb_wrap(err, r, "cannot mount a %s", type);
	}
	if (configure(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
		return refused(fs, type, err);
	mnt = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes(flags));
	if (mnt < 0)
		return refused(fs, type, err);
	*ret = (int)mnt;
	return 0;
}

int gb_mnt_attach(int mnt, int at, struct gb_err *err)
{
	if (syscall(SYS_move_mount, mnt, "", at, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return gb_fail_sys(err, errno, "cannot attach a mount");
	return 0;
}

int gb_mnt_clone(int dirfd, const char *at, unsigned flags, int *ret, struct gb_err *err)
{
	struct mount_attr attr = { .attr_set = attributes(flags) };
	gb_auto_fd fd = (int)syscall(SYS_open_tree, dirfd, at,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot copy the mount at '%s'", at);
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return gb_fail_sys(err, errno, "cannot restrict the mount at '%s'", at);
	*ret = gb_take_fd(&fd);
	return 0;
}

int gb_mnt_freeze(int at, struct gb_err *err)
{
	gb_auto_fd fs = (int)syscall(
		SYS_fspick, at, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH | FSPICK_NO_AUTOMOUNT);

	if (fs < 0 || configure(fs, FSCONFIG_SET_FLAG, "ro", NULL) < 0 ||
		configure(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL) < 0)
		return gb_fail_sys(err, errno, "cannot make the root read-only");
	return 0;
}
