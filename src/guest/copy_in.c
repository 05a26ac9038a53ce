#include "guest/copy.h"
#include "base/fd.h"
#include "base/path.h"
#include "proto/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IN_CHUNK    (128u << 10)
#define FOLDERS_MAX 1000000u /* of one copy: their times are set at its end */
#define MODE_BITS   07777u

/* A folder that was written: what it shall be when all is in it. */
struct folder {
	char *path; /* owned */
	unsigned mode;
	struct timespec mtime;
};

struct writer {
	const struct gb_copy *c;
	int parent;       /* owned: the folder that path lies in */
	const char *name; /* borrowed: the last part of path, or the copy's name in it */
	bool inside;      /* the copy goes into the folder at path */
	int base;         /* owned: the root folder of the tree; -1 while there is none */
	struct folder *folders; /* owned */
	size_t folder_count, folder_cap;
	int dir;        /* owned: where the file being written is */
	int file;       /* owned */
	char temp[64];  /* its name until it is whole; "": none */
	const char *to; /* borrowed from the entry: its name in dir */
	unsigned temps;
};

static void writer_done(struct writer *w)
{
	if (w->temp[0] && w->dir >= 0)
		unlinkat(w->dir, w->temp, 0);
	gb_fd_close(&w->parent);
	gb_fd_close(&w->base);
	gb_fd_close(&w->dir);
	gb_fd_close(&w->file);
	for (size_t i = 0; i < w->folder_count; i++)
		free(w->folders[i].path);
	free(w->folders);
}

