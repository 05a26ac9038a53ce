/* Attributes: what the guest sees of a file, and what it changes there. */
#include "share/ops.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OWNER_TEXT_MAX 32 /* "4294967295:4294967295" and its NUL */

struct owner {
	uint32_t uid, gid;
};

static bool parse_owner(const char *text, struct owner *ret)
{
	char buf[OWNER_TEXT_MAX];
	char *colon;
	uint64_t uid, gid;

	memcpy(buf, text, sizeof(buf));
	colon = strchr(buf, ':');
	if (!colon)
		return false;
	*colon = 0;
	if (gb_parse_u64(buf, UINT32_MAX - 1, &uid, NULL) < 0 ||
		gb_parse_u64(colon + 1, UINT32_MAX - 1, &gid, NULL) < 0)
		return false;
	ret->uid = (uint32_t)uid;
	ret->gid = (uint32_t)gid;
	return true;
}

/* Only regular files and folders can carry it. */
static bool can_own(uint16_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode);
}

static struct owner owner_of(
	const struct gb_share *s, const struct statx *st, const char *path)
{
	struct owner o = { s->config.uid, s->config.gid };
	char text[OWNER_TEXT_MAX] = "";
	ssize_t n;

	if (!can_own(st->stx_mode))
		return o;
	n = getxattr(path, GB_OWNER_XATTR, text, sizeof(text) - 1);
	if (n > 0)
		parse_owner(text, &o);
	return o;
}

/* Numbers of files below the share may come from several file systems of the host. The
 * guest sees one device, so those of the others are moved out of the way. */
uint64_t gb_share_ino(const struct gb_share *s, uint64_t dev, uint64_t ino)
{
	if (dev == s->nodes.root->dev)
		return ino;
	return ino ^ (dev * UINT64_C(0x9e3779b97f4a7c15) | UINT64_C(1) << 63);
}

static void set_time(const struct statx_timestamp *t, uint64_t *sec, uint32_t *nsec)
{
	*sec = (uint64_t)t->tv_sec;
	*nsec = t->tv_nsec;
}

void gb_share_fill_attr(const struct gb_share *s, const struct statx *st, int fd,
	struct fuse_attr *ret)
{
	uint64_t dev = (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
	struct gb_fd_path path;
	struct owner o = owner_of(s, st, gb_fd_path(&path, fd));

	ret->ino = gb_share_ino(s, dev, st->stx_ino);
	ret->size = st->stx_size;
	ret->blocks = st->stx_blocks;
	set_time(&st->stx_atime, &ret->atime, &ret->atimensec);
	set_time(&st->stx_mtime, &ret->mtime, &ret->mtimensec);
	set_time(&st->stx_ctime, &ret->ctime, &ret->ctimensec);
	ret->mode = st->stx_mode;
	ret->nlink = st->stx_nlink;
	ret->uid = o.uid;
	ret->gid = o.gid;
	/* as the kernel packs a device number for FUSE: major 12 bits, minor 20 bits */
	ret->rdev = (st->stx_rdev_minor & 0xff) | st->stx_rdev_major << 8 |
		(st->stx_rdev_minor & ~0xffu) << 12;
	ret->blksize = st->stx_blksize;
}

int gb_share_enter_name(struct gb_share *s, struct gb_node *dir, const char *name,
	struct fuse_entry_out *ret, struct gb_node **ret_node)
{
	struct gb_node *node;
	struct statx st;
	gb_auto_fd fd = -1;
	int dir_fd = gb_node_fd(&s->nodes, dir);
	int r;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, GB_NODE_STATX, &st) < 0)
		return -errno;
	r = gb_node_learn(&s->nodes, dir, name, &st, &node);
	if (r < 0)
		return r;
	ret->nodeid = node->id;
	gb_share_fill_attr(s, &st, fd, &ret->attr);
	gb_node_keep_fd(&s->nodes, node, gb_take_fd(&fd));
	if (ret_node)
		*ret_node = node;
	return 0;
}

static int stat_node(struct gb_share *s, struct gb_node *node, struct fuse_attr *ret)
{
	int fd = gb_node_fd(&s->nodes, node);
	struct statx st;

	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH, GB_NODE_STATX, &st) < 0)
		return -errno;
	gb_share_fill_attr(s, &st, fd, ret);
	return 0;
}

int gb_op_getattr(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	(void)q;
	return stat_node(s, node, &GB_SHARE_ANSWER(out, struct fuse_attr_out)->attr);
}

/* The guest's idea of the owner, remembered where it survives; or EPERM, so that a change
 * never seems to work and is lost. */
