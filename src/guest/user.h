/* Who a command runs as: /etc/passwd and /etc/group of the guest, read as hostile input:
 * bounded, opened below the root and never out of it, only if regular files. */
#ifndef GB_GUEST_USER_H
#define GB_GUEST_USER_H

#include "base/str.h"

#include <sys/types.h>

#define GB_PASSWD_MAX      (4u << 20) /* bytes of either file */
#define GB_USER_GROUPS_MAX 1024       /* supplementary groups of one user */
#define GB_USER_ID_MAX     0xfffffffeu

struct gb_user {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* owned */
	size_t group_count;
	char *name;  /* owned, as all strings here; the number in decimals if it has none */
	char *home;
	char *shell;
};
void gb_user_done(struct gb_user *u);

/* spec: "" (root), "name", "uid", each with ":group" or ":gid". Supplementary groups come
 * from the group file unless a group is given. GB_E_NOTFOUND names what is not there. */
int gb_user_find(int root, const char *spec, struct gb_user *ret, struct gb_err *err);
/* The same on texts (NULL: no such file). */
int gb_user_parse(const char *passwd, const char *group, const char *spec, struct gb_user *ret,
	struct gb_err *err);

#endif
