#include "config/config.h"

#include "base/fd.h"
#include "base/path.h"
#include "config/toml.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *gb_config_source_name(enum gb_config_source s)
{
	static const char *const names[] = {
		"default", "user", "project", "environment", "option"};

	return names[s];
}

static void setting_done(struct gb_config_setting *s)
{
	gb_config_value_done(&s->value);
	free(s->where);
	memset(s, 0, sizeof(*s));
}

void gb_config_done(struct gb_config *c)
{
	for (size_t i = 0; i < GB_CONFIG_COUNT; i++)
		setting_done(&c->settings[i]);
	for (size_t i = 0; i < c->note_count; i++)
		free(c->notes[i].text);
	free(c->user_file);
	free(c->project_file);
	memset(c, 0, sizeof(*c));
}

uint64_t gb_config_number(const struct gb_config *c, enum gb_config_id id)
{
	return c->settings[id].value.number;
}

const char *gb_config_text(const struct gb_config *c, enum gb_config_id id)
{
	return c->settings[id].value.text;
}

const struct gb_strv *gb_config_list(const struct gb_config *c, enum gb_config_id id)
{
	return &c->settings[id].value.list;
}

static void GB_PRINTF(3, 4) note(struct gb_config *c, bool error, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;

	c->note_total++;
	c->error_total += error;
	if (c->note_count == GB_CONFIG_NOTES_MAX)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		c->notes[c->note_count++] = (struct gb_config_note){error, text};
}

/* Put a new value in force; what *s owns is given away. */
static int install_consume(struct gb_config *c, enum gb_config_id id,
	struct gb_config_setting *s, struct gb_err *err)
{
	if (!s->where) {
		setting_done(s);
		return gb_nomem(err);
	}
	setting_done(&c->settings[id]);
	c->settings[id] = *s;
	memset(s, 0, sizeof(*s));
	return 0;
}

int gb_config_set(struct gb_config *c, enum gb_config_id id, enum gb_config_source source,
	const char *where, const char *text, const struct gb_config_base *base,
	struct gb_err *err)
{
	const struct gb_config_key *k = gb_config_key(id);
	struct gb_config_setting fresh = {.source = source, .where = strdup(where)};
	struct gb_config_setting *now = &c->settings[id];
	int r;

	/* an option adds to the list that is configured; the other layers replace it */
	if (gb_config_type_is_list(k->type) &&
		(source == GB_CONFIG_FROM_OPTION || now->source == source)) {
		r = gb_config_value_read(k, text, base, &now->value, err);
		if (r < 0) {
			setting_done(&fresh);
			return r;
		}
		free(now->where);
		now->where = fresh.where;
		now->source = source;
		return now->where ? 0 : gb_nomem(err);
	}
	r = gb_config_value_read(k, text, base, &fresh.value, err);
	if (r < 0) {
		setting_done(&fresh);
		return r;
	}
	return install_consume(c, id, &fresh, err);
}

