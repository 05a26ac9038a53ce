/* `run --rm … true` from process begin to exit, and where the time of a start goes (the
 * supervisor's own steps of the last one that is still up: MACHINE). */
#include "bench.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	struct gb_bench_args a;
	struct gb_samples run = { 0 };
	struct gb_msg_status status = { 0 };
	struct gb_err err = { 0 };
	struct gb_client *c;

	gb_bench_init(&a, argc, argv, 30);
	for (unsigned i = 0; i < a.rounds + 1; i++) {
		char *line[] = { (char *)(uintptr_t)a.glovebox, (char *)(uintptr_t) "run",
			(char *)(uintptr_t) "--rm", (char *)(uintptr_t) "--",
			(char *)(uintptr_t) "/bin/true", NULL };
		double took = (double)gb_bench_run(line) / 1e6;

		if (i)
			gb_samples_add(&run, took);
	}
	gb_samples_print(&run, "run --rm true: process begin to exit", "ms");
	c = gb_bench_connect(&a);
	if (gb_client_status(c, &status, &err) < 0)
		gb_bench_fail("status", &err);
	for (size_t i = 0; i < status.timings.n; i++) {
		char name[64];
		unsigned long long ns;

		if (sscanf(status.timings.v[i], "%63[^=]=%llu", name, &ns) == 2) {
			char title[96];

			snprintf(title, sizeof(title), "start step: %s", name);
			gb_bench_print(title, "ms", (double)ns / 1e6);
		}
	}
	gb_msg_status_done(&status);
	gb_client_free(c);
	return 0;
}
