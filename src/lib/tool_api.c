/* The public functions about tools. */
#include "lib/tool_call.h"

#include "lib/request.h"

#include <string.h>

/* ---- definitions ---- */

static struct glovebox_tool_definition definitions[GB_TOOL_COUNT];
static pthread_once_t definitions_once = PTHREAD_ONCE_INIT;
static bool definitions_made;

static void make_definitions(void)
{
	for (size_t i = 0; i < GB_TOOL_COUNT; i++) {
		const struct gb_tool *t = &gb_tools[i];
		struct glovebox_tool_definition *d = &definitions[i];

		d->size = sizeof(*d);
		d->name = t->name;
		d->description = t->text;
		d->parameters_json = gb_tool_json_text(gb_tool_input_schema(t));
		d->output_schema_json = gb_tool_json_text(gb_tool_output_schema(t));
		d->grammar = t->grammar;
		d->flags = (t->read_only ? GLOVEBOX_TOOL_READ_ONLY : 0u) |
			(t->parallel ? GLOVEBOX_TOOL_PARALLEL : 0u) |
			(t->grammar ? GLOVEBOX_TOOL_FREEFORM : 0u);
		if (!d->parameters_json || (t->outputs && !d->output_schema_json))
			return;
	}
	definitions_made = true;
}

const struct glovebox_tool_definition *glovebox_tool_definitions(size_t *count)
{
	pthread_once(&definitions_once, make_definitions);
	*count = definitions_made ? GB_TOOL_COUNT : 0;
	return definitions;
}

/* ---- calls ---- */

static void result_done(struct glovebox_tool_result *r)
{
	free(r->text);
	free(r->structured_json);
	free(r->image);
	free(r->image_mime);
}

void glovebox_tool_result_free(struct glovebox_tool_result *result)
{
	if (result)
		result_done(result);
	free(result);
}

static int result_of(struct gb_tool_answer *a, struct glovebox_tool_result **ret, struct gb_err *err)
{
	struct glovebox_tool_result *r = calloc(1, sizeof(*r));

	if (!r)
		return gb_nomem(err);
	r->structured_json = gb_tool_json_text(gb_tool_answer_json(a));
	r->size = sizeof(*r);
	r->success = a->success;
	r->spawn_ns = a->spawn_ns;
	r->text_len = a->text.len;
	r->text = gb_buf_take_str(&a->text);
	if (a->has_picture) {
		r->image_mime = strdup(gb_media_mime(a->picture.format));
		r->image_len = a->picture.len;
		r->image = gb_take_ptr(a->picture.data);
	}
	if (!r->text || (a->has_picture && !r->image_mime) ||
		((a->has_head || a->has_picture) && !r->structured_json)) {
		glovebox_tool_result_free(r);
		return gb_nomem(err);
	}
	*ret = r;
	return 0;
}

/* Arguments that are wrong are an answer, in words for the model. */
static int refusal(const struct gb_err *why, struct glovebox_tool_result **ret, struct gb_err *err)
{
	struct gb_tool_answer a = { 0 };
	int r;

	gb_buf_init(&a.text, 0);
	gb_buf_add_str(&a.text, why->msg);
	r = result_of(&a, ret, err);
	gb_tool_answer_done(&a);
	return r;
}

/* 1: *args; 0: the arguments are wrong, *why says it; or a failure. */
static int take_args(const char *name, const char *json, struct gb_tool_args *args,
	struct gb_err *why, struct gb_err *err)
{
	const struct gb_tool *t = gb_tool_find(name);
	int r;

	if (!t)
		return gb_fail(err, GB_E_NOTFOUND, "there is no tool '%s'", name);
	r = gb_tool_args_parse(t, json, strlen(json), args, why);
	if (r == GB_E_NOMEM)
		return gb_nomem(err);
	return r == 0;
}

static int copy_options(const struct glovebox_tool_options *theirs,
	struct glovebox_tool_options *ours, struct gb_err *err)
{
	return theirs ? gb_options_copy(ours, sizeof(*ours), theirs, err) : 0;
}

/* In the calling thread: nobody can cancel it. */
static int call(struct glovebox_tools *tools, const char *name, const char *json,
	const struct glovebox_tool_options *theirs, struct glovebox_tool_result **ret,
	struct gb_err *err)
{
	struct glovebox_tool_options options = { 0 };
	struct gb_tool_args args = { 0 };
	struct gb_tool_answer answer;
	struct gb_err why = { 0 };
	int r = copy_options(theirs, &options, err);

	if (r == 0)
		r = gb_core_check(tools->core, err);
	if (r == 0)
		r = take_args(name, json, &args, &why, err);
	if (r <= 0)
		return r < 0 ? r : refusal(&why, ret, err);
	r = gb_tool_call(tools, &args, &options, &answer, err);
	gb_tool_args_done(&args);
	if (r < 0)
		return r;
	r = result_of(&answer, ret, err);
	gb_tool_answer_done(&answer);
	return r;
}

int glovebox_tool_call(struct glovebox_tools *tools, const char *name, const char *arguments_json,
	const struct glovebox_tool_options *options, struct glovebox_tool_result **ret,
	struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = call(tools, name, arguments_json, options, ret, &e);

	return r < 0 ? gb_give_error(err, &e, r) : 0;
}

static int start(struct glovebox_tools *tools, const char *name, const char *json,
	const struct glovebox_tool_options *theirs, struct glovebox_request **ret,
	struct gb_err *err)
{
	struct glovebox_tool_options options = { 0 };
	struct gb_tool_args args = { 0 };
	struct gb_err why = { 0 };
	int r = copy_options(theirs, &options, err);

	if (r == 0)
		r = take_args(name, json, &args, &why, err);
	if (r <= 0)
		return r < 0 ? r : gb_tool_call_refuse(tools, why.msg, ret, err);
	return gb_tool_call_start(tools, &args, &options, ret, err);
}

int glovebox_tool_start(struct glovebox_tools *tools, const char *name, const char *arguments_json,
	const struct glovebox_tool_options *options, struct glovebox_request **ret,
	struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = start(tools, name, arguments_json, options, ret, &e);

	return r < 0 ? gb_give_error(err, &e, r) : 0;
}

int glovebox_request_tool_result(struct glovebox_request *request,
	struct glovebox_tool_result **ret, struct glovebox_error *err)
{
	struct gb_tool_answer answer;
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0)
		r = gb_tool_call_answer(request, &answer, &e);
	if (r < 0)
		return gb_give_error(err, &e, r);
	r = result_of(&answer, ret, &e);
	gb_tool_answer_done(&answer);
	return r < 0 ? gb_give_error(err, &e, r) : 0;
}
