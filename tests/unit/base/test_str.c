#include "rows.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

struct number_row {
	const char *name;
	const char *text;
	uint64_t max; /* and for sizes the unit is 1 GiB */
	int code;
	uint64_t value;
};

static const struct number_row u64_rows[] = {
	{ "u64: zero", "0", 10, 0, 0 },
	{ "u64: the maximum", "10", 10, 0, 10 },
	{ "u64: one over", "11", 10, GB_E_LIMIT, 0 },
	{ "u64: 2^64-1", "18446744073709551615", UINT64_MAX, 0, UINT64_MAX },
	{ "u64: 2^64", "18446744073709551616", UINT64_MAX, GB_E_LIMIT, 0 },
	{ "u64: 2^64 times ten", "184467440737095516150", UINT64_MAX, GB_E_LIMIT, 0 },
	{ "u64: leading zeros", "007", 7, 0, 7 },
	{ "u64: max zero", "0", 0, 0, 0 },
	{ "u64: one over max zero", "1", 0, GB_E_LIMIT, 0 },
	{ "u64: empty", "", 10, GB_E_PARSE, 0 },
	{ "u64: plus", "+1", 10, GB_E_PARSE, 0 },
	{ "u64: minus", "-1", 10, GB_E_PARSE, 0 },
	{ "u64: space before", " 1", 10, GB_E_PARSE, 0 },
	{ "u64: space after", "1 ", 10, GB_E_PARSE, 0 },
	{ "u64: hexadecimal", "0x1", 10, GB_E_PARSE, 0 },
};

static void parse_u64(void **state)
{
	const struct number_row *row = *state;
	struct gb_err err = { 0 };
	uint64_t v = 77;

	assert_int_equal(gb_parse_u64(row->text, row->max, &v, &err), row->code);
	assert_int_equal(err.code, row->code);
	assert_true(v == (row->code ? 77 : row->value));
}

#define GIB (UINT64_C(1) << 30)

static const struct number_row size_rows[] = {
	{ "size: bare number is in the unit", "2", UINT64_MAX, 0, 2 * GIB },
	{ "size: bytes", "5B", UINT64_MAX, 0, 5 },
	{ "size: K", "1K", UINT64_MAX, 0, 1024 },
	{ "size: small k", "1k", UINT64_MAX, 0, 1024 },
	{ "size: KB", "1KB", UINT64_MAX, 0, 1024 },
	{ "size: MiB", "512MiB", UINT64_MAX, 0, 512u << 20 },
	{ "size: G", "20G", UINT64_MAX, 0, 20 * GIB },
	{ "size: T", "3T", UINT64_MAX, 0, 3072 * GIB },
	{ "size: the maximum", "4K", 4096, 0, 4096 },
	{ "size: one over", "4097B", 4096, GB_E_LIMIT, 0 },
	{ "size: rounds nothing", "5K", 5119, GB_E_LIMIT, 0 },
	{ "size: 2^64-1 bytes", "18446744073709551615B", UINT64_MAX, 0, UINT64_MAX },
	{ "size: 2^64 bytes", "18446744073709551616B", UINT64_MAX, GB_E_LIMIT, 0 },
	{ "size: product passes 2^64", "16777216T", UINT64_MAX, GB_E_LIMIT, 0 },
	{ "size: largest T", "16777215T", UINT64_MAX, 0, UINT64_C(16777215) << 40 },
	{ "size: empty", "", UINT64_MAX, GB_E_PARSE, 0 },
	{ "size: letter only", "G", UINT64_MAX, GB_E_PARSE, 0 },
	{ "size: unknown letter", "1X", UINT64_MAX, GB_E_PARSE, 0 },
	{ "size: text after", "1G1", UINT64_MAX, GB_E_PARSE, 0 },
	{ "size: two letters", "1GG", UINT64_MAX, GB_E_PARSE, 0 },
	{ "size: two B", "1BB", UINT64_MAX, GB_E_PARSE, 0 },
	{ "size: fraction", "1.5G", UINT64_MAX, GB_E_PARSE, 0 },
	{ "size: negative", "-1G", UINT64_MAX, GB_E_PARSE, 0 },
};

