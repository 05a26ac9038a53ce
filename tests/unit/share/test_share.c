/* A share under a guest that lies: numbers, handles, counts, names; and under a host that
 * moves things about meanwhile. */
#include "raw.h"

static int setup(void **state)
{
	*state = raw_new(false, 4096);
	return *state ? 0 : -1;
}

static int setup_ro(void **state)
{
	struct raw *w = raw_new(true, 4096);

	*state = w;
	if (!w || !raw_file(w, "f", "text") || mkdirat(w->dir.fd, "d", 0755) < 0)
		return -1;
	return 0;
}

static int teardown(void **state)
{
	return raw_free(*state) ? 0 : -1;
}

static void test_init(void **state)
{
	struct raw *w = *state;
	struct fuse_init_in old = {.major = 7, .minor = 12}, next = {.major = 8};
	const struct fuse_init_out *out;

	assert_int_equal(raw_init(w), -EBUSY);
	assert_int_equal(raw_getattr(w, 1, NULL), 0);
	assert_int_equal(raw_plain(w, FUSE_DESTROY, 0), 0);
	assert_int_equal(raw_getattr(w, 1, NULL), -EIO);
	assert_int_equal(raw_arg(w, FUSE_INIT, 0, old), -EPROTO);
	assert_int_equal(raw_arg(w, FUSE_INIT, 0, next), 0);
	assert_int_equal(raw_getattr(w, 1, NULL), -EIO);
	assert_int_equal(raw_init(w), 0);
	out = w->data;
	assert_int_equal(out->major, 7);
	assert_int_equal(out->max_write, GB_FUSE_IO_MAX);
	assert_int_equal(
		out->flags & (FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS | FUSE_WRITEBACK_CACHE),
		0);
	assert_int_equal(raw_getattr(w, 1, NULL), 0);
	assert_int_equal(gb_share_reset(w->share, NULL), 0);
	assert_int_equal(raw_getattr(w, 1, NULL), -EIO);
}

static void test_numbers(void **state)
{
	static const uint64_t wrong[] = {0, 2, 7, UINT32_MAX, UINT64_C(1) << 32,
		UINT64_MAX, (UINT64_C(1) << 32) + 1};
	struct raw *w = *state;
	int64_t f, g, fh;
	struct fuse_read_in in = {.size = 10};

	assert_true(raw_file(w, "f", "text"));
	assert_true(raw_file(w, "g", "text"));
	for (size_t i = 0; i < GB_ARRAY_SIZE(wrong); i++) {
		assert_int_equal(raw_getattr(w, wrong[i], NULL), -ESTALE);
		assert_int_equal(raw_name(w, FUSE_LOOKUP, wrong[i], "f"), -ESTALE);
		raw_forget(w, wrong[i], 1);
	}
	f = raw_lookup(w, 1, "f");
	g = raw_lookup(w, 1, "g");
	fh = raw_open(w, (uint64_t)f, O_RDONLY);
	assert_true(f > 1 && g > 1 && f != g && fh > 0);
	in.fh = (uint64_t)fh;
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)f, in), 0);
	assert_int_equal(w->len, sizeof(struct fuse_out_header) + 4);
	/* another node's handle, a file's as a folder's, one that was never given */
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)g, in), -EBADF);
	assert_int_equal(raw_arg(w, FUSE_READDIR, (uint64_t)f, in), -EBADF);
	in.fh++;
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)f, in), -EBADF);
	for (size_t i = 0; i < GB_ARRAY_SIZE(wrong); i++) {
		in.fh = wrong[i] == (uint64_t)fh ? 0 : wrong[i];
		assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)f, in), -EBADF);
	}
}

static void test_forget(void **state)
{
	struct raw *w = *state;
	int64_t f, again;

	assert_true(raw_file(w, "f", "text"));
	f = raw_lookup(w, 1, "f");
	assert_int_equal(raw_lookup(w, 1, "f"), f);
	assert_int_equal(w->budget.nodes, 2);
	raw_forget(w, (uint64_t)f, 1);
	assert_int_equal(raw_getattr(w, (uint64_t)f, NULL), 0);
	raw_forget(w, (uint64_t)f, UINT64_MAX);
	assert_int_equal(raw_getattr(w, (uint64_t)f, NULL), -ESTALE);
	assert_int_equal(w->budget.nodes, 1);
	again = raw_lookup(w, 1, "f");
	assert_true(again > 0 && again != f); /* a number is never used twice */
	assert_int_equal(raw_getattr(w, (uint64_t)f, NULL), -ESTALE);
	raw_forget(w, 1, UINT64_MAX);
	assert_int_equal(raw_getattr(w, 1, NULL), 0); /* the root stays */
}

