/* Which machine or image a text means, what a new machine is like, and when an existing one is
 * refused. */
#include "front/cli/copy_arg.h"
#include "front/cli/images.h"
#include "front/cli/target.h"
#include "scene.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_copy_arg(void **state)
{
	static const struct {
		const char *text, *machine, *path;
	} rows[] = {
		{ "m:/a", "m", "/a" }, { "m:a/b", "m", "a/b" }, { "m:/a:b", "m", "/a:b" },
		{ "m.1_x-y:/a/", "m.1_x-y", "/a/" }, { "/a:b", "", "/a:b" },
		{ "./m:b", "", "./m:b" }, { "d/m:b", "", "d/m:b" }, { "file", "", "file" },
		{ ".m:b", "", ".m:b" }, { ":b", "", ":b" }, { "m n:b", "", "m n:b" },
		{ "m:", NULL, NULL }, { "", NULL, NULL },
		{ "a234567890123456789012345678901234567890123456789012345678901234:x", "",
			"a234567890123456789012345678901234567890123456789012345678901234:x" },
	};
	struct gb_copy_arg a;

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		assert_int_equal(gb_copy_arg_parse(rows[i].text, &a), rows[i].path != NULL);
		if (!rows[i].path)
			continue;
		assert_string_equal(a.machine, rows[i].machine);
		assert_string_equal(a.path, rows[i].path);
	}
}

static void test_source_names(void **state)
{
	char *a = NULL;
	char *b = NULL;

	(void)state;
	assert_true(gb_image_ref_is_source("tar:x"));
	assert_false(gb_image_ref_is_source("dev"));
	assert_int_equal(gb_image_source_name("tar:/x", &a, NULL), 0);
	assert_int_equal(gb_image_source_name("tar:/y", &b, NULL), 0);
	assert_true(gb_name_valid(a));
	assert_string_not_equal(a, b);
	free(b);
	assert_int_equal(gb_image_source_name("tar:/x", &b, NULL), 0);
	assert_string_equal(a, b);
	free(a);
	free(b);
}

static const struct gb_image *an_image(void)
{
	static char *env[] = { (char *)"PATH=/bin", (char *)"A=image", NULL };
	static const struct gb_image image = {
		.digest = (char *)"d1",
		.path = (char *)"/d1/root.ext4",
		.user = (char *)"someone",
		.workdir = (char *)"/srv",
		.env = { .v = env, .n = 2 },
		.size = UINT64_C(1) << 30,
	};

	return &image;
}

static void test_new_machine(void **state)
{
	struct scene *s = *state;
	struct gb_machine_spec m;
	struct gb_err err = { 0 };

	say(s, "create --cpus 4 --memory 512 -v /srv:/data:ro m");
	assert_int_equal(gb_target_spec(&s->cli, &s->config, "m", an_image(), &m, &err), 0);
	assert_string_equal(m.name, "m");
	assert_int_equal(strlen(m.id), 32);
	assert_string_equal(m.image, "d1");
	assert_string_equal(m.image_ref, "default");
	assert_string_equal(m.directory, s->cli.cwd);
	assert_string_equal(m.workdir, "/work");
	assert_string_equal(m.user, "someone");
	assert_int_equal(m.cpus, 4);
	assert_int_equal(m.memory_bytes, UINT64_C(512) << 20);
	assert_int_equal(m.disk_bytes, UINT64_C(20) << 30);
	assert_int_equal(m.env.n, 2);
	assert_int_equal(m.share_count, 1);
	assert_string_equal(m.shares[0].host, "/srv");
	assert_true(m.shares[0].rdonly);
	assert_int_equal(gb_machine_spec_check(&m, &err), 0);
	gb_machine_spec_done(&m);
}

static void test_configured_variables_go_over_the_image(void **state)
{
	struct scene *s = *state;
	struct gb_machine_spec m;
	const struct gb_config_base base = { "/", NULL };

	say(s, "create m");
	assert_int_equal(gb_config_set(&s->config, GB_CONFIG_ENVIRONMENT, GB_CONFIG_FROM_USER, "x",
				 "A=mine", &base, NULL),
		0);
	assert_int_equal(gb_config_set(&s->config, GB_CONFIG_ENVIRONMENT, GB_CONFIG_FROM_USER, "x",
				 "HOSTS_OWN", &base, NULL),
		0);
	assert_int_equal(gb_target_spec(&s->cli, &s->config, "m", an_image(), &m, NULL), 0);
	assert_int_equal(m.env.n, 2); /* the bare name is taken at each command instead */
	assert_string_equal(m.env.v[1], "A=mine");
	gb_machine_spec_done(&m);
}

