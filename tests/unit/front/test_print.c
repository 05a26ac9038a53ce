/* What people and programs get to see, and what a helper's talk is cut into. */
#include "front/cli/images.h"
#include "front/cli/out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Text from a guest on a terminal. */
static const struct {
	const char *text;
	bool lines;
	const char *want;
} printable_rows[] = {
	{ "plain", false, "plain" },
	{ "\033[2Jcleared", false, "?[2Jcleared" },
	{ "two\nlines", false, "two?lines" },
	{ "two\nlines\tand", true, "two\nlines\tand" },
	{ "over\rwritten\b", true, "over?written?" },
	{ "del\x7f", false, "del?" },
	{ "caf\xc3\xa9", false, "caf\xc3\xa9" },
	{ "csi \xc2\x9b" "31m", false, "csi ??31m" },
	{ "end of a C1 that is none \xc2", false, "end of a C1 that is none \xc2" },
	{ "", false, "" },
};

static void test_printable(void **state)
{
	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(printable_rows); i++) {
		char *got = gb_printable(printable_rows[i].text, printable_rows[i].lines);

		assert_string_equal(got, printable_rows[i].want);
		free(got);
	}
}

static void test_amounts(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} rows[] = {
		{ 0, "0 B" }, { 999, "999 B" }, { 1000, "1.0 KiB" }, { 1536, "1.5 KiB" },
		{ 20480, "20 KiB" }, { UINT64_C(2) << 30, "2.0 GiB" },
		{ UINT64_MAX, "16777216 TiB" },
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		gb_amount_text(rows[i].bytes, text, sizeof(text));
		assert_string_equal(text, rows[i].want);
	}
}

static void test_json_of_text_that_is_not_utf8(void **state)
{
	json_t *s = gb_json_text("a\xff" "b");

	(void)state;
	assert_string_equal(json_string_value(s), "a?b");
	json_decref(s);
}

static void collect(void *ctx, const char *line)
{
	char *all = ctx;

	snprintf(all + strlen(all), 256 - strlen(all), "[%s]", line);
}

static void test_line_feed(void **state)
{
	static const char *const pieces[] = { "one\ntw", "o\r", "three", "\n\n", "last" };
	char all[256] = "";
	struct gb_line_feed f = { .line = collect, .ctx = all };

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(pieces); i++)
		gb_line_feed(&f, pieces[i], strlen(pieces[i]));
	assert_string_equal(all, "[one][two][three]");
	gb_line_feed_end(&f);
	assert_string_equal(all, "[one][two][three][last]");
	assert_string_equal(f.last, "last");
}

static void test_long_line_is_cut(void **state)
{
	struct gb_line_feed f = { 0 };
	char many[2000];

	(void)state;
	memset(many, 'x', sizeof(many));
	gb_line_feed(&f, many, sizeof(many));
	gb_line_feed_end(&f);
	assert_int_equal(strlen(f.last), sizeof(f.last) - 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_json_of_text_that_is_not_utf8),
		cmocka_unit_test(test_line_feed),
		cmocka_unit_test(test_long_line_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
