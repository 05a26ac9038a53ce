#include "rows.h"

#include "patch/parse.h"
#include "patch/patch.h"

#include <stdio.h>
#include <string.h>

#define BEGIN  "*** Begin Patch\n"
#define END    "*** End Patch"
#define UPDATE BEGIN "*** Update File: f\n"

/* shape: the hunks in short: "A path +n", "D path", "U path>move [anchors:lines[$]]…" */
struct good_row {
	const char *name;
	const char *text;
	const char *shape;
};

static const struct good_row good_rows[] = {
	{ "add", BEGIN "*** Add File: a b\n+x\n+\n" END, "A a b +2" },
	{ "add: nothing in it", BEGIN "*** Add File: a\n" END, "A a +0" },
	{ "add: a marker as content", BEGIN "*** Add File: a\n+*** End Patch\n" END,
		"A a +1" },
	{ "delete", BEGIN "*** Delete File: a\n*** Delete File: b\n" END, "D a|D b" },
	{ "update", UPDATE "@@\n-a\n+b\n" END, "U f [0:2]" },
	{ "update: no @@ at first", UPDATE "-a\n+b\n@@ x\n c\n" END, "U f [0:2][1:1]" },
	{ "update: move", UPDATE "*** Move to: g\n@@\n-a\n" END, "U f>g [0:1]" },
	{ "update: rename only", UPDATE "*** Move to: g\n" END, "U f>g " },
	{ "update: rename only, then more",
		UPDATE "*** Move to: g\n*** Delete File: x\n" END, "U f>g |D x" },
	{ "update: end of file", UPDATE "@@\n-a\n*** End of File\n" END, "U f [0:1$]" },
	{ "update: end of file, blank, chunk",
		UPDATE "@@\n-a\n*** End of File\n\n  \n@@\n+b\n" END, "U f [0:1$][0:1]" },
	{ "update: end of file, header",
		UPDATE "@@\n-a\n*** End of File\n*** Add File: x\n" END,
		"U f [0:1$]|A x +0" },
	{ "update: stacked anchors", UPDATE "@@ class A\n@@   def b\n-a\n" END,
		"U f [2:1]" },
	{ "update: empty line is kept", UPDATE "@@\n a\n\n b\n" END, "U f [0:3]" },
	{ "update: blank before the first chunk", UPDATE "\n\n@@\n-a\n" END,
		"U f [0:1]" },
	{ "update: blank before a chunk without @@", UPDATE "\n-a\n" END, "U f [0:1]" },
	{ "update: only adds, blank lines after it are distance",
		UPDATE "@@ a\n+x\n\n\n@@ b\n+y\n" END, "U f [1:1][1:1]" },
	{ "update: blank lines after what is found are lines",
		UPDATE "@@\n-a\n\n@@ b\n+y\n" END, "U f [0:2][1:1]" },
	{ "update: a kept blank is a line", UPDATE "@@\n+x\n \n" END, "U f [0:2]" },
	{ "update: an indented header is a line",
		UPDATE "@@\n a\n *** Delete File: x\n" END, "U f [0:2]" },
	{ "update: an indented end marker is a line",
		UPDATE "@@\n a\n *** End Patch\n-b\n" END, "U f [0:3]" },
	{ "update: header with space behind",
		BEGIN
		"*** Update File: f  \n*** Move to: g \n@@  \n-a\n*** End of File \n" END,
		"U f>g [0:1$]" },
	{ "header: padded after add",
		BEGIN "*** Add File: a\n+x\n  *** Delete File: b  \n" END, "A a +1|D b" },
	{ "header: blank lines before",
		BEGIN "\n*** Add File: a\n+x\n\n \n*** Delete File: b\n\n" END,
		"A a +1|D b" },
	{ "header: extra spaces before the path", BEGIN "*** Add File:   a\n" END,
		"A a +0" },
	{ "markers: padded",
		" \n *** Begin Patch \n*** Delete File: a\n  *** End Patch  \n\n",
		"D a" },
	{ "markers: CR LF",
		"*** Begin Patch\r\n*** Update File: f\r\n@@\r\n-a\r\n+b\r\n*** End "
		"Patch\r\n",
		"U f [0:2]" },
	{ "markers: byte order mark", "\xef\xbb\xbf" BEGIN "*** Delete File: a\n" END,
		"D a" },
	{ "wrapper: EOF", "<<EOF\n" BEGIN "*** Delete File: a\n" END "\nEOF\n", "D a" },
	{ "wrapper: 'EOF'", "<<'EOF'\n" BEGIN "*** Delete File: a\n" END "\nEOF", "D a" },
	{ "wrapper: \"EOF\"", "<<\"EOF\"\n" BEGIN "*** Delete File: a\n" END "\nEOF\n",
		"D a" },
	{ "wrapper: padded end", "<<EOF\n" BEGIN "*** Delete File: a\n" END "\n  EOF\n",
		"D a" },
	{ "wrapper: another word",
		"<<'PATCH-1'\n" BEGIN "*** Delete File: a\n" END "\nPATCH-1\n", "D a" },
	{ "wrapper: with the command",
		"apply_patch <<'EOF'\n" BEGIN "*** Delete File: a\n" END "\nEOF\n",
		"D a" },
	{ "wrapper: with the other command",
		"applypatch <<\"X\"\n" BEGIN "*** Delete File: a\n" END "\nX\n", "D a" },
	{ "environment", BEGIN "*** Environment ID: e1\n*** Delete File: a\n" END,
		"D a" },
};

