#include "patch/text.h"

#include <string.h>

/* White_Space of Unicode beyond ASCII, as ranges of UTF-8 sequences that differ in the
 * last byte only. */
struct sequence {
	unsigned char lead[2];
	unsigned char leads;
	unsigned char first;
	unsigned char last;
	char folded; /* as what it is compared in GB_LIKE_FOLDED; 0: as itself */
};

static const struct sequence spaces[] = {
	{ { 0xc2 }, 1, 0x85, 0x85, 0 },	      /* next line */
	{ { 0xc2 }, 1, 0xa0, 0xa0, 0 },	      /* no-break space */
	{ { 0xe1, 0x9a }, 2, 0x80, 0x80, 0 }, /* ogham space */
	{ { 0xe2, 0x80 }, 2, 0x80, 0x8a, 0 }, /* en quad to hair space */
	{ { 0xe2, 0x80 }, 2, 0xa8, 0xa9, 0 }, /* line, paragraph separator */
	{ { 0xe2, 0x80 }, 2, 0xaf, 0xaf, 0 }, /* narrow no-break space */
	{ { 0xe2, 0x81 }, 2, 0x9f, 0x9f, 0 }, /* mathematical space */
	{ { 0xe3, 0x80 }, 2, 0x80, 0x80, 0 }, /* ideographic space */
};

static const struct sequence folds[] = {
	{ { 0xe2, 0x80 }, 2, 0x90, 0x95, '-' },	 /* U+2010 to U+2015 */
	{ { 0xe2, 0x88 }, 2, 0x92, 0x92, '-' },	 /* minus */
	{ { 0xe2, 0x80 }, 2, 0x98, 0x9b, '\'' }, /* U+2018 to U+201B */
	{ { 0xe2, 0x80 }, 2, 0x9c, 0x9f, '"' },	 /* U+201C to U+201F */
	{ { 0xc2 }, 1, 0xa0, 0xa0, ' ' },	 /* no-break space */
	{ { 0xe2, 0x80 }, 2, 0x82, 0x8a, ' ' },	 /* en space to hair space */
	{ { 0xe2, 0x80 }, 2, 0xaf, 0xaf, ' ' },	 /* narrow no-break space */
	{ { 0xe2, 0x81 }, 2, 0x9f, 0x9f, ' ' },	 /* mathematical space */
	{ { 0xe3, 0x80 }, 2, 0x80, 0x80, ' ' },	 /* ideographic space */
};

static bool is_sequence(const struct sequence *q, const unsigned char *p)
{
	return memcmp(p, q->lead, q->leads) == 0 && p[q->leads] >= q->first &&
	       p[q->leads] <= q->last;
}

static bool ascii_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t space_at_front(struct gb_span s)
{
	if (s.len && ascii_space((unsigned char)s.at[0]))
		return 1;
	for (size_t i = 0; i < GB_ARRAY_SIZE(spaces); i++)
		if (s.len > spaces[i].leads &&
			is_sequence(&spaces[i], (const unsigned char *)s.at))
			return spaces[i].leads + 1u;
	return 0;
}

static size_t space_at_end(struct gb_span s)
{
	if (s.len && ascii_space((unsigned char)s.at[s.len - 1]))
		return 1;
	for (size_t i = 0; i < GB_ARRAY_SIZE(spaces); i++) {
		size_t len = spaces[i].leads + 1u;

		if (s.len >= len && is_sequence(&spaces[i],
					    (const unsigned char *)s.at + s.len - len))
			return len;
	}
	return 0;
}

struct gb_span gb_span_trim_end(struct gb_span s)
{
	size_t n;

	while ((n = space_at_end(s)))
		s.len -= n;
	return s;
}

struct gb_span gb_span_trim(struct gb_span s)
{
	size_t n;

	while ((n = space_at_front(s))) {
		s.at += n;
		s.len -= n;
	}
	return gb_span_trim_end(s);
}

bool gb_span_eq(struct gb_span a, struct gb_span b)
{
	return a.len == b.len && (!a.len || memcmp(a.at, b.at, a.len) == 0);
}

bool gb_span_cut(struct gb_span *s, struct gb_span prefix)
{
	if (s->len < prefix.len || memcmp(s->at, prefix.at, prefix.len) != 0)
		return false;
	s->at += prefix.len;
	s->len -= prefix.len;
	return true;
}

bool gb_span_line(struct gb_span *rest, struct gb_span *line, unsigned *eol)
{
	const char *end;

	if (!rest->len)
		return false;
	end = memchr(rest->at, '\n', rest->len);
	line->at = rest->at;
	line->len = end ? (size_t)(end - rest->at) : rest->len;
	*eol = end ? 1 : 0;
	rest->at += line->len + *eol;
	rest->len -= line->len + *eol;
	if (end && line->len && line->at[line->len - 1] == '\r') {
		line->len--;
		*eol = 2;
	}
	return true;
}

/* The next character as it is compared; bytes of what is not folded come one by one. */
static unsigned char next_folded(struct gb_span *s)
{
	const unsigned char *p = (const unsigned char *)s->at;
	unsigned char c = p[0];
	size_t n = 1;

	for (size_t i = 0; c >= 0x80 && i < GB_ARRAY_SIZE(folds); i++) {
		if (s->len > folds[i].leads && is_sequence(&folds[i], p)) {
			c = (unsigned char)folds[i].folded;
			n = folds[i].leads + 1u;
		}
	}
	s->at += n;
	s->len -= n;
	return c;
}

static bool folded_eq(struct gb_span a, struct gb_span b, uint64_t *work)
{
	while (a.len && b.len) {
		(*work)++;
		if (next_folded(&a) != next_folded(&b))
			return false;
	}
	return !a.len && !b.len;
}

/* What trimming takes away, at most this and a step, is what it costs. */
static struct gb_span trimmed(struct gb_span s, enum gb_likeness likeness, uint64_t *work)
{
	size_t len = s.len;

	if (likeness == GB_LIKE_EXACT)
		return s;
	s = likeness == GB_LIKE_TRIM_END ? gb_span_trim_end(s) : gb_span_trim(s);
	*work += len - s.len;
	return s;
}

bool gb_line_like(
	struct gb_span a, struct gb_span b, enum gb_likeness likeness, uint64_t *work)
{
	a = trimmed(a, likeness, work);
	b = trimmed(b, likeness, work);
	*work += 1;
	if (likeness == GB_LIKE_FOLDED)
		return folded_eq(a, b, work);
	if (a.len != b.len)
		return false;
	*work += a.len / 16; /* memcmp is that much faster than a loop */
	return gb_span_eq(a, b);
}
