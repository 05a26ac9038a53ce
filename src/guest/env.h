/* A command's environment and where it is looked for. */
#ifndef GB_GUEST_ENV_H
#define GB_GUEST_ENV_H

#include "guest/user.h"

#define GB_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define GB_DEFAULT_TERM "xterm-256color"

/* ret (empty): configured, then extra on top of it, then what is missing of PATH, HOME, USER,
 * LOGNAME, SHELL and (tty) TERM. GB_E_INVALID: an entry without a name. */
int gb_env_build(char *const *configured, char *const *extra, const struct gb_user *u, bool tty,
	struct gb_strv *ret, struct gb_err *err);
/* The environment of a model's tool: as above, but configured entries with names that look
 * sensitive are dropped, and ten fixed variables (no colour, no pager, UTF-8) win over all. */
int gb_env_build_tool(char *const *configured, char *const *extra, const struct gb_user *u,
	struct gb_strv *ret, struct gb_err *err);
/* Whether a part of the name between underscores is one of KEY, TOKEN, SECRET and their like,
 * in any case. */
bool gb_env_is_sensitive(const char *entry);
/* The value of name in envp, or NULL. */
const char *gb_env_get(char *const *envp, const char *name);

/* execve argv, found as execvpe finds it but by PATH of envp. Returns only on failure: the
 * errno that says most. No allocation: it runs in a child that is about to be replaced. */
int gb_env_exec(char *const *argv, char *const *envp);

#endif
