#include "vmm/accel.h"
#include "vmm/accel_probe.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#if defined(__x86_64__)
#include <linux/kvm.h>

/* exists, is a device, and is never opened by the fakes */
#define DEVICE "/dev/null"
/* so long that a busy host does not decide */
#define PATIENT_MS 20000

enum behaviour { WORKS, EXITS, WRONG_BYTE, SPINS, SLEEPS, DIES };

/* What the KVM of a row does. The probe runs it in a child, which has a copy. */
static struct fake {
	int open_errno;
	unsigned long failing; /* this request fails with EBUSY */
	int api;
	enum behaviour run;
	int run_until; /* so many stages pass before */
	uint32_t exit_reason;
} fake;

static uint8_t run_area[8192] __attribute__((aligned(4096)));

static int fake_open(const char *path GB_UNUSED)
{
	errno = fake.open_errno;
	return fake.open_errno ? -1 : 100;
}

static void *fake_map(size_t len, int fd)
{
	return fd < 0 ? calloc(1, len) : run_area;
}

static void port_byte(uint8_t value)
{
	struct kvm_run *run = (struct kvm_run *)run_area;

	run->exit_reason = KVM_EXIT_IO;
	run->io.port = 0x10;
	run->io.data_offset = 4096;
	run_area[4096] = value;
}

static int fake_run(void)
{
	static uint8_t stage;
	struct kvm_run *run = (struct kvm_run *)run_area;

	if (fake.run == WORKS || stage < fake.run_until) {
		port_byte(++stage);
		return 0;
	}
	switch (fake.run) {
	case EXITS:
		run->exit_reason = fake.exit_reason;
		return 0;
	case WRONG_BYTE:
		port_byte(0xff);
		return 0;
	case SPINS:
		for (;;)
			__asm__ volatile("");
	case SLEEPS:
		for (;;)
			pause();
	default:
		raise(SIGKILL);
		return -1;
	}
}

static int fake_ioctl(
	int fd GB_UNUSED, unsigned long request, unsigned long arg GB_UNUSED)
{
	if (request == fake.failing) {
		errno = EBUSY;
		return -1;
	}
	switch (request) {
	case KVM_GET_API_VERSION:
		return fake.api ? fake.api : KVM_API_VERSION;
	case KVM_GET_VCPU_MMAP_SIZE:
		return sizeof(run_area);
	case KVM_RUN:
		return fake_run();
	default:
		return 3;
	}
}

static const struct gb_kvm_ops fake_ops = {fake_open, fake_ioctl, fake_map};

struct probe_row {
	const char *name;
	struct fake kvm;
	bool usable;
	bool certain;
	const char *why;
};

static const struct probe_row probe_rows[] = {
	{"probe: works", {.run = WORKS}, true, true, "runs a bare guest"},
	{"probe: no device", {.open_errno = ENOENT}, false, false, "does not exist"},
	{"probe: not permitted", {.open_errno = EACCES}, false, false, "join the group"},
	{"probe: no driver", {.open_errno = ENODEV}, false, false, "open failed"},
	{"probe: another version", {.api = 11}, false, false, "KVM_GET_API_VERSION"},
	{"probe: creates no machine", {.failing = KVM_CREATE_VM}, false, false,
		"KVM_CREATE_VM failed"},
	{"probe: creates no processor", {.failing = KVM_CREATE_VCPU}, false, false,
		"KVM_CREATE_VCPU failed"},
	{"probe: refuses registers", {.failing = KVM_SET_SREGS}, false, false,
		"KVM_SET_SREGS failed"},
	{"probe: KVM_RUN fails", {.failing = KVM_RUN}, false, true, "KVM_RUN failed"},
	{"probe: internal error at once",
		{.run = EXITS, .exit_reason = KVM_EXIT_INTERNAL_ERROR}, false, true,
		"internal error at cmpxchg16b (17)"},
	{"probe: internal error later",
		{.run = EXITS, .run_until = 2, .exit_reason = KVM_EXIT_INTERNAL_ERROR},
		false, true, "internal error at xsave/xrstor (17)"},
	{"probe: triple fault",
		{.run = EXITS, .run_until = 1, .exit_reason = KVM_EXIT_SHUTDOWN}, false,
		true, "triple fault at int3"},
	{"probe: halts", {.run = EXITS, .exit_reason = KVM_EXIT_HLT}, false, true,
		"unexpected exit"},
	{"probe: wrong result", {.run = WRONG_BYTE, .run_until = 2}, false, true,
		"wrong result at xsave/xrstor"},
	{"probe: dies", {.run = DIES}, false, false, "died"},
};

