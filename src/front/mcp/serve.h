/* `glovebox mcp`: the server on standard input and output. */
#ifndef GB_FRONT_MCP_SERVE_H
#define GB_FRONT_MCP_SERVE_H

#include "base/err.h"
#include "glovebox.h"

struct gb_mcp_serve {
	const char *folder; /* host's folder at /work, "" for none */
	/* The machine, made and started when needed; in a thread of its own. Called again when
	 * the machine was lost. */
	int (*open)(void *ctx, glovebox_progress_fn progress, void *progress_ctx,
		struct glovebox_workspace **ret, struct gb_err *err);
	void *ctx;
	struct glovebox_tool_options options; /* of every call */
	int signal_fd; /* bytes are signals that end the server */
	void (*complain)(const char *text); /* to the operator */
};
/* Until the client leaves, or a signal comes: 0. Standard output carries the protocol only. */
int gb_mcp_serve(const struct gb_mcp_serve *s, struct gb_err *err);

#endif
