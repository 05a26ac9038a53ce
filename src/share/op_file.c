/* Open files. A guest's handle is a descriptor of the host, opened in the mode that it asked
 * for; all I/O names its offset. */
#include "share/ops.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* A copy is cut here, so that the other requests of the guest are not held up for long. */
#define COPY_MAX (16u << 20)
/* How far the clocks behind a file's times and ours may be apart; they tick in coarse steps. */
#define CTIME_MARGIN_NS (2 * GB_NS_SEC)

int gb_handle_add(struct gb_share *s, struct gb_node *node, int fd_consume, bool is_dir,
	struct gb_handle **ret)
{
	struct gb_share_budget *budget = s->config.budget;
	gb_auto_free struct gb_handle *h = NULL;

	if (budget->handles < budget->handles_max)
		h = calloc(1, sizeof(*h));
	if (h)
		h->id = gb_slots_add(&s->handles, h);
	if (!h || !h->id) {
		close(fd_consume);
		return -ENFILE;
	}
	h->fd = fd_consume;
	h->is_dir = is_dir;
	gb_node_add_handle(node, h);
	budget->handles++;
	*ret = gb_take_ptr(h);
	return 0;
}

struct gb_handle *gb_handle_get(
	const struct gb_share *s, const struct gb_node *node, uint64_t fh, bool is_dir)
{
	struct gb_handle *h = gb_slots_get(&s->handles, fh);

	return h && h->node == node && h->is_dir == is_dir ? h : NULL;
}

void gb_handle_close(struct gb_share *s, struct gb_handle *h)
{
	gb_slots_del(&s->handles, h->id);
	gb_node_del_handle(&s->nodes, h);
	gb_dir_buf_free(h->dir);
	close(h->fd);
	free(h);
	s->config.budget->handles--;
}

/* The guest's kernel drops what it has cached of a file when the file is opened, unless told
 * that nothing changed since. Size and time alone could miss a second change within one tick
 * of the clock, so the last change must be older than the start of the caching by more. */
uint32_t gb_open_flags(struct gb_node *node, int fd)
{
	struct stat st;
	uint64_t ctime_ns;

	if (fstat(fd, &st) < 0)
		return 0;
	ctime_ns = (uint64_t)st.st_ctim.tv_sec * GB_NS_SEC + (uint64_t)st.st_ctim.tv_nsec;
	if (node->cached_since_ns && node->cached_ctime_ns == ctime_ns &&
		node->cached_since_ns > ctime_ns + CTIME_MARGIN_NS)
		return FOPEN_KEEP_CACHE;
	node->cached_ctime_ns = ctime_ns;
	node->cached_since_ns = gb_realtime_ns();
	return 0;
}

/* O_APPEND is left out: a shared mapping of such a file writes its pages back to their place
 * (FUSE_WRITE_CACHE), which a descriptor in append mode would not do. See gb_op_write. */
int gb_open_mode(const struct gb_share *s, uint32_t flags, int *ret)
{
	int mode = (int)flags & O_ACCMODE;

	if (mode == O_ACCMODE)
		return -EINVAL;
	if (s->config.read_only && (mode != O_RDONLY || (flags & O_TRUNC)))
		return -EROFS;
	*ret = mode | ((int)flags & (O_TRUNC | O_SYNC | O_DSYNC));
	return 0;
}

