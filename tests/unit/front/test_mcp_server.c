/* The server's state, driven by transcripts: lines in, lines out, without any machine. */
#include "rows.h"

#include "base/clock.h"
#include "front/mcp/server.h"

#include <string.h>

#define CALLS 600

struct fake {
	struct gb_mcp mcp;
	unsigned machines; /* asked for */
	unsigned dropped;
	struct gb_mcp_call *calls[CALLS];
	size_t count;
	size_t cancelled;
	char complaint[256];
};

static void start_machine(void *ctx)
{
	((struct fake *)ctx)->machines++;
}

static int start(void *ctx, struct gb_mcp_call *call, struct gb_err *err)
{
	struct fake *f = ctx;

	if (call->args.v[GB_ARG_CMD].text && strcmp(call->args.v[GB_ARG_CMD].text, "nope") == 0)
		return gb_fail(err, GB_E_NOMEM, "no thread");
	f->calls[f->count++] = call;
	return 0;
}

static void cancel(void *ctx, struct gb_mcp_call *call)
{
	(void)call;
	((struct fake *)ctx)->cancelled++;
}

static void drop_machine(void *ctx)
{
	((struct fake *)ctx)->dropped++;
}

static void complain(void *ctx, const char *text)
{
	struct fake *f = ctx;

	snprintf(f->complaint, sizeof(f->complaint), "%s", text);
}

static const struct gb_mcp_ops ops = { start_machine, start, cancel, drop_machine, complain };

static int set_up(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	*state = f;
	return f ? gb_mcp_init(&f->mcp, &ops, f, "/home/me/project", NULL) : -1;
}

static int tear_down(void **state)
{
	struct fake *f = *state;

	gb_mcp_close(&f->mcp);
	free(f);
	return 0;
}

static void say(struct fake *f, const char *line)
{
	gb_mcp_line(&f->mcp, line, strlen(line));
}

/* Everything that came out since the last time; NUL-terminated. */
static const char *heard(struct fake *f)
{
	static char text[1 << 20];
	size_t n = GB_MIN(f->mcp.out.len, sizeof(text) - 1);

	if (n)
		memcpy(text, f->mcp.out.data, n);
	text[n] = '\0';
	gb_buf_reset(&f->mcp.out);
	return text;
}

static void expect(struct fake *f, const char *text)
{
	assert_string_equal(heard(f), text);
}

