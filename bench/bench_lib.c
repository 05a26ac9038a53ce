/* What the library costs: a request that does nothing, exec_command of "true" over the guest's
 * own spawn of that very command, and many in flight at once, of which none may be lost. */
#include "bench.h"
#include "base/clock.h"
#include "glovebox.h"

#include <stdio.h>
#include <string.h>

#define MS        1e6
#define IN_FLIGHT 63
#define EMPTY     100000
#define SPAWNS    2000

static _Noreturn void stop(const char *what, const struct glovebox_error *err)
{
	fprintf(stderr, "bench: %s: %s\n", what, err->message);
	exit(1);
}

static struct glovebox_request *begin_ping(struct glovebox_tools *t)
{
	struct glovebox_request *q;
	struct glovebox_error err;

	if (glovebox_ping_start(t, 0, &q, &err) < 0)
		stop("ping", &err);
	return q;
}

static struct glovebox_request *begin_spawn(struct glovebox_tools *t)
{
	const char *const argv[] = { "/bin/true", NULL };
	struct glovebox_exec_options o = { .size = sizeof(o), .argv = argv };
	struct glovebox_request *q;
	struct glovebox_error err;

	if (glovebox_exec_start(t, &o, &q, &err) < 0)
		stop("exec", &err);
	return q;
}

/* total requests, IN_FLIGHT at a time, each waited for in the order of their start. */
static void many(struct glovebox_tools *t, struct glovebox_request *(*begin)(struct glovebox_tools *),
	unsigned total, const char *name)
{
	struct glovebox_request *q[IN_FLIGHT] = { NULL };
	uint64_t from = gb_now_ns();
	struct glovebox_error err;
	unsigned lost = 0;
	char line[96];

	for (unsigned i = 0; i < total + IN_FLIGHT; i++) {
		unsigned slot = i % IN_FLIGHT;

		if (q[slot]) {
			lost += glovebox_request_wait(q[slot], -1, NULL, &err) != 1;
			glovebox_request_free(q[slot]);
		}
		q[slot] = i < total ? begin(t) : NULL;
	}
	snprintf(line, sizeof(line), "library: %u %s, %d in flight", total, name, IN_FLIGHT);
	gb_bench_print(line, "s", (double)(gb_now_ns() - from) / 1e9);
	snprintf(line, sizeof(line), "library: %s that were lost", name);
	gb_bench_print(line, "count", lost);
}

static double resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long all = 0, resident = 0;

	if (f && fscanf(f, "%lu %lu", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return (double)resident * 4;
}

int main(int argc, char **argv)
{
	struct gb_samples ping = { 0 }, over = { 0 };
	struct glovebox_workspace *ws;
	struct glovebox_tools *t;
	struct glovebox_error err;
	struct gb_bench_args a;
	double before = resident_kib();

	gb_bench_init(&a, argc, argv, 200);
	if (glovebox_workspace_open(a.machine, NULL, &ws, &err) < 0)
		stop("open", &err);
	gb_bench_print("library: resident memory of an idle workspace", "KiB", resident_kib() - before);
	t = glovebox_workspace_own_tools(ws);
	for (unsigned i = 0; i < a.rounds; i++) {
		struct glovebox_tool_result *result;
		uint64_t from = gb_now_ns();

		if (glovebox_ping(t, 0, &err) < 0)
			stop("ping", &err);
		gb_samples_add(&ping, (double)(gb_now_ns() - from) / MS);
		from = gb_now_ns();
		if (glovebox_tool_call(t, "exec_command", "{\"cmd\":\"true\",\"login\":false}", NULL,
			    &result, &err) < 0)
			stop("exec_command", &err);
		gb_samples_add(&over, ((double)(gb_now_ns() - from) - (double)result->spawn_ns) / MS);
		glovebox_tool_result_free(result);
	}
	gb_samples_print(&ping, "library: empty request", "ms");
	gb_samples_print(&over, "library: exec_command true over its own spawn", "ms");
	many(t, begin_ping, EMPTY, "empty requests");
	many(t, begin_spawn, SPAWNS, "spawns");
	glovebox_workspace_free(ws);
	return 0;
}
