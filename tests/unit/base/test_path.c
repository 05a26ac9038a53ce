#include "rows.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "tmpdir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static struct tmpdir tmp;

static int make_tmp(void **state)
{
	(void)state;
	return tmpdir_make(&tmp) ? 0 : -1;
}

static int remove_tmp(void **state)
{
	(void)state;
	return tmpdir_remove(&tmp);
}

static void put(const char *name, const char *text)
{
	assert_int_equal(
		gb_file_write_atomic(tmp.fd, name, text, strlen(text), 0600, NULL), 0);
}

struct join_row {
	const char *name;
	const char *a;
	const char *b;
	const char *joined;
};

static const struct join_row join_rows[] = {
	{ "join: plain", "a", "b", "a/b" },
	{ "join: slash at the end", "a/", "b", "a/b" },
	{ "join: root", "/", "b", "/b" },
	{ "join: nothing before stays relative", "", "b", "b" },
	{ "join: nothing after", "a", "", "a/" },
};

static void join(void **state)
{
	const struct join_row *row = *state;
	char *s = gb_path_join(row->a, row->b);

	assert_string_equal(s, row->joined);
	free(s);
}

static void base_name(void **state)
{
	(void)state;
	assert_string_equal(gb_path_base("/a/b"), "b");
	assert_string_equal(gb_path_base("b"), "b");
	assert_string_equal(gb_path_base("a/"), "");
	assert_string_equal(gb_path_base(""), "");
}

static void mkdir_p(void **state)
{
	struct gb_err err = { 0 };
	struct stat st;

	(void)state;
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "a/b/c"), 0750, NULL), 0);
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "a/b/c"), 0700, NULL), 0);
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "a//b/d/"), 0700, NULL), 0);
	assert_int_equal(fstatat(tmp.fd, "a/b/c", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0750);
	put("file", "x");
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "file"), 0700, &err), GB_E_EXISTS);
	assert_non_null(strstr(err.msg, "is not a folder"));
	assert_true(gb_mkdir_p(tmpdir_at(&tmp, "file/below"), 0700, NULL) < 0);
	assert_true(gb_mkdir_p("", 0700, NULL) < 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "a", NULL), 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "file", NULL), 0);
}

static void mkdir_private(void **state)
{
	(void)state;
	assert_int_equal(gb_mkdir_private(tmpdir_at(&tmp, "p/q"), NULL), 0);
	assert_int_equal(gb_mkdir_private(tmpdir_at(&tmp, "p/q"), NULL), 0);
	assert_int_equal(fchmodat(tmp.fd, "p/q", 0755, 0), 0);
	assert_int_equal(gb_mkdir_private(tmpdir_at(&tmp, "p/q"), NULL), 0);
	assert_int_equal(fchmodat(tmp.fd, "p/q", 0775, 0), 0);
	assert_int_equal(gb_mkdir_private(tmpdir_at(&tmp, "p/q"), NULL), GB_E_DENIED);
	assert_int_equal(fchmodat(tmp.fd, "p/q", 0700, 0), 0);
	assert_int_equal(symlinkat("q", tmp.fd, "p/link"), 0);
	assert_int_equal(gb_mkdir_private(tmpdir_at(&tmp, "p/link"), NULL), GB_E_DENIED);
	if (geteuid() == 0) {
		assert_int_equal(fchownat(tmp.fd, "p/q", 1234, 1234, 0), 0);
		assert_int_equal(gb_mkdir_private(tmpdir_at(&tmp, "p/q"), NULL), GB_E_DENIED);
	}
	assert_int_equal(gb_rm_tree(tmp.fd, "p", NULL), 0);
}

/* root/ has in, link -> in, abs -> /in, out -> ../secret, up -> .., far -> /etc/hostname */
struct root_row {
	const char *name;
	const char *path;
	const char *content; /* NULL: cannot be opened */
};

static const struct root_row root_rows[] = {
	{ "in root: plain", "in", "inside" },
	{ "in root: absolute is below the root", "/in", "inside" },
	{ "in root: link", "link", "inside" },
	{ "in root: absolute link is below the root", "abs", "inside" },
	{ "in root: below a folder", "d/e", "deep" },
	{ "in root: up and down again", "d/../in", "inside" },
	{ "in root: .. stops at the root", "../in", "inside" },
	{ "in root: many .. stop at the root", "../../../../in", "inside" },
	{ "in root: a link out", "out", NULL },
	{ "in root: a folder link out", "up/secret", NULL },
	{ "in root: a link to a file of the host", "far", NULL },
	{ "in root: missing", "missing", NULL },
	{ "in root: magic link", "proc/self/cwd/in", NULL },
};

