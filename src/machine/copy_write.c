#include "machine/copy_host.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define COPY_FOLDERS_MAX ((size_t)1 << 20) /* folders of one copy */

/* A folder gets its mode and time last, when nothing is made in it any more. */
struct folder {
	char *path; /* owned, relative to the top */
	mode_t mode;
	struct timespec mtime;
};

struct gb_host_writer {
	int parent;     /* the folder that the copy is made in */
	char *top_name; /* owned: its name there */
	int top;        /* the copied folder, -1 while there is none */
	int file;       /* the file that is being written */
	int file_folder;
	char *file_name; /* owned */
	char tmp_name[64];
	struct folder *folders;
	size_t folder_count;
	size_t folder_cap;
};

static struct timespec entry_time(const struct gb_msg_entry *e)
{
	return (struct timespec){ .tv_sec = (time_t)e->mtime_s,
		.tv_nsec = (long)(e->mtime_ns % 1000000000u) };
}

/* Opens the folder that path is in, part by part, following no link. */
static int open_parent(
	struct gb_host_writer *w, const char *path, int *ret, char **ret_name, struct gb_err *err)
{
	gb_auto_free char *copy = strdup(path);
	gb_auto_fd at = -1;
	char *part = copy;
	char *slash;

	if (!copy)
		return gb_nomem(err);
	at = fcntl(*path ? w->top : w->parent, F_DUPFD_CLOEXEC, 3);
	if (at < 0)
		return gb_fail(err, GB_E_PROTOCOL, "'%s' is in no folder", path);
	while ((slash = strchr(part, '/'))) {
		int next;

		*slash = 0;
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return gb_fail_sys(err, errno, "cannot open folder '%s'", part);
		close(at);
		at = next;
		part = slash + 1;
	}
	*ret_name = strdup(*path ? part : w->top_name);
	if (!*ret_name)
		return gb_nomem(err);
	*ret = gb_take_fd(&at);
	return 0;
}

static int remember_folder(
	struct gb_host_writer *w, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct folder *f;

	if (w->folder_count == COPY_FOLDERS_MAX)
		return gb_fail(err, GB_E_LIMIT, "more than %zu folders", COPY_FOLDERS_MAX);
	if (!gb_grow(&w->folders, &w->folder_cap, w->folder_count + 1, sizeof(*w->folders)))
		return gb_nomem(err);
	f = &w->folders[w->folder_count];
	f->path = strdup(e->path);
	if (!f->path)
		return gb_nomem(err);
	f->mode = e->mode & 0777;
	f->mtime = entry_time(e);
	w->folder_count++;
	return 0;
}

static int make_folder(struct gb_host_writer *w, int at, const char *name,
	const struct gb_msg_entry *e, struct gb_err *err)
{
	if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
		return gb_fail_sys(err, errno, "cannot create folder '%s'", name);
	if (!*e->path) {
		w->top = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (w->top < 0)
			return gb_fail_sys(err, errno, "cannot open folder '%s'", name);
	}
	return remember_folder(w, e, err);
}

static int begin_file(struct gb_host_writer *w, int at_consume, char *name_consume,
	struct gb_err *err)
{
	w->file_folder = at_consume;
	w->file_name = name_consume;
	snprintf(w->tmp_name, sizeof(w->tmp_name), ".glovebox-%d.part", (int)getpid());
	unlinkat(at_consume, w->tmp_name, 0);
	w->file = openat(at_consume, w->tmp_name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->file < 0)
		return gb_fail_sys(err, errno, "cannot create '%s'", w->file_name);
	return 0;
}

