#include "machine/store.h"
#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#define BASE_SIZE (1 << 20)

struct world {
	char folder[64];
	char image[96];
	struct gb_dirs dirs;
	struct gb_machine_spec spec;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	int fd;

	snprintf(w->folder, sizeof(w->folder), "/tmp/gb-store-XXXXXX");
	if (!mkdtemp(w->folder))
		return -1;
	setenv("GLOVEBOX_HOME", w->folder, 1);
	snprintf(w->image, sizeof(w->image), "%s/base.ext4", w->folder);
	fd = open(w->image, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, BASE_SIZE) < 0)
		return -1;
	close(fd);
	gb_dirs_init(&w->dirs, NULL);
	gb_machine_spec_init(&w->spec);
	gb_spec_set(&w->spec.name, "one");
	gb_spec_set(&w->spec.accel, "auto");
	w->spec.cpus = 1;
	w->spec.memory_bytes = UINT64_C(512) << 20;
	w->spec.disk_bytes = UINT64_C(1) << 30;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	int r = gb_rm_tree(AT_FDCWD, w->folder, NULL);

	gb_dirs_done(&w->dirs);
	gb_machine_spec_done(&w->spec);
	free(w);
	unsetenv("GLOVEBOX_HOME");
	return r;
}

static enum gb_machine_state state_of(struct world *w, const char *name)
{
	struct gb_machine_info info;

	assert_int_equal(gb_machine_inspect(&w->dirs, name, &info, NULL), 0);
	gb_machine_info_done(&info);
	return info.state;
}

static void create_load_remove(void **state)
{
	struct world *w = *state;
	struct gb_machine_spec back;
	struct gb_err err = { 0 };

	assert_int_equal(gb_machine_create(&w->dirs, &w->spec, w->image, &err), 0);
	assert_int_equal(gb_machine_create(&w->dirs, &w->spec, w->image, &err), GB_E_EXISTS);
	assert_int_equal(gb_machine_load(&w->dirs, "one", &back, &err), 0);
	assert_true(back.disk_bytes == w->spec.disk_bytes);
	gb_machine_spec_done(&back);
	assert_int_equal(state_of(w, "one"), GB_MACHINE_CREATED);
	assert_int_equal(gb_machine_remove(&w->dirs, "one", &err), 0);
	assert_int_equal(gb_machine_remove(&w->dirs, "one", &err), GB_E_NOTFOUND);
}

static void a_near_name_is_suggested(void **state)
{
	struct world *w = *state;
	struct gb_machine_spec back;
	struct gb_err err = { 0 };

	gb_machine_create(&w->dirs, &w->spec, w->image, &err);
	assert_int_equal(gb_machine_load(&w->dirs, "onee", &back, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "did you mean 'one'"));
}

static void a_failed_create_leaves_nothing(void **state)
{
	struct world *w = *state;
	struct gb_strv names = { 0 };
	struct gb_err err = { 0 };
	char path[128];

	assert_true(gb_machine_create(&w->dirs, &w->spec, "/nowhere/root.ext4", &err) < 0);
	assert_int_equal(gb_machine_names(&w->dirs, &names, &err), 0);
	assert_int_equal(names.n, 0);
	snprintf(path, sizeof(path), "%s/data/machines", w->folder);
	assert_int_equal(rmdir(path), 0);
}

