/* One configured value: read from text for a key, kept typed, written back as text. */
#ifndef GB_CONFIG_VALUE_H
#define GB_CONFIG_VALUE_H

#include "base/str.h"
#include "config/keys.h"

struct gb_config_value {
	uint64_t number;     /* INT, SIZE */
	char *text;          /* owned; the other single ones, never NULL once set */
	struct gb_strv list; /* the lists */
};

void gb_config_value_done(struct gb_config_value *v);

/* What paths are relative to; both absolute, borrowed. */
struct gb_config_base {
	const char *dir;
	const char *home; /* NULL: "~" cannot be used */
};

/* Read a single value or, for a list type, one entry, which is appended. *ret is untouched
 * on failure; the message says what is wrong with the text and what was expected. */
int gb_config_value_read(const struct gb_config_key *k, const char *text,
	const struct gb_config_base *base, struct gb_config_value *ret, struct gb_err *err);
/* As text for people and for shells: "2", "2G", "a,b"; owned, NULL when memory is out. */
char *gb_config_value_text(const struct gb_config_key *k, const struct gb_config_value *v);

/* Bytes as "2G", "1536M", "700"; the exact value. */
void gb_size_text(uint64_t bytes, char *text, size_t size);

/* A share as it is written: HOST:GUEST[:ro|:rw]. HOST is made absolute (it need not exist),
 * GUEST must be absolute, without "..". Owned strings. */
struct gb_share_arg {
	char *host;
	char *guest;
	bool rdonly;
};
int gb_share_arg_parse(const char *text, const struct gb_config_base *base,
	struct gb_share_arg *ret, struct gb_err *err);
void gb_share_arg_done(struct gb_share_arg *s);

/* "K=V" or "K" with a name that a shell accepts. */
bool gb_env_arg_valid(const char *text);

#endif
