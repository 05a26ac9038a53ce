/* Names: everything that finds, makes, moves or removes one. The folder is a descriptor, the
 * name one component that fusemsg.c has checked, and the last component is never followed. */
#include "share/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int enter(struct gb_share *s, struct gb_node *dir, const char *name,
	struct gb_share_out *out)
{
	return gb_share_enter_name(
		s, dir, name, GB_SHARE_ANSWER(out, struct fuse_entry_out), NULL);
}

int gb_op_lookup(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	return enter(s, dir, q->name[0], out);
}

int gb_op_readlink(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	int fd = gb_node_fd(&s->nodes, node);
	ssize_t n;

	(void)q;
	if (node->type != S_IFLNK)
		return -EINVAL;
	if (fd < 0)
		return fd;
	n = readlinkat(fd, "", (char *)out->data, PATH_MAX);
	if (n < 0)
		return -errno;
	if (n == PATH_MAX)
		return -ENAMETOOLONG;
	out->len = (size_t)n;
	return 0;
}

int gb_op_symlink(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	int fd = gb_node_fd(&s->nodes, dir);

	if (fd < 0)
		return fd;
	if (symlinkat(q->name[1], fd, q->name[0]) < 0)
		return -errno;
	return enter(s, dir, q->name[0], out);
}

/* Devices of the host are nothing that a guest makes; as files they would outlive it. */
int gb_op_mknod(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	mode_t mode = q->arg.mknod.mode;
	int fd = gb_node_fd(&s->nodes, dir);

	if (fd < 0)
		return fd;
	if (!S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode))
		return -EPERM;
	if (mode & (S_ISUID | S_ISGID))
		return -EPERM;
	if (mknodat(fd, q->name[0], mode, 0) < 0)
		return -errno;
	return enter(s, dir, q->name[0], out);
}

int gb_op_mkdir(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	int fd = gb_node_fd(&s->nodes, dir);

	if (fd < 0)
		return fd;
	if (q->arg.mkdir.mode & S_ISUID)
		return -EPERM;
	if (mkdirat(fd, q->name[0], q->arg.mkdir.mode & 07777) < 0)
		return -errno;
	return enter(s, dir, q->name[0], out);
}

/* The node of a name that is about to be taken away, with its descriptor held, if the guest
 * knows it. Between this and the removal the host may put another file there; the removal
 * then takes that one, and the node merely has to be looked up again. */
static struct gb_node *hold_name(struct gb_share *s, int dir_fd, const char *name)
{
	struct gb_node *node;
	struct statx st;

	if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, GB_NODE_STATX, &st) < 0)
		return NULL;
	node = gb_node_find(&s->nodes, &st);
	if (node)
		gb_node_hold(&s->nodes, node);
	return node;
}

static bool is_at(const struct gb_node *node, const struct gb_node *dir, const char *name)
{
	return node->parent == dir && !strcmp(node->name, name);
}

static int remove_name(struct gb_share *s, struct gb_node *dir, const char *name, int flags)
{
	int fd = gb_node_fd(&s->nodes, dir);
	struct gb_node *node;

	if (fd < 0)
		return fd;
	node = hold_name(s, fd, name);
	if (unlinkat(fd, name, flags) < 0)
		return -errno;
	/* under another hard link's name it stays reachable */
	if (node && is_at(node, dir, name))
		gb_node_gone(&s->nodes, node);
	return 0;
}

int gb_op_unlink(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	(void)out;
	return remove_name(s, dir, q->name[0], 0);
}

int gb_op_rmdir(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	(void)out;
	return remove_name(s, dir, q->name[0], AT_REMOVEDIR);
}

static int rename_name(struct gb_share *s, struct gb_node *from, struct gb_node *to,
	const struct gb_fuse_req *q, unsigned int flags)
{
	const char *old_name = q->name[0], *new_name = q->name[1];
	struct gb_node *moved, *target;
	int from_fd, to_fd;

	if (!to)
		return -ESTALE;
	from_fd = gb_node_fd(&s->nodes, from);
	to_fd = from_fd < 0 ? from_fd : gb_node_fd(&s->nodes, to);
	if (to_fd < 0)
		return to_fd;
	moved = hold_name(s, from_fd, old_name);
	target = hold_name(s, to_fd, new_name);
	if (renameat2(from_fd, old_name, to_fd, new_name, flags) < 0)
		return -errno;
	/* two names of one file: rename does nothing, and both names stay */
	if (moved == target)
		return 0;
	/* a place that cannot be noted for want of memory has to be looked up again, no more */
	if (target && (flags & RENAME_EXCHANGE))
		gb_node_moved(&s->nodes, target, from, old_name);
	else if (target && is_at(target, to, new_name))
		gb_node_gone(&s->nodes, target);
	if (moved)
		gb_node_moved(&s->nodes, moved, to, new_name);
	return 0;
}

int gb_op_rename(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	(void)out;
	return rename_name(s, dir, gb_node_get(&s->nodes, q->arg.rename.newdir), q, 0);
}

int gb_op_rename2(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	uint32_t flags = q->arg.rename2.flags;

	(void)out;
	if (flags != 0 && flags != RENAME_NOREPLACE && flags != RENAME_EXCHANGE)
		return -EINVAL;
	return rename_name(s, dir, gb_node_get(&s->nodes, q->arg.rename2.newdir), q, flags);
}

int gb_op_link(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_node *node = gb_node_get(&s->nodes, q->arg.link.oldnodeid);
	struct gb_fd_path path;
	int dir_fd, fd;

	if (!node)
		return -ESTALE;
	if (node->type == S_IFDIR)
		return -EPERM;
	dir_fd = gb_node_fd(&s->nodes, dir);
	fd = dir_fd < 0 ? dir_fd : gb_node_fd(&s->nodes, node);
	if (fd < 0)
		return fd;
	if (linkat(AT_FDCWD, gb_fd_path(&path, fd), dir_fd, q->name[0], AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return enter(s, dir, q->name[0], out);
}
