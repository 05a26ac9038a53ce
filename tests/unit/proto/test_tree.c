#include "rows.h"

#include "base/str.h"
#include "proto/tree.h"

#include <stdlib.h>
#include <string.h>

struct path_row {
	const char *name;
	const char *path;
	bool good;
};

static const struct path_row path_rows[] = {
	{ "path: the root", "", true },
	{ "path: a name", "a", true },
	{ "path: names", "a/b/c", true },
	{ "path: dots in a name", "..a/b../...", true },
	{ "path: hidden", ".a", true },
	{ "path: dot", ".", false },
	{ "path: dot inside", "a/./b", false },
	{ "path: dotdot", "..", false },
	{ "path: dotdot first", "../a", false },
	{ "path: dotdot inside", "a/../b", false },
	{ "path: dotdot last", "a/..", false },
	{ "path: absolute", "/a", false },
	{ "path: only a slash", "/", false },
	{ "path: slash at the end", "a/", false },
	{ "path: two slashes", "a//b", false },
	{ "path: bytes that are not text", "\xff\xfe/\x01", true },
};

static void path_ok(void **state)
{
	const struct path_row *row = *state;

	assert_int_equal(gb_tree_path_ok(row->path), row->good);
}

static void path_length(void **state)
{
	char path[4098];

	(void)state;
	memset(path, 'a', sizeof(path));
	path[4095] = 0;
	assert_true(gb_tree_path_ok(path));
	path[4095] = 'a';
	path[4096] = 0;
	assert_false(gb_tree_path_ok(path));
}

/* What a reader was told, as text: "e KIND PATH SIZE;c CONTENT;x PATH;". */
struct heard {
	struct gb_buf text;
	bool in_content; /* pieces of content are joined */
	int fail_at;     /* entry number that the callback refuses, from 1 */
	int entries;
};

static void close_content(struct heard *h)
{
	if (h->in_content)
		gb_buf_add_byte(&h->text, ';');
	h->in_content = false;
}

static int on_entry(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct heard *h = ctx;

	close_content(h);
	if (++h->entries == h->fail_at)
		return gb_fail(err, GB_E_NOSPACE, "no room");
	gb_buf_printf(&h->text, "e %u %s %llu;", e->kind, e->path, (unsigned long long)e->size);
	return 0;
}

static int on_content(void *ctx, const uint8_t *data, size_t len, struct gb_err *err)
{
	struct heard *h = ctx;

	(void)err;
	if (!h->in_content)
		gb_buf_add_str(&h->text, "c ");
	h->in_content = true;
	gb_buf_add(&h->text, data, len);
	return 0;
}

static int on_end(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct heard *h = ctx;

	(void)err;
	close_content(h);
	gb_buf_printf(&h->text, "x %s;", e->path);
	return 0;
}

static const struct gb_tree_ops ops = { on_entry, on_content, on_end };

struct item {
	uint32_t kind;
	const char *path;
	const char *content; /* NULL: none */
	const char *link;
	uint32_t mtime_ns;
	uint64_t size; /* 0: of content */
};

struct tree_row {
	const char *name;
	struct item items[6];
	size_t count;
	const char *heard; /* up to the error, if there is one */
	int code;
	bool ended;
};

#define ROOT { GB_TREE_DIR, "", NULL, NULL, 0, 0 }
#define END  { GB_TREE_END, "", NULL, NULL, 0, 0 }