static void test_forget_open(void **state)
{
	struct raw *w = *state;
	struct fuse_read_in in = {.size = 10};
	int64_t f, fh;

	assert_true(raw_file(w, "f", "text"));
	f = raw_lookup(w, 1, "f");
	fh = raw_open(w, (uint64_t)f, O_RDONLY);
	raw_forget(w, (uint64_t)f, 1);
	in.fh = (uint64_t)fh;
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)f, in), 0);
	struct fuse_release_in rel = {.fh = (uint64_t)fh};
	assert_int_equal(raw_arg(w, FUSE_RELEASE, (uint64_t)f, rel), 0);
	assert_int_equal(raw_arg(w, FUSE_RELEASE, (uint64_t)f, rel), -ESTALE);
	assert_int_equal(w->budget.nodes, 1);
}

static void test_batch_forget(void **state)
{
	struct raw *w = *state;
	struct fuse_batch_forget_in in = {.count = 3};
	struct fuse_forget_one ones[3] = {{1, 5}, {0, 1}, {12345, 1}};
	int64_t f;

	assert_true(raw_file(w, "f", ""));
	f = raw_lookup(w, 1, "f");
	ones[1] = (struct fuse_forget_one){(uint64_t)f, 1};
	assert_int_equal(
		raw_send(w, FUSE_BATCH_FORGET, 0, &in, sizeof(in), ones, sizeof(ones)),
		0);
	assert_int_equal(w->len, 0);
	assert_int_equal(w->budget.nodes, 1);
}

/* Files that must not be opened, whatever the guest says: the server would hang or worse.
 */
static void test_odd_files(void **state)
{
	struct raw *w = *state;
	struct fuse_create_in c = {.flags = O_RDWR | O_CREAT, .mode = S_IFREG | 0600};
	int64_t n;

	assert_int_equal(mkfifoat(w->dir.fd, "pipe", 0600), 0);
	assert_int_equal(symlinkat("/etc/passwd", w->dir.fd, "link"), 0);
	n = raw_lookup(w, 1, "pipe");
	assert_int_equal(raw_open(w, (uint64_t)n, O_RDONLY), -EINVAL);
	assert_int_equal(raw_arg_name(w, FUSE_CREATE, 1, c, "pipe"), -EINVAL);
	n = raw_lookup(w, 1, "link");
	assert_int_equal(raw_open(w, (uint64_t)n, O_RDONLY), -ELOOP);
	assert_int_equal(raw_arg_name(w, FUSE_CREATE, 1, c, "link"), -ELOOP);
	assert_int_equal(raw_name(w, FUSE_LOOKUP, (uint64_t)n, "x"), -ENOTDIR);
	assert_int_equal(raw_arg_name(w, FUSE_CREATE, (uint64_t)n, c, "x"), -ENOTDIR);
	assert_int_equal(raw_arg(w, FUSE_OPENDIR, (uint64_t)n, (struct fuse_open_in){0}),
		-ENOTDIR);
	assert_int_equal(raw_plain(w, FUSE_READLINK, (uint64_t)n), 0);
	assert_int_equal(w->len - sizeof(struct fuse_out_header), strlen("/etc/passwd"));
	assert_memory_equal(w->data, "/etc/passwd", strlen("/etc/passwd"));
	assert_int_equal(raw_open(w, 1, O_RDONLY), -EINVAL);
	assert_int_equal(raw_plain(w, FUSE_READLINK, 1), -EINVAL);
}

