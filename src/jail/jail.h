/* What a helper process that handles hostile bytes gives up for good. The stages, in the order
 * in which they work; each helper says which it needs and which system calls it keeps.
 *
 *   close       all descriptors but 0 to 2 and the given ones
 *   namespaces  own mount, network, IPC and host name namespaces; who is not root gets them
 *               inside a user namespace that maps only the own user and group, to themselves
 *   mounts      each folder becomes a mount of its own (no devices, no setuid, no programs,
 *               no symlinks followed; read-only where it is), not attached to anything, so
 *               that ".." ends there; the root becomes an empty, read-only file system; the
 *               working directory is /proc/self/fd, cut out in the same way
 *   privileges  no_new_privs; all capabilities go but the given ones
 *   landlock    files may be opened below the folders only; nothing at all may be executed,
 *               connected, or signalled
 *   seccomp     only the given system calls; the others fail with EPERM
 *
 * The process is single-threaded. Namespaces, mounts and landlock return GB_E_UNSUPPORTED or
 * GB_E_DENIED where the kernel has them not or does not grant them (a container). */
#ifndef GB_JAIL_JAIL_H
#define GB_JAIL_JAIL_H

#include "base/err.h"
#include "base/mem.h"

struct gb_jail_dir {
	int fd; /* owned; O_PATH. gb_jail_mounts replaces it by one of the folder's own mount */
	bool read_only;
};

/* A call that is allowed only where (argument & mask) == value. */
struct gb_jail_masked {
	int call;
	unsigned int arg;
	uint64_t mask, value;
};

struct gb_jail_calls {
	const int *allowed; /* whatever their arguments */
	size_t allowed_count;
	const struct gb_jail_masked *masked;
	size_t masked_count;
};

/* keep is sorted in place. */
void gb_jail_close_others(int *keep, size_t count);
int gb_jail_namespaces(struct gb_err *err);
int gb_jail_mounts(struct gb_jail_dir *dirs, size_t count, struct gb_err *err);
/* keep: a bit for each capability that stays if it is there. */
int gb_jail_privileges(uint64_t keep, struct gb_err *err);
int gb_jail_landlock(const struct gb_jail_dir *dirs, size_t count, struct gb_err *err);
int gb_jail_seccomp(const struct gb_jail_calls *calls, struct gb_err *err);

#endif
