/* Streams both ways through a command, against what the raw port gives in the same run (the
 * agent sends from memory, or throws away what arrives; same frames, no process). */
#include "bench.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define BYTES (UINT64_C(64) << 20)
#define RATE(bytes, ns) ((double)(bytes) / ((double)(ns) / 1e9) / 1e6)

static double raw(struct gb_client *c, enum gb_bench_kind kind)
{
	struct gb_err err = { 0 };
	uint64_t amount;
	uint64_t ns;
	uint64_t begin = gb_now_ns();

	if (gb_client_bench(c, kind, BYTES, &amount, &ns, &err) < 0)
		gb_bench_fail("raw port", &err);
	return RATE(BYTES, gb_now_ns() - begin);
}

int main(int argc, char **argv)
{
	struct gb_bench_args a;
	struct gb_samples out = { 0 }, raw_out = { 0 }, in = { 0 }, raw_in = { 0 };
	struct gb_samples out_ratio = { 0 }, in_ratio = { 0 };
	char size[32];
	char *from[] = { (char *)(uintptr_t) "head", (char *)(uintptr_t) "-c", size,
		(char *)(uintptr_t) "/dev/zero", NULL };
	char *to[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
		(char *)(uintptr_t) "exec cat >/dev/null", NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct gb_client *c;

	gb_bench_init(&a, argc, argv, 5);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)BYTES);
	c = gb_bench_connect(&a);
	for (unsigned i = 0; i < a.rounds; i++) {
		char template[] = "/tmp/gb-bench-XXXXXX";
		int file = mkstemp(template);

		unlink(template);
		if (file < 0 || ftruncate(file, (off_t)BYTES) < 0)
			gb_bench_fail("temporary file", NULL);
		gb_samples_add(&raw_out, raw(c, GB_BENCH_SEND));
		gb_samples_add(&out, RATE(BYTES, gb_bench_exec(c, from, 4, -1, null, NULL)));
		gb_samples_add(&out_ratio, out.v[i] / raw_out.v[i]);
		gb_samples_add(&raw_in, raw(c, GB_BENCH_RECV));
		gb_samples_add(&in, RATE(BYTES, gb_bench_exec(c, to, 3, file, null, NULL)));
		gb_samples_add(&in_ratio, in.v[i] / raw_in.v[i]);
		close(file);
	}
	gb_samples_print(&raw_out, "stream: raw port, guest to host", "MB/s");
	gb_samples_print(&out, "stream: a command's output", "MB/s");
	gb_samples_print(&out_ratio, "stream: output against the raw port", "ratio");
	gb_samples_print(&raw_in, "stream: raw port, host to guest", "MB/s");
	gb_samples_print(&in, "stream: a command's input", "MB/s");
	gb_samples_print(&in_ratio, "stream: input against the raw port", "ratio");
	gb_client_free(c);
	return 0;
}