static void expect_part(struct fake *f, const char *part)
{
	const char *text = heard(f);

	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

#define CALL(id, tool, args)                                                              \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\""   \
	tool "\",\"arguments\":" args "}}"
#define EXEC(id) CALL(id, "exec_command", "{\"cmd\":\"true\"}")
#define PATCH(id) CALL(id, "apply_patch", "{\"input\":\"x\"}")

static void answer(struct fake *f, struct gb_mcp_call *call, const char *text)
{
	struct gb_tool_answer a = { .success = true };

	gb_buf_init(&a.text, 0);
	gb_buf_add_str(&a.text, text);
	gb_mcp_done(&f->mcp, call, &a, NULL);
	gb_tool_answer_done(&a);
}

static void up(struct fake *f)
{
	gb_mcp_up(&f->mcp);
}

/* ---- revisions ---- */

struct revision_row {
	const char *name;
	const char *asked;
	const char *agreed;
};
static const struct revision_row revisions[] = {
	{ "2024-11-05", "\"2024-11-05\"", "2024-11-05" },
	{ "2025-03-26", "\"2025-03-26\"", "2025-03-26" },
	{ "2025-06-18", "\"2025-06-18\"", "2025-06-18" },
	{ "2025-11-25", "\"2025-11-25\"", "2025-11-25" },
	{ "one without initialize", "\"2026-07-28\"", "2025-11-25" },
	{ "an unknown one", "\"1999-01-01\"", "2025-11-25" },
	{ "none", "null", "2025-11-25" },
};

static void test_revision(void **state)
{
	const struct revision_row *row = *state;
	struct fake f = { 0 };
	char line[256];
	char want[128];

	gb_mcp_init(&f.mcp, &ops, &f, "", NULL);
	snprintf(line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":%s,\"capabilities\":{},\"clientInfo\":{\"name\":\"t\"}}}",
		row->asked);
	snprintf(want, sizeof(want), "\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":{\"tools\":{}}",
		row->agreed);
	say(&f, line);
	expect_part(&f, want);
	assert_string_equal(gb_mcp_revision_text(f.mcp.agreed), row->agreed);
	gb_mcp_close(&f.mcp);
}

/* What a revision does not know is not sent in it. */
static void test_words_by_revision(void **state)
{
	struct fake *f = *state;
	const char *list = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
	const char *text;

	f->mcp.agreed = GB_MCP_2024_11_05;
	say(f, list);
	text = heard(f);
	assert_non_null(strstr(text, "\"name\":\"apply_patch\""));
	assert_null(strstr(text, "annotations"));
	assert_null(strstr(text, "outputSchema"));
	f->mcp.agreed = GB_MCP_2025_03_26;
	say(f, list);
	text = heard(f);
	assert_non_null(strstr(text, "annotations"));
	assert_null(strstr(text, "outputSchema"));
	f->mcp.agreed = GB_MCP_2025_06_18;
	say(f, list);
	text = heard(f);
	assert_non_null(strstr(text, "outputSchema"));
	assert_null(strstr(text, "resultType"));
}

#define META(version, more)                                                               \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version "\"" more "}"
#define CAPABLE ",\"io.modelcontextprotocol/clientCapabilities\":{}"

static void test_modern(void **state)
{
	struct fake *f = *state;
	const char *text;

	say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" META("2026-07-28", CAPABLE) "}}");
	text = heard(f);
	assert_non_null(strstr(text, "\"supportedVersions\":[\"2026-07-28\",\"2025-11-25\""));
	assert_non_null(strstr(text, "\"resultType\":\"complete\""));
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}");
	expect_part(f, "supportedVersions");
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{" META("2026-07-28", CAPABLE) "}}");
	text = heard(f);
	assert_non_null(strstr(text, "\"ttlMs\":"));
	assert_non_null(strstr(text, "\"io.modelcontextprotocol/serverInfo\":"));
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\",\"params\":{" META("2026-07-28", "") "}}");
	expect_part(f, "\"code\":-32602");
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\",\"params\":{" META("1900-01-01", CAPABLE) "}}");
	expect_part(f, "\"error\":{\"code\":-32022,\"message\":\"Unsupported protocol version\",\"data\":{\"supported\":[\"2026-07-28\",");
	/* gone in this revision */
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"params\":{" META("2026-07-28", CAPABLE) "}}");
	expect_part(f, "\"code\":-32601");
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/call\",\"params\":{\"name\":\"exec_command\",\"arguments\":{\"cmd\":\"true\"}," META("2026-07-28", CAPABLE) "}}");
	up(f);
	answer(f, f->calls[0], "done");
	expect(f, "{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}],"
		  "\"isError\":false,\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":"
		  "{\"name\":\"glovebox\",\"version\":\"" GB_VERSION "\",\"title\":\"glovebox virtual machine\"}}}}\n");
}

/* ---- ordinary talk ---- */

