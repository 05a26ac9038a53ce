#include "rows.h"

#include "lib/tool.h"

#include <jansson.h>
#include <string.h>

struct refused_row {
	const char *name;
	const char *tool;
	const char *json;
	int code;
	const char *message;
};
static const struct refused_row refused[] = {
	{ "not JSON", "exec_command", "{\"cmd\":", GB_E_PARSE,
		"wrong arguments for exec_command: not JSON (line 1, column 7: " },
	{ "text behind it", "exec_command", "{\"cmd\":\"a\"} x", GB_E_PARSE,
		"wrong arguments for exec_command: not JSON" },
	{ "a name twice", "exec_command", "{\"cmd\":\"a\",\"cmd\":\"b\"}", GB_E_PARSE,
		"wrong arguments for exec_command: not JSON (line 1, column 16: duplicate object "
		"key" },
	{ "a list", "exec_command", "[]", GB_E_INVALID,
		"wrong arguments for exec_command: the arguments must be an object, not a list" },
	{ "nothing", "exec_command", "", GB_E_PARSE, "wrong arguments for exec_command: not JSON" },
	{ "missing", "exec_command", "{}", GB_E_INVALID,
		"wrong arguments for exec_command: 'cmd' is missing: a string is expected" },
	{ "null is missing", "exec_command", "{\"cmd\":null}", GB_E_INVALID,
		"wrong arguments for exec_command: 'cmd' must be a string, not null" },
	{ "an unknown name", "exec_command", "{\"cmd\":\"a\",\"cwd\":\"/\"}", GB_E_INVALID,
		"wrong arguments for exec_command: there is no 'cwd': the arguments are cmd, "
		"workdir, shell, login, tty, yield_time_ms, max_output_tokens, justification, "
		"prefix_rule, sandbox_permissions" },
	{ "an unknown name with a line end", "view_image", "{\"a\\nb\":1}", GB_E_INVALID,
		"wrong arguments for view_image: there is no 'a?b': the arguments are path, detail" },
	{ "a number for a string", "exec_command", "{\"cmd\":1}", GB_E_INVALID,
		"wrong arguments for exec_command: 'cmd' must be a string, not a number" },
	{ "a list for a string", "exec_command", "{\"cmd\":[\"ls\"]}", GB_E_INVALID,
		"wrong arguments for exec_command: 'cmd' must be a string, not a list" },
	{ "a string for a boolean", "exec_command", "{\"cmd\":\"a\",\"tty\":\"true\"}",
		GB_E_INVALID,
		"wrong arguments for exec_command: 'tty' must be true or false, not a string" },
	{ "a string for a number", "exec_command", "{\"cmd\":\"a\",\"yield_time_ms\":\"1000\"}",
		GB_E_INVALID,
		"wrong arguments for exec_command: 'yield_time_ms' must be a whole number, not a "
		"string" },
	{ "half a millisecond", "exec_command", "{\"cmd\":\"a\",\"yield_time_ms\":1000.5}",
		GB_E_INVALID,
		"wrong arguments for exec_command: 'yield_time_ms' must be a whole number, not "
		"1000.5" },
	{ "less than nothing", "exec_command", "{\"cmd\":\"a\",\"max_output_tokens\":-1}",
		GB_E_INVALID,
		"wrong arguments for exec_command: 'max_output_tokens' must not be less than 0" },
	{ "a NUL in a command", "exec_command", "{\"cmd\":\"a\\u0000b\"}", GB_E_INVALID,
		"wrong arguments for exec_command: 'cmd' must not hold a NUL character" },
	{ "an approval field of the wrong type", "exec_command",
		"{\"cmd\":\"a\",\"prefix_rule\":\"git\"}", GB_E_INVALID,
		"wrong arguments for exec_command: 'prefix_rule' must be a list of strings, not a "
		"string" },
	{ "a list with a number", "exec_command", "{\"cmd\":\"a\",\"prefix_rule\":[\"git\",1]}",
		GB_E_INVALID,
		"wrong arguments for exec_command: 'prefix_rule' must be a list of strings, but its "
		"entry 2 is a number" },
	{ "an unknown word", "exec_command", "{\"cmd\":\"a\",\"sandbox_permissions\":\"all\"}",
		GB_E_INVALID,
		"wrong arguments for exec_command: 'sandbox_permissions' must be \"use_default\" or "
		"\"require_escalated\", not 'all'" },
	{ "no session", "write_stdin", "{\"chars\":\"a\"}", GB_E_INVALID,
		"wrong arguments for write_stdin: 'session_id' is missing: a whole number is "
		"expected" },
	{ "an unknown detail", "view_image", "{\"path\":\"a\",\"detail\":\"low\"}", GB_E_INVALID,
		"wrong arguments for view_image: 'detail' must be \"high\" or \"original\", not "
		"'low'" },
	{ "a patch twice", "apply_patch", "{\"input\":\"a\",\"patch\":\"b\"}", GB_E_INVALID,
		"wrong arguments for apply_patch: 'patch' was given twice, under two names" },
	{ "no patch", "apply_patch", "{}", GB_E_INVALID,
		"wrong arguments for apply_patch: 'input' is missing: a string is expected" },
};

