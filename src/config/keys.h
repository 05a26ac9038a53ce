/* Every configuration key, once: file, environment, options, help, completion, `config show`
 * and the documentation are made from this table. Defaults are stated only here. */
#ifndef GB_CONFIG_KEYS_H
#define GB_CONFIG_KEYS_H

#include "base/err.h"
#include "base/mem.h"

enum gb_config_type {
	GB_CONFIG_INT,    /* whole number, min..max */
	GB_CONFIG_SIZE,   /* bytes, "512M"; a bare number is multiplied by unit */
	GB_CONFIG_STRING, /* at most GB_CONFIG_TEXT_MAX bytes, no control characters */
	GB_CONFIG_ENUM,   /* one of words */
	GB_CONFIG_PATH,   /* a host path: "~/" and paths relative to the file are resolved */
	GB_CONFIG_GUEST,  /* an absolute path in the guest */
	GB_CONFIG_IMAGE,  /* a name, a digest, or a source such as debootstrap:bookworm */
	GB_CONFIG_ENV,    /* list of K=V, or K: taken from our environment when it is used */
	GB_CONFIG_SHARES, /* list of HOST:GUEST[:ro] */
};

#define GB_CONFIG_TEXT_MAX 4095u /* bytes of one string */
#define GB_CONFIG_LIST_MAX 256u  /* entries of one list */

/* Key ids, in the order of the table in keys.c. */
enum gb_config_id {
	GB_CONFIG_CPUS,
	GB_CONFIG_MEMORY,
	GB_CONFIG_DISK,
	GB_CONFIG_ACCEL,
	GB_CONFIG_USER,
	GB_CONFIG_WORKDIR,
	GB_CONFIG_ENVIRONMENT,
	GB_CONFIG_SHARE_LIST,
	GB_CONFIG_KERNEL,
	GB_CONFIG_MODULES,
	GB_CONFIG_IMAGE_DEFAULT,
	GB_CONFIG_COUNT,
};

struct gb_config_key {
	enum gb_config_id id;
	const char *table;
	const char *key;
	enum gb_config_type type;
	uint64_t min, max, unit;
	const char *const *words; /* of an ENUM, NULL-terminated */
	const char *fallback;     /* the default, as text; "" for an empty string or list */
	const char *env;          /* the variable that sets it; lists are separated by commas */
	bool project;             /* may come from a project's .glovebox.toml, which is not trusted */
	const char *help;
};

const struct gb_config_key *gb_config_key(enum gb_config_id id);
/* By table and key; NULL when there is none. */
const struct gb_config_key *gb_config_key_find(const char *table, const char *key);
bool gb_config_type_is_list(enum gb_config_type t);
/* "a whole number from 1 to 64": what is expected, cut to size. */
void gb_config_expected(const struct gb_config_key *k, char *text, size_t size);

#endif
