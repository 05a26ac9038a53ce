#include "bench.h"
#include "base/clock.h"
#include "base/proc.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define RUN_DEADLINE_MS UINT64_C(120000)

void gb_samples_add(struct gb_samples *s, double value)
{
	if (!gb_grow(&s->v, &s->cap, s->n + 1, sizeof(*s->v)))
		abort();
	s->v[s->n++] = value;
}

void gb_samples_done(struct gb_samples *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

double gb_samples_quantile(struct gb_samples *s, double q)
{
	if (!s->n)
		return 0;
	qsort(s->v, s->n, sizeof(*s->v), compare);
	return s->v[(size_t)(q * (double)(s->n - 1) + 0.5)];
}

void gb_samples_print(struct gb_samples *s, const char *name, const char *unit)
{
	printf("{\"name\": \"%s\", \"unit\": \"%s\", \"n\": %zu, \"min\": %.3f, \"p50\": %.3f, "
	       "\"p99\": %.3f, \"max\": %.3f}\n",
		name, unit, s->n, gb_samples_quantile(s, 0), gb_samples_quantile(s, 0.5),
		gb_samples_quantile(s, 0.99), gb_samples_quantile(s, 1));
	fflush(stdout);
}

void gb_bench_print(const char *name, const char *unit, double value)
{
	printf("{\"name\": \"%s\", \"unit\": \"%s\", \"n\": 1, \"p50\": %.3f}\n", name, unit,
		value);
	fflush(stdout);
}

void gb_bench_fail(const char *what, const struct gb_err *err)
{
	fprintf(stderr, "bench: %s: %s\n", what, err ? err->msg : "failed");
	exit(1);
}

void gb_bench_init(struct gb_bench_args *a, int argc, char **argv, unsigned rounds)
{
	struct gb_err err = { 0 };
	uint64_t n = rounds;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: %s MACHINE GLOVEBOX [ROUNDS]\n", argv[0]);
		exit(2);
	}
	a->machine = argv[1];
	a->glovebox = argv[2];
	if (argc == 4 && gb_parse_u64(argv[3], 100000, &n, &err) < 0)
		gb_bench_fail("rounds", &err);
	a->rounds = (unsigned)n;
	if (gb_dirs_init(&a->dirs, &err) < 0)
		gb_bench_fail("folders", &err);
	signal(SIGPIPE, SIG_IGN);
}

struct gb_client *gb_bench_connect(const struct gb_bench_args *a)
{
	struct gb_client *c = NULL;
	struct gb_err err = { 0 };

	if (gb_client_connect(&a->dirs, a->machine, &c, &err) < 0)
		gb_bench_fail("connect", &err);
	return c;
}

uint64_t gb_bench_run(char *const *argv)
{
	struct gb_fd_map stderr_only = { 2, 2 };
	struct gb_spawn s = { .argv = argv, .fds = &stderr_only, .fd_count = 1 };
	uint64_t begin = gb_now_ns();
	struct gb_err err = { 0 };
	pid_t pid;
	int status;

	if (gb_spawn(&s, &pid, &err) < 0 ||
		gb_wait_child(pid, gb_deadline_ms(RUN_DEADLINE_MS), &status, &err) < 0)
		gb_bench_fail(argv[0], &err);
	if (status)
		gb_bench_fail(argv[0], NULL);
	return gb_now_ns() - begin;
}

uint64_t gb_bench_exec(struct gb_client *c, char **argv, size_t argc, int in, int out,
	uint64_t *ret_spawn_ns)
{
	struct gb_msg_exec m = { .argv = { argv, argc }, .flags = in >= 0 ? GB_EXEC_STDIN : 0 };
	struct gb_exec_io io = { .in = in, .out = out, .err = STDERR_FILENO, .winch_fd = -1,
		.signal_fd = -1 };
	struct gb_msg_exit end = { 0 };
	struct gb_err err = { 0 };
	uint64_t begin = gb_now_ns();

	if (gb_client_exec(c, &m, &io, &end, &err) < 0)
		gb_bench_fail("exec", &err);
	begin = gb_now_ns() - begin;
	if (end.code)
		gb_bench_fail("exec", NULL);
	if (ret_spawn_ns)
		*ret_spawn_ns = end.spawn_ns;
	gb_msg_exit_done(&end);
	return begin;
}
