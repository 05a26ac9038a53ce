/* Finding a kernel, making a boot bundle of it, and looking it up. */
#include "vmm/prepare.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "samples.h"
#include "vmm/bundle_parts.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define MAKERS 6

/* A world of its own for every test: HOME/kernel, HOME/agent, HOME/cache. */
struct world {
	char *home;
	char *cache;
	char *agent;
	char *kernel_dir;
};

static char *in(const struct world *w, const char *name)
{
	char *path = gb_path_join(w->home, name);

	assert_non_null(path);
	return path;
}

static void put(const struct world *w, const char *name, const void *data, size_t len)
{
	char *path = in(w, name);
	char *slash = strrchr(path, '/');

	*slash = 0;
	assert_int_equal(gb_mkdir_p(path, 0700, NULL), 0);
	*slash = '/';
	assert_int_equal(gb_file_write_atomic(AT_FDCWD, path, data, len, 0700, NULL), 0);
	free(path);
}

static void put_kernel(const struct world *w, const char *name)
{
	struct gb_buf vmlinux = {0};
	struct gb_buf file = {0};

	sample_vmlinux(&vmlinux, true);
	assert_true(sample_bzimage(&file, &vmlinux, PACK_LZ4));
	put(w, name, file.data, file.len);
	gb_buf_done(&vmlinux);
	gb_buf_done(&file);
}

#define MODULES "kernel/lib/modules/" SAMPLE_RELEASE

static void put_modules(const struct world *w)
{
	static const char builtin[] = "kernel/ext4.ko\nkernel/fuse.ko\n";
	static const char *const rows[][2] = {
		{"virtio", "depends=|"},
		{"virtio_mmio", "depends=virtio|"},
		{"virtio_console", "depends=virtio|"},
		{"virtio_blk", "depends=virtio|"},
	};
	struct gb_buf order = {0};

	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		struct gb_buf module = {0};
		char path[128];

		sample_module(&module, rows[i][1]);
		snprintf(path, sizeof(path), MODULES "/kernel/%s.ko", rows[i][0]);
		put(w, path, module.data, module.len);
		gb_buf_printf(&order, "kernel/%s.ko\n", rows[i][0]);
		gb_buf_done(&module);
	}
	put(w, MODULES "/modules.order", order.data, order.len);
	put(w, MODULES "/modules.builtin", builtin, strlen(builtin));
	gb_buf_done(&order);
}

static int setup(void **state)
{
	const char *base = getenv("TMPDIR");
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->home = gb_path_join(base && *base ? base : "/tmp", "gb-bundle-XXXXXX");
	assert_non_null(w->home);
	assert_non_null(mkdtemp(w->home));
	w->cache = in(w, "deep/cache");
	w->agent = in(w, "agent");
	w->kernel_dir = in(w, "kernel");
	put_kernel(w, "kernel/boot/vmlinuz-" SAMPLE_RELEASE);
	put_modules(w);
	put(w, "agent", "the agent", 9);
	setenv("GLOVEBOX_KERNEL_DIR", w->kernel_dir, 1);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	int r = gb_rm_tree(AT_FDCWD, w->home, NULL);

	unsetenv("GLOVEBOX_KERNEL_DIR");
	free(w->home);
	free(w->cache);
	free(w->agent);
	free(w->kernel_dir);
	free(w);
	return r;
}

static void locate(const struct world *w, struct gb_boot_paths *ret)
{
	struct gb_boot_source s = {.agent = w->agent};
	struct gb_err err;

	if (gb_boot_locate(&s, ret, &err) < 0)
		fail_msg("%s", err.msg);
}

static char *make(const struct world *w, const struct gb_boot_paths *p)
{
	struct gb_err err;
	char *dir = NULL;

	if (gb_bundle_make(w->cache, p, NULL, NULL, &dir, &err) < 0)
		fail_msg("%s", err.msg);
	return dir;
}

/* What is in the cache's boot folder: bundles, and what should not be left there. */
static void count_entries(const struct world *w, int *bundles, int *others)
{
	char *path = in(w, "deep/cache/boot");
	DIR *d = opendir(path);
	struct dirent *e;

	assert_non_null(d);
	*bundles = 0;
	*others = 0;
	while ((e = readdir(d))) {
		if (strlen(e->d_name) == 64)
			++*bundles;
		else if (!gb_streq(e->d_name, ".") && !gb_streq(e->d_name, "..") &&
			 !gb_streq(e->d_name, "index"))
			++*others;
	}
	closedir(d);
	free(path);
}