int gb_open_node(struct gb_share *s, struct gb_node *node, int flags)
{
	struct gb_fd_path path;
	int fd;

	/* pipes and devices are opened in the guest's kernel, never here */
	if (node->type != S_IFREG)
		return node->type == S_IFLNK ? -ELOOP : -EINVAL;
	fd = gb_node_fd(&s->nodes, node);
	if (fd < 0)
		return fd;
	fd = open(gb_fd_path(&path, fd), flags | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int gb_op_open(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct fuse_open_out *ret;
	struct gb_handle *h;
	int flags, fd;
	int r = gb_open_mode(s, q->arg.open.flags, &flags);

	if (r < 0)
		return r;
	fd = gb_open_node(s, node, flags);
	if (fd < 0)
		return fd;
	r = gb_handle_add(s, node, fd, false, &h);
	if (r < 0)
		return r;
	ret = GB_SHARE_ANSWER(out, struct fuse_open_out);
	ret->fh = h->id;
	ret->open_flags = gb_open_flags(node, h->fd);
	return 0;
}

int gb_op_release(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_handle *h = gb_handle_get(s, node, q->arg.release.fh, false);

	(void)out;
	if (!h)
		return -EBADF;
	gb_handle_close(s, h);
	return 0;
}

int gb_op_read(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_read_in *in = &q->arg.read;
	struct gb_handle *h = gb_handle_get(s, node, in->fh, false);

	if (!h)
		return -EBADF;
	/* a shorter answer would mean the end of the file */
	if (in->size > GB_FUSE_IO_MAX || in->offset > INT64_MAX - GB_FUSE_IO_MAX)
		return -EINVAL;
	while (out->len < in->size) {
		ssize_t n = pread(h->fd, out->data + out->len, in->size - out->len,
			(off_t)(in->offset + out->len));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		out->len += (size_t)n;
	}
	return 0;
}

int gb_op_write(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_write_in *in = &q->arg.write;
	struct gb_handle *h = gb_handle_get(s, node, in->fh, false);
	bool append = (in->flags & O_APPEND) && !(in->write_flags & FUSE_WRITE_CACHE);
	size_t done = 0;

	if (!h)
		return -EBADF;
	if (in->offset > INT64_MAX - GB_FUSE_IO_MAX)
		return -EINVAL;
	while (done < q->data_len) {
		struct iovec iov = { (void *)(q->data + done), q->data_len - done };
		ssize_t n = pwritev2(h->fd, &iov, 1, (off_t)(in->offset + done),
			append ? RWF_APPEND : 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 && !done)
			return n < 0 ? -errno : -EIO;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	GB_SHARE_ANSWER(out, struct fuse_write_out)->size = (uint32_t)done;
	return 0;
}

int gb_op_fsync(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_handle *h = gb_handle_get(s, node, q->arg.fsync.fh, false);
	bool data_only = q->arg.fsync.fsync_flags & FUSE_FSYNC_FDATASYNC;

	(void)out;
	if (!h)
		return -EBADF;
	return (data_only ? fdatasync(h->fd) : fsync(h->fd)) < 0 ? -errno : 0;
}

int gb_op_fallocate(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_fallocate_in *in = &q->arg.fallocate;
	struct gb_handle *h = gb_handle_get(s, node, in->fh, false);

	(void)out;
	if (!h)
		return -EBADF;
	if (in->offset > INT64_MAX || in->length > INT64_MAX - in->offset)
		return -EFBIG;
	if (in->mode & ~(uint32_t)(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE |
			FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if (fallocate(h->fd, (int)in->mode, (off_t)in->offset, (off_t)in->length) < 0)
		return -errno;
	return 0;
}

int gb_op_lseek(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_lseek_in *in = &q->arg.lseek;
	struct gb_handle *h = gb_handle_get(s, node, in->fh, false);
	off_t at;

	if (!h)
		return -EBADF;
	if ((in->whence != SEEK_DATA && in->whence != SEEK_HOLE) || in->offset > INT64_MAX)
		return -EINVAL;
	at = lseek(h->fd, (off_t)in->offset, (int)in->whence);
	if (at < 0)
		return -errno;
	GB_SHARE_ANSWER(out, struct fuse_lseek_out)->offset = (uint64_t)at;
	return 0;
}

int gb_op_copy(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	const struct fuse_copy_file_range_in *in = &q->arg.copy;
	struct gb_node *to_node = gb_node_get(&s->nodes, in->nodeid_out);
	struct gb_handle *from = gb_handle_get(s, node, in->fh_in, false);
	struct gb_handle *to = to_node ? gb_handle_get(s, to_node, in->fh_out, false) : NULL;
	off_t from_at = (off_t)in->off_in, to_at = (off_t)in->off_out;
	ssize_t n;

	if (!from || !to)
		return -EBADF;
	if (in->off_in > INT64_MAX - COPY_MAX || in->off_out > INT64_MAX - COPY_MAX)
		return -EFBIG;
	n = copy_file_range(
		from->fd, &from_at, to->fd, &to_at, GB_MIN(in->len, (uint64_t)COPY_MAX), 0);
	if (n < 0)
		return -errno;
	GB_SHARE_ANSWER(out, struct fuse_write_out)->size = (uint32_t)n;
	return 0;
}
