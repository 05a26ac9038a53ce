/* Which shell runs a model's command, and how. Pure but for the question whether a file is
 * there. The rules are those of the tools that models were trained on: a shell is known by its
 * name; what is not known becomes /bin/sh. */
#ifndef GB_GUEST_SHELL_H
#define GB_GUEST_SHELL_H

#include "base/str.h"

struct gb_shell_world {
	const char *user_shell; /* of /etc/passwd; "" if none */
	const char *path;       /* PATH of the command's environment */
	/* Whether a regular file is at this absolute path of the guest. */
	bool (*is_file)(void *ctx, const char *path);
	void *ctx;
};
/* wanted: a name or path, "" for the user's. Adds program and arguments to ret (empty). */
int gb_shell_argv(const struct gb_shell_world *w, const char *wanted, const char *script,
	bool login, struct gb_strv *ret, struct gb_err *err);

#endif
