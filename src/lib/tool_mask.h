/* Known secret values are masked in what tools answer.
 *
 * Output comes in pieces, and a value may be cut between two of them: by the time at which a
 * running command's output was asked for, or by the gap of what was left out. So what could be
 * the begin of a value at a piece's end is held back until more is known, and what could be a
 * part of one beside a gap goes into the gap. Matching is on bytes, before anything else is done
 * to the text; the longest value wins. */
#ifndef GB_LIB_TOOL_MASK_H
#define GB_LIB_TOOL_MASK_H

#include "base/buf.h"

#define GB_MASK_LEAST      8    /* bytes of a value that is masked: shorter ones are in everything */
#define GB_MASK_LINE_LEAST 16   /* bytes of a line of a value that is masked by itself */
#define GB_MASK_MAX        1024 /* values */
#define GB_MASK_VALUE_MAX  ((size_t)16 << 10) /* bytes of a value; of longer ones the lines count */
#define GB_MASK_TEXT       "[REDACTED]"

struct gb_mask_value {
	uint8_t *data; /* owned */
	size_t len;
};
struct gb_mask {
	struct gb_mask_value *values; /* owned; longest first */
	size_t count, cap;
	bool first[256]; /* bytes with which values begin */
	int error;       /* GB_E_NOMEM or GB_E_LIMIT; sticky */
};

void gb_mask_done(struct gb_mask *m);
/* Too short and known ones are passed over. Of a value of several lines each long one is masked
 * too. */
void gb_mask_add(struct gb_mask *m, const void *value, size_t len);
/* The values of those of env (K=V, NULL-terminated, NULL is fine) whose name looks like a
 * secret's. */
void gb_mask_add_env(struct gb_mask *m, char *const *env);
/* A mask that is not whole must not be used. */
int gb_mask_check(const struct gb_mask *m, struct gb_err *err);
/* One of the parts between underscores is AUTH, AUTHORIZATION, COOKIE, CREDENTIAL(S), KEY, PASS,
 * PASSWD, PASSWORD, SECRET or TOKEN, in any case. */
bool gb_mask_name_is_secret(const char *name, size_t len);

/* How many bytes at the end could be the begin of a value. */
size_t gb_mask_hold(const struct gb_mask *m, const uint8_t *data, size_t len);
/* How many bytes at the begin could be the end of a value. */
size_t gb_mask_tail(const struct gb_mask *m, const uint8_t *data, size_t len);
/* Append data with every value masked. */
void gb_mask_apply(const struct gb_mask *m, const uint8_t *data, size_t len, struct gb_buf *to);

#endif