static void test_refused(void **state)
{
	const struct refused_row *r = *state;
	struct gb_tool_args args;
	struct gb_err err = { 0 };

	assert_int_equal(gb_tool_args_parse(gb_tool_find(r->tool), r->json, strlen(r->json), &args,
				 &err),
		r->code);
	assert_memory_equal(err.msg, r->message, strlen(r->message));
	assert_null(strchr(err.msg, '\n'));
}

struct taken_row {
	const char *name;
	const char *tool;
	const char *json;
	uint64_t yield_ms;
	size_t budget;
};
static const struct taken_row taken[] = {
	{ "defaults", "exec_command", "{\"cmd\":\"ls\"}", 10000, 40000 },
	{ "whole floats are whole", "exec_command",
		"{\"cmd\":\"ls\",\"yield_time_ms\":1000.0,\"max_output_tokens\":2e1}", 1000, 80 },
	{ "the shortest wait", "exec_command", "{\"cmd\":\"ls\",\"yield_time_ms\":250}", 250, 40000 },
	{ "shorter than that", "exec_command", "{\"cmd\":\"ls\",\"yield_time_ms\":249}", 250, 40000 },
	{ "the longest wait", "exec_command", "{\"cmd\":\"ls\",\"yield_time_ms\":30000}", 30000,
		40000 },
	{ "longer than that", "exec_command", "{\"cmd\":\"ls\",\"yield_time_ms\":30001}", 30000,
		40000 },
	{ "beyond any integer", "exec_command", "{\"cmd\":\"ls\",\"yield_time_ms\":1e300}", 30000,
		40000 },
	{ "no tokens", "exec_command", "{\"cmd\":\"ls\",\"max_output_tokens\":0}", 10000, 0 },
	{ "the most tokens", "exec_command", "{\"cmd\":\"ls\",\"max_output_tokens\":262144}", 10000,
		1048576 },
	{ "one more than that", "exec_command", "{\"cmd\":\"ls\",\"max_output_tokens\":262145}",
		10000, 1048576 },
	{ "approval fields are accepted", "exec_command",
		"{\"cmd\":\"ls\",\"justification\":\"why\",\"prefix_rule\":[\"git\"],"
		"\"sandbox_permissions\":\"require_escalated\"}",
		10000, 40000 },
	{ "null is left out", "exec_command",
		"{\"cmd\":\"ls\",\"workdir\":null,\"shell\":null,\"tty\":null,"
		"\"yield_time_ms\":null,\"prefix_rule\":null}",
		10000, 40000 },
	{ "a poll waits longer", "write_stdin", "{\"session_id\":1}", 5000, 40000 },
	{ "an empty poll too", "write_stdin", "{\"session_id\":1.0,\"chars\":\"\"}", 5000, 40000 },
	{ "a poll's shortest wait", "write_stdin", "{\"session_id\":1,\"yield_time_ms\":1}", 5000,
		40000 },
	{ "a poll's longest wait", "write_stdin", "{\"session_id\":1,\"yield_time_ms\":400000}",
		300000, 40000 },
	{ "typing waits shortly", "write_stdin", "{\"session_id\":1,\"chars\":\"y\\n\"}", 250, 40000 },
	{ "typing waits no longer than this", "write_stdin",
		"{\"session_id\":1,\"chars\":\"y\\n\",\"yield_time_ms\":99999}", 30000, 40000 },
	{ "a NUL can be typed", "write_stdin", "{\"session_id\":1,\"chars\":\"\\u0000\"}", 250,
		40000 },
};

static void test_taken(void **state)
{
	const struct taken_row *r = *state;
	struct gb_tool_args args;
	struct gb_err err = { 0 };

	assert_int_equal(gb_tool_args_parse(gb_tool_find(r->tool), r->json, strlen(r->json), &args,
				 &err),
		0);
	assert_int_equal(gb_tool_yield_ms(&args), r->yield_ms);
	assert_int_equal(gb_tool_budget(&args), r->budget);
	gb_tool_args_done(&args);
}

