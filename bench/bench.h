/* Samples and their JSON line: {"name": …, "unit": "ms", "n": …, "p50": …, "p99": …, …}. */
#ifndef GB_BENCH_H
#define GB_BENCH_H

#include "base/mem.h"
#include "machine/client.h"

struct gb_samples {
	double *v; /* owned */
	size_t n;
	size_t cap;
};
void gb_samples_add(struct gb_samples *s, double value);
void gb_samples_done(struct gb_samples *s);
/* q from 0 to 1; sorts. 0 when there is none. */
double gb_samples_quantile(struct gb_samples *s, double q);
/* One line of JSON on standard output. */
void gb_samples_print(struct gb_samples *s, const char *name, const char *unit);
/* A single figure. */
void gb_bench_print(const char *name, const char *unit, double value);
void gb_bench_fail(const char *what, const struct gb_err *err) __attribute__((noreturn));

/* argv[1] is the machine, argv[2] the glovebox command, argv[3] (optional) how often. */
struct gb_bench_args {
	const char *machine;
	const char *glovebox;
	unsigned rounds;
	struct gb_dirs dirs;
};
void gb_bench_init(struct gb_bench_args *a, int argc, char **argv, unsigned rounds);
struct gb_client *gb_bench_connect(const struct gb_bench_args *a);
/* Runs a command of the host without a shell, output to /dev/null: nanoseconds from before
 * fork to its end; fails loudly unless it exits with 0. */
uint64_t gb_bench_run(char *const *argv);
/* One command in the machine with its output thrown away; fails loudly likewise. */
uint64_t gb_bench_exec(struct gb_client *c, char **argv, size_t argc, int in, int out,
	uint64_t *ret_spawn_ns);

#endif
