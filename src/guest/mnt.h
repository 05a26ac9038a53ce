/* Mounting by file descriptor (the new mount API). A mount made here is attached nowhere
 * until gb_mnt_attach: the agent keeps its own proc, sysfs, devtmpfs and cgroup2 that way,
 * so that no path of any mount namespace leads to them. */
#ifndef GB_GUEST_MNT_H
#define GB_GUEST_MNT_H

#include "base/err.h"
#include "base/mem.h"

enum gb_mnt_flag {
	GB_MNT_RDONLY = 1 << 0,
	GB_MNT_NOSUID = 1 << 1,
	GB_MNT_NODEV = 1 << 2,
	GB_MNT_NOEXEC = 1 << 3,
};

/* A new, unattached mount of a file system. options is NULL or a NULL-terminated list of
 * "key=value" and "flag". *ret is a descriptor of its root (O_PATH, CLOEXEC). */
int gb_mnt_new(const char *type, const char *source, const char *const *options,
	unsigned flags, int *ret, struct gb_err *err);
/* Attach it at the folder (or, for a file's mount, the file) that at refers to. */
int gb_mnt_attach(int mnt, int at, struct gb_err *err);
/* An unattached copy of the mount that at (relative to dirfd) lies on, rooted there. */
int gb_mnt_clone(int dirfd, const char *at, unsigned flags, int *ret, struct gb_err *err);
/* Make the whole file system below at read-only, as "mount -o remount,ro" does. */
int gb_mnt_freeze(int at, struct gb_err *err);

#endif
