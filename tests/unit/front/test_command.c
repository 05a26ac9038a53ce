/* The command as it is run: exit codes, what goes to which stream, and that it is quiet when
 * its reader leaves. Needs no machine. argv[1] is the command. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define OUTPUT_MAX ((size_t)1 << 20)
#define DEADLINE_MS 60000

static char *command; /* absolute */

struct place {
	char root[64];
	char *home, *project, *machines;
	struct gb_strv env;
};

static int put(const char *dir, const char *name, const char *text)
{
	char *path = gb_path_join(dir, name);
	int r = gb_file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600, NULL);

	free(path);
	return r;
}

static int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	const char *tmp = getenv("TMPDIR");

	snprintf(p->root, sizeof(p->root), "%s/gb-command-XXXXXX",
		tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(p->root))
		return -1;
	p->home = gb_path_join(p->root, "home");
	p->project = gb_path_join(p->root, "project");
	p->machines = gb_path_join(p->home, "data/machines/broken");
	gb_strv_addf(&p->env, "GLOVEBOX_HOME=%s", p->home);
	gb_strv_addf(&p->env, "HOME=%s", p->root);
	gb_strv_add(&p->env, "PATH=/usr/bin:/bin");
	*state = p;
	return gb_mkdir_p(p->machines, 0700, NULL) | put(p->machines, "machine.json", "{ broken") |
		gb_mkdir_p(p->project, 0700, NULL) |
		put(p->project, "syntax.toml", "[machine]\ncpus = = 1\n") |
		put(p->project, "type.toml", "[machine]\ncpus = \"1\"\n") |
		put(p->project, "unknown.toml", "[machine]\ncpu = 1\n") |
		put(p->project, "fine.toml", "[machine]\ncpus = 1\n");
}

static int remove_place(void **state)
{
	struct place *p = *state;
	int r = gb_rm_tree(AT_FDCWD, p->root, NULL);

	gb_strv_done(&p->env);
	free(p->home);
	free(p->project);
	free(p->machines);
	free(p);
	return r;
}

struct result {
	int code; /* exit code, or -signal */
	char *out, *err;
};

static void result_done(struct result *r)
{
	free(r->out);
	free(r->err);
}

static char *read_file(const char *dir, const char *name)
{
	struct gb_buf b;
	char *path = gb_path_join(dir, name);

	gb_buf_init(&b, OUTPUT_MAX);
	gb_file_read(AT_FDCWD, path, OUTPUT_MAX, &b, NULL);
	free(path);
	return gb_buf_take_str(&b);
}

