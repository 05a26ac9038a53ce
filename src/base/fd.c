#include "base/fd.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define FD_SEND_MAX 8 /* descriptors in one message */

void gb_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int gb_fd_nonblock(int fd, bool on, struct gb_err *err)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return gb_fail_sys(err, errno, "cannot read descriptor flags");
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	if (fcntl(fd, F_SETFL, flags) < 0)
		return gb_fail_sys(err, errno, "cannot set descriptor flags");
	return 0;
}

int gb_fd_read_full(int fd, void *data, size_t len, size_t *ret, struct gb_err *err)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read");
		if (n == 0)
			break;
		done += (size_t)n;
	}
	*ret = done;
	return 0;
}

int gb_fd_write_full(int fd, const void *data, size_t len, struct gb_err *err)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, (const char *)data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot write");
		done += (size_t)n;
	}
	return 0;
}

int gb_fd_wait(int fd, short events, uint64_t deadline_ns, struct gb_err *err)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int n = poll(&p, 1, gb_deadline_poll_ms(deadline_ns));

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot poll");
		if (n == 0 && gb_deadline_passed(deadline_ns))
			return gb_fail(err, GB_E_TIMEOUT, "timed out");
	}
}

int gb_file_read(int dirfd, const char *path, size_t max, struct gb_buf *ret, struct gb_err *err)
{
	/* not blocking: a FIFO laid where a file is expected must not hold us up */
	gb_auto_fd fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return gb_fail(err, GB_E_INVALID, "'%s' is not a regular file", path);
	ret->max = max + 1;
	for (;;) {
		uint8_t *to = gb_buf_reserve(ret, GB_MIN((size_t)65536, max + 1 - ret->len));
		ssize_t n;

		if (ret->error == GB_E_NOMEM)
			return gb_nomem(err);
		if (!to || ret->len > max)
			return gb_fail(err, GB_E_LIMIT, "'%s' is over %zu bytes", path, max);
		n = read(fd, to, GB_MIN((size_t)65536, max + 1 - ret->len));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read '%s'", path);
		if (n == 0)
			break;
		ret->len += (size_t)n;
	}
	ret->max = max + 2;
	gb_buf_add_byte(ret, 0);
	if (ret->error)
		return gb_nomem(err);
	ret->len--;
	return 0;
}

static int write_and_sync(int fd, const void *data, size_t len, mode_t mode, struct gb_err *err)
{
	int r = gb_fd_write_full(fd, data, len, err);

	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
		return gb_fail_sys(err, errno, "cannot sync");
	return 0;
}

int gb_file_write_atomic(int dirfd, const char *path, const void *data, size_t len,
	mode_t mode, struct gb_err *err)
{
	gb_auto_free char *tmp = NULL;
	gb_auto_fd fd = -1;
	gb_auto_fd folder = -1;
	const char *slash = strrchr(path, '/');
	int r;

	if (asprintf(&tmp, "%s.%d.tmp", path, (int)gettid()) < 0)
		return gb_nomem(err);
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot create '%s'", tmp);
	r = write_and_sync(fd, data, len, mode, err);
	if (r == 0 && renameat(dirfd, tmp, dirfd, path) < 0)
		r = gb_fail_sys(err, errno, "cannot rename");
	if (r < 0) {
		unlinkat(dirfd, tmp, 0);
		return gb_wrap(err, r, "cannot write '%s'", path);
	}
	tmp[slash ? slash - path : 0] = 0;
	folder = openat(dirfd, slash ? (*tmp ? tmp : "/") : ".",
		O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0)
		fsync(folder);
	return 0;
}

int gb_socketpair(int ret[2], struct gb_err *err)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret) < 0)
		return gb_fail_sys(err, errno, "cannot make a socket pair");
	return 0;
}

static int unix_address(const char *path, struct sockaddr_un *sa, struct gb_err *err)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(sa->sun_path))
		return gb_fail(err, GB_E_LIMIT,
			"socket path '%s' is over %zu bytes: set XDG_RUNTIME_DIR or "
			"GLOVEBOX_HOME to a shorter directory",
			path, sizeof(sa->sun_path) - 1);
	memcpy(sa->sun_path, path, strlen(path));
	return 0;
}

int gb_unix_listen(const char *path, int *ret_fd, struct gb_err *err)
{
	struct sockaddr_un sa;
	gb_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;
	int r = unix_address(path, &sa, err);

	if (r < 0)
		return r;
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot make a socket");
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return gb_fail(err, GB_E_EXISTS, "'%s' is not a socket", path);
		unlink(path);
	}
	/* bind gives the socket's file the mode of the socket's inode; unlike a change of the
	 * umask this is not seen by other threads */
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return gb_fail_sys(err, errno, "cannot bind '%s'", path);
	if (listen(fd, 128) < 0)
		return gb_fail_sys(err, errno, "cannot listen on '%s'", path);
	*ret_fd = gb_take_fd(&fd);
	return 0;
}

int gb_unix_connect(const char *path, int *ret_fd, struct gb_err *err)
{
	struct sockaddr_un sa;
	gb_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = unix_address(path, &sa, err);

	if (r < 0)
		return r;
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return gb_fail_sys(err, errno, "cannot connect to '%s'", path);
	*ret_fd = gb_take_fd(&fd);
	return 0;
}

int gb_unix_peer_uid(int fd, uid_t *ret, struct gb_err *err)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return gb_fail_sys(err, errno, "cannot read the peer's identity");
	*ret = cred.uid;
	return 0;
}

union fd_control {
	char space[CMSG_SPACE(FD_SEND_MAX * sizeof(int))];
	struct cmsghdr align;
};

int gb_fd_send(int sock, uint8_t tag, const int *fds, size_t count, struct gb_err *err)
{
	union fd_control control = { 0 };
	struct iovec iov = { .iov_base = &tag, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (count > FD_SEND_MAX)
		return gb_fail(err, GB_E_LIMIT, "too many descriptors at once");
	if (count) {
		struct cmsghdr *c;

		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	do {
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot pass descriptors");
	return 0;
}

int gb_fd_recv(int sock, uint8_t *tag, int *fds, size_t *count, struct gb_err *err)
{
	union fd_control control = { 0 };
	struct iovec iov = { .iov_base = tag, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space) };
	size_t room = *count;
	ssize_t n;

	*count = 0;
	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot receive descriptors");
	if (n == 0)
		return gb_fail(err, GB_E_CLOSED, "the other side is gone");
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fd;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < got; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*count < room)
				fds[(*count)++] = fd;
			else
				close(fd);
		}
	}
	if (m.msg_flags & MSG_CTRUNC) {
		while (*count)
			close(fds[--*count]);
		return gb_fail(err, GB_E_LIMIT, "too many descriptors at once");
	}
	return 0;
}