static void test_probe(void **state)
{
	const struct probe_row *row = *state;
	struct gb_kvm_verdict v;

	fake = row->kvm;
	gb_kvm_probe(&fake_ops, DEVICE, PATIENT_MS, &v);
	if (!strstr(v.why, row->why))
		fail_msg("'%s' does not say '%s'", v.why, row->why);
	assert_int_equal(v.usable, row->usable);
	assert_int_equal(v.certain, row->certain);
}

/* Ends long before the minute that a hang would cost, whatever the guest does. */
static void test_hang(void **state GB_UNUSED)
{
	static const enum behaviour how[] = {SPINS, SLEEPS};

	for (size_t i = 0; i < GB_ARRAY_SIZE(how); i++) {
		struct gb_kvm_verdict v;
		uint64_t start = gb_now_ns();

		fake = (struct fake){.run = how[i], .run_until = 3};
		gb_kvm_probe(&fake_ops, DEVICE, GB_KVM_LIMIT_MS, &v);
		assert_true(gb_now_ns() - start < 2 * GB_NS_SEC);
		assert_true(gb_now_ns() - start >= GB_KVM_LIMIT_MS * GB_NS_MS);
		assert_false(v.usable);
		assert_non_null(strstr(v.why, "within 250 ms"));
		/* one that sleeps may be a host that is too busy just now */
		if (how[i] == SLEEPS)
			assert_false(v.certain);
	}
}

static char *temp_dir(void)
{
	const char *base = getenv("TMPDIR");
	char *path = gb_path_join(base && *base ? base : "/tmp", "gb-accel-XXXXXX");

	assert_non_null(path);
	assert_non_null(mkdtemp(path));
	return path;
}

static int resolve(enum gb_accel want, const char *cache, struct gb_accel_result *ret,
	struct gb_err *err)
{
	memset(ret, 0xaa, sizeof(*ret));
	return gb_accel_resolve_with(
		&fake_ops, DEVICE, PATIENT_MS, want, cache, ret, err);
}

static void test_resolve(void **state GB_UNUSED)
{
	struct gb_accel_result got;
	struct gb_err err;

	fake = (struct fake){.run = WORKS};
	assert_int_equal(resolve(GB_ACCEL_AUTO, NULL, &got, &err), 0);
	assert_int_equal(got.accel, GB_ACCEL_KVM);
	assert_int_equal(resolve(GB_ACCEL_KVM, NULL, &got, &err), 0);
	assert_int_equal(got.accel, GB_ACCEL_KVM);
	assert_int_equal(resolve(GB_ACCEL_TCG, NULL, &got, &err), 0);
	assert_int_equal(got.accel, GB_ACCEL_TCG);
	assert_false(got.cached);

	fake = (struct fake){.run = EXITS, .exit_reason = KVM_EXIT_INTERNAL_ERROR};
	assert_int_equal(resolve(GB_ACCEL_AUTO, NULL, &got, &err), 0);
	assert_int_equal(got.accel, GB_ACCEL_TCG);
	assert_non_null(strstr(got.why, "internal error"));
	assert_non_null(strstr(got.why, "using tcg"));
	assert_int_equal(resolve(GB_ACCEL_KVM, NULL, &got, &err), GB_E_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "kvm does not work here: "));
	assert_int_equal(resolve(GB_ACCEL_HVF, NULL, &got, &err), GB_E_UNSUPPORTED);
}