static void test_errors(void **state)
{
	struct fake *f = *state;

	say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
	expect(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
	say(f, "{broken");
	expect_part(f, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,");
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"resources/list\"}");
	expect(f, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n");
	say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"no/such/notice\"}");
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
	expect(f, "");
	say(f, CALL("4", "update_plan", "{}"));
	expect(f, "{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-32602,\"message\":\"Unknown tool\"}}\n");
	gb_mcp_too_long(&f->mcp);
	expect_part(f, "\"id\":null,\"error\":{\"code\":-32600,");
	assert_int_equal(f->machines, 0);
}

static void test_wrong_arguments(void **state)
{
	struct fake *f = *state;

	say(f, CALL("1", "exec_command", "{\"cmd\":1}"));
	expect(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
		  "\"wrong arguments for exec_command: 'cmd' must be a string, not a number\"}],\"isError\":true}}\n");
	/* no machine is made for it */
	assert_int_equal(f->machines, 0);
}

static void test_batches(void **state)
{
	struct fake *f = *state;
	const char *two = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
			  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}," EXEC("2") "]";

	say(f, two);
	expect_part(f, "\"code\":-32600");
	f->mcp.agreed = GB_MCP_2025_03_26;
	say(f, two);
	expect(f, "");
	up(f);
	answer(f, f->calls[0], "x");
	expect(f, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":"
		  "{\"content\":[{\"type\":\"text\",\"text\":\"x\"}],\"isError\":false}}]\n");
	say(f, "[]");
	expect_part(f, "\"code\":-32600");
	say(f, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]");
	expect(f, "");
}

/* ---- calls ---- */

static void test_lazy_machine(void **state)
{
	struct fake *f = *state;

	say(f, EXEC("1"));
	say(f, EXEC("2"));
	assert_int_equal(f->machines, 1);
	assert_int_equal(f->count, 0);
	up(f);
	assert_int_equal(f->count, 2);
	/* in whatever order they end */
	answer(f, f->calls[1], "b");
	expect_part(f, "\"id\":2");
	answer(f, f->calls[0], "a");
	expect_part(f, "\"id\":1");
	assert_int_equal(f->mcp.running, 0);
}

static void test_machine_fails(void **state)
{
	struct fake *f = *state;
	struct gb_err why = { .code = GB_E_NOTFOUND, .msg = "no image in '/home/me/.local'" };
	const char *text;

	say(f, EXEC("1"));
	gb_mcp_failed(&f->mcp, &why);
	text = heard(f);
	assert_non_null(strstr(text, "\"id\":1,\"result\":{\"content\":"));
	assert_non_null(strstr(text, "\"isError\":true"));
	/* the operator gets all, the model nothing of the host */
	assert_null(strstr(text, "/home/me"));
	assert_string_equal(f->complaint, why.msg);
	say(f, EXEC("2"));
	assert_int_equal(f->machines, 2);
}

static void test_machine_lost(void **state)
{
	struct fake *f = *state;
	struct gb_err why = { .code = GB_E_CLOSED, .msg = "machine 'x' is gone: its VM was killed" };
	const char *text;

	say(f, EXEC("1"));
	say(f, EXEC("2"));
	up(f);
	gb_mcp_done(&f->mcp, f->calls[0], NULL, &why);
	text = heard(f);
	assert_non_null(strstr(text, "\"isError\":true"));
	assert_null(strstr(text, "killed"));
	assert_string_equal(f->complaint, why.msg);
	assert_int_equal(f->dropped, 1);
	/* the next call gets a new machine, which an old call's failure leaves alone */
	say(f, EXEC("3"));
	assert_int_equal(f->machines, 2);
	up(f);
	gb_mcp_done(&f->mcp, f->calls[1], NULL, &why);
	assert_int_equal(f->dropped, 1);
	assert_int_equal(f->mcp.machine, GB_MCP_UP);
}

static void test_patches_in_turn(void **state)
{
	struct fake *f = *state;

	up(f);
	say(f, PATCH("1"));
	say(f, PATCH("2"));
	say(f, EXEC("3"));
	say(f, PATCH("4"));
	assert_int_equal(f->count, 2); /* 1 and 3 */
	answer(f, f->calls[0], "a");
	assert_int_equal(f->count, 3);
	assert_int_equal(json_integer_value(f->calls[2]->id), 2);
	answer(f, f->calls[2], "b");
	assert_int_equal(json_integer_value(f->calls[3]->id), 4);
	answer(f, f->calls[3], "c");
	answer(f, f->calls[1], "d");
}

