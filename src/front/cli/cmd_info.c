/* doctor, completion, version, help: about glovebox itself. */
#include "front/cli/cli.h"
#include "front/cli/help.h"
#include "front/cli/images.h"
#include "proto/frame.h"
#include "vmm/doctor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int print_text(const struct gb_buf *text, struct gb_err *err)
{
	int r = gb_buf_check(text, "text", err);

	if (r < 0)
		return r;
	fwrite(text->data, 1, text->len, stdout);
	return gb_flush(err);
}

/* What the doctor found; exit code 1 when no machine can run. */
struct findings {
	struct gb_table table;
	json_t *list;
	bool cannot_run;
};

static void add_finding(void *ctx, const char *check, bool ok, const char *text)
{
	static const char *const needed[] = {
		"qemu", "kernel", "programs", "data folder", "runtime folder"};
	struct findings *f = ctx;

	json_array_append_new(
		f->list, json_pack("{s:o, s:b, s:o}", "check", gb_json_text(check), "ok",
				 ok, "text", gb_json_text(text)));
	gb_table_row(
		&f->table, (const char *const[]){check, ok ? "ok" : "!", text, NULL});
	for (size_t i = 0; i < GB_ARRAY_SIZE(needed); i++)
		f->cannot_run |= !ok && gb_streq(check, needed[i]);
}

/* The deepest folder of path that exists can be written to. */
static void check_writable(struct findings *f, const char *check, const char *path)
{
	gb_auto_free char *dir = strdup(path);
	gb_auto_free char *text = NULL;
	char *slash;
	bool ok;

	while (dir && access(dir, F_OK) < 0 && (slash = strrchr(dir, '/')) &&
		slash != dir)
		*slash = 0;
	ok = dir && access(dir, W_OK | X_OK) == 0;
	if (asprintf(&text,
		    ok ? "%s"
		       : "%s cannot be written: change its owner or mode, or set "
			 "GLOVEBOX_HOME",
		    path) >= 0)
		add_finding(f, check, ok, text);
}

static void check_programs(struct findings *f)
{
	static const char *const roles[] = {"supervisor", "share", "prepare", "image"};
	struct gb_err err;

	for (size_t i = 0; i < GB_ARRAY_SIZE(roles); i++) {
		gb_auto_free char *path = NULL;

		if (gb_role_path(roles[i], &path, &err) < 0) {
			add_finding(f, "programs", false, err.msg);
			return;
		}
	}
	add_finding(
		f, "programs", true, "supervisor, share, prepare and image are there");
}

static void check_image(struct findings *f, const struct gb_cli *cli)
{
	gb_auto_done(gb_config) c = {0};
	gb_auto_done(gb_image) image = {0};
	gb_auto_free char *name = NULL;
	gb_auto_free char *text = NULL;
	struct gb_err err = {0};
	const char *ref;
	int r = gb_cli_load_config(cli, &c, &err);

	if (r < 0) {
		add_finding(f, "configuration", false, err.msg);
		return;
	}
	add_finding(f, "configuration", !c.error_total,
		c.error_total ? "has errors: glovebox config check" : "has no errors");
	ref = gb_config_text(&c, GB_CONFIG_IMAGE_DEFAULT);
	if (!*ref)
		ref = GB_DEFAULT_IMAGE;
	else if (gb_image_ref_is_source(ref) &&
		 gb_image_source_name(ref, &name, &err) == 0)
		ref = name;
	r = gb_image_find(cli->dirs.data, ref, &image, &err);
	if (r == 0 && asprintf(&text, "'%s' is there", ref) >= 0)
		add_finding(f, "image", true, text);
	else if (r == GB_E_NOTFOUND &&
		 asprintf(&text, "'%s' is not made yet: the first run makes it", ref) >=
			 0)
		add_finding(f, "image", name || gb_streq(ref, GB_DEFAULT_IMAGE), text);
	else if (r < 0)
		add_finding(f, "image", false, err.msg);
}

int gb_cmd_doctor(struct gb_cli *cli, struct gb_err *err)
{
	bool json = gb_cli_given(&cli->args, OPT_JSON);
	struct findings f = {.list = json_array()};
	int r = 0;

	gb_table_row(&f.table, (const char *const[]){"CHECK", "", "FOUND", NULL});
	check_programs(&f);
	check_writable(&f, "data folder", cli->dirs.data);
	check_writable(&f, "cache folder", cli->dirs.cache);
	check_image(&f, cli);
	r = gb_vmm_doctor(cli->dirs.cache, add_finding, &f, err);
	if (r == 0 && json)
		r = gb_print_json(json_incref(f.list), err);
	else if (r == 0)
		r = gb_table_print(&f.table, err);
	json_decref(f.list);
	gb_table_done(&f.table);
	return r < 0 ? r : f.cannot_run;
}

int gb_cmd_completion(struct gb_cli *cli, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	const char *shell = cli->args.operands[0];

	gb_buf_init(&text, 0);
	if (gb_cli_completion(shell, &text))
		return print_text(&text, err);
	gb_say("no completion for '%s': bash, zsh and fish have one", shell);
	return GB_EXIT_USAGE;
}

int gb_cmd_version(struct gb_cli *cli, struct gb_err *err)
{
	if (gb_cli_given(&cli->args, OPT_JSON))
		return gb_print_json(json_pack("{s:s, s:i}", "version", GB_VERSION,
					     "protocol", (int)GB_FRAME_VERSION),
			err);
	puts("glovebox " GB_VERSION);
	return gb_flush(err);
}

int gb_cmd_help(struct gb_cli *cli, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	char **words = cli->args.operands;
	size_t n = cli->args.operand_count;
	const struct gb_cli_command *c = NULL;

	gb_buf_init(&text, 0);
	if (n)
		c = n == 2 ? gb_cli_command_find(words[0], words[1])
			   : gb_cli_command_find(NULL, words[0]);
	if (c)
		gb_cli_help_command(c, &text);
	else if (n == 1 && gb_cli_is_group(words[0]))
		gb_cli_help_group(words[0], &text);
	else if (!n)
		gb_cli_help_all(&text);
	if (text.len || text.error)
		return print_text(&text, err);
	gb_say("no command '%s%s%s' (glovebox help lists them)", words[0],
		n == 2 ? " " : "", n == 2 ? words[1] : "");
	return GB_EXIT_USAGE;
}
