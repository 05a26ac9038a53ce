#include "vmm/doctor.h"
#include "vmm/qemu/host.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define VERSION_WAIT_MS 3000
#define VERSION_MAX	200

/* Until end of file, a full buffer or the deadline; *ret gets its NUL. */
static int read_text(int fd, char ret[VERSION_MAX], uint64_t deadline, struct gb_err *err)
{
	size_t got = 0;
	ssize_t n = 1;
	int r = 0;

	while (r == 0 && n > 0 && got < VERSION_MAX - 1) {
		r = gb_fd_wait(fd, POLLIN, deadline, err);
		n = r < 0 ? 0 : read(fd, ret + got, VERSION_MAX - 1 - got);
		if (n > 0)
			got += (size_t)n;
	}
	ret[got] = 0;
	return r;
}

static int ask_version(const char *program, char ret[VERSION_MAX], struct gb_err *err)
{
	char flag[] = "--version";
	char *const argv[] = {(char *)program, flag, NULL};
	int fds[2];
	gb_auto_fd out = -1;
	struct gb_fd_map map = {.to = 1};
	struct gb_spawn s = {
		.argv = argv, .fds = &map, .fd_count = 1, .die_with_parent = true};
	pid_t pid;
	int r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	out = fds[0];
	map.from = fds[1];
	r = gb_spawn(&s, &pid, err);
	close(fds[1]);
	if (r < 0)
		return r;
	r = read_text(out, ret, gb_deadline_ms(VERSION_WAIT_MS), err);
	gb_kill_child(pid);
	if (r < 0)
		return gb_wrap(err, r, "'%s --version'", program);
	ret[strcspn(ret, "\n")] = 0;
	return *ret ? 0 : gb_fail(err, GB_E_IO, "'%s --version' says nothing", program);
}

int gb_driver_qemu_describe(char ret[GB_DRIVER_TEXT], struct gb_err *err)
{
	gb_auto_free char *path = NULL;
	char version[VERSION_MAX];
	int r = gb_qemu_binary(&path, err);

	if (r == 0)
		r = ask_version(path, version, err);
	if (r == 0)
		snprintf(ret, GB_DRIVER_TEXT, "%s: %s", path, version);
	return r;
}