static int open_output(const char *dir, const char *name)
{
	char *path = gb_path_join(dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	free(path);
	return fd;
}

/* Words separated by blanks. out_fd: -1 for a file that is read back. */
static struct result run(struct place *p, const char *words, int out_fd)
{
	struct gb_strv argv = { 0 };
	gb_auto_fd out = out_fd < 0 ? open_output(p->root, "out") : -1;
	gb_auto_fd err = open_output(p->root, "err");
	struct gb_fd_map fds[] = { { out_fd < 0 ? out : out_fd, 1 }, { err, 2 } };
	struct gb_spawn s = { .envp = p->env.v, .cwd = p->project, .fds = fds, .fd_count = 2 };
	struct result r = { .code = -1000 };
	pid_t pid;
	int status;

	gb_strv_add(&argv, command);
	while (*words) {
		size_t n = strcspn(words, " ");

		gb_strv_addf(&argv, "%.*s", (int)n, words);
		words += n + (words[n] == ' ');
	}
	s.argv = argv.v;
	if (gb_spawn(&s, &pid, NULL) == 0) {
		if (gb_wait_child(pid, gb_deadline_ms(DEADLINE_MS), &status, NULL) < 0)
			gb_kill_child(pid);
		else
			r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	}
	gb_strv_done(&argv);
	r.out = out_fd < 0 ? read_file(p->root, "out") : strdup("");
	r.err = read_file(p->root, "err");
	return r;
}

/* What is said, in pieces that must be in it; "" means that nothing may be. */
static const struct row {
	const char *words;
	int code;
	const char *out;
	const char *err;
} rows[] = {
	{ "", 2, "", "a command is needed" },
	{ "--help", 0, "usage: glovebox COMMAND", "" },
	{ "help run", 0, "usage: glovebox run", "" },
	{ "help image ls", 0, "usage: glovebox image ls", "" },
	{ "help nothing", 2, "", "no command 'nothing'" },
	{ "image --help", 0, "usage: glovebox image COMMAND", "" },
	{ "run --help", 0, "--timeout", "" },
	{ "runn x", 2, "", "(did you mean 'run'?)\nglovebox: try 'glovebox --help'" },
	{ "run --imag x y", 125, "", "(did you mean '--image'?)\nglovebox: try 'glovebox run --help'" },
	{ "run --rm --name a true", 125, "", "--name and --rm exclude each other" },
	{ "run --cpus 65 true", 125, "", "--cpus: '65' is not a whole number from 1 to 64" },
	{ "run --accel fast true", 125, "", "one of auto, kvm, hvf, tcg" },
	{ "run --timeout no true", 125, "", "--timeout: 'no' is not a duration" },
	{ "run --name a/b true", 125, "", "'a/b' is no name for a machine" },
	{ "run --image nothing true", 125, "", "nothing" },
	{ "run --root /no/such/file true", 125, "", "cannot use '/no/such/file' as root" },
	{ "run --root . --image x true", 125, "", "exclude each other" },
	{ "exec nobody true", 125, "", "no machine 'nobody'" },
	{ "shell nobody", 125, "", "no machine 'nobody'" },
	{ "start nobody", 1, "", "no machine 'nobody'" },
	{ "stop nobody", 1, "", "no machine 'nobody'" },
	{ "stop -t x nobody", 1, "", "--time: 'x' is not a duration" },
	{ "rm nobody else", 1, "", "no machine 'nobody'" },
	{ "inspect nobody", 1, "", "no machine 'nobody'" },
	{ "set nobody", 2, "", "nothing to set" },
	{ "set nobody --cpus 2", 1, "", "no machine 'nobody'" },
	{ "logs nobody", 1, "", "no machine 'nobody'" },
	{ "cp a b", 2, "", "one side of cp must be MACHINE:PATH" },
	{ "cp a:b c:d", 2, "", "not between two machines" },
	{ "cp -u root a:b c", 2, "", "--user is for copies into a machine" },
	{ "cp nobody:/a .", 1, "", "no machine 'nobody'" },
	{ "ls", 0, "NAME", "" },
	{ "ls", 0, "broken  damaged", "" },
	{ "ls -q", 0, "broken\n", "" },
	{ "ls --json", 0, "\"state\": \"damaged\"", "" },
	{ "inspect broken", 0, "state: damaged", "" },
	{ "set broken --cpus 2", 1, "", "is damaged (glovebox rm broken removes it)" },
	{ "exec broken true", 125, "", "broken" },
	{ "image ls", 0, "NAME", "" },
	{ "image ls --json", 0, "[]", "" },
	{ "image rm nothing", 1, "", "cannot remove image 'nothing'" },
	{ "image inspect nothing", 1, "", "nothing" },
	{ "image import --name a/b tar:x", 1, "", "'a/b' is no name for an image" },
	{ "config show", 0, "machine.cpus", "" },
	{ "config show --json", 0, "\"source\": \"default\"", "" },
	{ "config check", 0, "", "" },
	{ "config check fine.toml", 0, "", "" },
	{ "config check unknown.toml", 0, "",
		"warning: unknown.toml:2:1: unknown key 'machine.cpu' (did you mean 'cpus'?)" },
	{ "config check type.toml", 1, "", "type.toml:2:8: machine.cpus: expected a whole number" },
	{ "config check syntax.toml", 2, "", "syntax.toml:2:8: " },
	{ "config check nothing.toml", 1, "", "nothing.toml" },
	{ "config path", 0, "/home/config/config.toml\n", "" },
	{ "version", 0, "glovebox ", "" },
	{ "--version", 0, "glovebox ", "" },
	{ "version --json", 0, "\"protocol\": ", "" },
	{ "completion bash", 0, "complete -o default -F _glovebox glovebox", "" },
	{ "completion tcsh", 2, "", "no completion for 'tcsh'" },
};

static bool says(const char *text, const char *want)
{
	return *want ? strstr(text, want) != NULL : !*text;
}

static void test_row(void **state)
{
	struct place *p = *state;

	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		struct result r = run(p, rows[i].words, -1);
		bool fine = r.code == rows[i].code && says(r.out, rows[i].out) &&
			says(r.err, rows[i].err);

		if (!fine)
			print_message("glovebox %s: code %d\n%s%s", rows[i].words, r.code, r.out,
				r.err);
		result_done(&r);
		assert_true(fine);
	}
}