static void test_refused_modes(void **state)
{
	struct raw *w = *state;
	static const uint32_t bad[] = {S_IFCHR | 0600, S_IFBLK | 0600, S_IFDIR | 0700,
		0600, S_IFREG | S_ISUID | 0755, S_IFREG | S_ISGID | 0755,
		S_IFIFO | S_ISUID};
	struct fuse_create_in c = {.flags = O_RDWR, .mode = S_IFREG | 04755};
	struct fuse_setattr_in s = {.valid = FATTR_MODE, .mode = 06755};
	struct fuse_mkdir_in d = {.mode = 04755};

	for (size_t i = 0; i < GB_ARRAY_SIZE(bad); i++) {
		struct fuse_mknod_in m = {.mode = bad[i], .rdev = 0x103};

		assert_int_equal(raw_arg_name(w, FUSE_MKNOD, 1, m, "x"), -EPERM);
	}
	assert_int_equal(raw_arg_name(w, FUSE_CREATE, 1, c, "x"), -EPERM);
	assert_int_equal(raw_arg_name(w, FUSE_TMPFILE, 1, c, "/"), -EPERM);
	assert_int_equal(raw_arg_name(w, FUSE_MKDIR, 1, d, "x"), -EPERM);
	assert_int_equal(raw_lookup(w, 1, "x"), -ENOENT);
	assert_true(raw_file(w, "f", ""));
	assert_int_equal(
		raw_arg(w, FUSE_SETATTR, (uint64_t)raw_lookup(w, 1, "f"), s), -EPERM);
}

static void test_sizes(void **state)
{
	struct raw *w = *state;
	int64_t f, fh;
	struct fuse_read_in in = {.size = GB_FUSE_IO_MAX};
	struct fuse_write_in wr = {.size = 4, .offset = UINT64_MAX};
	struct fuse_setattr_in s = {.valid = FATTR_SIZE, .size = UINT64_MAX};
	struct fuse_lseek_in seek = {.whence = SEEK_SET};
	struct fuse_fallocate_in fa = {.offset = UINT64_MAX, .length = 1};

	assert_true(raw_file(w, "f", "text"));
	f = raw_lookup(w, 1, "f");
	fh = raw_open(w, (uint64_t)f, O_RDWR);
	in.fh = wr.fh = seek.fh = fa.fh = (uint64_t)fh;
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)f, in), 0);
	in.size++;
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)f, in), -EINVAL);
	in.size = 10;
	in.offset = UINT64_MAX;
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)f, in), -EINVAL);
	assert_int_equal(raw_send(w, FUSE_WRITE, (uint64_t)f, &wr, sizeof(wr), "abcd", 4),
		-EINVAL);
	assert_int_equal(raw_arg(w, FUSE_SETATTR, (uint64_t)f, s), -EINVAL);
	assert_int_equal(raw_arg(w, FUSE_LSEEK, (uint64_t)f, seek), -EINVAL);
	assert_int_equal(raw_arg(w, FUSE_FALLOCATE, (uint64_t)f, fa), -EFBIG);
	fa = (struct fuse_fallocate_in){
		.fh = (uint64_t)fh, .length = 1, .mode = 0x80000000u};
	assert_int_equal(raw_arg(w, FUSE_FALLOCATE, (uint64_t)f, fa), -EOPNOTSUPP);
}

static void test_node_budget(void **state)
{
	struct raw *w = *state;
	char name[2] = "a";
	int64_t last = 0;

	w->budget.nodes_max = 4;
	for (; name[0] < 'f'; name[0]++)
		assert_true(raw_file(w, name, ""));
	for (name[0] = 'a'; name[0] < 'd'; name[0]++)
		assert_true((last = raw_lookup(w, 1, name)) > 0);
	assert_int_equal(raw_lookup(w, 1, "d"), -ENFILE);
	assert_true(raw_lookup(w, 1, "c") > 0);
	raw_forget(w, (uint64_t)last, 2);
	assert_true(raw_lookup(w, 1, "d") > 0);
}

