/* The command line: what is parsed, what is refused with which words, and that help and
 * completion say everything the tables hold. */
#include "front/cli/args.h"
#include "front/cli/help.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Words in, and what comes out as one line: "COMMAND option=value... | operand...". */
static const struct row {
	const char *name;
	const char *words; /* separated by single blanks, without "glovebox" */
	const char *want;  /* NULL: refused */
	const char *message;
} rows[] = {
	{ "a command alone", "ls", "ls |", NULL },
	{ "options of run end at its command", "run ls -la", "run | ls -la", NULL },
	{ "options of run before its command", "run --rm -it sh -c x",
		"run rm= interactive= tty= | sh -c x", NULL },
	{ "a mark ends options", "run --rm -- -x --rm", "run rm= | -x --rm", NULL },
	{ "a second mark is the command's", "run -- a -- b", "run | a -- b", NULL },
	{ "a mark behind run's command is its own", "run a -- b", "run | a -- b", NULL },
	{ "exec without a mark", "exec m ls -l", "exec | m ls -l", NULL },
	{ "exec with a mark", "exec -t m -- ls -l", "exec tty= | m ls -l", NULL },
	{ "exec with two marks keeps the second", "exec m -- -- x", "exec | m -- x", NULL },
	{ "exec's options end at the machine", "exec m -t", "exec | m -t", NULL },
	{ "long option with =", "run --memory=4G x", "run memory=4G | x", NULL },
	{ "long option with a word", "run --memory 4G x", "run memory=4G | x", NULL },
	{ "long option with an empty value", "run --image= x", "run image= | x", NULL },
	{ "short option with a word", "run -w /a x", "run workdir=/a | x", NULL },
	{ "short option with its value", "run -w/a x", "run workdir=/a | x", NULL },
	{ "flags together, the last with a value", "run -tie A=1 x",
		"run tty= interactive= env=A=1 | x", NULL },
	{ "repeated options keep their order", "run -e A=1 -v /a:/b -e B=2 x",
		"run env=A=1 volume=/a:/b env=B=2 | x", NULL },
	{ "a value may look like an option", "run -e --rm x", "run env=--rm | x", NULL },
	{ "options behind operands", "set m --disk 40G", "set disk=40G | m", NULL },
	{ "options between operands", "rm a -f b", "rm force= | a b", NULL },
	{ "the same letter, another option", "stop -t 30 m", "stop time=30 | m", NULL },
	{ "a single dash is an operand", "cp - m:/x", "cp | - m:/x", NULL },
	{ "a command of a group", "image rm x", "image rm | x", NULL },
	{ "version as an option", "--version", "version |", NULL },

	{ "no command", "", NULL, "a command is needed" },
	{ "an unknown command", "runn x", NULL, "unknown command 'runn' (did you mean 'run'?)" },
	{ "an unknown command like no other", "frobnicate", NULL, "unknown command 'frobnicate'" },
	{ "a slip in a group's name", "imag ls", NULL, "did you mean 'image'?" },
	{ "an unknown subcommand", "image lls", NULL, "unknown subcommand 'lls' (did you mean 'ls'?)" },
	{ "a group alone", "image", NULL, "image needs a subcommand" },
	{ "an unknown option", "run --imag x y", NULL,
		"unknown option '--imag' (did you mean '--image'?)" },
	{ "an unknown option with a value", "run --imag=x y", NULL, "unknown option '--imag' " },
	{ "an option of another command", "ls --image x", NULL, "unknown option '--image'" },
	{ "an unknown letter", "run -x y", NULL, "unknown option '-x'" },
	{ "an unknown letter among flags", "run -tx y", NULL, "unknown option '-x'" },
	{ "a flag with a value", "ls --json=1", NULL, "option --json takes no value" },
	{ "a value is missing", "create --memory", NULL,
		"option --memory needs SIZE (such as --memory 4G)" },
	{ "a letter's value is missing", "create -m", NULL, "option --memory needs SIZE" },
	{ "run without a command", "run --rm", NULL, "run needs [--] COMMAND" },
	{ "exec without a command", "exec m", NULL, "exec needs MACHINE" },
	{ "exec with only a mark", "exec m --", NULL, "exec needs MACHINE" },
	{ "one operand too many", "ls x", NULL, "'x' is one word too many" },
	{ "a missing operand", "start", NULL, "start needs MACHINE" },
	{ "a missing operand in a group", "image import", NULL, "image import needs SOURCE" },
	{ "an option before the command", "--rm run x", NULL,
		"option '--rm' stands before a command" },
};

/* Splits at single blanks; text is changed. Returns the count, argv[0] being "glovebox". */
static int split(char *text, char **argv, int max)
{
	int n = 0;

	argv[n++] = (char *)"glovebox";
	while (*text && n < max - 1) {
		argv[n++] = text;
		text += strcspn(text, " ");
		if (*text)
			*text++ = 0;
	}
	argv[n] = NULL;
	return n;
}

