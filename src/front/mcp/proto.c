#include "front/mcp/proto.h"

#include <stdio.h>
#include <string.h>

#define META_PREFIX  "io.modelcontextprotocol/"
#define CACHE_MS     3600000 /* the tools of one build never change */

static const char *const revisions[GB_MCP_REVISIONS] = {
	[GB_MCP_2024_11_05] = "2024-11-05",
	[GB_MCP_2025_03_26] = "2025-03-26",
	[GB_MCP_2025_06_18] = "2025-06-18",
	[GB_MCP_2025_11_25] = "2025-11-25",
	[GB_MCP_2026_07_28] = "2026-07-28",
};

enum gb_mcp_revision gb_mcp_revision_find(const char *text)
{
	int r = 0;

	while (r < GB_MCP_REVISIONS && (!text || strcmp(revisions[r], text) != 0))
		r++;
	return (enum gb_mcp_revision)r;
}

const char *gb_mcp_revision_text(enum gb_mcp_revision r)
{
	return revisions[r];
}

static json_t *all_revisions(void)
{
	json_t *list = json_array();

	for (int r = GB_MCP_REVISIONS - 1; r >= 0; r--)
		json_array_append_new(list, json_string(revisions[r]));
	return list;
}

int gb_mcp_revision_of(const json_t *params, enum gb_mcp_revision agreed,
	enum gb_mcp_revision *ret, bool *modern, struct gb_rpc_fault *fault, json_t **ret_data)
{
	json_t *meta = json_object_get(params, "_meta");
	json_t *version = json_object_get(meta, META_PREFIX "protocolVersion");
	const char *text = json_string_value(version);

	*ret = agreed;
	*ret_data = NULL;
	*modern = version;
	if (!version)
		return 0;
	if (gb_mcp_revision_find(text) != GB_MCP_2026_07_28) {
		fault->code = GB_MCP_UNSUPPORTED_VERSION;
		snprintf(fault->text, sizeof(fault->text), "Unsupported protocol version");
		*ret_data = json_pack("{s:o, s:O}", "supported", all_revisions(), "requested",
			version);
		return -1;
	}
	if (!json_is_object(json_object_get(meta, META_PREFIX "clientCapabilities"))) {
		fault->code = GB_RPC_PARAMS;
		snprintf(fault->text, sizeof(fault->text),
			"Invalid params: _meta must have " META_PREFIX "clientCapabilities");
		return -1;
	}
	*ret = GB_MCP_2026_07_28;
	return 0;
}

char *gb_mcp_instructions(const char *folder)
{
	struct gb_buf b = { 0 };

	gb_buf_init(&b, 0);
	gb_buf_add_str(&b,
		"These tools work inside a Linux virtual machine of its own, not on the host. ");
	if (*folder) {
		gb_buf_add_str(&b, "The user's project folder '");
		gb_utf8_lossy((const uint8_t *)folder, strlen(folder), &b);
		gb_buf_add_str(&b,
			"' is at /work inside: what is changed there is changed for the user at "
			"once, and relative paths start there. Name files as /work/... or "
			"relative to it, never by their path on the host. ");
	}
	gb_buf_add_str(&b,
		"Nothing else of the host can be reached, and there is no network inside: what is "
		"not in the image or in the project cannot be downloaded. What is installed or "
		"written elsewhere in the machine stays in it. A command that has not ended "
		"after its yield time goes on as a session: poll it, type into it or interrupt "
		"it with write_stdin; what it leaves in the background ends with its shell. Up "
		"to 64 sessions live at a time. Edit files with apply_patch. The first call may "
		"take a while, until the machine has started.");
	return gb_buf_take_str(&b);
}

static json_t *server_info(enum gb_mcp_revision r)
{
	json_t *j = json_pack("{s:s, s:s}", "name", "glovebox", "version", GB_VERSION);

	if (j && r >= GB_MCP_2025_06_18)
		json_object_set_new(j, "title", json_string("glovebox virtual machine"));
	return j;
}

json_t *gb_mcp_initialized(const json_t *params, const char *instructions,
	enum gb_mcp_revision *ret_agreed)
{
	const char *wanted = json_string_value(json_object_get(params, "protocolVersion"));
	enum gb_mcp_revision r = gb_mcp_revision_find(wanted);

