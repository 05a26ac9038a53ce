#include "rows.h"

#include "patch/match.h"

#include <stdio.h>
#include <string.h>

#define MISS "Failed to find expected lines in f:\n"

/* body: the update's lines. Either what the file becomes or what is said. */
struct row {
	const char *name;
	const char *old;
	const char *body;
	const char *fresh;
	const char *fault;
};

static const struct row rows[] = {
	{ "replace", "a\nb\nc\n", "@@\n-b\n+B\n", "a\nB\nc\n", NULL },
	{ "replace: two chunks", "1\n2\n3\n4\n", "@@\n-2\n+B\n@@\n-4\n+D\n",
		"1\nB\n3\nD\n", NULL },
	{ "replace: chunks out of order", "1\n2\n", "@@\n-2\n+B\n@@\n-1\n+A\n", NULL,
		MISS "1" },
	{ "replace: the first of two", "x\nx\n", "@@\n-x\n+y\n", "y\nx\n", NULL },
	{ "replace: each of two", "x\nx\n", "@@\n-x\n+y\n@@\n-x\n+z\n", "y\nz\n", NULL },
	{ "replace: a line is used once", "x\n", "@@\n-x\n+y\n@@\n-x\n+z\n", NULL,
		MISS "x" },
	{ "replace: order with repeated lines", "a\nb\n", "@@\n-a\n-b\n+b\n+b\n+a\n",
		"b\nb\na\n", NULL },
	{ "remove all", "a\nb\n", "@@\n-a\n-b\n", "", NULL },
	{ "remove the last", "a\nb\n", "@@\n a\n-b\n", "a\n", NULL },
	{ "nothing changes", "a\nb\n", "@@\n a\n b\n", "a\nb\n", NULL },
	{ "miss: names the lines", "a\n", "@@\n x\n-y\n+z\n", NULL, MISS "x\ny" },
	{ "miss: empty lines are shown", "a\n", "@@\n \n-y\n \n", NULL, MISS "\ny\n" },
	{ "miss: longer than the file", "a\n", "@@\n-a\n-a\n", NULL, MISS "a\na" },
	{ "miss: empty file", "", "@@\n-a\n", NULL, MISS "a" },

	{ "anchor", "def a\n x\ndef b\n x\n", "@@ def b\n- x\n+ y\n",
		"def a\n x\ndef b\n y\n", NULL },
	{ "anchor: itself is not replaced", "a\n", "@@ a\n-a\n+b\n", NULL, MISS "a" },
	{ "anchor: missing", "a\n", "@@ zz\n-a\n", NULL,
		"Failed to find context 'zz' in f" },
	{ "anchor: only behind what was done", "a\nb\n", "@@\n-b\n+c\n@@ a\n+d\n", NULL,
		"Failed to find context 'a' in f" },
	{ "anchor: loosely", "  def  b  \nx\n", "@@ def  b\n-x\n+y\n", "  def  b  \ny\n",
		NULL },
	/* https://github.com/openai/codex/pull/2596 */
	{ "anchors: class, then method",
		"class One\n    def go():\n    x = 1\nclass Two\n    def go():\n    x = "
		"1\n",
		"@@ class Two\n@@     def go():\n-    x = 1\n+    x = 2\n",
		"class One\n    def go():\n    x = 1\nclass Two\n    def go():\n    x = "
		"2\n",
		NULL },
	{ "anchors: the second is missing", "a\nb\n", "@@ a\n@@ c\n+x\n", NULL,
		"Failed to find context 'c' in f" },

	/* https://github.com/openai/codex/issues/30946 */
	{ "insert: behind its anchor", "alpha\nbeta\ngamma\ndelta\n",
		"@@ alpha\n+after-alpha\n@@ gamma\n+after-gamma\n",
		"alpha\nafter-alpha\nbeta\ngamma\nafter-gamma\ndelta\n", NULL },
	{ "insert: without anchor at the end", "a\nb\n", "@@\n+tail\n", "a\nb\ntail\n",
		NULL },
	{ "insert: two at the end keep their order", "a\n", "@@\n+1\n@@\n+2\n",
		"a\n1\n2\n", NULL },
	{ "insert: at the end, then change", "a\nb\n", "@@\n+tail\n@@\n-a\n+A\n",
		"A\nb\ntail\n", NULL },
	{ "insert: anchor is the last line", "a\nb\n", "@@ b\n+c\n@@\n+d\n",
		"a\nb\nc\nd\n", NULL },
	{ "insert: anchor and end of file", "a\nb\nc\n", "@@ a\n+z\n*** End of File\n",
		"a\nb\nc\nz\n", NULL },
	{ "insert: then the anchor's next line", "a\nb\n", "@@ a\n+x\n@@\n-b\n+B\n",
		"a\nx\nB\n", NULL },
	{ "insert: twice behind one anchor's line", "a\nb\n", "@@ a\n+x\n@@\n b\n+y\n",
		"a\nx\nb\ny\n", NULL },
	{ "insert: into an empty file", "", "@@\n+a\n+b\n", "a\nb\n", NULL },
	{ "insert: before the first line", "a\n", "@@\n+0\n a\n", "0\na\n", NULL },

	/* https://github.com/anomalyco/opencode/issues/43331 */
	{ "end of file: the last of two", "k\nend\nmid\nk\nend\n",
		"@@\n-k\n+K\n end\n*** End of File\n", "k\nend\nmid\nK\nend\n", NULL },
	{ "end of file: not the last", "k\nend\nmid\nk\nend\n",
		"@@\n-mid\n+MID\n*** End of File\n", NULL, MISS "mid" },
	{ "end of file: loosely", "k\nk  \n", "@@\n-k\n+K\n*** End of File\n", "k\nK\n",
		NULL },
	{ "end of file: not over what was done", "a\nb\n",
		"@@\n a\n-b\n+c\n@@\n-b\n+d\n*** End of File\n", NULL, MISS "b" },
	{ "end of file: reaches back over a chunk", "a\nb\nc\n",
		"@@\n-b\n+B\n@@\n-b\n c\n*** End of File\n", NULL, MISS "b\nc" },
	{ "end of file: just behind a chunk", "a\nb\nc\n",
		"@@\n-b\n+B\n@@\n-c\n+C\n*** End of File\n", "a\nB\nC\n", NULL },

	{ "empty end: stands for the line end", "a\nb\n", "@@\n-b\n+B\n \n", "a\nB\n",
		NULL },
	{ "empty end: both sides", "a\nb\n", "@@\n-b\n-\n+B\n+\n", "a\nB\n", NULL },
	{ "empty end: is preferred where it is", "b\nb\n\n", "@@\n-b\n+B\n \n",
		"b\nB\n\n", NULL },
	{ "empty end: more is added behind it", "a\n", "@@\n a\n \n+b\n", "a\n\nb\n",
		NULL },
	{ "empty end: with end of file", "a\nb\n", "@@\n-b\n+B\n \n*** End of File\n",
		"a\nB\n", NULL },
	{ "empty end: nothing else, at the end", "a\n", "@@\n \n+b\n", "a\n\nb\n", NULL },
	{ "empty end: removal alone is not made up", "a\n", "@@\n-\n+b\n", NULL, MISS },

	{ "loose: exact goes first", "x \nx\n", "@@\n-x\n+y\n", "x \ny\n", NULL },
	{ "loose: space at the end before space at the begin", " x\nx \n", "@@\n-x\n+y\n",
		" x\ny\n", NULL },
	{ "loose: space at the begin", "\t x\n", "@@\n-x\n+y\n", "y\n", NULL },
	{ "loose: space in the patch", "x\n", "@@\n-  x \n+y\n", "y\n", NULL },
	{ "loose: not within", "a  b\n", "@@\n-a b\n+y\n", NULL, MISS "a b" },
	{ "loose: kept lines stay the file's", "  a \nb\n\tc\n", "@@\n a\n-b\n+B\n c\n",
		"  a \nB\n\tc\n", NULL },
	{ "loose: an empty line and one of spaces", "  \nb\n", "@@\n \n-b\n+B\n",
		"  \nB\n", NULL },
	{ "loose: no-break and ideographic space", "\xc2\xa0x\xe3\x80\x80\n",
		"@@\n-x\n+y\n", "y\n", NULL },
	{ "fold: hyphens",
		"a\xe2\x80\x90"
		"b\xe2\x80\x95"
		"c\xe2\x88\x92"
		"d\n",
		"@@\n-a-b-c-d\n+y\n", "y\n", NULL },
	{ "fold: hyphens, the other way", "a-b\n",
		"@@\n-a\xe2\x80\x93"
		"b\n+y\n",
		"y\n", NULL },
	{ "fold: single quotes",
		"\xe2\x80\x98"
		"a\xe2\x80\x9b\n",
		"@@\n-'a'\n+y\n", "y\n", NULL },
	{ "fold: double quotes",
		"\xe2\x80\x9c"
		"a\xe2\x80\x9f\n",
		"@@\n-\"a\"\n+y\n", "y\n", NULL },
	{ "fold: spaces",
		"a\xc2\xa0"
		"b\xe2\x80\x82"
		"c\xe2\x80\x8a"
		"d\xe2\x80\xaf"
		"e\xe2\x81\x9f"
		"f\xe3\x80\x80g\n",
		"@@\n-a b c d e f g\n+y\n", "y\n", NULL },
	{ "fold: just outside of the hyphens",
		"a\xe2\x80\x8f"
		"b\n",
		"@@\n-a-b\n+y\n", NULL, MISS "a-b" },
	{ "fold: just behind the hyphens",
		"a\xe2\x80\x96"
		"b\n",
		"@@\n-a-b\n+y\n", NULL, MISS "a-b" },
	{ "fold: em quad is no space within",
		"a\xe2\x80\x81"
		"b\n",
		"@@\n-a b\n+y\n", NULL, MISS "a b" },
	{ "fold: kept lines stay the file's", "\xe2\x80\x9chi\xe2\x80\x9d\nb\n",
		"@@\n \"hi\"\n-b\n+B\n", "\xe2\x80\x9chi\xe2\x80\x9d\nB\n", NULL },
	{ "fold: a cut character", "a\xe2\x80", "@@\n-a-\n+y\n", NULL, MISS "a-" },

	/* https://github.com/openai/codex/issues/25048 */
	{ "CR LF: added lines get it", "a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n+B2\n c\n",
		"a\r\nB\r\nB2\r\nc\r\n", NULL },
	{ "CR LF: inserted first", "a\r\n", "@@\n+0\n a\n", "0\r\na\r\n", NULL },
	{ "CR LF: at the end", "a\r\n", "@@\n+b\n", "a\r\nb\r\n", NULL },
	{ "CR LF: no line end at the end", "a\r\nb", "@@\n b\n+c\n", "a\r\nb\r\nc",
		NULL },
	{ "CR LF: patch has it, the file has not", "a\nb\n", "@@\r\n a\r\n-b\r\n+B\r\n",
		"a\nB\n", NULL },
	{ "mixed: untouched lines stay", "one\r\ntwo\nthree\r\nfour\n",
		"@@\n one\n two\n-three\n+THREE\n four\n", "one\r\ntwo\nTHREE\r\nfour\n",
		NULL },
	{ "mixed: a kept line has its own", "same\r\nsame\n", "@@\n-same\n same\n",
		"same\n", NULL },
	{ "CR: alone is a letter", "a\rb\n", "@@\n-a\rb\n+c\n", "c\n", NULL },
	{ "CR: two before LF", "a\r\r\nb\n", "@@\n-b\n+B\n", "a\r\r\nB\n", NULL },

	/* https://github.com/openai/codex/issues/7640 */
	{ "no end: kept when the line changes", "{\"v\":1}",
		"@@\n-{\"v\":1}\n+{\"v\":2}\n", "{\"v\":2}", NULL },
	{ "no end: kept when another changes", "a\nb", "@@\n-a\n+A\n", "A\nb", NULL },
	{ "no end: kept when lines are added", "a\nb", "@@\n+c\n", "a\nb\nc", NULL },
	{ "no end: kept when the last goes", "a\nb", "@@\n a\n-b\n", "a", NULL },
	{ "no end: all goes", "a", "@@\n-a\n", "", NULL },
	{ "no end: more lines", "x", "@@\n-x\n+1\n+2\n", "1\n2", NULL },
	{ "end: kept when lines are added", "a\n", "@@\n+c\n", "a\nc\n", NULL },
	{ "end: empty last lines", "a\n\n\n", "@@\n-a\n+b\n", "b\n\n\n", NULL },

	/* https://github.com/openai/codex/issues/21164 */
	{ "bytes: Latin-1", "caf\xe9\nold\n", "@@\n-old\n+new\n", "caf\xe9\nnew\n",
		NULL },
	{ "bytes: Latin-1 in what is found", "caf\xe9\n", "@@\n-caf\xe9\n+x\n", "x\n",
		NULL },
	{ "bytes: mark kept", "\xef\xbb\xbfone\ntwo\n", "@@\n-two\n+TWO\n",
		"\xef\xbb\xbfone\nTWO\n", NULL },
	{ "bytes: mark kept when the first line changes", "\xef\xbb\xbfone\n",
		"@@\n-one\n+1\n",
		"\xef\xbb\xbf"
		"1\n",
		NULL },
	{ "bytes: mark copied by the model", "\xef\xbb\xbfone\n",
		"@@\n-\xef\xbb\xbfone\n+\xef\xbb\xbf"
		"1\n",
		"\xef\xbb\xbf"
		"1\n",
		NULL },
	{ "bytes: mark alone", "\xef\xbb\xbf", "@@\n+a\n",
		"\xef\xbb\xbf"
		"a\n",
		NULL },
	{ "bytes: only LF ends a line",
		"a\xe2\x80\xa8"
		"b\fc\xc2\x85"
		"d\vz\nx\n",
		"@@\n-x\n+y\n",
		"a\xe2\x80\xa8"
		"b\fc\xc2\x85"
		"d\vz\ny\n",
		NULL },
};

