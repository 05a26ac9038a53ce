/* tool: one call of a model's tool, for scripts. */
#include "front/cli/space.h"
#include "front/cli/term.h"
#include "lib/tool_call.h"

#include "base/fd.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FAILED 1

static json_t *definition_json(const struct gb_tool *t)
{
	json_t *j = gb_tool_definition(t);

	if (j && t->grammar)
		json_object_set_new(j, "format",
			json_pack("{s:s, s:s, s:s}", "type", "grammar", "syntax", "lark",
				"definition", t->grammar));
	if (j)
		json_object_set_new(j, "parallel", json_boolean(t->parallel));
	return j;
}

static int list_tools(const struct gb_cli *cli, struct gb_err *err)
{
	struct gb_table table = { 0 };
	json_t *list = json_array();
	int r;

	gb_table_row(&table, (const char *const[]){ "TOOL", "WHAT IT DOES", NULL });
	for (size_t i = 0; i < GB_TOOL_COUNT; i++) {
		json_array_append_new(list, definition_json(&gb_tools[i]));
		gb_table_row(&table,
			(const char *const[]){ gb_tools[i].name, gb_tools[i].title, NULL });
	}
	if (gb_cli_given(&cli->args, OPT_JSON)) {
		r = gb_print_json(list, err);
	} else {
		json_decref(list);
		r = gb_table_print(&table, err);
	}
	gb_table_done(&table);
	return r;
}

static int read_input(struct gb_buf *to, struct gb_err *err)
{
	gb_buf_init(to, GB_TOOL_ARGS_MAX);
	for (;;) {
		uint8_t *room = gb_buf_reserve(to, 65536);
		size_t n;
		int r;

		if (!room)
			return gb_buf_check(to, "standard input", err);
		r = gb_fd_read_full(STDIN_FILENO, room, 65536, &n, err);
		if (r < 0)
			return gb_wrap(err, r, "cannot read standard input");
		to->len += n;
		if (n < 65536)
			return 0;
	}
}

static int take_args(const struct gb_cli *cli, struct gb_tool_args *ret, struct gb_err *err)
{
	const struct gb_tool *t = gb_tool_find(cli->args.operands[0]);
	const char *text = cli->args.operand_count > 1 ? cli->args.operands[1] : "{}";
	gb_auto_done(gb_buf) input = { 0 };
	int r;

	if (!t)
		return gb_fail(err, GB_E_INVALID, "there is no tool '%s' (glovebox tool lists them)",
			cli->args.operands[0]);
	if (strcmp(text, "-") != 0)
		return gb_tool_args_parse(t, text, strlen(text), ret, err);
	r = read_input(&input, err);
	return r < 0 ? r : gb_tool_args_parse(t, (char *)input.data, input.len, ret, err);
}

/* With --json always an object, whatever the tool: its success, text, and structured result. */
static int print_json(const struct gb_tool_answer *a, struct gb_err *err)
{
	json_t *value = gb_tool_answer_json(a);
	json_t *j = json_pack("{s:b, s:s%, s:o}", "success", a->success, "text",
		a->text.data ? (const char *)a->text.data : "", a->text.len, "value", value);

	return gb_print_json(j, err);
}

static int print_text(const struct gb_tool_answer *a, struct gb_err *err)
{
	fwrite(a->text.data, 1, a->text.len, stdout);
	if (!a->text.len || a->text.data[a->text.len - 1] != '\n')
		putchar('\n');
	return gb_flush(err);
}

static int call(struct gb_space *space, const struct gb_tool_args *args, struct gb_err *err)
{
	struct glovebox_tool_options options;
	struct glovebox_workspace *ws = NULL;
	struct gb_tool_answer answer;
	int r = gb_space_open(space, gb_step_show, NULL, &ws, err);

	gb_progress_end();
	if (r < 0)
		return r;
	gb_space_options(space, &options);
	r = gb_tool_call(glovebox_workspace_own_tools(ws), args, &options, &answer, err);
	if (r == 0) {
		r = gb_cli_given(&space->cli->args, OPT_JSON) ? print_json(&answer, err)
							     : print_text(&answer, err);
		if (r == 0 && !answer.success)
			r = FAILED;
		gb_tool_answer_done(&answer);
	}
	glovebox_workspace_free(ws);
	return r;
}

int gb_cmd_tool(struct gb_cli *cli, struct gb_err *err)
{
	__attribute__((cleanup(gb_space_done))) struct gb_space space = { 0 };
	struct gb_tool_args args = { 0 };
	int r;

	if (!cli->args.operand_count)
		return list_tools(cli, err);
	r = take_args(cli, &args, err);
	if (r == 0)
		r = gb_space_init(&space, cli, gb_cli_value(&cli->args, OPT_MACHINE), err);
	if (r == 0)
		r = call(&space, &args, err);
	gb_tool_args_done(&args);
	return r;
}
