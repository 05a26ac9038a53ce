#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool gb_streq(const char *a, const char *b)
{
	if (!a || !b)
		return a == b;
	return strcmp(a, b) == 0;
}

bool gb_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

void gb_strv_done(struct gb_strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	memset(l, 0, sizeof(*l));
}

static void strv_add_consume(struct gb_strv *l, char *s)
{
	if (!s || l->error || !gb_grow(&l->v, &l->cap, l->n + 2, sizeof(*l->v))) {
		free(s);
		l->error = GB_E_NOMEM;
		return;
	}
	l->v[l->n++] = s;
	l->v[l->n] = NULL;
}

void gb_strv_add(struct gb_strv *l, const char *s)
{
	strv_add_consume(l, strdup(s));
}

void gb_strv_addf(struct gb_strv *l, const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	strv_add_consume(l, n < 0 ? NULL : s);
}

void gb_strv_set_env(struct gb_strv *l, const char *assignment)
{
	size_t name = strcspn(assignment, "=");

	for (size_t i = 0; i < l->n; i++) {
		char *s;

		if (strncmp(l->v[i], assignment, name) || l->v[i][name] != '=')
			continue;
		s = strdup(assignment);
		if (!s) {
			l->error = GB_E_NOMEM;
			return;
		}
		free(l->v[i]);
		l->v[i] = s;
		return;
	}
	gb_strv_add(l, assignment);
}

int gb_strv_check(const struct gb_strv *l, const char *what, struct gb_err *err)
{
	if (!l->error)
		return 0;
	return gb_fail(err, l->error, "%s: %s", what, gb_code_text(l->error));
}

/* Reads digits at *s, moving it; false when there is none or the value passes max. */
static bool take_digits(const char **s, uint64_t max, uint64_t *ret, bool *over)
{
	uint64_t v = 0;
	const char *p = *s;

	*over = false;
	if (!isdigit((unsigned char)*p))
		return false;
	for (; isdigit((unsigned char)*p); p++) {
		uint64_t d = (uint64_t)(*p - '0');

		if (d > max || v > (max - d) / 10) {
			*over = true;
			return false;
		}
		v = v * 10 + d;
	}
	*s = p;
	*ret = v;
	return true;
}

int gb_parse_u64(const char *s, uint64_t max, uint64_t *ret, struct gb_err *err)
{
	const char *p = s;
	uint64_t v;
	bool over;

	if (!take_digits(&p, max, &v, &over)) {
		if (over)
			return gb_fail(err, GB_E_LIMIT, "'%s' is over %llu", s,
				(unsigned long long)max);
		return gb_fail(err, GB_E_PARSE, "'%s' is not a number", s);
	}
	if (*p)
		return gb_fail(err, GB_E_PARSE, "'%s' is not a number", s);
	*ret = v;
	return 0;
}

static int size_shift(char c)
{
	switch (toupper((unsigned char)c)) {
	case 'K':
		return 10;
	case 'M':
		return 20;
	case 'G':
		return 30;
	case 'T':
		return 40;
	default:
		return 0;
	}
}

int gb_parse_size(
	const char *s, uint64_t unit, uint64_t max, uint64_t *ret, struct gb_err *err)
{
	const char *p = s;
	uint64_t v;
	uint64_t scale = unit;
	bool over;
	int shift;

	if (!take_digits(&p, UINT64_MAX, &v, &over))
		return gb_fail(err, over ? GB_E_LIMIT : GB_E_PARSE,
			"'%s' is not a size (such as 512M or 20G)", s);
	shift = size_shift(*p);
	if (shift) {
		scale = UINT64_C(1) << shift;
		p++;
		if (*p == 'i')
			p++;
	} else if (*p == 'B') {
		scale = 1;
	}
	if (*p == 'B')
		p++;
	if (*p)
		return gb_fail(
			err, GB_E_PARSE, "'%s' is not a size (such as 512M or 20G)", s);
	if (v > max / scale)
		return gb_fail(err, GB_E_LIMIT, "'%s' is too large", s);
	*ret = v * scale;
	return 0;
}

int gb_parse_duration_ms(const char *s, uint64_t max, uint64_t *ret, struct gb_err *err)
{
	static const struct {
		const char *suffix;
		uint64_t ms;
	} units[] = {
		{ "", 1000 }, { "s", 1000 }, { "ms", 1 }, { "m", 60000 }, { "h", 3600000 },
	};
	const char *p = s;
	uint64_t whole;
	uint64_t frac = 0; /* in thousandths */
	bool over;

	if (!take_digits(&p, UINT64_MAX / 4000000, &whole, &over))
		return gb_fail(err, over ? GB_E_LIMIT : GB_E_PARSE,
			"'%s' is not a duration (such as 1.5, 30s or 2m)", s);
	if (*p == '.') {
		uint64_t place = 100;

		if (!isdigit((unsigned char)p[1]))
			return gb_fail(err, GB_E_PARSE,
				"'%s' is not a duration (such as 1.5, 30s or 2m)", s);
		for (p++; isdigit((unsigned char)*p); p++, place /= 10)
			frac += (uint64_t)(*p - '0') * place;
	}
	for (size_t i = 0; i < GB_ARRAY_SIZE(units); i++) {
		if (strcmp(p, units[i].suffix))
			continue;
		/* cannot overflow: see the bound on whole */
		whole = whole * units[i].ms + frac * units[i].ms / 1000;
		if (whole > max)
			return gb_fail(err, GB_E_LIMIT, "'%s' is too long", s);
		*ret = whole;
		return 0;
	}
	return gb_fail(
		err, GB_E_PARSE, "'%s' is not a duration (such as 1.5, 30s or 2m)", s);
}

#define NAME_MAX_LEN 63 /* letters of a machine's or image's name */

bool gb_name_valid(const char *s)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t n = strlen(s);

	if (n < 1 || n > NAME_MAX_LEN || strchr("_.-", s[0]))
		return false;
	return strspn(s, allowed) == n;
}

#define NEAREST_MAX_LEN 40 /* letters of a word that is compared with others */

/* Letters put in, left out, replaced, or swapped with their neighbour, each as one slip. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t la = strlen(a);
	size_t lb = strlen(b);
	size_t rows[3][NEAREST_MAX_LEN + 1];
	size_t *before = rows[0];
	size_t *above = rows[1];
	size_t *row = rows[2];

	if (la > NEAREST_MAX_LEN || lb > NEAREST_MAX_LEN)
		return SIZE_MAX;
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *spare = before;

		before = above;
		above = row;
		row = spare;
		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t cost = above[j - 1] + (a[i - 1] != b[j - 1]);

			cost = GB_MIN(cost, GB_MIN(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				cost = GB_MIN(cost, before[j - 2] + 1);
			row[j] = cost;
		}
	}
	return row[lb];
}

const char *gb_nearest(const char *s, const char *const *words)
{
	const char *best = NULL;
	size_t best_distance = GB_MAX(strlen(s) / 3, (size_t)1) + 1;

	for (; *words; words++) {
		size_t d = edit_distance(s, *words);

		if (d < best_distance) {
			best_distance = d;
			best = *words;
		}
	}
	return best;
}

void gb_hex(const uint8_t *bytes, size_t len, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[2 * len] = 0;
}

uint64_t gb_fnv1a(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		seed = (seed ^ p[i]) * UINT64_C(0x100000001b3);
	return seed;
}
