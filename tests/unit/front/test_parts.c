/* The parts of the command that can be looked at alone: what is printed, what a request is
 * made of, what a new machine is like, and when an existing one is refused. */
#include "front/cli/copy_arg.h"
#include "front/cli/exec.h"
#include "front/cli/images.h"
#include "front/cli/target.h"
#include "front/cli/term.h"

#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Text from a guest on a terminal. */
static const struct {
	const char *text;
	bool lines;
	const char *want;
} printable_rows[] = {
	{ "plain", false, "plain" },
	{ "\033[2Jcleared", false, "?[2Jcleared" },
	{ "two\nlines", false, "two?lines" },
	{ "two\nlines\tand", true, "two\nlines\tand" },
	{ "over\rwritten\b", true, "over?written?" },
	{ "del\x7f", false, "del?" },
	{ "caf\xc3\xa9", false, "caf\xc3\xa9" },
	{ "csi \xc2\x9b" "31m", false, "csi ??31m" },
	{ "end of a C1 that is none \xc2", false, "end of a C1 that is none \xc2" },
	{ "", false, "" },
};

static void test_printable(void **state)
{
	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(printable_rows); i++) {
		char *got = gb_printable(printable_rows[i].text, printable_rows[i].lines);

		assert_string_equal(got, printable_rows[i].want);
		free(got);
	}
}

static void test_amounts(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} rows[] = {
		{ 0, "0 B" }, { 999, "999 B" }, { 1000, "1.0 KiB" }, { 1536, "1.5 KiB" },
		{ 20480, "20 KiB" }, { UINT64_C(2) << 30, "2.0 GiB" },
		{ UINT64_MAX, "16777216 TiB" },
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		gb_amount_text(rows[i].bytes, text, sizeof(text));
		assert_string_equal(text, rows[i].want);
	}
}

static void test_json_of_text_that_is_not_utf8(void **state)
{
	json_t *s = gb_json_text("a\xff" "b");

	(void)state;
	assert_string_equal(json_string_value(s), "a?b");
	json_decref(s);
}

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

static void test_second_signal_forces(void **state)
{
	struct gb_signal_counter c = { 0 };

	(void)state;
	assert_int_equal(gb_signal_count(&c, 1000), GB_SIGNAL_FORWARD);
	assert_int_equal(gb_signal_count(&c, 1000 + GB_SIGNAL_FORCE_NS), GB_SIGNAL_FORCE);
}

static void test_slow_signals_force_at_the_third(void **state)
{
	struct gb_signal_counter c = { 0 };

	(void)state;
	assert_int_equal(gb_signal_count(&c, 1000), GB_SIGNAL_FORWARD);
	assert_int_equal(gb_signal_count(&c, 1001 + GB_SIGNAL_FORCE_NS), GB_SIGNAL_FORWARD);
	assert_int_equal(gb_signal_count(&c, 1002 + 9 * GB_SIGNAL_FORCE_NS), GB_SIGNAL_FORCE);
}

static void test_stdin_kinds(void **state)
{
	gb_auto_fd null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	gb_auto_fd file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int sockets[2];
	int pipes[2];

	(void)state;
	assert_int_equal(gb_stdin_kind(null), GB_STDIN_NOTHING);
	assert_int_equal(gb_stdin_kind(file), GB_STDIN_STREAM);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
	assert_int_equal(gb_stdin_kind(sockets[0]), GB_STDIN_STREAM);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(gb_stdin_kind(pipes[0]), GB_STDIN_STREAM);
	for (int i = 0; i < 2; i++) {
		close(sockets[i]);
		close(pipes[i]);
	}
	assert_int_equal(gb_stdin_kind(-1), GB_STDIN_NOTHING);
}

static void test_stdin_is_passed(void **state)
{
	(void)state;
	assert_true(gb_stdin_is_passed(GB_STDIN_STREAM, false, false));
	assert_false(gb_stdin_is_passed(GB_STDIN_TERMINAL, false, false));
	assert_true(gb_stdin_is_passed(GB_STDIN_TERMINAL, true, false));
	assert_true(gb_stdin_is_passed(GB_STDIN_TERMINAL, false, true));
	assert_false(gb_stdin_is_passed(GB_STDIN_NOTHING, false, true));
	assert_true(gb_stdin_is_passed(GB_STDIN_NOTHING, true, false));
}

