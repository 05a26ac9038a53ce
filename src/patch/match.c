#include "patch/match.h"
#include "patch/report.h"

#include <string.h>

#define MARK                                                                             \
	GB_SPAN("\xef\xbb\xbf") /* a byte order mark is no part of the first line        \
				 */

struct file_line {
	struct gb_span text;
	unsigned eol; /* bytes of its line end: 0 (the last line only), 1 or 2 */
};

struct doc {
	struct file_line *lines; /* owned */
	size_t count, cap;
	bool mark;
};

/* What becomes of old lines [start, start + the kept and removed of ops). */
struct edit {
	size_t start;
	bool append;		   /* behind all lines, whatever else is changed */
	struct gb_patch_line *ops; /* owned */
	size_t count;
};

struct rewriter {
	const struct gb_patch *patch;
	const char *name;
	struct gb_patch_report *report;
	struct gb_err *err;
	struct doc doc;
	struct edit *edits; /* owned */
	size_t edit_count, edit_cap;
	size_t cursor; /* old lines before it are settled */
	uint64_t work;
	struct gb_buf *out;
	unsigned last_eol; /* bytes of the line end that was written last */
};

static void rewriter_done(struct rewriter *w)
{
	for (size_t i = 0; i < w->edit_count; i++)
		free(w->edits[i].ops);
	free(w->edits);
	free(w->doc.lines);
}

static int too_long(struct rewriter *w, const char *what)
{
	return gb_patch_fail(w->report, w->err, GB_PATCH_REFUSED, GB_E_LIMIT, "%s is %s",
		w->name, what);
}

static int split(struct rewriter *w, struct gb_span old)
{
	struct doc *d = &w->doc;
	struct file_line line;

	d->mark = gb_span_cut(&old, MARK);
	while (gb_span_line(&old, &line.text, &line.eol)) {
		if (d->count == GB_PATCH_LINES_MAX)
			return too_long(w, "too long: too many lines");
		if (!gb_grow(&d->lines, &d->cap, d->count + 1, sizeof(*d->lines)))
			return gb_patch_nomem(w->report, w->err);
		d->lines[d->count++] = line;
	}
	return 0;
}

/* ------------------------------------------------------------------ finding */

static bool block_is_at(struct rewriter *w, const struct gb_span *want, size_t n,
	size_t at, enum gb_likeness likeness)
{
	for (size_t i = 0; i < n; i++)
		if (!gb_line_like(w->doc.lines[at + i].text, want[i], likeness, &w->work))
			return false;
	return true;
}

/* 1 and *ret, 0 when it is nowhere, or a failure. */
static int find(struct rewriter *w, const struct gb_span *want, size_t n, bool at_end,
	size_t *ret)
{
	size_t first = w->cursor;

	if (n > w->doc.count || w->doc.count - n < first)
		return 0;
	if (at_end)
		first = w->doc.count - n;
	for (int like = 0; like < GB_LIKE_COUNT; like++) {
		for (size_t at = first; at <= w->doc.count - n; at++) {
			if (w->work > GB_PATCH_SEARCH_MAX)
				return too_long(
					w, "too long to be searched: split the patch");
			if (!block_is_at(w, want, n, at, (enum gb_likeness)like))
				continue;
			*ret = at;
			return 1;
		}
	}
	return 0;
}

static int go_to_anchors(struct rewriter *w, const struct gb_patch_chunk *c)
{
	for (size_t i = 0; i < c->anchors; i++) {
		struct gb_span text = w->patch->lines[c->first + i].text;
		size_t at = 0;
		int r = find(w, &text, 1, false, &at);

		if (r < 0)
			return r;
		if (r == 0)
			return gb_patch_fail(w->report, w->err, GB_PATCH_MISMATCH,
				GB_E_STATE, "Failed to find context '%.*s' in %s",
				GB_SPAN_ARG(text), w->name);
		w->cursor = at + 1;
	}
	return 0;
}

static int not_found(struct rewriter *w, const struct gb_patch_chunk *c)
{
	const struct gb_patch_line *lines = w->patch->lines + c->first;
	gb_auto_done(gb_buf) block = { 0 };
	const char *between = "";

	gb_buf_init(&block, GB_PATCH_QUOTE_MAX);
	for (size_t i = c->anchors; i < c->count; i++) {
		if (lines[i].op == '+')
			continue;
		gb_buf_add_str(&block, between);
		gb_buf_add(&block, lines[i].text.at, lines[i].text.len);
		between = "\n";
	}
	return gb_patch_fail(w->report, w->err, GB_PATCH_MISMATCH, GB_E_STATE,
		"Failed to find expected lines in %s:\n%.*s", w->name, (int)block.len,
		block.data ? (const char *)block.data : "");
}

/* The kept and removed lines, as they are looked for: without a byte order mark that the
 * model copied from the file's begin. */
static size_t wanted(const struct edit *e, struct gb_span *want)
{
	size_t n = 0;

	for (size_t i = 0; i < e->count; i++) {
		if (e->ops[i].op == '+')
			continue;
		want[n] = e->ops[i].text;
		gb_span_cut(&want[n++], MARK);
	}
	return n;
}

static void drop_op(struct edit *e, size_t at)
{
	e->count--;
	memmove(e->ops + at, e->ops + at + 1, (e->count - at) * sizeof(*e->ops));
}