int gb_config_defaults(struct gb_config *ret, struct gb_err *err)
{
	const struct gb_config_base base = {"/", NULL};

	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < GB_CONFIG_COUNT; i++) {
		const struct gb_config_key *k = gb_config_key((enum gb_config_id)i);
		int r;

		if (gb_config_type_is_list(k->type)) {
			ret->settings[i].where = strdup("");
			r = ret->settings[i].where ? 0 : gb_nomem(err);
		} else {
			r = gb_config_set(ret, k->id, GB_CONFIG_FROM_DEFAULT, "",
				k->fallback, &base, err);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* Files. A reader carries what every step of walking the parsed tree needs. */
struct reader {
	struct gb_config *c;
	const char *name;
	enum gb_config_source source;
	const struct gb_config_base *base;
};

static unsigned position(const json_t *node, const char *field)
{
	return (unsigned)json_integer_value(json_object_get(node, field));
}

static const char *node_type(const json_t *node)
{
	return json_string_value(json_object_get(node, "type"));
}

static void GB_PRINTF(4, 5)
	note_at(struct reader *rd, bool error, const json_t *node, const char *fmt, ...)
{
	bool key = fmt[0] == '@'; /* "@..." points at the key, the rest at the value */
	va_list ap;
	char text[768];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt + key, ap);
	va_end(ap);
	note(rd->c, error, "%s:%u:%u: %s", rd->name,
		position(node, key ? "key_line" : "line"),
		position(node, key ? "key_column" : "column"), text);
}

/* A project's list must not take what is the host's: K alone is the host's value of K. */
static bool entry_allowed(struct reader *rd, const struct gb_config_key *k,
	const json_t *node, const char *text)
{
	if (rd->source != GB_CONFIG_FROM_PROJECT || k->type != GB_CONFIG_ENV)
		return true;
	if (strchr(text, '='))
		return true;
	note_at(rd, false, node,
		"'%.100s' would take the host's value, which a project file may not; "
		"write K=V, or set it in your own configuration",
		text);
	return false;
}

/* rootfs: and tar: name host files, which would be copied into an image. */
static bool image_allowed(const char *text)
{
	return gb_name_valid(text) || gb_starts_with(text, "debootstrap:");
}

/* The text of a string node; NULL when it is something else or holds a NUL. */
static const char *string_of(const json_t *node)
{
	const json_t *value = json_object_get(node, "value");
	const char *s = json_string_value(value);

	return s && strlen(s) == json_string_length(value) ? s : NULL;
}

static void wrong_type(
	struct reader *rd, const struct gb_config_key *k, const json_t *node)
{
	char expected[160];

	gb_config_expected(k, expected, sizeof(expected));
	note_at(rd, true, node, "%s.%s: expected %s, found %s %s", k->table, k->key,
		expected, strchr("aio", *node_type(node)) ? "an" : "a", node_type(node));
}

static void read_list(struct reader *rd, const struct gb_config_key *k,
	const json_t *node, struct gb_config_setting *ret)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(node, "value"), i, item)
	{
		struct gb_err why;
		const char *s = string_of(item);

		if (!s) {
			wrong_type(rd, k, item);
		} else if (entry_allowed(rd, k, item, s) &&
			   gb_config_value_read(k, s, rd->base, &ret->value, &why) < 0) {
			note_at(rd, true, item, "%s.%s: %s", k->table, k->key, why.msg);
			if (why.code == GB_E_LIMIT)
				return;
		}
	}
}

/* True when *ret holds a value for the key. */
static bool read_single(struct reader *rd, const struct gb_config_key *k,
	const json_t *node, struct gb_config_setting *ret)
{
	const json_t *value = json_object_get(node, "value");
	bool number = k->type == GB_CONFIG_INT || k->type == GB_CONFIG_SIZE;
	const char *s = k->type == GB_CONFIG_INT ? NULL : string_of(node);
	char digits[32];
	struct gb_err why;

	if (number && json_is_integer(value)) {
		snprintf(digits, sizeof(digits), "%lld",
			(long long)json_integer_value(value));
		s = digits;
	}
	if (!s) {
		wrong_type(rd, k, node);
		return false;
	}
	if (rd->source == GB_CONFIG_FROM_PROJECT && k->type == GB_CONFIG_IMAGE && *s &&
		!image_allowed(s)) {
		note_at(rd, false, node,
			"a project file may name an image or a debootstrap: source only; "
			"ignored");
		return false;
	}
	if (gb_config_value_read(k, s, rd->base, &ret->value, &why) == 0)
		return true;
	note_at(rd, true, node, "%s.%s: %s", k->table, k->key, why.msg);
	return false;
}