static int rewrite(const char *body, struct gb_span old, struct gb_buf *ret,
	struct gb_patch_report *report, struct gb_err *err)
{
	gb_auto(gb_patch) *p = NULL;
	gb_auto_done(gb_buf) text = { 0 };
	int r;

	gb_buf_printf(
		&text, "*** Begin Patch\n*** Update File: f\n%s*** End Patch\n", body);
	r = gb_patch_parse((const char *)text.data, text.len, &p, report, err);
	if (r == 0)
		r = gb_patch_rewrite(p, &p->hunks[0], "f", old, ret, report, err);
	gb_buf_add_byte(&report->text, 0);
	return r;
}

static void one(void **state)
{
	const struct row *row = *state;
	struct gb_patch_report report;
	struct gb_buf fresh = { 0 };
	struct gb_err err = { 0 };
	struct gb_span old = { row->old, strlen(row->old) };
	int r;

	gb_patch_report_init(&report);
	r = rewrite(row->body, old, &fresh, &report, &err);
	if (row->fault) {
		assert_int_equal(r, GB_E_STATE);
		assert_int_equal(report.fault, GB_PATCH_MISMATCH);
		assert_string_equal((char *)report.text.data, row->fault);
	} else {
		assert_string_equal(err.msg, "");
		assert_int_equal(r, 0);
		gb_buf_add_byte(&fresh, 0);
		assert_string_equal((char *)fresh.data, row->fresh);
	}
	gb_buf_done(&fresh);
	gb_patch_report_done(&report);
}