static const struct tree_row tree_rows[] = {
	{ "tree: one file", { { GB_TREE_FILE, "", "hello", NULL, 0, 0 }, END }, 2,
		"e 1  5;c hello;x ;", 0, true },
	{ "tree: one empty file", { { GB_TREE_FILE, "", "", NULL, 0, 0 }, END }, 2, "e 1  0;x ;", 0,
		true },
	{ "tree: a link alone", { { GB_TREE_LINK, "", NULL, "to", 0, 0 }, END }, 2, "e 3  0;", 0,
		true },
	{ "tree: a folder with all kinds",
		{ ROOT, { GB_TREE_FILE, "f", "12", NULL, 999999999, 0 },
			{ GB_TREE_DIR, "d", NULL, NULL, 0, 0 },
			{ GB_TREE_LINK, "d/l", NULL, "../f", 0, 0 },
			{ GB_TREE_FIFO, "d/p", NULL, NULL, 0, 0 }, END },
		6, "e 2  0;e 1 f 2;c 12;x f;e 2 d 0;e 3 d/l 0;e 4 d/p 0;", 0, true },
	{ "tree: cut after an entry", { ROOT, { GB_TREE_FILE, "f", "12", NULL, 0, 0 } }, 2,
		"e 2  0;e 1 f 2;c 12;x f;", 0, false },
	{ "tree: cut in content", { { GB_TREE_FILE, "", "12", NULL, 0, 3 } }, 1, "e 1  3;c 12", 0,
		false },
	{ "tree: only its end", { END }, 1, "", GB_E_PROTOCOL, false },
	{ "tree: no root", { { GB_TREE_FILE, "a", "", NULL, 0, 0 } }, 1, "", GB_E_PROTOCOL, false },
	{ "tree: two roots", { ROOT, ROOT }, 2, "e 2  0;", GB_E_PROTOCOL, false },
	{ "tree: below a file",
		{ { GB_TREE_FILE, "", "", NULL, 0, 0 }, { GB_TREE_FILE, "a", "", NULL, 0, 0 } }, 2,
		"e 1  0;x ;", GB_E_PROTOCOL, false },
	{ "tree: below a link",
		{ { GB_TREE_LINK, "", NULL, "/etc", 0, 0 }, { GB_TREE_FILE, "a", "", NULL, 0, 0 } }, 2,
		"e 3  0;", GB_E_PROTOCOL, false },
	{ "tree: dotdot", { ROOT, { GB_TREE_FILE, "../a", "", NULL, 0, 0 } }, 2, "e 2  0;",
		GB_E_PROTOCOL, false },
	{ "tree: absolute", { ROOT, { GB_TREE_FILE, "/a", "", NULL, 0, 0 } }, 2, "e 2  0;",
		GB_E_PROTOCOL, false },
	{ "tree: folder with content", { { GB_TREE_DIR, "", "abc", NULL, 0, 0 } }, 1, "",
		GB_E_PROTOCOL, false },
	{ "tree: unknown kind", { { 5, "", NULL, NULL, 0, 0 } }, 1, "", GB_E_PROTOCOL, false },
	{ "tree: link to nowhere", { { GB_TREE_LINK, "", NULL, "", 0, 0 } }, 1, "", GB_E_PROTOCOL,
		false },
	{ "tree: nanoseconds over a second", { { GB_TREE_DIR, "", NULL, NULL, 1000000000, 0 } }, 1,
		"", GB_E_PROTOCOL, false },
	{ "tree: the time that means now", { { GB_TREE_DIR, "", NULL, NULL, 0x3fffffff, 0 } }, 1, "",
		GB_E_PROTOCOL, false },
	{ "tree: after its end", { ROOT, END, ROOT }, 3, "e 2  0;", GB_E_PROTOCOL, true },
};

static void build(const struct item *items, size_t count, struct gb_buf *b)
{
	gb_buf_init(b, 0);
	for (size_t i = 0; i < count; i++) {
		const struct item *it = &items[i];
		struct gb_msg_entry e = {
			.kind = it->kind,
			.mode = 0644,
			.size = it->size ? it->size : it->content ? strlen(it->content) : 0,
			.mtime_ns = it->mtime_ns,
			.path = (char *)(uintptr_t)it->path,
			.link = (char *)(uintptr_t)it->link,
		};

		gb_tree_add(b, &e);
		if (it->content)
			gb_buf_add_str(b, it->content);
	}
	assert_int_equal(b->error, 0);
}

static int feed_pieces(struct gb_tree_reader *r, const struct gb_buf *b, size_t piece,
	struct heard *h, struct gb_err *err)
{
	for (size_t at = 0; at < b->len; at += piece) {
		size_t n = GB_MIN(piece, b->len - at);
		int code = gb_tree_reader_feed(r, b->data + at, n, &ops, h, err);

		if (code < 0)
			return code;
	}
	return 0;
}

static void tree(void **state)
{
	const struct tree_row *row = *state;
	struct gb_buf b;

	build(row->items, row->count, &b);
	for (size_t piece = 1; piece <= b.len; piece++) {
		struct gb_tree_reader r;
		struct heard h = { 0 };
		struct gb_err err = { 0 };
		char *text;

		gb_tree_reader_init(&r);
		assert_int_equal(feed_pieces(&r, &b, piece, &h, &err), row->code);
		assert_int_equal(r.ended, row->ended);
		text = gb_buf_take_str(&h.text);
		assert_string_equal(text, row->heard);
		free(text);
		if (row->code) {
			/* it stays failed */
			assert_true(err.msg[0] != 0);
			assert_int_equal(gb_tree_reader_feed(&r, b.data, b.len, &ops, &h, NULL),
				GB_E_PROTOCOL);
			assert_int_equal(h.text.len, 0);
		}
		gb_buf_done(&h.text);
		gb_tree_reader_done(&r);
	}
	gb_buf_done(&b);
}

