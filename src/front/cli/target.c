#include "front/cli/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int gb_target_here(const struct gb_cli *cli, char **ret, struct gb_err *err)
{
	if (!*cli->cwd)
		return gb_fail(err, GB_E_NOTFOUND,
			"the current directory is gone: change to one that exists");
	return gb_machine_name_for(cli->cwd, ret, err);
}

static int add_shares(
	struct gb_machine_spec *s, const struct gb_strv *list, struct gb_err *err)
{
	const struct gb_config_base base = {"/", NULL};

	for (size_t i = 0; i < list->n; i++) {
		gb_auto_done(gb_share_arg) a = {0};
		int r = gb_share_arg_parse(list->v[i], &base, &a, err);

		if (r == 0)
			r = gb_machine_spec_add_share(s, a.host, a.guest, a.rdonly, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* K alone is the host's value at each command, see exec.c; K=V is the machine's. */
static int add_env(
	struct gb_machine_spec *s, const struct gb_strv *list, struct gb_err *err)
{
	for (size_t i = 0; i < list->n; i++)
		if (strchr(list->v[i], '='))
			gb_strv_set_env(&s->env, list->v[i]);
	return gb_strv_check(&s->env, "environment", err);
}

/* What was configured goes before what the image says. */
static int set_strings(const struct gb_cli *cli, const struct gb_config *c,
	const struct gb_image *image, struct gb_machine_spec *s, struct gb_err *err)
{
	const char *workdir = gb_config_text(c, GB_CONFIG_WORKDIR);
	const char *user = gb_config_text(c, GB_CONFIG_USER);

	if (!*workdir && *cli->cwd)
		workdir = GB_WORK_PATH;
	else if (!*workdir && image && image->workdir)
		workdir = image->workdir;
	if ((*user && !gb_spec_set(&s->user, user)) ||
		!gb_spec_set(&s->directory, cli->cwd) ||
		!gb_spec_set(&s->workdir, workdir) ||
		!gb_spec_set(&s->accel, gb_config_text(c, GB_CONFIG_ACCEL)) ||
		!gb_spec_set(&s->kernel, gb_config_text(c, GB_CONFIG_KERNEL)) ||
		!gb_spec_set(&s->modules, gb_config_text(c, GB_CONFIG_MODULES)))
		return gb_nomem(err);
	return 0;
}

int gb_target_spec(const struct gb_cli *cli, const struct gb_config *c, const char *name,
	const struct gb_image *image, struct gb_machine_spec *ret, struct gb_err *err)
{
	const char *ref = gb_config_text(c, GB_CONFIG_IMAGE_DEFAULT);
	struct gb_machine_spec s;
	int r = gb_machine_spec_new(name, image, *ref ? ref : GB_DEFAULT_IMAGE, &s, err);

	if (r < 0)
		return r;
	s.cpus = (uint32_t)gb_config_number(c, GB_CONFIG_CPUS);
	s.memory_bytes = gb_config_number(c, GB_CONFIG_MEMORY);
	r = set_strings(cli, c, image, &s, err);
	if (r == 0)
		r = gb_machine_spec_disk(&s, image, gb_config_number(c, GB_CONFIG_DISK),
			c->settings[GB_CONFIG_DISK].source == GB_CONFIG_FROM_OPTION, err);
	if (r == 0)
		r = add_env(&s, gb_config_list(c, GB_CONFIG_ENVIRONMENT), err);
	if (r == 0)
		r = add_shares(&s, gb_config_list(c, GB_CONFIG_SHARE_LIST), err);
	if (r < 0) {
		gb_machine_spec_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

/* --root FILE as an absolute path; owned, NULL when it was not given. */
static int root_file(const struct gb_cli *cli, char **ret, struct gb_err *err)
{
	const char *root = gb_cli_value(&cli->args, OPT_ROOT);
	struct stat st;

	*ret = NULL;
	if (!root)
		return 0;
	if (gb_cli_given(&cli->args, OPT_IMAGE))
		return gb_fail(
			err, GB_E_INVALID, "--root and --image exclude each other");
	*ret = realpath(root, NULL);
	if (!*ret)
		return gb_fail_sys(err, errno, "cannot use '%s' as root", root);
	if (stat(*ret, &st) == 0 && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))
		return 0;
	return gb_fail(err, GB_E_INVALID, "cannot use '%s' as root: not a file", root);
}

/* The raw root decides its own size. */
static int use_root(struct gb_machine_spec *s, const char *root, struct gb_err *err)
{
	struct stat st;

	if (!gb_spec_set(&s->root, root))
		return gb_nomem(err);
	if (stat(root, &st) == 0 && S_ISREG(st.st_mode))
		s->disk_bytes = (uint64_t)st.st_size;
	return 0;
}

int gb_target_create(const struct gb_cli *cli, const struct gb_config *c,
	const char *name, bool ephemeral, struct gb_err *err)
{
	struct gb_machine_spec s = {0};
	struct gb_image image = {0};
	gb_auto_free char *root = NULL;
	bool have_image;
	int r = root_file(cli, &root, err);

	if (r < 0)
		return r;
	/* before an image is made for it, which takes long */
	if (!gb_name_valid(name))
		return gb_fail(err, GB_E_INVALID,
			"'%s' is no name for a machine: letters, digits, '.', '_' and "
			"'-', at "
			"most 63, starting with a letter or digit",
			name);
	have_image = !root;
	if (have_image)
		r = gb_cli_image(
			cli, gb_config_text(c, GB_CONFIG_IMAGE_DEFAULT), &image, err);
	if (r == 0)
		r = gb_target_spec(cli, c, name, have_image ? &image : NULL, &s, err);
	if (r == 0 && root)
		r = use_root(&s, root, err);
	if (r == 0)
		r = gb_machine_check_shares(&cli->dirs, &s, err);
	s.ephemeral = ephemeral;
	if (r == 0)
		r = gb_machine_create(
			&cli->dirs, &s, have_image ? image.path : NULL, err);
	gb_machine_spec_done(&s);
	gb_image_done(&image);
	return r;
}

static int differs(const struct gb_machine_spec *s, const char *what, const char *has,
	const char *wanted, bool can_set, struct gb_err *err)
{
	if (can_set)
		return gb_fail(err, GB_E_STATE,
			"machine '%s' has %s %s, not %s: glovebox stop %s, then glovebox "
			"set %s "
			"--%s %s",
			s->name, what, has, wanted, s->name, s->name, what, wanted);
	return gb_fail(err, GB_E_STATE,
		"machine '%s' has %s '%s', not '%s': use another --name, or remove it "
		"(glovebox rm %s) so that it is made anew",
		s->name, what, has, wanted, s->name);
}

static bool shares_with(const struct gb_machine_spec *s, const struct gb_share_arg *a)
{
	for (size_t i = 0; i < s->share_count; i++)
		if (gb_streq(s->shares[i].host, a->host) &&
			gb_streq(s->shares[i].guest, a->guest) &&
			s->shares[i].rdonly == a->rdonly)
			return true;
	return false;
}

static int agree_shares(
	const struct gb_cli *cli, const struct gb_machine_spec *s, struct gb_err *err)
{
	const struct gb_config_base base = {cli->cwd, getenv("HOME")};

	for (size_t i = 0; i < cli->args.seen_count; i++) {
		gb_auto_done(gb_share_arg) a = {0};
		int r;

		if (cli->args.seen[i].id != OPT_VOLUME)
			continue;
		r = gb_share_arg_parse(cli->args.seen[i].value, &base, &a, err);
		if (r < 0)
			return r;
		if (!shares_with(s, &a))
			return gb_fail(err, GB_E_STATE,
				"machine '%s' does not share '%s': use another --name, "
				"or "
				"remove it (glovebox rm %s) so that it is made anew",
				s->name, cli->args.seen[i].value, s->name);
	}
	return 0;
}

static int agree_size(const struct gb_cli *cli, const struct gb_machine_spec *s,
	enum gb_cli_option_id option, uint64_t has, uint64_t wanted, struct gb_err *err)
{
	const char *what = gb_cli_options[option].name;
	char has_text[32];
	char wanted_text[32];

	if (!gb_cli_given(&cli->args, option) || has == wanted)
		return 0;
	gb_size_text(has, has_text, sizeof(has_text));
	gb_size_text(wanted, wanted_text, sizeof(wanted_text));
	return differs(s, what, has_text, wanted_text, true, err);
}

static int agree_text(const struct gb_cli *cli, const struct gb_machine_spec *s,
	enum gb_cli_option_id option, const char *has, const char *wanted, bool can_set,
	struct gb_err *err)
{
	if (!gb_cli_given(&cli->args, option) || gb_streq(has, wanted))
		return 0;
	return differs(s, gb_cli_options[option].name, has, wanted, can_set, err);
}

int gb_target_agree(const struct gb_cli *cli, const struct gb_config *c,
	const struct gb_machine_spec *s, const char *image, struct gb_err *err)
{
	const char *ref = gb_cli_value(&cli->args, OPT_IMAGE);
	gb_auto_free char *root = NULL;
	int r = root_file(cli, &root, err);

	if (r == 0)
		r = agree_text(cli, s, OPT_ROOT, s->root, root ? root : "", false, err);
	if (r == 0 && ref && !gb_streq(ref, s->image_ref) && !gb_streq(image, s->image))
		r = differs(
			s, "image", *s->root ? s->root : s->image_ref, ref, false, err);
	if (r == 0)
		r = agree_size(cli, s, OPT_CPUS, s->cpus,
			gb_config_number(c, GB_CONFIG_CPUS), err);
	if (r == 0)
		r = agree_size(cli, s, OPT_MEMORY, s->memory_bytes,
			gb_config_number(c, GB_CONFIG_MEMORY), err);
	if (r == 0)
		r = agree_size(cli, s, OPT_DISK, s->disk_bytes,
			gb_config_number(c, GB_CONFIG_DISK), err);
	if (r == 0)
		r = agree_text(cli, s, OPT_ACCEL, s->accel,
			gb_config_text(c, GB_CONFIG_ACCEL), true, err);
	if (r == 0)
		r = agree_text(cli, s, OPT_KERNEL, s->kernel,
			gb_config_text(c, GB_CONFIG_KERNEL), false, err);
	if (r == 0)
		r = agree_text(cli, s, OPT_MODULES, s->modules,
			gb_config_text(c, GB_CONFIG_MODULES), false, err);
	return r < 0 ? r : agree_shares(cli, s, err);
}

/* The digest of --image, when it is an image that exists. */
static int wanted_digest(const struct gb_cli *cli, char **ret, struct gb_err *err)
{
	const char *ref = gb_cli_value(&cli->args, OPT_IMAGE);
	gb_auto_free char *name = NULL;
	struct gb_image image;
	int r;

	*ret = NULL;
	if (!ref)
		return 0;
	if (gb_image_ref_is_source(ref)) {
		r = gb_image_source_name(ref, &name, err);
		if (r < 0)
			return r;
		ref = name;
	}
	if (gb_image_find(cli->dirs.data, ref, &image, NULL) < 0) {
		*ret = strdup("");
	} else {
		*ret = gb_take_ptr(image.digest);
		gb_image_done(&image);
	}
	return *ret ? 0 : gb_nomem(err);
}

int gb_target_ensure(const struct gb_cli *cli, const struct gb_config *c,
	const char *name, struct gb_machine_spec *ret, struct gb_err *err)
{
	gb_auto_free char *digest = NULL;
	int r = gb_machine_load(&cli->dirs, name, ret, err);

	if (r == GB_E_NOTFOUND) {
		r = gb_target_create(cli, c, name, false, err);
		/* somebody else may have made it at the same moment */
		if (r < 0 && r != GB_E_EXISTS)
			return r;
		r = gb_machine_load(&cli->dirs, name, ret, err);
	}
	if (r < 0)
		return r;
	r = wanted_digest(cli, &digest, err);
	if (r == 0)
		r = gb_target_agree(cli, c, ret, digest, err);
	if (r < 0)
		gb_machine_spec_done(ret);
	return r;
}
