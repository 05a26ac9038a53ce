#include "rows.h"

#include "base/clock.h"
#include "base/fd.h"
#include "tmpdir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct tmpdir tmp;

static int make_tmp(void **state)
{
	(void)state;
	return tmpdir_make(&tmp) ? 0 : -1;
}

static int remove_tmp(void **state)
{
	(void)state;
	return tmpdir_remove(&tmp);
}

static int names_in_tmp(void)
{
	char command[600];
	FILE *f;
	int n = -1;

	snprintf(command, sizeof(command), "ls -A '%s' | wc -l", tmp.path);
	f = popen(command, "r");
	if (f) {
		if (fscanf(f, "%d", &n) != 1)
			n = -1;
		pclose(f);
	}
	return n;
}

static void whole_reads_and_writes(void **state)
{
	int fds[2];
	char text[16] = "";
	size_t got = 99;

	(void)state;
	assert_int_equal(gb_socketpair(fds, NULL), 0);
	assert_int_equal(fcntl(fds[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(gb_fd_write_full(fds[0], "abc", 3, NULL), 0);
	assert_int_equal(gb_fd_write_full(fds[0], "", 0, NULL), 0);
	assert_int_equal(gb_fd_read_full(fds[1], text, 2, &got, NULL), 0);
	assert_int_equal(got, 2);
	gb_fd_close(&fds[0]);
	assert_int_equal(fds[0], -1);
	gb_fd_close(&fds[0]);
	assert_int_equal(gb_fd_read_full(fds[1], text, sizeof(text), &got, NULL), 0);
	assert_int_equal(got, 1);
	assert_int_equal(text[0], 'c');
	gb_fd_close(&fds[1]);
	assert_int_equal(gb_fd_read_full(-1, text, 1, &got, NULL), GB_E_IO);
}

static void waiting_has_a_deadline(void **state)
{
	int fds[2];
	uint64_t begin = gb_now_ns();

	(void)state;
	assert_int_equal(gb_socketpair(fds, NULL), 0);
	assert_int_equal(gb_fd_wait(fds[0], POLLIN, gb_deadline_ms(20), NULL), GB_E_TIMEOUT);
	assert_true(gb_now_ns() - begin >= 20 * GB_NS_MS);
	assert_int_equal(gb_fd_wait(fds[0], POLLIN, 0, NULL), GB_E_TIMEOUT);
	assert_int_equal(gb_fd_write_full(fds[1], "x", 1, NULL), 0);
	assert_int_equal(gb_fd_wait(fds[0], POLLIN, 0, NULL), 0);
	assert_int_equal(gb_fd_wait(fds[0], POLLIN, GB_NEVER, NULL), 0);
	gb_fd_close(&fds[0]);
	gb_fd_close(&fds[1]);
}

static void nonblocking_on_and_off(void **state)
{
	int fds[2];
	char c;
	size_t got;
	struct gb_err err = { 0 };

	(void)state;
	assert_int_equal(gb_socketpair(fds, NULL), 0);
	assert_int_equal(gb_fd_nonblock(fds[0], true, NULL), 0);
	assert_int_equal(gb_fd_read_full(fds[0], &c, 1, &got, &err), GB_E_BUSY);
	assert_int_equal(err.sys, EAGAIN);
	assert_int_equal(gb_fd_nonblock(fds[0], false, NULL), 0);
	assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(gb_fd_nonblock(-1, true, NULL), GB_E_IO);
	gb_fd_close(&fds[0]);
	gb_fd_close(&fds[1]);
}

struct read_row {
	const char *name;
	size_t size;
	size_t max;
	int code;
};

static const struct read_row read_rows[] = {
	{ "file read: empty", 0, 0, 0 },
	{ "file read: just the maximum", 10, 10, 0 },
	{ "file read: one over", 11, 10, GB_E_LIMIT },
	{ "file read: one where nothing may be", 1, 0, GB_E_LIMIT },
	{ "file read: many pieces", 200000, 200000, 0 },
	{ "file read: many pieces, one over", 200001, 200000, GB_E_LIMIT },
	{ "file read: a piece's border", 65536, 65536, 0 },
};

static void file_read(void **state)
{
	const struct read_row *row = *state;
	char *content = malloc(row->size + 1);
	struct gb_buf b = { 0 };

	assert_non_null(content);
	memset(content, 'r', row->size + 1);
	assert_int_equal(
		gb_file_write_atomic(tmp.fd, "f", content, row->size, 0600, NULL), 0);
	assert_int_equal(gb_file_read(tmp.fd, "f", row->max, &b, NULL), row->code);
	if (!row->code) {
		assert_int_equal(b.len, row->size);
		assert_memory_equal(b.data, content, row->size);
		assert_int_equal(b.data[b.len], 0);
	}
	gb_buf_done(&b);
	free(content);
	unlinkat(tmp.fd, "f", 0);
}

static void file_read_takes_only_files(void **state)
{
	struct gb_buf b = { 0 };
	struct gb_err err = { 0 };

	(void)state;
	assert_int_equal(mkfifoat(tmp.fd, "fifo", 0600), 0);
	assert_int_equal(gb_file_read(tmp.fd, "fifo", 10, &b, &err), GB_E_INVALID);
	assert_string_equal(err.msg, "'fifo' is not a regular file");
	assert_int_equal(gb_file_read(AT_FDCWD, tmp.path, 10, &b, NULL), GB_E_INVALID);
	assert_int_equal(gb_file_read(tmp.fd, "missing", 10, &b, NULL), GB_E_NOTFOUND);
	gb_buf_done(&b);
	unlinkat(tmp.fd, "fifo", 0);
}

static void atomic_write_replaces(void **state)
{
	struct gb_buf b = { 0 };
	struct stat st;

	(void)state;
	assert_int_equal(gb_file_write_atomic(tmp.fd, "a", "one", 3, 0644, NULL), 0);
	assert_int_equal(gb_file_write_atomic(tmp.fd, "a", "two", 3, 0640, NULL), 0);
	assert_int_equal(gb_file_read(tmp.fd, "a", 10, &b, NULL), 0);
	assert_string_equal((char *)b.data, "two");
	assert_int_equal(fstatat(tmp.fd, "a", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(names_in_tmp(), 1);
	gb_buf_done(&b);
	unlinkat(tmp.fd, "a", 0);
}

static void atomic_write_leaves_nothing_on_failure(void **state)
{
	struct gb_err err = { 0 };

	(void)state;
	assert_int_equal(mkdirat(tmp.fd, "folder", 0700), 0);
	assert_true(gb_file_write_atomic(tmp.fd, "folder", "x", 1, 0600, &err) < 0);
	assert_non_null(strstr(err.msg, "cannot write 'folder'"));
	assert_int_equal(gb_file_write_atomic(tmp.fd, "no/f", "x", 1, 0600, NULL), GB_E_NOTFOUND);
	assert_int_equal(names_in_tmp(), 1);
	assert_int_equal(gb_file_write_atomic(tmp.fd, "folder/f", "x", 1, 0600, NULL), 0);
	assert_int_equal(gb_rm_tree(tmp.fd, "folder", NULL), 0);
}

static void unix_sockets(void **state)
{
	const char *path = tmpdir_at(&tmp, "s");
	struct stat st;
	int server = -1;
	int again = -1;
	int client = -1;
	uid_t uid = 12345;

	(void)state;
	assert_int_equal(gb_unix_connect(path, &client, NULL), GB_E_NOTFOUND);
	assert_int_equal(gb_unix_listen(path, &server, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(gb_unix_connect(path, &client, NULL), 0);
	assert_int_equal(gb_unix_peer_uid(client, &uid, NULL), 0);
	assert_int_equal(uid, getuid());
	gb_fd_close(&client);
	gb_fd_close(&server);
	/* the file stays when its listener is gone */
	assert_int_equal(gb_unix_connect(path, &client, NULL), GB_E_CLOSED);
	assert_int_equal(gb_unix_listen(path, &again, NULL), 0);
	assert_int_equal(gb_unix_connect(path, &client, NULL), 0);
	gb_fd_close(&client);
	gb_fd_close(&again);
	unlink(path);
}

static void listen_spares_other_files(void **state)
{
	const char *path = tmpdir_at(&tmp, "precious");
	int fd = -1;

	(void)state;
	assert_int_equal(gb_file_write_atomic(AT_FDCWD, path, "x", 1, 0600, NULL), 0);
	assert_int_equal(gb_unix_listen(path, &fd, NULL), GB_E_EXISTS);
	assert_int_equal(fd, -1);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void socket_path_length(void **state)
{
	struct sockaddr_un sa;
	char path[200];
	size_t fits = sizeof(sa.sun_path) - 1;
	struct gb_err err = { 0 };
	int fd = -1;

	(void)state;
	if (strlen(tmp.path) > fits - 2) {
		print_message("TMPDIR is too long for this test\n");
		skip();
	}
	memset(path, 'p', sizeof(path));
	memcpy(path, tmp.path, strlen(tmp.path));
	path[strlen(tmp.path)] = '/';
	path[fits + 1] = 0;
	assert_int_equal(gb_unix_listen(path, &fd, &err), GB_E_LIMIT);
	assert_non_null(strstr(err.msg, "XDG_RUNTIME_DIR"));
	assert_int_equal(gb_unix_connect(path, &fd, &err), GB_E_LIMIT);
	path[fits] = 0;
	assert_int_equal(gb_unix_listen(path, &fd, &err), 0);
	gb_fd_close(&fd);
	unlink(path);
}

struct pass_row {
	const char *name;
	size_t sent;
	size_t room;
	int code; /* of sending */
};

static const struct pass_row pass_rows[] = {
	{ "fd passing: none", 0, 8, 0 },
	{ "fd passing: one", 1, 8, 0 },
	{ "fd passing: the most", 8, 8, 0 },
	{ "fd passing: one over", 9, 8, GB_E_LIMIT },
	{ "fd passing: more than there is room for", 3, 2, 0 },
	{ "fd passing: no room at all", 2, 0, 0 },
};

static void fd_passing(void **state)
{
	const struct pass_row *row = *state;
	int pair[2];
	int ends[2];
	int out[9];
	int in[9] = { 0 };
	size_t count = row->room;
	uint8_t tag = 0;
	char c;

	assert_int_equal(gb_socketpair(pair, NULL), 0);
	assert_int_equal(gb_socketpair(ends, NULL), 0);
	for (size_t i = 0; i < 9; i++)
		out[i] = ends[1];
	assert_int_equal(gb_fd_send(pair[0], 7, out, row->sent, NULL), row->code);
	if (row->code == 0) {
		assert_int_equal(gb_fd_recv(pair[1], &tag, in, &count, NULL), 0);
		assert_int_equal(tag, 7);
		assert_int_equal(count, GB_MIN(row->sent, row->room));
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(fcntl(in[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
			close(in[i]);
		}
	}
	/* nothing that was passed is still open: our end sees the end of file */
	gb_fd_close(&ends[1]);
	assert_int_equal(read(ends[0], &c, 1), 0);
	gb_fd_close(&ends[0]);
	gb_fd_close(&pair[0]);
	count = row->room;
	assert_int_equal(gb_fd_recv(pair[1], &tag, in, &count, NULL), GB_E_CLOSED);
	assert_int_equal(count, 0);
	gb_fd_close(&pair[1]);
}

static void fd_passing_from_a_rude_peer(void **state)
{
	int pair[2];
	int in[8];
	size_t count = 8;
	uint8_t tag;
	char byte = 1;
	char space[CMSG_SPACE(20 * sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
		.msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	(void)state;
	assert_int_equal(gb_socketpair(pair, NULL), 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(20 * sizeof(int));
	for (size_t i = 0; i < 20; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &pair[0], sizeof(int));
	assert_int_equal(sendmsg(pair[0], &m, 0), 1);
	assert_int_equal(gb_fd_recv(pair[1], &tag, in, &count, NULL), GB_E_LIMIT);
	assert_int_equal(count, 0);
	gb_fd_close(&pair[0]);
	/* and none of them is held: else the other end would not be at its end */
	count = 8;
	assert_int_equal(gb_fd_recv(pair[1], &tag, in, &count, NULL), GB_E_CLOSED);
	gb_fd_close(&pair[1]);
}

int main(void)
{
	static struct rows_list l;

	rows_add_one(&l, "whole reads and writes", whole_reads_and_writes);
	rows_add_one(&l, "waiting has a deadline", waiting_has_a_deadline);
	rows_add_one(&l, "non-blocking on and off", nonblocking_on_and_off);
	rows_add(&l, read_rows, file_read);
	rows_add_one(&l, "file read: only files", file_read_takes_only_files);
	rows_add_one(&l, "atomic write: replaces", atomic_write_replaces);
	rows_add_one(&l, "atomic write: nothing left on failure",
		atomic_write_leaves_nothing_on_failure);
	rows_add_one(&l, "unix sockets", unix_sockets);
	rows_add_one(&l, "listen: other files are spared", listen_spares_other_files);
	rows_add_one(&l, "socket path length", socket_path_length);
	rows_add(&l, pass_rows, fd_passing);
	rows_add_one(&l, "fd passing: from a rude peer", fd_passing_from_a_rude_peer);
	return _cmocka_run_group_tests("fd", l.tests, l.n, make_tmp, remove_tmp);
}
