#include "patch/place.h"
#include "base/fd.h"
#include "base/path.h"
#include "patch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

struct walk {
	const struct gb_patch_space *space;
	const char *shown;
	struct gb_patch_report *report;
	struct gb_err *err;
	struct gb_patch_place *at;	    /* path is empty; walked has it */
	char walked[GB_PATCH_PATH_MAX + 1]; /* path so far */
	size_t len;
	char todo[GB_PATCH_PATH_MAX + 1]; /* what is still to be walked */
	bool missing;			  /* the last folder on the way is not there */
	int links;
};

void gb_patch_place_done(struct gb_patch_place *p)
{
	free(p->path);
	gb_fd_close(&p->dir);
	memset(p, 0, sizeof(*p));
	p->dir = -1;
}

char *gb_patch_shown(const struct gb_patch_space *space, const char *path)
{
	gb_auto_free char *cwd = NULL;

	if (*path == '/')
		return strdup(path);
	cwd = *space->cwd == '/' ? strdup(space->cwd)
	      : *space->cwd == 0 ? strdup(space->root_path)
				 : gb_path_join(space->root_path, space->cwd);
	return cwd ? gb_path_join(cwd, path) : NULL;
}

static int outside(struct walk *w)
{
	return gb_patch_fail(w->report, w->err, GB_PATCH_REFUSED, GB_E_DENIED,
		"%s leads outside of the workspace %s", w->shown, w->space->root_path);
}

static int failed(struct walk *w, int errnum)
{
	return gb_patch_fail_sys(
		w->report, w->err, errnum, "Failed to look up %s", w->shown);
}

/* Put text before what is to be walked. */
static int walk_first(struct walk *w, const char *text)
{
	size_t a = strlen(text);
	size_t b = strlen(w->todo);

	if (a + 1 + b > GB_PATCH_PATH_MAX)
		return failed(w, ENAMETOOLONG);
	memmove(w->todo + a + 1, w->todo, b + 1);
	memcpy(w->todo, text, a);
	w->todo[a] = '/';
	return 0;
}

static int to_root(struct walk *w)
{
	gb_fd_close(&w->at->dir);
	w->at->dir = openat(w->space->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->at->dir < 0)
		return failed(w, errno);
	w->len = 0;
	w->walked[0] = 0;
	w->missing = false;
	w->at->exists = false;
	w->at->rest = 0;
	return 0;
}

/* The part of an absolute path below the root, or NULL. */
static const char *below_root(const struct gb_patch_space *space, const char *path)
{
	const char *root = space->root_path;

	for (;;) {
		size_t n;

		while (*path == '/')
			path++;
		while (*root == '/')
			root++;
		if (!*root)
			return path;
		n = strcspn(root, "/");
		if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
			return NULL;
		path += n;
		root += n;
	}
}

/* A path that may be absolute: todo and the place to start at. */
static int start_at(struct walk *w, const char *path)
{
	int r = 0;

	if (*path == '/') {
		path = below_root(w->space, path);
		if (!path)
			return outside(w);
		r = to_root(w);
	}
	return r < 0 ? r : walk_first(w, path);
}

static int append(struct walk *w, const char *name)
{
	size_t n = strlen(name);

	if (n > NAME_MAX || w->len + 1 + n > GB_PATCH_PATH_MAX)
		return failed(w, ENAMETOOLONG);
	if (w->len)
		w->walked[w->len++] = '/';
	memcpy(w->walked + w->len, name, n + 1);
	w->len += n;
	return 0;
}