static void test_handle_budget(void **state)
{
	struct raw *w = *state;
	struct fuse_create_in c = {.flags = O_RDWR, .mode = S_IFREG | 0600};
	int64_t f, fh = 0;

	w->budget.handles_max = w->budget.handles + 3;
	assert_true(raw_file(w, "f", ""));
	f = raw_lookup(w, 1, "f");
	for (int i = 0; i < 3; i++)
		assert_true((fh = raw_open(w, (uint64_t)f, O_RDONLY)) > 0);
	assert_int_equal(raw_open(w, (uint64_t)f, O_RDONLY), -ENFILE);
	assert_int_equal(raw_arg_name(w, FUSE_CREATE, 1, c, "new"), -ENFILE);
	assert_int_equal(w->budget.nodes, 2);
	struct fuse_release_in rel = {.fh = (uint64_t)fh};
	assert_int_equal(raw_arg(w, FUSE_RELEASE, (uint64_t)f, rel), 0);
	assert_true(raw_open(w, (uint64_t)f, O_RDONLY) > 0);
}

/* Deeper than folders are kept open; then found again from below. */
static void test_deep(void **state)
{
	struct raw *w = *state;
	struct fuse_mkdir_in d = {.mode = 0755};
	int64_t at = 1, chain[200];

	w->budget.dirs_max = 4;
	for (size_t i = 0; i < GB_ARRAY_SIZE(chain); i++) {
		assert_int_equal(raw_arg_name(w, FUSE_MKDIR, (uint64_t)at, d, "d"), 0);
		at = chain[i] = (int64_t)((const struct fuse_entry_out *)w->data)->nodeid;
		assert_true(w->budget.dirs <= 4);
	}
	for (size_t i = 0; i < GB_ARRAY_SIZE(chain); i += 7)
		assert_int_equal(raw_getattr(w, (uint64_t)chain[i], NULL), 0);
	assert_int_equal(raw_getattr(w, (uint64_t)at, NULL), 0);
	for (size_t i = 0; i < GB_ARRAY_SIZE(chain); i++)
		raw_forget(w, (uint64_t)chain[i], 1);
	assert_int_equal(w->budget.nodes, 1);
}