static void test_cache(void **state GB_UNUSED)
{
	char *home = temp_dir();
	char *cache = gb_path_join(home, "deep/cache"); /* made when needed */
	struct gb_accel_result got;

	fake = (struct fake){.run = EXITS, .exit_reason = KVM_EXIT_INTERNAL_ERROR};
	assert_int_equal(resolve(GB_ACCEL_AUTO, cache, &got, NULL), 0);
	assert_false(got.cached);
	/* a KVM that works now is not even asked */
	fake = (struct fake){.run = WORKS};
	assert_int_equal(resolve(GB_ACCEL_AUTO, cache, &got, NULL), 0);
	assert_true(got.cached);
	assert_int_equal(got.accel, GB_ACCEL_TCG);
	assert_non_null(strstr(got.why, "internal error"));
	/* who insists makes it look again, and what it finds is kept */
	assert_int_equal(resolve(GB_ACCEL_KVM, cache, &got, NULL), 0);
	assert_false(got.cached);
	fake = (struct fake){.run = EXITS, .exit_reason = KVM_EXIT_INTERNAL_ERROR};
	assert_int_equal(resolve(GB_ACCEL_KVM, cache, &got, NULL), 0);
	assert_true(got.cached);
	gb_accel_forget(cache);
	assert_int_equal(resolve(GB_ACCEL_AUTO, cache, &got, NULL), 0);
	assert_false(got.cached);
	assert_int_equal(got.accel, GB_ACCEL_TCG);
	fake = (struct fake){.run = WORKS};
	/* another device is another question */
	assert_int_equal(gb_accel_resolve_with(&fake_ops, "/dev/zero", PATIENT_MS,
				 GB_ACCEL_AUTO, cache, &got, NULL),
		0);
	assert_false(got.cached);
	assert_int_equal(got.accel, GB_ACCEL_KVM);
	assert_int_equal(gb_rm_tree(AT_FDCWD, home, NULL), 0);
	free(cache);
	free(home);
}

/* so that people are told once */
static void test_absence_is_remembered(void **state GB_UNUSED)
{
	char *home = temp_dir();
	struct gb_accel_result got;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(gb_accel_resolve_with(&fake_ops, "/dev/no-such-kvm",
					 PATIENT_MS, GB_ACCEL_AUTO, home, &got, NULL),
			0);
		assert_int_equal(got.cached, i > 0);
		assert_int_equal(got.accel, GB_ACCEL_TCG);
		assert_non_null(strstr(got.why, "does not exist"));
	}
	assert_int_equal(gb_rm_tree(AT_FDCWD, home, NULL), 0);
	free(home);
}

static void test_uncertain_not_cached(void **state GB_UNUSED)
{
	char *cache = temp_dir();
	struct gb_accel_result got;

	fake = (struct fake){.failing = KVM_CREATE_VM};
	assert_int_equal(resolve(GB_ACCEL_AUTO, cache, &got, NULL), 0);
	assert_int_equal(got.accel, GB_ACCEL_TCG);
	fake = (struct fake){.run = WORKS};
	assert_int_equal(resolve(GB_ACCEL_AUTO, cache, &got, NULL), 0);
	assert_false(got.cached);
	assert_int_equal(got.accel, GB_ACCEL_KVM);
	assert_int_equal(gb_rm_tree(AT_FDCWD, cache, NULL), 0);
	free(cache);
}