	/* what is unknown, or has no such begin, is offered the latest that does */
	if (r > GB_MCP_LEGACY_LATEST)
		r = GB_MCP_LEGACY_LATEST;
	*ret_agreed = r;
	return json_pack("{s:s, s:{s:{}}, s:o, s:s}", "protocolVersion", revisions[r],
		"capabilities", "tools", "serverInfo", server_info(r), "instructions",
		instructions);
}

json_t *gb_mcp_discovered(const char *instructions)
{
	json_t *j = json_pack("{s:o, s:{s:{}}, s:o, s:s, s:i, s:s}", "supportedVersions",
		all_revisions(), "capabilities", "tools", "serverInfo",
		server_info(GB_MCP_2026_07_28), "instructions", instructions, "ttlMs", CACHE_MS,
		"cacheScope", "public");

	return gb_mcp_result(j, GB_MCP_2026_07_28);
}

json_t *gb_mcp_result(json_t *result_consume, enum gb_mcp_revision r)
{
	if (!result_consume || r < GB_MCP_2026_07_28)
		return result_consume;
	json_object_set_new(result_consume, "resultType", json_string("complete"));
	json_object_set_new(result_consume, "_meta",
		json_pack("{s:o}", META_PREFIX "serverInfo", server_info(r)));
	return result_consume;
}

/* A picture goes as image content, and not as its structured result once more. */
static bool is_structured(const struct gb_tool *t, enum gb_mcp_revision r)
{
	return r >= GB_MCP_2025_06_18 && t->outputs && t->id != GB_TOOL_VIEW_IMAGE;
}

json_t *gb_mcp_tools(enum gb_mcp_revision r)
{
	json_t *list = json_array();
	json_t *j;

	for (size_t i = 0; i < GB_TOOL_COUNT; i++) {
		json_t *d = gb_tool_definition(&gb_tools[i]);

		if (!is_structured(&gb_tools[i], r))
			json_object_del(d, "outputSchema");
		if (r < GB_MCP_2025_06_18)
			json_object_del(d, "title");
		if (r < GB_MCP_2025_03_26)
			json_object_del(d, "annotations");
		json_array_append_new(list, d);
	}
	j = json_pack("{s:o}", "tools", list);
	if (j && r >= GB_MCP_2026_07_28) {
		json_object_set_new(j, "ttlMs", json_integer(CACHE_MS));
		json_object_set_new(j, "cacheScope", json_string("public"));
	}
	return gb_mcp_result(j, r);
}

static json_t *image_content(const struct gb_tool_answer *a)
{
	gb_auto_done(gb_buf) data = { 0 };

	gb_buf_init(&data, 0);
	gb_base64(a->picture.data, a->picture.len, &data);
	return data.error ? NULL : json_pack("{s:s, s:s%, s:s}", "type", "image", "data",
		data.data, data.len, "mimeType", gb_media_mime(a->picture.format));
}

json_t *gb_mcp_answer(const struct gb_tool_answer *a, enum gb_mcp_revision r)
{
	json_t *content = a->has_picture ? image_content(a)
		: json_pack("{s:s, s:s%}", "type", "text", "text",
			a->text.data ? (const char *)a->text.data : "", a->text.len);
	json_t *j = json_pack("{s:[o], s:b}", "content", content, "isError", !a->success);

	if (j && a->has_head && r >= GB_MCP_2025_06_18)
		json_object_set_new(j, "structuredContent", gb_tool_answer_json(a));
	return gb_mcp_result(j, r);
}

json_t *gb_mcp_failure(const char *text, enum gb_mcp_revision r)
{
	gb_auto_done(gb_buf) clean = { 0 };
	json_t *j;

	gb_buf_init(&clean, 0);
	gb_utf8_lossy((const uint8_t *)text, strlen(text), &clean);
	j = json_pack("{s:[{s:s, s:s%}], s:b}", "content", "type", "text", "text",
		clean.data ? (const char *)clean.data : "", clean.len, "isError", 1);
	return gb_mcp_result(j, r);
}

json_t *gb_mcp_progress(json_t *token, double progress, const char *text)
{
	gb_auto_done(gb_buf) clean = { 0 };

	gb_buf_init(&clean, 0);
	gb_utf8_lossy((const uint8_t *)text, strlen(text), &clean);
	return gb_rpc_notice("notifications/progress",
		json_pack("{s:O, s:f, s:s%}", "progressToken", token, "progress", progress,
			"message", clean.data ? (const char *)clean.data : "", clean.len));
}