static void describe(const struct gb_cli_args *a, char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size, "%s%s%s", a->group ? a->group : "",
		a->group ? " " : "", a->command->name);

	for (size_t i = 0; i < a->seen_count; i++)
		n += (size_t)snprintf(text + n, size - n, " %s=%s",
			gb_cli_options[a->seen[i].id].name, a->seen[i].value);
	n += (size_t)snprintf(text + n, size - n, " |");
	for (size_t i = 0; i < a->operand_count; i++)
		n += (size_t)snprintf(text + n, size - n, " %s", a->operands[i]);
}

static void test_row(void **state)
{
	const struct row *row = *state;
	struct gb_cli_args a;
	struct gb_err err = { 0 };
	char words[256];
	char got[512];
	char *argv[32];
	int r;

	snprintf(words, sizeof(words), "%s", row->words);
	r = gb_cli_parse(split(words, argv, 32), argv, &a, &err);
	assert_int_equal(r, row->want ? 0 : GB_E_INVALID);
	if (row->want) {
		describe(&a, got, sizeof(got));
		assert_string_equal(got, row->want);
	} else if (!strstr(err.msg, row->message)) {
		assert_string_equal(err.msg, row->message);
	}
	gb_cli_args_done(&a);
}

static void test_help_wins_over_mistakes(void **state)
{
	static const char *const lines[] = { "--help", "-h", "run --help", "run -h", "image --help",
		"image ls -h", "exec --help", "run --rm --help --bogus" };

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(lines); i++) {
		struct gb_cli_args a;
		char words[64];
		char *argv[16];

		snprintf(words, sizeof(words), "%s", lines[i]);
		assert_int_equal(gb_cli_parse(split(words, argv, 16), argv, &a, NULL), 0);
		assert_true(a.help);
		gb_cli_args_done(&a);
	}
}

static void test_help_of_the_command_inside_is_its_own(void **state)
{
	char words[] = "run ls --help";
	char *argv[8];
	struct gb_cli_args a;

	(void)state;
	assert_int_equal(gb_cli_parse(split(words, argv, 8), argv, &a, NULL), 0);
	assert_false(a.help);
	gb_cli_args_done(&a);
}

static void test_last_value_wins(void **state)
{
	char words[] = "run --cpus 1 --cpus 2 x";
	char *argv[8];
	struct gb_cli_args a;

	(void)state;
	assert_int_equal(gb_cli_parse(split(words, argv, 8), argv, &a, NULL), 0);
	assert_string_equal(gb_cli_value(&a, OPT_CPUS), "2");
	assert_null(gb_cli_value(&a, OPT_MEMORY));
	gb_cli_args_done(&a);
}

static void test_tables_are_in_order(void **state)
{
	(void)state;
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct gb_cli_option *o = &gb_cli_options[i];

		assert_int_equal(o->id, i);
		assert_non_null(strstr(o->example, o->letter && o->example[1] != '-'
						? (char[]){ '-', o->letter, 0 }
						: o->name));
	}
	for (int i = 0; i < CMD_COUNT; i++) {
		assert_int_equal(gb_cli_commands[i].id, i);
		assert_true(gb_cli_commands[i].group == NULL ||
			gb_cli_is_group(gb_cli_commands[i].group));
	}
}

/* Within a command no two options share a name or a letter. */
static void test_options_are_told_apart(void **state)
{
	(void)state;
	for (size_t c = 0; c < CMD_COUNT; c++)
		for (int i = 0; i < OPT_COUNT; i++)
			for (int j = 0; j < i; j++) {
				const struct gb_cli_option *a = &gb_cli_options[i];
				const struct gb_cli_option *b = &gb_cli_options[j];

				if (!gb_cli_takes(&gb_cli_commands[c], a->id) ||
					!gb_cli_takes(&gb_cli_commands[c], b->id))
					continue;
				assert_string_not_equal(a->name, b->name);
				assert_true(!a->letter || a->letter != b->letter);
			}
}

static char *help_of(const struct gb_cli_command *c)
{
	struct gb_buf b;

	gb_buf_init(&b, 0);
	gb_cli_help_command(c, &b);
	return gb_buf_take_str(&b);
}

static void test_help_is_whole(void **state)
{
	(void)state;
	for (size_t c = 0; c < CMD_COUNT; c++) {
		const struct gb_cli_command *cmd = &gb_cli_commands[c];
		char *help = help_of(cmd);

		assert_non_null(help);
		assert_true(gb_starts_with(help, "usage: glovebox "));
		assert_non_null(strstr(help, "\nexamples:\n  "));
		for (int i = 1; i < OPT_COUNT; i++) {
			const struct gb_cli_option *o = &gb_cli_options[i];
			char name[64];

			if (!gb_cli_takes(cmd, o->id))
				continue;
			snprintf(name, sizeof(name), "--%s", o->name);
			assert_non_null(strstr(help, name));
		}
		for (const char *line = help; *line; line += strcspn(line, "\n") + 1)
			assert_true(strcspn(line, "\n") <= 100);
		free(help);
	}
}