/* A file that is not exactly what was written is as if it were not there. */
static void test_damaged_cache(void **state GB_UNUSED)
{
	static const char *const ways[] = {
		"cut", "empty", "longer", "huge", "nul", "answer", "boot", "folder"};
	char *cache = temp_dir();
	char *path = gb_path_join(cache, "accel");

	for (size_t i = 0; i < GB_ARRAY_SIZE(ways); i++) {
		struct gb_buf text = {0};
		struct gb_accel_result got;
		char *no;

		gb_rm_tree(AT_FDCWD, path, NULL);
		fake = (struct fake){
			.run = EXITS, .exit_reason = KVM_EXIT_INTERNAL_ERROR};
		assert_int_equal(resolve(GB_ACCEL_AUTO, cache, &got, NULL), 0);
		assert_int_equal(gb_file_read(AT_FDCWD, path, 4096, &text, NULL), 0);
		no = strstr((char *)text.data, "\nno ");
		assert_non_null(no);
		text.max = 0;
		if (gb_streq(ways[i], "cut"))
			text.len--;
		else if (gb_streq(ways[i], "empty"))
			text.len = 0;
		else if (gb_streq(ways[i], "longer"))
			gb_buf_add_str(&text, "x");
		else if (gb_streq(ways[i], "huge"))
			memset(gb_buf_reserve(&text, 100000), 'x', 100000),
				text.len += 100000;
		else if (gb_streq(ways[i], "nul"))
			no[6] = 0;
		else if (gb_streq(ways[i], "answer"))
			no[1] = 'm';
		else if (gb_streq(ways[i], "boot"))
			text.data[strlen("glovebox-accel 1\n")] ^= 1;
		assert_int_equal(unlink(path), 0);
		if (gb_streq(ways[i], "folder"))
			assert_int_equal(mkdir(path, 0700), 0);
		else
			assert_int_equal(gb_file_write_atomic(AT_FDCWD, path, text.data,
						 text.len, 0600, NULL),
				0);
		fake = (struct fake){.run = WORKS};
		assert_int_equal(resolve(GB_ACCEL_AUTO, cache, &got, NULL), 0);
		if (got.cached || got.accel != GB_ACCEL_KVM)
			fail_msg("a damaged cache (%s) was believed", ways[i]);
		gb_buf_done(&text);
	}
	assert_int_equal(gb_rm_tree(AT_FDCWD, cache, NULL), 0);
	free(path);
	free(cache);
}

#endif

static void test_words(void **state GB_UNUSED)
{
	static const char *const words[] = {"auto", "kvm", "hvf", "tcg"};
	struct gb_err err;
	enum gb_accel a;

	for (size_t i = 0; i < GB_ARRAY_SIZE(words); i++) {
		assert_int_equal(gb_accel_parse(words[i], &a, &err), 0);
		assert_string_equal(gb_accel_name(a), words[i]);
	}
	assert_int_equal(gb_accel_parse("KVM", &a, &err), GB_E_INVALID);
	assert_non_null(strstr(err.msg, "auto, kvm, hvf, tcg"));
	assert_int_equal(gb_accel_parse("", &a, &err), GB_E_INVALID);
	assert_int_equal(gb_accel_parse(NULL, &a, &err), GB_E_INVALID);
}

/* Whatever this host is: an answer, quickly. */
static void test_this_host(void **state GB_UNUSED)
{
	struct gb_accel_result got;
	uint64_t start = gb_now_ns();

	assert_int_equal(gb_accel_resolve(GB_ACCEL_AUTO, NULL, &got, NULL), 0);
	assert_true(gb_now_ns() - start < GB_NS_SEC);
	print_message("this host: %s (%s), %llu us\n", gb_accel_name(got.accel), got.why,
		(unsigned long long)((gb_now_ns() - start) / 1000));
	assert_true(got.accel == GB_ACCEL_KVM || got.accel == GB_ACCEL_TCG);
	assert_true(*got.why);
}

int main(void)
{
	struct CMUnitTest tests[64] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_this_host),
	};
	size_t n = 2;

#if defined(__x86_64__)
	const struct CMUnitTest more[] = {
		cmocka_unit_test(test_hang),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_absence_is_remembered),
		cmocka_unit_test(test_uncertain_not_cached),
		cmocka_unit_test(test_damaged_cache),
	};

	for (size_t i = 0; i < GB_ARRAY_SIZE(more); i++)
		tests[n++] = more[i];
	for (size_t i = 0; i < GB_ARRAY_SIZE(probe_rows); i++)
		tests[n++] = (struct CMUnitTest){.name = probe_rows[i].name,
			.test_func = test_probe,
			.initial_state = (void *)&probe_rows[i]};
#endif
	return _cmocka_run_group_tests("accel", tests, n, NULL, NULL);
}
