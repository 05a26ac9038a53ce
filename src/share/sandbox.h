/* How the share server gives up everything but its folders: the stages of jail/jail.h, all of
 * them, after its limits (descriptors up to the hard limit, no core dump, umask 0).
 * Root keeps the two capabilities that let it act on files of any user (CAP_DAC_OVERRIDE,
 * CAP_FOWNER). The filter has the system calls that answering FUSE needs: no device nodes, no
 * setuid modes, no executable memory.
 *
 * Namespaces, mounts and landlock may be unavailable (a container, an old kernel): that is said
 * once and the server goes on. Without no_new_privs and seccomp it does not run. */
#ifndef GB_SHARE_SANDBOX_H
#define GB_SHARE_SANDBOX_H

#include "jail/jail.h"

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
int gb_sandbox_enter(struct gb_jail_dir *dirs, size_t count, const int *keep,
	size_t keep_count, struct gb_sandbox *ret, struct gb_err *err);

int gb_sandbox_seccomp(struct gb_err *err);

#endif
