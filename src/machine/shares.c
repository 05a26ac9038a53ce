#include "machine/boot_impl.h"
#include "base/fd.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { FD_LOG = 2, FD_PORT = 3, FD_CONTROL = 4, FD_FIRST_SHARE = 5 };

void gb_share_plan_make(const struct gb_machine_spec *spec, struct gb_share_plan *ret)
{
	ret->count = 0;
	if (*spec->directory)
		ret->list[ret->count++] = (struct gb_machine_share){ .host = spec->directory,
			.guest = (char *)(uintptr_t)GB_WORK_PATH };
	for (size_t i = 0; i < spec->share_count; i++) {
		size_t at = ret->count++;

		while (at && strlen(ret->list[at - 1].guest) > strlen(spec->shares[i].guest)) {
			ret->list[at] = ret->list[at - 1];
			at--;
		}
		ret->list[at] = spec->shares[i];
	}
}

static int open_shared(const struct gb_machine_share *s, int *ret, struct gb_err *err)
{
	int fd = open(s->host, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return gb_fail(err, GB_E_NOTFOUND,
			"folder '%s' for %s is gone: make it again, or remove the machine", s->host,
			s->guest);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open folder '%s' for %s", s->host,
			s->guest);
	*ret = fd;
	return 0;
}

int gb_share_plan_check(const struct gb_share_plan *plan, struct gb_err *err)
{
	for (size_t i = 0; i < plan->count; i++) {
		int fd = -1;
		int r = open_shared(&plan->list[i], &fd, err);

		if (r < 0)
			return r;
		close(fd);
	}
	return 0;
}

struct share_fds {
	int fd[GB_MACHINE_SHARES_MAX + 1];
	size_t count;
};

static void share_fds_done(struct share_fds *s)
{
	for (size_t i = 0; i < s->count; i++)
		close(s->fd[i]);
}

static int spawn_server(const struct gb_share_plan *plan, const struct share_fds *folders,
	int port, int control, pid_t *ret_pid, struct gb_err *err)
{
	gb_auto_free char *role = NULL;
	gb_auto_done(gb_strv) argv = { 0 };
	struct gb_fd_map fds[GB_MACHINE_SHARES_MAX + 4] = {
		{ STDERR_FILENO, FD_LOG },
		{ port, FD_PORT },
		{ control, FD_CONTROL },
	};
	struct gb_spawn s = { .fds = fds, .fd_count = 3, .die_with_parent = true };
	int r = gb_role_path("share", &role, err);

	if (r < 0)
		return r;
	gb_strv_add(&argv, role);
	gb_strv_addf(&argv, "--port-fd=%d", FD_PORT);
	gb_strv_addf(&argv, "--control-fd=%d", FD_CONTROL);
	for (size_t i = 0; i < plan->count; i++) {
		int to = FD_FIRST_SHARE + (int)i;

		gb_strv_addf(&argv, "--share=%zu:%s:%d", i,
			plan->list[i].rdonly ? "ro" : "rw", to);
		fds[s.fd_count++] = (struct gb_fd_map){ folders->fd[i], to };
	}
	r = gb_strv_check(&argv, "arguments", err);
	if (r < 0)
		return r;
	s.argv = argv.v;
	return gb_spawn(&s, ret_pid, err);
}

int gb_share_server_start(const struct gb_share_plan *plan, int port, pid_t *ret_pid,
	int *ret_ctl, struct gb_err *err)
{
	__attribute__((cleanup(share_fds_done))) struct share_fds folders = { .count = 0 };
	gb_auto_fd ours = -1;
	gb_auto_fd theirs = -1;
	int pair[2];
	int r;

	for (; folders.count < plan->count; folders.count++) {
		r = open_shared(
			&plan->list[folders.count], &folders.fd[folders.count], err);
		if (r < 0)
			return r;
	}
	r = gb_socketpair(pair, err);
	if (r < 0)
		return r;
	ours = pair[0];
	theirs = pair[1];
	r = spawn_server(plan, &folders, port, theirs, ret_pid, err);
	if (r < 0)
		return r;
	*ret_ctl = gb_take_fd(&ours);
	return 0;
}