static int set_owner(struct gb_share *s, const struct statx *st, const char *path,
	const struct fuse_setattr_in *in)
{
	struct owner now = owner_of(s, st, path);
	struct owner o = now;
	char text[OWNER_TEXT_MAX];
	int r;

	if (in->valid & FATTR_UID)
		o.uid = in->uid;
	if (in->valid & FATTR_GID)
		o.gid = in->gid;
	if (o.uid == now.uid && o.gid == now.gid)
		return 0;
	if (!can_own(st->stx_mode) || o.uid == UINT32_MAX || o.gid == UINT32_MAX)
		return -EPERM;
	if (o.uid == s->config.uid && o.gid == s->config.gid) {
		r = removexattr(path, GB_OWNER_XATTR);
	} else {
		int n = snprintf(text, sizeof(text), "%u:%u", o.uid, o.gid);

		r = setxattr(path, GB_OWNER_XATTR, text, (size_t)n, 0);
	}
	if (r < 0)
		return errno == ENOSPC || errno == EDQUOT || errno == EROFS ? -errno : -EPERM;
	if (S_ISREG(st->stx_mode) && (st->stx_mode & (S_ISUID | S_ISGID)))
		return fchmodat(AT_FDCWD, path, st->stx_mode & 01777, 0) < 0 ? -errno : 0;
	return 0;
}

/* A guest must not be able to leave a program on the host that runs as somebody else. */
static int set_mode(const struct statx *st, const char *path, uint32_t mode)
{
	uint32_t refused = S_ISDIR(st->stx_mode) ? S_ISUID : S_ISUID | S_ISGID;

	if (S_ISLNK(st->stx_mode))
		return -EOPNOTSUPP;
	if (mode & refused)
		return -EPERM;
	return fchmodat(AT_FDCWD, path, mode & 07777, 0) < 0 ? -errno : 0;
}

static int set_size(const struct gb_handle *h, const struct statx *st, const char *path,
	uint64_t size)
{
	if (!S_ISREG(st->stx_mode))
		return S_ISDIR(st->stx_mode) ? -EISDIR : -EINVAL;
	if (size > INT64_MAX)
		return -EINVAL;
	if ((h ? ftruncate(h->fd, (off_t)size) : truncate(path, (off_t)size)) < 0)
		return -errno;
	return 0;
}

static struct timespec time_of(uint32_t valid, uint32_t set, uint32_t set_now, uint64_t sec,
	uint32_t nsec)
{
	if (!(valid & set))
		return (struct timespec){ 0, UTIME_OMIT };
	if (valid & set_now)
		return (struct timespec){ 0, UTIME_NOW };
	return (struct timespec){ (time_t)sec, (long)nsec };
}

static int set_times(int fd, const struct fuse_setattr_in *in)
{
	struct timespec ts[2] = {
		time_of(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
		time_of(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec),
	};

	return utimensat(fd, "", ts, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int change(struct gb_share *s, struct gb_handle *h, int fd,
	const struct fuse_setattr_in *in)
{
	struct gb_fd_path path;
	struct statx st;
	int r = 0;

	gb_fd_path(&path, fd);
	if (statx(fd, "", AT_EMPTY_PATH, GB_NODE_STATX, &st) < 0)
		return -errno;
	if (in->valid & (FATTR_UID | FATTR_GID))
		r = set_owner(s, &st, path.text, in);
	if (r == 0 && (in->valid & FATTR_MODE))
		r = set_mode(&st, path.text, in->mode);
	if (r == 0 && (in->valid & FATTR_SIZE))
		r = set_size(h, &st, path.text, in->size);
	if (r == 0 && (in->valid & (FATTR_ATIME | FATTR_MTIME)))
		r = set_times(fd, in);
	return r;
}

int gb_op_setattr(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_setattr_in *in = &q->arg.setattr;
	struct gb_handle *h = NULL;
	int fd, r;

	if (in->valid & FATTR_FH)
		h = gb_handle_get(s, node, in->fh, false);
	fd = h ? h->fd : gb_node_fd(&s->nodes, node);
	if (fd < 0)
		return fd;
	r = change(s, h, fd, in);
	if (r < 0)
		return r;
	return stat_node(s, node, &GB_SHARE_ANSWER(out, struct fuse_attr_out)->attr);
}

int gb_op_statfs(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct fuse_kstatfs *ret = &GB_SHARE_ANSWER(out, struct fuse_statfs_out)->st;
	struct statfs st;

	(void)node;
	(void)q;
	if (fstatfs(s->root_fd, &st) < 0)
		return -errno;
	ret->blocks = st.f_blocks;
	ret->bfree = st.f_bfree;
	ret->bavail = st.f_bavail;
	ret->files = st.f_files;
	ret->ffree = st.f_ffree;
	ret->bsize = (uint32_t)st.f_bsize;
	ret->frsize = (uint32_t)st.f_frsize;
	ret->namelen = GB_FUSE_NAME_MAX;
	return 0;
}
