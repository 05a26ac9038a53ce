/* The tree reader, fed in pieces. Input: one byte that says how the rest is cut, then the
 * stream. It must take the same from it however it is cut, and keep its promises: the first
 * entry is the root, paths are sound, content has just the size that was announced. */
#include "proto/tree.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

struct seen {
	uint64_t entries;
	uint64_t bytes;
	uint64_t ends;
	uint64_t announced; /* of the entry that is open */
	bool open;
	bool ended;
	int code;
};

static int on_entry(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct seen *s = ctx;

	(void)err;
	require(!s->open && gb_tree_path_ok(e->path));
	require((s->entries == 0) == (*e->path == 0));
	require(e->kind != GB_TREE_END && e->kind <= GB_TREE_FIFO);
	s->entries++;
	s->open = e->kind == GB_TREE_FILE;
	s->announced = e->size;
	return 0;
}

static int on_content(void *ctx, const uint8_t *data, size_t len, struct gb_err *err)
{
	struct seen *s = ctx;

	(void)err;
	require(s->open && len && data && len <= s->announced);
	s->announced -= len;
	s->bytes += len;
	return 0;
}

static int on_end(void *ctx, const struct gb_msg_entry *e, struct gb_err *err)
{
	struct seen *s = ctx;

	(void)err;
	require(s->open && e->kind == GB_TREE_FILE && s->announced == 0);
	s->open = false;
	s->ends++;
	return 0;
}

static struct seen read_all(const uint8_t *data, size_t size, size_t piece)
{
	static const struct gb_tree_ops ops = { on_entry, on_content, on_end };
	struct gb_tree_reader r;
	struct seen s = { 0 };
	struct gb_err err;

	gb_tree_reader_init(&r);
	while (size && s.code == 0) {
		size_t n = GB_MIN(size, piece);

		s.code = gb_tree_reader_feed(&r, data, n, &ops, &s, &err);
		data += n;
		size -= n;
	}
	s.ended = r.ended;
	gb_tree_reader_done(&r);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen a;
	struct seen b;

	if (size < 1)
		return 0;
	a = read_all(data + 1, size - 1, SIZE_MAX);
	b = read_all(data + 1, size - 1, (size_t)data[0] + 1);
	require(a.entries == b.entries && a.bytes == b.bytes && a.ends == b.ends);
	require(a.ended == b.ended && a.code == b.code);
	return 0;
}
