/* A folder as a stream of entries. It may be changed by others while it is read:
 * everything is opened relative to an open folder and never through a link, and what has
 * changed its kind between being listed and being opened is an error. */
#include "image/tree.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define DIR_DEPTH_MAX 512 /* folders within each other; each is held open */
#define DIR_READ_SIZE ((size_t)256 << 10)

struct dir_level {
	struct gb_strv names; /* sorted */
	size_t at;	      /* the next one */
	size_t path_len;      /* of the folder's path */
	int fd;
};

struct dir_link {
	uint64_t dev;
	uint64_t ino; /* 0: an empty slot */
	char *path;
};

struct dir_source {
	struct gb_tree_source base;
	struct dir_level level[DIR_DEPTH_MAX];
	size_t depth;
	int file; /* the current entry's content, -1 */
	uint64_t file_at;
	uint64_t file_size;
	struct gb_tree_xattrs xattrs; /* of the current entry */
	struct dir_link *links;	      /* open addressing, a power of two */
	size_t link_slots;
	size_t link_count;
	bool started;
	char path[GB_TREE_PATH_MAX + 1]; /* of the current entry */
	char target[GB_TREE_LINK_MAX + 2];
	char xattr_names[GB_TREE_XATTR_BYTES_MAX];
	uint8_t buffer[DIR_READ_SIZE];
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_names(int fd, struct gb_strv *ret, struct gb_err *err)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *e;

	if (!d) {
		int r = gb_fail_sys(err, errno, "cannot list a folder");

		gb_fd_close(&copy);
		return r;
	}
	while ((e = readdir(d)) && ret->n < GB_TREE_ENTRIES_MAX)
		if (!gb_streq(e->d_name, ".") && !gb_streq(e->d_name, ".."))
			gb_strv_add(ret, e->d_name);
	closedir(d);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_name);
	return gb_strv_check(ret, "list of a folder", err);
}

static int push(struct dir_source *s, int fd_consume, size_t path_len, struct gb_err *err)
{
	struct dir_level *l;

	if (s->depth >= DIR_DEPTH_MAX) {
		close(fd_consume);
		return gb_fail(
			err, GB_E_LIMIT, "folders nest deeper than %d", DIR_DEPTH_MAX);
	}
	l = &s->level[s->depth++];
	memset(l, 0, sizeof(*l));
	l->fd = fd_consume;
	l->path_len = path_len;
	return list_names(fd_consume, &l->names, err);
}

static void pop(struct dir_source *s)
{
	struct dir_level *l = &s->level[--s->depth];

	gb_fd_close(&l->fd);
	gb_strv_done(&l->names);
}

/* Links and devices cannot be opened: their attributes are read by name, below /proc. */
static int read_xattrs(struct dir_source *s, const char *path, struct gb_err *err)
{
	ssize_t len = llistxattr(path, s->xattr_names, sizeof(s->xattr_names));
	int r = 0;

	gb_tree_xattrs_done(&s->xattrs);
	if (len < 0 && (errno == ENOTSUP || errno == EPERM || errno == EACCES))
		return 0;
	if (len < 0)
		return gb_fail_sys(err, errno, "cannot list its extended attributes");
	for (char *n = s->xattr_names; r == 0 && n < s->xattr_names + len;
		n += strlen(n) + 1) {
		ssize_t got = lgetxattr(path, n, s->buffer, GB_TREE_XATTR_BYTES_MAX);

		if (got < 0 && (errno == ENODATA || errno == EPERM || errno == EACCES))
			continue;
		if (got < 0)
			return gb_fail_sys(
				err, errno, "cannot read its attribute '%s'", n);
		r = gb_tree_xattrs_add(&s->xattrs, n, s->buffer, (size_t)got, err);
	}
	return r;
}

static size_t link_slot(const struct dir_source *s, uint64_t dev, uint64_t ino)
{
	uint64_t key[2] = {dev, ino};
	size_t i = gb_fnv1a(key, sizeof(key), GB_FNV1A_SEED) & (s->link_slots - 1);

	while (s->links[i].ino && (s->links[i].ino != ino || s->links[i].dev != dev))
		i = (i + 1) & (s->link_slots - 1);
	return i;
}

