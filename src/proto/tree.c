#include "proto/tree.h"
#include "base/str.h"

#include <string.h>

#define TREE_PATH_MAX 4095 /* bytes of a path in a tree */
#define MTIME_NS_MAX  999999999u /* nanoseconds of a time */

void gb_tree_add(struct gb_buf *b, const struct gb_msg_entry *e)
{
	gb_auto_done(gb_buf) record = { 0 };
	uint8_t le[4];

	gb_buf_init(&record, GB_TREE_RECORD_MAX);
	gb_msg_entry_encode(e, &record);
	if (record.error) {
		b->error = record.error;
		return;
	}
	for (int i = 0; i < 4; i++)
		le[i] = (uint8_t)(record.len >> (8 * i));
	gb_buf_add(b, le, sizeof(le));
	gb_buf_add(b, record.data, record.len);
}

bool gb_tree_path_ok(const char *path)
{
	if (!*path)
		return true;
	if (strlen(path) > TREE_PATH_MAX)
		return false;
	for (const char *p = path;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (!p[n])
			return true;
		p += n + 1;
	}
}

void gb_tree_reader_init(struct gb_tree_reader *r)
{
	memset(r, 0, sizeof(*r));
	gb_buf_init(&r->in, GB_TREE_RECORD_MAX + 4);
}

void gb_tree_reader_done(struct gb_tree_reader *r)
{
	gb_buf_done(&r->in);
	gb_msg_entry_done(&r->now);
}

static int check_entry(const struct gb_tree_reader *r, struct gb_err *err)
{
	const struct gb_msg_entry *e = &r->now;

	if (e->kind > GB_TREE_FIFO)
		return gb_fail(err, GB_E_PROTOCOL, "tree entry of unknown kind %u", e->kind);
	if (e->kind == GB_TREE_END && r->records == 0)
		return gb_fail(err, GB_E_PROTOCOL, "tree without an entry");
	if (e->kind == GB_TREE_END)
		return 0;
	if (!gb_tree_path_ok(e->path))
		return gb_fail(err, GB_E_PROTOCOL, "tree entry with the path '%s'", e->path);
	if (!*e->path != (r->records == 0) || (r->records && r->root_kind != GB_TREE_DIR))
		return gb_fail(err, GB_E_PROTOCOL, "tree entries out of order");
	if (e->kind != GB_TREE_FILE && e->size)
		return gb_fail(err, GB_E_PROTOCOL, "tree entry '%s' has content", e->path);
	if (e->kind == GB_TREE_LINK && !*e->link)
		return gb_fail(err, GB_E_PROTOCOL, "tree entry '%s' links nowhere", e->path);
	/* beyond it are the values by which utimensat means "now" and "leave it" */
	if (e->mtime_ns > MTIME_NS_MAX)
		return gb_fail(err, GB_E_PROTOCOL, "tree entry '%s' has no proper time", e->path);
	return 0;
}

static void fill_to(struct gb_tree_reader *r, size_t want, const uint8_t **data, size_t *len)
{
	size_t n = r->in.len < want ? GB_MIN(want - r->in.len, *len) : 0;

	gb_buf_add(&r->in, *data, n);
	*data += n;
	*len -= n;
}

/* Moves what is missing of the record from the piece into r->in; true when it is whole or
 * cannot be taken (*record is too large, memory is out). */
static bool fill_record(
	struct gb_tree_reader *r, const uint8_t **data, size_t *len, size_t *record)
{
	const uint8_t *p;

	fill_to(r, 4, data, len);
	if (r->in.len < 4)
		return r->in.error;
	p = r->in.data;
	*record = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
	if (*record > GB_TREE_RECORD_MAX)
		return true;
	fill_to(r, 4 + *record, data, len);
	return r->in.error || r->in.len == 4 + *record;
}

static int take_record(struct gb_tree_reader *r, size_t record, const struct gb_tree_ops *ops,
	void *ctx, struct gb_err *err)
{
	int code;

	if (r->in.error)
		return gb_nomem(err);
	if (record > GB_TREE_RECORD_MAX || record == 0)
		return gb_fail(err, GB_E_PROTOCOL, "tree record of %zu bytes", record);
	gb_msg_entry_done(&r->now);
	code = gb_msg_entry_decode(r->in.data + 4, record, &r->now, err);
	gb_buf_reset(&r->in);
	if (code == 0)
		code = check_entry(r, err);
	if (code < 0)
		return code;
	if (r->now.kind == GB_TREE_END) {
		r->ended = true;
		return 0;
	}
	if (r->records++ == 0)
		r->root_kind = r->now.kind;
	r->content_left = r->now.size;
	code = ops->entry(ctx, &r->now, err);
	if (code == 0 && r->now.kind == GB_TREE_FILE && r->content_left == 0)
		code = ops->end(ctx, &r->now, err);
	return code;
}

static int take_content(struct gb_tree_reader *r, const uint8_t **data, size_t *len,
	const struct gb_tree_ops *ops, void *ctx, struct gb_err *err)
{
	size_t n = (size_t)GB_MIN(r->content_left, (uint64_t)*len);
	int code = ops->content(ctx, *data, n, err);

	*data += n;
	*len -= n;
	r->content_left -= n;
	if (code == 0 && r->content_left == 0)
		code = ops->end(ctx, &r->now, err);
	return code;
}

static int feed(struct gb_tree_reader *r, const uint8_t *data, size_t len,
	const struct gb_tree_ops *ops, void *ctx, struct gb_err *err)
{
	while (len) {
		size_t record = 0;
		int code;

		if (r->ended)
			return gb_fail(err, GB_E_PROTOCOL, "bytes after the end of a tree");
		if (r->content_left) {
			code = take_content(r, &data, &len, ops, ctx, err);
		} else {
			if (!fill_record(r, &data, &len, &record))
				return 0;
			code = take_record(r, record, ops, ctx, err);
		}
		if (code < 0)
			return code;
	}
	return 0;
}

int gb_tree_reader_feed(struct gb_tree_reader *r, const uint8_t *data, size_t len,
	const struct gb_tree_ops *ops, void *ctx, struct gb_err *err)
{
	int code;

	if (r->failed)
		return gb_fail(err, GB_E_PROTOCOL, "this tree failed before");
	code = feed(r, data, len, ops, ctx, err);
	r->failed = code < 0;
	return code;
}
