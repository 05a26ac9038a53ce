/* The stages that need namespaces. See jail.h. */
#include "jail/jail.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

static bool may_unshare(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {0};

	return syscall(SYS_capget, &h, d) == 0 && (d[0].effective >> CAP_SYS_ADMIN & 1);
}

static int write_file(const char *path, const char *text, struct gb_err *err)
{
	gb_auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	return gb_fd_write_full(fd, text, strlen(text), err);
}

/* The own user and group mapped to themselves: files keep the owners that they have. */
static int map_self(uid_t uid, gid_t gid, struct gb_err *err)
{
	char text[64];
	int r = write_file("/proc/self/setgroups", "deny", err);

	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%u %u 1", uid, uid);
	r = write_file("/proc/self/uid_map", text, err);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%u %u 1", gid, gid);
	return write_file("/proc/self/gid_map", text, err);
}

int gb_jail_namespaces(struct gb_err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (may_unshare()) {
		if (unshare(NAMESPACES) < 0)
			return gb_fail_sys(err, errno, "cannot unshare");
		return 0;
	}
	/* in a user namespace root would lose its rights over other users' files */
	if (uid == 0)
		return gb_fail(err, GB_E_UNSUPPORTED, "root without CAP_SYS_ADMIN");
	if (unshare(CLONE_NEWUSER | NAMESPACES) < 0)
		return gb_fail_sys(err, errno, "cannot unshare a user namespace");
	return map_self(uid, gid, err);
}

/* A descriptor from before belongs to the old mount namespace, where nothing can be
 * cloned: the folder is found again by its path, and must be the same one. */
static int clone_folder(const struct gb_jail_dir *dir, int *ret, struct gb_err *err)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
			    MOUNT_ATTR_NOSYMFOLLOW |
			    (dir->read_only ? MOUNT_ATTR_RDONLY : 0),
	};
	char link[40], path[PATH_MAX];
	gb_auto_fd tree = -1;
	struct stat a, b;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir->fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read '%s'", link);
	path[n] = 0;
	tree = open_tree(
		AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree < 0)
		return gb_fail_sys(err, errno, "cannot clone the mount of '%s'", path);
	if (fstat(tree, &a) < 0 || fstat(dir->fd, &b) < 0 || a.st_dev != b.st_dev ||
		a.st_ino != b.st_ino)
		return gb_fail(err, GB_E_STATE, "'%s' is another folder now", path);
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) <
		0)
		return gb_fail_sys(err, errno, "cannot restrict the mount of '%s'", path);
	*ret = gb_take_fd(&tree);
	return 0;
}

static int empty_root(struct gb_err *err)
{
	if (mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
		    "size=4k,nr_inodes=1,mode=0555") < 0)
		return gb_fail_sys(err, errno, "cannot mount an empty root");
	/* the old root is stacked on the new one, then taken away from under our feet */
	if (chdir("/tmp") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return gb_fail_sys(err, errno, "cannot change the root");
	return 0;
}

int gb_jail_mounts(struct gb_jail_dir *dirs, size_t count, struct gb_err *err)
{
	gb_auto_fd proc = -1;
	int r;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return gb_fail_sys(err, errno, "cannot make mounts private");
	proc = open_tree(AT_FDCWD, "/proc/self/fd", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (proc < 0)
		return gb_fail_sys(err, errno, "cannot clone /proc/self/fd");
	for (size_t i = 0; i < count; i++) {
		int tree;

		r = clone_folder(&dirs[i], &tree, err);
		if (r < 0)
			return r;
		close(dirs[i].fd);
		dirs[i].fd = tree;
	}
	r = empty_root(err);
	if (r < 0)
		return r;
	if (fchdir(proc) < 0)
		return gb_fail_sys(err, errno, "cannot enter /proc/self/fd");
	return 0;
}