/* The lock of another process is what makes a machine run. */
static void state_follows_the_lock(void **state)
{
	struct world *w = *state;
	struct gb_err err = { 0 };
	int ready[2], go[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(gb_machine_create(&w->dirs, &w->spec, w->image, &err), 0);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		struct gb_machine_lock lock;

		close(go[1]);
		if (gb_machine_lock(&w->dirs, "one", &lock, NULL) < 0 ||
			gb_machine_set_last(&w->dirs, "one", "running", true, NULL) < 0 ||
			write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(state_of(w, "one"), GB_MACHINE_RUNNING);
	assert_int_equal(gb_machine_remove(&w->dirs, "one", &err), GB_E_STATE);
	assert_int_equal(gb_machine_update(&w->dirs, &w->spec, &err), GB_E_STATE);
	close(go[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(state_of(w, "one"), GB_MACHINE_CRASHED);
	assert_int_equal(gb_machine_set_last(&w->dirs, "one", "ok", false, &err), 0);
	assert_int_equal(state_of(w, "one"), GB_MACHINE_STOPPED);
	close(ready[0]);
	close(go[0]);
}

/* Found by the lock on machine.json when the lock file was deleted by hand. */
static void found_without_its_lock_file(void **state)
{
	struct world *w = *state;
	struct gb_err err = { 0 };
	int ready[2], go[2];
	char byte = 0;
	char path[128];
	pid_t pid;

	assert_int_equal(gb_machine_create(&w->dirs, &w->spec, w->image, &err), 0);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		struct gb_machine_lock lock;

		close(go[1]);
		if (gb_machine_lock(&w->dirs, "one", &lock, NULL) < 0 ||
			write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	snprintf(path, sizeof(path), "%s/data/machines/one/lock", w->folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(state_of(w, "one"), GB_MACHINE_RUNNING);
	close(go[1]);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(go[0]);
}

static void damaged_spec_can_be_removed(void **state)
{
	struct world *w = *state;
	struct gb_machine_spec back;
	struct gb_err err = { 0 };
	char path[128];

	assert_int_equal(gb_machine_create(&w->dirs, &w->spec, w->image, &err), 0);
	snprintf(path, sizeof(path), "%s/data/machines/one/machine.json", w->folder);
	assert_int_equal(truncate(path, 10), 0);
	assert_int_equal(gb_machine_load(&w->dirs, "one", &back, &err), GB_E_PARSE);
	assert_int_equal(gb_machine_remove(&w->dirs, "one", &err), 0);
}

static void update_grows_only(void **state)
{
	struct world *w = *state;
	struct gb_machine_spec back;
	struct gb_err err = { 0 };

	assert_int_equal(gb_machine_create(&w->dirs, &w->spec, w->image, &err), 0);
	w->spec.disk_bytes = UINT64_C(2) << 30;
	w->spec.cpus = 3;
	assert_int_equal(gb_machine_update(&w->dirs, &w->spec, &err), 0);
	assert_int_equal(gb_machine_load(&w->dirs, "one", &back, &err), 0);
	assert_int_equal(back.cpus, 3);
	gb_machine_spec_done(&back);
	w->spec.disk_bytes = UINT64_C(1) << 30;
	assert_int_equal(gb_machine_update(&w->dirs, &w->spec, &err), GB_E_INVALID);
}

static void dead_makers_are_swept(void **state)
{
	struct world *w = *state;
	char dead[160], alive[160];
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	snprintf(dead, sizeof(dead), "%s/data/machines/.new-%d-x", w->folder, (int)pid);
	snprintf(alive, sizeof(alive), "%s/data/machines/.gone-%d-x", w->folder, (int)getpid());
	assert_int_equal(gb_mkdir_p(dead, 0700, NULL), 0);
	assert_int_equal(gb_mkdir_p(alive, 0700, NULL), 0);
	gb_machine_sweep(&w->dirs);
	assert_int_not_equal(access(dead, F_OK), 0);
	assert_int_equal(access(alive, F_OK), 0);
}

static void names_for_folders(void **state)
{
	static const struct {
		const char *directory;
		const char *prefix;
	} rows[] = {
		{ "/home/u/my project", "my-project-" },
		{ "/", "dir-" },
		{ "/srv/.hidden", "hidden-" },
		{ "/a/\xff\xfe", "dir-" },
	};
	char *a = NULL;
	char *b = NULL;

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		char *name = NULL;

		assert_int_equal(gb_machine_name_for(rows[i].directory, &name, NULL), 0);
		assert_true(gb_name_valid(name));
		if (!gb_starts_with(name, rows[i].prefix))
			fail_msg("'%s' gives '%s'", rows[i].directory, name);
		free(name);
	}
	gb_machine_name_for("/x/app", &a, NULL);
	gb_machine_name_for("/y/app", &b, NULL);
	assert_string_not_equal(a, b);
	free(a);
	free(b);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(create_load_remove),
		T(a_near_name_is_suggested),
		T(a_failed_create_leaves_nothing),
		T(state_follows_the_lock),
		T(found_without_its_lock_file),
		T(damaged_spec_can_be_removed),
		T(update_grows_only),
		T(dead_makers_are_swept),
		cmocka_unit_test(names_for_folders),
	};

	return cmocka_run_group_tests_name("machine store", tests, NULL, NULL);
}
