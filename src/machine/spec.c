#include "machine/spec.h"

#include <jansson.h>
#include <string.h>

#define SPEC_VERSION 1

enum { CPUS_MAX = 64 };
#define MEMORY_MIN (UINT64_C(128) << 20)
#define MEMORY_MAX (UINT64_C(1) << 40)
#define DISK_MIN   (UINT64_C(64) << 20)
#define DISK_MAX   (UINT64_C(16) << 40)

/* The plain string fields, by their JSON key. */
static const struct {
	const char *key;
	size_t offset;
} strings[] = {
#define S(name) { #name, offsetof(struct gb_machine_spec, name) }
	S(name), S(id), S(image), S(image_ref), S(root), S(directory), S(user), S(workdir),
	S(accel), S(kernel), S(modules),
#undef S
};

static char **string_at(const struct gb_machine_spec *s, size_t i)
{
	return (char **)(uintptr_t)((const char *)s + strings[i].offset);
}

void gb_machine_spec_init(struct gb_machine_spec *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < GB_ARRAY_SIZE(strings); i++)
		*string_at(s, i) = strdup("");
}

void gb_machine_spec_done(struct gb_machine_spec *s)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(strings); i++)
		free(*string_at(s, i));
	gb_strv_done(&s->env);
	for (size_t i = 0; i < s->share_count; i++) {
		free(s->shares[i].host);
		free(s->shares[i].guest);
	}
	memset(s, 0, sizeof(*s));
}

bool gb_spec_set(char **field, const char *value)
{
	char *copy = strdup(value ? value : "");

	if (!copy)
		return false;
	free(*field);
	*field = copy;
	return true;
}

int gb_machine_spec_add_share(struct gb_machine_spec *s, const char *host, const char *guest,
	bool rdonly, struct gb_err *err)
{
	struct gb_machine_share *share = &s->shares[s->share_count];

	if (s->share_count == GB_MACHINE_SHARES_MAX)
		return gb_fail(err, GB_E_LIMIT, "more than %d shares", GB_MACHINE_SHARES_MAX);
	share->host = strdup(host);
	share->guest = strdup(guest);
	share->rdonly = rdonly;
	if (!share->host || !share->guest) {
		free(share->host);
		free(share->guest);
		return gb_nomem(err);
	}
	s->share_count++;
	return 0;
}

static json_t *shares_to_json(const struct gb_machine_spec *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->share_count; i++)
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:b}", "host", s->shares[i].host, "guest",
				s->shares[i].guest, "rdonly", s->shares[i].rdonly));
	return list;
}

int gb_machine_spec_to_json(const struct gb_machine_spec *s, char **ret, struct gb_err *err)
{
	json_t *root = json_object();
	json_t *env = json_array();

	json_object_set_new(root, "version", json_integer(SPEC_VERSION));
	for (size_t i = 0; i < GB_ARRAY_SIZE(strings); i++)
		json_object_set_new(root, strings[i].key, json_string(*string_at(s, i)));
	for (size_t i = 0; i < s->env.n; i++)
		json_array_append_new(env, json_string(s->env.v[i]));
	json_object_set_new(root, "env", env);
	json_object_set_new(root, "shares", shares_to_json(s));
	json_object_set_new(root, "cpus", json_integer(s->cpus));
	json_object_set_new(root, "memory_bytes", json_integer((json_int_t)s->memory_bytes));
	json_object_set_new(root, "disk_bytes", json_integer((json_int_t)s->disk_bytes));
	json_object_set_new(root, "created", json_integer(s->created_s));
	json_object_set_new(root, "ephemeral", json_boolean(s->ephemeral));
	*ret = json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	if (!*ret)
		return gb_fail(err, GB_E_PARSE,
			"a path or variable of the machine is not valid UTF-8");
	return 0;
}

static int strings_from_json(const json_t *root, struct gb_machine_spec *s, struct gb_err *err)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(strings); i++) {
		const json_t *v = json_object_get(root, strings[i].key);

		if (!json_is_string(v))
			return gb_fail(err, GB_E_PARSE, "'%s' is missing", strings[i].key);
		if (!gb_spec_set(string_at(s, i), json_string_value(v)))
			return gb_nomem(err);
	}
	return 0;
}