static void test_places(void **state)
{
	struct fake *f = *state;
	char line[256];

	up(f);
	for (int i = 0; i < GB_MCP_RUNNING_MAX + GB_MCP_WAITING_MAX; i++) {
		snprintf(line, sizeof(line), EXEC("%d"), i);
		say(f, line);
	}
	expect(f, "");
	assert_int_equal(f->count, GB_MCP_RUNNING_MAX);
	say(f, EXEC("9999"));
	expect_part(f, "Too many calls");
	answer(f, f->calls[0], "a");
	assert_int_equal(f->count, GB_MCP_RUNNING_MAX + 1);
	heard(f);
	for (size_t i = 1; i < f->count; i++)
		answer(f, f->calls[i], "a");
	assert_int_equal(f->count, GB_MCP_RUNNING_MAX + GB_MCP_WAITING_MAX);
	assert_int_equal(f->mcp.running + f->mcp.waiting, 0);
}

static void test_same_id(void **state)
{
	struct fake *f = *state;

	up(f);
	say(f, EXEC("1"));
	say(f, EXEC("1"));
	expect_part(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,");
	answer(f, f->calls[0], "a");
	say(f, EXEC("1"));
	assert_int_equal(f->count, 2);
}

#define CANCEL(id)                                                                        \
	"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

static void test_cancel(void **state)
{
	struct fake *f = *state;
	struct gb_err why = { .code = GB_E_CANCELLED, .msg = "cancelled" };

	say(f, EXEC("1"));
	say(f, CANCEL("1")); /* it waits for the machine */
	assert_int_equal(f->mcp.waiting, 0);
	up(f);
	assert_int_equal(f->count, 0);
	say(f, EXEC("\"2\""));
	say(f, EXEC("3"));
	say(f, CANCEL("2")); /* another id: a number */
	assert_int_equal(f->cancelled, 0);
	say(f, CANCEL("\"2\""));
	say(f, CANCEL("\"2\""));
	assert_int_equal(f->cancelled, 1);
	gb_mcp_done(&f->mcp, f->calls[0], NULL, &why);
	say(f, CANCEL("99"));
	say(f, CANCEL("null"));
	expect(f, "");
	answer(f, f->calls[1], "x");
	expect_part(f, "\"id\":3");
	assert_string_equal(f->complaint, "");
}

static void test_progress(void **state)
{
	struct fake *f = *state;

	gb_mcp_tick(&f->mcp, 0);
	say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"exec_command\","
	       "\"arguments\":{\"cmd\":\"x\"},\"_meta\":{\"progressToken\":\"p\"}}}");
	say(f, EXEC("2"));
	gb_mcp_note(&f->mcp, "making a template");
	expect(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\","
		  "\"progress\":1.0,\"message\":\"making a template\"}}\n");
	up(f);
	assert_int_equal(gb_mcp_tick(&f->mcp, 1), GB_MCP_BEAT_MS * GB_NS_MS);
	expect(f, "");
	gb_mcp_tick(&f->mcp, GB_MCP_BEAT_MS * GB_NS_MS);
	expect_part(f, "\"progress\":2.0,\"message\":\"running\"");
	answer(f, f->calls[0], "x");
	answer(f, f->calls[1], "x");
	heard(f);
	assert_true(gb_mcp_tick(&f->mcp, UINT64_MAX - 1) == UINT64_MAX);
	expect(f, "");
}

static void test_leave(void **state)
{
	struct fake *f = *state;
	struct gb_err why = { .code = GB_E_CANCELLED, .msg = "cancelled" };

	up(f);
	say(f, PATCH("1"));
	say(f, PATCH("2"));
	gb_mcp_leave(&f->mcp);
	expect_part(f, "\"id\":2,\"result\":{");
	assert_int_equal(f->cancelled, 1);
	gb_mcp_done(&f->mcp, f->calls[0], NULL, &why);
	expect_part(f, "\"id\":1,\"result\":{");
	assert_null(f->mcp.first);
}