static void read_key(struct reader *rd, const struct gb_config_key *k, const json_t *node)
{
	struct gb_config_setting fresh = {.source = rd->source};
	bool list = gb_config_type_is_list(k->type);

	if (rd->source == GB_CONFIG_FROM_PROJECT && !k->project) {
		note_at(rd, false, node,
			"@%s.%s is not taken from a project file; set it in your own "
			"configuration",
			k->table, k->key);
		return;
	}
	if (list && !gb_streq(node_type(node), "array")) {
		wrong_type(rd, k, node);
		return;
	}
	if (list)
		read_list(rd, k, node, &fresh);
	else if (!read_single(rd, k, node, &fresh)) {
		setting_done(&fresh);
		return;
	}
	if (asprintf(&fresh.where, "%s:%u:%u", rd->name, position(node, "line"),
		    position(node, "column")) < 0)
		fresh.where = NULL;
	if (install_consume(rd->c, k->id, &fresh, NULL) < 0)
		note_at(rd, true, node, "out of memory");
}

/* The keys of a table, or (table NULL) the tables. Borrowed words, NULL-terminated. */
static void known_words(const char *table, const char *words[GB_CONFIG_COUNT + 1])
{
	size_t n = 0;

	for (int i = 0; i < GB_CONFIG_COUNT; i++) {
		const struct gb_config_key *k = gb_config_key((enum gb_config_id)i);

		if (!table)
			words[n++] = k->table;
		else if (gb_streq(k->table, table))
			words[n++] = k->key;
	}
	words[n] = NULL;
}

static void unknown(
	struct reader *rd, const char *table, const char *key, const json_t *node)
{
	const char *words[GB_CONFIG_COUNT + 1];
	const char *near;