static void collect(void *ctx, const char *line)
{
	char *all = ctx;

	snprintf(all + strlen(all), 256 - strlen(all), "[%s]", line);
}

static void test_line_feed(void **state)
{
	static const char *const pieces[] = { "one\ntw", "o\r", "three", "\n\n", "last" };
	char all[256] = "";
	struct gb_line_feed f = { .line = collect, .ctx = all };

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(pieces); i++)
		gb_line_feed(&f, pieces[i], strlen(pieces[i]));
	assert_string_equal(all, "[one][two][three]");
	gb_line_feed_end(&f);
	assert_string_equal(all, "[one][two][three][last]");
	assert_string_equal(f.last, "last");
}

static void test_long_line_is_cut(void **state)
{
	struct gb_line_feed f = { 0 };
	char many[2000];

	(void)state;
	memset(many, 'x', sizeof(many));
	gb_line_feed(&f, many, sizeof(many));
	gb_line_feed_end(&f);
	assert_int_equal(strlen(f.last), sizeof(f.last) - 1);
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

/* A command line, its configuration and a place with nothing in it. */
struct scene {
	char root[64];
	struct gb_cli cli;
	struct gb_config config;
	char words[256];
	char *argv[32];
};

static int make_scene(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	const char *tmp = getenv("TMPDIR");

	snprintf(s->root, sizeof(s->root), "%s/gb-front-XXXXXX",
		tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(s->root))
		return -1;
	s->cli.dirs.config = gb_path_join(s->root, "own/config");
	s->cli.dirs.data = gb_path_join(s->root, "own/data");
	s->cli.dirs.cache = gb_path_join(s->root, "own/cache");
	s->cli.dirs.runtime = gb_path_join(s->root, "own/run");
	s->cli.cwd = gb_path_join(s->root, "project");
	*state = s;
	return gb_mkdir_p(s->cli.cwd, 0700, NULL) | gb_mkdir_p(s->cli.dirs.data, 0700, NULL);
}

static int remove_scene(void **state)
{
	struct scene *s = *state;
	int r = gb_rm_tree(AT_FDCWD, s->root, NULL);

	gb_config_done(&s->config);
	gb_cli_args_done(&s->cli.args);
	gb_dirs_done(&s->cli.dirs);
	free(s->cli.cwd);
	free(s);
	return r;
}

/* Parse "run --cpus 4 x" and put its options over the defaults. */
static void say(struct scene *s, const char *words)
{
	int n = 0;
	char *p = s->words;
	struct gb_err err = { 0 };

	snprintf(s->words, sizeof(s->words), "glovebox %s", words);
	while (*p) {
		s->argv[n++] = p;
		p += strcspn(p, " ");
		if (*p)
			*p++ = 0;
	}
	gb_cli_args_done(&s->cli.args);
	gb_config_done(&s->config);
	assert_int_equal(gb_cli_parse(n, s->argv, &s->cli.args, &err), 0);
	assert_int_equal(gb_cli_load_config(&s->cli, &s->config, &err), 0);
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

	r[0] = gb_target_check_folder(&s->cli.dirs, s->cli.cwd, &err);
	r[1] = gb_target_check_folder(&s->cli.dirs, s->root, &err);
	r[2] = gb_target_check_folder(&s->cli.dirs, s->cli.dirs.data, &err);
	r[3] = gb_target_check_folder(&s->cli.dirs, "/", &err);
	r[4] = symlink(own, link);
	r[5] = gb_target_check_folder(&s->cli.dirs, link, &err);
	r[6] = mkdir(beside, 0700) | gb_target_check_folder(&s->cli.dirs, beside, &err);
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
	assert_int_equal(gb_target_check_folder(&s->cli.dirs, "/no/such/folder", &err),
		GB_E_NOTFOUND);
}

static void test_names_of_run_rm(void **state)
{
	char *a = NULL;
	char *b = NULL;

	(void)state;
	assert_int_equal(gb_target_ephemeral_name(&a, NULL), 0);
	assert_int_equal(gb_target_ephemeral_name(&b, NULL), 0);
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
		gb_target_sweep(&s->cli);
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

static int request(struct scene *s, const char *words, bool tty, struct gb_cli_exec *ret,
	struct gb_err *err)
{
	say(s, words);
	return gb_cli_exec_init(&s->cli.args, s->cli.args.operands, s->cli.args.operand_count, tty,
		NULL, ret, err);
}

static void test_request(void **state)
{
	struct scene *s = *state;
	struct gb_cli_exec e;
	struct gb_err err = { 0 };

	setenv("GB_TEST_SET", "from us", 1);
	unsetenv("GB_TEST_UNSET");
	assert_int_equal(request(s,
				 "run -e A=1 -e GB_TEST_SET -e GB_TEST_UNSET -e A=2 -w /tmp -u 7:8 "
				 "--timeout 1.5 ls -l",
				 false, &e, &err),
		0);
	assert_int_equal(e.msg.argv.n, 2);
	assert_string_equal(e.msg.argv.v[1], "-l");
	assert_int_equal(e.msg.env.n, 2);
	assert_string_equal(e.msg.env.v[0], "A=2");
	assert_string_equal(e.msg.env.v[1], "GB_TEST_SET=from us");
	assert_string_equal(e.msg.cwd, "/tmp");
	assert_string_equal(e.msg.user, "7:8");
	assert_int_equal(e.msg.timeout_ms, 1500);
	assert_int_equal(e.msg.grace_ms, GB_EXEC_GRACE_MS);
	assert_int_equal(e.msg.flags & (GB_EXEC_TTY | GB_EXEC_DETACH), 0);
	gb_cli_exec_done(&e);
}

static void test_request_with_a_terminal(void **state)
{
	struct scene *s = *state;
	struct gb_cli_exec e;
	struct gb_err err = { 0 };

	setenv("TERM", "vt100", 1);
	assert_int_equal(request(s, "run -t x", true, &e, &err), 0);
	assert_true(e.msg.flags & GB_EXEC_TTY);
	assert_string_equal(e.msg.env.v[0], "TERM=vt100");
	gb_cli_exec_done(&e);
	assert_int_equal(request(s, "run -t -e TERM=dumb x", true, &e, &err), 0);
	assert_string_equal(e.msg.env.v[0], "TERM=dumb");
	gb_cli_exec_done(&e);
}

static void test_requests_refused(void **state)
{
	static const struct {
		const char *words, *message;
	} rows[] = {
		{ "run --timeout 0 x", "more than nothing" },
		{ "run --timeout soon x", "--timeout: 'soon' is not a duration" },
		{ "run --timeout 9000h x", "too long" },
		{ "run -e =1 x", "'=1' is not K=V" },
		{ "run -e 1A=1 x", "is not K=V" },
		{ "exec -d -i m x", "-d excludes" },
	};
	struct scene *s = *state;

	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		struct gb_cli_exec e;
		struct gb_err err = { 0 };

		assert_true(request(s, rows[i].words, false, &e, &err) < 0);
		assert_non_null(strstr(err.msg, rows[i].message));
	}
}

static void test_detached_request(void **state)
{
	struct scene *s = *state;
	struct gb_cli_exec e;
	struct gb_err err = { 0 };

	assert_int_equal(request(s, "exec -d m x", false, &e, &err), 0);
	assert_int_equal(e.msg.flags, GB_EXEC_DETACH);
	gb_cli_exec_done(&e);
}

#define SCENE_TEST(f) cmocka_unit_test_setup_teardown(f, make_scene, remove_scene)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_json_of_text_that_is_not_utf8),
		cmocka_unit_test(test_copy_arg),
		cmocka_unit_test(test_second_signal_forces),
		cmocka_unit_test(test_slow_signals_force_at_the_third),
		cmocka_unit_test(test_stdin_kinds),
		cmocka_unit_test(test_stdin_is_passed),
		cmocka_unit_test(test_line_feed),
		cmocka_unit_test(test_long_line_is_cut),
		cmocka_unit_test(test_source_names),
		cmocka_unit_test(test_names_of_run_rm),
		SCENE_TEST(test_new_machine),
		SCENE_TEST(test_configured_variables_go_over_the_image),
		SCENE_TEST(test_disk_below_the_image),
		SCENE_TEST(test_agree),
		SCENE_TEST(test_own_files_are_not_shared),
		SCENE_TEST(test_sweep),
		SCENE_TEST(test_directory_that_is_gone),
		SCENE_TEST(test_request),
		SCENE_TEST(test_request_with_a_terminal),
		SCENE_TEST(test_requests_refused),
		SCENE_TEST(test_detached_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