struct patch_row {
	const char *name;
	const char *text;
	const char *patch;
};
static const struct patch_row patches[] = {
	{ "input", "{\"input\":\"*** Begin\\n\"}", "*** Begin\n" },
	{ "patch", " {\"patch\":\"*** Begin\\n\"}", "*** Begin\n" },
	{ "bare text", "*** Begin Patch\n", "*** Begin Patch\n" },
	{ "a here-document", "<<'EOF'\n{\n", "<<'EOF'\n{\n" },
	{ "nothing", "", "" },
};

static void test_patch(void **state)
{
	const struct patch_row *r = *state;
	struct gb_tool_args args;

	assert_int_equal(gb_tool_args_parse(gb_tool_find("apply_patch"), r->text, strlen(r->text),
				 &args, NULL),
		0);
	assert_string_equal(args.v[GB_ARG_PATCH].text, r->patch);
	assert_int_equal(args.v[GB_ARG_PATCH].len, strlen(r->patch));
	gb_tool_args_done(&args);
}

/* Each string property at its cap and one byte beyond. */
static void test_caps(void **state)
{
	(void)state;
	for (size_t i = 0; i < GB_TOOL_COUNT; i++) {
		const struct gb_tool *t = &gb_tools[i];

		for (const struct gb_tool_property *p = t->inputs; p->name; p++) {
			if (p->type != GB_TOOL_STRING)
				continue;
			for (size_t more = 0; more < 2; more++) {
				char *text = malloc(p->max + 2);
				struct gb_tool_args args;
				struct gb_err err;
				json_t *j = json_object();
				int r;

				memset(text, 'x', p->max + 1);
				for (const struct gb_tool_property *q = t->inputs; q->name; q++)
					if (q->required && q->arg != p->arg)
						json_object_set_new(j, q->name,
							q->type == GB_TOOL_NUMBER ? json_integer(1) :
										    json_string(""));
				json_object_set_new(j, p->name, json_stringn(text, p->max + more));
				r = gb_tool_args_check(t, j, &args, &err);
				assert_int_equal(r, more ? GB_E_LIMIT : 0);
				if (r == 0)
					gb_tool_args_done(&args);
				json_decref(j);
				free(text);
			}
		}
	}
}

/* What is offered is what is taken: the schema's properties are the table's, and closed. */
static void test_schemas(void **state)
{
	static const char *const names[] = { "exec_command", "write_stdin", "apply_patch",
		"view_image" };

	(void)state;
	for (size_t i = 0; i < GB_TOOL_COUNT; i++) {
		const struct gb_tool *t = &gb_tools[i];
		json_t *d = gb_tool_definition(t);
		json_t *s = json_object_get(d, "inputSchema");
		json_t *properties = json_object_get(s, "properties");
		const char *name;
		json_t *v;

		assert_int_equal(t->id, i);
		assert_string_equal(t->name, names[i]);
		assert_string_equal(json_string_value(json_object_get(d, "name")), names[i]);
		assert_true(json_is_false(json_object_get(s, "additionalProperties")));
		json_object_foreach(properties, name, v)
			assert_true(strlen(json_string_value(json_object_get(v, "description"))) > 10);
		assert_true(strlen(t->text) > 40);
		json_decref(d);
	}
	assert_null(gb_tool_find("update_plan"));
}

static void test_exact_schema(void **state)
{
	json_t *d = gb_tool_definition(gb_tool_find("exec_command"));
	json_t *p = json_object_get(json_object_get(d, "inputSchema"), "properties");
	json_t *required = json_object_get(json_object_get(d, "inputSchema"), "required");
	json_t *o = json_object_get(json_object_get(d, "outputSchema"), "properties");

	(void)state;
	assert_int_equal(json_object_size(p), 10);
	assert_int_equal(json_array_size(required), 1);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(p, "yield_time_ms"), "type")),
		"number");
	assert_int_equal(json_object_size(o), 6);
	assert_true(json_is_false(
		json_object_get(json_object_get(d, "annotations"), "readOnlyHint")));
	assert_true(json_is_true(
		json_object_get(json_object_get(d, "annotations"), "destructiveHint")));
	json_decref(d);
}

int main(void)
{
	static struct rows_list list;

	rows_add(&list, refused, test_refused);
	rows_add(&list, taken, test_taken);
	rows_add(&list, patches, test_patch);
	rows_add_one(&list, "each string at its cap and beyond", test_caps);
	rows_add_one(&list, "what is offered is what is taken", test_schemas);
	rows_add_one(&list, "exec_command is offered as specified", test_exact_schema);
	return rows_run("lib tool args", &list);
}
