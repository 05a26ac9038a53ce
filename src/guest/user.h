/* Who a command runs as: /etc/passwd and /etc/group of the guest, read as hostile input:
 * bounded, opened below the root and never out of it, only if regular files. */
#ifndef GB_GUEST_USER_H
#define GB_GUEST_USER_H

#include "base/str.h"

#include <sys/types.h>
#include <time.h>

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

/* The last user that was found, for as long as both files are the ones that it was found in.
 * File times advance by ticks: a file that was changed within the last one may change once
 * more without showing it, so what was changed a moment ago is read each time. */
#define GB_USER_SETTLED_NS UINT64_C(2000000000)
struct gb_user_file {
	bool known; /* old enough that a change is sure to show in what follows */
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec ctime;
};
struct gb_user_cache {
	char *spec; /* owned; NULL: nothing is kept */
	struct gb_user user;
	struct gb_user_file passwd, group;
};
/* As gb_user_find. *ret is borrowed from the cache until the next call. settled_ns: how long ago
 * a file must have been changed to be trusted. */
int gb_user_cached(struct gb_user_cache *c, int root, const char *spec, uint64_t settled_ns,
	const struct gb_user **ret, struct gb_err *err);
void gb_user_cache_done(struct gb_user_cache *c);

#endif
