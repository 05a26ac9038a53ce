/* File descriptors: all CLOEXEC from birth, -1 when not held. */
#ifndef GB_BASE_FD_H
#define GB_BASE_FD_H

#include "base/buf.h"

#include <sys/types.h>
#include <unistd.h>

static inline void gb_fd_cleanup(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define gb_auto_fd __attribute__((cleanup(gb_fd_cleanup))) int

static inline int gb_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Close *fd if held and set it to -1. */
void gb_fd_close(int *fd);

int gb_fd_nonblock(int fd, bool on, struct gb_err *err);
/* Read until len bytes or end of file; the count read is in *ret. Retries EINTR. */
int gb_fd_read_full(int fd, void *data, size_t len, size_t *ret, struct gb_err *err);
int gb_fd_write_full(int fd, const void *data, size_t len, struct gb_err *err);
/* poll() for events (POLLIN…) until the deadline (CLOCK_MONOTONIC ns, see base/clock.h;
 * GB_NEVER waits for ever). GB_E_TIMEOUT when it passes. */
int gb_fd_wait(int fd, short events, uint64_t deadline_ns, struct gb_err *err);

/* A whole regular file of at most max bytes, NUL-terminated beyond its length, in *ret (which
 * must be initialised and empty). dirfd may be AT_FDCWD. Anything else at the path (a FIFO, a
 * folder) is GB_E_INVALID at once. */
int gb_file_read(int dirfd, const char *path, size_t max, struct gb_buf *ret, struct gb_err *err);
/* Write to a temporary name beside it, fsync, rename over path; fsync the folder. */
int gb_file_write_atomic(int dirfd, const char *path, const void *data, size_t len,
	mode_t mode, struct gb_err *err);

/* A connected pair of stream sockets (CLOEXEC). */
int gb_socketpair(int ret[2], struct gb_err *err);
/* Listen on / connect to a Unix stream socket. The path must fit sockaddr_un (107 bytes);
 * a longer one is GB_E_LIMIT with a message that says to shorten the runtime directory.
 * listen: mode 0600; a socket's file that is there is replaced, since who may listen is
 * decided by a lock and never by that file. Any other file is GB_E_EXISTS. */
int gb_unix_listen(const char *path, int *ret_fd, struct gb_err *err);
int gb_unix_connect(const char *path, int *ret_fd, struct gb_err *err);
/* The uid of the process at the other end of a Unix socket. */
int gb_unix_peer_uid(int fd, uid_t *ret, struct gb_err *err);

/* One byte of payload with up to 8 descriptors beside it (SCM_RIGHTS). recv: *count holds
 * the room on entry and the number received on return; they are CLOEXEC and owned; what is
 * beyond the room is closed. GB_E_CLOSED at end of file. */
int gb_fd_send(int sock, uint8_t tag, const int *fds, size_t count, struct gb_err *err);
int gb_fd_recv(int sock, uint8_t *tag, int *fds, size_t *count, struct gb_err *err);

#endif