/* Below base, through real folders only. */
static int open_beneath(int base, const char *path, int flags, int *ret, struct gb_err *err)
{
	struct open_how how = { .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	long fd;

	do {
		fd = syscall(SYS_openat2, base, *path ? path : ".", &how, sizeof(how));
	} while (fd < 0 && (errno == EINTR || errno == EAGAIN));
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	*ret = (int)fd;
	return 0;
}

/* Where the entry goes: w->dir and w->to. */
static int find_place(struct writer *w, const struct gb_msg_entry *e, struct gb_err *err)
{
	const char *slash = strrchr(e->path, '/');
	gb_auto_free char *folder = NULL;

	gb_fd_close(&w->dir);
	if (!*e->path) {
		w->to = w->name;
		w->dir = fcntl(w->parent, F_DUPFD_CLOEXEC, 3);
		return w->dir < 0 ? gb_fail_sys(err, errno, "cannot open the folder") : 0;
	}
	if (w->base < 0)
		return gb_fail(err, GB_E_PROTOCOL, "'%s' is below something that is no folder",
			e->path);
	folder = strndup(e->path, slash ? (size_t)(slash - e->path) : 0);
	if (!folder)
		return gb_nomem(err);
	w->to = slash ? slash + 1 : e->path;
	return open_beneath(w->base, folder, O_PATH | O_DIRECTORY, &w->dir, err);
}

/* A share may refuse to give files away (EPERM): there they belong to who owns the share. */
static int give(const struct writer *w, int fd, const char *name, struct gb_err *err)
{
	if (fchownat(fd, name, w->c->uid, w->c->gid,
		    AT_SYMLINK_NOFOLLOW | (*name ? 0 : AT_EMPTY_PATH)) == 0 ||
		errno == EPERM)
		return 0;
	return gb_fail_sys(err, errno, "cannot set the owner");
}

static void times_of(const struct gb_msg_entry *e, struct timespec ts[2])
{
	ts[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	ts[1] = (struct timespec){ .tv_sec = (time_t)e->mtime_s,
		.tv_nsec = (long)GB_MIN(e->mtime_ns, 999999999u) };
}

static void new_temp(struct writer *w)
{
	snprintf(w->temp, sizeof(w->temp), ".glovebox-copy-%d-%u", (int)getpid(), w->temps++);
}

/* The temporary name becomes the real one; a folder in its place is not replaced. */
static int publish(struct writer *w, const struct gb_msg_entry *e, struct gb_err *err)
{
	if (renameat(w->dir, w->temp, w->dir, w->to) == 0) {
		w->temp[0] = 0;
		return 0;
	}
	if (errno == EISDIR)
		return gb_fail(err, GB_E_EXISTS, "'%s%s%s' is a folder", w->c->path,
			*e->path ? "/" : "", e->path);
	return gb_fail_sys(err, errno, "cannot write '%s%s%s'", w->c->path, *e->path ? "/" : "",
		e->path);
}

static int remember_folder(struct writer *w, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct timespec ts[2];
	struct folder *f;

	if (w->folder_count >= FOLDERS_MAX)
		return gb_fail(err, GB_E_LIMIT, "over %u folders", FOLDERS_MAX);
	if (!gb_grow(&w->folders, &w->folder_cap, w->folder_count + 1, sizeof(*f)))
		return gb_nomem(err);
	times_of(e, ts);
	f = &w->folders[w->folder_count];
	f->path = strdup(e->path);
	f->mode = e->mode & MODE_BITS;
	f->mtime = ts[1];
	if (!f->path)
		return gb_nomem(err);
	w->folder_count++;
	return 0;
}

static int put_folder(struct writer *w, const struct gb_msg_entry *e, struct gb_err *err)
{
	bool made = mkdirat(w->dir, w->to, 0700) == 0;
	struct stat st;

	if (!made && errno != EEXIST)
		return gb_fail_sys(err, errno, "cannot make folder '%s'", w->to);
	if (!*e->path) {
		/* the path is the caller's own words: a link to a folder is as good as one */
		int r = w->inside ? open_beneath(w->parent, w->name, O_RDONLY | O_DIRECTORY,
					    &w->base, err)
				  : gb_open_in_root(w->c->root, w->c->path,
					    O_RDONLY | O_DIRECTORY, 0, &w->base, err);
		if (r < 0)
			return r;
	} else if (fstatat(w->dir, w->to, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISDIR(st.st_mode)) {
		return gb_fail(err, GB_E_EXISTS, "'%s/%s' is there and is not a folder",
			w->c->path, e->path);
	}
	if (made && give(w, w->dir, w->to, err) < 0)
		return err ? err->code : GB_E_IO;
	return remember_folder(w, e, err);
}

static int put_link(struct writer *w, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct timespec ts[2];
	int r;

	new_temp(w);
	if (symlinkat(e->link, w->dir, w->temp) < 0) {
		w->temp[0] = 0;
		return gb_fail_sys(err, errno, "cannot make link '%s'", w->to);
	}
	times_of(e, ts);
	utimensat(w->dir, w->temp, ts, AT_SYMLINK_NOFOLLOW);
	r = give(w, w->dir, w->temp, err);
	return r < 0 ? r : publish(w, e, err);
}

static int put_fifo(struct writer *w, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct timespec ts[2];
	int r;

	new_temp(w);
	if (mkfifoat(w->dir, w->temp, 0600) < 0) {
		w->temp[0] = 0;
		return gb_fail_sys(err, errno, "cannot make FIFO '%s'", w->to);
	}
	r = give(w, w->dir, w->temp, err);
	if (r < 0)
		return r;
	if (fchmodat(w->dir, w->temp, e->mode & MODE_BITS, 0) < 0)
		return gb_fail_sys(err, errno, "cannot set the mode of '%s'", w->to);
	times_of(e, ts);
	utimensat(w->dir, w->temp, ts, AT_SYMLINK_NOFOLLOW);
	return publish(w, e, err);
}

static int open_file(struct writer *w, struct gb_err *err)
{
	new_temp(w);
	w->file = openat(
		w->dir, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->file >= 0)
		return 0;
	w->temp[0] = 0;
	return gb_fail_sys(err, errno, "cannot create '%s'", w->to);
}

static int on_entry(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct writer *w = ctx;
	int r = find_place(w, e, err);

	if (r < 0)
		return r;
	switch (e->kind) {
	case GB_TREE_DIR:
		return put_folder(w, e, err);
	case GB_TREE_LINK:
		return put_link(w, e, err);
	case GB_TREE_FIFO:
		return put_fifo(w, e, err);
	default:
		return open_file(w, err);
	}
}

static int on_content(void *ctx, const uint8_t *data, size_t len, struct gb_err *err)
{
	struct writer *w = ctx;
	int r = gb_fd_write_full(w->file, data, len, err);

	return r < 0 ? gb_wrap(err, r, "cannot write '%s'", w->to) : 0;
}

static int on_end(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct writer *w = ctx;
	struct timespec ts[2];
	int r = give(w, w->file, "", err);

	if (r < 0)
		return r;
	/* after the owner: chown clears the set-id bits */
	if (fchmod(w->file, e->mode & MODE_BITS) < 0)
		return gb_fail_sys(err, errno, "cannot set the mode of '%s'", w->to);
	times_of(e, ts);
	if (futimens(w->file, ts) < 0)
		return gb_fail_sys(err, errno, "cannot set the time of '%s'", w->to);
	/* a full disk may show only now on a share */
	r = close(gb_take_fd(&w->file));
	if (r < 0)
		return gb_fail_sys(err, errno, "cannot write '%s'", w->to);
	return publish(w, e, err);
}

/* Children before parents, so that times stay. */
static int finish_folders(struct writer *w, struct gb_err *err)
{
	for (size_t i = w->folder_count; i-- > 0;) {
		const struct folder *f = &w->folders[i];
		struct timespec ts[2] = { { .tv_nsec = UTIME_OMIT }, f->mtime };
		gb_auto_fd fd = -1;
		int r = open_beneath(w->base, f->path, O_RDONLY | O_DIRECTORY, &fd, err);

		if (r < 0)
			return r;
		if (fchmod(fd, f->mode) < 0 || futimens(fd, ts) < 0)
			return gb_fail_sys(err, errno, "cannot set mode and time of '%s/%s'",
				w->c->path, f->path);
	}
	return 0;
}

static int read_tree(struct writer *w, int fd, struct gb_err *err)
{
	static const struct gb_tree_ops ops = { on_entry, on_content, on_end };
	gb_auto_done(gb_tree_reader) reader;
	gb_auto_free uint8_t *chunk = malloc(IN_CHUNK);
	int r = 0;

	gb_tree_reader_init(&reader);
	if (!chunk)
		return gb_nomem(err);
	while (r == 0) {
		ssize_t n = read(fd, chunk, IN_CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read the tree");
		if (n == 0)
			break;
		r = gb_tree_reader_feed(&reader, chunk, (size_t)n, &ops, w, err);
	}
	if (r == 0 && !reader.ended)
		return gb_fail(err, GB_E_CLOSED, "the copy was cut short");
	return r;
}

static bool name_ok(const char *name)
{
	return *name && gb_tree_path_ok(name) && !strchr(name, '/');
}

/* The place itself: its folder, and its name there, which is in *place. */
static int exact_place(struct writer *w, char *place, struct gb_err *err)
{
	char *slash;
	size_t len;

	for (len = strlen(place); len > 1 && place[len - 1] == '/'; len--)
		place[len - 1] = 0;
	slash = strrchr(place, '/');
	if (!slash)
		return gb_fail(err, GB_E_INVALID, "'%s' is not an absolute path", place);
	*slash = 0;
	w->name = slash[1] ? slash + 1 : ".";
	if (strcmp(w->name, "..") == 0)
		return gb_fail(err, GB_E_INVALID, "'%s' ends in '..'", w->c->path);
	return gb_open_in_root(
		w->c->root, *place ? place : "/", O_PATH | O_DIRECTORY, 0, &w->parent, err);
}

static int choose_place(struct writer *w, char *place, struct gb_err *err)
{
	const struct gb_copy *c = w->c;
	const char *name = c->name ? c->name : "";
	int r;

	if (*name && !name_ok(name))
		return gb_fail(err, GB_E_PROTOCOL, "'%s' is no name for a copy", name);
	if (*name || (c->flags & GB_COPY_INTO_DIR)) {
		/* its failure is no error yet: err tells the host of a real one only */
		r = gb_open_in_root(c->root, c->path, O_PATH | O_DIRECTORY, 0, &w->parent, NULL);
		if (r == 0 && *name) {
			w->name = name;
			w->inside = true;
			return 0;
		}
		gb_fd_close(&w->parent);
		if (r < 0 && (c->flags & GB_COPY_INTO_DIR))
			return gb_fail(err, GB_E_NOTFOUND, "'%s' is no folder", c->path);
	}
	return exact_place(w, place, err);
}

int gb_copy_in(const struct gb_copy *c, int fd, struct gb_err *err)
{
	__attribute__((cleanup(writer_done))) struct writer w = {
		.c = c, .parent = -1, .base = -1, .dir = -1, .file = -1
	};
	gb_auto_free char *place = strdup(c->path);
	int r = place ? choose_place(&w, place, err) : gb_nomem(err);

	if (r == 0)
		r = read_tree(&w, fd, err);
	return r < 0 ? r : finish_folders(&w, err);
}
