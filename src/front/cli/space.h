/* The machine that mcp, tool, sessions and attach work in, reached through the library. */
#ifndef GB_FRONT_CLI_SPACE_H
#define GB_FRONT_CLI_SPACE_H

#include "front/cli/exec.h"
#include "glovebox.h"

/* Made from the options before any machine is touched. */
struct gb_space {
	struct gb_cli *cli;       /* borrowed */
	struct gb_config config;  /* owned, as all below */
	struct gb_cli_exec exec;  /* the environment that is passed on */
	struct gb_strv secrets;   /* values of it that look like secrets */
	char *name;               /* NULL with --rm, until it is opened */
	char *folder;             /* the host's at /work; "" for none */
};
/* name: --machine or an operand; NULL: --rm, or the machine of the current directory. */
int gb_space_init(struct gb_space *s, struct gb_cli *cli, const char *name, struct gb_err *err);
void gb_space_done(struct gb_space *s);
/* What -e, -w and -u (and the configuration) mean for a tool's call; borrowed from s. */
void gb_space_options(const struct gb_space *s, struct glovebox_tool_options *ret);
/* Made when it is not there, started when it does not run. Progress lines may be NULL. */
int gb_space_open(struct gb_space *s, glovebox_progress_fn progress, void *ctx,
	struct glovebox_workspace **ret, struct gb_err *err);
/* Only when it runs: GB_E_STATE else. */
int gb_space_connect(struct gb_space *s, struct glovebox_workspace **ret, struct gb_err *err);
/* Ours from the library's; returns the code. */
int gb_space_error(const struct glovebox_error *from, struct gb_err *err);

#endif