static int links_grow(struct dir_source *s, struct gb_err *err)
{
	struct dir_link *old = s->links;
	size_t old_slots = s->link_slots;
	size_t slots = old_slots ? old_slots * 2 : 256;
	struct dir_link *new = calloc(slots, sizeof(*new));

	if (!new)
		return gb_nomem(err);
	s->links = new;
	s->link_slots = slots;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].ino)
			new[link_slot(s, old[i].dev, old[i].ino)] = old[i];
	free(old);
	return 0;
}

/* Whether this file was there before under another name; remembers it. */
static int earlier_name(
	struct dir_source *s, const struct stat *st, const char **ret, struct gb_err *err)
{
	struct dir_link *l;

	*ret = NULL;
	if (s->link_count * 2 >= s->link_slots && links_grow(s, err) < 0)
		return GB_E_NOMEM;
	l = &s->links[link_slot(s, st->st_dev, st->st_ino)];
	if (l->ino) {
		*ret = l->path;
		return 0;
	}
	l->path = strdup(s->path);
	if (!l->path)
		return gb_nomem(err);
	l->dev = st->st_dev;
	l->ino = st->st_ino;
	s->link_count++;
	return 0;
}

static enum gb_tree_type type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return GB_TREE_DIR;
	case S_IFLNK:
		return GB_TREE_SYMLINK;
	case S_IFCHR:
		return GB_TREE_CHAR;
	case S_IFBLK:
		return GB_TREE_BLOCK;
	case S_IFIFO:
		return GB_TREE_FIFO;
	default:
		return GB_TREE_FILE;
	}
}

static void fill(struct dir_source *s, const struct stat *st, struct gb_tree_entry *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->path = s->path;
	ret->type = type_of(st->st_mode);
	ret->mode = st->st_mode & 07777;
	ret->uid = st->st_uid;
	ret->gid = st->st_gid;
	ret->mtime_s = st->st_mtim.tv_sec;
	ret->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	ret->size = ret->type == GB_TREE_FILE ? (uint64_t)st->st_size : 0;
	ret->dev_major = major(st->st_rdev);
	ret->dev_minor = minor(st->st_rdev);
	ret->xattrs = s->xattrs;
}

static bool same_thing(int fd, const struct stat *st)
{
	struct stat now;

	return fstat(fd, &now) == 0 && now.st_ino == st->st_ino &&
	       now.st_dev == st->st_dev;
}

/* What depends on the kind of the entry: descend, open, read the link. */
static int enter(struct dir_source *s, int dirfd, const char *name, const struct stat *st,
	struct gb_tree_entry *ret, struct gb_err *err)
{
	ssize_t n;
	int fd;

	if (ret->type == GB_TREE_SYMLINK) {
		n = readlinkat(dirfd, name, s->target, sizeof(s->target) - 1);
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read the link");
		s->target[n] = 0;
		ret->target = s->target;
		return 0;
	}
	if (ret->type != GB_TREE_DIR && ret->type != GB_TREE_FILE)
		return 0;
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open it");
	if (!same_thing(fd, st)) {
		close(fd);
		return gb_fail(err, GB_E_BUSY, "it was replaced while it was read");
	}
	if (ret->type == GB_TREE_DIR)
		return push(s, fd, strlen(s->path), err);
	s->file = fd;
	s->file_at = 0;
	s->file_size = ret->size;
	return 0;
}

static int give(struct dir_source *s, int dirfd, const char *name, const struct stat *st,
	struct gb_tree_entry *ret, struct gb_err *err)
{
	gb_auto_free char *by_proc = NULL;
	const char *earlier = NULL;
	int r;

	if (asprintf(&by_proc, "/proc/self/fd/%d/%s", dirfd, name) < 0)
		return gb_nomem(err);
	r = read_xattrs(s, by_proc, err);
	fill(s, st, ret);
	if (r == 0 && ret->type != GB_TREE_DIR && st->st_nlink > 1)
		r = earlier_name(s, st, &earlier, err);
	if (r == 0 && earlier) {
		ret->type = GB_TREE_HARDLINK;
		ret->target = earlier;
		ret->size = 0;
	} else if (r == 0) {
		r = enter(s, dirfd, name, st, ret, err);
	}
	return r < 0 ? gb_wrap(err, r, "'%.300s'", s->path) : 1;
}

