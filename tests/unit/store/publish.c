#include "scratch.h"
#include "base/fd.h"
#include "store/publish.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int put_file(const char *folder, const char *name)
{
	gb_auto_free char *path = gb_path_join(folder, name);

	return path ? gb_file_write_atomic(AT_FDCWD, path, "x", 1, 0600, NULL) : -1;
}

static bool there(const char *name)
{
	gb_auto_free char *path = gb_path_join(scratch, name);

	return path && access(path, F_OK) == 0;
}

static void a_folder_appears_whole(void **state)
{
	struct gb_publish p = GB_PUBLISH_INIT;
	struct stat st;
	char path[300];

	(void)state;
	assert_int_equal(gb_publish_begin(scratch, &p, NULL), 0);
	assert_int_equal(put_file(p.path, "file"), 0);
	assert_false(there("final"));
	assert_int_equal(gb_publish_commit(&p, "final", 0555, NULL), 0);
	snprintf(path, sizeof(path), "%s/final", scratch);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	assert_true(there("final/file"));
	assert_int_equal(scratch_entries(), 1);
	gb_publish_done(&p);
	chmod(path, 0700);
	assert_int_equal(gb_rm_tree(AT_FDCWD, path, NULL), 0);
}

static void nothing_is_replaced(void **state)
{
	struct gb_publish p = GB_PUBLISH_INIT;
	struct gb_err err;
	char path[300];

	(void)state;
	snprintf(path, sizeof(path), "%s/final", scratch);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(gb_publish_begin(scratch, &p, NULL), 0);
	assert_int_equal(put_file(p.path, "file"), 0);
	assert_int_equal(gb_publish_commit(&p, "final", 0700, &err), GB_E_EXISTS);
	assert_false(there("final/file"));
	assert_int_equal(scratch_entries(), 2);
	gb_publish_done(&p);
	assert_int_equal(scratch_entries(), 1);
	assert_int_equal(rmdir(path), 0);
}

static void two_makers_do_not_meet(void **state)
{
	struct gb_publish p = GB_PUBLISH_INIT;
	struct gb_publish q = GB_PUBLISH_INIT;

	(void)state;
	assert_int_equal(gb_publish_begin(scratch, &p, NULL), 0);
	assert_int_equal(gb_publish_begin(scratch, &q, NULL), 0);
	assert_string_not_equal(p.path, q.path);
	gb_publish_sweep(scratch);
	assert_int_equal(scratch_entries(), 2);
	gb_publish_done(&p);
	gb_publish_done(&q);
	assert_int_equal(scratch_entries(), 0);
}

static void sweep_takes_the_folders_of_the_dead(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		struct gb_publish p = GB_PUBLISH_INIT;

		_exit(gb_publish_begin(scratch, &p, NULL) == 0 &&
					put_file(p.path, "f") == 0
				? 0
				: 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(scratch_entries(), 1);
	gb_publish_sweep(scratch);
	assert_int_equal(scratch_entries(), 0);
}

static void a_file_appears_whole_and_replaces_nothing(void **state)
{
	struct gb_newfile f = GB_NEWFILE_INIT;
	struct gb_err err;
	struct stat st;
	char path[300];

	(void)state;
	snprintf(path, sizeof(path), "%s/new", scratch);
	assert_int_equal(gb_newfile_begin(path, &f, NULL), 0);
	assert_int_equal(gb_fd_write_full(f.fd, "abc", 3, NULL), 0);
	assert_false(there("new"));
	assert_int_equal(gb_newfile_commit(&f, 0640, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(gb_newfile_begin(path, &f, NULL), 0);
	assert_int_equal(gb_newfile_commit(&f, 0600, &err), GB_E_EXISTS);
	gb_newfile_done(&f);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(scratch_entries(), 1);
	assert_int_equal(unlink(path), 0);
}

static void a_missing_folder_is_named(void **state)
{
	struct gb_newfile f = GB_NEWFILE_INIT;
	struct gb_publish p = GB_PUBLISH_INIT;
	struct gb_err err;
	char path[300];

	(void)state;
	snprintf(path, sizeof(path), "%s/none/new", scratch);
	assert_int_equal(gb_newfile_begin(path, &f, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "/none"));
	snprintf(path, sizeof(path), "%s/none", scratch);
	assert_int_equal(gb_publish_begin(path, &p, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "/none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_appears_whole),
		cmocka_unit_test(nothing_is_replaced),
		cmocka_unit_test(two_makers_do_not_meet),
		cmocka_unit_test(sweep_takes_the_folders_of_the_dead),
		cmocka_unit_test(a_file_appears_whole_and_replaces_nothing),
		cmocka_unit_test(a_missing_folder_is_named),
	};

	return cmocka_run_group_tests_name(
		"publish", tests, scratch_setup, scratch_teardown);
}
