/* Parsing and matching. Input: a file's content, then a patch, which begins at the first
 * begin marker. Each Update in it is tried on the content. What comes out must be made of
 * the file's lines and the patch's, and end as the file did. */
#include "patch/match.h"

#include <string.h>

#define LINES_WATCHED 2000 /* beyond, checking all pairs of lines takes too long */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

/* Behind a letter CR an added LF reads as CR LF: lines are compared without either. */
static struct gb_span without_cr(struct gb_span line)
{
	while (line.len && line.at[line.len - 1] == '\r')
		line.len--;
	return line;
}

static bool same_line(struct gb_span a, struct gb_span b)
{
	return gb_span_eq(without_cr(a), without_cr(b));
}

static bool has_line(struct gb_span text, struct gb_span line)
{
	struct gb_span one;
	unsigned eol;

	gb_span_cut(&text, GB_SPAN("\xef\xbb\xbf"));
	while (gb_span_line(&text, &one, &eol)) {
		if (same_line(one, line))
			return true;
		/* the first line went, and the mark of the second is the text's now */
		if (gb_span_cut(&one, GB_SPAN("\xef\xbb\xbf")) && same_line(one, line))
			return true;
	}
	return false;
}

static bool is_added(const struct gb_patch *p, struct gb_span line)
{
	for (size_t i = 0; i < p->line_count; i++) {
		struct gb_span text = p->lines[i].text;

		/* an empty line may be added where it was to be kept */
		if (!line.len && !text.len)
			return true;
		if (p->lines[i].op != '+')
			continue;
		if (same_line(text, line))
			return true;
		if (gb_span_cut(&text, GB_SPAN("\xef\xbb\xbf")) && same_line(text, line))
			return true;
	}
	return false;
}

static void check_lines(
	const struct gb_patch *p, struct gb_span old, struct gb_span fresh)
{
	struct gb_span line;
	unsigned eol;
	size_t count = 0;

	gb_span_cut(&fresh, GB_SPAN("\xef\xbb\xbf"));
	while (gb_span_line(&fresh, &line, &eol) && count++ < LINES_WATCHED)
		require(has_line(old, line) || is_added(p, line));
}

static void check_end(struct gb_span old, struct gb_span fresh)
{
	if (!old.len || !fresh.len)
		return;
	/* a last line that became empty looks as if the file ended with a line end */
	if (old.at[old.len - 1] == '\n')
		require(fresh.at[fresh.len - 1] == '\n' || fresh.len <= 3);
}

static void try_update(
	const struct gb_patch *p, const struct gb_patch_hunk *h, struct gb_span old)
{
	struct gb_patch_report report;
	struct gb_buf fresh = { 0 };
	struct gb_err err = { 0 };
	int r;

	gb_patch_report_init(&report);
	r = gb_patch_rewrite(p, h, h->path, old, &fresh, &report, &err);
	if (r == 0) {
		struct gb_span got = { fresh.data ? (char *)fresh.data : "", fresh.len };

		check_lines(p, old, got);
		check_end(old, got);
	} else {
		require(report.fault != GB_PATCH_FINE && report.text.len && *err.msg);
	}
	gb_buf_done(&fresh);
	gb_patch_report_done(&report);
}

static void check_shape(const struct gb_patch *p, struct gb_span text)
{
	require(p->hunk_count && p->hunk_count <= GB_PATCH_HUNKS_MAX);
	for (size_t i = 0; i < p->line_count; i++) {
		struct gb_span line = p->lines[i].text;

		require(!line.len ||
			(line.at >= text.at && line.at + line.len <= text.at + text.len));
	}
	for (size_t i = 0; i < p->chunk_count; i++) {
		require(p->chunks[i].count > p->chunks[i].anchors);
		require(p->chunks[i].first + p->chunks[i].count <= p->line_count);
	}
	for (size_t i = 0; i < p->hunk_count; i++)
		require(*p->hunks[i].path &&
			(p->hunks[i].move || p->hunks[i].kind != GB_PATCH_UPDATE ||
				p->hunks[i].count));
}

static void explain(const struct gb_patch_report *report)
{
	struct gb_buf b = { 0 };

	gb_patch_explain(report, GB_PATCH_AS_TOOL, &b);
	gb_patch_explain(report, GB_PATCH_AS_COMMAND, &b);
	require(!b.error && b.len > 2);
	gb_buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char marker[] = "*** Begin Patch";
	const uint8_t *at = memmem(data, size, marker, sizeof(marker) - 1);
	struct gb_span old = { (const char *)data, at ? (size_t)(at - data) : 0 };
	struct gb_span text = { (const char *)data + old.len, size - old.len };
	struct gb_patch_report report;
	struct gb_patch *p = NULL;
	struct gb_err err = { 0 };

	/* a here-document's first line belongs to the patch */
	if (old.len >= 2 && memcmp(data, "<<", 2) == 0)
		text = (struct gb_span){ (const char *)data, size };
	gb_patch_report_init(&report);
	if (gb_patch_parse(text.at, text.len, &p, &report, &err) < 0) {
		require(!p && report.fault != GB_PATCH_FINE && *err.msg);
		explain(&report);
	} else {
		check_shape(p, text);
		for (size_t i = 0; i < p->hunk_count; i++)
			if (p->hunks[i].kind == GB_PATCH_UPDATE)
				try_update(p, &p->hunks[i], old);
	}
	gb_patch_free(p);
	gb_patch_report_done(&report);
	return 0;
}
