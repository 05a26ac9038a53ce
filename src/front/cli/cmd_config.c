/* config show|check|path, and loading the configuration for the other commands. */
#include "front/cli/cli.h"

#include <string.h>
#include <unistd.h>

struct gb_config_where gb_cli_config_where(const struct gb_cli *cli)
{
	return (struct gb_config_where){.config_dir = cli->dirs.config,
		.cwd = *cli->cwd ? cli->cwd : NULL,
		.home = getenv("HOME"),
		.env = environ};
}

static void print_notes(const struct gb_config *c)
{
	for (size_t i = 0; i < c->note_count; i++)
		gb_say("%s%s", c->notes[i].error ? "" : "warning: ", c->notes[i].text);
	if (c->note_total > c->note_count)
		gb_say("warning: %zu more like these", c->note_total - c->note_count);
}

int gb_cli_load_config(
	const struct gb_cli *cli, struct gb_config *ret, struct gb_err *err)
{
	struct gb_config_where w = gb_cli_config_where(cli);
	struct gb_config_base base = {*cli->cwd ? cli->cwd : "/", w.home};
	int r = gb_config_load(&w, ret, err);

	if (r < 0)
		return r;
	print_notes(ret);
	for (size_t i = 0; i < cli->args.seen_count; i++) {
		const struct gb_cli_seen *seen = &cli->args.seen[i];
		const struct gb_cli_option *o = &gb_cli_options[seen->id];
		gb_auto_free char *where = NULL;

		if (o->key == GB_CLI_NO_KEY)
			continue;
		if (asprintf(&where, "--%s", o->name) < 0)
			return gb_nomem(err);
		r = gb_config_set(ret, (enum gb_config_id)o->key, GB_CONFIG_FROM_OPTION,
			where, seen->value, &base, err);
		if (r < 0)
			return gb_wrap(err, r, "--%s", o->name);
	}
	return 0;
}

static json_t *value_json(const struct gb_config_key *k, const struct gb_config_value *v)
{
	json_t *list;

	if (k->type == GB_CONFIG_INT || k->type == GB_CONFIG_SIZE)
		return json_integer((json_int_t)v->number);
	if (!gb_config_type_is_list(k->type))
		return gb_json_text(v->text);
	list = json_array();
	for (size_t i = 0; i < v->list.n; i++)
		json_array_append_new(list, gb_json_text(v->list.v[i]));
	return list;
}

static json_t *config_json(const struct gb_config *c)
{
	json_t *root = json_object();

	for (int i = 0; i < GB_CONFIG_COUNT; i++) {
		const struct gb_config_key *k = gb_config_key((enum gb_config_id)i);
		const struct gb_config_setting *s = &c->settings[i];
		json_t *table = json_object_get(root, k->table);

		if (!table) {
			json_object_set_new(root, k->table, json_object());
			table = json_object_get(root, k->table);
		}
		json_object_set_new(table, k->key,
			json_pack("{s:o, s:s, s:o}", "value", value_json(k, &s->value),
				"source", gb_config_source_name(s->source), "where",
				gb_json_text(s->where)));
	}
	return root;
}

static int show_table(const struct gb_config *c, struct gb_err *err)
{
	gb_auto_done(gb_table) t = {0};

	gb_table_row(&t, (const char *const[]){"SETTING", "VALUE", "SOURCE", NULL});
	for (int i = 0; i < GB_CONFIG_COUNT; i++) {
		const struct gb_config_key *k = gb_config_key((enum gb_config_id)i);
		const struct gb_config_setting *s = &c->settings[i];
		gb_auto_free char *name = NULL;
		gb_auto_free char *value = gb_config_value_text(k, &s->value);
		gb_auto_free char *source = NULL;

		if (!value || asprintf(&name, "%s.%s", k->table, k->key) < 0 ||
			asprintf(&source, "%s%s%s", gb_config_source_name(s->source),
				*s->where ? " " : "", s->where) < 0)
			return gb_nomem(err);
		gb_table_row(&t,
			(const char *const[]){name, *value ? value : "-", source, NULL});
	}
	return gb_table_print(&t, err);
}

int gb_cmd_config_show(struct gb_cli *cli, struct gb_err *err)
{
	gb_auto_done(gb_config) c = {0};
	int r = gb_cli_load_config(cli, &c, err);

	if (r < 0)
		return r;
	if (gb_cli_given(&cli->args, OPT_JSON))
		return gb_print_json(config_json(&c), err);
	return show_table(&c, err);
}

int gb_cmd_config_check(struct gb_cli *cli, struct gb_err *err)
{
	gb_auto_done(gb_config) c = {0};
	const char *file = cli->args.operands[0];
	struct gb_config_where w = gb_cli_config_where(cli);
	int r;

	if (file) {
		bool project = gb_streq(gb_path_base(file), GB_CONFIG_PROJECT_FILE);

		r = gb_config_defaults(&c, err);
		if (r == 0)
			r = gb_config_read_file(&c, file,
				project ? GB_CONFIG_FROM_PROJECT : GB_CONFIG_FROM_USER,
				w.home, err);
	} else {
		r = gb_config_load(&w, &c, err);
	}
	print_notes(&c);
	if (r == GB_E_PARSE || r == GB_E_LIMIT) {
		gb_say("%s", err->msg);
		return GB_EXIT_USAGE;
	}
	if (r < 0)
		return r;
	return c.error_total ? 1 : 0;
}

int gb_cmd_config_path(struct gb_cli *cli, struct gb_err *err)
{
	struct gb_config_where w = gb_cli_config_where(cli);
	gb_auto_free char *user = gb_path_join(cli->dirs.config, GB_CONFIG_USER_FILE);
	gb_auto_free char *project = NULL;

	if (!user)
		return gb_nomem(err);
	puts(user);
	if (w.cwd && gb_config_find_project(w.cwd, w.home, &project, NULL) == 0)
		puts(project);
	return gb_flush(err);
}
