#include "guest/copy.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "proto/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define OUT_CHUNK (128u << 10)
#define DEPTH_MAX 400 /* folders in each other: a descriptor each */

struct sender {
	int fd;
	struct gb_buf buf; /* owned: not yet written */
	char path[PATH_MAX]; /* of the entry, relative to the tree */
};

static int flush(struct sender *s, struct gb_err *err)
{
	int r = gb_buf_check(&s->buf, "tree", err);

	if (r == 0)
		r = gb_fd_write_full(s->fd, s->buf.data, s->buf.len, err);
	gb_buf_reset(&s->buf);
	return r;
}

static int put_entry(struct sender *s, uint32_t kind, const struct stat *st, const char *link,
	struct gb_err *err)
{
	struct gb_msg_entry e = { .kind = kind, .path = s->path, .link = (char *)(uintptr_t)link };

	if (st) {
		e.mode = st->st_mode & 07777;
		e.mtime_s = st->st_mtim.tv_sec;
		e.mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
		e.size = kind == GB_TREE_FILE ? (uint64_t)st->st_size : 0;
	}
	gb_tree_add(&s->buf, &e);
	return s->buf.len >= OUT_CHUNK || s->buf.error ? flush(s, err) : 0;
}

/* Exactly as many bytes as were announced: a file that grows meanwhile is cut there. */
static int put_content(struct sender *s, int fd, uint64_t left, struct gb_err *err)
{
	while (left) {
		size_t want = (size_t)GB_MIN(left, (uint64_t)OUT_CHUNK);
		uint8_t *to = gb_buf_reserve(&s->buf, want);
		ssize_t n = to ? read(fd, to, want) : 0;

		if (!to)
			return gb_nomem(err);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read '%s'", s->path);
		if (n == 0)
			return gb_fail(err, GB_E_IO, "'%s' became shorter while it was copied",
				s->path);
		s->buf.len += (size_t)n;
		left -= (uint64_t)n;
		if (s->buf.len >= OUT_CHUNK && flush(s, err) < 0)
			return err ? err->code : GB_E_IO;
	}
	return 0;
}

static int put_file(struct sender *s, int dir, const char *name, struct gb_err *err)
{
	gb_auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", name);
	if (!S_ISREG(st.st_mode))
		return 0; /* it was replaced by something else just now */
	r = put_entry(s, GB_TREE_FILE, &st, NULL, err);
	return r < 0 ? r : put_content(s, fd, (uint64_t)st.st_size, err);
}

static int put_link(struct sender *s, int dir, const char *name, const struct stat *st,
	struct gb_err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read link '%s'", name);
	target[n] = 0;
	return put_entry(s, GB_TREE_LINK, st, target, err);
}

static int put_any(struct sender *s, int dir, const char *name, int depth, struct gb_err *err);

static int put_children(struct sender *s, DIR *d, int depth, struct gb_err *err)
{
	size_t used = strlen(s->path);
	struct dirent *e;
	int r = 0;

	while (r == 0 && (errno = 0, e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (gb_streq(e->d_name, ".") || gb_streq(e->d_name, ".."))
			continue;
		if (used + len + 2 > sizeof(s->path))
			return gb_fail(err, GB_E_LIMIT, "path below '%s' is too long", s->path);
		if (used)
			s->path[used] = '/';
		memcpy(s->path + used + (used ? 1 : 0), e->d_name, len + 1);
		r = put_any(s, dirfd(d), e->d_name, depth + 1, err);
		s->path[used] = 0;
	}
	if (r == 0 && errno)
		return gb_fail_sys(err, errno, "cannot read folder '%s'", s->path);
	return r;
}

/* What is not files but the kernel's view of itself: sent as the empty folder that it is mounted
 * on, unless it was asked for itself. */
static bool is_kernel_view(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 &&
		(st.f_type == PROC_SUPER_MAGIC || st.f_type == SYSFS_MAGIC ||
			st.f_type == DEVPTS_SUPER_MAGIC);
}

static int put_folder(struct sender *s, int dir, const char *name, int depth, struct gb_err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	DIR *d;
	int r;

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open folder '%s'", name);
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return gb_nomem(err);
	}
	if (depth > DEPTH_MAX)
		r = gb_fail(err, GB_E_LIMIT, "folders nest too deeply at '%s'", s->path);
	else if (fstat(fd, &st) < 0)
		r = gb_fail_sys(err, errno, "cannot read folder '%s'", name);
	else
		r = put_entry(s, GB_TREE_DIR, &st, NULL, err);
	if (r == 0 && (depth == 0 || !is_kernel_view(fd)))
		r = put_children(s, d, depth, err);
	closedir(d);
	return r;
}

static int put_any(struct sender *s, int dir, const char *name, int depth, struct gb_err *err)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		/* what vanished while the folder was read is not there */
		if (errno == ENOENT && depth > 0)
			return 0;
		return gb_fail_sys(err, errno, "cannot find '%s'", name);
	}
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return put_file(s, dir, name, err);
	case S_IFDIR:
		return put_folder(s, dir, name, depth, err);
	case S_IFLNK:
		return put_link(s, dir, name, &st, err);
	case S_IFIFO:
		return put_entry(s, GB_TREE_FIFO, &st, NULL, err);
	default:
		if (depth == 0)
			return gb_fail(err, GB_E_INVALID, "'%s' is a socket or a device", name);
		return 0;
	}
}

static int open_parent(const struct gb_copy *c, char **ret_name, int *ret, struct gb_err *err)
{
	gb_auto_free char *folder = strdup(c->path);
	char *slash;
	int r;

	if (!folder)
		return gb_nomem(err);
	for (size_t len = strlen(folder); len > 1 && folder[len - 1] == '/'; len--)
		folder[len - 1] = 0;
	slash = strrchr(folder, '/');
	if (!slash)
		return gb_fail(err, GB_E_INVALID, "'%s' is not an absolute path", c->path);
	*slash = 0;
	/* "/", ".", "..": the folder itself, not a name in another one */
	if (!slash[1] || gb_streq(slash + 1, ".") || gb_streq(slash + 1, "..") ||
		(c->flags & GB_COPY_INTO_DIR)) {
		*ret_name = strdup(".");
		r = gb_open_in_root(c->root, c->path, O_PATH | O_DIRECTORY, 0, ret, err);
	} else {
		*ret_name = strdup(slash + 1);
		r = gb_open_in_root(c->root, *folder ? folder : "/", O_PATH | O_DIRECTORY, 0, ret,
			err);
	}
	return r == 0 && !*ret_name ? gb_nomem(err) : r;
}

int gb_copy_out(const struct gb_copy *c, int fd, struct gb_err *err)
{
	gb_auto_free struct sender *s = calloc(1, sizeof(*s));
	gb_auto_free char *name = NULL;
	gb_auto_fd parent = -1;
	int r;

	if (!s)
		return gb_nomem(err);
	s->fd = fd;
	gb_buf_init(&s->buf, (size_t)2 * OUT_CHUNK + GB_TREE_RECORD_MAX);
	r = open_parent(c, &name, &parent, err);
	if (r == 0)
		r = put_any(s, parent, name, 0, err);
	if (r == 0)
		r = put_entry(s, GB_TREE_END, NULL, NULL, err);
	if (r == 0)
		r = flush(s, err);
	gb_buf_done(&s->buf);
	return r;
}
