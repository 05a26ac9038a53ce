/* What a command in a machine is asked for, and when our own signals force its end. */
#include "front/cli/exec.h"
#include "front/cli/term.h"
#include "scene.h"

#include "base/fd.h"

#include <sys/socket.h>
#include <unistd.h>

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_signal_forces),
		cmocka_unit_test(test_slow_signals_force_at_the_third),
		cmocka_unit_test(test_stdin_kinds),
		cmocka_unit_test(test_stdin_is_passed),
		SCENE_TEST(test_request),
		SCENE_TEST(test_request_with_a_terminal),
		SCENE_TEST(test_requests_refused),
		SCENE_TEST(test_detached_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
