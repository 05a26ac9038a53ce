/* The guest agent: /init of the initramfs, process 1 of the machine. */
#include "guest/agent.h"
#include "base/clock.h"
#include "base/log.h"
#include "patch/patch_main.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int console = 2;

static void init_agent(struct gb_agent *a)
{
	int *const fds[] = { &a->epoll, &a->sigchld.fd, &a->ctl.port.fd, &a->proc, &a->sys, &a->dev,
		&a->cgroups, &a->self, &a->root, &a->pts, &a->null, &a->world_mnt, &a->world_pid,
		&a->own_pid, &a->relay_sock };

	memset(a, 0, sizeof(*a));
	for (size_t i = 0; i < GB_ARRAY_SIZE(fds); i++)
		*fds[i] = -1;
	for (size_t i = 0; i < GB_JOB_MAX; i++) {
		struct gb_job *j = &a->jobs[i];

		j->started.fd = j->in.w.fd = j->out[0].w.fd = j->out[1].w.fd = j->fuse = -1;
	}
}

int main(int argc, char **argv)
{
	static struct gb_agent agent;
	struct gb_err err = { 0 };

	/* what BENCH starts: a program that does nothing */
	if (argc > 0 && strcmp(argv[0], "noop") == 0)
		return 0;
	if (argc > 0 && strstr(argv[0], "patch"))
		return gb_patch_main(argc, argv);
	if (getpid() != 1) {
		fprintf(stderr, "glovebox-agent: I am process 1 of a glovebox machine only\n");
		return 125;
	}
	init_agent(&agent);
	gb_log_set_sink(gb_log_to_fd, &console, GB_LOG_INFO);
	if (gb_boot(&agent, &err) < 0)
		gb_die(&agent, &err);
	gb_serve(&agent);
}
