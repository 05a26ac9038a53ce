/* For property tests: random lines, their difference, and the patch that says it. */
#ifndef GB_TESTS_PATCH_TEXT_H
#define GB_TESTS_PATCH_TEXT_H

#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#define TEXT_LINES 40
#define LINE_BYTES 48

/* xorshift; the same numbers everywhere for a seed */
static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 11) % n;
}

struct text {
	char line[TEXT_LINES][LINE_BYTES];
	size_t count;
};

struct op {
	char op; /* ' ', '-', '+' */
	const char *line;
	size_t old; /* index of the old line at or behind it */
};

/* A shortest difference by the table of longest common subsequences. */
static size_t diff(const struct text *a, const struct text *b, struct op *ops)
{
	static unsigned char lcs[TEXT_LINES + 1][TEXT_LINES + 1];
	size_t i = 0;
	size_t k = 0;
	size_t n = 0;

	memset(lcs, 0, sizeof(lcs));
	for (size_t x = a->count; x-- > 0;)
		for (size_t y = b->count; y-- > 0;)
			lcs[x][y] = strcmp(a->line[x], b->line[y]) == 0
					    ? (unsigned char)(lcs[x + 1][y + 1] + 1)
					    : GB_MAX(lcs[x + 1][y], lcs[x][y + 1]);
	while (i < a->count || k < b->count) {
		if (i < a->count && k < b->count && strcmp(a->line[i], b->line[k]) == 0) {
			ops[n++] = (struct op){ ' ', a->line[i], i };
			i++;
			k++;
		} else if (k == b->count ||
			   (i < a->count && lcs[i + 1][k] >= lcs[i][k + 1])) {
			ops[n++] = (struct op){ '-', a->line[i], i };
			i++;
		} else {
			ops[n++] = (struct op){ '+', b->line[k], i };
			k++;
		}
	}
	return n;
}

/* The bytes of a text in a file. */
static void put_text(
	const struct text *t, const char *eol, bool last_eol, struct gb_buf *b)
{
	for (size_t i = 0; i < t->count; i++) {
		gb_buf_add_str(b, t->line[i]);
		if (last_eol || i + 1 < t->count)
			gb_buf_add_str(b, eol);
	}
}

/* Another text from a: lines dropped, replaced, added. make writes a new line. */
static void change_text(const struct text *a, struct text *b, void (*make)(char *line))
{
	b->count = 0;
	for (size_t i = 0; i <= a->count; i++) {
		while (b->count < TEXT_LINES && random_below(8) == 0)
			make(b->line[b->count++]);
		if (i < a->count && b->count < TEXT_LINES && random_below(6) != 0)
			memcpy(b->line[b->count++], a->line[i], LINE_BYTES);
	}
}

#endif
