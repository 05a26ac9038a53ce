#include "lib/tool.h"
#include "lib/tool_run.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- out: schemas ---- */

static json_t *words_json(const char *const *words)
{
	json_t *list = json_array();

	for (; list && *words; words++)
		json_array_append_new(list, json_string(*words));
	return list;
}

static json_t *property_json(const struct gb_tool_property *p)
{
	static const char *const types[] = {
		[GB_TOOL_STRING] = "string",
		[GB_TOOL_BOOLEAN] = "boolean",
		[GB_TOOL_NUMBER] = "number",
		[GB_TOOL_WORD] = "string",
		[GB_TOOL_STRINGS] = "array",
	};
	json_t *j = json_pack("{s:s, s:s}", "type", types[p->type], "description", p->text);

	if (j && p->words)
		json_object_set_new(j, "enum", words_json(p->words));
	if (j && p->type == GB_TOOL_STRINGS)
		json_object_set_new(j, "items", json_pack("{s:s}", "type", "string"));
	return j;
}

static json_t *schema(const struct gb_tool_property *list)
{
	json_t *properties = json_object();
	json_t *required = json_array();

	for (const struct gb_tool_property *p = list; p->name; p++) {
		if (p->hidden)
			continue;
		json_object_set_new(properties, p->name, property_json(p));
		if (p->required)
			json_array_append_new(required, json_string(p->name));
	}
	return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties,
		"required", required, "additionalProperties", 0);
}

json_t *gb_tool_input_schema(const struct gb_tool *t)
{
	return schema(t->inputs);
}

json_t *gb_tool_output_schema(const struct gb_tool *t)
{
	return t->outputs ? schema(t->outputs) : json_null();
}

json_t *gb_tool_definition(const struct gb_tool *t)
{
	json_t *j = json_pack("{s:s, s:s, s:s, s:o}", "name", t->name, "title", t->title,
		"description", t->text, "inputSchema", gb_tool_input_schema(t));

	if (j && t->outputs)
		json_object_set_new(j, "outputSchema", gb_tool_output_schema(t));
	if (j)
		json_object_set_new(j, "annotations",
			json_pack("{s:s, s:b, s:b, s:b, s:b}", "title", t->title, "readOnlyHint",
				t->read_only, "destructiveHint", t->destructive, "idempotentHint",
				t->read_only, "openWorldHint", 0));
	return j;
}

