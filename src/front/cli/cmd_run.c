/* run, exec and shell: a command in a machine. */
#include "front/cli/exec.h"
#include "front/cli/target.h"
#include "front/cli/term.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Cutting off a machine that nobody will use again needs no grace. */
#define REMOVE_DEADLINE_MS UINT64_C(10000)

/* What run, exec and shell hold while they work. */
struct session {
	struct gb_cli *cli;
	struct gb_config config;
	struct gb_cli_exec exec;
	char *name; /* owned */
	bool ephemeral;
};

static void session_done(struct session *s)
{
	gb_cli_exec_done(&s->exec);
	gb_config_done(&s->config);
	free(s->name);
}

/* Everything that can be wrong with the options is found before a machine is touched. */
static int session_init(struct session *s, struct gb_cli *cli, char **argv, size_t argc,
	bool tty, struct gb_err *err)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->cli = cli;
	r = gb_cli_load_config(cli, &s->config, err);
	if (r == 0)
		r = gb_cli_exec_init(&cli->args, argv, argc, tty,
			gb_config_list(&s->config, GB_CONFIG_ENVIRONMENT), &s->exec, err);
	return r < 0 ? r : gb_signals_catch(err);
}

/* A signal that came while the machine was started: do not begin. */
static int check_interrupted(struct gb_err *err)
{
	int signo = gb_signals_seen();

	if (signo)
		return gb_fail(err, GB_E_CANCELLED, "interrupted");
	return 0;
}

static int start_and_exec(struct session *s, struct gb_err *err)
{
	gb_auto(gb_client) *c = NULL;
	int r = check_interrupted(err);

	if (r == 0)
		r = gb_client_start(&s->cli->dirs, s->name, s->ephemeral, gb_step_show,
			NULL, &c, err);
	if (r == 0)
		r = check_interrupted(err);
	if (r < 0)
		return r;
	return gb_cli_exec_run(c, &s->exec, err);
}

/* Whatever happened, the machine of run --rm goes; a root in place stays, and in order. */
static void remove_ephemeral(struct session *s)
{
	struct gb_err err = {0};
	bool force = !gb_cli_given(&s->cli->args, OPT_ROOT);
	int r = gb_client_stop(&s->cli->dirs, s->name, REMOVE_DEADLINE_MS, force, &err);

	if (r == 0)
		r = gb_machine_remove(&s->cli->dirs, s->name, &err);
	if (r < 0 && r != GB_E_NOTFOUND)
		gb_say("cannot remove machine '%s': %s", s->name, err.msg);
}

static int run_ephemeral(struct session *s, struct gb_err *err)
{
	int r;

	gb_machine_sweep_ephemeral(&s->cli->dirs);
	s->ephemeral = true;
	r = gb_machine_ephemeral_name(&s->name, err);
	if (r == 0)
		r = gb_target_create(s->cli, &s->config, s->name, true, err);
	if (r < 0)
		return r;
	r = start_and_exec(s, err);
	remove_ephemeral(s);
	return r;
}

/* A machine keeps the folder with which it was created. */
static void note_folder(const struct gb_cli *cli, const struct gb_machine_spec *spec)
{
	if (gb_streq(spec->directory, cli->cwd))
		return;
	if (*spec->directory)
		gb_say("note: /work of machine '%s' is '%s', not the current directory",
			spec->name, spec->directory);
	else
		gb_say("note: machine '%s' has no folder at /work", spec->name);
}

static int run_named(struct session *s, struct gb_err *err)
{
	const char *name = gb_cli_value(&s->cli->args, OPT_NAME);
	struct gb_machine_spec spec = {0};
	int r = 0;

	if (name)
		s->name = strdup(name);
	else
		r = gb_target_here(s->cli, &s->name, err);
	if (r < 0)
		return r;
	if (!s->name)
		return gb_nomem(err);
	r = gb_target_ensure(s->cli, &s->config, s->name, &spec, err);
	if (r < 0)
		return r;
	note_folder(s->cli, &spec);
	gb_machine_spec_done(&spec);
	return start_and_exec(s, err);
}

int gb_cmd_run(struct gb_cli *cli, struct gb_err *err)
{
	__attribute__((cleanup(session_done))) struct session s = {0};
	bool ephemeral = gb_cli_given(&cli->args, OPT_RM);
	int r;

	if (ephemeral && gb_cli_given(&cli->args, OPT_NAME))
		return gb_fail(err, GB_E_INVALID,
			"--name and --rm exclude each other: the machine of --rm has no name");
	r = session_init(&s, cli, cli->args.operands, cli->args.operand_count,
		gb_cli_given(&cli->args, OPT_TTY), err);
	if (r < 0)
		return r;
	return ephemeral ? run_ephemeral(&s, err) : run_named(&s, err);
}

int gb_cmd_exec(struct gb_cli *cli, struct gb_err *err)
{
	__attribute__((cleanup(session_done))) struct session s = {0};
	gb_auto(gb_client) *c = NULL;
	int r = session_init(&s, cli, cli->args.operands + 1, cli->args.operand_count - 1,
		gb_cli_given(&cli->args, OPT_TTY), err);

	if (r == 0)
		r = gb_client_connect(&cli->dirs, cli->args.operands[0], &c, err);
	if (r < 0)
		return r;
	return gb_cli_exec_run(c, &s.exec, err);
}

/* Bash where it is; the user's own shell is what $SHELL says, if anything does. */
#define SHELL_SCRIPT                                                                     \
	"s=$SHELL; [ -x \"$s\" ] || s=/bin/bash; [ -x \"$s\" ] || s=/bin/sh; exec "      \
	"\"$s\" -l"

int gb_cmd_shell(struct gb_cli *cli, struct gb_err *err)
{
	__attribute__((cleanup(session_done))) struct session s = {0};
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)SHELL_SCRIPT, NULL};
	bool tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	struct gb_machine_spec spec = {0};
	int r = session_init(&s, cli, argv, 3, tty, err);

	if (r < 0)
		return r;
	if (!cli->args.operand_count)
		return run_named(&s, err);
	s.name = strdup(cli->args.operands[0]);
	if (!s.name)
		return gb_nomem(err);
	r = gb_machine_load(&cli->dirs, s.name, &spec, err);
	if (r < 0)
		return r;
	gb_machine_spec_done(&spec);
	return start_and_exec(&s, err);
}
