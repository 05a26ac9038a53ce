#include "rows.h"

#include "lib/tool_mask.h"

#include <string.h>

struct name_row {
	const char *name;
	const char *variable;
	bool secret;
};
static const struct name_row names[] = {
	{ "TOKEN is secret", "TOKEN", true },
	{ "a part in the middle", "MY_API_KEY_FILE", true },
	{ "lower case counts", "github_token", true },
	{ "a part must be whole", "MONKEY", false },
	{ "KEYS is not KEY", "KEYS", false },
	{ "CREDENTIALS", "AWS_CREDENTIALS", true },
	{ "PATH is not secret", "PATH", false },
	{ "an empty name", "", false },
	{ "empty parts", "__PASS__", true },
	{ "AUTHOR is not AUTH", "GIT_AUTHOR_NAME", false },
};

static void test_name(void **state)
{
	const struct name_row *r = *state;

	assert_int_equal(gb_mask_name_is_secret(r->variable, strlen(r->variable)), r->secret);
}

struct mask_row {
	const char *name;
	const char *values[4];
	const char *data;
	const char *shown; /* all of it masked */
	size_t hold;
};
static const struct mask_row rows[] = {
	{ "nothing to mask", { NULL }, "plain text", "plain text", 0 },
	{ "a value", { "secret-value" }, "x secret-value y", "x [REDACTED] y", 0 },
	{ "twice", { "secret-value" }, "secret-valuesecret-value", "[REDACTED][REDACTED]", 0 },
	{ "7 bytes are not masked", { "seven77" }, "seven77", "seven77", 0 },
	{ "8 bytes are", { "eight888" }, "eight888", "[REDACTED]", 0 },
	{ "the longest wins", { "abcdefgh", "abcdefghij" }, "abcdefghij!", "[REDACTED]!", 0 },
	{ "the shorter where the longer does not fit", { "abcdefgh", "abcdefghij" },
		"abcdefghi!", "[REDACTED]i!", 0 },
	{ "its begin is held back", { "secret-value" }, "text secret-v", "text secret-v", 8 },
	{ "one byte of it is held back", { "secret-value" }, "texts", "texts", 1 },
	{ "whole and done: nothing is held back", { "secret-value" }, "secret-value",
		"[REDACTED]", 0 },
	{ "whole, but a longer one may come", { "secret-v", "secret-value" }, "is secret-v",
		"is [REDACTED]", 8 },
	{ "a begin inside of a match is none", { "ababababab" }, "ababababab", "[REDACTED]", 0 },
	{ "its end at the begin", { "secret-value" }, "-value and so on", "-value and so on", 0 },
	{ "a long end of another value", { "secret-value", "other-e-value" }, "e-value.",
		"e-value.", 0 },
	{ "lines of a value of several lines", { "-----BEGIN KEY-----\r\nabcdefghijklmnop\nend" },
		"  abcdefghijklmnop\n  end", "  [REDACTED]\n  end", 0 },
	{ "a line of 15 bytes is not masked by itself", { "first line of it\nabcdefghijklmno\n" },
		"abcdefghijklmno", "abcdefghijklmno", 0 },
};

static void test_mask(void **state)
{
	const struct mask_row *r = *state;
	struct gb_mask m = { 0 };
	struct gb_buf out = { 0 };
	const uint8_t *data = (const uint8_t *)r->data;
	size_t len = strlen(r->data);

	gb_buf_init(&out, 0);
	for (size_t i = 0; i < 4 && r->values[i]; i++)
		gb_mask_add(&m, r->values[i], strlen(r->values[i]));
	gb_mask_apply(&m, data, len, &out);
	gb_buf_add_byte(&out, 0);
	assert_string_equal((char *)out.data, r->shown);
	assert_int_equal(gb_mask_hold(&m, data, len), r->hold);
	assert_int_equal(gb_mask_check(&m, NULL), 0);
	gb_buf_done(&out);
	gb_mask_done(&m);
}

struct tail_row {
	const char *name;
	const char *values[2];
	const char *data;
	size_t tail;
};
static const struct tail_row tails[] = {
	{ "no value ends here", { "secret-value" }, "text", 0 },
	{ "the end of a value", { "secret-value" }, "-value and so on", 6 },
	{ "all but its first byte", { "secret-value" }, "ecret-value", 11 },
	{ "the whole value is no end", { "secret-value" }, "secret-value", 0 },
	{ "the longest of two ends", { "secret-value", "other-e-value" }, "e-value.", 7 },
	{ "data that is shorter than the value", { "secret-value" }, "e", 1 },
	{ "nothing", { "secret-value" }, "", 0 },
};

static void test_tail(void **state)
{
	const struct tail_row *r = *state;
	struct gb_mask m = { 0 };

	for (size_t i = 0; i < 2 && r->values[i]; i++)
		gb_mask_add(&m, r->values[i], strlen(r->values[i]));
	assert_int_equal(gb_mask_tail(&m, (const uint8_t *)r->data, strlen(r->data)), r->tail);
	gb_mask_done(&m);
}

/* Cut anywhere: neither piece nor their join shows the value. */
static void test_cut_anywhere(void **state)
{
	static const char text[] = "a tok_live_9f8Kq2ZxP0 b";
	static const char value[] = "tok_live_9f8Kq2ZxP0";
	struct gb_mask m = { 0 };

	(void)state;
	gb_mask_add(&m, value, strlen(value));
	for (size_t cut = 0; cut <= strlen(text); cut++) {
		struct gb_buf out = { 0 };
		const uint8_t *data = (const uint8_t *)text;
		size_t hold = gb_mask_hold(&m, data, cut);

		gb_buf_init(&out, 0);
		gb_mask_apply(&m, data, cut - hold, &out);
		gb_mask_apply(&m, data + cut - hold, strlen(text) - cut + hold, &out);
		gb_buf_add_byte(&out, 0);
		assert_string_equal((char *)out.data, "a [REDACTED] b");
		gb_buf_done(&out);
	}
	gb_mask_done(&m);
}

static void test_env(void **state)
{
	char *env[] = { (char *)"PATH=/usr/local/bin", (char *)"API_KEY=0123456789",
		(char *)"DB_PASSWORD=short", (char *)"broken", NULL };
	struct gb_mask m = { 0 };

	(void)state;
	gb_mask_add_env(&m, NULL);
	gb_mask_add_env(&m, env);
	assert_int_equal(m.count, 1);
	assert_int_equal(m.values[0].len, 10);
	gb_mask_done(&m);
}

static void test_too_many(void **state)
{
	struct gb_mask m = { 0 };
	struct gb_err err;
	char value[16];

	(void)state;
	for (int i = 0; i < GB_MASK_MAX; i++) {
		snprintf(value, sizeof(value), "value-%06d", i);
		gb_mask_add(&m, value, strlen(value));
		gb_mask_add(&m, value, strlen(value));
	}
	assert_int_equal(gb_mask_check(&m, &err), 0);
	gb_mask_add(&m, "one-more-value", 14);
	assert_int_equal(gb_mask_check(&m, &err), GB_E_LIMIT);
	gb_mask_done(&m);
}

int main(void)
{
	static struct rows_list list;

	rows_add(&list, names, test_name);
	rows_add(&list, rows, test_mask);
	rows_add(&list, tails, test_tail);
	rows_add_one(&list, "cut anywhere, it is never shown", test_cut_anywhere);
	rows_add_one(&list, "values of the environment by their names", test_env);
	rows_add_one(&list, "more values than can be masked is an error", test_too_many);
	return rows_run("lib tool mask", &list);
}
