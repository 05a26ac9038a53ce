/* What every command of `glovebox` is given, and the commands themselves. */
#ifndef GB_FRONT_CLI_CLI_H
#define GB_FRONT_CLI_CLI_H

#include "base/path.h"
#include "config/config.h"
#include "front/cli/args.h"
#include "front/cli/out.h"

#define GB_EXIT_USAGE 2
#define GB_EXIT_OWN   125 /* run, exec, shell: glovebox itself failed, as docker has it */
#define GB_EXIT_PIPE  141 /* 128 + SIGPIPE: who read our output is gone */

struct gb_cli {
	struct gb_cli_args args;
	struct gb_dirs dirs;
	char *cwd; /* owned; "" when the working directory is gone */
};

/* Load the configuration with the command's options on top; complaints are printed. Call
 * gb_config_done on *ret even after a failure. */
int gb_cli_load_config(const struct gb_cli *cli, struct gb_config *ret, struct gb_err *err);
/* For that, and for messages. */
struct gb_config_where gb_cli_config_where(const struct gb_cli *cli);

/* Each returns the exit code, or a negative code with err filled. */
typedef int gb_cli_handler(struct gb_cli *cli, struct gb_err *err);
gb_cli_handler gb_cmd_run, gb_cmd_exec, gb_cmd_shell, gb_cmd_create, gb_cmd_start, gb_cmd_stop,
	gb_cmd_rm, gb_cmd_ls, gb_cmd_inspect, gb_cmd_set, gb_cmd_logs, gb_cmd_cp,
	gb_cmd_mcp, gb_cmd_tool, gb_cmd_sessions, gb_cmd_attach,
	gb_cmd_image_import, gb_cmd_image_ls, gb_cmd_image_rm, gb_cmd_image_inspect,
	gb_cmd_config_show, gb_cmd_config_check, gb_cmd_config_path, gb_cmd_doctor,
	gb_cmd_completion, gb_cmd_version, gb_cmd_help;

/* Do the same to each operand: failures are printed and remembered, the rest goes on.
 * Returns 0 or the command's failure code. */
int gb_cli_each(struct gb_cli *cli,
	int (*one)(struct gb_cli *cli, const char *name, struct gb_err *err));

#endif
