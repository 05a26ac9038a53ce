/* Extended attributes: those of users. Labels, capabilities and access lists mean something
 * to the host and are not the guest's to read or write. */
#include "share/ops.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#define VALUE_MAX (64u << 10) /* the kernel's XATTR_SIZE_MAX and XATTR_LIST_MAX */

static bool is_ours(const char *name)
{
	return gb_starts_with(name, "user.glovebox.");
}

static bool is_users(const char *name)
{
	return gb_starts_with(name, "user.");
}

static int path_of(struct gb_share *s, struct gb_node *node, struct gb_fd_path *path)
{
	int fd = gb_node_fd(&s->nodes, node);

	if (fd < 0)
		return fd;
	gb_fd_path(path, fd);
	return 0;
}

/* The file whose attribute q names; hidden is what our own attributes answer. */
static int path_for(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	int hidden, struct gb_fd_path *path)
{
	if (!is_users(q->name[0]))
		return -EOPNOTSUPP;
	if (is_ours(q->name[0]))
		return hidden;
	return path_of(s, node, path);
}

int gb_op_setxattr(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_fd_path path;
	int r = path_for(s, node, q, -EPERM, &path);

	(void)out;
	if (r < 0)
		return r;
	if (q->data_len > VALUE_MAX)
		return -E2BIG;
	if (setxattr(path.text, q->name[0], q->data, q->data_len, (int)q->arg.setxattr.flags) < 0)
		return -errno;
	return 0;
}

int gb_op_removexattr(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_fd_path path;
	int r = path_for(s, node, q, -ENODATA, &path);

	(void)out;
	if (r < 0)
		return r;
	return removexattr(path.text, q->name[0]) < 0 ? -errno : 0;
}

/* len bytes are in out->data; the guest asked for at most size, or with 0 for the length. */
static int answer_sized(struct gb_share_out *out, size_t len, uint32_t size)
{
	if (size == 0) {
		GB_SHARE_ANSWER(out, struct fuse_getxattr_out)->size = (uint32_t)len;
		return 0;
	}
	if (len > size)
		return -ERANGE;
	out->len = len;
	return 0;
}

int gb_op_getxattr(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_fd_path path;
	ssize_t n;
	int r = path_for(s, node, q, -ENODATA, &path);

	if (r < 0)
		return r;
	n = getxattr(path.text, q->name[0], out->data, VALUE_MAX);
	if (n < 0)
		return -errno;
	return answer_sized(out, (size_t)n, q->arg.getxattr.size);
}

int gb_op_listxattr(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	char *list = (char *)out->data;
	struct gb_fd_path path;
	size_t kept = 0;
	ssize_t n;
	int r = path_of(s, node, &path);

	if (r < 0)
		return r;
	n = listxattr(path.text, list, VALUE_MAX);
	if (n < 0)
		return -errno;
	for (size_t at = 0, len; at < (size_t)n; at += len) {
		len = strnlen(list + at, (size_t)n - at) + 1;
		if (at + len > (size_t)n)
			break;
		if (!is_users(list + at) || is_ours(list + at))
			continue;
		memmove(list + kept, list + at, len);
		kept += len;
	}
	return answer_sized(out, kept, q->arg.getxattr.size);
}
