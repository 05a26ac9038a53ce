/* mcp: the tools for a client that speaks the Model Context Protocol. */
#include "front/cli/space.h"
#include "front/cli/term.h"
#include "front/mcp/serve.h"

#include "base/log.h"

#include <string.h>

static int open_space(void *ctx, glovebox_progress_fn progress, void *progress_ctx,
	struct glovebox_workspace **ret, struct gb_err *err)
{
	return gb_space_open(ctx, progress, progress_ctx, ret, err);
}

static void complain(const char *text)
{
	gb_say("%s", text);
}

int gb_cmd_mcp(struct gb_cli *cli, struct gb_err *err)
{
	__attribute__((cleanup(gb_space_done))) struct gb_space space = { 0 };
	struct gb_mcp_serve serve = { .open = open_space, .ctx = &space, .complain = complain };
	int r = gb_space_init(&space, cli, gb_cli_value(&cli->args, OPT_MACHINE), err);

	if (r == 0)
		r = gb_signals_catch(err);
	if (r < 0)
		return r;
	gb_space_options(&space, &serve.options);
	serve.folder = space.folder;
	serve.signal_fd = gb_signals_fd();
	return gb_mcp_serve(&serve, err);
}