static void shape_of(const struct gb_patch *p, struct gb_buf *b)
{
	for (size_t i = 0; i < p->hunk_count; i++) {
		const struct gb_patch_hunk *h = &p->hunks[i];

		gb_buf_printf(b, "%s%c %s", i ? "|" : "", "ADU"[h->kind], h -> path);
		if (h->kind == GB_PATCH_ADD)
			gb_buf_printf(b, " +%zu", h->count);
		if (h->kind != GB_PATCH_UPDATE)
			continue;
		gb_buf_printf(b, "%s%s ", h->move ? ">" : "", h->move ? h->move : "");
		for (size_t k = 0; k < h->count; k++) {
			const struct gb_patch_chunk *c = &p->chunks[h->first + k];

			gb_buf_printf(b, "[%zu:%zu%s]", c->anchors, c->count - c->anchors,
				c->at_end ? "$" : "");
		}
	}
	gb_buf_add_byte(b, 0);
}

static void good(void **state)
{
	const struct good_row *row = *state;
	struct gb_patch_report report;
	struct gb_patch *p = NULL;
	struct gb_buf b = { 0 };
	struct gb_err err = { 0 };

	gb_patch_report_init(&report);
	assert_int_equal(
		gb_patch_parse(row->text, strlen(row->text), &p, &report, &err), 0);
	shape_of(p, &b);
	assert_string_equal((char *)b.data, row->shape);
	gb_buf_done(&b);
	gb_patch_free(p);
	gb_patch_report_done(&report);
}

struct bad_row {
	const char *name;
	const char *text;
	const char *as_tool;
	const char *as_command;
};

#define TOOL	  "apply_patch verification failed: "
#define TOOL_LINE TOOL "invalid hunk at line "
#define CMD_LINE  "Invalid patch hunk on line "
#define FIRST	  "The first line of the patch must be '*** Begin Patch'"
#define LAST	  "The last line of the patch must be '*** End Patch'"
#define HEADERS                                                                          \
	" is not a valid hunk header. Valid hunk headers: '*** Add File: {path}', "      \
	"'*** Delete File: {path}', '*** Update File: {path}'"
#define CHANGES                                                                          \
	". Every line should start with ' ' (context line), '+' (added line), or '-' "   \
	"(removed line)"
#define BAD(line, what) TOOL_LINE #line ", " what, CMD_LINE #line ": " what "\n"

