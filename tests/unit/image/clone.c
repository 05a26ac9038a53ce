#include "../store/scratch.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/disk/clone.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char base[300];
static char dest[300];

static int setup(void **state)
{
	gb_auto_fd fd = -1;

	if (scratch_setup(state) < 0)
		return -1;
	snprintf(base, sizeof(base), "%s/base", scratch);
	snprintf(dest, sizeof(dest), "%s/disk.qcow2", scratch);
	fd = open(base, O_RDWR | O_CREAT | O_CLOEXEC, 0444);
	return fd >= 0 && ftruncate(fd, 64 << 20) == 0 &&
			       pwrite(fd, "hello", 5, 12345) == 5
		       ? 0
		       : -1;
}

static int no_dest(void **state)
{
	(void)state;
	unlink(dest);
	return 0;
}

/* Exit status of a shell command; output is thrown away. */
static int sh(const char *format, const char *arg)
{
	char line[1000];
	int status;
	pid_t pid;

	snprintf(line, sizeof(line), format, arg);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
								    : -1;
}

static bool have_qemu_img(void)
{
	if (sh("command -v qemu-img >/dev/null%s", "") == 0)
		return true;
	print_message("no qemu-img: not checked by it\n");
	return false;
}

static const uint64_t sizes[] = {64 << 20, (64 << 20) + 512, UINT64_C(20) << 30,
	UINT64_C(1) << 40, UINT64_C(16) << 40};

