#include "image/image_json.h"

#include <jansson.h>

/* Wants an object {"source": s, "user": s, "workdir": s, "env": [s…], "size": n,
 * "created": n}. */
static int field_text(const json_t *o, const char *key, char **ret, struct gb_err *err)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_string(v))
		return gb_fail(err, GB_E_PARSE, "'%s' is missing or not a text", key);
	*ret = strdup(json_string_value(v));
	return *ret ? 0 : gb_nomem(err);
}

static int field_number(
	const json_t *o, const char *key, json_int_t *ret, struct gb_err *err)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return gb_fail(err, GB_E_PARSE, "'%s' is missing or not a number", key);
	*ret = json_integer_value(v);
	return 0;
}

static int field_env(const json_t *o, struct gb_strv *ret, struct gb_err *err)
{
	const json_t *list = json_object_get(o, "env");
	const json_t *v;
	size_t i;

	if (!json_is_array(list))
		return gb_fail(err, GB_E_PARSE, "'env' is missing or not a list");
	json_array_foreach(list, i, v)
	{
		if (!json_is_string(v))
			return gb_fail(
				err, GB_E_PARSE, "'env' holds something that is no text");
		gb_strv_add(ret, json_string_value(v));
	}
	return gb_strv_check(ret, "env", err);
}

int gb_image_from_json(
	const char *text, size_t len, struct gb_image *ret, struct gb_err *err)
{
	json_error_t e;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
	json_int_t size = 0;
	json_int_t created = 0;
	int r;

	if (!o)
		return gb_fail(err, GB_E_PARSE, "line %d: %s", e.line, e.text);
	r = json_is_object(o) ? 0 : gb_fail(err, GB_E_PARSE, "not an object");
	if (r == 0)
		r = field_text(o, "source", &ret->source, err);
	if (r == 0)
		r = field_text(o, "user", &ret->user, err);
	if (r == 0)
		r = field_text(o, "workdir", &ret->workdir, err);
	if (r == 0)
		r = field_env(o, &ret->env, err);
	if (r == 0)
		r = field_number(o, "size", &size, err);
	if (r == 0)
		r = field_number(o, "created", &created, err);
	ret->size = (uint64_t)size;
	ret->created_s = created;
	json_decref(o);
	return r;
}

int gb_image_to_json(const struct gb_image *i, char **ret, struct gb_err *err)
{
	json_t *env = json_array();
	json_t *o;

	for (size_t n = 0; n < i->env.n; n++)
		json_array_append_new(
			env, json_stringn_nocheck(i->env.v[n], strlen(i->env.v[n])));
	o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:I}", "digest", i->digest,
		"source", i->source, "user", i->user, "workdir", i->workdir, "env", env,
		"size", (json_int_t)i->size, "created", (json_int_t)i->created_s);
	if (!o)
		return gb_fail(err, GB_E_INVALID, "the image's description is not UTF-8");
	*ret = json_dumps(o, JSON_INDENT(2));
	json_decref(o);
	return *ret ? 0 : gb_nomem(err);
}
