#include "rows.h"
#include "tmpdir.h"

#include "base/fd.h"
#include "guest/copy.h"
#include "proto/tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A tree as text, an entry each: kind, path, and after '=' content or link: "d", "fa=text".
 * Modes are 0750 for folders and 0640 for the rest, the time is 1000000000.5. */
static void put_tree(struct gb_buf *b, const char *const *entries, bool end)
{
	for (; *entries; entries++) {
		const char *eq = strchr(*entries, '=');
		char path[256];
		struct gb_msg_entry e = { .path = path, .mode = 0640, .mtime_s = 1000000000,
			.mtime_ns = 500000000 };

		snprintf(path, sizeof(path), "%.*s", (int)(eq ? eq - *entries - 1 : 255),
			*entries + 1);
		e.kind = **entries == 'd' ? GB_TREE_DIR :
			**entries == 'l'  ? GB_TREE_LINK :
			**entries == 'p'  ? GB_TREE_FIFO :
					    GB_TREE_FILE;
		if (e.kind == GB_TREE_DIR)
			e.mode = 0750;
		if (e.kind == GB_TREE_FILE && eq)
			e.size = strlen(eq + 1);
		if (e.kind == GB_TREE_LINK)
			e.link = (char *)(uintptr_t)(eq + 1);
		gb_tree_add(b, &e);
		if (e.size)
			gb_buf_add_str(b, eq + 1);
	}
	if (end) {
		struct gb_msg_entry last = { .kind = GB_TREE_END };

		gb_tree_add(b, &last);
	}
}

struct in_row {
	const char *name;
	const char *path; /* "PATH" or "PATH|NAME": the name in a folder that is there */
	unsigned flags;
	const char *entries[8];
	int code;
	bool cut; /* no END */
	const char *expect[8]; /* "PATH=CONTENT", "PATH>LINK", "PATH/" a folder, "!PATH" is absent */
};

/* In the root: folder "dir" with the file "dir/old", link "out" to "..", link "to" to "dir",
 * file "plain", FIFO "fifo". Beside the root is the file "secret". */