char *gb_tool_json_text(json_t *consume)
{
	char *text = consume && !json_is_null(consume)
		? json_dumps(consume, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(consume);
	return text;
}

static json_t *session_json(const struct gb_tool_answer *a)
{
	const struct gb_tool_head *h = &a->head;
	json_t *j = json_pack("{s:s, s:f}", "chunk_id", h->chunk_id, "wall_time_seconds",
		h->wall_seconds);

	if (j && h->exited)
		json_object_set_new(j, "exit_code", json_integer(h->exit_code));
	else if (j)
		json_object_set_new(j, "session_id", json_integer((json_int_t)h->session));
	if (j) {
		json_object_set_new(j, "original_token_count", json_integer((json_int_t)h->tokens));
		json_object_set_new(j, "output",
			json_stringn((const char *)a->text.data + a->output_at,
				a->text.len - a->output_at));
	}
	return j;
}

static json_t *picture_json(const struct gb_tool_answer *a)
{
	gb_auto_done(gb_buf) url = { 0 };

	gb_buf_init(&url, 0);
	gb_buf_printf(&url, "data:%s;base64,", gb_media_mime(a->picture.format));
	gb_base64(a->picture.data, a->picture.len, &url);
	if (url.error)
		return NULL;
	return json_pack("{s:s%, s:s}", "image_url", url.data, url.len, "detail", a->detail);
}

json_t *gb_tool_answer_json(const struct gb_tool_answer *a)
{
	if (a->has_head)
		return session_json(a);
	return a->has_picture ? picture_json(a) : json_null();
}

/* ---- in: arguments ---- */

/* A name that came from outside, fit to be repeated: short, and on one line. */
static const char *safe_name(const char *name, char *out, size_t size)
{
	size_t n = 0;

	for (; *name && n + 1 < size; name++)
		out[n++] = (unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name;
	/* not in the middle of a character */
	while (*name && n && ((unsigned char)out[n - 1] & 0xc0) == 0x80)
		n--;
	if (*name && n && (unsigned char)out[n - 1] >= 0xc0)
		n--;
	out[n] = '\0';
	return out;
}

static const char *expected(const struct gb_tool_property *p, char *out, size_t size)
{
	static const char *const texts[] = {
		[GB_TOOL_STRING] = "a string",
		[GB_TOOL_BOOLEAN] = "true or false",
		[GB_TOOL_NUMBER] = "a whole number",
		[GB_TOOL_STRINGS] = "a list of strings",
	};
	int n = 0;

	if (p->type != GB_TOOL_WORD)
		return texts[p->type];
	for (const char *const *w = p->words; *w && n >= 0 && (size_t)n < size; w++)
		n += snprintf(out + n, size - (size_t)n, "%s\"%s\"", w == p->words ? "" : " or ",
			*w);
	return out;
}

static const char *found(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a number";
	case JSON_REAL:
		return "a number";
	case JSON_TRUE:
		return "true";
	case JSON_FALSE:
		return "false";
	default:
		return "null";
	}
}

static int wrong_type(const struct gb_tool_property *p, const json_t *v, struct gb_err *err)
{
	char words[128] = "";

	return gb_fail(err, GB_E_INVALID, "'%s' must be %s, not %s", p->name,
		expected(p, words, sizeof(words)), found(v));
}

static int take_string(const struct gb_tool_property *p, const json_t *v,
	struct gb_tool_value *ret, struct gb_err *err)
{
	size_t len = json_string_length(v);
	const char *text = json_string_value(v);

	if (!json_is_string(v))
		return wrong_type(p, v, err);
	if (len > p->max)
		return gb_fail(err, GB_E_LIMIT, "'%s' is too long: %zu bytes, at most %zu are taken",
			p->name, len, p->max);
	if (!p->raw && memchr(text, 0, len))
		return gb_fail(err, GB_E_INVALID, "'%s' must not hold a NUL character", p->name);
	ret->text = malloc(len + 1);
	if (!ret->text)
		return gb_nomem(err);
	memcpy(ret->text, text, len);
	ret->text[len] = '\0';
	ret->len = len;
	return 0;
}

/* Models send 1000.0 for 1000. What is beyond an int64_t is clamped by who uses it. */
static int take_number(const struct gb_tool_property *p, const json_t *v,
	struct gb_tool_value *ret, struct gb_err *err)
{
	const double most = 9007199254740992.0; /* 2^53: doubles have no fractions from here on */
	double real = json_real_value(v);

	if (!json_is_number(v))
		return wrong_type(p, v, err);
	if (json_is_integer(v))
		ret->number = json_integer_value(v);
	else if (real != floor(real))
		return gb_fail(err, GB_E_INVALID, "'%s' must be a whole number, not %g", p->name,
			real);
	else
		ret->number = (int64_t)GB_MAX(GB_MIN(real, most), -most);
	if (ret->number < p->least)
		return gb_fail(err, GB_E_INVALID, "'%s' must not be less than %lld", p->name,
			(long long)p->least);
	return 0;
}

static int take_word(const struct gb_tool_property *p, const json_t *v,
	struct gb_tool_value *ret, struct gb_err *err)
{
	char words[128] = "";
	char name[GB_TOOL_WORD_MAX];

	if (!json_is_string(v))
		return wrong_type(p, v, err);
	for (const char *const *w = p->words; *w; w++)
		if (strlen(*w) == json_string_length(v) && strcmp(*w, json_string_value(v)) == 0) {
			ret->text = strdup(*w);
			ret->len = strlen(*w);
			return ret->text ? 0 : gb_nomem(err);
		}
	return gb_fail(err, GB_E_INVALID, "'%s' must be %s, not '%s'", p->name,
		expected(p, words, sizeof(words)),
		safe_name(json_string_value(v), name, sizeof(name)));
}

static int check_strings(const struct gb_tool_property *p, const json_t *v, struct gb_err *err)
{
	if (!json_is_array(v))
		return wrong_type(p, v, err);
	if (json_array_size(v) > GB_TOOL_LIST_MAX)
		return gb_fail(err, GB_E_LIMIT, "'%s' has %zu entries, at most %u are taken",
			p->name, json_array_size(v), GB_TOOL_LIST_MAX);
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!json_is_string(json_array_get(v, i)))
			return gb_fail(err, GB_E_INVALID,
				"'%s' must be a list of strings, but its entry %zu is %s", p->name,
				i + 1, found(json_array_get(v, i)));
	return 0;
}

static int take_value(const struct gb_tool_property *p, const json_t *v,
	struct gb_tool_value *ret, struct gb_err *err)
{
	switch (p->type) {
	case GB_TOOL_STRING:
		return take_string(p, v, ret, err);
	case GB_TOOL_NUMBER:
		return take_number(p, v, ret, err);
	case GB_TOOL_WORD:
		return take_word(p, v, ret, err);
	case GB_TOOL_STRINGS:
		return check_strings(p, v, err);
	case GB_TOOL_BOOLEAN:
		break;
	}
	if (!json_is_boolean(v))
		return wrong_type(p, v, err);
	ret->boolean = json_is_true(v);
	return 0;
}

