#include "vmm/boot.h"
#include "vmm/boot_key.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define KERNEL_PREFIX "vmlinuz-"

/* Where kernels lie, from the folder of this program: a build tree, then an installation
 * seen from bin and from libexec/glovebox. */
static const char *const kernel_roots[] = {
	"/../.deps/kernel",
	"/../share/glovebox/kernel",
	"/../../share/glovebox/kernel",
};

void gb_boot_paths_done(struct gb_boot_paths *p)
{
	free(p->kernel);
	free(p->modules);
	free(p->agent);
	memset(p, 0, sizeof(*p));
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ROOT/lib/modules/RELEASE, or the same below usr; NULL when there is neither. */
static int modules_of_release(
	const char *root, const char *release, char **ret, struct gb_err *err)
{
	static const char *const places[] = {"lib/modules", "usr/lib/modules"};

	*ret = NULL;
	for (size_t i = 0; i < GB_ARRAY_SIZE(places); i++) {
		gb_auto_free char *path = NULL;

		if (asprintf(&path, "%s/%s/%s", root, places[i], release) < 0) {
			path = NULL;
			return gb_nomem(err);
		}
		if (is_folder(path)) {
			*ret = gb_take_ptr(path);
			return 0;
		}
	}
	return 0;
}

/* Take over the release in name when it is newer than what *best holds. */
static int consider(const char *root, const char *name, char **best, struct gb_err *err)
{
	const char *release = name + strlen(KERNEL_PREFIX);
	gb_auto_free char *modules = NULL;
	char *copy;
	int r;

	if (!gb_starts_with(name, KERNEL_PREFIX) || !*release)
		return 0;
	if (*best && strverscmp(release, *best) <= 0)
		return 0;
	r = modules_of_release(root, release, &modules, err);
	if (r < 0 || !modules)
		return r;
	copy = strdup(release);
	if (!copy)
		return gb_nomem(err);
	free(*best);
	*best = copy;
	return 0;
}

static int newest_release(const char *root, char **ret, struct gb_err *err)
{
	gb_auto_free char *boot = gb_path_join(root, "boot");
	DIR *d = boot ? opendir(boot) : NULL;
	struct dirent *e;
	int r = 0;

	if (!boot)
		return gb_nomem(err);
	while (d && r == 0 && (e = readdir(d)))
		r = consider(root, e->d_name, ret, err);
	if (d)
		closedir(d);
	return r;
}

int gb_boot_find_kernel(const char *root, struct gb_boot_paths *ret, struct gb_err *err)
{
	gb_auto_free char *release = NULL;
	gb_auto_free char *kernel = NULL;
	gb_auto_free char *modules = NULL;
	int r = newest_release(root, &release, err);

	if (r < 0)
		return r;
	if (!release)
		return gb_fail(err, GB_E_NOTFOUND,
			"no kernel in '%s': it needs boot/vmlinuz-R and lib/modules/R",
			root);
	if (asprintf(&kernel, "%s/boot/" KERNEL_PREFIX "%s", root, release) < 0) {
		kernel = NULL;
		return gb_nomem(err);
	}
	r = modules_of_release(root, release, &modules, err);
	if (r < 0)
		return r;
	ret->kernel = gb_take_ptr(kernel);
	ret->modules = gb_take_ptr(modules);
	return 0;
}

/* The kernel that this host runs, if it can be read. */
static int find_host_kernel(struct gb_boot_paths *ret, struct gb_err *err)
{
	struct utsname u;
	gb_auto_free char *kernel = NULL;
	gb_auto_free char *modules = NULL;
	int r;

	if (uname(&u) < 0)
		return gb_fail_sys(err, errno, "cannot ask for the kernel's name");
	r = modules_of_release("", u.release, &modules, err);
	if (r < 0)
		return r;
	if (asprintf(&kernel, "/boot/" KERNEL_PREFIX "%s", u.release) < 0) {
		kernel = NULL;
		return gb_nomem(err);
	}
	if (modules && access(kernel, R_OK) < 0) {
		free(kernel);
		kernel = gb_path_join(modules, "vmlinuz");
		if (!kernel)
			return gb_nomem(err);
	}
	if (!modules || access(kernel, R_OK) < 0)
		return gb_fail(
			err, GB_E_NOTFOUND, "the host's own kernel is not readable");
	ret->kernel = gb_take_ptr(kernel);
	ret->modules = gb_take_ptr(modules);
	return 0;
}

static int find_near_program(struct gb_boot_paths *ret, struct gb_err *err)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return gb_fail_sys(err, errno, "cannot find this program's own path");
	exe[n] = 0;
	*strrchr(exe, '/') = 0;
	for (size_t i = 0; i < GB_ARRAY_SIZE(kernel_roots); i++) {
		gb_auto_free char *joined = NULL;
		gb_auto_free char *root = NULL;
		int r;

		if (asprintf(&joined, "%s%s", exe, kernel_roots[i]) < 0) {
			joined = NULL;
			return gb_nomem(err);
		}
		root = realpath(joined, NULL);
		r = root ? gb_boot_find_kernel(root, ret, err) : GB_E_NOTFOUND;
		if (r != GB_E_NOTFOUND)
			return r;
	}
	return GB_E_NOTFOUND;
}

