/* What a command costs on top of the guest's own spawn: both in one run, spawn by the agent's
 * clock for the very same command. And what the protocol alone costs: a request to the agent
 * that does nothing. */
#include "bench.h"
#include "base/clock.h"

#include <fcntl.h>

#define MS 1e6

static uint64_t empty_request(struct gb_client *c)
{
	struct gb_err err = { 0 };
	uint64_t begin = gb_now_ns();
	uint64_t amount, ns;

	if (gb_client_bench(c, GB_BENCH_SEND, 0, &amount, &ns, &err) < 0)
		gb_bench_fail("empty request", &err);
	return gb_now_ns() - begin;
}

int main(int argc, char **argv)
{
	struct gb_bench_args a;
	struct gb_samples spawn = { 0 }, inside = { 0 }, over = { 0 }, process = { 0 },
			  process_over = { 0 }, empty = { 0 };
	char *command[] = { (char *)(uintptr_t) "/bin/true", NULL };
	struct gb_client *c;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	gb_bench_init(&a, argc, argv, 200);
	c = gb_bench_connect(&a);
	gb_bench_exec(c, command, 1, -1, null, NULL);
	for (unsigned i = 0; i < a.rounds; i++) {
		char *line[] = { (char *)(uintptr_t)a.glovebox, (char *)(uintptr_t) "exec",
			(char *)(uintptr_t)a.machine, (char *)(uintptr_t) "/bin/true", NULL };
		uint64_t spawn_ns;
		double took = (double)gb_bench_exec(c, command, 1, -1, null, &spawn_ns);

		gb_samples_add(&spawn, (double)spawn_ns / MS);
		gb_samples_add(&inside, took / MS);
		gb_samples_add(&over, (took - (double)spawn_ns) / MS);
		gb_samples_add(&process, (double)gb_bench_run(line) / MS);
	}
	for (unsigned i = 0; i < a.rounds; i++)
		gb_samples_add(&empty, (double)empty_request(c) / MS);
	for (unsigned i = 0; i < a.rounds; i++)
		gb_samples_add(&process_over,
			process.v[i] - gb_samples_quantile(&spawn, 0.5));
	gb_samples_print(&spawn, "exec true: the guest's own spawn", "ms");
	gb_samples_print(&inside, "exec true: in-process round trip", "ms");
	gb_samples_print(&over, "exec true: in-process over the same command's spawn", "ms");
	gb_samples_print(&process, "exec true: process begin to exit", "ms");
	gb_samples_print(&process_over, "exec true: process over the median spawn", "ms");
	gb_samples_print(&empty, "empty request: in-process round trip", "ms");
	gb_client_free(c);
	return 0;
}