static const struct in_row in_rows[] = {
	{ "in: a file", "/new", 0, { "f=hello" }, 0, false, { "root/new=hello" } },
	{ "in: an empty file", "/new", 0, { "f" }, 0, false, { "root/new=" } },
	{ "in: a file is replaced", "/plain", 0, { "f=hello" }, 0, false, { "root/plain=hello" } },
	{ "in: a FIFO is replaced", "/fifo", 0, { "f=hello" }, 0, false, { "root/fifo=hello" } },
	{ "in: a link is replaced, not followed", "/to", 0, { "f=hello" }, 0, false,
		{ "root/to=hello", "root/dir/old=old" } },
	{ "in: a folder is not replaced by a file", "/dir", 0, { "f=hello" }, GB_E_EXISTS, false,
		{ "root/dir/old=old" } },
	{ "in: a file where a folder is said to be", "/new", GB_COPY_INTO_DIR, { "f=x" },
		GB_E_NOTFOUND, false, { "!root/new" } },
	{ "in: a file into a folder", "/dir/|f", GB_COPY_INTO_DIR, { "f=x" }, 0, false,
		{ "root/dir/f=x", "root/dir/old=old" } },
	{ "in: a tree into a folder, under its name", "/dir|t", 0, { "d", "fa=A" }, 0, false,
		{ "root/dir/t/a=A", "!root/dir/a" } },
	{ "in: no folder there: the exact place", "/tree|t", 0, { "d", "fa=A" }, 0, false,
		{ "root/tree/a=A", "!root/tree/t" } },
	{ "in: into a link to a folder", "/to|t", 0, { "f=x" }, 0, false,
		{ "root/dir/t=x", "root/to>dir" } },
	{ "in: a file said to be a folder", "/plain/|f", GB_COPY_INTO_DIR, { "f=x" },
		GB_E_NOTFOUND, false, { "root/plain=plain" } },
	{ "in: into the root, over a link to a folder", "/|to", 0, { "d", "fa=A" }, GB_E_IO, false,
		{ "!root/dir/a", "root/to>dir" } },
	{ "in: a file over a folder in a folder", "/|dir", 0, { "f=x" }, GB_E_EXISTS, false,
		{ "root/dir/old=old" } },
	{ "in: a name that leads out", "/dir|../evil", 0, { "f=x" }, GB_E_PROTOCOL, false,
		{ "!root/evil" } },
	{ "in: a name of dots", "/dir|..", 0, { "f=x" }, GB_E_PROTOCOL, false,
		{ "root/plain=plain" } },
	{ "in: a tree", "/tree", 0, { "d", "fa=A", "dsub", "fsub/b=B", "lsub/l=../a", "psub/p" }, 0,
		false, { "root/tree/a=A", "root/tree/sub/b=B", "root/tree/sub/l>../a" } },
	{ "in: a tree into a folder that is there", "/dir", 0, { "d", "fa=A" }, 0, false,
		{ "root/dir/old=old", "root/dir/a=A" } },
	{ "in: a tree through a link to a folder", "/to", 0, { "d", "fa=A" }, 0, false,
		{ "root/dir/a=A", "root/to>dir" } },
	{ "in: slashes at the end", "/dir//", GB_COPY_INTO_DIR, { "d", "fa=A" }, 0, false,
		{ "root/dir/a=A" } },
	{ "in: no parent", "/none/new", 0, { "f=x" }, GB_E_NOTFOUND, false, { "!root/none" } },
	{ "in: the path leads out, and stays in", "/out/secret", 0, { "f=x" }, 0, false,
		{ "secret=secret", "root/secret=x" } },
	{ "in: dots lead out, and stay in", "/../../secret", 0, { "f=x" }, 0, false,
		{ "secret=secret", "root/secret=x" } },
	{ "in: a link of the tree is not followed", "/tree", 0,
		{ "d", "lsub=..", "fsub/evil=x" }, GB_E_IO, false, { "!root/evil", "!evil" } },
	{ "in: a link that was there is not followed", "/", 0, { "d", "fto/evil=x" }, GB_E_IO,
		false, { "!root/dir/evil" } },
	{ "in: a folder over a link that was there", "/", 0, { "d", "dto", "fto/evil=x" },
		GB_E_EXISTS, false, { "!root/dir/evil" } },
	{ "in: a folder over a file that was there", "/", 0, { "d", "dplain" }, GB_E_EXISTS, false,
		{ "root/plain=plain" } },
	{ "in: a file below a file", "/new", 0, { "f=x", "fa=y" }, GB_E_PROTOCOL, false,
		{ "root/new=x" } },
	{ "in: dots in a path", "/tree", 0, { "d", "f../evil=x" }, GB_E_PROTOCOL, false,
		{ "!root/evil" } },
	{ "in: an absolute path", "/tree", 0, { "d", "f/evil=x" }, GB_E_PROTOCOL, false,
		{ "!root/evil" } },
	{ "in: cut between entries", "/tree", 0, { "d", "fa=A" }, GB_E_CLOSED, true,
		{ "root/tree/a=A" } },
	{ "in: nothing at all", "/new", 0, { NULL }, GB_E_CLOSED, true, { "!root/new" } },
	{ "in: ends in dots", "/dir/..", 0, { "d" }, GB_E_INVALID, false, { "root/dir/old=old" } },
	{ "in: a relative path", "new", 0, { "f=x" }, GB_E_INVALID, false, { "!root/new" } },
};

