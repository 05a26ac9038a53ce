/* For who keeps a connection for long: taking it over from the client, and the last resort. */
#include "base/clock.h"
#include "machine/client_impl.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

void gb_client_release(struct gb_client *c_consume, struct gb_wire *ret, uint32_t *ret_next)
{
	*ret = c_consume->wire;
	*ret_next = c_consume->next_request;
	free(c_consume);
}

int gb_client_watch(const struct gb_dirs *d, const char *name)
{
	struct gb_machine_info info;
	pid_t pid;
	int fd;

	if (gb_machine_inspect(d, name, &info, NULL) < 0)
		return -1;
	pid = info.supervisor;
	gb_machine_info_done(&info);
	if (!pid)
		return -1;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* a number that still holds the lock was not given to somebody else meanwhile */
	if (fd >= 0 && gb_machine_inspect(d, name, &info, NULL) == 0) {
		gb_machine_info_done(&info);
		if (info.supervisor == pid)
			return fd;
	}
	gb_fd_close(&fd);
	return -1;
}

int gb_client_kill(
	const struct gb_dirs *d, const char *name, uint64_t deadline_ns, struct gb_err *err)
{
	gb_auto_fd pidfd = gb_client_watch(d, name);
	int r;

	if (pidfd < 0)
		return 0;
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	r = gb_fd_wait(pidfd, POLLIN, deadline_ns, err);
	return r < 0 ? gb_wrap(err, r, "the supervisor of machine '%s' does not end", name) : 0;
}