/* Down from the root again, by names that were no links. */
static int walk_again(struct walk *w)
{
	char path[GB_PATCH_PATH_MAX + 1];
	char *rest = path;
	char *name;
	int r;

	memcpy(path, w->walked, w->len + 1);
	r = to_root(w);
	while (r == 0 && (name = strsep(&rest, "/")) && *name) {
		int fd = openat(
			w->at->dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return failed(w, errno);
		gb_fd_close(&w->at->dir);
		w->at->dir = fd;
		r = append(w, name);
	}
	w->at->rest = w->len;
	return r;
}

static int step_up(struct walk *w)
{
	char *slash = strrchr(w->walked, '/');

	if (w->missing)
		return failed(w, ENOENT);
	if (!w->len && strcmp(w->space->root_path, "/") == 0)
		return 0;
	if (!w->len)
		return outside(w);
	w->len = slash ? (size_t)(slash - w->walked) : 0;
	w->walked[w->len] = 0;
	return walk_again(w);
}

static int step_link(struct walk *w, int fd)
{
	char text[GB_PATCH_PATH_MAX + 1];
	ssize_t n = readlinkat(fd, "", text, sizeof(text) - 1);

	if (n < 0)
		return failed(w, errno);
	if (++w->links > GB_PATCH_LINKS_MAX)
		return failed(w, ELOOP);
	text[n] = 0;
	return start_at(w, text);
}

/* name is not there, or is in the way only until the patch has removed it. */
static int step_missing(struct walk *w, const char *name)
{
	size_t before = w->len;
	int r = append(w, name);

	if (r < 0)
		return r;
	w->missing = true;
	w->at->rest = before ? before + 1 : 0;
	return 0;
}

static int step_file(struct walk *w, const char *name, bool last)
{
	size_t before = w->len;
	int r = append(w, name);

	if (r < 0)
		return r;
	w->at->rest = before ? before + 1 : 0;
	if (last) {
		w->at->exists = true;
		return 0;
	}
	return failed(w, ENOTDIR);
}

/* Whether the patch has removed the file or link of that name where we are. */
static bool is_gone(struct walk *w, const char *name)
{
	size_t before = w->len;
	bool gone = w->space->gone && append(w, name) == 0 &&
		    w->space->gone(w->space->ctx, w->walked);

	w->len = before;
	w->walked[before] = 0;
	return gone;
}

static int step_down(struct walk *w, const char *name, bool last, bool follow)
{
	gb_auto_fd fd = -1;
	int r;

	if (w->missing)
		return append(w, name);
	fd = openat(w->at->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return step_missing(w, name);
	if (fd < 0 || fstat(fd, &w->at->st) < 0)
		return failed(w, errno);
	if (!S_ISDIR(w->at->st.st_mode) && !last && is_gone(w, name))
		return step_missing(w, name);
	if (S_ISLNK(w->at->st.st_mode) && (!last || follow))
		return step_link(w, fd);
	if (!S_ISDIR(w->at->st.st_mode))
		return step_file(w, name, last);
	r = append(w, name);
	if (r < 0)
		return r;
	gb_fd_close(&w->at->dir);
	w->at->dir = gb_take_fd(&fd);
	w->at->rest = w->len;
	return 0;
}

static int walk_all(struct walk *w, bool follow)
{
	int r = 0;

	while (r == 0) {
		size_t skip = strspn(w->todo, "/");
		size_t n = strcspn(w->todo + skip, "/");
		char name[GB_PATCH_PATH_MAX + 1];

		if (!n)
			break;
		memcpy(name, w->todo + skip, n);
		name[n] = 0;
		memmove(w->todo, w->todo + skip + n, strlen(w->todo + skip + n) + 1);
		if (strcmp(name, "..") == 0)
			r = step_up(w);
		else if (strcmp(name, ".") != 0)
			r = step_down(w, name, !w->todo[strspn(w->todo, "/")], follow);
	}
	if (r == 0 && !w->missing && !w->at->exists) {
		w->at->exists = true;
		if (fstat(w->at->dir, &w->at->st) < 0)
			return failed(w, errno);
	}
	return r;
}

int gb_patch_locate(const struct gb_patch_space *space, const char *path,
	const char *shown, bool follow, struct gb_patch_place *ret,
	struct gb_patch_report *report, struct gb_err *err)
{
	struct gb_patch_place at = { .dir = -1 };
	struct walk w = {
		.space = space, .shown = shown, .report = report, .err = err, .at = &at
	};
	int r = to_root(&w);

	if (r == 0)
		r = start_at(&w, path);
	if (r == 0 && *path != '/')
		r = start_at(&w, space->cwd);
	if (r == 0)
		r = walk_all(&w, follow);
	if (r == 0) {
		at.path = strdup(w.walked);
		if (!at.path)
			r = gb_patch_nomem(report, err);
	}
	if (r < 0) {
		gb_patch_place_done(&at);
		return r;
	}
	*ret = at;
	return 0;
}