static void parse_size(void **state)
{
	const struct number_row *row = *state;
	struct gb_err err = { 0 };
	uint64_t v = 77;

	assert_int_equal(gb_parse_size(row->text, GIB, row->max, &v, &err), row->code);
	assert_true(v == (row->code ? 77 : row->value));
}

static const struct number_row duration_rows[] = {
	{ "duration: bare seconds", "12", UINT64_MAX, 0, 12000 },
	{ "duration: fraction", "1.5", UINT64_MAX, 0, 1500 },
	{ "duration: thousandths", "0.001", UINT64_MAX, 0, 1 },
	{ "duration: below a thousandth", "0.0009", UINT64_MAX, 0, 0 },
	{ "duration: ms", "500ms", UINT64_MAX, 0, 500 },
	{ "duration: s", "10s", UINT64_MAX, 0, 10000 },
	{ "duration: m", "2m", UINT64_MAX, 0, 120000 },
	{ "duration: h", "1h", UINT64_MAX, 0, 3600000 },
	{ "duration: fraction of an hour", "1.5h", UINT64_MAX, 0, 5400000 },
	{ "duration: zero", "0", UINT64_MAX, 0, 0 },
	{ "duration: the maximum", "1.5", 1500, 0, 1500 },
	{ "duration: the fraction counts", "1.501", 1500, GB_E_LIMIT, 0 },
	{ "duration: one over", "1501ms", 1500, GB_E_LIMIT, 0 },
	{ "duration: overflow", "18446744073709551615h", UINT64_MAX, GB_E_LIMIT, 0 },
	{ "duration: 2^64", "18446744073709551616", UINT64_MAX, GB_E_LIMIT, 0 },
	{ "duration: empty", "", UINT64_MAX, GB_E_PARSE, 0 },
	{ "duration: nothing after the point", "1.", UINT64_MAX, GB_E_PARSE, 0 },
	{ "duration: nothing before the point", ".5", UINT64_MAX, GB_E_PARSE, 0 },
	{ "duration: unknown unit", "1d", UINT64_MAX, GB_E_PARSE, 0 },
	{ "duration: two units", "1m30s", UINT64_MAX, GB_E_PARSE, 0 },
	{ "duration: negative", "-1", UINT64_MAX, GB_E_PARSE, 0 },
};

static void parse_duration(void **state)
{
	const struct number_row *row = *state;
	struct gb_err err = { 0 };
	uint64_t v = 77;

	assert_int_equal(gb_parse_duration_ms(row->text, row->max, &v, &err), row->code);
	assert_true(v == (row->code ? 77 : row->value));
}

#define A60 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

struct word_row {
	const char *name;
	const char *text;
	bool good;
};

static const struct word_row name_rows[] = {
	{ "name: one letter", "a", true },
	{ "name: digit first", "1a", true },
	{ "name: all kinds", "A-z_0.9", true },
	{ "name: 63 long", A60 "bcd", true },
	{ "name: 64 long", A60 "bcde", false },
	{ "name: empty", "", false },
	{ "name: dot first", ".a", false },
	{ "name: dots", "..", false },
	{ "name: dash first", "-a", false },
	{ "name: underscore first", "_a", false },
	{ "name: slash", "a/b", false },
	{ "name: space", "a b", false },
	{ "name: line feed", "a\n", false },
	{ "name: beyond ASCII", "\xc3\xa9t\xc3\xa9", false },
	{ "name: latin-1", "a\xe9", false },
};

static void name_valid(void **state)
{
	const struct word_row *row = *state;

	assert_int_equal(gb_name_valid(row->text), row->good);
}

static const char *const words[] = { "start", "stop", "shell", "exec", "rm", NULL };

struct near_row {
	const char *name;
	const char *text;
	const char *nearest;
};