static void nul_bytes(void **state)
{
	static const char old[] = "a\0b\nx\n";
	struct gb_patch_report report;
	struct gb_buf fresh = { 0 };

	(void)state;
	gb_patch_report_init(&report);
	assert_int_equal(
		rewrite("-x\n+y\n", (struct gb_span){ old, 6 }, &fresh, &report, NULL),
		0);
	assert_int_equal(fresh.len, 6);
	assert_memory_equal(fresh.data, "a\0b\ny\n", 6);
	gb_buf_done(&fresh);
	gb_patch_report_done(&report);
}

static void repeat(struct gb_buf *b, const char *s, size_t count)
{
	gb_buf_init(b, SIZE_MAX);
	while (count--)
		gb_buf_add_str(b, s);
}

static int rewrite_lines(size_t count, const char *body)
{
	struct gb_patch_report report;
	struct gb_buf old;
	struct gb_buf fresh = { 0 };
	int r;

	gb_patch_report_init(&report);
	repeat(&old, "a\n", count);
	r = rewrite(body, (struct gb_span){ (char *)old.data, old.len }, &fresh, &report,
		NULL);
	gb_buf_done(&old);
	gb_buf_done(&fresh);
	gb_patch_report_done(&report);
	return r;
}

static void line_cap(void **state)
{
	(void)state;
	assert_int_equal(rewrite_lines(GB_PATCH_LINES_MAX, "+b\n"), 0);
	assert_int_equal(rewrite_lines(GB_PATCH_LINES_MAX + 1, "+b\n"), GB_E_LIMIT);
}

