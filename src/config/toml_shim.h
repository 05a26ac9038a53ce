/* The only door to toml++ (C++): TOML text in, jansson values out. Everything else about the
 * configuration is C. */
#ifndef GB_CONFIG_TOML_SHIM_H
#define GB_CONFIG_TOML_SHIM_H

#include <jansson.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gb_toml_error {
	unsigned line; /* 0: memory ran out */
	unsigned column;
	char text[256];
};

/* A node is an object: "type" (one of the words below), "line" and "column" of the value,
 * "value"; inside a table also "key_line" and "key_column". Types: "table" (value: an object
 * of nodes), "array" (an array of nodes), "string", "integer", "float", "boolean", and
 * "date" (no value). The caller owns the answer; NULL: *ret_error says why.
 * Use gb_toml_parse (toml.h), which bounds the text first. */
json_t *gb_toml_shim(const char *text, size_t len, struct gb_toml_error *ret_error);

#ifdef __cplusplus
}
#endif

#endif