static const struct bad_row bad_rows[] = {
	{ "nothing", "", TOOL "invalid patch: " FIRST, "Invalid patch: " FIRST "\n" },
	{ "no begin", "bad", TOOL "invalid patch: " FIRST, "Invalid patch: " FIRST "\n" },
	{ "only a begin", "*** Begin Patch", TOOL "invalid patch: " LAST,
		"Invalid patch: " LAST "\n" },
	{ "no end", BEGIN "bad", TOOL "invalid patch: " LAST,
		"Invalid patch: " LAST "\n" },
	{ "end marker first", END "\n" BEGIN "*** Add File: a\n+x\n" END,
		TOOL "invalid patch: " FIRST, "Invalid patch: " FIRST "\n" },
	{ "text after the end", BEGIN "*** Delete File: a\n" END "\nDone.",
		TOOL "invalid patch: " LAST, "Invalid patch: " LAST "\n" },
	{ "two patches",
		BEGIN "*** Delete File: a\n" END "\n" BEGIN "*** Delete File: b\n" END,
		BAD(3, "'*** End Patch'" HEADERS) },
	{ "no hunks", BEGIN END, "No files were modified.", "No files were modified.\n" },
	{ "no hunks, wrapper", "<<EOF\n" BEGIN END "\nEOF", "No files were modified.",
		"No files were modified.\n" },
	{ "wrapper: other end", "<<EOF\n" BEGIN "*** Delete File: a\n" END "\nEOT\n",
		TOOL "invalid patch: " FIRST, "Invalid patch: " FIRST "\n" },
	{ "wrapper: no word", "<<\n" BEGIN "*** Delete File: a\n" END "\n<<\n",
		TOOL "invalid patch: " FIRST, "Invalid patch: " FIRST "\n" },
	{ "wrapper: nothing in it", "<<EOF\n" BEGIN "EOF", TOOL "invalid patch: " FIRST,
		"Invalid patch: " FIRST "\n" },
	{ "header: unknown", BEGIN "*** Frobnicate File: foo\n" END,
		BAD(2, "'*** Frobnicate File: foo'" HEADERS) },
	{ "header: no path", BEGIN "*** Add File: \n+x\n" END,
		BAD(2, "'*** Add File:'" HEADERS) },
	{ "header: after delete", BEGIN "*** Delete File: a\n+x\n" END,
		BAD(3, "'+x'" HEADERS) },
	{ "header: numbers start at the begin marker in a wrapper",
		"<<EOF\n" BEGIN "*** Nonsense\n" END "\nEOF",
		BAD(2, "'*** Nonsense'" HEADERS) },
	{ "add: a line without +", BEGIN "*** Add File: a\n+x\ny\n" END,
		BAD(4, "'y'" HEADERS) },
	{ "add: an empty line within", BEGIN "*** Add File: a\n+x\n\n+y\n" END,
		BAD(4, "''" HEADERS) },
	{ "update: empty", BEGIN "*** Update File: test.py\n" END,
		BAD(2, "Update file hunk for path 'test.py' is empty") },
	{ "update: empty, then more",
		BEGIN "*** Update File: t\n*** Delete File: x\n" END,
		BAD(2, "Update file hunk for path 't' is empty") },
	{ "update: chunk of nothing", UPDATE "@@\n" END,
		BAD(4, "Update hunk does not contain any lines") },
	{ "update: anchor of nothing", UPDATE "@@ x\n*** Delete File: x\n" END,
		BAD(4, "Update hunk does not contain any lines") },
	{ "update: end of file of nothing", UPDATE "@@\n*** End of File\n-a\n" END,
		BAD(4, "Update hunk does not contain any lines") },
	{ "update: end of file at once", UPDATE "*** End of File\n" END,
		BAD(3, "Update hunk does not contain any lines") },
	{ "update: @@ twice", UPDATE "@@\n@@\n-a\n" END,
		BAD(4, "Unexpected line found in update hunk: '@@'" CHANGES) },
	{ "update: bare @@, then an anchor", UPDATE "@@\n@@ x\n-a\n" END,
		BAD(4, "Unexpected line found in update hunk: '@@ x'" CHANGES) },
	{ "update: anchor, then bare @@", UPDATE "@@ x\n@@\n-a\n" END,
		BAD(4, "Unexpected line found in update hunk: '@@'" CHANGES) },
	{ "update: first line is no change", UPDATE "@@\nbad\n" END,
		BAD(4, "Unexpected line found in update hunk: 'bad'" CHANGES) },
	{ "update: first line without @@ is no change", UPDATE "bad\n" END,
		BAD(3, "Unexpected line found in update hunk: 'bad'" CHANGES) },
	{ "update: later line is no change", UPDATE "@@\n-a\nbad\n" END,
		BAD(5, "Expected update hunk to start with a @@ context marker, got: "
		       "'bad'") },
	{ "update: a tab is no space", UPDATE "@@\n-a\n\tb\n" END,
		BAD(5, "Expected update hunk to start with a @@ context marker, got: "
		       "'\tb'") },
	{ "update: later line is an odd header", UPDATE "@@\n-a\n*** Rename\n" END,
		BAD(5, "'*** Rename'" HEADERS) },
	{ "update: move after a chunk", UPDATE "@@\n-a\n*** Move to: g\n" END,
		BAD(5, "'*** Move to: g'" HEADERS) },
	{ "update: move twice", UPDATE "*** Move to: g\n*** Move to: h\n" END,
		BAD(4, "Unexpected line found in update hunk: '*** Move to: "
		       "h'" CHANGES) },
	{ "update: change after end of file", UPDATE "@@\n-a\n*** End of File\n-b\n" END,
		BAD(6, "Expected update hunk to start with a @@ context marker, got: "
		       "'-b'") },
	{ "update: end of file twice",
		UPDATE "@@\n-a\n*** End of File\n*** End of File\n" END,
		BAD(6, "'*** End of File'" HEADERS) },
	{ "environment: empty", BEGIN "*** Environment ID:  \n*** Delete File: a\n" END,
		TOOL "invalid patch: The environment id must not be empty",
		"Invalid patch: The environment id must not be empty\n" },
	{ "environment: twice",
		BEGIN
		"*** Environment ID: a\n*** Environment ID: b\n*** Delete File: a\n" END,
		BAD(3, "'*** Environment ID: b'" HEADERS) },
	{ "environment: after a hunk",
		BEGIN "*** Delete File: a\n*** Environment ID: b\n" END,
		BAD(3, "'*** Environment ID: b'" HEADERS) },
};