static int lists_from_json(const json_t *root, struct gb_machine_spec *s, struct gb_err *err)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(root, "env"), i, item) {
		if (!json_is_string(item))
			return gb_fail(err, GB_E_PARSE, "'env' holds something else than strings");
		gb_strv_add(&s->env, json_string_value(item));
	}
	json_array_foreach(json_object_get(root, "shares"), i, item) {
		const char *host = json_string_value(json_object_get(item, "host"));
		const char *guest = json_string_value(json_object_get(item, "guest"));
		int r;

		if (!host || !guest)
			return gb_fail(err, GB_E_PARSE, "'shares' entry %zu is incomplete", i);
		r = gb_machine_spec_add_share(s, host, guest,
			json_is_true(json_object_get(item, "rdonly")), err);
		if (r < 0)
			return r;
	}
	return gb_strv_check(&s->env, "env", err);
}

static int spec_from_object(const json_t *root, struct gb_machine_spec *s, struct gb_err *err)
{
	int r;

	if (json_integer_value(json_object_get(root, "version")) != SPEC_VERSION)
		return gb_fail(err, GB_E_PARSE, "unknown version");
	r = strings_from_json(root, s, err);
	if (r == 0)
		r = lists_from_json(root, s, err);
	if (r < 0)
		return r;
	s->cpus = (uint32_t)json_integer_value(json_object_get(root, "cpus"));
	s->memory_bytes =
		(uint64_t)json_integer_value(json_object_get(root, "memory_bytes"));
	s->disk_bytes = (uint64_t)json_integer_value(json_object_get(root, "disk_bytes"));
	s->created_s = json_integer_value(json_object_get(root, "created"));
	s->ephemeral = json_is_true(json_object_get(root, "ephemeral"));
	return gb_machine_spec_check(s, err);
}

int gb_machine_spec_from_json(const char *text, size_t len, struct gb_machine_spec *ret,
	struct gb_err *err)
{
	struct gb_machine_spec s;
	json_error_t where;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	int r;

	if (!root)
		return gb_fail(err, GB_E_PARSE, "line %d: %s", where.line, where.text);
	gb_machine_spec_init(&s);
	r = spec_from_object(root, &s, err);
	json_decref(root);
	if (r < 0) {
		gb_machine_spec_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

static int check_range(const char *what, uint64_t v, uint64_t min, uint64_t max,
	struct gb_err *err)
{
	if (v >= min && v <= max)
		return 0;
	return gb_fail(err, GB_E_INVALID, "%s must be from %llu MiB to %llu MiB", what,
		(unsigned long long)(min >> 20), (unsigned long long)(max >> 20));
}

int gb_machine_spec_check(const struct gb_machine_spec *s, struct gb_err *err)
{
	int r;

	if (!gb_name_valid(s->name))
		return gb_fail(err, GB_E_INVALID,
			"'%s' is no name for a machine: letters, digits, '.', '_' and '-', at "
			"most 63, starting with a letter or digit",
			s->name);
	if (s->cpus < 1 || s->cpus > CPUS_MAX)
		return gb_fail(err, GB_E_INVALID, "cpus must be from 1 to %d", CPUS_MAX);
	r = check_range("memory", s->memory_bytes, MEMORY_MIN, MEMORY_MAX, err);
	if (r == 0)
		r = check_range("disk", s->disk_bytes, DISK_MIN, DISK_MAX, err);
	if (r < 0)
		return r;
	if (*s->directory && *s->directory != '/')
		return gb_fail(err, GB_E_INVALID, "the directory must be an absolute path");
	for (size_t i = 0; i < s->share_count; i++)
		if (*s->shares[i].host != '/' || *s->shares[i].guest != '/')
			return gb_fail(err, GB_E_INVALID, "share '%s:%s' needs absolute paths",
				s->shares[i].host, s->shares[i].guest);
	return 0;
}