static const struct gb_tool_property *find_property(const struct gb_tool *t, const char *name)
{
	for (const struct gb_tool_property *p = t->inputs; p->name; p++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

static int unknown_property(const struct gb_tool *t, const char *name, struct gb_err *err)
{
	char list[256] = "";
	char safe[GB_TOOL_WORD_MAX];
	size_t n = 0;

	for (const struct gb_tool_property *p = t->inputs; p->name && n < sizeof(list); p++)
		if (!p->hidden)
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
				p->name);
	return gb_fail(err, GB_E_INVALID, "there is no '%s': the arguments are %s",
		safe_name(name, safe, sizeof(safe)), list);
}

static int take_one(const struct gb_tool *t, const char *name, const json_t *v,
	struct gb_tool_args *args, struct gb_err *err)
{
	const struct gb_tool_property *p = find_property(t, name);
	gb_auto_free char *thrown_away = NULL;
	struct gb_tool_value ignored = { 0 };
	struct gb_tool_value *to;
	int r;

	if (!p)
		return unknown_property(t, name, err);
	/* as good as left out: many models fill in what they do not use */
	if (json_is_null(v) && !p->required)
		return 0;
	to = p->arg == GB_ARG_IGNORED ? &ignored : &args->v[p->arg];
	if (to->given)
		return gb_fail(err, GB_E_INVALID, "'%s' was given twice, under two names", p->name);
	r = take_value(p, v, to, err);
	to->given = r == 0;
	thrown_away = ignored.text;
	return r;
}

static int check_required(const struct gb_tool_args *args, struct gb_err *err)
{
	char words[128] = "";

	for (const struct gb_tool_property *p = args->tool->inputs; p->name; p++)
		if (p->required && !args->v[p->arg].given)
			return gb_fail(err, GB_E_INVALID, "'%s' is missing: %s is expected",
				p->name, expected(p, words, sizeof(words)));
	return 0;
}

static int take_all(const struct gb_tool *t, const json_t *arguments, struct gb_tool_args *args,
	struct gb_err *err)
{
	const char *name;
	json_t *v;
	int r = 0;

	if (arguments && !json_is_object(arguments))
		return gb_fail(err, GB_E_INVALID, "the arguments must be an object, not %s",
			found(arguments));
	json_object_foreach((json_t *)(uintptr_t)arguments, name, v)
	{
		r = take_one(t, name, v, args, err);
		if (r < 0)
			return r;
	}
	return check_required(args, err);
}

int gb_tool_args_check(const struct gb_tool *t, const json_t *arguments,
	struct gb_tool_args *ret, struct gb_err *err)
{
	struct gb_tool_args args = { .tool = t };
	int r = take_all(t, arguments, &args, err);

	if (r < 0) {
		gb_tool_args_done(&args);
		return gb_wrap(err, r, "wrong arguments for %s", t->name);
	}
	*ret = args;
	return 0;
}

static bool is_object_text(const char *text, size_t len)
{
	while (len && strchr(" \t\r\n", *text) && *text) {
		text++;
		len--;
	}
	return len && *text == '{';
}

static int take_freeform(const struct gb_tool *t, const char *text, size_t len,
	struct gb_tool_args *ret, struct gb_err *err)
{
	struct gb_tool_args args = { .tool = t };
	struct gb_tool_value *v = &args.v[GB_ARG_PATCH];

	if (len > GB_TOOL_PATCH_MAX)
		return gb_fail(err, GB_E_LIMIT, "the patch is too long: at most %zu bytes",
			GB_TOOL_PATCH_MAX);
	v->text = malloc(len + 1);
	if (!v->text)
		return gb_nomem(err);
	memcpy(v->text, text, len);
	v->text[len] = '\0';
	v->len = len;
	v->given = true;
	*ret = args;
	return 0;
}

int gb_tool_args_parse(const struct gb_tool *t, const char *text, size_t len,
	struct gb_tool_args *ret, struct gb_err *err)
{
	char text_of[JSON_ERROR_TEXT_LENGTH];
	json_error_t why;
	json_t *j;
	int r;

	if (t->grammar && !is_object_text(text, len))
		return take_freeform(t, text, len, ret, err);
	if (len > GB_TOOL_ARGS_MAX)
		return gb_fail(err, GB_E_LIMIT, "wrong arguments for %s: over %zu bytes", t->name,
			GB_TOOL_ARGS_MAX);
	j = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
		&why);
	if (!j)
		return gb_fail(err, GB_E_PARSE, "wrong arguments for %s: not JSON (line %d, column %d: %s)",
			t->name, why.line, why.column,
			safe_name(why.text, text_of, sizeof(text_of)));
	r = gb_tool_args_check(t, j, ret, err);
	json_decref(j);
	return r;
}
