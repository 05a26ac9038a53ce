/* Arguments of a tool: the first byte names the tool. What is taken must be within what the tool
 * says of it. */
#include "lib/tool.h"

#include <stdlib.h>
#include <string.h>

static void demand(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gb_tool_args args;
	struct gb_err err = { 0 };
	const struct gb_tool *t;
	int r;

	if (!size)
		return 0;
	t = &gb_tools[data[0] % GB_TOOL_COUNT];
	r = gb_tool_args_parse(t, (const char *)data + 1, size - 1, &args, &err);
	if (r < 0) {
		demand(*err.msg && !memchr(err.msg, '\n', strlen(err.msg)));
		return 0;
	}
	for (const struct gb_tool_property *p = t->inputs; p->name; p++) {
		const struct gb_tool_value *v;

		if (p->arg == GB_ARG_IGNORED)
			continue;
		v = &args.v[p->arg];
		demand(!p->required || v->given);
		demand(p->type != GB_TOOL_STRING || v->len <= p->max);
		demand(!v->text || !v->text[v->len]);
		demand(p->raw || !v->text || strlen(v->text) == v->len);
		demand(p->type != GB_TOOL_NUMBER || v->number >= p->least);
	}
	demand(gb_tool_yield_ms(&args) >= GB_TOOL_YIELD_MIN);
	demand(gb_tool_yield_ms(&args) <= GB_TOOL_POLL_MAX);
	demand(gb_tool_budget(&args) <= GB_TOOL_OUTPUT_MAX);
	gb_tool_args_done(&args);
	return 0;
}
