/* One side of `glovebox cp`. */
#ifndef GB_FRONT_CLI_COPY_ARG_H
#define GB_FRONT_CLI_COPY_ARG_H

#include "base/str.h"

struct gb_copy_arg {
	char machine[64]; /* "": the host */
	const char *path; /* borrowed from the text */
};
/* "NAME:PATH" is a machine's path when NAME is a valid name; everything else, and what
 * begins with a slash or has one before the colon, is the host's. False for no path. */
bool gb_copy_arg_parse(const char *text, struct gb_copy_arg *ret);

#endif