/* The host replaces what the guest knows: the old number is stale, never the new file. */
static void test_replaced(void **state)
{
	struct raw *w = *state;
	struct fuse_read_in in = { .size = 10 };
	struct fuse_release_in rel = { 0 };
	struct fuse_attr attr;
	int64_t old, new;

	assert_true(raw_file(w, "f", "old"));
	old = raw_lookup(w, 1, "f");
	assert_true(raw_file(w, "g", "new"));
	assert_int_equal(renameat(w->dir.fd, "g", w->dir.fd, "f"), 0);
	/* for a moment what was looked up can still be opened, so that a file which is
	 * replaced all the time can be read at all */
	assert_int_equal(raw_getattr(w, (uint64_t)old, &attr), 0);
	assert_int_equal(attr.nlink, 0);
	in.fh = (uint64_t)raw_open(w, (uint64_t)old, O_RDONLY);
	assert_int_equal(raw_arg(w, FUSE_READ, (uint64_t)old, in), 0);
	assert_memory_equal(w->data, "old", 3);
	rel.fh = in.fh;
	assert_int_equal(raw_arg(w, FUSE_RELEASE, (uint64_t)old, rel), 0);
	gb_share_rest(w->share);
	assert_int_equal(raw_getattr(w, (uint64_t)old, NULL), -ESTALE);
	assert_int_equal(raw_open(w, (uint64_t)old, O_RDWR | O_TRUNC), -ESTALE);
	new = raw_lookup(w, 1, "f");
	assert_true(new > 0 && new != old);
	/* a folder swapped for a link out of the share */
	assert_int_equal(mkdirat(w->dir.fd, "d", 0755), 0);
	old = raw_lookup(w, 1, "d");
	assert_int_equal(unlinkat(w->dir.fd, "d", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("/etc", w->dir.fd, "d"), 0);
	assert_int_equal(raw_name(w, FUSE_LOOKUP, (uint64_t)old, "passwd"), -ENOENT);
	assert_int_equal(
		raw_name(w, FUSE_LOOKUP, (uint64_t)raw_lookup(w, 1, "d"), "passwd"),
		-ENOTDIR);
}

/* a/b becomes b/a on the host while the guest holds both: no circle, no walk without end.
 */
static void test_inside_out(void **state)
{
	struct raw *w = *state;
	int64_t a, b;

	assert_int_equal(mkdirat(w->dir.fd, "a", 0755), 0);
	assert_int_equal(mkdirat(w->dir.fd, "a/b", 0755), 0);
	a = raw_lookup(w, 1, "a");
	b = raw_lookup(w, (uint64_t)a, "b");
	assert_int_equal(
		raw_name(w, FUSE_LOOKUP, (uint64_t)b, "x"), -ENOENT); /* b is open now */
	assert_int_equal(renameat(w->dir.fd, "a/b", w->dir.fd, "b"), 0);
	assert_int_equal(renameat(w->dir.fd, "a", w->dir.fd, "b/a"), 0);
	assert_int_equal(raw_lookup(w, (uint64_t)b, "a"), a);
	w->budget.dirs_max = 0; /* close them all at the end of the next request */
	raw_getattr(w, 1, NULL);
	assert_int_equal(raw_getattr(w, (uint64_t)a, NULL), -ESTALE);
	assert_int_equal(raw_lookup(w, 1, "b"), b);
	assert_int_equal(raw_lookup(w, (uint64_t)b, "a"), a);
	assert_int_equal(raw_getattr(w, (uint64_t)a, NULL), 0);
	raw_forget(w, (uint64_t)a, 3);
	raw_forget(w, (uint64_t)b, 2);
	assert_int_equal(w->budget.nodes, 1);
}

/* What the guest removed lives on by number, until it is forgotten. */
static void test_removed(void **state)
{
	struct raw *w = *state;
	struct fuse_attr attr;
	struct fuse_setattr_in s = {.valid = FATTR_MODE, .mode = 0640};
	size_t handles = w->budget.handles;
	int64_t f;

	assert_true(raw_file(w, "f", "text"));
	f = raw_lookup(w, 1, "f");
	assert_int_equal(raw_name(w, FUSE_UNLINK, 1, "f"), 0);
	assert_int_equal(raw_arg(w, FUSE_SETATTR, (uint64_t)f, s), 0);
	assert_int_equal(raw_getattr(w, (uint64_t)f, &attr), 0);
	assert_int_equal(attr.nlink, 0);
	assert_int_equal(attr.mode, S_IFREG | 0640);
	assert_int_equal(attr.uid, 1000);
	assert_int_equal(attr.gid, 1001);
	assert_true(raw_open(w, (uint64_t)f, O_RDWR) > 0);
	assert_int_equal(w->budget.handles, handles + 2);
	raw_forget(w, (uint64_t)f, 1);
	assert_int_equal(raw_getattr(w, (uint64_t)f, &attr), 0); /* still open */
}

static void test_rename_flags(void **state)
{
	struct raw *w = *state;
	struct fuse_rename2_in in = {.newdir = 1, .flags = RENAME_WHITEOUT};

	assert_true(raw_file(w, "a", "a"));
	assert_int_equal(
		raw_send(w, FUSE_RENAME2, 1, &in, sizeof(in), "a\0b", 4), -EINVAL);
	in.flags = 0;
	in.newdir = 99;
	assert_int_equal(
		raw_send(w, FUSE_RENAME2, 1, &in, sizeof(in), "a\0b", 4), -ESTALE);
}

struct ro_row {
	const char *name;
	uint32_t opcode;
	size_t fixed;
	const char *tail;
	size_t tail_len;
};

static const struct ro_row ro_rows[] = {
	{"read-only: setattr", FUSE_SETATTR, sizeof(struct fuse_setattr_in), "", 0},
	{"read-only: symlink", FUSE_SYMLINK, 0, "a\0b", 4},
	{"read-only: mknod", FUSE_MKNOD, sizeof(struct fuse_mknod_in), "a", 2},
	{"read-only: mkdir", FUSE_MKDIR, sizeof(struct fuse_mkdir_in), "a", 2},
	{"read-only: unlink", FUSE_UNLINK, 0, "f", 2},
	{"read-only: rmdir", FUSE_RMDIR, 0, "d", 2},
	{"read-only: rename", FUSE_RENAME, sizeof(struct fuse_rename_in), "f\0g", 4},
	{"read-only: rename2", FUSE_RENAME2, sizeof(struct fuse_rename2_in), "f\0g", 4},
	{"read-only: link", FUSE_LINK, sizeof(struct fuse_link_in), "g", 2},
	{"read-only: write", FUSE_WRITE, sizeof(struct fuse_write_in), "", 0},
	{"read-only: setxattr", FUSE_SETXATTR, 8, "user.a", 7},
	{"read-only: removexattr", FUSE_REMOVEXATTR, 0, "user.a", 7},
	{"read-only: create", FUSE_CREATE, sizeof(struct fuse_create_in), "a", 2},
	{"read-only: tmpfile", FUSE_TMPFILE, sizeof(struct fuse_create_in), "/", 2},
	{"read-only: fallocate", FUSE_FALLOCATE, sizeof(struct fuse_fallocate_in), "", 0},
	{"read-only: copy", FUSE_COPY_FILE_RANGE, sizeof(struct fuse_copy_file_range_in),
		"", 0},
};

static void test_ro(void **state)
{
	const struct ro_row *row = *state;
	static const uint8_t zeros[128];
	void *w = NULL;
	int r;

	assert_int_equal(setup_ro(&w), 0);
	r = raw_send(w, row->opcode, 1, zeros, row->fixed, row->tail, row->tail_len);
	assert_true(raw_free(w));
	assert_int_equal(r, -EROFS);
}

static void test_ro_open(void **state)
{
	struct raw *w = *state;
	int64_t f = raw_lookup(w, 1, "f");

	assert_int_equal(raw_open(w, (uint64_t)f, O_WRONLY), -EROFS);
	assert_int_equal(raw_open(w, (uint64_t)f, O_RDWR), -EROFS);
	assert_int_equal(raw_open(w, (uint64_t)f, O_RDONLY | O_TRUNC), -EROFS);
	assert_int_equal(raw_open(w, (uint64_t)f, O_ACCMODE), -EINVAL);
	assert_true(raw_open(w, (uint64_t)f, O_RDONLY) > 0);
}

/* Every operation with every length of zeros: nothing may be read beyond the end, nothing
 * may change in a read-only share, and each gets an answer (or none, where none is due).
 */
static void test_zeros(void **state)
{
	static const uint8_t zeros[200];
	struct raw *w = *state;
	struct stat st;

	for (uint32_t op = 0; op < 70; op++) {
		for (size_t len = 0; len < sizeof(zeros); len++) {
			int r = raw_send(w, op, 1, zeros, len, NULL, 0);

			assert_true(r <= 0 && r > -200);
			raw_init(w);
		}
	}
	assert_int_equal(fstatat(w->dir.fd, "f", &st, 0), 0);
	assert_int_equal(st.st_size, 4);
}

#define WITH(name, fn, before)                                                           \
	(struct CMUnitTest)                                                              \
	{                                                                                \
		name, fn, before, teardown, NULL                                         \
	}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, ro_rows, test_ro);
	l.tests[l.n++] = WITH("init", test_init, setup);
	l.tests[l.n++] = WITH("numbers of nodes and handles", test_numbers, setup);
	l.tests[l.n++] = WITH("forget", test_forget, setup);
	l.tests[l.n++] = WITH("forget while open", test_forget_open, setup);
	l.tests[l.n++] = WITH("forget many", test_batch_forget, setup);
	l.tests[l.n++] = WITH("pipes and links are not opened", test_odd_files, setup);
	l.tests[l.n++] = WITH("devices and setuid", test_refused_modes, setup);
	l.tests[l.n++] = WITH("sizes and offsets", test_sizes, setup);
	l.tests[l.n++] = WITH("too many nodes", test_node_budget, setup);
	l.tests[l.n++] = WITH("too many open files", test_handle_budget, setup);
	l.tests[l.n++] = WITH("deep folders", test_deep, setup);
	l.tests[l.n++] = WITH("replaced on the host", test_replaced, setup);
	l.tests[l.n++] = WITH("turned inside out on the host", test_inside_out, setup);
	l.tests[l.n++] = WITH("removed by the guest", test_removed, setup);
	l.tests[l.n++] = WITH("rename flags", test_rename_flags, setup);
	l.tests[l.n++] = WITH("read-only: open", test_ro_open, setup_ro);
	l.tests[l.n++] = WITH("zeros of every length", test_zeros, setup_ro);
	return rows_run("share", &l);
}
