/* Files that are made and opened in one step. */
#include "share/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The node of a file that was just made, opened as fd, which is taken over. */
static int adopt(struct gb_share *s, struct gb_node *dir, const char *name, int fd_consume,
	struct gb_share_out *out)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} *ret = gb_share_answer(out, sizeof(*ret));
	struct gb_handle *h;
	struct gb_node *node;
	struct statx st;
	int r;

	if (statx(fd_consume, "", AT_EMPTY_PATH, GB_NODE_STATX, &st) < 0)
		r = -errno;
	else
		r = gb_node_learn(&s->nodes, dir, name, &st, &node);
	if (r < 0) {
		close(fd_consume);
		return r;
	}
	r = gb_handle_add(s, node, fd_consume, false, &h);
	if (r < 0) {
		gb_node_forget(&s->nodes, node, 1);
		return r;
	}
	ret->entry.nodeid = node->id;
	gb_share_fill_attr(s, &st, h->fd, &ret->entry.attr);
	ret->open.fh = h->id;
	ret->open.open_flags = gb_open_flags(node, h->fd);
	return 0;
}

/* The host made a file of this name since the guest last looked: open that one. Its name is
 * not opened but its node, so that a pipe or a device in its place is not touched. */
static int open_existing(struct gb_share *s, struct gb_node *dir, const char *name, int flags)
{
	struct fuse_entry_out entry = { 0 };
	struct gb_node *node;
	int r = gb_share_enter_name(s, dir, name, &entry, &node);
	int fd;

	if (r < 0)
		return r;
	fd = gb_open_node(s, node, flags);
	gb_node_forget(&s->nodes, node, 1); /* adopt() counts it again */
	return fd;
}

/* What every new file passes: the folder's descriptor, or a negative errno. */
static int begin_create(struct gb_share *s, struct gb_node *dir,
	const struct fuse_create_in *in, int *ret_flags)
{
	int r = gb_open_mode(s, in->flags, ret_flags);

	if (r < 0)
		return r;
	if (in->mode & (S_ISUID | S_ISGID))
		return -EPERM;
	return gb_node_fd(&s->nodes, dir);
}

int gb_op_create(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_create_in *in = &q->arg.create;
	int flags, fd;
	int dir_fd = begin_create(s, dir, in, &flags);

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, q->name[0], flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		in->mode & 01777);
	if (fd < 0)
		fd = -errno;
	if (fd == -EEXIST && !(in->flags & O_EXCL))
		fd = open_existing(s, dir, q->name[0], flags);
	if (fd < 0)
		return fd;
	return adopt(s, dir, q->name[0], fd, out);
}

int gb_op_tmpfile(struct gb_share *s, struct gb_node *dir, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_create_in *in = &q->arg.create;
	int flags, fd;
	int dir_fd = begin_create(s, dir, in, &flags);

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, ".",
		(flags & ~O_TRUNC) | O_TMPFILE | ((int)in->flags & O_EXCL) | O_CLOEXEC,
		in->mode & 01777);
	if (fd < 0)
		return -errno;
	return adopt(s, NULL, "", fd, out);
}
