#include "vmm/qemu/console.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK	  4096
#define BURST_MAX 64 /* chunks in one pump */

static const char cut_note[] = "[older output was dropped]\n";

int gb_console_open(
	const char *path, struct gb_console *ret, int *ret_peer, struct gb_err *err)
{
	gb_auto_fd file = -1;
	int pair[2];
	struct stat st = {0};
	int r;

	if (path) {
		file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			0600);
		if (file < 0)
			return gb_fail_sys(err, errno, "cannot open '%s'", path);
		if (fstat(file, &st) < 0)
			return gb_fail_sys(err, errno, "cannot look at '%s'", path);
	}
	r = gb_socketpair(pair, err);
	if (r < 0)
		return r;
	r = gb_fd_nonblock(pair[0], true, err);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	ret->fd = pair[0];
	ret->file = gb_take_fd(&file);
	ret->size = (uint64_t)st.st_size;
	*ret_peer = pair[1];
	return 0;
}

/* The console is an aid: where it cannot be written, the machine runs on without it. */
static void keep(struct gb_console *c, const char *data, size_t len)
{
	if (c->file < 0)
		return;
	if (c->size + len > GB_CONSOLE_FILE_MAX) {
		if (ftruncate(c->file, 0) < 0)
			return;
		c->size = sizeof(cut_note) - 1;
		if (gb_fd_write_full(c->file, cut_note, sizeof(cut_note) - 1, NULL) < 0)
			return;
	}
	if (gb_fd_write_full(c->file, data, len, NULL) == 0)
		c->size += len;
}

bool gb_console_pump(struct gb_console *c)
{
	char data[CHUNK];

	for (int i = 0; i < BURST_MAX && c->fd >= 0; i++) {
		ssize_t n = recv(c->fd, data, sizeof(data), 0);

		if (n > 0)
			keep(c, data, (size_t)n);
		else if (n < 0 && errno == EINTR)
			continue;
		else
			return n < 0 && errno == EAGAIN;
	}
	return c->fd >= 0;
}

void gb_console_done(struct gb_console *c)
{
	gb_fd_close(&c->fd);
	gb_fd_close(&c->file);
}
