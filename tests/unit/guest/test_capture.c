#include "guest/capture.h"

#include "rows.h"

#include <string.h>

#define HALF 8u

/* What was added, as letters: "a" is the first byte. */
static void add_letters(struct gb_capture *c, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t byte = (uint8_t)('a' + (from + i) % 26);

		gb_capture_add(c, &byte, 1);
	}
}

struct capture_row {
	const char *name;
	size_t bytes;     /* letters from "a" on */
	size_t piece;     /* added at once */
	const char *kept;
	uint64_t head, omitted;
};

static const struct capture_row capture_rows[] = {
	{ "capture: nothing", 0, 1, "", 0, 0 },
	{ "capture: one byte", 1, 1, "a", 1, 0 },
	{ "capture: the head full", 8, 8, "abcdefgh", 8, 0 },
	{ "capture: one into the tail", 9, 9, "abcdefghi", 8, 0 },
	{ "capture: both full", 16, 16, "abcdefghijklmnop", 8, 0 },
	{ "capture: one left out", 17, 17, "abcdefghjklmnopq", 8, 1 },
	{ "capture: in single bytes", 17, 1, "abcdefghjklmnopq", 8, 1 },
	{ "capture: in pieces that wrap", 23, 5, "abcdefghpqrstuvw", 8, 7 },
	{ "capture: a piece larger than all", 26, 26, "abcdefghstuvwxyz", 8, 10 },
};

static void capture(void **state)
{
	const struct capture_row *row = *state;
	uint64_t head, bytes, omitted;
	struct gb_capture c;
	struct gb_buf out = { 0 };
	char text[64];

	gb_capture_init(&c, HALF);
	for (size_t i = 0; i < row->bytes; i++)
		text[i] = (char)('a' + i % 26);
	for (size_t at = 0; at < row->bytes; at += row->piece)
		gb_capture_add(&c, text + at, GB_MIN(row->piece, row->bytes - at));
	assert_int_equal(gb_capture_kept(&c), strlen(row->kept));
	assert_int_equal(gb_capture_take(&c, &out, &head, &bytes, &omitted, NULL), 0);
	assert_int_equal(out.len, strlen(row->kept));
	if (out.len)
		assert_memory_equal(out.data, row->kept, out.len);
	assert_int_equal(head, row->head);
	assert_int_equal(bytes, row->bytes);
	assert_int_equal(omitted, row->omitted);
	/* it begins anew */
	assert_int_equal(gb_capture_kept(&c), 0);
	gb_capture_add(&c, "x", 1);
	gb_buf_done(&out);
	assert_int_equal(gb_capture_take(&c, &out, &head, &bytes, &omitted, NULL), 0);
	assert_int_equal(out.len, 1);
	assert_int_equal(bytes, 1);
	assert_int_equal(omitted, 0);
	gb_buf_done(&out);
	gb_capture_done(&c);
}

struct unread_row {
	const char *name;
	size_t bytes;     /* letters that are there */
	const char *back; /* put in front */
	const char *kept;
	uint64_t head, omitted;
};

static const struct unread_row unread_rows[] = {
	{ "unread: into nothing", 0, "XY", "XY", 2, 0 },
	{ "unread: before a few", 3, "XY", "XYabc", 5, 0 },
	{ "unread: fills the head", 6, "XY", "XYabcdef", 8, 0 },
	{ "unread: moves into the tail", 7, "XY", "XYabcdefg", 8, 0 },
	{ "unread: before a tail", 12, "XY", "XYabcdefghijkl", 8, 0 },
	{ "unread: pushes one out", 15, "XY", "XYabcdefhijklmno", 8, 1 },
	{ "unread: with a gap", 20, "XY", "XYabcdefmnopqrst", 8, 6 },
	{ "unread: nothing", 3, "", "abc", 3, 0 },
	{ "unread: as much as a half", 3, "12345678", "12345678abc", 8, 0 },
};

static void unread(void **state)
{
	const struct unread_row *row = *state;
	uint64_t head, bytes, omitted;
	struct gb_capture c;
	struct gb_buf out = { 0 };

	gb_capture_init(&c, HALF);
	add_letters(&c, 0, row->bytes);
	gb_capture_unread(&c, row->back, strlen(row->back));
	assert_int_equal(gb_capture_take(&c, &out, &head, &bytes, &omitted, NULL), 0);
	assert_int_equal(out.len, strlen(row->kept));
	assert_memory_equal(out.data, row->kept, out.len);
	assert_int_equal(head, row->head);
	assert_int_equal(bytes, row->bytes + strlen(row->back));
	assert_int_equal(omitted, row->omitted);
	gb_buf_done(&out);
	gb_capture_done(&c);
}

/* Against a model: a plain string of which the end counts. */
static void ring_is_the_end_of_all(void **state)
{
	static uint8_t all[200000];
	size_t n = 0;
	unsigned seed = 1;
	struct gb_ring r;
	uint64_t lost = 0;

	(void)state;
	gb_ring_init(&r, 10000);
	for (int round = 0; round < 2000 && n < sizeof(all) - 300; round++) {
		size_t len, first;
		const uint8_t *p;

		seed = seed * 1103515245u + 12345u;
		len = (seed >> 16) % 300;
		for (size_t i = 0; i < len; i++)
			all[n + i] = (uint8_t)(seed + i);
		lost += gb_ring_add(&r, all + n, len);
		n += len;
		if (seed % 5 == 0 && r.len > 100) {
			p = gb_ring_front(&r, &first);
			assert_memory_equal(p, all + n - r.len, first);
			lost += GB_MIN(first, (size_t)100);
			gb_ring_consume(&r, GB_MIN(first, (size_t)100));
		}
		assert_int_equal(lost + r.len, n);
		p = gb_ring_front(&r, &first);
		assert_memory_equal(p, all + n - r.len, first);
		assert_memory_equal(r.data, all + n - r.len + first, r.len - first);
	}
	gb_ring_done(&r);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, capture_rows, capture);
	rows_add(&l, unread_rows, unread);
	rows_add_one(&l, "ring: the end of all that was added", ring_is_the_end_of_all);
	return rows_run("guest capture", &l);
}