static void test_locate_env(void **state)
{
	struct world *w = *state;
	struct gb_boot_paths p = {0};
	char *newer = in(w, "kernel/usr/lib/modules/6.10.0-test");
	char *older = in(w, "kernel/lib/modules/6.9.0-test");

	locate(w, &p);
	assert_true(strstr(p.kernel, "/kernel/boot/vmlinuz-" SAMPLE_RELEASE));
	assert_true(strstr(p.modules, "/" MODULES));
	assert_string_equal(p.agent, w->agent);
	gb_boot_paths_done(&p);
	/* a newer one counts (10 is over 1) as soon as its modules are there too */
	put_kernel(w, "kernel/boot/vmlinuz-6.10.0-test");
	put_kernel(w, "kernel/boot/vmlinuz-6.9.0-test");
	locate(w, &p);
	assert_true(strstr(p.kernel, "vmlinuz-" SAMPLE_RELEASE));
	gb_boot_paths_done(&p);
	assert_int_equal(gb_mkdir_p(older, 0700, NULL), 0);
	assert_int_equal(gb_mkdir_p(newer, 0700, NULL), 0);
	locate(w, &p);
	assert_true(strstr(p.kernel, "vmlinuz-6.10.0-test"));
	assert_string_equal(p.modules, newer);
	gb_boot_paths_done(&p);
	free(newer);
	free(older);
}

static void test_locate_given(void **state)
{
	struct world *w = *state;
	struct gb_boot_paths p = {0};
	struct gb_err err;
	char *kernel = in(w, "kernel/boot/vmlinuz-" SAMPLE_RELEASE);
	char *modules = in(w, MODULES);
	char *lonely = in(w, "bzImage");
	struct gb_boot_source s = {.kernel = kernel, .agent = w->agent};

	setenv("GLOVEBOX_KERNEL_DIR", "/nonexistent", 1);
	assert_int_equal(gb_boot_locate(&s, &p, &err), 0);
	assert_string_equal(p.kernel, kernel);
	assert_true(strstr(p.modules, "lib/modules/" SAMPLE_RELEASE));
	gb_boot_paths_done(&p);
	put_kernel(w, "bzImage");
	s.kernel = lonely;
	assert_int_equal(gb_boot_locate(&s, &p, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "--modules"));
	s.modules = modules;
	assert_int_equal(gb_boot_locate(&s, &p, &err), 0);
	assert_string_equal(p.modules, modules);
	gb_boot_paths_done(&p);
	s.modules = "/nonexistent";
	assert_int_equal(gb_boot_locate(&s, &p, &err), GB_E_NOTFOUND);
	s.kernel = NULL;
	assert_int_equal(gb_boot_locate(&s, &p, &err), GB_E_INVALID);
	s.kernel = "/nonexistent";
	assert_int_equal(gb_boot_locate(&s, &p, &err), GB_E_NOTFOUND);
	s = (struct gb_boot_source){.agent = w->agent};
	assert_int_equal(gb_boot_locate(&s, &p, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "GLOVEBOX_KERNEL_DIR"));
	setenv("GLOVEBOX_KERNEL_DIR", w->kernel_dir, 1);
	s.agent = "/nonexistent";
	assert_int_equal(gb_boot_locate(&s, &p, &err), GB_E_NOTFOUND);
	assert_null(p.kernel);
	free(kernel);
	free(modules);
	free(lonely);
}

static void check_manifest(const char *dir)
{
	char *path = gb_path_join(dir, "bundle.json");
	json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	json_t *modules = json_object_get(root, "modules");

	assert_non_null(root);
	assert_string_equal(
		json_string_value(json_object_get(root, "id")), gb_path_base(dir));
	assert_string_equal(json_string_value(json_object_get(root, "kernel_release")),
		SAMPLE_RELEASE);
	assert_true(json_is_true(json_object_get(root, "pvh")));
	assert_int_equal(json_array_size(modules), 4);
	assert_string_equal(json_string_value(json_array_get(modules, 0)), "virtio");
	json_decref(root);
	free(path);
}

static void check_files(const char *dir)
{
	char *path = gb_path_join(dir, "kernel");
	struct gb_buf got = {0};
	struct gb_buf want = {0};

	sample_vmlinux(&want, true);
	assert_int_equal(gb_file_read(AT_FDCWD, path, 1 << 20, &got, NULL), 0);
	assert_int_equal(got.len, want.len);
	assert_memory_equal(got.data, want.data, want.len);
	free(path);
	gb_buf_reset(&got);
	path = gb_path_join(dir, "initramfs");
	assert_int_equal(gb_file_read(AT_FDCWD, path, 1 << 20, &got, NULL), 0);
	assert_non_null(memmem(got.data, got.len, "the agent", 9));
	assert_non_null(memmem(got.data, got.len,
		"/modules/00-virtio.ko\n/modules/01-virtio_mmio.ko\n", 48));
	free(path);
	gb_buf_done(&got);
	gb_buf_done(&want);
}