static int locate_default(struct gb_boot_paths *ret, struct gb_err *err)
{
	const char *dir = getenv("GLOVEBOX_KERNEL_DIR");
	int r;

	if (dir && *dir) {
		r = gb_boot_find_kernel(dir, ret, err);
		return r < 0 ? gb_wrap(err, r, "GLOVEBOX_KERNEL_DIR") : 0;
	}
	r = find_near_program(ret, err);
	if (r == GB_E_NOTFOUND)
		r = find_host_kernel(ret, err);
	if (r == GB_E_NOTFOUND)
		return gb_fail(err, r,
			"no guest kernel: run 'make deps', set GLOVEBOX_KERNEL_DIR to an "
			"unpacked kernel package, or give --kernel and --modules");
	return r;
}

/* The modules of boot/vmlinuz-R lie in ../lib/modules/R, as in every distribution. */
static int modules_beside(const char *kernel, char **ret, struct gb_err *err)
{
	const char *name = gb_path_base(kernel);
	gb_auto_free char *root = NULL;
	int r = 0;

	if (gb_starts_with(name, KERNEL_PREFIX)) {
		if (asprintf(&root, "%.*s..", (int)(name - kernel), kernel) < 0) {
			root = NULL;
			return gb_nomem(err);
		}
		r = modules_of_release(root, name + strlen(KERNEL_PREFIX), ret, err);
	}
	if (r == 0 && !*ret)
		return gb_fail(err, GB_E_NOTFOUND,
			"no modules found for kernel '%s': give --modules as well",
			kernel);
	return r;
}

static int locate_given(
	const struct gb_boot_source *s, struct gb_boot_paths *ret, struct gb_err *err)
{
	if (!s->kernel)
		return gb_fail(err, GB_E_INVALID, "--modules needs --kernel");
	if (access(s->kernel, R_OK) < 0)
		return gb_fail_sys(err, errno, "cannot read kernel '%s'", s->kernel);
	ret->kernel = strdup(s->kernel);
	if (!ret->kernel)
		return gb_nomem(err);
	if (!s->modules)
		return modules_beside(s->kernel, &ret->modules, err);
	if (!is_folder(s->modules))
		return gb_fail(err, GB_E_NOTFOUND, "modules folder '%s' does not exist",
			s->modules);
	ret->modules = strdup(s->modules);
	return ret->modules ? 0 : gb_nomem(err);
}

static int locate_agent(
	const struct gb_boot_source *s, struct gb_boot_paths *ret, struct gb_err *err)
{
	if (!s->agent)
		return gb_role_path("agent", &ret->agent, err);
	if (access(s->agent, R_OK) < 0)
		return gb_fail_sys(err, errno, "cannot read agent '%s'", s->agent);
	ret->agent = strdup(s->agent);
	return ret->agent ? 0 : gb_nomem(err);
}

int gb_boot_locate(
	const struct gb_boot_source *s, struct gb_boot_paths *ret, struct gb_err *err)
{
	gb_auto_done(gb_boot_paths) found = {0};
	int r;

	if (s->kernel || s->modules)
		r = locate_given(s, &found, err);
	else
		r = locate_default(&found, err);
	if (r == 0)
		r = locate_agent(s, &found, err);
	if (r < 0)
		return r;
	*ret = found;
	memset(&found, 0, sizeof(found));
	return 0;
}

