#include "config/value.h"

#include "base/buf.h"
#include "base/path.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

void gb_config_value_done(struct gb_config_value *v)
{
	free(v->text);
	gb_strv_done(&v->list);
	memset(v, 0, sizeof(*v));
}

void gb_share_arg_done(struct gb_share_arg *s)
{
	free(s->host);
	free(s->guest);
	memset(s, 0, sizeof(*s));
}

void gb_size_text(uint64_t bytes, char *text, size_t size)
{
	int shift = 0;

	while (shift < 4 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		shift++;
	}
	snprintf(text, size, "%llu%.*s", (unsigned long long)bytes, shift > 0,
		&" KMGT"[shift]);
}

static int unexpected(const struct gb_config_key *k, const char *text, struct gb_err *err)
{
	char expected[160];

	gb_config_expected(k, expected, sizeof(expected));
	return gb_fail(err, GB_E_PARSE, "'%.200s' is not %s", text, expected);
}

static bool text_ok(const char *text)
{
	size_t n = 0;

	for (; text[n]; n++)
		if (iscntrl((unsigned char)text[n]))
			return false;
	return n <= GB_CONFIG_TEXT_MAX;
}

static bool guest_path_ok(const char *path)
{
	if (*path != '/' || strlen(path) >= PATH_MAX)
		return false;
	for (const char *p = path; *p;) {
		size_t n = strcspn(++p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.')
			return false;
		p += n;
	}
	return true;
}

bool gb_env_arg_valid(const char *text)
{
	size_t name = strcspn(text, "=");

	if (!name || isdigit((unsigned char)text[0]))
		return false;
	for (size_t i = 0; i < name; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return true;
}

/* "~", "~/x", "x" and "/x" as an absolute path; owned. */
static int resolve_host(const char *path, const struct gb_config_base *base, char **ret,
	struct gb_err *err)
{
	bool home = path[0] == '~' && (path[1] == '/' || !path[1]);

	if (home && !base->home)
		return gb_fail(
			err, GB_E_INVALID, "'%s' needs HOME, which is not set", path);
	if (home)
		*ret = path[1] && path[2] ? gb_path_join(base->home, path + 2)
					  : strdup(base->home);
	else if (*path == '/')
		*ret = strdup(path);
	else if (gb_streq(path, "."))
		*ret = strdup(base->dir);
	else
		*ret = gb_path_join(base->dir, path);
	return *ret ? 0 : gb_nomem(err);
}

int gb_share_arg_parse(const char *text, const struct gb_config_base *base,
	struct gb_share_arg *ret, struct gb_err *err)
{
	gb_auto_free char *copy = strdup(text);
	gb_auto_free char *host = NULL;
	gb_auto_free char *guest = NULL;
	char *mode;
	char *colon;
	int r;

	if (!copy)
		return gb_nomem(err);
	mode = strrchr(copy, ':');
	if (mode && mode != copy && (gb_streq(mode, ":ro") || gb_streq(mode, ":rw")))
		*mode++ = 0;
	else
		mode = NULL;
	/* the guest's path has no colon, the host's may */
	colon = strrchr(copy, ':');
	if (!colon || colon == copy || !guest_path_ok(colon + 1) || !colon[2] ||
		!text_ok(copy))
		return gb_fail(err, GB_E_PARSE,
			"'%.200s' is not HOST:GUEST or HOST:GUEST:ro with an absolute "
			"GUEST path",
			text);
	*colon = 0;
	r = resolve_host(copy, base, &host, err);
	if (r < 0)
		return r;
	guest = strdup(colon + 1);
	if (!guest)
		return gb_nomem(err);
	ret->host = gb_take_ptr(host);
	ret->guest = gb_take_ptr(guest);
	ret->rdonly = gb_streq(mode, "ro");
	return 0;
}

static int read_number(const struct gb_config_key *k, const char *text, uint64_t *ret,
	struct gb_err *err)
{
	uint64_t v;
	int r = k->type == GB_CONFIG_INT ? gb_parse_u64(text, k->max, &v, NULL)
					 : gb_parse_size(text, k->unit, k->max, &v, NULL);

	if (r < 0 || v < k->min)
		return unexpected(k, text, err);
	*ret = v;
	return 0;
}

static bool is_word(const char *const *words, const char *text)
{
	for (; *words; words++)
		if (gb_streq(*words, text))
			return true;
	return false;
}

static int read_enum(const struct gb_config_key *k, const char *text, struct gb_err *err)
{
	const char *near = gb_nearest(text, k->words);
	int r;

	if (is_word(k->words, text))
		return 0;
	r = unexpected(k, text, err);
	if (near && err) {
		size_t n = strlen(err->msg);

		snprintf(err->msg + n, sizeof(err->msg) - n, " (did you mean %s?)", near);
	}
	return r;
}

/* Shares are kept as text with an absolute host path, so that they mean the same later.
 */
static int read_share(const char *text, const struct gb_config_base *base,
	struct gb_config_value *ret, struct gb_err *err)
{
	gb_auto_done(gb_share_arg) s = {0};
	int r = gb_share_arg_parse(text, base, &s, err);

	if (r < 0)
		return r;
	gb_strv_addf(&ret->list, "%s:%s%s", s.host, s.guest, s.rdonly ? ":ro" : "");
	return gb_strv_check(&ret->list, "shares", err);
}

static int read_entry(const struct gb_config_key *k, const char *text,
	const struct gb_config_base *base, struct gb_config_value *ret,
	struct gb_err *err)
{
	if (ret->list.n >= GB_CONFIG_LIST_MAX)
		return gb_fail(
			err, GB_E_LIMIT, "more than %u entries", GB_CONFIG_LIST_MAX);
	if (k->type == GB_CONFIG_SHARES)
		return read_share(text, base, ret, err);
	if (!gb_env_arg_valid(text))
		return gb_fail(err, GB_E_PARSE, "'%.200s' is not K=V or K", text);
	gb_strv_set_env(&ret->list, text);
	return gb_strv_check(&ret->list, "environment", err);
}

static int replace_text(struct gb_config_value *ret, char *text, struct gb_err *err)
{
	if (!text)
		return gb_nomem(err);
	free(ret->text);
	ret->text = text;
	return 0;
}

int gb_config_value_read(const struct gb_config_key *k, const char *text,
	const struct gb_config_base *base, struct gb_config_value *ret,
	struct gb_err *err)
{
	char *path;
	int r;

	if (gb_config_type_is_list(k->type))
		return read_entry(k, text, base, ret, err);
	if (k->type == GB_CONFIG_INT || k->type == GB_CONFIG_SIZE)
		return read_number(k, text, &ret->number, err);
	if (!text_ok(text))
		return gb_fail(err, GB_E_PARSE,
			"the text is over %u bytes or has control characters",
			GB_CONFIG_TEXT_MAX);
	if (k->type == GB_CONFIG_GUEST && *text && !guest_path_ok(text))
		return unexpected(k, text, err);
	if (k->type == GB_CONFIG_ENUM) {
		r = read_enum(k, text, err);
		if (r < 0)
			return r;
	}
	if (k->type == GB_CONFIG_PATH && *text) {
		r = resolve_host(text, base, &path, err);
		return r < 0 ? r : replace_text(ret, path, err);
	}
	return replace_text(ret, strdup(text), err);
}

char *gb_config_value_text(const struct gb_config_key *k, const struct gb_config_value *v)
{
	struct gb_buf b;
	char size[32];

	gb_buf_init(&b, 0);
	if (k->type == GB_CONFIG_SIZE) {
		gb_size_text(v->number, size, sizeof(size));
		gb_buf_add_str(&b, size);
	} else if (k->type == GB_CONFIG_INT) {
		gb_buf_printf(&b, "%llu", (unsigned long long)v->number);
	} else if (!gb_config_type_is_list(k->type)) {
		gb_buf_add_str(&b, v->text ? v->text : "");
	}
	for (size_t i = 0; i < v->list.n; i++)
		gb_buf_printf(&b, "%s%s", i ? "," : "", v->list.v[i]);
	return gb_buf_take_str(&b);
}
