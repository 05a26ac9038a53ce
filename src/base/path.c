#include "base/path.h"
#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

char *gb_path_join(const char *a, const char *b)
{
	char *s = NULL;
	const char *slash = !*a || a[strlen(a) - 1] == '/' ? "" : "/";

	if (asprintf(&s, "%s%s%s", a, slash, b) < 0)
		return NULL;
	return s;
}

const char *gb_path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int make_one(const char *path, mode_t mode, struct gb_err *err)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	if (errno == EEXIST)
		return gb_fail(err, GB_E_EXISTS, "'%s' is not a folder", path);
	return gb_fail_sys(err, errno, "cannot create folder '%s'", path);
}

int gb_mkdir_p(const char *path, mode_t mode, struct gb_err *err)
{
	gb_auto_free char *copy = strdup(path);

	if (!copy)
		return gb_nomem(err);
	for (char *p = copy + 1; *copy && *p; p++) {
		struct stat st;
		int r;

		if (*p != '/')
			continue;
		*p = 0;
		r = stat(copy, &st) == 0 ? 0 : make_one(copy, mode, err);
		*p = '/';
		if (r < 0)
			return r;
	}
	return make_one(copy, mode, err);
}

int gb_mkdir_private(const char *path, struct gb_err *err)
{
	struct stat st;
	int r = gb_mkdir_p(path, 0700, err);

	if (r < 0)
		return r;
	if (lstat(path, &st) < 0)
		return gb_fail_sys(err, errno, "cannot look at '%s'", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		return gb_fail(err, GB_E_DENIED,
			"'%s' must be a folder of user %u that nobody else can write to", path,
			(unsigned)geteuid());
	return 0;
}

/* The kernel says EAGAIN when a rename raced with ".."; somebody who renames without end must
 * not hold us up. */
#define OPEN_IN_ROOT_MAX_TRIES 1000

int gb_open_in_root(
	int root, const char *path, int flags, mode_t mode, int *ret, struct gb_err *err)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned int)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int tries = 0;
	long fd;

	do {
		fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
	} while (fd < 0 && (errno == EINTR || errno == EAGAIN) &&
		++tries < OPEN_IN_ROOT_MAX_TRIES);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	*ret = (int)fd;
	return 0;
}

#define RM_TREE_MAX_DEPTH 256 /* folders inside each other that are removed */

static int rm_folder_content(int dirfd, const char *name, int depth, struct gb_err *err);

static int rm_entry(int dirfd, const char *name, int depth, struct gb_err *err)
{
	int r;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return gb_fail_sys(err, errno, "cannot remove '%s'", name);
	r = rm_folder_content(dirfd, name, depth, err);
	if (r < 0)
		return r;
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return gb_fail_sys(err, errno, "cannot remove folder '%s'", name);
}

static int rm_folder_content(int dirfd, const char *name, int depth, struct gb_err *err)
{
	int fd;
	DIR *d;
	struct dirent *e;
	int r = 0;

	if (depth > RM_TREE_MAX_DEPTH)
		return gb_fail(err, GB_E_LIMIT, "folders nest too deeply at '%s'", name);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open folder '%s'", name);
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return gb_nomem(err);
	}
	while (r == 0 && (e = readdir(d)))
		if (!gb_streq(e->d_name, ".") && !gb_streq(e->d_name, ".."))
			r = rm_entry(fd, e->d_name, depth + 1, err);
	closedir(d);
	return r;
}

int gb_rm_tree(int dirfd, const char *name, struct gb_err *err)
{
	return rm_entry(dirfd, name, 0, err);
}

static char *xdg_dir(const char *variable, const char *home_part)
{
	const char *base = getenv(variable);
	const char *home = getenv("HOME");
	gb_auto_free char *joined = NULL;

	if (base && *base == '/')
		return gb_path_join(base, "glovebox");
	joined = gb_path_join(home && *home == '/' ? home : "/", home_part);
	return joined ? gb_path_join(joined, "glovebox") : NULL;
}

static char *runtime_dir(void)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	char *s = NULL;

	if (base && *base == '/')
		return gb_path_join(base, "glovebox");
	if (asprintf(&s, "/tmp/glovebox-%u", (unsigned)getuid()) < 0)
		return NULL;
	return s;
}

int gb_dirs_init(struct gb_dirs *d, struct gb_err *err)
{
	const char *home = getenv("GLOVEBOX_HOME");

	memset(d, 0, sizeof(*d));
	if (home && *home && *home != '/')
		return gb_fail(err, GB_E_INVALID, "GLOVEBOX_HOME must be an absolute path");
	if (home && *home) {
		d->config = gb_path_join(home, "config");
		d->data = gb_path_join(home, "data");
		d->cache = gb_path_join(home, "cache");
		d->runtime = gb_path_join(home, "run");
	} else {
		d->config = xdg_dir("XDG_CONFIG_HOME", ".config");
		d->data = xdg_dir("XDG_DATA_HOME", ".local/share");
		d->cache = xdg_dir("XDG_CACHE_HOME", ".cache");
		d->runtime = runtime_dir();
	}
	if (d->config && d->data && d->cache && d->runtime)
		return 0;
	gb_dirs_done(d);
	return gb_nomem(err);
}

void gb_dirs_done(struct gb_dirs *d)
{
	free(d->config);
	free(d->data);
	free(d->cache);
	free(d->runtime);
	memset(d, 0, sizeof(*d));
}

/* In order: a build tree (or a role that starts another role), an installed command, an installed
 * library (lib/, or lib/ARCHITECTURE/). */
static const char *const role_places[] = { "", "/../libexec/glovebox",
	"/../../libexec/glovebox" };

/* Below folder: 1 and *ret, 0 when it is not there. */
static int find_role(const char *folder, const char *role, char **ret, struct gb_err *err)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(role_places); i++) {
		gb_auto_free char *path = NULL;

		if (asprintf(&path, "%s%s/glovebox-%s", folder, role_places[i], role) < 0)
			return gb_nomem(err);
		if (access(path, X_OK) == 0) {
			*ret = gb_take_ptr(path);
			return 1;
		}
	}
	return 0;
}

int gb_role_path(const char *role, char **ret, struct gb_err *err)
{
	const char *libexec = getenv("GLOVEBOX_LIBEXEC");
	gb_auto_free char *lib = NULL;
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	Dl_info mine;
	int r;

	if (libexec && *libexec)
		return asprintf(ret, "%s/glovebox-%s", libexec, role) < 0 ? gb_nomem(err) : 0;
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot find this program's own path");
	exe[n] = 0;
	*strrchr(exe, '/') = 0;
	r = find_role(exe, role, ret, err);
	/* as a part of a library we may be in another program */
	if (r == 0 && dladdr(role_places, &mine) && strchr(mine.dli_fname, '/')) {
		lib = strdup(mine.dli_fname);
		if (!lib)
			return gb_nomem(err);
		*strrchr(lib, '/') = 0;
		r = find_role(lib, role, ret, err);
	}
	if (r)
		return r < 0 ? r : 0;
	return gb_fail(err, GB_E_NOTFOUND,
		"helper program 'glovebox-%s' is neither in '%s' nor in "
		"'%s/../libexec/glovebox' (GLOVEBOX_LIBEXEC says where else)",
		role, exe, exe);
}