static void test_disk_below_the_image(void **state)
{
	struct scene *s = *state;
	const struct gb_config_base base = { "/", NULL };
	struct gb_machine_spec m;
	struct gb_err err = { 0 };

	say(s, "create --disk 512M m");
	assert_int_equal(gb_target_spec(&s->cli, &s->config, "m", an_image(), &m, &err),
		GB_E_INVALID);
	assert_non_null(strstr(err.msg, "--disk"));
	/* what is only configured gives way */
	say(s, "create m");
	assert_int_equal(gb_config_set(&s->config, GB_CONFIG_DISK, GB_CONFIG_FROM_USER, "x", "512M",
				 &base, &err),
		0);
	assert_int_equal(gb_target_spec(&s->cli, &s->config, "m", an_image(), &m, &err), 0);
	assert_int_equal(m.disk_bytes, an_image()->size);
	gb_machine_spec_done(&m);
}

/* Options against a machine that was made with "--cpus 4 -v /srv:/data". */
static const struct agree_row {
	const char *name;
	const char *words;
	const char *image; /* digest of --image */
	const char *refusal; /* NULL: agrees */
} agree_rows[] = {
	{ "no options", "run x", NULL, NULL },
	{ "the same cpus", "run --cpus 4 x", NULL, NULL },
	{ "other cpus", "run --cpus 3 x", NULL, "has cpus 4, not 3" },
	{ "the same memory, written otherwise", "run --memory 2048 x", NULL, NULL },
	{ "other memory", "run --memory 3G x", NULL, "glovebox set m --memory 3G" },
	{ "other disk", "run --disk 30G x", NULL, "has disk 20G, not 30G" },
	{ "the same accel", "run --accel auto x", NULL, NULL },
	{ "other accel", "run --accel tcg x", NULL, "has accel auto, not tcg" },
	{ "the same image by its first name", "run --image default x", "", NULL },
	{ "the same image by another name", "run --image other x", "d1", NULL },
	{ "another image", "run --image other x", "d2", "has image 'default', not 'other'" },
	{ "an image that is not there", "run --image other x", "", "has image 'default'" },
	{ "the same share", "run -v /srv:/data x", NULL, NULL },
	{ "the same share read-only", "run -v /srv:/data:ro x", NULL, "does not share '/srv:/data:ro'" },
	{ "another share", "run -v /srv:/data -v /opt:/opt x", NULL, "does not share '/opt:/opt'" },
	{ "another kernel", "run --kernel /k x", NULL, "has kernel '', not '/k'" },
	{ "options of the command alone", "run -w /tmp -e A=1 -u 7 -t -i x", NULL, NULL },
};

static void test_agree(void **state)
{
	struct scene *s = *state;

	for (size_t i = 0; i < GB_ARRAY_SIZE(agree_rows); i++) {
		const struct agree_row *row = &agree_rows[i];
		struct gb_machine_spec m;
		struct gb_err err = { 0 };
		int r;

		say(s, "create --cpus 4 -v /srv:/data m");
		assert_int_equal(
			gb_target_spec(&s->cli, &s->config, "m", an_image(), &m, &err), 0);
		say(s, row->words);
		r = gb_target_agree(&s->cli, &s->config, &m, row->image, &err);
		gb_machine_spec_done(&m);
		if (r != (row->refusal ? GB_E_STATE : 0) ||
			(row->refusal && !strstr(err.msg, row->refusal)))
			fail_msg("%s: %d %s", row->name, r, err.msg);
	}
}