static void check_voice(
	const struct gb_patch_report *r, enum gb_patch_voice voice, const char *expected)
{
	struct gb_buf b = { 0 };

	gb_patch_explain(r, voice, &b);
	gb_buf_add_byte(&b, 0);
	assert_string_equal((char *)b.data, expected);
	gb_buf_done(&b);
}

static void bad(void **state)
{
	const struct bad_row *row = *state;
	struct gb_patch_report report;
	struct gb_patch *p = NULL;
	struct gb_err err = { 0 };

	gb_patch_report_init(&report);
	assert_int_equal(gb_patch_parse(row->text, strlen(row->text), &p, &report, &err),
		GB_E_PARSE);
	assert_null(p);
	assert_int_equal(err.code, GB_E_PARSE);
	check_voice(&report, GB_PATCH_AS_TOOL, row->as_tool);
	check_voice(&report, GB_PATCH_AS_COMMAND, row->as_command);
	gb_patch_report_done(&report);
}

static int parse(const struct gb_buf *b, struct gb_patch_report *report)
{
	struct gb_patch *p = NULL;
	int r = gb_patch_parse((const char *)b->data, b->len, &p, report, NULL);

	gb_patch_free(p);
	return r;
}

static void nul_in_path(void **state)
{
	static const char text[] = BEGIN "*** Add File: a\0b\n+x\n" END;
	struct gb_patch_report report;
	struct gb_buf b = { 0 };

	(void)state;
	gb_patch_report_init(&report);
	gb_buf_add(&b, text, sizeof(text) - 1);
	assert_int_equal(parse(&b, &report), GB_E_PARSE);
	assert_int_equal(report.line, 2);
	gb_buf_done(&b);
	gb_patch_report_done(&report);
}

