/* Paths: joining, making, removing, opening below a root and never out of it, and where
 * glovebox keeps its files. */
#ifndef GB_BASE_PATH_H
#define GB_BASE_PATH_H

#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

/* "a/b" ("b" when a is empty), owned; NULL when memory is out. */
char *gb_path_join(const char *a, const char *b);
/* The part after the last slash; borrowed. */
const char *gb_path_base(const char *path);
/* mkdir -p; new folders get mode. An existing folder is fine. */
int gb_mkdir_p(const char *path, mode_t mode, struct gb_err *err);
/* As gb_mkdir_p with mode 0700, and GB_E_DENIED when what is there is a link, is another
 * user's, or can be written to by others. For places where anybody may make files (/tmp). */
int gb_mkdir_private(const char *path, struct gb_err *err);
/* Open path relative to the folder root with openat2: ".." and absolute links resolve
 * inside root (RESOLVE_IN_ROOT), magic links never. flags as for open; CLOEXEC is added.
 * GB_E_BUSY when renames race with it without end. */
int gb_open_in_root(
	int root, const char *path, int flags, mode_t mode, int *ret, struct gb_err *err);
/* Remove name below dirfd with everything in it, never following links. Missing is fine. */
int gb_rm_tree(int dirfd, const char *name, struct gb_err *err);

/* The four places (owned strings). GLOVEBOX_HOME puts them all under one folder
 * (config, data, cache, run); else XDG variables, with their standard defaults;
 * runtime falls back to /tmp/glovebox-UID. Nothing is created. */
struct gb_dirs {
	char *config;
	char *data;
	char *cache;
	char *runtime;
};
int gb_dirs_init(struct gb_dirs *d, struct gb_err *err);
void gb_dirs_done(struct gb_dirs *d);

/* The full path (owned) of a helper program: beside this executable as "glovebox-ROLE"
 * (a build tree) or in ../libexec/glovebox (installed); GLOVEBOX_LIBEXEC goes first.
 * GB_E_NOTFOUND says where it was looked for. */
int gb_role_path(const char *role, char **ret, struct gb_err *err);

#endif
