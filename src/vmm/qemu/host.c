#include "vmm/qemu/host.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#define QEMU_NAME "qemu-system-x86_64"

#define TSC_MEASURE_NS 100000000
#define TSC_TRIES      16
/* 20 parts in a million: a guest's clock then runs away by 72 ms an hour at most. */
#define TSC_TOLERANCE 50000u
#define TSC_CACHE_MAX 256
#define KHZ_MAX	      100000000u

static int find_in_path(const char *name, char **ret, struct gb_err *err)
{
	const char *path = getenv("PATH");

	for (path = path ? path : "/usr/bin:/bin"; *path;) {
		int len = (int)strcspn(path, ":");
		gb_auto_free char *file = NULL;

		if (asprintf(&file, "%.*s/%s", len, path, name) < 0) {
			file = NULL;
			return gb_nomem(err);
		}
		if (file[0] == '/' && access(file, X_OK) == 0) {
			*ret = gb_take_ptr(file);
			return 0;
		}
		path += len;
		path += *path == ':';
	}
	return gb_fail(err, GB_E_NOTFOUND,
		"'%s' is not installed (Debian: apt-get install qemu-system-x86)", name);
}

int gb_qemu_binary(char **ret, struct gb_err *err)
{
	const char *given = getenv("GLOVEBOX_QEMU");

	if (!given || !*given)
		return find_in_path(QEMU_NAME, ret, err);
	if (access(given, X_OK) < 0)
		return gb_fail(err, GB_E_NOTFOUND,
			"GLOVEBOX_QEMU is '%s', which cannot be run", given);
	*ret = strdup(given);
	return *ret ? 0 : gb_nomem(err);
}

#ifdef __x86_64__
struct stamp {
	uint64_t tsc;
	uint64_t ns;
};

/* A reading of both clocks at one moment: of some tries the one that was least disturbed.
 */
static struct stamp read_both(void)
{
	struct stamp best = {0};
	uint64_t best_span = UINT64_MAX;

	for (int i = 0; i < TSC_TRIES; i++) {
		struct timespec t;
		uint64_t before = __rdtsc();
		uint64_t after;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		after = __rdtsc();
		if (after < before || after - before >= best_span)
			continue;
		best_span = after - before;
		best.tsc = before + best_span / 2;
		best.ns = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
	}
	return best;
}

static unsigned measure(void)
{
	struct stamp from = read_both();
	struct timespec pause = {.tv_nsec = TSC_MEASURE_NS};
	struct stamp to;
	double khz;

	nanosleep(&pause, NULL);
	to = read_both();
	if (to.ns <= from.ns || to.tsc <= from.tsc)
		return 0;
	khz = (double)(to.tsc - from.tsc) * 1e6 / (double)(to.ns - from.ns);
	return khz < 1 || khz > KHZ_MAX ? 0 : (unsigned)(khz + 0.5);
}
#else
static unsigned measure(void)
{
	return 0;
}
#endif

/* "BOOT-ID KHZ\n" */
static unsigned parse_cache(const char *text, const char *boot_id)
{
	size_t id_len = strlen(boot_id);
	char digits[16];
	uint64_t khz;

	if (strncmp(text, boot_id, id_len) != 0 || text[id_len] != ' ')
		return 0;
	if (sscanf(text + id_len + 1, "%15[0-9]", digits) != 1)
		return 0;
	return gb_parse_u64(digits, KHZ_MAX, &khz, NULL) < 0 ? 0 : (unsigned)khz;
}

static void read_boot_id(char *id, size_t size)
{
	gb_auto_done(gb_buf) text = {0};

	id[0] = '\0';
	gb_buf_init(&text, TSC_CACHE_MAX);
	if (gb_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", TSC_CACHE_MAX,
		    &text, NULL) < 0)
		return;
	snprintf(id, size, "%.*s", (int)strcspn((char *)text.data, "\n"),
		(char *)text.data);
}

unsigned gb_host_tsc_khz(const char *cache_dir)
{
	gb_auto_free char *path = cache_dir ? gb_path_join(cache_dir, "tsc") : NULL;
	gb_auto_done(gb_buf) text = {0};
	char boot_id[64];
	char line[96];
	unsigned khz = 0;

	read_boot_id(boot_id, sizeof(boot_id));
	if (!path || !boot_id[0])
		return measure();
	gb_buf_init(&text, TSC_CACHE_MAX);
	if (gb_file_read(AT_FDCWD, path, TSC_CACHE_MAX, &text, NULL) == 0)
		khz = parse_cache((const char *)text.data, boot_id);
	if (khz)
		return khz;
	khz = measure();
	snprintf(line, sizeof(line), "%s %u\n", boot_id, khz);
	if (khz)
		gb_file_write_atomic(AT_FDCWD, path, line, strlen(line), 0600, NULL);
	return khz;
}

bool gb_host_tsc_close(unsigned a_khz, unsigned b_khz)
{
	unsigned apart = a_khz > b_khz ? a_khz - b_khz : b_khz - a_khz;

	return apart <= a_khz / TSC_TOLERANCE;
}
