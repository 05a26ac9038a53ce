/* Folders, listed.
 *
 * The offsets that the guest gets are the host's own (d_off), which file systems keep stable
 * while a folder changes. Where they do not (older tmpfs), seeking loses entries; so what was
 * read ahead is kept, and a guest that goes on where it stopped, even in the middle of the
 * last answer, costs no seek. */
#include "share/ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READ_AHEAD (32u << 10)

struct gb_dir_buf {
	uint64_t start; /* offset of the first entry in data */
	size_t len;
	size_t at; /* the next entry to give away */
	_Alignas(8) uint8_t data[READ_AHEAD]; /* struct dirent64 … */
};

void gb_dir_buf_free(struct gb_dir_buf *b)
{
	free(b);
}

int gb_op_opendir(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_handle *h;
	int fd = gb_node_fd(&s->nodes, node);
	int r;

	(void)q;
	if (fd < 0)
		return fd;
	fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = gb_handle_add(s, node, fd, true, &h);
	if (r < 0)
		return r;
	GB_SHARE_ANSWER(out, struct fuse_open_out)->fh = h->id;
	return 0;
}

int gb_op_releasedir(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_handle *h = gb_handle_get(s, node, q->arg.release.fh, true);

	(void)out;
	if (!h)
		return -EBADF;
	gb_handle_close(s, h);
	return 0;
}

int gb_op_fsyncdir(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_handle *h = gb_handle_get(s, node, q->arg.fsync.fh, true);

	(void)out;
	if (!h)
		return -EBADF;
	return fsync(h->fd) < 0 ? -errno : 0;
}

static const struct dirent64 *entry_at(const struct gb_dir_buf *b, size_t at)
{
	return (const void *)(b->data + at);
}

/* Make b->at the entry at offset, by looking for it in what is there, else by seeking. */
static int seek_to(struct gb_handle *h, uint64_t offset)
{
	struct gb_dir_buf *b = h->dir;
	uint64_t here = b->start;

	for (b->at = 0; b->at < b->len && here != offset;) {
		const struct dirent64 *e = entry_at(b, b->at);

		b->at += e->d_reclen;
		here = (uint64_t)e->d_off;
	}
	if (here == offset)
		return 0;
	if (offset > INT64_MAX || lseek(h->fd, (off_t)offset, SEEK_SET) < 0)
		return -EINVAL;
	b->start = offset;
	b->at = b->len = 0;
	return 0;
}

/* 1 when there is an entry at b->at, 0 at the end of the folder, or -errno. */
static int fill(struct gb_handle *h, uint64_t offset)
{
	struct gb_dir_buf *b = h->dir;
	ssize_t n;

	if (b->at < b->len)
		return 1;
	n = getdents64(h->fd, b->data, sizeof(b->data));
	if (n < 0)
		return -errno;
	b->start = offset;
	b->at = 0;
	b->len = (size_t)n;
	return n > 0;
}

/* False when it does not fit any more. */
static bool put_entry(const struct gb_share *s, const struct gb_node *node,
	const struct dirent64 *e, size_t room, struct gb_share_out *out)
{
	size_t len = strnlen(e->d_name, GB_FUSE_NAME_MAX);
	struct fuse_dirent d = {
		.ino = gb_share_ino(s, node->dev, e->d_ino),
		.off = (uint64_t)e->d_off,
		.namelen = (uint32_t)len,
		.type = e->d_type,
	};
	size_t whole = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);

	if (room - out->len < whole)
		return false;
	memset(out->data + out->len, 0, whole);
	memcpy(out->data + out->len, &d, FUSE_NAME_OFFSET);
	memcpy(out->data + out->len + FUSE_NAME_OFFSET, e->d_name, len);
	out->len += whole;
	return true;
}

int gb_op_readdir(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out)
{
	struct gb_handle *h = gb_handle_get(s, node, q->arg.read.fh, true);
	uint64_t offset = q->arg.read.offset;
	size_t room = GB_MIN(q->arg.read.size, GB_SHARE_REPLY_MAX);
	int r;

	if (!h)
		return -EBADF;
	if (!h->dir)
		h->dir = calloc(1, sizeof(*h->dir));
	if (!h->dir)
		return -ENOMEM;
	r = seek_to(h, offset);
	while (r == 0 && (r = fill(h, offset)) > 0) {
		const struct dirent64 *e = entry_at(h->dir, h->dir->at);

		if (!put_entry(s, node, e, room, out))
			return out->len ? 0 : -EINVAL;
		h->dir->at += e->d_reclen;
		offset = (uint64_t)e->d_off;
		r = 0;
	}
	return r < 0 && !out->len ? r : 0;
}
