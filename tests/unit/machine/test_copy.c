/* The host's side of copies: what it reads it can write again, and a hostile stream stays
 * where it belongs. */
#include "machine/copy_host.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

struct world {
	char folder[64];
	int fd;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	snprintf(w->folder, sizeof(w->folder), "/tmp/gb-copy-XXXXXX");
	if (!mkdtemp(w->folder))
		return -1;
	w->fd = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	int r = gb_rm_tree(AT_FDCWD, w->folder, NULL);

	close(w->fd);
	free(w);
	return r;
}

static char *in(struct world *w, const char *name)
{
	return gb_path_join(w->folder, name);
}

static int collect(void *ctx, const uint8_t *data, size_t len, const char *path,
	struct gb_err *err)
{
	(void)path;
	(void)err;
	gb_buf_add(ctx, data, len);
	return 0;
}

static int replay(const struct gb_buf *stream, size_t piece, const char *target,
	const char *name, struct gb_err *err)
{
	struct gb_host_writer *w = NULL;
	struct gb_tree_reader r;
	int code = gb_host_writer_new(target, name, &w, err);

	if (code < 0)
		return code;
	gb_tree_reader_init(&r);
	for (size_t at = 0; code == 0 && at < stream->len; at += piece)
		code = gb_tree_reader_feed(&r, stream->data + at,
			GB_MIN(piece, stream->len - at), &gb_host_writer_ops, w, err);
	if (code == 0)
		code = gb_host_writer_finish(w, err);
	gb_tree_reader_done(&r);
	gb_host_writer_free(w);
	return code;
}

static void write_file(struct world *w, const char *name, const char *text, mode_t mode)
{
	assert_int_equal(gb_file_write_atomic(w->fd, name, text, strlen(text), mode, NULL), 0);
}