static int rewrite_bytes(size_t size)
{
	struct gb_patch_report report;
	struct gb_buf old;
	struct gb_buf fresh = { 0 };
	int r;

	gb_patch_report_init(&report);
	repeat(&old, "a", size - 1);
	gb_buf_add_byte(&old, '\n');
	r = rewrite("+b\n", (struct gb_span){ (char *)old.data, old.len }, &fresh,
		&report, NULL);
	gb_buf_done(&old);
	gb_buf_done(&fresh);
	gb_patch_report_done(&report);
	return r;
}

static void size_cap(void **state)
{
	(void)state;
	assert_int_equal(rewrite_bytes(GB_PATCH_FILE_MAX - 2), 0);
	assert_int_equal(rewrite_bytes(GB_PATCH_FILE_MAX - 1), GB_E_LIMIT);
}

/* Half a million lines, each of which begins a block that is nearly the one that is
 * looked for: without a cap this takes an hour. */
static void search_cap(void **state)
{
	struct gb_buf body;

	(void)state;
	repeat(&body, " a\n", 100000);
	gb_buf_add_str(&body, "-b\n");
	gb_buf_add_byte(&body, 0);
	assert_int_equal(rewrite_lines(500000, (char *)body.data), GB_E_LIMIT);
	gb_buf_done(&body);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, rows, one);
	rows_add_one(&l, "bytes: NUL", nul_bytes);
	rows_add_one(&l, "cap: lines of a file", line_cap);
	rows_add_one(&l, "cap: bytes of a file", size_cap);
	rows_add_one(&l, "cap: search", search_cap);
	return rows_run("patch-rewrite", &l);
}