static void every_size_is_small_and_clean(void **state)
{
	struct gb_err err;
	struct stat st;
	uint64_t got;

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(sizes); i++) {
		unlink(dest);
		assert_int_equal(gb_disk_clone(base, dest, sizes[i], &err), 0);
		assert_int_equal(stat(dest, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_true(st.st_blocks * 512 <= 64 << 10);
		assert_int_equal(gb_disk_size(dest, &got, &err), 0);
		assert_true(got == sizes[i]);
		if (have_qemu_img()) {
			assert_int_equal(sh("qemu-img check -q '%s'", dest), 0);
			assert_int_equal(sh("qemu-img info '%s' | grep -q 'backing file "
					    "format: raw'",
						 dest),
				0);
		}
	}
}

static void it_reads_as_its_base_and_keeps_what_is_written(void **state)
{
	(void)state;
	if (!have_qemu_img() || sh("command -v qemu-io >/dev/null%s", "") != 0)
		skip();
	assert_int_equal(gb_disk_clone(base, dest, UINT64_C(20) << 30, NULL), 0);
	assert_int_equal(sh("qemu-io -c 'read -P 0x68 12345 1' -c 'write -P 7 19G 1M' "
			    "-c 'write -P 9 1M 64k' '%s' | grep -q 'wrote 65536/65536'",
				 dest),
		0);
	assert_int_equal(gb_disk_grow(dest, UINT64_C(2) << 40, NULL), 0);
	assert_int_equal(sh("qemu-img check -q '%s'", dest), 0);
	assert_int_equal(sh("qemu-io -c 'read -P 7 19G 1M' -c 'read -P 9 1M 64k' "
			    "-c 'write -P 3 1900G 64k' -c 'read -P 3 1900G 64k' '%s' | "
			    "{ ! grep -qi 'failed\\|error'; }",
				 dest),
		0);
	assert_int_equal(sh("qemu-img check -q '%s'", dest), 0);
}

static void refusals_leave_nothing(void **state)
{
	char missing[320];
	struct gb_err err;

	(void)state;
	snprintf(missing, sizeof(missing), "%s/none", scratch);
	assert_int_equal(gb_disk_clone(base, dest, 32 << 20, &err), GB_E_INVALID);
	assert_non_null(strstr(err.msg, "64 MiB"));
	assert_int_equal(gb_disk_clone(base, dest, (64 << 20) + 1, &err), GB_E_INVALID);
	assert_int_equal(
		gb_disk_clone(base, dest, (UINT64_C(16) << 40) + 512, &err), GB_E_LIMIT);
	assert_int_equal(gb_disk_clone("relative", dest, 64 << 20, &err), GB_E_INVALID);
	assert_int_equal(gb_disk_clone(missing, dest, 64 << 20, &err), GB_E_NOTFOUND);
	assert_int_equal(scratch_entries(), 1);
	assert_int_equal(gb_disk_clone(base, dest, 64 << 20, &err), 0);
	assert_int_equal(gb_disk_clone(base, dest, 64 << 20, &err), GB_E_EXISTS);
	assert_int_equal(scratch_entries(), 2);
}

/* A change that makes a disk another one than it was made as. */
struct change_row {
	const char *what;
	off_t at; /* a byte is flipped there; -1: none */
	off_t length; /* 0: as it is */
};
static const struct change_row changes[] = {
	{"the magic", 0, 0},
	{"the size", 31, 0},
	{"a feature", 79, 0},
	{"the image's name", 128 + 3, 0},
	{"the first entry of the L1 table", 3 * 65536, 0},
	{"the last entry of the L1 table", 7 * 65536 - 1, 0},
	{"longer by a cluster", -1, 8 * 65536},
	{"shorter by a byte", -1, 7 * 65536 - 1},
};

static void flip(const struct change_row *c)
{
	gb_auto_fd fd = open(dest, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	if (c->at >= 0 && pread(fd, &byte, 1, c->at) == 1) {
		byte ^= 1;
		assert_int_equal(pwrite(fd, &byte, 1, c->at), 1);
	}
	if (c->length)
		assert_int_equal(ftruncate(fd, c->length), 0);
}

static void only_what_was_never_written_is_pristine(void **state)
{
	(void)state;
	assert_false(gb_disk_is_pristine(base, dest, 128 << 20));
	assert_int_equal(gb_disk_clone(base, dest, 128 << 20, NULL), 0);
	assert_true(gb_disk_is_pristine(base, dest, 128 << 20));
	assert_false(gb_disk_is_pristine(base, dest, 256 << 20));
	assert_false(gb_disk_is_pristine("/other", dest, 128 << 20));
	assert_int_equal(gb_disk_grow(dest, 256 << 20, NULL), 0);
	assert_true(gb_disk_is_pristine(base, dest, 256 << 20));
	for (size_t i = 0; i < GB_ARRAY_SIZE(changes); i++) {
		unlink(dest);
		assert_int_equal(gb_disk_clone(base, dest, 128 << 20, NULL), 0);
		flip(&changes[i]);
		if (gb_disk_is_pristine(base, dest, 128 << 20))
			fail_msg("still pristine: %s", changes[i].what);
	}
	unlink(dest);
	if (!have_qemu_img() || sh("command -v qemu-io >/dev/null%s", "") != 0)
		return;
	/* zeros and discards count as well */
	assert_int_equal(gb_disk_clone(base, dest, 128 << 20, NULL), 0);
	assert_int_equal(sh("qemu-io -c 'write -z 0 64k' -c 'discard 0 64k' '%s' >/dev/null", dest), 0);
	assert_false(gb_disk_is_pristine(base, dest, 128 << 20));
}

static void a_pristine_disk_is_replaced_by_another_on_its_image(void **state)
{
	char other[320], longer[400];
	struct gb_err err;
	gb_auto_fd from = -1;

	(void)state;
	snprintf(other, sizeof(other), "%s/other.qcow2", scratch);
	/* the image's path differs, its content does not */
	snprintf(longer, sizeof(longer), "%s/../%s/base", scratch, gb_path_base(scratch));
	assert_int_equal(gb_disk_clone(longer, other, 128 << 20, NULL), 0);
	if (have_qemu_img() && sh("command -v qemu-io >/dev/null%s", "") == 0)
		assert_int_equal(sh("qemu-io -c 'write -P 9 1M 64k' '%s' >/dev/null", other), 0);
	from = open(other, O_RDONLY | O_CLOEXEC);
	assert_int_equal(gb_disk_clone(base, dest, 128 << 20, NULL), 0);
	assert_int_equal(gb_disk_replace(from, base, dest, 256 << 20, true, &err), GB_E_STATE);
	assert_int_equal(gb_disk_replace(from, base, dest, 128 << 20, true, &err), 0);
	unlink(other);
	if (have_qemu_img() && sh("command -v qemu-io >/dev/null%s", "") == 0) {
		assert_int_equal(sh("qemu-img check -q '%s'", dest), 0);
		assert_int_equal(sh("qemu-img info '%s' | grep -q 'backing file: [^ ]*/base'", dest), 0);
		assert_int_equal(sh("qemu-io -c 'read -P 9 1M 64k' -c 'read -P 0x68 12345 1' '%s' | "
				    "{ ! grep -qi 'failed\\|error'; }",
					 dest),
			0);
		/* it has been used now */
		assert_int_equal(
			gb_disk_replace(from, base, dest, 128 << 20, true, &err), GB_E_STATE);
	}
	unlink(dest);
	assert_int_equal(scratch_entries(), 1);
}

static void it_only_grows(void **state)
{
	struct gb_err err;
	uint64_t got;

	(void)state;
	assert_int_equal(gb_disk_clone(base, dest, 128 << 20, NULL), 0);
	assert_int_equal(gb_disk_grow(dest, 64 << 20, &err), GB_E_INVALID);
	assert_int_equal(gb_disk_grow(dest, 128 << 20, &err), 0);
	assert_int_equal(gb_disk_grow(dest, UINT64_C(16) << 40, &err), 0);
	assert_int_equal(
		gb_disk_grow(dest, (UINT64_C(16) << 40) + 512, &err), GB_E_LIMIT);
	assert_int_equal(gb_disk_size(dest, &got, NULL), 0);
	assert_true(got == UINT64_C(16) << 40);
	assert_int_equal(gb_disk_grow(base, 128 << 20, &err),
		geteuid() == 0 ? GB_E_PARSE : GB_E_DENIED);
}

static void a_lock_is_exclusive_and_names_its_holder(void **state)
{
	char self[32];
	struct gb_err err;
	int a = -1;
	int b = -1;

	(void)state;
	assert_int_equal(gb_disk_clone(base, dest, 128 << 20, NULL), 0);
	assert_int_equal(gb_disk_lock(dest, &a, &err), 0);
	assert_int_equal(gb_disk_lock(dest, &b, &err), GB_E_BUSY);
	snprintf(self, sizeof(self), "process %d", (int)getpid());
	assert_non_null(strstr(err.msg, self));
	assert_int_equal(gb_disk_grow(dest, 256 << 20, &err), GB_E_BUSY);
	close(a);
	assert_int_equal(gb_disk_lock(dest, &b, &err), 0);
	close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_size_is_small_and_clean, no_dest),
		cmocka_unit_test_setup(
			it_reads_as_its_base_and_keeps_what_is_written, no_dest),
		cmocka_unit_test_setup(refusals_leave_nothing, no_dest),
		cmocka_unit_test_setup(only_what_was_never_written_is_pristine, no_dest),
		cmocka_unit_test_setup(
			a_pristine_disk_is_replaced_by_another_on_its_image, no_dest),
		cmocka_unit_test_setup(it_only_grows, no_dest),
		cmocka_unit_test_setup(a_lock_is_exclusive_and_names_its_holder, no_dest),
	};

	return cmocka_run_group_tests_name("clone", tests, setup, scratch_teardown);
}
