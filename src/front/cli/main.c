/* The command `glovebox`: finds the row of the table, runs it, prints one error. */
#include "front/cli/cli.h"

#include "base/buf.h"
#include "front/cli/help.h"
#include "front/cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static gb_cli_handler *const handlers[CMD_COUNT] = {
	[CMD_RUN] = gb_cmd_run,
	[CMD_EXEC] = gb_cmd_exec,
	[CMD_SHELL] = gb_cmd_shell,
	[CMD_CREATE] = gb_cmd_create,
	[CMD_START] = gb_cmd_start,
	[CMD_STOP] = gb_cmd_stop,
	[CMD_RM] = gb_cmd_rm,
	[CMD_LS] = gb_cmd_ls,
	[CMD_INSPECT] = gb_cmd_inspect,
	[CMD_SET] = gb_cmd_set,
	[CMD_LOGS] = gb_cmd_logs,
	[CMD_CP] = gb_cmd_cp,
	[CMD_MCP] = gb_cmd_mcp,
	[CMD_TOOL] = gb_cmd_tool,
	[CMD_SESSIONS] = gb_cmd_sessions,
	[CMD_ATTACH] = gb_cmd_attach,
	[CMD_IMAGE_IMPORT] = gb_cmd_image_import,
	[CMD_IMAGE_LS] = gb_cmd_image_ls,
	[CMD_IMAGE_RM] = gb_cmd_image_rm,
	[CMD_IMAGE_INSPECT] = gb_cmd_image_inspect,
	[CMD_CONFIG_SHOW] = gb_cmd_config_show,
	[CMD_CONFIG_CHECK] = gb_cmd_config_check,
	[CMD_CONFIG_PATH] = gb_cmd_config_path,
	[CMD_DOCTOR] = gb_cmd_doctor,
	[CMD_COMPLETION] = gb_cmd_completion,
	[CMD_VERSION] = gb_cmd_version,
	[CMD_HELP] = gb_cmd_help,
};

static int print_help(const struct gb_cli_args *a, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	int r;

	gb_buf_init(&text, 0);
	if (a->command)
		gb_cli_help_command(a->command, &text);
	else if (a->group)
		gb_cli_help_group(a->group, &text);
	else
		gb_cli_help_all(&text);
	r = gb_buf_check(&text, "help", err);
	if (r < 0)
		return r;
	fwrite(text.data, 1, text.len, stdout);
	return gb_flush(err);
}

/* What runs commands says with one code that it was glovebox that failed, for whatever reason:
 * 2 could be the command's own. */
static int usage_code(const struct gb_cli_command *c)
{
	return c && c->failure == GB_EXIT_OWN ? GB_EXIT_OWN : GB_EXIT_USAGE;
}

/* The row's words for "try ... --help". */
static void usage_failed(const struct gb_cli_args *a, const struct gb_err *err)
{
	const char *group = a->group ? a->group : "";
	const char *name = a->command ? a->command->name : "";

	gb_say("%s", err->msg);
	gb_say("try 'glovebox %s%s%s%s--help'", group, *group ? " " : "", name,
		*name ? " " : "");
}

static bool stdout_reader_is_gone(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) > 0 && p.revents & POLLERR;
}

/* Says why, once; the exit code. */
static int failed(const struct gb_err *err, int code)
{
	if (stdout_reader_is_gone())
		return GB_EXIT_PIPE;
	gb_say("%s", err->msg);
	if (err->code == GB_E_CANCELLED && gb_signals_seen())
		return 128 + gb_signals_seen();
	return code;
}

static int run_command(struct gb_cli *cli)
{
	const struct gb_cli_command *c = cli->args.command;
	struct gb_err err = {0};
	int r = gb_dirs_init(&cli->dirs, &err);

	if (r == 0) {
		cli->cwd = getcwd(NULL, 0);
		if (!cli->cwd)
			cli->cwd = strdup("");
		r = cli->cwd ? handlers[c->id](cli, &err) : gb_nomem(&err);
	}
	gb_progress_end();
	return r < 0 ? failed(&err, c->failure) : r;
}

/* Descriptors 0, 1 and 2 must be there, or the next file opened would become one. */
static void fill_standard_descriptors(void)
{
	for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = dup(fd))
		if (fd > 2) {
			close(fd);
			return;
		}
}

int main(int argc, char **argv)
{
	struct gb_cli cli = {0};
	struct gb_err err = {0};
	int code;

	fill_standard_descriptors();
	signal(SIGPIPE, SIG_IGN);
	if (gb_cli_parse(argc, argv, &cli.args, &err) < 0) {
		usage_failed(&cli.args, &err);
		code = usage_code(cli.args.command);
	} else if (cli.args.help) {
		code = print_help(&cli.args, &err) < 0 ? failed(&err, 1) : 0;
	} else {
		code = run_command(&cli);
	}
	gb_cli_args_done(&cli.args);
	gb_dirs_done(&cli.dirs);
	free(cli.cwd);
	return code;
}