static void test_own_files_are_not_shared(void **state)
{
	struct scene *s = *state;
	struct gb_err err = { 0 };
	char *own = gb_path_join(s->root, "own");
	char *link = gb_path_join(s->cli.cwd, "link");
	char *beside = gb_path_join(s->root, "ow");
	int r[7];

	r[0] = gb_machine_check_folder(&s->cli.dirs, s->cli.cwd, &err);
	r[1] = gb_machine_check_folder(&s->cli.dirs, s->root, &err);
	r[2] = gb_machine_check_folder(&s->cli.dirs, s->cli.dirs.data, &err);
	r[3] = gb_machine_check_folder(&s->cli.dirs, "/", &err);
	r[4] = symlink(own, link);
	r[5] = gb_machine_check_folder(&s->cli.dirs, link, &err);
	r[6] = mkdir(beside, 0700) | gb_machine_check_folder(&s->cli.dirs, beside, &err);
	free(own);
	free(link);
	free(beside);
	assert_int_equal(r[0], 0);
	assert_int_equal(r[1], GB_E_DENIED);
	assert_int_equal(r[2], GB_E_DENIED);
	assert_int_equal(r[3], GB_E_DENIED);
	assert_int_equal(r[4], 0);
	assert_int_equal(r[5], GB_E_DENIED);
	assert_int_equal(r[6], 0);
	assert_int_equal(gb_machine_check_folder(&s->cli.dirs, "/no/such/folder", &err),
		GB_E_NOTFOUND);
}

static void test_names_of_run_rm(void **state)
{
	char *a = NULL;
	char *b = NULL;

	(void)state;
	assert_int_equal(gb_machine_ephemeral_name(&a, NULL), 0);
	assert_int_equal(gb_machine_ephemeral_name(&b, NULL), 0);
	assert_true(gb_name_valid(a));
	assert_string_not_equal(a, b);
	free(a);
	free(b);
}

/* A pid that no process has any more. */
static pid_t dead_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

/* What a killed `run --rm` leaves when its supervisor did not run yet. */
static const struct sweep_row {
	const char *name;
	bool dead, ephemeral;
	int64_t age_s;
	bool swept;
} sweep_rows[] = {
	{ "abandoned", true, true, 60, true },
	{ "just made, perhaps in another pid namespace", true, true, 0, false },
	{ "its maker lives", false, true, 60, false },
	{ "a machine to keep that is called so", true, false, 60, false },
};

static void test_sweep(void **state)
{
	struct scene *s = *state;
	pid_t dead = dead_pid();

	for (size_t i = 0; i < GB_ARRAY_SIZE(sweep_rows); i++) {
		const struct sweep_row *row = &sweep_rows[i];
		struct gb_machine_spec m;
		struct gb_err err = { 0 };
		char name[64];
		int r;

		snprintf(name, sizeof(name), "rm-%d-%zu", (int)(row->dead ? dead : getpid()), i);
		say(s, "create m");
		assert_int_equal(gb_target_spec(&s->cli, &s->config, name, NULL, &m, &err), 0);
		gb_spec_set(&m.root, "/no/such/root");
		m.ephemeral = row->ephemeral;
		m.created_s -= row->age_s;
		r = gb_machine_create(&s->cli.dirs, &m, NULL, &err);
		gb_machine_spec_done(&m);
		assert_int_equal(r, 0);
		gb_machine_sweep_ephemeral(&s->cli.dirs);
		r = gb_machine_load(&s->cli.dirs, name, &m, &err);
		if (r == 0)
			gb_machine_spec_done(&m);
		if (r != (row->swept ? GB_E_NOTFOUND : 0))
			fail_msg("%s: %d", row->name, r);
	}
}

static void test_directory_that_is_gone(void **state)
{
	struct scene *s = *state;
	struct gb_err err = { 0 };
	char *name = NULL;

	s->cli.cwd[0] = 0;
	assert_int_equal(gb_target_here(&s->cli, &name, &err), GB_E_NOTFOUND);
	assert_non_null(strstr(err.msg, "the current directory is gone"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy_arg),
		cmocka_unit_test(test_source_names),
		SCENE_TEST(test_new_machine),
		SCENE_TEST(test_configured_variables_go_over_the_image),
		SCENE_TEST(test_disk_below_the_image),
		SCENE_TEST(test_agree),
		SCENE_TEST(test_own_files_are_not_shared),
		cmocka_unit_test(test_names_of_run_rm),
		SCENE_TEST(test_sweep),
		SCENE_TEST(test_directory_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