static void make_root(void)
{
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "root/d"), 0700, NULL), 0);
	put("root/in", "inside");
	put("root/d/e", "deep");
	put("secret", "secret");
	assert_int_equal(symlinkat("in", tmp.fd, "root/link"), 0);
	assert_int_equal(symlinkat("/in", tmp.fd, "root/abs"), 0);
	assert_int_equal(symlinkat("../secret", tmp.fd, "root/out"), 0);
	assert_int_equal(symlinkat("..", tmp.fd, "root/up"), 0);
	assert_int_equal(symlinkat("/etc/passwd", tmp.fd, "root/far"), 0);
	assert_int_equal(symlinkat("/proc", tmp.fd, "root/proc"), 0);
}

static void open_in_root(void **state)
{
	const struct root_row *row = *state;
	char text[16] = "";
	int root;
	int fd = -1;
	int r;

	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	make_root();
	root = openat(tmp.fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);
	r = gb_open_in_root(root, row->path, O_RDONLY, 0, &fd, NULL);
	if (row->content) {
		assert_int_equal(r, 0);
		assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		assert_true(read(fd, text, sizeof(text) - 1) > 0);
		assert_string_equal(text, row->content);
	} else {
		assert_true(r < 0);
		assert_int_equal(fd, -1);
	}
	gb_fd_close(&fd);
	close(root);
	assert_int_equal(gb_rm_tree(tmp.fd, "root", NULL), 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "secret", NULL), 0);
}

static void open_in_root_creates(void **state)
{
	struct stat st;
	int fd = -1;

	(void)state;
	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	assert_int_equal(
		gb_open_in_root(tmp.fd, "../new", O_WRONLY | O_CREAT | O_EXCL, 0640, &fd, NULL), 0);
	assert_int_equal(fstatat(tmp.fd, "new", &st, 0), 0);
	gb_fd_close(&fd);
	assert_int_equal(
		gb_open_in_root(tmp.fd, "new", O_WRONLY | O_CREAT | O_EXCL, 0640, &fd, NULL),
		GB_E_EXISTS);
	assert_int_equal(gb_rm_tree(tmp.fd, "new", NULL), 0);
}

static void rm_tree_does_not_follow_links(void **state)
{
	(void)state;
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "keep/sub"), 0700, NULL), 0);
	put("keep/file", "x");
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "gone/a"), 0700, NULL), 0);
	assert_int_equal(symlinkat("../keep", tmp.fd, "gone/link"), 0);
	assert_int_equal(symlinkat("/nowhere", tmp.fd, "gone/a/dangling"), 0);
	assert_int_equal(symlinkat("keep", tmp.fd, "toplink"), 0);
	assert_int_equal(mkfifoat(tmp.fd, "gone/fifo", 0600), 0);
	assert_int_equal(linkat(tmp.fd, "keep/file", tmp.fd, "gone/hard", 0), 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "gone", NULL), 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "toplink", NULL), 0);
	assert_int_equal(faccessat(tmp.fd, "gone", F_OK, 0), -1);
	assert_int_equal(faccessat(tmp.fd, "keep/file", F_OK, 0), 0);
	assert_int_equal(faccessat(tmp.fd, "keep/sub", F_OK, 0), 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "keep", NULL), 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "missing", NULL), 0);
}