static int make_link(int at, const char *name, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, entry_time(e) };

	if (unlinkat(at, name, 0) < 0 && errno != ENOENT)
		return gb_fail_sys(err, errno, "cannot replace '%s'", name);
	if (symlinkat(e->link, at, name) < 0)
		return gb_fail_sys(err, errno, "cannot create link '%s'", name);
	utimensat(at, name, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

static int make_fifo(int at, const char *name, const struct gb_msg_entry *e, struct gb_err *err)
{
	if (mkfifoat(at, name, e->mode & 0777) < 0 && errno != EEXIST)
		return gb_fail_sys(err, errno, "cannot create fifo '%s'", name);
	return 0;
}

static int writer_entry(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct gb_host_writer *w = ctx;
	gb_auto_free char *name = NULL;
	gb_auto_fd at = -1;
	int r = open_parent(w, e->path, &at, &name, err);

	if (r < 0)
		return r;
	switch (e->kind) {
	case GB_TREE_DIR:
		return make_folder(w, at, name, e, err);
	case GB_TREE_FILE:
		return begin_file(w, gb_take_fd(&at), gb_take_ptr(name), err);
	case GB_TREE_LINK:
		return make_link(at, name, e, err);
	default:
		return make_fifo(at, name, e, err);
	}
}

static int writer_content(void *ctx, const uint8_t *data, size_t len, struct gb_err *err)
{
	struct gb_host_writer *w = ctx;
	int r = gb_fd_write_full(w->file, data, len, err);

	return r < 0 ? gb_wrap(err, r, "'%s'", w->file_name) : 0;
}

static void forget_file(struct gb_host_writer *w, bool remove)
{
	if (remove && w->file >= 0)
		unlinkat(w->file_folder, w->tmp_name, 0);
	gb_fd_close(&w->file);
	gb_fd_close(&w->file_folder);
	free(gb_take_ptr(w->file_name));
}

static int writer_end(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct gb_host_writer *w = ctx;
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, entry_time(e) };

	if (fchmod(w->file, e->mode & 0777) < 0 || futimens(w->file, times) < 0 ||
		renameat(w->file_folder, w->tmp_name, w->file_folder, w->file_name) < 0)
		return gb_fail_sys(err, errno, "cannot write '%s'", w->file_name);
	forget_file(w, false);
	return 0;
}

const struct gb_tree_ops gb_host_writer_ops = {
	.entry = writer_entry,
	.content = writer_content,
	.end = writer_end,
};

/* Splits target into the folder to work in and a name there. */
static int split_target(
	const char *target, const char *name, struct gb_host_writer *w, struct gb_err *err)
{
	gb_auto_free char *folder = strdup(target);
	struct stat st;
	char *slash;

	if (!folder)
		return gb_nomem(err);
	if (stat(target, &st) == 0 && S_ISDIR(st.st_mode) && *name) {
		w->top_name = strdup(name);
	} else {
		size_t n = strlen(folder);

		while (n > 1 && folder[n - 1] == '/')
			folder[--n] = 0;
		if (target[n] == '/' && n > 1)
			return gb_fail(err, GB_E_NOTFOUND, "'%s' is no folder", target);
		slash = strrchr(folder, '/');
		w->top_name = strdup(slash ? slash + 1 : folder);
		if (slash)
			slash[slash == folder ? 1 : 0] = 0;
		else
			snprintf(folder, n + 1, ".");
	}
	if (!w->top_name)
		return gb_nomem(err);
	w->parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->parent < 0)
		return gb_fail_sys(err, errno, "cannot open folder '%s'", folder);
	return 0;
}

int gb_host_writer_new(const char *target, const char *name, struct gb_host_writer **ret,
	struct gb_err *err)
{
	struct gb_host_writer *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return gb_nomem(err);
	w->parent = w->top = w->file = w->file_folder = -1;
	r = split_target(target, name, w, err);
	if (r < 0) {
		gb_host_writer_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

int gb_host_writer_finish(struct gb_host_writer *w, struct gb_err *err)
{
	for (size_t i = w->folder_count; i-- > 0;) {
		const struct folder *f = &w->folders[i];
		struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, f->mtime };
		gb_auto_free char *name = NULL;
		gb_auto_fd at = -1;
		gb_auto_fd fd = -1;
		int r = open_parent(w, f->path, &at, &name, err);

		if (r < 0)
			return r;
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fchmod(fd, f->mode) < 0 || futimens(fd, times) < 0)
			return gb_fail_sys(err, errno, "cannot finish folder '%s'", name);
	}
	return 0;
}

struct gb_host_writer *gb_host_writer_free(struct gb_host_writer *w)
{
	if (!w)
		return NULL;
	forget_file(w, true);
	gb_fd_close(&w->parent);
	gb_fd_close(&w->top);
	free(w->top_name);
	for (size_t i = 0; i < w->folder_count; i++)
		free(w->folders[i].path);
	free(w->folders);
	free(w);
	return NULL;
}
