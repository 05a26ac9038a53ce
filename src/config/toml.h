/* TOML text, bounded, with positions. Foreign input: a project file comes with a checkout. */
#ifndef GB_CONFIG_TOML_H
#define GB_CONFIG_TOML_H

#include "base/err.h"
#include "config/toml_shim.h"

#define GB_TOML_MAX      ((size_t)1 << 20) /* bytes of one file */
#define GB_TOML_DOTS_MAX 32u               /* dots in one dotted key */

/* The root table's node (see toml_shim.h), owned: json_decref. GB_E_PARSE and GB_E_LIMIT
 * begin with "name:LINE:COLUMN: ". */
int gb_toml_parse(const char *name, const char *text, size_t len, json_t **ret,
	struct gb_err *err);

#endif