static void a_tree_survives(void **state)
{
	struct world *w = *state;
	struct gb_buf stream = { 0 };
	struct gb_buf text = { 0 };
	struct gb_err err = { 0 };
	char *src = in(w, "src");
	char *dst = in(w, "dst");
	char link[16] = "";
	struct stat st;

	assert_int_equal(mkdirat(w->fd, "src", 0750), 0);
	assert_int_equal(mkdirat(w->fd, "src/ro", 0700), 0);
	write_file(w, "src/ro/f", "hello", 0640);
	write_file(w, "src/empty", "", 0755);
	assert_int_equal(symlinkat("../away", w->fd, "src/link"), 0);
	assert_int_equal(mkfifoat(w->fd, "src/fifo", 0600), 0);
	assert_int_equal(fchmodat(w->fd, "src/ro", 0500, 0), 0);
	assert_int_equal(gb_copy_host_read(src, collect, &stream, &err), 0);
	assert_int_equal(replay(&stream, 7, dst, "src", &err), 0);
	assert_int_equal(gb_file_read(w->fd, "dst/ro/f", 100, &text, &err), 0);
	assert_string_equal((char *)text.data, "hello");
	assert_int_equal(fstatat(w->fd, "dst/ro/f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(fstatat(w->fd, "dst/ro", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0500);
	assert_int_equal(fstatat(w->fd, "dst", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_int_equal(readlinkat(w->fd, "dst/link", link, sizeof(link)), 7);
	assert_memory_equal(link, "../away", 7);
	assert_int_equal(fstatat(w->fd, "dst/fifo", &st, 0), 0);
	assert_true(S_ISFIFO(st.st_mode));
	fchmodat(w->fd, "src/ro", 0700, 0);
	fchmodat(w->fd, "dst/ro", 0700, 0);
	gb_buf_done(&stream);
	gb_buf_done(&text);
	free(src);
	free(dst);
}

static void into_an_existing_folder(void **state)
{
	struct world *w = *state;
	struct gb_buf stream = { 0 };
	struct gb_err err = { 0 };
	char *src = in(w, "f");
	char *missing = in(w, "missing/");

	write_file(w, "f", "x", 0600);
	assert_int_equal(mkdirat(w->fd, "d", 0700), 0);
	assert_int_equal(gb_copy_host_read(src, collect, &stream, &err), 0);
	{
		char *d = in(w, "d");

		assert_int_equal(replay(&stream, 64, d, "f", &err), 0);
		free(d);
	}
	assert_int_equal(faccessat(w->fd, "d/f", F_OK, 0), 0);
	assert_int_equal(replay(&stream, 64, missing, "f", &err), GB_E_NOTFOUND);
	gb_buf_done(&stream);
	free(src);
	free(missing);
}

/* What a guest may try; each row is a stream of entries that must not touch "outside". */
static const struct {
	const char *name;
	struct gb_msg_entry entries[4];
} hostile[] = {
	{ "a path out", { { .kind = GB_TREE_DIR, .path = (char *)"", .mode = 0700 },
				{ .kind = GB_TREE_FILE, .path = (char *)"../outside/x" } } },
	{ "an absolute path", { { .kind = GB_TREE_DIR, .path = (char *)"", .mode = 0700 },
				      { .kind = GB_TREE_FILE, .path = (char *)"/outside/x" } } },
	{ "through a link of its own",
		{ { .kind = GB_TREE_DIR, .path = (char *)"", .mode = 0700 },
			{ .kind = GB_TREE_LINK, .path = (char *)"l", .link = (char *)"../outside" },
			{ .kind = GB_TREE_FILE, .path = (char *)"l/x" } } },
	{ "a folder where a link is",
		{ { .kind = GB_TREE_DIR, .path = (char *)"", .mode = 0700 },
			{ .kind = GB_TREE_LINK, .path = (char *)"l", .link = (char *)"../outside" },
			{ .kind = GB_TREE_DIR, .path = (char *)"l", .mode = 0777 },
			{ .kind = GB_TREE_FILE, .path = (char *)"l/x" } } },
	{ "a file below a file", { { .kind = GB_TREE_FILE, .path = (char *)"" },
					 { .kind = GB_TREE_FILE, .path = (char *)"x" } } },
	{ "the top twice", { { .kind = GB_TREE_DIR, .path = (char *)"", .mode = 0700 },
				   { .kind = GB_TREE_DIR, .path = (char *)"", .mode = 0700 } } },
};

static void stays_inside(void **state)
{
	struct world *w = *state;
	struct gb_err err = { 0 };

	assert_int_equal(mkdirat(w->fd, "outside", 0700), 0);
	for (size_t i = 0; i < GB_ARRAY_SIZE(hostile); i++) {
		struct gb_buf stream = { 0 };
		char *dst = in(w, "t");
		struct stat st;

		for (size_t e = 0; e < 4 && (e == 0 || hostile[i].entries[e].path); e++)
			gb_tree_add(&stream, &hostile[i].entries[e]);
		if (replay(&stream, stream.len, dst, "t", &err) >= 0)
			fail_msg("%s was taken", hostile[i].name);
		assert_int_equal(fstatat(w->fd, "outside", &st, 0), 0);
		assert_int_equal(st.st_mode & 0777, 0700);
		assert_int_not_equal(faccessat(w->fd, "outside/x", F_OK, 0), 0);
		gb_rm_tree(w->fd, "t", NULL);
		gb_buf_done(&stream);
		free(dst);
	}
	assert_int_equal(unlinkat(w->fd, "outside", AT_REMOVEDIR), 0);
}

static void set_id_bits_are_dropped(void **state)
{
	struct world *w = *state;
	struct gb_buf stream = { 0 };
	struct gb_err err = { 0 };
	struct gb_msg_entry e = { .kind = GB_TREE_FILE, .path = (char *)"", .mode = 06755 };
	struct gb_msg_entry end = { .kind = GB_TREE_END };
	char *dst = in(w, "s");
	struct stat st;

	gb_tree_add(&stream, &e);
	gb_tree_add(&stream, &end);
	assert_int_equal(replay(&stream, 3, dst, "s", &err), 0);
	assert_int_equal(fstatat(w->fd, "s", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	gb_buf_done(&stream);
	free(dst);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_tree_survives),
		T(into_an_existing_folder),
		T(stays_inside),
		T(set_id_bits_are_dropped),
	};

	return cmocka_run_group_tests_name("machine copies", tests, NULL, NULL);
}
