#include "rows.h"

#include "base/buf.h"

#include <string.h>

struct cap_row {
	const char *name;
	size_t max;
	size_t first;
	size_t second;
	int error;
};

static const struct cap_row cap_rows[] = {
	{ "cap: just fits at once", 10, 10, 0, 0 },
	{ "cap: one over at once", 10, 11, 0, GB_E_LIMIT },
	{ "cap: just fits in two", 10, 4, 6, 0 },
	{ "cap: one over in two", 10, 4, 7, GB_E_LIMIT },
	{ "cap: nothing fits nothing", 10, 0, 0, 0 },
	{ "cap: a length that would wrap", 10, 1, SIZE_MAX, GB_E_LIMIT },
	{ "cap: default", 0, GB_BUF_DEFAULT_MAX, 0, 0 },
	{ "cap: over the default", 0, GB_BUF_DEFAULT_MAX, 1, GB_E_LIMIT },
};

static void cap(void **state)
{
	const struct cap_row *row = *state;
	struct gb_buf b;
	struct gb_err err = { 0 };

	gb_buf_init(&b, row->max);
	if (row->first && gb_buf_reserve(&b, row->first))
		b.len += row->first;
	if (row->second && gb_buf_reserve(&b, row->second))
		b.len += row->second;
	assert_int_equal(gb_buf_check(&b, "text", &err), row->error);
	if (row->error)
		assert_string_equal(err.msg, "text is too large");
	gb_buf_done(&b);
}

static void failure_is_sticky_until_reset(void **state)
{
	struct gb_buf b;

	(void)state;
	gb_buf_init(&b, 4);
	gb_buf_add_str(&b, "ab");
	gb_buf_add_str(&b, "cde");
	assert_int_equal(b.error, GB_E_LIMIT);
	gb_buf_add_byte(&b, 'c');
	assert_int_equal(b.len, 2);
	assert_null(gb_buf_take_str(&b));
	gb_buf_reset(&b);
	gb_buf_add_str(&b, "wxyz");
	assert_int_equal(gb_buf_check(&b, "text", NULL), 0);
	assert_memory_equal(b.data, "wxyz", 4);
	gb_buf_done(&b);
}

static void printf_joins(void **state)
{
	struct gb_buf b;
	char *s;

	(void)state;
	gb_buf_init(&b, 100);
	gb_buf_printf(&b, "%s-%d", "a", 7);
	gb_buf_printf(&b, "%s", "");
	gb_buf_printf(&b, "%c", '!');
	s = gb_buf_take_str(&b);
	assert_string_equal(s, "a-7!");
	free(s);
	assert_int_equal(b.len, 0);
	gb_buf_add_str(&b, "again");
	assert_int_equal(b.len, 5);
	gb_buf_done(&b);
}

static void consume_from_the_front(void **state)
{
	struct gb_buf b;

	(void)state;
	gb_buf_init(&b, 0);
	gb_buf_add_str(&b, "abcdef");
	gb_buf_consume(&b, 0);
	assert_int_equal(b.len, 6);
	gb_buf_consume(&b, 2);
	assert_memory_equal(b.data, "cdef", 4);
	gb_buf_consume(&b, 4);
	assert_int_equal(b.len, 0);
	gb_buf_consume(&b, 4);
	assert_int_equal(b.len, 0);
	gb_buf_done(&b);
}

static void grow_refuses_what_would_wrap(void **state)
{
	void *p = NULL;
	size_t n = 0;

	(void)state;
	assert_true(gb_grow(&p, &n, 0, 8));
	assert_null(p);
	assert_false(gb_grow(&p, &n, SIZE_MAX, 1));
	assert_false(gb_grow(&p, &n, SIZE_MAX / 4, 8));
	assert_null(p);
	assert_int_equal(n, 0);
	assert_true(gb_grow(&p, &n, 9, 8));
	assert_true(n >= 9);
	free(p);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, cap_rows, cap);
	rows_add_one(&l, "a failure stays until reset", failure_is_sticky_until_reset);
	rows_add_one(&l, "printf joins, take gives away", printf_joins);
	rows_add_one(&l, "consume from the front", consume_from_the_front);
	rows_add_one(&l, "growth refuses what would wrap", grow_refuses_what_would_wrap);
	return rows_run("buf", &l);
}