static void test_make_and_lookup(void **state)
{
	struct world *w = *state;
	struct gb_boot_paths p = {0};
	struct gb_err err;
	char *dir = NULL;
	char *again = NULL;
	char *found = NULL;
	int bundles, others;

	locate(w, &p);
	assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, &err), GB_E_NOTFOUND);
	dir = make(w, &p);
	check_manifest(dir);
	check_files(dir);
	assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, &err), 0);
	assert_string_equal(found, dir);
	again = make(w, &p);
	assert_string_equal(again, dir);
	count_entries(w, &bundles, &others);
	assert_int_equal(bundles, 1);
	assert_int_equal(others, 0);
	free(dir);
	free(again);
	free(found);
	gb_boot_paths_done(&p);
}

/* Each source is noticed when it changes; the same content gives the same bundle. */
static void test_changes(void **state)
{
	struct world *w = *state;
	struct gb_boot_paths p = {0};
	char *dir, *second, *third;
	char *found = NULL;

	locate(w, &p);
	dir = make(w, &p);
	put(w, "agent", "an agent", 8);
	assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, NULL), GB_E_NOTFOUND);
	second = make(w, &p);
	assert_string_not_equal(dir, second);
	put(w, "agent", "the agent", 9); /* as before, but another inode */
	assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, NULL), GB_E_NOTFOUND);
	third = make(w, &p);
	assert_string_equal(dir, third);
	put_kernel(w, "kernel/boot/vmlinuz-" SAMPLE_RELEASE);
	assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, NULL), GB_E_NOTFOUND);
	free(make(w, &p));
	put_modules(w);
	assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, NULL), GB_E_NOTFOUND);
	assert_null(found);
	free(dir);
	free(second);
	free(third);
	gb_boot_paths_done(&p);
}

static void damage_index(const struct world *w, int how)
{
	char *path = in(w, "deep/cache/boot/index");
	DIR *d = opendir(path);
	struct dirent *e;
	struct gb_buf text = {0};

	assert_non_null(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			break;
	assert_non_null(e);
	assert_int_equal(gb_file_read(dirfd(d), e->d_name, 65536, &text, NULL), 0);
	switch (how) {
	case 0:
		text.len = 10;
		break;
	case 1:
		memcpy(text.data, "../../..", 8);
		break;
	case 2:
		text.data[70] ^= 1;
		break;
	default:
		text.data[5] = text.data[5] == 'a' ? 'b' : 'a';
	}
	assert_int_equal(gb_file_write_atomic(
				 dirfd(d), e->d_name, text.data, text.len, 0600, NULL),
		0);
	closedir(d);
	gb_buf_done(&text);
	free(path);
}

static void put_old_bundle(const struct world *w, unsigned number, time_t used)
{
	struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
	char name[128];
	char *path;

	snprintf(name, sizeof(name), "deep/cache/boot/%063d%x/bundle.json", 0, number);
	put(w, name, "{}", 2);
	path = in(w, name);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	free(path);
}

static bool is_left(const struct world *w, unsigned number)
{
	char name[128];
	char *path;
	bool found;

	snprintf(name, sizeof(name), "deep/cache/boot/%063d%x", 0, number);
	path = in(w, name);
	found = access(path, F_OK) == 0;
	free(path);
	return found;
}

/* The four used last stay, and those of the last hour in any case. */
static void test_old_ones_go(void **state)
{
	struct world *w = *state;
	struct gb_boot_paths p = {0};
	char *folder = in(w, "deep/cache/boot");
	char *found = NULL;
	char *dir;

	locate(w, &p);
	dir = make(w, &p);
	for (unsigned i = 0; i < 8; i++)
		put_old_bundle(w, i, time(NULL) - (i < 2 ? 0 : 2 * GB_BUNDLE_IN_USE_S + i));
	gb_bundle_clear_up(folder);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(is_left(w, i), i < GB_BUNDLES_KEPT - 1);
	for (unsigned i = 2; i < 8; i++)
		put_old_bundle(w, i, time(NULL));
	gb_bundle_clear_up(folder);
	for (unsigned i = 0; i < 8; i++)
		assert_true(is_left(w, i));
	assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, NULL), 0);
	assert_string_equal(found, dir);
	free(found);
	free(dir);
	free(folder);
	gb_boot_paths_done(&p);
}

