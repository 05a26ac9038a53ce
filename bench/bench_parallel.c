/* 63 commands at once, each sending a counted output: nothing may be lost. Also the resident
 * memory of supervisor and share server afterwards. */
#include "bench.h"
#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define COMMANDS 63
#define OUTPUT   "100000"

static int one(const struct gb_bench_args *a)
{
	char *command[] = { (char *)(uintptr_t) "head", (char *)(uintptr_t) "-c",
		(char *)(uintptr_t)OUTPUT, (char *)(uintptr_t) "/dev/zero", NULL };
	struct gb_client *c = gb_bench_connect(a);
	char template[] = "/tmp/gb-bench-XXXXXX";
	int fd = mkstemp(template);
	off_t got;

	unlink(template);
	gb_bench_exec(c, command, 4, -1, fd, NULL);
	got = lseek(fd, 0, SEEK_END);
	gb_client_free(c);
	return got == 100000 ? 0 : 1;
}

static double resident_mib(uint32_t pid)
{
	char path[64];
	struct gb_buf text = { 0 };
	unsigned long kib = 0;
	char *at;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	if (gb_file_read(AT_FDCWD, path, 65536, &text, NULL) == 0) {
		at = strstr((char *)text.data, "VmRSS:");
		if (at)
			sscanf(at, "VmRSS: %lu", &kib);
	}
	gb_buf_done(&text);
	return (double)kib / 1024;
}

int main(int argc, char **argv)
{
	struct gb_bench_args a;
	struct gb_samples took = { 0 };
	struct gb_msg_status status = { 0 };
	struct gb_err err = { 0 };
	struct gb_client *c;
	unsigned lost = 0;

	gb_bench_init(&a, argc, argv, 5);
	for (unsigned i = 0; i < a.rounds; i++) {
		uint64_t begin = gb_now_ns();
		int how;

		for (int k = 0; k < COMMANDS; k++)
			if (fork() == 0)
				_exit(one(&a));
		for (int k = 0; k < COMMANDS; k++) {
			wait(&how);
			lost += how != 0;
		}
		gb_samples_add(&took, (double)(gb_now_ns() - begin) / 1e6);
	}
	gb_samples_print(&took, "63 commands at once", "ms");
	gb_bench_print("63 commands at once: lost or cut", "count", lost);
	c = gb_bench_connect(&a);
	if (gb_client_status(c, &status, &err) < 0)
		gb_bench_fail("status", &err);
	gb_bench_print("resident: supervisor", "MiB", resident_mib(status.supervisor_pid));
	gb_bench_print("resident: share server", "MiB",
		status.share_pid ? resident_mib(status.share_pid) : 0);
	gb_bench_print("resident: VMM", "MiB", resident_mib(status.vmm_pid));
	gb_msg_status_done(&status);
	gb_client_free(c);
	return lost != 0;
}
