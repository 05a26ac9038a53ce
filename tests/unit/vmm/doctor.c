#include "vmm/doctor.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* where even root can make nothing */
#define NO_CACHE "/proc/no-such-cache"

#define LINES_MAX 32

struct seen {
	size_t n;
	char check[LINES_MAX][64];
	bool ok[LINES_MAX];
	char text[LINES_MAX][1024];
};

static void note(void *ctx, const char *check, bool ok, const char *text)
{
	struct seen *s = ctx;

	assert_true(s->n < LINES_MAX);
	snprintf(s->check[s->n], sizeof(s->check[0]), "%s", check);
	snprintf(s->text[s->n], sizeof(s->text[0]), "%s", text);
	s->ok[s->n++] = ok;
	print_message("%-16s %-3s %s\n", check, ok ? "ok" : "-", text);
}

static size_t find(const struct seen *s, const char *check)
{
	for (size_t i = 0; i < s->n; i++)
		if (gb_streq(s->check[i], check))
			return i;
	fail_msg("no line about '%s'", check);
	return 0;
}

static void test_every_check(void **state GB_UNUSED)
{
	static const char *const checks[] = {"accelerator", "qemu", "kernel",
		"boot bundle", "templates", "landlock", "seccomp", "user namespaces",
		"runtime folder"};
	struct seen s = {0};
	struct gb_err err;
	uint64_t start = gb_now_ns();

	assert_int_equal(gb_vmm_doctor(NO_CACHE, note, &s, &err), 0);
	assert_true(gb_now_ns() - start < 10 * GB_NS_SEC);
	assert_int_equal(s.n, GB_ARRAY_SIZE(checks));
	for (size_t i = 0; i < GB_ARRAY_SIZE(checks); i++) {
		assert_string_equal(s.check[i], checks[i]);
		assert_true(*s.text[i]);
		assert_null(strchr(s.text[i], '\n'));
	}
	assert_int_equal(gb_vmm_doctor(NULL, note, &s, &err), GB_E_INVALID);
}

/* What is missing is said, with what to do about it. */
static void test_missing(void **state GB_UNUSED)
{
	char *long_home = calloc(1, 200);
	struct seen s = {0};

	assert_non_null(long_home);
	memset(long_home, 'x', 199);
	long_home[0] = '/';
	setenv("GLOVEBOX_QEMU", "/nonexistent/qemu", 1);
	setenv("GLOVEBOX_KERNEL_DIR", "/nonexistent", 1);
	setenv("GLOVEBOX_HOME", long_home, 1);
	assert_int_equal(gb_vmm_doctor(NO_CACHE, note, &s, NULL), 0);
	unsetenv("GLOVEBOX_QEMU");
	unsetenv("GLOVEBOX_KERNEL_DIR");
	unsetenv("GLOVEBOX_HOME");
	assert_false(s.ok[find(&s, "qemu")]);
	assert_non_null(strstr(s.text[find(&s, "qemu")], "/nonexistent/qemu"));
	assert_false(s.ok[find(&s, "kernel")]);
	assert_non_null(strstr(s.text[find(&s, "kernel")], "GLOVEBOX_KERNEL_DIR"));
	assert_false(s.ok[find(&s, "runtime folder")]);
	assert_non_null(strstr(s.text[find(&s, "runtime folder")], "shorter"));
	free(long_home);
}

static void with_program(const char *folder, const char *script, struct seen *s)
{
	char *path = gb_path_join(folder, "qemu");

	assert_int_equal(
		gb_file_write_atomic(AT_FDCWD, path, script, strlen(script), 0700, NULL),
		0);
	setenv("GLOVEBOX_QEMU", path, 1);
	assert_int_equal(gb_vmm_doctor(NO_CACHE, note, s, NULL), 0);
	unsetenv("GLOVEBOX_QEMU");
	free(path);
}

static void test_qemu_version(void **state GB_UNUSED)
{
	const char *base = getenv("TMPDIR");
	char *folder = gb_path_join(base && *base ? base : "/tmp", "gb-doctor-XXXXXX");
	struct seen talks = {0};
	struct seen silent = {0};

	assert_non_null(mkdtemp(folder));
	with_program(folder, "#!/bin/sh\necho \"version 9 ($1)\"\necho more\n", &talks);
	with_program(folder, "#!/bin/sh\nexit 0\n", &silent);
	assert_int_equal(gb_rm_tree(AT_FDCWD, folder, NULL), 0);
	free(folder);
	assert_true(talks.ok[1]);
	assert_non_null(strstr(talks.text[1], "qemu: version 9 (--version)"));
	assert_false(silent.ok[1]);
	assert_non_null(strstr(silent.text[1], "says nothing"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_check),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_qemu_version),
	};

	return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