/* 0: nothing to give for this name. */
static int next_name(struct dir_source *s, const char *name, struct gb_tree_entry *ret,
	struct gb_err *err)
{
	struct dir_level *l = &s->level[s->depth - 1];
	struct stat st;

	if (l->path_len + 1 + strlen(name) > GB_TREE_PATH_MAX)
		return gb_fail(err, GB_E_LIMIT, "a path in '%.200s' is over %d bytes",
			s->path, GB_TREE_PATH_MAX);
	snprintf(s->path + l->path_len, sizeof(s->path) - l->path_len, "/%s", name);
	if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : gb_fail_sys(err, errno,
						 "cannot look at '%.300s'", s->path);
	if (S_ISSOCK(st.st_mode))
		return 0;
	return give(s, l->fd, name, &st, ret, err);
}

static int dir_next(
	struct gb_tree_source *base, struct gb_tree_entry *ret, struct gb_err *err)
{
	struct dir_source *s = (struct dir_source *)base;
	int r;

	gb_fd_close(&s->file);
	if (!s->started) {
		struct stat st;

		s->started = true;
		if (fstat(s->level[0].fd, &st) < 0)
			return gb_fail_sys(err, errno, "cannot look at the folder");
		r = read_xattrs(s, s->path, err);
		if (r < 0)
			return r;
		snprintf(s->path, sizeof(s->path), ".");
		fill(s, &st, ret);
		return 1;
	}
	while (s->depth) {
		struct dir_level *l = &s->level[s->depth - 1];

		if (l->at >= l->names.n) {
			pop(s);
			continue;
		}
		r = next_name(s, l->names.v[l->at++], ret, err);
		if (r != 0)
			return r;
	}
	return 0;
}

/* The next piece of data at or after file_at; holes are passed over. */
static int dir_data(struct gb_tree_source *base, const void **ret_data, size_t *ret_len,
	uint64_t *ret_offset, struct gb_err *err)
{
	struct dir_source *s = (struct dir_source *)base;
	off_t at;
	ssize_t n;

	if (s->file < 0 || s->file_at >= s->file_size)
		return 0;
	at = lseek(s->file, (off_t)s->file_at, SEEK_DATA);
	if (at < 0 && errno == ENXIO)
		return 0;
	if (at < 0)
		at = (off_t)s->file_at;
	if ((uint64_t)at >= s->file_size)
		return 0;
	do {
		n = pread(s->file, s->buffer,
			GB_MIN(sizeof(s->buffer), s->file_size - (uint64_t)at), at);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read '%.300s'", s->path);
	if (n == 0)
		return gb_fail(
			err, GB_E_BUSY, "'%.300s' shrank while it was read", s->path);
	*ret_data = s->buffer;
	*ret_len = (size_t)n;
	*ret_offset = (uint64_t)at;
	s->file_at = (uint64_t)at + (uint64_t)n;
	return 1;
}

static void dir_free(struct gb_tree_source *base)
{
	struct dir_source *s = (struct dir_source *)base;

	while (s->depth)
		pop(s);
	gb_fd_close(&s->file);
	gb_tree_xattrs_done(&s->xattrs);
	for (size_t i = 0; i < s->link_slots; i++)
		free(s->links[i].path);
	free(s->links);
	free(s);
}

static const struct gb_tree_ops dir_ops = {dir_next, dir_data, dir_free};

int gb_tree_dir_open(const char *path, struct gb_tree_source **ret, struct gb_err *err)
{
	gb_auto(gb_tree_source) *guard = NULL;
	struct dir_source *s = calloc(1, sizeof(*s));
	int fd;
	int r;

	if (!s)
		return gb_nomem(err);
	s->base.ops = &dir_ops;
	s->file = -1;
	guard = &s->base;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open folder '%s'", path);
	r = push(s, fd, 1, err);
	if (r < 0)
		return gb_wrap(err, r, "'%s'", path);
	/* until the first entry: where the attributes of the folder itself are read */
	snprintf(s->path, sizeof(s->path), "/proc/self/fd/%d/.", fd);
	*ret = gb_take_ptr(guard);
	return 0;
}
