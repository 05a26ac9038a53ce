/* Strings: lists of them, numbers and sizes read strictly, names, the nearest word. */
#ifndef GB_BASE_STR_H
#define GB_BASE_STR_H

#include "base/err.h"
#include "base/mem.h"

bool gb_streq(const char *a, const char *b); /* NULL equals NULL only */
bool gb_starts_with(const char *s, const char *prefix);

/* An owned, NULL-terminated list (argument vector, environment). Remembers a failure. */
struct gb_strv {
	char **v; /* owned; NULL until something was added, else NULL-terminated */
	size_t n;
	size_t cap;
	int error;
};
void gb_strv_done(struct gb_strv *l);
void gb_strv_add(struct gb_strv *l, const char *s);
void gb_strv_addf(struct gb_strv *l, const char *fmt, ...) GB_PRINTF(2, 3);
/* Environment form: replaces an entry with the same name before '='. */
void gb_strv_set_env(struct gb_strv *l, const char *assignment);
int gb_strv_check(const struct gb_strv *l, const char *what, struct gb_err *err);

/* Decimal digits only, whole string, no sign, 0..max. GB_E_PARSE or GB_E_LIMIT. */
int gb_parse_u64(const char *s, uint64_t max, uint64_t *ret, struct gb_err *err);
/* Bytes: digits with an optional K, M, G or T (powers of 1024, optional "iB" or "B").
 * Without a letter the number is multiplied by unit (so "2" can mean 2 GiB). */
int gb_parse_size(
	const char *s, uint64_t unit, uint64_t max, uint64_t *ret, struct gb_err *err);
/* "12", "1.5", "500ms", "10s", "2m", "1h" to milliseconds; a bare number is seconds. */
int gb_parse_duration_ms(const char *s, uint64_t max, uint64_t *ret, struct gb_err *err);

/* Machine and image names: [A-Za-z0-9][A-Za-z0-9_.-]{0,62}. */
bool gb_name_valid(const char *s);

/* The entry of words (NULL-terminated) nearest to s by edit distance, or NULL if none is
 * near enough to be a likely slip. Borrowed from words. */
const char *gb_nearest(const char *s, const char *const *words);

/* Lower-case hex of len bytes; out has room for 2 * len + 1. */
void gb_hex(const uint8_t *bytes, size_t len, char *out);
/* 64-bit FNV-1a, for names of things, never for security. */
uint64_t gb_fnv1a(const void *data, size_t len, uint64_t seed);
#define GB_FNV1A_SEED UINT64_C(0xcbf29ce484222325)

#endif
