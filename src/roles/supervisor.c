/* glovebox-supervisor NAME [--bound]: started by a client, with its connection as descriptor
 * 3 and the machine's supervisor.log as standard error. */
#include "base/log.h"
#include "base/str.h"
#include "machine/supervisor/supervisor.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_CLIENT_FD = 3 };

int main(int argc, char **argv)
{
	static int log_fd = STDERR_FILENO;
	bool bound = argc == 3 && gb_streq(argv[2], "--bound");
	pid_t pid;

	if (argc < 2 || argc > 3 || (argc == 3 && !bound) || !gb_name_valid(argv[1])) {
		fprintf(stderr, "usage: glovebox-supervisor MACHINE [--bound]\n"
				"It is started by glovebox, not by hand.\n");
		return 2;
	}
	/* the client waits for this process only; the machine's is nobody's child */
	pid = fork();
	if (pid < 0)
		return 1;
	if (pid > 0)
		return 0;
	umask(077);
	gb_log_set_sink(gb_log_to_fd, &log_fd, GB_LOG_INFO);
	return gb_supervisor_run(argv[1], bound, FIRST_CLIENT_FD) < 0 ? 1 : 0;
}