int gb_modules_index_path(const char *modules, char **ret, struct gb_err *err)
{
	static const char *const files[] = {"modules.dep", "modules.order"};

	for (size_t i = 0; i < GB_ARRAY_SIZE(files); i++) {
		gb_auto_free char *path = gb_path_join(modules, files[i]);

		if (!path)
			return gb_nomem(err);
		if (access(path, R_OK) == 0) {
			*ret = gb_take_ptr(path);
			return 0;
		}
	}
	return gb_fail(err, GB_E_NOTFOUND,
		"no modules.dep and no modules.order in '%s': it must be a "
		"lib/modules/RELEASE folder",
		modules);
}

static int add_file(struct gb_buf *key, const char *path, struct gb_err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return gb_fail_sys(err, errno, "cannot look at '%s'", path);
	gb_buf_printf(key, "%s %" PRIu64 " %" PRId64 ".%09ld %" PRIu64 ":%" PRIu64 "\n",
		path, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
	return 0;
}

int gb_bundle_key_init(struct gb_bundle_key *k, const char *cache_dir,
	const struct gb_boot_paths *p, struct gb_err *err)
{
	gb_auto_done(gb_buf) key = {.max = GB_BUNDLE_INDEX_MAX - GB_BUNDLE_ID_LEN - 1};
	gb_auto_free char *index = NULL;
	int r;

	memset(k, 0, sizeof(*k));
	gb_buf_add_str(&key, GB_BUNDLE_FORMAT "\n");
	r = gb_modules_index_path(p->modules, &index, err);
	if (r == 0)
		r = add_file(&key, p->kernel, err);
	if (r == 0)
		r = add_file(&key, index, err);
	if (r == 0)
		r = add_file(&key, p->agent, err);
	if (r == 0)
		r = gb_buf_check(&key, "the bundle's key", err);
	if (r < 0)
		return r;
	if (asprintf(&k->index_path, "%s/boot/index/%016" PRIx64, cache_dir,
		    gb_fnv1a(key.data, key.len, GB_FNV1A_SEED)) < 0) {
		k->index_path = NULL;
		return gb_nomem(err);
	}
	k->text = gb_buf_take_str(&key);
	if (k->text)
		return 0;
	gb_bundle_key_done(k);
	return gb_nomem(err);
}

void gb_bundle_key_done(struct gb_bundle_key *k)
{
	free(k->text);
	free(k->index_path);
	memset(k, 0, sizeof(*k));
}

int gb_bundle_key_lookup(const struct gb_bundle_key *k, const char *cache_dir,
	char **ret_dir, struct gb_err *err)
{
	gb_auto_done(gb_buf) index = {0};
	gb_auto_free char *dir = NULL;
	gb_auto_free char *manifest = NULL;
	const char *text;

	if (gb_file_read(AT_FDCWD, k->index_path, GB_BUNDLE_INDEX_MAX, &index, NULL) < 0)
		return gb_fail(err, GB_E_NOTFOUND, "no boot bundle was made yet");
	text = (const char *)index.data;
	if (index.len <= GB_BUNDLE_ID_LEN || text[GB_BUNDLE_ID_LEN] != '\n' ||
		strspn(text, "0123456789abcdef") != GB_BUNDLE_ID_LEN ||
		strcmp(text + GB_BUNDLE_ID_LEN + 1, k->text) != 0)
		return gb_fail(
			err, GB_E_NOTFOUND, "the boot bundle's sources have changed");
	if (asprintf(&dir, "%s/boot/%.*s", cache_dir, GB_BUNDLE_ID_LEN, text) < 0) {
		dir = NULL;
		return gb_nomem(err);
	}
	/* it was renamed into place whole, so one file stands for all */
	manifest = gb_path_join(dir, "bundle.json");
	if (!manifest)
		return gb_nomem(err);
	if (access(manifest, R_OK) < 0)
		return gb_fail(err, GB_E_NOTFOUND, "the boot bundle was removed");
	/* says when it was used last, for who clears up */
	utimensat(AT_FDCWD, manifest, NULL, 0);
	*ret_dir = gb_take_ptr(dir);
	return 0;
}

int gb_bundle_lookup(const char *cache_dir, const struct gb_boot_paths *p, char **ret_dir,
	struct gb_err *err)
{
	gb_auto_done(gb_bundle_key) key = {0};
	int r = gb_bundle_key_init(&key, cache_dir, p, err);

	if (r < 0)
		return r;
	return gb_bundle_key_lookup(&key, cache_dir, ret_dir, err);
}
