/* How the share server gives up everything but its folders, in stages:
 *
 *   limits      descriptors up to the hard limit, no core dump, umask 0, all but the given
 *               descriptors closed
 *   namespaces  own mount, network, IPC and host name namespaces; who is not root gets them
 *               inside a user namespace that maps only the own user and group, to themselves
 *   mounts      each folder becomes a mount of its own (no devices, no setuid, no programs,
 *               no symlinks followed; read-only where it is), not attached to anything, so
 *               that ".." ends there; the root becomes an empty, read-only file system; the
 *               working directory is /proc/self/fd, cut out in the same way
 *   privileges  no_new_privs; all capabilities go, save that root keeps the two that let it
 *               act on files of any user (CAP_DAC_OVERRIDE, CAP_FOWNER)
 *   landlock    files may be opened below the folders only; nothing at all may be executed,
 *               connected, or signalled
 *   seccomp     the system calls that answering FUSE needs, and no others; no device nodes,
 *               no setuid modes, no executable memory
 *
 * The first four and landlock may be unavailable (a container, an old kernel): that is said
 * once and the server goes on. Without no_new_privs and seccomp it does not run. */
#ifndef GB_SHARE_SANDBOX_H
#define GB_SHARE_SANDBOX_H

#include "base/err.h"
#include "base/mem.h"

struct gb_sandbox_dir {
	int fd; /* owned; O_PATH. Replaced by one of the folder's own mount */
	bool read_only;
};

enum gb_sandbox_stage {
	GB_SANDBOX_NAMESPACES = 1 << 0,
	GB_SANDBOX_MOUNTS = 1 << 1,
	GB_SANDBOX_PRIVILEGES = 1 << 2,
	GB_SANDBOX_LANDLOCK = 1 << 3,
	GB_SANDBOX_SECCOMP = 1 << 4,
};

/* What holds afterwards. */
struct gb_sandbox {
	unsigned int stages; /* enum gb_sandbox_stage */
	size_t max_fds;      /* how many descriptors may be open, which cannot be asked then */
};

/* keep: other descriptors that stay open, besides 0 to 2. The process is single-threaded. */
int gb_sandbox_enter(struct gb_sandbox_dir *dirs, size_t count, const int *keep,
	size_t keep_count, struct gb_sandbox *ret, struct gb_err *err);

/* The stages; those that may be unavailable return GB_E_UNSUPPORTED then. */
int gb_sandbox_namespaces(struct gb_err *err);
int gb_sandbox_mounts(struct gb_sandbox_dir *dirs, size_t count, struct gb_err *err);
int gb_sandbox_privileges(struct gb_err *err);
int gb_sandbox_landlock(const struct gb_sandbox_dir *dirs, size_t count, struct gb_err *err);
int gb_sandbox_seccomp(struct gb_err *err);

#endif