/* An empty line at the end of what is looked for often stands for the file's last line
 * end, which is no line. Drop it, and an empty line at the end of what is put there. Not
 * when nothing but its removal was asked for. */
static bool drop_empty_end(struct edit *e, size_t wanted_count)
{
	size_t last = e->count;
	char op;

	while (last > 0 && e->ops[last - 1].op == '+')
		last--;
	if (!last || e->ops[last - 1].text.len)
		return false;
	op = e->ops[last - 1].op;
	if (op == '-' && wanted_count == 1)
		return false;
	if (op == ' ' && last != e->count) {
		e->ops[last - 1].op = '+';
		op = '-';
	} else {
		drop_op(e, last - 1);
	}
	if (op == '-' && e->count && e->ops[e->count - 1].op == '+' &&
		!e->ops[e->count - 1].text.len)
		drop_op(e, e->count - 1);
	return true;
}

static int place(struct rewriter *w, const struct gb_patch_chunk *c, struct edit *e,
	struct gb_span *want)
{
	size_t n = wanted(e, want);
	int r;

	if (!n) {
		e->append = c->at_end || !c->anchors;
		e->start = w->cursor;
		return 0;
	}
	r = find(w, want, n, c->at_end, &e->start);
	if (r == 0 && drop_empty_end(e, n)) {
		n = wanted(e, want);
		if (!n)
			return place(w, c, e, want);
		r = find(w, want, n, c->at_end, &e->start);
	}
	if (r == 0)
		return not_found(w, c);
	w->cursor = e->start + n;
	return r < 0 ? r : 0;
}

static int chunk_to_edit(struct rewriter *w, const struct gb_patch_chunk *c)
{
	gb_auto_free struct gb_span *want = NULL;
	size_t count = c->count - c->anchors;
	struct edit *e;
	int r = go_to_anchors(w, c);

	if (r < 0)
		return r;
	if (!gb_grow(&w->edits, &w->edit_cap, w->edit_count + 1, sizeof(*w->edits)))
		return gb_patch_nomem(w->report, w->err);
	e = &w->edits[w->edit_count++];
	*e = (struct edit){ .count = count, .ops = calloc(count, sizeof(*e->ops)) };
	want = calloc(count, sizeof(*want));
	if (!e->ops || !want)
		return gb_patch_nomem(w->report, w->err);
	memcpy(e->ops, w->patch->lines + c->first + c->anchors, count * sizeof(*e->ops));
	return place(w, c, e, want);
}

/* ------------------------------------------------------------------ writing */

/* The line end for a line that is put before old line at: that of its neighbour. */
static unsigned eol_at(const struct doc *d, size_t at)
{
	if (at > 0 && d->lines[at - 1].eol)
		return d->lines[at - 1].eol;
	if (at < d->count && d->lines[at].eol)
		return d->lines[at].eol;
	return at > 1 ? d->lines[at - 2].eol : 1;
}

static void put(struct rewriter *w, struct gb_span text, unsigned eol)
{
	gb_buf_add(w->out, text.at, text.len);
	gb_buf_add(w->out, eol == 2 ? "\r\n" : "\n", eol);
	w->last_eol = eol;
}

static void put_old(struct rewriter *w, size_t at)
{
	const struct file_line *line = &w->doc.lines[at];

	put(w, line->text, line->eol ? line->eol : eol_at(&w->doc, at));
}

/* Returns the first old line behind the edit. */
static size_t put_edit(struct rewriter *w, const struct edit *e, size_t at)
{
	for (size_t i = 0; i < e->count; i++) {
		struct gb_span text = e->ops[i].text;

		if (e->ops[i].op == '+') {
			if (w->doc.mark)
				gb_span_cut(&text, MARK);
			put(w, text, eol_at(&w->doc, at));
		} else if (e->ops[i].op == ' ') {
			put_old(w, at++);
		} else {
			at++;
		}
	}
	return at;
}

static int write_all(struct rewriter *w)
{
	const struct doc *d = &w->doc;
	size_t at = 0;

	if (d->mark)
		gb_buf_add(w->out, MARK.at, MARK.len);
	for (size_t i = 0; i < w->edit_count; i++) {
		if (w->edits[i].append)
			continue;
		while (at < w->edits[i].start)
			put_old(w, at++);
		at = put_edit(w, &w->edits[i], at);
	}
	while (at < d->count)
		put_old(w, at++);
	for (size_t i = 0; i < w->edit_count; i++)
		if (w->edits[i].append)
			put_edit(w, &w->edits[i], at);
	if (d->count && !d->lines[d->count - 1].eol && !w->out->error)
		w->out->len -= w->last_eol;
	if (w->out->error == GB_E_LIMIT)
		return too_long(w, "too large");
	return w->out->error ? gb_patch_nomem(w->report, w->err) : 0;
}

int gb_patch_rewrite(const struct gb_patch *patch, const struct gb_patch_hunk *hunk,
	const char *name, struct gb_span old, struct gb_buf *ret,
	struct gb_patch_report *report, struct gb_err *err)
{
	struct rewriter w = {
		.patch = patch, .name = name, .report = report, .err = err, .out = ret
	};
	int r = split(&w, old);

	ret->max = GB_PATCH_FILE_MAX;
	for (size_t i = 0; r == 0 && i < hunk->count; i++)
		r = chunk_to_edit(&w, &patch->chunks[hunk->first + i]);
	if (r == 0)
		r = write_all(&w);
	rewriter_done(&w);
	return r;
}
