#include "rows.h"

#include "lib/tool.h"
#include "lib/tool_text.h"

#include <string.h>

struct utf8_row {
	const char *name;
	const char *data;
	size_t len;
	const char *shown;
	size_t unfinished;
};
#define T(s) s, sizeof(s) - 1
static const struct utf8_row utf8[] = {
	{ "nothing", T(""), "", 0 },
	{ "letters", T("abc"), "abc", 0 },
	{ "a whole euro", T("\xe2\x82\xac"), "\xe2\x82\xac", 0 },
	{ "a euro without its last byte", T("x\xe2\x82"), "x\xef\xbf\xbd", 2 },
	{ "a euro's first byte", T("\xe2"), "\xef\xbf\xbd", 1 },
	{ "three bytes of four", T("\xf0\x9f\x98"), "\xef\xbf\xbd", 3 },
	{ "four of four", T("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80", 0 },
	{ "a byte that begins nothing", T("a\xff" "b"), "a\xef\xbf\xbd" "b", 0 },
	{ "a byte that begins nothing, at the end", T("a\xff"), "a\xef\xbf\xbd", 0 },
	{ "a lone second byte", T("\x80x"), "\xef\xbf\xbdx", 0 },
	{ "second bytes without end", T("\x80\x80\x80\x80"),
		"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 0 },
	{ "overlong", T("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd", 0 },
	{ "overlong of three", T("\xe0\x80\xaf"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 0 },
	{ "a surrogate", T("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 0 },
	{ "beyond the last character", T("\xf4\x90\x80\x80"),
		"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 0 },
	{ "cut off and then a letter", T("\xe2\x82" "A"), "\xef\xbf\xbd" "A", 0 },
	{ "the begin of what cannot be", T("\xed\xa0"), "\xef\xbf\xbd\xef\xbf\xbd", 0 },
};

static void test_utf8(void **state)
{
	const struct utf8_row *r = *state;
	struct gb_buf out = { 0 };

	gb_buf_init(&out, 0);
	gb_utf8_lossy((const uint8_t *)r->data, r->len, &out);
	assert_int_equal(out.len, strlen(r->shown));
	if (out.len)
		assert_memory_equal(out.data, r->shown, out.len);
	assert_int_equal(gb_utf8_unfinished((const uint8_t *)r->data, r->len), r->unfinished);
	gb_buf_done(&out);
}

struct show_row {
	const char *name;
	const char *secret; /* NULL: none */
	const char *data;
	uint64_t omitted;
	size_t head;
	bool running;
	size_t budget;
	size_t hold;
	const char *shown;
};
#define CUT "\xe2\x80\xa6"
static const struct show_row shows[] = {
	{ "short output as it is", NULL, "hello\n", 0, 0, false, 100, 0, "hello\n" },
	{ "exactly the budget", NULL, "0123456789", 0, 0, false, 10, 0, "0123456789" },
	{ "a byte more", NULL, "0123456789A", 0, 0, false, 10, 0,
		"Warning: truncated output (original token count: 3)\nTotal output lines: 1\n\n"
		"01234" CUT "1 tokens truncated" CUT "6789A" },
	{ "no budget", NULL, "one\ntwo\n", 0, 0, false, 0, 0,
		"Warning: truncated output (original token count: 2)\nTotal output lines: 2\n\n" CUT
		"2 tokens truncated" CUT },
	{ "no budget, no output", NULL, "", 0, 0, false, 0, 0, "" },
	{ "cut beside characters, not in them", NULL, "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 0, 0,
		false, 8, 0,
		"Warning: truncated output (original token count: 3)\nTotal output lines: 1\n\n"
		"\xe2\x82\xac" CUT "1 tokens truncated" CUT "\xe2\x82\xac" },
	{ "what is left out has a line of its own", NULL, "headtail", 100, 4, false, 100, 0,
		"head\n... 100 bytes omitted ...\ntail" },
	{ "behind a line's end there is no second one", NULL, "head\ntail", 7, 5, false, 100, 0,
		"head\n... 7 bytes omitted ...\ntail" },
	{ "the gap takes broken characters with it", NULL, "h\xe2\x82\xac\xe2\x82" "\x82\xact", 5, 6,
		false, 100, 0, "h\xe2\x82\xac\n... 9 bytes omitted ...\nt" },
	{ "the gap takes parts of secrets with it", "secret-value", "h secretue t", 4, 8, false,
		100, 0, "h \n... 12 bytes omitted ...\n t" },
	{ "masked before it is cut", "secret-value", "0123secret-value6789", 0, 0, false, 18, 0,
		"0123[REDACTED]6789" },
	{ "the begin of a secret is held back", "secret-value", "text secr", 0, 0, true, 100, 4,
		"text " },
	{ "not when nothing more comes", "secret-value", "text secr", 0, 0, false, 100, 0,
		"text secr" },
	{ "half a character is held back", NULL, "x\xe2\x82", 0, 0, true, 100, 2, "x" },
	{ "not when nothing more comes: half a character", NULL, "x\xe2\x82", 0, 0, false, 100, 0,
		"x\xef\xbf\xbd" },
	{ "only held back", NULL, "\xe2", 0, 0, true, 100, 1, "" },
	{ "nothing is held back across the gap", "secret-value", "secret-v", 10, 8, true, 100, 0,
		"... 18 bytes omitted ...\n" },
};

static void test_show(void **state)
{
	const struct show_row *r = *state;
	struct gb_tool_output o = { (const uint8_t *)r->data, strlen(r->data),
		strlen(r->data) + r->omitted, r->omitted, r->head, r->running };
	struct gb_mask m = { 0 };
	struct gb_buf out = { 0 };

	gb_buf_init(&out, 0);
	if (r->secret)
		gb_mask_add(&m, r->secret, strlen(r->secret));
	assert_int_equal(gb_tool_hold(&m, &o), r->hold);
	gb_tool_show(&m, &o, r->hold, r->budget, &out);
	assert_int_equal(out.error, 0);
	gb_buf_add_byte(&out, 0);
	assert_string_equal((char *)out.data, r->shown);
	gb_buf_done(&out);
	gb_mask_done(&m);
}

/* Output of one MiB and more, whatever it holds: within budget and a small head, and UTF-8. */
static void test_budget(void **state)
{
	static uint8_t data[GB_TOOL_OUTPUT_MAX];
	struct gb_mask m = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	for (size_t budget = 0; budget <= GB_TOOL_OUTPUT_MAX; budget = budget * 7 + 3) {
		struct gb_tool_output o = { data, sizeof(data), 1 << 30, (1 << 30) - sizeof(data),
			sizeof(data) / 2, false };
		struct gb_buf out = { 0 };
		struct gb_buf again = { 0 };

		gb_buf_init(&out, 0);
		gb_buf_init(&again, 0);
		gb_tool_show(&m, &o, 0, budget, &out);
		assert_int_equal(out.error, 0);
		assert_true(out.len <= budget + GB_TOOL_TEXT_EXTRA);
		gb_utf8_lossy(out.data, out.len, &again);
		assert_int_equal(again.len, out.len);
		assert_memory_equal(again.data, out.data, out.len);
		gb_buf_done(&out);
		gb_buf_done(&again);
	}
}

/* mofa #1064, gsv #44, cube-harness #368: the cut falls on every place within a character, and
 * the end of the output is there. */
static void test_cut_in_characters(void **state)
{
	struct gb_mask m = { 0 };

	(void)state;
	for (int k = 0; k < 4; k++) {
		struct gb_buf in = { 0 };
		struct gb_buf out = { 0 };
		struct gb_tool_output o = { 0 };

		gb_buf_init(&in, 0);
		gb_buf_init(&out, 0);
		gb_buf_printf(&in, "%*s", k, "");
		for (int i = 0; i < 40000; i++)
			gb_buf_add_str(&in, "\xe2\x94\x80");
		gb_buf_add_str(&in, "\nFAILED-HERE\n");
		o.data = in.data;
		o.len = in.len;
		gb_tool_show(&m, &o, 0, 40000, &out);
		assert_true(out.len <= 40000 + GB_TOOL_TEXT_EXTRA);
		gb_buf_add_byte(&out, 0);
		assert_non_null(strstr((char *)out.data, "\nFAILED-HERE\n"));
		assert_null(strstr((char *)out.data, "\xef\xbf\xbd"));
		gb_buf_done(&in);
		gb_buf_done(&out);
	}
}

struct head_row {
	const char *name;
	struct gb_tool_head head;
	const char *text;
};
static const struct head_row heads[] = {
	{ "a command that ended", { "0a1b2c", 0.12345, true, 3, 0, 7 },
		"Chunk ID: 0a1b2c\nWall time: 0.1235 seconds\nProcess exited with code 3\n"
		"Original token count: 7\nOutput:\n" },
	{ "a command that runs", { "0a1b2c", 10.0, false, 0, 12, 0 },
		"Chunk ID: 0a1b2c\nWall time: 10.0000 seconds\nProcess running with session ID 12\n"
		"Original token count: 0\nOutput:\n" },
};

static void test_head(void **state)
{
	const struct head_row *r = *state;
	struct gb_buf out = { 0 };

	gb_buf_init(&out, 0);
	gb_tool_head_text(&r->head, &out);
	gb_buf_add_byte(&out, 0);
	assert_string_equal((char *)out.data, r->text);
	gb_buf_done(&out);
}

struct base64_row {
	const char *name;
	const char *in;
	const char *out;
};
static const struct base64_row base64[] = {
	{ "base64 of nothing", "", "" },
	{ "base64 of one byte", "f", "Zg==" },
	{ "base64 of two", "fo", "Zm8=" },
	{ "base64 of three", "foo", "Zm9v" },
	{ "base64 of four", "foob", "Zm9vYg==" },
	{ "base64 of high bytes", "\xff\xfe\xfd", "//79" },
};

static void test_base64(void **state)
{
	const struct base64_row *r = *state;
	struct gb_buf out = { 0 };

	gb_buf_init(&out, 0);
	gb_base64((const uint8_t *)r->in, strlen(r->in), &out);
	gb_buf_add_byte(&out, 0);
	assert_string_equal((char *)out.data, r->out);
	gb_buf_done(&out);
}

static void test_tokens(void **state)
{
	(void)state;
	assert_int_equal(gb_tool_tokens(0), 0);
	assert_int_equal(gb_tool_tokens(1), 1);
	assert_int_equal(gb_tool_tokens(4), 1);
	assert_int_equal(gb_tool_tokens(5), 2);
	assert_true(gb_tool_tokens(UINT64_MAX) == UINT64_MAX / 4 + 1);
}

int main(void)
{
	static struct rows_list list;

	rows_add(&list, utf8, test_utf8);
	rows_add(&list, shows, test_show);
	rows_add(&list, heads, test_head);
	rows_add(&list, base64, test_base64);
	rows_add_one(&list, "a token is four bytes, rounded up", test_tokens);
	rows_add_one(&list, "within the budget whatever it holds", test_budget);
	rows_add_one(&list, "cut on every place of a character", test_cut_in_characters);
	return rows_run("lib tool text", &list);
}