static void files(struct gb_buf *b, size_t count)
{
	gb_buf_reset(b);
	gb_buf_add_str(b, BEGIN);
	for (size_t i = 0; i < count; i++)
		gb_buf_printf(b, "*** Delete File: %zu\n", i);
	gb_buf_add_str(b, END);
}

static void file_cap(void **state)
{
	struct gb_patch_report report;
	struct gb_buf b = { 0 };

	(void)state;
	gb_patch_report_init(&report);
	files(&b, GB_PATCH_HUNKS_MAX);
	assert_int_equal(parse(&b, &report), 0);
	files(&b, GB_PATCH_HUNKS_MAX + 1);
	assert_int_equal(parse(&b, &report), GB_E_LIMIT);
	assert_int_equal(report.fault, GB_PATCH_BAD_PATCH);
	gb_buf_done(&b);
	gb_patch_report_done(&report);
}

static void lines(struct gb_buf *b, size_t count)
{
	gb_buf_reset(b);
	gb_buf_add_str(b, BEGIN "*** Add File: a\n");
	for (size_t i = 3; i < count; i++)
		gb_buf_add_str(b, "+\n");
	gb_buf_add_str(b, END);
}

static void line_cap(void **state)
{
	struct gb_patch_report report;
	struct gb_buf b = { 0 };

	(void)state;
	gb_patch_report_init(&report);
	lines(&b, GB_PATCH_LINES_MAX);
	assert_int_equal(parse(&b, &report), 0);
	lines(&b, GB_PATCH_LINES_MAX + 1);
	assert_int_equal(parse(&b, &report), GB_E_LIMIT);
	gb_buf_done(&b);
	gb_patch_report_done(&report);
}

static void byte_cap(void **state)
{
	static const char head[] = BEGIN "*** Add File: a\n+";
	struct gb_patch_report report;
	struct gb_buf b = { 0 };

	(void)state;
	gb_patch_report_init(&report);
	gb_buf_add_str(&b, head);
	while (b.len < GB_PATCH_TEXT_MAX - 1 - strlen(END))
		gb_buf_add_byte(&b, 'x');
	gb_buf_add_str(&b, "\n" END);
	assert_int_equal(b.len, GB_PATCH_TEXT_MAX);
	assert_int_equal(parse(&b, &report), 0);
	gb_buf_add_byte(&b, '\n');
	assert_int_equal(parse(&b, &report), GB_E_LIMIT);
	gb_buf_done(&b);
	gb_patch_report_done(&report);
}

/* a line of megabytes is quoted in part */
static void long_quote(void **state)
{
	struct gb_patch_report report;
	struct gb_buf b = { 0 };

	(void)state;
	gb_patch_report_init(&report);
	gb_buf_add_str(&b, BEGIN);
	for (size_t i = 0; i < (1u << 20); i++)
		gb_buf_add_byte(&b, 'x');
	gb_buf_add_str(&b, "\n" END);
	assert_int_equal(parse(&b, &report), GB_E_PARSE);
	assert_in_range(report.text.len, 8192, 9000);
	gb_buf_done(&b);
	gb_patch_report_done(&report);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, good_rows, good);
	rows_add(&l, bad_rows, bad);
	rows_add_one(&l, "a NUL in a path", nul_in_path);
	rows_add_one(&l, "cap: files", file_cap);
	rows_add_one(&l, "cap: lines", line_cap);
	rows_add_one(&l, "cap: bytes", byte_cap);
	rows_add_one(&l, "cap: what is quoted", long_quote);
	return rows_run("patch-parse", &l);
}