static bool put_file(const struct tmpdir *t, const char *path, const char *text)
{
	int fd = openat(t->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool lay_out(const struct tmpdir *t)
{
	return mkdirat(t->fd, "root", 0755) == 0 && mkdirat(t->fd, "root/dir", 0755) == 0 &&
		put_file(t, "root/dir/old", "old") && symlinkat("..", t->fd, "root/out") == 0 &&
		symlinkat("dir", t->fd, "root/to") == 0 && put_file(t, "root/plain", "plain") &&
		mkfifoat(t->fd, "root/fifo", 0644) == 0 && put_file(t, "secret", "secret");
}

/* Whether one expectation holds; prints what is there if not. */
static bool holds(const struct tmpdir *t, const char *expect)
{
	size_t len = strcspn(expect, "=>");
	char path[256], text[256];
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.*s", (int)len, expect);
	if (path[0] == '!')
		return fstatat(t->fd, path + 1, &st, AT_SYMLINK_NOFOLLOW) < 0;
	if (expect[len] == '>') {
		n = readlinkat(t->fd, path, text, sizeof(text) - 1);
	} else {
		fd = openat(t->fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
		if (fd >= 0)
			close(fd);
	}
	if (n < 0)
		return false;
	text[n] = 0;
	return strcmp(text, expect + len + 1) == 0;
}

/* Everything goes through a file: it cannot block, whatever its size. */
static int run_in(const struct tmpdir *t, const struct in_row *row, struct gb_err *err)
{
	const char *bar = strchr(row->path, '|');
	gb_auto_free char *path = strndup(row->path, strcspn(row->path, "|"));
	struct gb_copy c = { .path = path, .name = bar ? bar + 1 : "", .flags = row->flags,
		.uid = getuid(), .gid = getgid() };
	struct gb_buf b = { 0 };
	int fd = openat(t->fd, "stream", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int r = -1000;

	put_tree(&b, row->entries, !row->cut);
	c.root = openat(t->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && c.root >= 0 && pwrite(fd, b.data ? b.data : (uint8_t *)"", b.len, 0) == (ssize_t)b.len)
		r = gb_copy_in(&c, fd, err);
	close(c.root);
	close(fd);
	gb_buf_done(&b);
	return r;
}

static size_t count_temps(const struct tmpdir *t, const char *where)
{
	char command[1024];
	size_t n = 0;
	FILE *f;

	snprintf(command, sizeof(command), "find '%s/%s' -name '.glovebox-copy*'", t->path, where);
	f = popen(command, "r");
	while (f && fgets(command, sizeof(command), f))
		n++;
	if (f)
		pclose(f);
	return n;
}

static void copy_in(void **state)
{
	const struct in_row *row = *state;
	const char *broken = NULL;
	struct gb_err err = { 0 };
	struct tmpdir t;
	size_t temps;
	int r = -1001;

	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	assert_true(tmpdir_make(&t));
	if (lay_out(&t))
		r = run_in(&t, row, &err);
	for (size_t i = 0; row->expect[i]; i++)
		if (!holds(&t, row->expect[i]))
			broken = row->expect[i];
	temps = count_temps(&t, "root");
	tmpdir_remove(&t);
	if (r != row->code)
		print_message("%d: %s\n", r, err.msg);
	assert_int_equal(r, row->code);
	assert_null(broken);
	assert_int_equal(temps, 0);
}

/* Modes and times are as they were sent, of folders too, though files were put into them. */
static void keeps_modes_and_times(void **state)
{
	static const struct in_row row = { "", "/tree", 0, { "d", "dsub", "fsub/a=A", "lsub/l=x" },
		0, false, { NULL } };
	static const struct {
		const char *path;
		mode_t mode;
	} wanted[] = { { "root/tree", 0750 }, { "root/tree/sub", 0750 },
		{ "root/tree/sub/a", 0640 }, { "root/tree/sub/l", 0777 } };
	struct stat st[GB_ARRAY_SIZE(wanted)];
	struct tmpdir t;
	int found = 0;
	int r = -1;

	(void)state;
	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	assert_true(tmpdir_make(&t));
	if (lay_out(&t))
		r = run_in(&t, &row, NULL);
	for (size_t i = 0; i < GB_ARRAY_SIZE(wanted); i++)
		found += fstatat(t.fd, wanted[i].path, &st[i], AT_SYMLINK_NOFOLLOW) == 0;
	tmpdir_remove(&t);
	assert_int_equal(r, 0);
	assert_int_equal(found, GB_ARRAY_SIZE(wanted));
	for (size_t i = 0; i < GB_ARRAY_SIZE(wanted); i++) {
		assert_int_equal(st[i].st_mode & 07777, wanted[i].mode);
		assert_int_equal(st[i].st_mtim.tv_sec, 1000000000);
		assert_int_equal(st[i].st_mtim.tv_nsec, 500000000);
	}
}

struct out_row {
	const char *name;
	const char *path;
	unsigned flags;
	int code;
	const char *entries; /* sorted, "KIND PATH" joined by ' ', content after '=' */
};
static const struct out_row out_rows[] = {
	{ "out: a file", "/plain", 0, 0, "f=plain" },
	{ "out: a folder", "/dir", 0, 0, "d fold=old" },
	{ "out: a link is a link", "/to", 0, 0, "l>dir" },
	{ "out: a link with a slash is the folder", "/to/", GB_COPY_INTO_DIR, 0, "d fold=old" },
	{ "out: through a link", "/to/old", 0, 0, "f=old" },
	{ "out: a FIFO does not block", "/fifo", 0, 0, "p" },
	{ "out: a file with a slash", "/plain/", GB_COPY_INTO_DIR, GB_E_NOTFOUND, NULL },
	{ "out: nothing there", "/none", 0, GB_E_NOTFOUND, NULL },
	{ "out: the way out stays in", "/out/secret", 0, GB_E_NOTFOUND, NULL },
	{ "out: dots stay in", "/../secret", 0, GB_E_NOTFOUND, NULL },
};

struct heard {
	struct gb_buf text;
};

static int heard_entry(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	static const char kinds[] = "?fdlp";
	struct heard *h = ctx;

	(void)err;
	gb_buf_printf(&h->text, "%s%c%s", h->text.len ? " " : "", kinds[e->kind], e->path);
	if (e->kind == GB_TREE_FILE)
		gb_buf_add_str(&h->text, "=");
	if (e->kind == GB_TREE_LINK)
		gb_buf_printf(&h->text, ">%s", e->link);
	return 0;
}

static int heard_content(void *ctx, const uint8_t *data, size_t len, struct gb_err *err)
{
	struct heard *h = ctx;

	(void)err;
	gb_buf_add(&h->text, data, len);
	return 0;
}

static int heard_end(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	(void)ctx;
	(void)e;
	(void)err;
	return 0;
}

static int run_out(const struct tmpdir *t, const struct out_row *row, char **ret_text, bool *ended)
{
	static const struct gb_tree_ops ops = { heard_entry, heard_content, heard_end };
	struct gb_copy c = { .path = row->path, .flags = row->flags };
	struct gb_tree_reader reader;
	struct heard h = { 0 };
	uint8_t data[65536];
	ssize_t n;
	int fd = openat(t->fd, "stream", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int r;

	c.root = openat(t->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = gb_copy_out(&c, fd, NULL);
	n = pread(fd, data, sizeof(data), 0);
	close(fd);
	close(c.root);
	gb_tree_reader_init(&reader);
	if (n < 0 || gb_tree_reader_feed(&reader, data, (size_t)n, &ops, &h, NULL) < 0)
		r = -1000;
	*ended = reader.ended;
	gb_tree_reader_done(&reader);
	*ret_text = gb_buf_take_str(&h.text);
	return r;
}

static void copy_out(void **state)
{
	const struct out_row *row = *state;
	struct tmpdir t;
	char *text = NULL;
	bool ended = false;
	int r = -1001;

	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	assert_true(tmpdir_make(&t));
	if (lay_out(&t))
		r = run_out(&t, row, &text, &ended);
	tmpdir_remove(&t);
	assert_int_equal(r, row->code);
	assert_int_equal(ended, row->code == 0);
	if (row->entries)
		assert_string_equal(text, row->entries);
	free(text);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, in_rows, copy_in);
	rows_add(&l, out_rows, copy_out);
	rows_add_one(&l, "in: modes and times are kept", keeps_modes_and_times);
	return rows_run("guest copy", &l);
}
