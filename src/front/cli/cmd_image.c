/* image import|ls|rm|inspect. */
#include "front/cli/cli.h"
#include "front/cli/images.h"
#include "front/cli/term.h"
#include "machine/store.h"

#include <stdio.h>
#include <string.h>

int gb_cmd_image_import(struct gb_cli *cli, struct gb_err *err)
{
	const char *name = gb_cli_value(&cli->args, OPT_IMPORT_NAME);
	gb_auto_free char *digest = NULL;
	int r;

	if (name && !gb_name_valid(name))
		return gb_fail(err, GB_E_INVALID,
			"'%s' is no name for an image: letters, digits, '.', '_' and "
			"'-', at "
			"most 63, starting with a letter or digit",
			name);
	r = gb_signals_catch(err);
	if (r == 0)
		r = gb_cli_image_import(cli, name, cli->args.operands[0], &digest, err);
	if (r < 0)
		return r;
	puts(digest);
	return gb_flush(err);
}

static json_t *list_json(const struct gb_strv *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(list, gb_json_text(l->v[i]));
	return list;
}

static json_t *image_json(const struct gb_image *i)
{
	return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:I}", "digest",
		i->digest, "names", list_json(&i->names), "source",
		gb_json_text(i->source), "path", i->path, "user", gb_json_text(i->user),
		"workdir", gb_json_text(i->workdir), "env", list_json(&i->env),
		"size_bytes", (json_int_t)i->size, "disk_bytes",
		(json_int_t)i->disk_bytes, "created", (json_int_t)i->created_s);
}

/* What ls collects. */
struct listing {
	struct gb_table table;
	json_t *json; /* NULL: a table */
	bool quiet;
};

static void image_row(struct gb_table *t, const char *name, const struct gb_image *i)
{
	char size[32];
	char used[32];
	char created[32];
	char digest[13];

	snprintf(digest, sizeof(digest), "%.12s", i->digest);
	gb_amount_text(i->size, size, sizeof(size));
	gb_amount_text(i->disk_bytes, used, sizeof(used));
	gb_time_text(i->created_s, created, sizeof(created));
	gb_table_row(t, (const char *const[]){
				name, digest, size, used, created, i->source, NULL});
}

static int list_one(void *ctx, const struct gb_image *i)
{
	struct listing *l = ctx;

	if (l->json) {
		json_array_append_new(l->json, image_json(i));
		return 0;
	}
	if (l->quiet && !i->names.n)
		puts(i->digest);
	else if (!i->names.n)
		image_row(&l->table, "-", i);
	for (size_t n = 0; n < i->names.n; n++) {
		if (l->quiet)
			puts(i->names.v[n]);
		else
			image_row(&l->table, i->names.v[n], i);
	}
	return 0;
}

int gb_cmd_image_ls(struct gb_cli *cli, struct gb_err *err)
{
	struct listing l = {.quiet = gb_cli_given(&cli->args, OPT_QUIET)};
	int r;

	if (gb_cli_given(&cli->args, OPT_JSON))
		l.json = json_array();
	gb_table_row(&l.table, (const char *const[]){"NAME", "DIGEST", "SIZE", "USED",
				       "CREATED", "SOURCE", NULL});
	r = gb_image_list(cli->dirs.data, list_one, &l, err);
	if (r == 0 && l.json)
		r = gb_print_json(json_incref(l.json), err);
	else if (r == 0 && !l.quiet)
		r = gb_table_print(&l.table, err);
	else if (r == 0)
		r = gb_flush(err);
	json_decref(l.json);
	gb_table_done(&l.table);
	return r;
}

/* The whole image goes with its last name, or when a digest is given. */
static bool removes_all(const struct gb_image *i, const char *ref)
{
	for (size_t n = 0; n < i->names.n; n++)
		if (gb_streq(i->names.v[n], ref))
			return i->names.n == 1;
	return true;
}

static int check_unused(
	const struct gb_cli *cli, const struct gb_image *i, struct gb_err *err)
{
	gb_auto_done(gb_strv) names = {0};
	int r = gb_machine_names(&cli->dirs, &names, err);

	for (size_t n = 0; r == 0 && n < names.n; n++) {
		gb_auto_done(gb_machine_spec) s = {0};

		if (gb_machine_load(&cli->dirs, names.v[n], &s, NULL) == 0 &&
			gb_streq(s.image, i->digest))
			return gb_fail(err, GB_E_BUSY,
				"machine '%s' uses it (glovebox rm %s removes that)",
				names.v[n], names.v[n]);
	}
	return r;
}

static int rm_image(struct gb_cli *cli, const char *ref, struct gb_err *err)
{
	gb_auto_done(gb_image) i = {0};
	int r = gb_image_find(cli->dirs.data, ref, &i, err);

	if (r == 0 && removes_all(&i, ref))
		r = check_unused(cli, &i, err);
	if (r == 0)
		r = gb_image_remove(cli->dirs.data, ref, err);
	return r < 0 ? gb_wrap(err, r, "cannot remove image '%s'", ref) : 0;
}

int gb_cmd_image_rm(struct gb_cli *cli, struct gb_err *err)
{
	(void)err;
	return gb_cli_each(cli, rm_image);
}

static void print_image(const struct gb_image *i)
{
	char size[32];
	char used[32];
	char created[32];
	gb_auto_free char *source = gb_printable(i->source, false);

	gb_amount_text(i->size, size, sizeof(size));
	gb_amount_text(i->disk_bytes, used, sizeof(used));
	gb_time_text(i->created_s, created, sizeof(created));
	printf("digest: %s\n", i->digest);
	for (size_t n = 0; n < i->names.n; n++)
		printf("name: %s\n", i->names.v[n]);
	printf("source: %s\npath: %s\nsize: %s\nused: %s\ncreated: %s\n",
		source ? source : "?", i->path, size, used, created);
	if (*i->user)
		printf("user: %s\n", i->user);
	if (*i->workdir)
		printf("workdir: %s\n", i->workdir);
	for (size_t n = 0; n < i->env.n; n++)
		printf("env: %s\n", i->env.v[n]);
}

int gb_cmd_image_inspect(struct gb_cli *cli, struct gb_err *err)
{
	bool json = gb_cli_given(&cli->args, OPT_JSON);
	json_t *list = json_array();
	int code = 0;
	int r = 0;

	for (size_t n = 0; n < cli->args.operand_count; n++) {
		gb_auto_done(gb_image) i = {0};
		struct gb_err why;

		if (gb_image_find(cli->dirs.data, cli->args.operands[n], &i, &why) < 0) {
			gb_say("%s", why.msg);
			code = 1;
		} else if (json) {
			json_array_append_new(list, image_json(&i));
		} else {
			print_image(&i);
		}
	}
	if (json)
		r = gb_print_json(json_incref(list), err);
	json_decref(list);
	if (r == 0)
		r = gb_flush(err);
	return r < 0 ? r : code;
}