static const struct near_row near_rows[] = {
	{ "nearest: itself", "exec", "exec" },
	{ "nearest: a letter missing", "strt", "start" },
	{ "nearest: a letter more", "sttop", "stop" },
	{ "nearest: a letter wrong", "shall", "shell" },
	{ "nearest: two letters swapped", "exce", "exec" },
	{ "nearest: nothing alike", "configure", NULL },
	{ "nearest: empty", "", NULL },
	{ "nearest: over the longest word", A60, NULL },
};

static void nearest(void **state)
{
	const struct near_row *row = *state;
	const char *found = gb_nearest(row->text, words);

	assert_true(gb_streq(found, row->nearest));
}

static void streq_and_prefix(void **state)
{
	(void)state;
	assert_true(gb_streq(NULL, NULL));
	assert_false(gb_streq(NULL, ""));
	assert_false(gb_streq("", NULL));
	assert_true(gb_streq("a", "a"));
	assert_false(gb_streq("a", "b"));
	assert_true(gb_starts_with("abc", "ab"));
	assert_true(gb_starts_with("abc", ""));
	assert_false(gb_starts_with("ab", "abc"));
}

static void strv_grows_and_ends_with_null(void **state)
{
	struct gb_strv l = { 0 };

	(void)state;
	assert_int_equal(gb_strv_check(&l, "list", NULL), 0);
	for (int i = 0; i < 100; i++) {
		gb_strv_addf(&l, "%d", i);
		assert_null(l.v[l.n]);
	}
	assert_int_equal(l.n, 100);
	assert_string_equal(l.v[0], "0");
	assert_string_equal(l.v[99], "99");
	gb_strv_done(&l);
	assert_null(l.v);
	assert_int_equal(l.n, 0);
}

static void strv_remembers_a_failure(void **state)
{
	struct gb_strv l = { .error = GB_E_NOMEM };
	struct gb_err err = { 0 };

	(void)state;
	gb_strv_add(&l, "a");
	assert_int_equal(l.n, 0);
	assert_int_equal(gb_strv_check(&l, "arguments", &err), GB_E_NOMEM);
	assert_string_equal(err.msg, "arguments: out of memory");
	gb_strv_done(&l);
}

static void strv_environment_replaces_by_name(void **state)
{
	struct gb_strv l = { 0 };

	(void)state;
	gb_strv_set_env(&l, "A=1");
	gb_strv_set_env(&l, "AB=2");
	gb_strv_set_env(&l, "A=3=4");
	gb_strv_set_env(&l, "AB=");
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0], "A=3=4");
	assert_string_equal(l.v[1], "AB=");
	gb_strv_done(&l);
}

static void hex_and_hash(void **state)
{
	const uint8_t bytes[] = { 0x00, 0x7f, 0xff, 0xa5 };
	char text[9];

	(void)state;
	gb_hex(bytes, sizeof(bytes), text);
	assert_string_equal(text, "007fffa5");
	gb_hex(bytes, 0, text);
	assert_string_equal(text, "");
	/* published FNV-1a test vectors */
	assert_true(gb_fnv1a("", 0, GB_FNV1A_SEED) == UINT64_C(0xcbf29ce484222325));
	assert_true(gb_fnv1a("a", 1, GB_FNV1A_SEED) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(gb_fnv1a("foobar", 6, GB_FNV1A_SEED) == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, u64_rows, parse_u64);
	rows_add(&l, size_rows, parse_size);
	rows_add(&l, duration_rows, parse_duration);
	rows_add(&l, name_rows, name_valid);
	rows_add(&l, near_rows, nearest);
	rows_add_one(&l, "strings: equal, prefix", streq_and_prefix);
	rows_add_one(&l, "list: grows, ends with NULL", strv_grows_and_ends_with_null);
	rows_add_one(&l, "list: remembers a failure", strv_remembers_a_failure);
	rows_add_one(&l, "list: environment replaces by name", strv_environment_replaces_by_name);
	rows_add_one(&l, "hex and hash", hex_and_hash);
	return rows_run("str", &l);
}