struct raw_row {
	const char *name;
	uint32_t length; /* of the record, as its prefix says */
	int code;
};

static const struct raw_row raw_rows[] = {
	{ "record: of no bytes", 0, GB_E_PROTOCOL },
	{ "record: the longest waits for more", GB_TREE_RECORD_MAX, 0 },
	{ "record: one over the longest", GB_TREE_RECORD_MAX + 1, GB_E_PROTOCOL },
	{ "record: 2^32-1", UINT32_MAX, GB_E_PROTOCOL },
};

static void raw_length(void **state)
{
	const struct raw_row *row = *state;
	uint8_t prefix[5] = { (uint8_t)row->length, (uint8_t)(row->length >> 8),
		(uint8_t)(row->length >> 16), (uint8_t)(row->length >> 24), 'x' };
	struct gb_tree_reader r;
	struct heard h = { 0 };

	gb_tree_reader_init(&r);
	assert_int_equal(gb_tree_reader_feed(&r, prefix, 5, &ops, &h, NULL), row->code);
	gb_tree_reader_done(&r);
}

static void record_of_the_wrong_length(void **state)
{
	const struct item items[] = { ROOT };
	struct gb_tree_reader r;
	struct heard h = { 0 };
	struct gb_buf b;

	(void)state;
	for (int by = -1; by <= 1; by += 2) {
		build(items, 1, &b);
		gb_buf_add_byte(&b, 0);
		b.data[0] = (uint8_t)(b.data[0] + by);
		gb_tree_reader_init(&r);
		assert_int_equal(
			gb_tree_reader_feed(&r, b.data, b.len, &ops, &h, NULL), GB_E_PROTOCOL);
		gb_tree_reader_done(&r);
		gb_buf_done(&b);
	}
	assert_int_equal(h.entries, 0);
}

static void callback_ends_the_reading(void **state)
{
	const struct item items[] = { ROOT, { GB_TREE_FILE, "a", "x", NULL, 0, 0 }, END };
	struct gb_tree_reader r;
	struct heard h = { .fail_at = 2 };
	struct gb_err err = { 0 };
	struct gb_buf b;

	(void)state;
	build(items, 3, &b);
	gb_tree_reader_init(&r);
	assert_int_equal(feed_pieces(&r, &b, b.len, &h, &err), GB_E_NOSPACE);
	assert_string_equal(err.msg, "no room");
	assert_false(r.ended);
	assert_int_equal(h.entries, 2);
	gb_tree_reader_done(&r);
	gb_buf_done(&h.text);
	gb_buf_done(&b);
}

static void huge_size_is_only_a_number(void **state)
{
	const struct item items[] = { { GB_TREE_FILE, "", "abc", NULL, 0, UINT64_MAX } };
	struct gb_tree_reader r;
	struct heard h = { 0 };
	struct gb_buf b;

	(void)state;
	build(items, 1, &b);
	gb_tree_reader_init(&r);
	assert_int_equal(feed_pieces(&r, &b, b.len, &h, NULL), 0);
	assert_true(r.content_left == UINT64_MAX - 3);
	gb_tree_reader_done(&r);
	gb_buf_done(&h.text);
	gb_buf_done(&b);
}

static void entry_too_large_to_write(void **state)
{
	char *text = malloc(GB_TREE_RECORD_MAX + 1);
	struct gb_msg_entry e = { .kind = GB_TREE_LINK, .path = (char[]){ "" }, .link = text };
	struct gb_buf b;

	(void)state;
	assert_non_null(text);
	memset(text, 'l', GB_TREE_RECORD_MAX);
	text[GB_TREE_RECORD_MAX] = 0;
	gb_buf_init(&b, 0);
	gb_tree_add(&b, &e);
	assert_int_equal(b.error, GB_E_LIMIT);
	gb_buf_done(&b);
	free(text);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, path_rows, path_ok);
	rows_add_one(&l, "path: both sides of the length", path_length);
	rows_add(&l, tree_rows, tree);
	rows_add(&l, raw_rows, raw_length);
	rows_add_one(&l, "record: one byte off", record_of_the_wrong_length);
	rows_add_one(&l, "a callback ends the reading", callback_ends_the_reading);
	rows_add_one(&l, "a huge size is only a number", huge_size_is_only_a_number);
	rows_add_one(&l, "an entry too large to write", entry_too_large_to_write);
	return rows_run("tree", &l);
}