static void test_damage(void **state)
{
	static const char *const files[] = {"kernel", "initramfs", "bundle.json"};
	struct world *w = *state;
	struct gb_boot_paths p = {0};
	char *dir;
	char *found = NULL;

	locate(w, &p);
	dir = make(w, &p);
	for (int how = 0; how < 4; how++) {
		damage_index(w, how);
		assert_int_equal(
			gb_bundle_lookup(w->cache, &p, &found, NULL), GB_E_NOTFOUND);
		free(make(w, &p));
		assert_int_equal(gb_bundle_lookup(w->cache, &p, &found, NULL), 0);
		assert_string_equal(found, dir);
		free(found);
		found = NULL;
	}
	/* somebody has been at the bundle: made again in its place */
	for (size_t i = 0; i < GB_ARRAY_SIZE(files); i++) {
		char *path = gb_path_join(dir, files[i]);

		assert_int_equal(unlink(path), 0);
		damage_index(w, 0);
		free(make(w, &p));
		assert_int_equal(access(path, R_OK), 0);
		free(path);
	}
	free(dir);
	gb_boot_paths_done(&p);
}

static void test_failures(void **state)
{
	struct world *w = *state;
	struct gb_boot_paths p = {0};
	struct gb_err err;
	char *blk = in(w, MODULES "/kernel/virtio_blk.ko");
	char *dir = NULL;
	int bundles, others;

	locate(w, &p);
	assert_int_equal(unlink(blk), 0);
	assert_int_equal(
		gb_bundle_make(w->cache, &p, NULL, NULL, &dir, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "virtio_blk"));
	put(w, "kernel/boot/vmlinuz-" SAMPLE_RELEASE, "rubbish", 7);
	assert_int_equal(
		gb_bundle_make(w->cache, &p, NULL, NULL, &dir, &err), GB_E_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "cannot make a boot bundle: kernel '"));
	count_entries(w, &bundles, &others);
	assert_int_equal(bundles + others, 0);
	free(blk);
	gb_boot_paths_done(&p);
}

/* A host without room: one clear line, nothing left behind. */
static void test_no_room(void **state)
{
	struct world *w = *state;
	pid_t pid = fork();
	int status = -1;
	int bundles, others;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct rlimit limit = {.rlim_cur = 1000, .rlim_max = 1000};
		struct gb_boot_source s = {.agent = w->agent};
		struct gb_boot_paths p = {0};
		struct gb_err err = {0};
		char *dir = NULL;

		signal(SIGXFSZ, SIG_IGN);
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0 || gb_boot_locate(&s, &p, NULL) < 0)
			_exit(1);
		if (gb_bundle_make(w->cache, &p, NULL, NULL, &dir, &err) >= 0)
			_exit(2);
		_exit(strstr(err.msg, "cannot write 'kernel'") ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	count_entries(w, &bundles, &others);
	assert_int_equal(bundles + others, 0);
}

static void count_line(void *ctx, const char *line)
{
	if (gb_starts_with(line, "boot bundle "))
		++*(int *)ctx;
}

static __attribute__((noreturn)) void maker(const struct world *w, int report)
{
	struct gb_boot_source s = {.agent = w->agent};
	struct gb_boot_paths p = {0};
	char *dir = NULL;
	int made = 0;
	uint8_t byte;

	if (gb_boot_locate(&s, &p, NULL) < 0 ||
		gb_bundle_make(w->cache, &p, count_line, &made, &dir, NULL) < 0)
		_exit(1);
	byte = (uint8_t)made;
	_exit(write(report, &byte, 1) != 1);
}

/* Of many processes that want it at once, one makes it. */
static void test_single_flight(void **state)
{
	struct world *w = *state;
	int fds[2];
	uint8_t bytes[MAKERS];
	size_t got = 0;
	int made = 0;
	int bundles, others;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	for (int i = 0; i < MAKERS; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0)
			maker(w, fds[1]);
	}
	close(fds[1]);
	assert_int_equal(gb_fd_read_full(fds[0], bytes, sizeof(bytes), &got, NULL), 0);
	close(fds[0]);
	for (int i = 0; i < MAKERS; i++) {
		int status = -1;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(got, MAKERS);
	for (size_t i = 0; i < got; i++)
		made += bytes[i];
	assert_int_equal(made, 1);
	count_entries(w, &bundles, &others);
	assert_int_equal(bundles, 1);
	assert_int_equal(others, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_locate_env),
		T(test_locate_given),
		T(test_make_and_lookup),
		T(test_changes),
		T(test_old_ones_go),
		T(test_damage),
		T(test_failures),
		T(test_no_room),
		T(test_single_flight),
	};

	return cmocka_run_group_tests_name("boot bundles", tests, NULL, NULL);
}
