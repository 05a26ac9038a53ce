/* Files, for requests that name one. This runs as the user among the tools, so that a path can
 * lead nowhere that a tool could not go; what is refused is what would block or never end. */
#include "guest/own.h"
#include "base/fd.h"
#include "base/path.h"
#include "patch/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK       (128u << 10)
#define TEMP_TRIES  16
#define PARENT_MODE 0755

static int open_regular(const char *path, struct stat *st, int *ret, struct gb_err *err)
{
	gb_auto_fd fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st) < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	if (!S_ISREG(st->st_mode))
		return gb_fail(err, GB_E_INVALID, "'%s' is not a regular file", path);
	*ret = gb_take_fd(&fd);
	return 0;
}

static void tell(struct gb_report *r, const struct stat *st)
{
	r->file_size = (uint64_t)st->st_size;
	r->file_mode = st->st_mode & 07777u;
	r->file_mtime_s = st->st_mtim.tv_sec;
	r->file_mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	__atomic_store_n(&r->file_there, true, __ATOMIC_RELEASE);
}

/* What was promised is sent, or the request fails: never more, never less. */
static int send_file(int fd, uint64_t size, const char *path, struct gb_err *err)
{
	static uint8_t data[CHUNK];
	uint64_t sent = 0;

	for (;;) {
		ssize_t n = read(fd, data, sizeof(data));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read '%s'", path);
		if ((n == 0) != (sent == size) || (uint64_t)n > size - sent)
			return gb_fail(err, GB_E_STATE, "'%s' changed while it was read", path);
		if (n == 0)
			return 0;
		r = gb_fd_write_full(1, data, (size_t)n, err);
		if (r < 0)
			return r;
		sent += (uint64_t)n;
	}
}

int gb_own_read(struct gb_own *o, struct gb_err *err)
{
	gb_auto_fd fd = -1;
	struct stat st;
	int r = open_regular(o->path, &st, &fd, err);

	if (r < 0)
		return r;
	if (o->limit && (uint64_t)st.st_size > o->limit)
		return gb_fail(err, GB_E_LIMIT, "'%s' has %lld bytes, at most %llu are read",
			o->path, (long long)st.st_size, (unsigned long long)o->limit);
	tell(o->report, &st);
	return send_file(fd, (uint64_t)st.st_size, o->path, err);
}

static int make_parents(const char *path, struct gb_err *err)
{
	const char *slash = strrchr(path, '/');
	gb_auto_free char *parent = strndup(path, slash ? (size_t)(slash - path) : 0);

	if (!parent)
		return gb_nomem(err);
	return *parent ? gb_mkdir_p(parent, PARENT_MODE, err) : 0;
}

static int receive(int fd, const char *path, struct gb_err *err)
{
	static uint8_t data[CHUNK];

	for (;;) {
		ssize_t n = read(0, data, sizeof(data));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read the content of '%s'", path);
		if (n == 0)
			return 0;
		r = gb_fd_write_full(fd, data, (size_t)n, err);
		if (r < 0)
			return gb_wrap(err, r, "cannot write '%s'", path);
	}
}

static int set_mtime(int fd, const struct gb_own *o, struct gb_err *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, o->mtime };

	if (o->set_mtime && futimens(fd, times) < 0)
		return gb_fail_sys(err, errno, "cannot set the time of '%s'", o->path);
	return 0;
}

/* A file without a name while it is being written: a request that is killed leaves nothing. It
 * gets a temporary name for a moment, since only that can replace another. */
static int give_name(int fd, const char *path, struct gb_err *err)
{
	const char *base = gb_path_base(path);
	int folder = (int)(base - path);
	char own[64];

	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	for (int i = 0; i < TEMP_TRIES; i++) {
		gb_auto_free char *temp = NULL;

		if (asprintf(&temp, "%.*s.%.200s.glovebox-%d-%d.tmp", folder, path, base,
			    (int)getpid(), i) < 0)
			return gb_nomem(err);
		if (linkat(AT_FDCWD, own, AT_FDCWD, temp, AT_SYMLINK_FOLLOW) < 0) {
			if (errno == EEXIST)
				continue;
			return gb_fail_sys(err, errno, "cannot write '%s'", path);
		}
		if (rename(temp, path) == 0)
			return 0;
		gb_fail_sys(err, errno, "cannot replace '%s'", path);
		unlink(temp);
		return err->code;
	}
	return gb_fail(err, GB_E_EXISTS, "cannot find a temporary name beside '%s'", path);
}

int gb_own_write(struct gb_own *o, struct gb_err *err)
{
	gb_auto_free char *parent = NULL;
	gb_auto_fd fd = -1;
	struct stat st;
	int r = make_parents(o->path, err);

	if (r < 0)
		return r;
	if (lstat(o->path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return gb_fail(err, GB_E_INVALID, "'%s' is not a regular file", o->path);
	parent = strndup(o->path, (size_t)(gb_path_base(o->path) - o->path));
	if (!parent)
		return gb_nomem(err);
	fd = open(parent, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot write '%s'", o->path);
	r = receive(fd, o->path, err);
	if (r == 0 && fchmod(fd, o->mode) < 0)
		return gb_fail_sys(err, errno, "cannot set the mode of '%s'", o->path);
	if (r == 0)
		r = set_mtime(fd, o, err);
	return r < 0 ? r : give_name(fd, o->path, err);
}

int gb_own_mkdir(struct gb_own *o, struct gb_err *err)
{
	gb_auto_fd fd = -1;
	int r = gb_mkdir_p(o->path, PARENT_MODE, err);

	if (r < 0)
		return r;
	fd = open(o->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", o->path);
	if (fchmod(fd, o->mode) < 0)
		return gb_fail_sys(err, errno, "cannot set the mode of '%s'", o->path);
	return set_mtime(fd, o, err);
}

static int read_text(struct gb_buf *ret, struct gb_err *err)
{
	size_t got;

	do {
		uint8_t *to = gb_buf_reserve(ret, CHUNK);
		int r;

		if (!to)
			return gb_buf_check(ret, "the patch", err);
		r = gb_fd_read_full(0, to, CHUNK, &got, err);
		if (r < 0)
			return r;
		ret->len += got;
	} while (got == CHUNK);
	return 0;
}

int gb_own_patch(struct gb_own *o, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = { 0 };
	gb_auto_done(gb_buf) out = { 0 };
	gb_auto_fd root = open(o->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct gb_patch_where where = { .root = root, .root_path = o->path, .cwd = o->path,
		.allow_outside = o->outside };
	int r;

	if (root < 0)
		return gb_fail_sys(err, errno, "cannot open the workspace '%s'", o->path);
	gb_buf_init(&text, GB_PATCH_TEXT_MAX + 2 * CHUNK);
	gb_buf_init(&out, 0);
	r = read_text(&text, err);
	if (r == 0)
		r = gb_patch_apply(&where, (const char *)text.data, text.len,
			GB_PATCH_AS_TOOL, &out, err);
	if (out.len)
		gb_fd_write_full(1, out.data, out.len, NULL);
	return r;
}