static void test_start_refused(void **state)
{
	struct fake *f = *state;

	up(f);
	say(f, CALL("1", "exec_command", "{\"cmd\":\"nope\"}"));
	expect_part(f, "\"isError\":true");
	assert_string_equal(f->complaint, "no thread");
	assert_int_equal(f->dropped, 0);
}

/* ---- results ---- */

static void test_structured(void **state)
{
	struct fake *f = *state;
	struct gb_tool_answer a = { .success = true, .has_head = true,
		.head = { "0a1b2c", 0.5, true, 3, 0, 2 } };

	f->mcp.agreed = GB_MCP_2025_06_18;
	up(f);
	say(f, EXEC("1"));
	gb_buf_init(&a.text, 0);
	gb_tool_head_text(&a.head, &a.text);
	a.output_at = a.text.len;
	gb_buf_add(&a.text, "a\0\xef\xbf\xbd", 5);
	gb_mcp_done(&f->mcp, f->calls[0], &a, NULL);
	gb_tool_answer_done(&a);
	expect(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
		  "\"Chunk ID: 0a1b2c\\nWall time: 0.5000 seconds\\nProcess exited with code 3\\n"
		  "Original token count: 2\\nOutput:\\na\\u0000\xef\xbf\xbd\"}],\"isError\":false,"
		  "\"structuredContent\":{\"chunk_id\":\"0a1b2c\",\"wall_time_seconds\":0.5,\"exit_code\":3,"
		  "\"original_token_count\":2,\"output\":\"a\\u0000\xef\xbf\xbd\"}}}\n");
}

static void test_picture(void **state)
{
	struct fake *f = *state;
	struct gb_tool_answer a = { .success = true, .has_picture = true,
		.picture = { .format = GB_MEDIA_PNG } };

	up(f);
	say(f, CALL("1", "view_image", "{\"path\":\"a.png\"}"));
	gb_buf_init(&a.text, 0);
	a.picture.data = (uint8_t *)strdup("foob");
	a.picture.len = 4;
	a.detail = strdup("high");
	gb_mcp_done(&f->mcp, f->calls[0], &a, NULL);
	gb_tool_answer_done(&a);
	expect(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"image\",\"data\":\"Zm9vYg==\","
		  "\"mimeType\":\"image/png\"}],\"isError\":false}}\n");
}

static void test_instructions(void **state)
{
	struct fake *f = *state;

	assert_non_null(strstr(f->mcp.instructions, "/work"));
	assert_non_null(strstr(f->mcp.instructions, "/home/me/project"));
	assert_non_null(strstr(f->mcp.instructions, "network"));
	assert_non_null(strstr(f->mcp.instructions, "write_stdin"));
}

#define ONE(name, fn) { name, fn, set_up, tear_down, NULL }

int main(void)
{
	static struct rows_list list;
	static const struct CMUnitTest tests[] = {
		ONE("what a revision does not know is not sent in it", test_words_by_revision),
		ONE("requests that name their revision", test_modern),
		ONE("errors leave the server alive", test_errors),
		ONE("wrong arguments are an answer for the model", test_wrong_arguments),
		ONE("lists of messages by revision", test_batches),
		ONE("the machine is started by the first call", test_lazy_machine),
		ONE("a machine that cannot be started", test_machine_fails),
		ONE("a machine that is lost", test_machine_lost),
		ONE("patches are applied in turn", test_patches_in_turn),
		ONE("places are limited", test_places),
		ONE("an id that is in use", test_same_id),
		ONE("cancelled calls get no answer", test_cancel),
		ONE("progress for those who asked", test_progress),
		ONE("the client leaves", test_leave),
		ONE("a call that cannot be started", test_start_refused),
		ONE("structured results", test_structured),
		ONE("pictures", test_picture),
		ONE("instructions", test_instructions),
	};

	rows_add(&list, revisions, test_revision);
	for (size_t i = 0; i < GB_ARRAY_SIZE(tests); i++)
		list.tests[list.n++] = tests[i];
	return rows_run("front mcp server", &list);
}