/* levels folders below "deep", each inside the last */
static void make_deep(int levels)
{
	int at = tmp.fd;

	assert_int_equal(mkdirat(tmp.fd, "deep", 0700), 0);
	at = openat(tmp.fd, "deep", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < levels; i++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
}

static void rm_tree_depth(void **state)
{
	struct gb_err err = { 0 };
	char command[700];

	(void)state;
	make_deep(256);
	assert_int_equal(gb_rm_tree(tmp.fd, "deep", &err), 0);
	make_deep(257);
	assert_int_equal(gb_rm_tree(tmp.fd, "deep", &err), GB_E_LIMIT);
	snprintf(command, sizeof(command), "rm -rf '%s/deep'", tmp.path);
	assert_int_equal(pclose(popen(command, "r")), 0);
}

static void rm_tree_many_entries(void **state)
{
	char name[32];

	(void)state;
	assert_int_equal(mkdirat(tmp.fd, "many", 0700), 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		close(openat(tmp.fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	assert_int_equal(gb_rm_tree(tmp.fd, "many", NULL), 0);
	assert_int_equal(faccessat(tmp.fd, "many", F_OK, 0), -1);
}

struct dirs_row {
	const char *name;
	const char *variable[4]; /* GLOVEBOX_HOME, XDG_CONFIG_HOME, XDG_RUNTIME_DIR, HOME */
	const char *config;
	const char *runtime; /* NULL: /tmp/glovebox-UID */
	int code;
};

static const struct dirs_row dirs_rows[] = {
	{ "dirs: GLOVEBOX_HOME holds all", { "/g", "/c", "/r", "/h" }, "/g/config", "/g/run", 0 },
	{ "dirs: XDG", { NULL, "/c", "/r", "/h" }, "/c/glovebox", "/r/glovebox", 0 },
	{ "dirs: home", { NULL, NULL, NULL, "/h" }, "/h/.config/glovebox", NULL, 0 },
	{ "dirs: empty is unset", { "", "", "", "/h" }, "/h/.config/glovebox", NULL, 0 },
	{ "dirs: relative XDG is ignored", { NULL, "c", "r", "/h" }, "/h/.config/glovebox", NULL, 0 },
	{ "dirs: no home", { NULL, NULL, NULL, NULL }, "/.config/glovebox", NULL, 0 },
	{ "dirs: relative GLOVEBOX_HOME", { "g", NULL, NULL, "/h" }, NULL, NULL, GB_E_INVALID },
};

static const char *const dirs_variables[] = { "GLOVEBOX_HOME", "XDG_CONFIG_HOME",
	"XDG_RUNTIME_DIR", "HOME" };

static void dirs(void **state)
{
	const struct dirs_row *row = *state;
	struct gb_dirs d;
	char fallback[64];

	for (size_t i = 0; i < GB_ARRAY_SIZE(dirs_variables); i++) {
		if (row->variable[i])
			setenv(dirs_variables[i], row->variable[i], 1);
		else
			unsetenv(dirs_variables[i]);
	}
	assert_int_equal(gb_dirs_init(&d, NULL), row->code);
	if (row->code == 0) {
		snprintf(fallback, sizeof(fallback), "/tmp/glovebox-%u", (unsigned)getuid());
		assert_string_equal(d.config, row->config);
		assert_string_equal(d.runtime, row->runtime ? row->runtime : fallback);
		assert_non_null(d.data);
		assert_non_null(d.cache);
	}
	gb_dirs_done(&d);
}

static void role_path(void **state)
{
	struct gb_err err = { 0 };
	char *path = NULL;

	(void)state;
	unsetenv("GLOVEBOX_LIBEXEC");
	assert_int_equal(gb_role_path("no-such-role", &path, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "libexec/glovebox"));
	setenv("GLOVEBOX_LIBEXEC", "/x", 1);
	assert_int_equal(gb_role_path("share", &path, NULL), 0);
	assert_string_equal(path, "/x/glovebox-share");
	free(path);
	unsetenv("GLOVEBOX_LIBEXEC");
}

int main(void)
{
	static struct rows_list l;

	umask(022);
	rows_add(&l, join_rows, join);
	rows_add_one(&l, "base name", base_name);
	rows_add_one(&l, "mkdir -p", mkdir_p);
	rows_add_one(&l, "mkdir private", mkdir_private);
	rows_add(&l, root_rows, open_in_root);
	rows_add_one(&l, "in root: creates below the root", open_in_root_creates);
	rows_add_one(&l, "rm tree: links are not followed", rm_tree_does_not_follow_links);
	rows_add_one(&l, "rm tree: depth, both sides of the limit", rm_tree_depth);
	rows_add_one(&l, "rm tree: many entries", rm_tree_many_entries);
	rows_add(&l, dirs_rows, dirs);
	rows_add_one(&l, "role path", role_path);
	return _cmocka_run_group_tests("path", l.tests, l.n, make_tmp, remove_tmp);
}
