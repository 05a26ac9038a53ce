/* What a client writes: lines in pieces, messages in them, and the server's state behind. The
 * first byte says how large the pieces are, the second which revision was agreed on. Each call is
 * answered at once, so that its end is reached too. */
#include "front/mcp/server.h"

#include <string.h>

struct fuzz {
	struct gb_mcp mcp;
	struct gb_mcp_call *calls[GB_MCP_RUNNING_MAX];
	size_t count;
};

static void start_machine(void *ctx)
{
	(void)ctx;
}

static int start(void *ctx, struct gb_mcp_call *call, struct gb_err *err)
{
	struct fuzz *f = ctx;

	if (call->args.v[GB_ARG_TTY].boolean)
		return gb_fail(err, GB_E_CLOSED, "the machine is gone");
	f->calls[f->count++] = call;
	return 0;
}

static void cancel(void *ctx, struct gb_mcp_call *call)
{
	(void)ctx;
	(void)call;
}

static void drop_machine(void *ctx)
{
	(void)ctx;
}

static void complain(void *ctx, const char *text)
{
	(void)ctx;
	(void)text;
}

static const struct gb_mcp_ops ops = { start_machine, start, cancel, drop_machine, complain };

static void answer_all(struct fuzz *f)
{
	while (f->count) {
		struct gb_tool_answer a = { .success = true };
		struct gb_mcp_call *call = f->calls[--f->count];

		gb_buf_init(&a.text, 0);
		gb_mcp_done(&f->mcp, call, &a, NULL);
		gb_tool_answer_done(&a);
	}
}

static void read_lines(struct fuzz *f, struct gb_rpc_reader *r)
{
	const char *line;
	size_t len;
	int got;

	while ((got = gb_rpc_reader_next(r, &line, &len)) != 0) {
		if (got < 0)
			gb_mcp_too_long(&f->mcp);
		else
			gb_mcp_line(&f->mcp, line, len);
		if (f->mcp.machine == GB_MCP_STARTING)
			gb_mcp_up(&f->mcp);
		if (f->count == GB_MCP_RUNNING_MAX)
			answer_all(f);
	}
	gb_buf_reset(&f->mcp.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { .count = 0 };
	struct gb_rpc_reader r;
	size_t piece;

	if (size < 2)
		return 0;
	piece = (size_t)data[0] + 1;
	gb_rpc_reader_init(&r);
	if (gb_mcp_init(&f.mcp, &ops, &f, "", NULL) < 0)
		return 0;
	f.mcp.agreed = (enum gb_mcp_revision)(data[1] % (GB_MCP_LEGACY_LATEST + 1));
	for (size_t at = 2; at < size; at += piece) {
		if (gb_rpc_reader_add(&r, data + at, GB_MIN(piece, size - at), NULL) < 0)
			break;
		read_lines(&f, &r);
	}
	gb_mcp_leave(&f.mcp);
	answer_all(&f);
	gb_mcp_close(&f.mcp);
	gb_rpc_reader_done(&r);
	return 0;
}