static void test_broken_configuration_stops_a_run(void **state)
{
	struct place *p = *state;
	struct result r;
	char *config = gb_path_join(p->home, "config");

	gb_mkdir_p(config, 0700, NULL);
	put(config, "config.toml", "[machine\n");
	free(config);
	r = run(p, "run true", -1);
	assert_int_equal(r.code, 125);
	assert_non_null(strstr(r.err, "/config.toml:1:9: "));
	result_done(&r);
	/* but looking at machines needs no configuration */
	r = run(p, "ls", -1);
	assert_int_equal(r.code, 0);
	result_done(&r);
}

static void test_project_file_is_read_and_bounded(void **state)
{
	struct place *p = *state;
	struct result r;

	put(p->project, ".glovebox.toml", "[machine]\ncpus = 3\naccel = \"tcg\"\n");
	r = run(p, "config show", -1);
	assert_int_equal(r.code, 0);
	assert_non_null(strstr(r.out, "/.glovebox.toml:2:8"));
	assert_non_null(strstr(r.err, "machine.accel is not taken from a project file"));
	result_done(&r);
	r = run(p, "config path", -1);
	assert_non_null(strstr(r.out, "/project/.glovebox.toml\n"));
	result_done(&r);
}

static void test_damaged_machine_is_removed(void **state)
{
	struct place *p = *state;
	struct result r = run(p, "rm broken", -1);

	assert_int_equal(r.code, 0);
	assert_string_equal(r.err, "");
	assert_int_equal(access(p->machines, F_OK), -1);
	result_done(&r);
}

static void test_reader_that_left_is_no_news(void **state)
{
	static const char *const lines[] = { "ls", "ls --json", "--help", "config show",
		"completion bash" };
	struct place *p = *state;

	for (size_t i = 0; i < GB_ARRAY_SIZE(lines); i++) {
		int fds[2];
		struct result r;

		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		close(fds[0]);
		r = run(p, lines[i], fds[1]);
		close(fds[1]);
		assert_string_equal(r.err, "");
		assert_int_equal(r.code, 141);
		result_done(&r);
	}
}

static void test_output_that_cannot_be_written(void **state)
{
	struct place *p = *state;
	gb_auto_fd full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct result r = run(p, "ls", full);

	assert_int_equal(r.code, 1);
	assert_non_null(strstr(r.err, "cannot write to standard output"));
	result_done(&r);
}

static void test_folder_that_holds_our_files(void **state)
{
	struct place *p = *state;
	char *project = p->project;
	struct result r;

	/* a run in the folder above GLOVEBOX_HOME would give the guest the store */
	p->project = p->root;
	r = run(p, "run --root project/fine.toml true", -1);
	p->project = project;
	assert_int_equal(r.code, 125);
	assert_non_null(strstr(r.err, "glovebox keeps its own files in"));
	result_done(&r);
}

#define PLACE_TEST(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)

int main(int argc, char **argv)
{
	int failed;
	static const struct CMUnitTest tests[] = {
		PLACE_TEST(test_row),
		PLACE_TEST(test_broken_configuration_stops_a_run),
		PLACE_TEST(test_project_file_is_read_and_bounded),
		PLACE_TEST(test_damaged_machine_is_removed),
		PLACE_TEST(test_reader_that_left_is_no_news),
		PLACE_TEST(test_output_that_cannot_be_written),
		PLACE_TEST(test_folder_that_holds_our_files),
	};

	/* each run has another working directory */
	command = argc == 2 ? realpath(argv[1], NULL) : NULL;
	if (!command) {
		fprintf(stderr, "usage: %s GLOVEBOX\n", argv[0]);
		return 2;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(command);
	return failed;
}
