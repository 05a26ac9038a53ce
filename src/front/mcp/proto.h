/* MCP's own words: revisions, what the server is, lists, results. Pure.
 *
 * Two eras are spoken in one process. Until 2025-11-25 a client begins with `initialize`, and the
 * revision that was agreed on holds from then on. From 2026-07-28 on there is no such begin: each
 * request names its revision in `_meta`, and is served by it alone. */
#ifndef GB_FRONT_MCP_PROTO_H
#define GB_FRONT_MCP_PROTO_H

#include "front/mcp/rpc.h"
#include "lib/tool_run.h"

#define GB_MCP_UNSUPPORTED_VERSION (-32022)

enum gb_mcp_revision {
	GB_MCP_2024_11_05,
	GB_MCP_2025_03_26, /* annotations, batches, progress in words */
	GB_MCP_2025_06_18, /* structured results, titles; no batches */
	GB_MCP_2025_11_25,
	GB_MCP_2026_07_28, /* without initialize */
	GB_MCP_REVISIONS,
};
#define GB_MCP_LEGACY_LATEST GB_MCP_2025_11_25

/* GB_MCP_REVISIONS for one that is not known. */
enum gb_mcp_revision gb_mcp_revision_find(const char *text);
const char *gb_mcp_revision_text(enum gb_mcp_revision r);

/* What a request says about itself. 0: *ret, and *modern whether it was the request that said so;
 * else *fault, and *ret_data a new reference for the error's data, or NULL. */
int gb_mcp_revision_of(const json_t *params, enum gb_mcp_revision agreed,
	enum gb_mcp_revision *ret, bool *modern, struct gb_rpc_fault *fault, json_t **ret_data);

/* What the model is told about the server as a whole; folder: host's path at /work, "" for
 * none. Owned. */
char *gb_mcp_instructions(const char *folder);

/* New references; NULL when memory is out. */
json_t *gb_mcp_initialized(const json_t *params, const char *instructions,
	enum gb_mcp_revision *ret_agreed);
json_t *gb_mcp_discovered(const char *instructions);
json_t *gb_mcp_tools(enum gb_mcp_revision r);
json_t *gb_mcp_answer(const struct gb_tool_answer *a, enum gb_mcp_revision r);
/* The answer of a call that failed, in words. */
json_t *gb_mcp_failure(const char *text, enum gb_mcp_revision r);
json_t *gb_mcp_progress(json_t *token, double progress, const char *text);
/* What every result of the newer revisions has; takes result over and returns it. */
json_t *gb_mcp_result(json_t *result_consume, enum gb_mcp_revision r);

#endif