/* An option with a default says it, from the table of keys. */
static void test_help_says_defaults(void **state)
{
	char *help = help_of(gb_cli_command_find(NULL, "run"));
	char *flat = help;

	(void)state;
	for (char *p = help; *p; p++) {
		if (*p == '\n')
			*p = ' ';
		if (*p != ' ' || flat == help || flat[-1] != ' ')
			*flat++ = *p;
	}
	*flat = 0;
	assert_non_null(strstr(help, "(default: 2; setting machine.cpus)"));
	assert_non_null(strstr(help, "(default: 2G; setting machine.memory)"));
	assert_non_null(strstr(help, "example: -v ~/data:/data:ro"));
	free(help);
}

/* What the help shows as an example is a command line that we take. */
static void test_examples_parse(void **state)
{
	(void)state;
	for (size_t c = 0; c < CMD_COUNT; c++) {
		for (const char *const *e = gb_cli_commands[c].examples; *e; e++) {
			const char *from = strstr(*e, "glovebox ");
			struct gb_cli_args a;
			struct gb_err err = { 0 };
			char words[256];
			char *argv[32];
			int n;

			assert_non_null(from);
			snprintf(words, sizeof(words), "%s", from + strlen("glovebox "));
			words[strcspn(words, ")|")] = 0;
			n = split(words, argv, 32);
			if (gb_cli_parse(n, argv, &a, &err) < 0)
				fail_msg("%s: %s", *e, err.msg);
			assert_ptr_equal(a.command, &gb_cli_commands[c]);
			gb_cli_args_done(&a);
		}
	}
}

/* The shell itself checks its script: 0 fine, -1 when there is no such shell. */
static int check_script(const char *shell, const char *script)
{
	char path[] = "/tmp/gb-completion-XXXXXX";
	gb_auto_fd fd = mkostemp(path, O_CLOEXEC);
	const char *const argv[] = { shell, "-n", path, NULL };
	struct gb_spawn s = { .argv = (char *const *)argv };
	pid_t pid;
	int status = -1;
	int r = fd < 0 ? -2 : gb_fd_write_full(fd, script, strlen(script), NULL);

	if (r == 0 && gb_spawn(&s, &pid, NULL) < 0)
		r = -1;
	else if (r == 0 && gb_wait_child(pid, gb_deadline_ms(60000), &status, NULL) == 0)
		r = status;
	unlink(path);
	return r;
}

static void test_completion(void **state)
{
	const char *shell = *state;
	struct gb_buf b;
	char *script;
	int r;

	gb_buf_init(&b, 0);
	assert_true(gb_cli_completion(shell, &b));
	script = gb_buf_take_str(&b);
	assert_non_null(script);
	for (size_t c = 0; c < CMD_COUNT; c++)
		assert_non_null(strstr(script, gb_cli_commands[c].name));
	for (int i = 0; i < OPT_COUNT; i++)
		assert_non_null(strstr(script, gb_cli_options[i].name));
	r = check_script(shell, script);
	free(script);
	if (r == -1) {
		print_message("no %s here: its script was not checked\n", shell);
		skip();
	}
	assert_int_equal(r, 0);
}

static void test_completion_of_no_shell(void **state)
{
	struct gb_buf b;

	(void)state;
	gb_buf_init(&b, 0);
	assert_false(gb_cli_completion("tcsh", &b));
	gb_buf_done(&b);
}

static const struct CMUnitTest single_tests[] = {
	cmocka_unit_test(test_help_wins_over_mistakes),
	cmocka_unit_test(test_help_of_the_command_inside_is_its_own),
	cmocka_unit_test(test_last_value_wins),
	cmocka_unit_test(test_tables_are_in_order),
	cmocka_unit_test(test_options_are_told_apart),
	cmocka_unit_test(test_help_is_whole),
	cmocka_unit_test(test_help_says_defaults),
	cmocka_unit_test(test_examples_parse),
	cmocka_unit_test(test_completion_of_no_shell),
	{ "bash completion", test_completion, NULL, NULL, (void *)"bash" },
	{ "zsh completion", test_completion, NULL, NULL, (void *)"zsh" },
	{ "fish completion", test_completion, NULL, NULL, (void *)"fish" },
};

int main(void)
{
	static struct CMUnitTest tests[GB_ARRAY_SIZE(rows) + GB_ARRAY_SIZE(single_tests)];
	size_t n = 0;

	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++)
		tests[n++] = (struct CMUnitTest){ .name = rows[i].name,
			.test_func = test_row,
			.initial_state = (void *)&rows[i] };
	for (size_t i = 0; i < GB_ARRAY_SIZE(single_tests); i++)
		tests[n++] = single_tests[i];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
