/* Starting and ending child processes of the host side. */
#ifndef GB_BASE_PROC_H
#define GB_BASE_PROC_H

#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

struct gb_fd_map {
	int from; /* a descriptor of ours, borrowed */
	int to;   /* its number in the child */
};

/* What to start. Every descriptor that is not in the map is closed in the child; 0, 1 and
 * 2 that are not mapped become /dev/null. Signals are reset to default and unblocked. */
struct gb_spawn {
	char *const *argv; /* argv[0] is the path to execute (searched in PATH if no slash) */
	char *const *envp; /* NULL: our own environment */
	const char *cwd;   /* NULL: ours */
	const struct gb_fd_map *fds;
	size_t fd_count;
	bool die_with_parent; /* SIGKILL when the spawning thread ends */
	bool new_session;     /* setsid */
};

/* Returns when exec has succeeded; its failure is reported here as the error. */
int gb_spawn(const struct gb_spawn *s, pid_t *ret_pid, struct gb_err *err);
/* Wait for a child until the deadline (ns of CLOCK_MONOTONIC). *ret_status as waitpid. */
int gb_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status, struct gb_err *err);
/* SIGKILL and reap. Nothing for a pid of 0 or less. */
void gb_kill_child(pid_t pid);
/* "exited with 3" or "killed by signal 9 (Killed)", cut to size. */
void gb_describe_status(int status, char *text, size_t size);

#endif