	known_words(table, words);
	near = gb_nearest(key, words);
	note_at(rd, false, node, "@unknown %s '%.100s%s%.100s'%s%s%s",
		table ? "key" : "table", table ? table : "", table ? "." : "", key,
		near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static void read_table(struct reader *rd, const char *table, json_t *node)
{
	json_t *entries = json_object_get(node, "value");
	const char *key;
	json_t *value;

	json_object_foreach(entries, key, value)
	{
		const struct gb_config_key *k = gb_config_key_find(table, key);

		if (k && json_object_get(entries, key) == value)
			read_key(rd, k, value);
		else
			unknown(rd, table, key, value);
	}
}

static bool is_table_name(const char *name)
{
	for (int i = 0; i < GB_CONFIG_COUNT; i++)
		if (gb_streq(gb_config_key((enum gb_config_id)i)->table, name))
			return true;
	return false;
}

/* The table that a key at the top of a file was meant for, or NULL. */
static const char *table_with(const char *key)
{
	for (int i = 0; i < GB_CONFIG_COUNT; i++) {
		const struct gb_config_key *k = gb_config_key((enum gb_config_id)i);

		if (gb_streq(k->key, key))
			return k->table;
	}
	return NULL;
}

static void read_top(struct reader *rd, const char *key, json_t *node)
{
	bool table = gb_streq(node_type(node), "table");

	if (!is_table_name(key) && !table && table_with(key))
		note_at(rd, false, node, "@key '%s' belongs below [%s]; ignored here",
			key, table_with(key));
	else if (!is_table_name(key))
		unknown(rd, NULL, key, node);
	else if (!table)
		note_at(rd, true, node, "'%s': expected a table [%s]", key, key);
	else
		read_table(rd, key, node);
}

int gb_config_read_text(struct gb_config *c, const char *name, const char *text,
	size_t len, enum gb_config_source source, const struct gb_config_base *base,
	struct gb_err *err)
{
	struct reader rd = {c, name, source, base};
	json_t *root = NULL;
	const char *key;
	json_t *node;
	int r = gb_toml_parse(name, text, len, &root, err);

	if (r < 0)
		return r;
	json_object_foreach(json_object_get(root, "value"), key, node)
		read_top(&rd, key, node);
	json_decref(root);
	return 0;
}

int gb_config_read_file(struct gb_config *c, const char *path,
	enum gb_config_source source, const char *home, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	gb_auto_free char *dir = strdup(path);
	struct gb_config_base base = {dir, home};
	char *slash = dir ? strrchr(dir, '/') : NULL;
	int r;

	if (!dir)
		return gb_nomem(err);
	if (slash)
		slash[slash == dir] = 0;
	else
		base.dir = ".";
	gb_buf_init(&text, 0);
	r = gb_file_read(AT_FDCWD, path, GB_TOML_MAX, &text, err);
	if (r < 0)
		return r;
	return gb_config_read_text(
		c, path, (const char *)text.data, text.len, source, &base, err);
}

int gb_config_find_project(
	const char *cwd, const char *home, char **ret, struct gb_err *err)
{
	gb_auto_free char *dir = strdup(cwd);

	while (dir) {
		gb_auto_free char *file = gb_path_join(dir, GB_CONFIG_PROJECT_FILE);
		struct stat st;
		char *slash;

		if (!file)
			return gb_nomem(err);
		if (stat(file, &st) == 0 && S_ISREG(st.st_mode)) {
			*ret = gb_take_ptr(file);
			return 0;
		}
		slash = strrchr(dir, '/');
		if (gb_streq(dir, home) || !slash || !dir[1])
			return gb_fail(err, GB_E_NOTFOUND, "no %s from '%s' up",
				GB_CONFIG_PROJECT_FILE, cwd);
		slash[slash == dir] = 0;
	}
	return gb_nomem(err);
}

static const char *env_value(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* One variable: a single value, or entries separated by commas. */
static int read_variable(struct gb_config *c, const struct gb_config_key *k,
	const char *text, const struct gb_config_base *base, struct gb_err *err)
{
	bool list = gb_config_type_is_list(k->type);
	int r = 0;

	while (r == 0 && *text) {
		size_t n = list ? strcspn(text, ",") : strlen(text);
		gb_auto_free char *part = strndup(text, n);

		if (!part)
			return gb_nomem(err);
		if (*part)
			r = gb_config_set(
				c, k->id, GB_CONFIG_FROM_ENV, k->env, part, base, err);
		text += n + (text[n] == ',');
	}
	return r;
}

static void read_environment(struct gb_config *c, const struct gb_config_where *w)
{
	struct gb_config_base base = {w->cwd ? w->cwd : "/", w->home};

	for (int i = 0; i < GB_CONFIG_COUNT; i++) {
		const struct gb_config_key *k = gb_config_key((enum gb_config_id)i);
		const char *text = env_value(w->env, k->env);
		struct gb_err why;

		if (text && read_variable(c, k, text, &base, &why) < 0)
			note(c, true, "%s: %s", k->env, why.msg);
	}
}

/* A file that is not there is fine. *path is given away to *ret_path when it was read. */
static int read_layer(struct gb_config *c, char **path, enum gb_config_source source,
	const char *home, char **ret_path, struct gb_err *err)
{
	int r = gb_config_read_file(c, *path, source, home, err);

	if (r == GB_E_NOTFOUND)
		return 0;
	*ret_path = gb_take_ptr(*path);
	return r;
}

int gb_config_load(
	const struct gb_config_where *w, struct gb_config *ret, struct gb_err *err)
{
	gb_auto_free char *user = NULL;
	gb_auto_free char *project = NULL;
	int r = gb_config_defaults(ret, err);

	if (r < 0)
		return r;
	if (w->config_dir) {
		user = gb_path_join(w->config_dir, GB_CONFIG_USER_FILE);
		if (!user)
			return gb_nomem(err);
		r = read_layer(
			ret, &user, GB_CONFIG_FROM_USER, w->home, &ret->user_file, err);
		if (r < 0)
			return r;
	}
	if (w->cwd) {
		r = gb_config_find_project(w->cwd, w->home, &project, err);
		if (r == 0)
			r = read_layer(ret, &project, GB_CONFIG_FROM_PROJECT, w->home,
				&ret->project_file, err);
		if (r < 0 && r != GB_E_NOTFOUND)
			return r;
	}
	if (w->env)
		read_environment(ret, w);
	return 0;
}
