#include "machine/copy_host.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define COPY_DEPTH_MAX 128
#define CHUNK          ((size_t)256 << 10)

struct reader {
	int (*write)(void *ctx, const uint8_t *data, size_t len, const char *path,
		struct gb_err *err);
	void *ctx;
	uint8_t *chunk;
};

static int write_record(struct reader *rd, const struct gb_msg_entry *e, struct gb_err *err)
{
	gb_auto_done(gb_buf) b = { 0 };
	int r;

	gb_tree_add(&b, e);
	r = gb_buf_check(&b, "a copied entry", err);
	return r < 0 ? r : rd->write(rd->ctx, b.data, b.len, e->path ? e->path : "", err);
}

static int kind_of(const struct stat *st)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
		return GB_TREE_FILE;
	case S_IFDIR:
		return GB_TREE_DIR;
	case S_IFLNK:
		return GB_TREE_LINK;
	case S_IFIFO:
		return GB_TREE_FIFO;
	default:
		return -1;
	}
}

/* Exactly size bytes: a file that shrinks meanwhile is filled up with zeros. */
static int write_content(
	struct reader *rd, int fd, uint64_t size, const char *path, struct gb_err *err)
{
	while (size) {
		size_t want = (size_t)GB_MIN(size, (uint64_t)CHUNK);
		size_t got;
		int r = gb_fd_read_full(fd, rd->chunk, want, &got, err);

		if (r < 0)
			return gb_wrap(err, r, "'%s'", path);
		memset(rd->chunk + got, 0, want - got);
		r = rd->write(rd->ctx, rd->chunk, want, path, err);
		if (r < 0)
			return r;
		size -= want;
	}
	return 0;
}

static int read_entry(struct reader *rd, int dirfd, const char *name, const char *path, int depth,
	struct gb_err *err);

static int read_folder(
	struct reader *rd, int fd_consume, const char *path, int depth, struct gb_err *err)
{
	DIR *d = fdopendir(fd_consume);
	struct dirent *e;
	int r = 0;

	if (!d) {
		close(fd_consume);
		return gb_nomem(err);
	}
	while (r == 0 && (e = readdir(d))) {
		gb_auto_free char *below = NULL;

		if (gb_streq(e->d_name, ".") || gb_streq(e->d_name, ".."))
			continue;
		below = *path ? gb_path_join(path, e->d_name) : strdup(e->d_name);
		r = below ? read_entry(rd, fd_consume, e->d_name, below, depth + 1, err)
			  : gb_nomem(err);
	}
	closedir(d);
	return r;
}

static int read_entry(struct reader *rd, int dirfd, const char *name, const char *path, int depth,
	struct gb_err *err)
{
	char link[PATH_MAX] = "";
	struct stat st;
	struct gb_msg_entry e = { .path = (char *)(uintptr_t)path, .link = link };
	gb_auto_fd fd = -1;
	int kind;
	int r;

	if (depth > COPY_DEPTH_MAX)
		return gb_fail(err, GB_E_LIMIT, "folders nest too deeply at '%s'", path);
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return gb_fail_sys(err, errno, "cannot look at '%s'", name);
	kind = kind_of(&st);
	if (kind < 0)
		return 0;
	if (kind == GB_TREE_LINK) {
		ssize_t n = readlinkat(dirfd, name, link, sizeof(link) - 1);

		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read link '%s'", name);
		link[n] = 0;
	} else if (kind != GB_TREE_FIFO) {
		fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			return gb_fail_sys(err, errno, "cannot open '%s'", name);
		if (kind_of(&st) != kind)
			return gb_fail(err, GB_E_STATE, "'%s' changed while it was copied", name);
	}
	e.kind = (uint32_t)kind;
	e.mode = st.st_mode & 07777;
	e.size = kind == GB_TREE_FILE ? (uint64_t)st.st_size : 0;
	e.mtime_s = st.st_mtim.tv_sec;
	e.mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
	r = write_record(rd, &e, err);
	if (r == 0 && kind == GB_TREE_FILE)
		r = write_content(rd, fd, e.size, path, err);
	if (r == 0 && kind == GB_TREE_DIR)
		r = read_folder(rd, gb_take_fd(&fd), path, depth, err);
	return r;
}

int gb_copy_host_check(const char *host, struct gb_err *err)
{
	struct stat st;

	if (lstat(host, &st) < 0)
		return gb_fail_sys(err, errno, "cannot copy '%s'", host);
	if (kind_of(&st) < 0)
		return gb_fail(err, GB_E_INVALID,
			"cannot copy '%s': it is no file, folder, link or fifo", host);
	return 0;
}

int gb_copy_host_read(const char *host,
	int (*write)(void *ctx, const uint8_t *data, size_t len, const char *path,
		struct gb_err *err),
	void *ctx, struct gb_err *err)
{
	gb_auto_free uint8_t *chunk = malloc(CHUNK);
	struct reader rd = { write, ctx, chunk };
	struct gb_msg_entry end = { .kind = GB_TREE_END };
	int r;

	if (!chunk)
		return gb_nomem(err);
	r = read_entry(&rd, AT_FDCWD, host, "", 0, err);
	return r < 0 ? r : write_record(&rd, &end, err);
}
