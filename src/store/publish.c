/* Temporary names carry the maker's pid for people only: whether the maker lives is told
 * by its flock() on the thing, which holds across pid namespaces and for reused pids too.
 * A sweep that comes between mkdir and flock may remove a fresh folder; the maker then
 * sees that its name is gone and makes another. */
#include "store/publish.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define TMP_PREFIX     ".tmp-"
#define TMP_TRIES      1000 /* temporary names of one process in a folder */
#define SYNC_MAX_DEPTH 64   /* folders within each other in what is published */

static int tmp_name(const char *folder, int n, char **ret, struct gb_err *err)
{
	if (asprintf(ret, "%s/" TMP_PREFIX "%d-%d", folder, (int)getpid(), n) < 0) {
		*ret = NULL;
		return gb_nomem(err);
	}
	return 0;
}

static bool lock_now(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static bool still_named(const char *path, int fd)
{
	struct stat a, b;

	return lstat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

int gb_publish_begin(const char *folder, struct gb_publish *ret, struct gb_err *err)
{
	for (int n = 0; n < TMP_TRIES; n++) {
		gb_auto_free char *path = NULL;
		gb_auto_fd fd = -1;
		int r = tmp_name(folder, n, &path, err);

		if (r < 0)
			return r;
		if (mkdir(path, 0700) < 0) {
			if (errno == EEXIST)
				continue;
			return gb_fail_sys(err, errno, "cannot create folder '%s'", path);
		}
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || !lock_now(fd) || !still_named(path, fd))
			continue;
		ret->folder = strdup(folder);
		if (!ret->folder) {
			rmdir(path);
			return gb_nomem(err);
		}
		ret->path = gb_take_ptr(path);
		ret->fd = gb_take_fd(&fd);
		return 0;
	}
	return gb_fail(err, GB_E_BUSY, "too many temporary folders in '%s'", folder);
}

static int sync_tree(int dirfd, int depth, struct gb_err *err);

static int sync_entry(int dirfd, const char *name, int depth, struct gb_err *err)
{
	struct stat st;
	gb_auto_fd fd = -1;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return gb_fail_sys(err, errno, "cannot look at '%s'", name);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", name);
	if (S_ISDIR(st.st_mode))
		return sync_tree(fd, depth + 1, err);
	if (fsync(fd) < 0)
		return gb_fail_sys(err, errno, "cannot sync '%s'", name);
	return 0;
}

/* Everything below an open folder, then the folder itself. */
static int sync_tree(int dirfd, int depth, struct gb_err *err)
{
	int copy = depth > SYNC_MAX_DEPTH ? -1 : openat(dirfd, ".", O_RDONLY | O_CLOEXEC);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *e;
	int r = 0;

	if (depth > SYNC_MAX_DEPTH)
		return gb_fail(err, GB_E_LIMIT, "folders nest too deeply");
	if (!d) {
		r = gb_fail_sys(err, errno, "cannot list a temporary folder");
		gb_fd_close(&copy);
		return r;
	}
	while (r == 0 && (e = readdir(d)))
		if (!gb_streq(e->d_name, ".") && !gb_streq(e->d_name, ".."))
			r = sync_entry(dirfd, e->d_name, depth, err);
	closedir(d);
	if (r == 0 && fsync(dirfd) < 0)
		r = gb_fail_sys(err, errno, "cannot sync a temporary folder");
	return r;
}

int gb_sync_folder(const char *path, struct gb_err *err)
{
	gb_auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return gb_fail_sys(err, errno, "cannot sync folder '%s'", path);
	return 0;
}

int gb_publish_commit(
	struct gb_publish *p, const char *name, mode_t mode, struct gb_err *err)
{
	gb_auto_free char *target = gb_path_join(p->folder, name);
	int r;

	if (!target)
		return gb_nomem(err);
	if (fchmod(p->fd, mode) < 0)
		return gb_fail_sys(err, errno, "cannot set the mode of '%s'", p->path);
	r = sync_tree(p->fd, 0, err);
	if (r < 0)
		return gb_wrap(err, r, "cannot publish '%s'", target);
	if (renameat2(AT_FDCWD, p->path, AT_FDCWD, target, RENAME_NOREPLACE) < 0)
		return gb_fail_sys(err, errno, "cannot publish '%s'", target);
	r = gb_sync_folder(p->folder, err);
	gb_fd_close(&p->fd);
	gb_publish_done(p);
	return r;
}

void gb_publish_done(struct gb_publish *p)
{
	if (p->fd >= 0) {
		fchmod(p->fd, 0700);
		gb_rm_tree(AT_FDCWD, p->path, NULL);
	}
	gb_fd_close(&p->fd);
	free(p->folder);
	free(p->path);
	p->folder = NULL;
	p->path = NULL;
}

static void sweep_one(int dirfd, const char *name)
{
	gb_auto_fd fd =
		openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat a, b;

	if (fd < 0 || !lock_now(fd))
		return;
	if (fstat(fd, &a) == 0 && fstatat(dirfd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
		a.st_ino == b.st_ino)
		gb_rm_tree(dirfd, name, NULL);
}

void gb_publish_sweep(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (gb_starts_with(e->d_name, TMP_PREFIX))
			sweep_one(dirfd(d), e->d_name);
	if (d)
		closedir(d);
}

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static int newfile_named(const char *folder, struct gb_newfile *ret, struct gb_err *err)
{
	for (int n = 0; n < TMP_TRIES; n++) {
		gb_auto_free char *tmp = NULL;
		gb_auto_fd fd = -1;
		int r = tmp_name(folder, n, &tmp, err);

		if (r < 0)
			return r;
		fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return gb_fail_sys(err, errno, "cannot create '%s'", tmp);
		if (!lock_now(fd) || !still_named(tmp, fd))
			continue;
		ret->tmp = gb_take_ptr(tmp);
		ret->fd = gb_take_fd(&fd);
		return 0;
	}
	return gb_fail(err, GB_E_BUSY, "too many temporary files in '%s'", folder);
}

int gb_newfile_begin(const char *path, struct gb_newfile *ret, struct gb_err *err)
{
	gb_auto_free char *folder = folder_of(path);
	gb_auto_free char *copy = strdup(path);
	int r = 0;

	if (!folder || !copy)
		return gb_nomem(err);
	ret->tmp = NULL;
	ret->fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (ret->fd < 0 && errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return gb_fail_sys(err, errno, "cannot create a file in '%s'", folder);
	if (ret->fd < 0)
		r = newfile_named(folder, ret, err);
	if (r == 0)
		ret->path = gb_take_ptr(copy);
	return r;
}

/* Both ways fail when the name is taken. */
static int give_name(const struct gb_newfile *f)
{
	char self[64];

	if (f->tmp)
		return renameat2(AT_FDCWD, f->tmp, AT_FDCWD, f->path, RENAME_NOREPLACE);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW);
}

int gb_newfile_commit(struct gb_newfile *f, mode_t mode, struct gb_err *err)
{
	gb_auto_free char *folder = folder_of(f->path);
	int r;

	if (!folder)
		return gb_nomem(err);
	if (fchmod(f->fd, mode) < 0 || fsync(f->fd) < 0 || give_name(f) < 0)
		return gb_fail_sys(err, errno, "cannot publish '%s'", f->path);
	free(f->tmp);
	f->tmp = NULL;
	r = gb_sync_folder(folder, err);
	gb_newfile_done(f);
	return r;
}

void gb_newfile_done(struct gb_newfile *f)
{
	if (f->tmp)
		unlink(f->tmp);
	gb_fd_close(&f->fd);
	free(f->path);
	free(f->tmp);
	f->path = NULL;
	f->tmp = NULL;
}
