#include "front/cli/target.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORK_DIR "/work"
/* How old an abandoned machine of run --rm must be: its maker may be in a pid namespace
 * that we do not see. */
#define ABANDONED_S 10

int gb_target_here(const struct gb_cli *cli, char **ret, struct gb_err *err)
{
	if (!*cli->cwd)
		return gb_fail(err, GB_E_NOTFOUND,
			"the current directory is gone: change to one that exists");
	return gb_machine_name_for(cli->cwd, ret, err);
}

static int random_hex(size_t bytes, char *out, struct gb_err *err)
{
	uint8_t raw[32];

	if (getrandom(raw, bytes, 0) != (ssize_t)bytes)
		return gb_fail_sys(err, errno, "cannot get random bytes");
	gb_hex(raw, bytes, out);
	return 0;
}

int gb_target_ephemeral_name(char **ret, struct gb_err *err)
{
	char hex[9];
	int r = random_hex(4, hex, err);

	if (r < 0)
		return r;
	if (asprintf(ret, "rm-%d-%s", (int)getpid(), hex) < 0)
		return gb_nomem(err);
	return 0;
}

static bool is_abandoned(const struct gb_cli *cli, const char *name)
{
	struct gb_machine_info info;
	struct gb_machine_spec spec;
	bool old;
	int pid;

	if (sscanf(name, "rm-%d-", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 ||
		errno != ESRCH || gb_machine_load(&cli->dirs, name, &spec, NULL) < 0)
		return false;
	old = spec.ephemeral && spec.created_s + ABANDONED_S < time(NULL);
	gb_machine_spec_done(&spec);
	if (!old || gb_machine_inspect(&cli->dirs, name, &info, NULL) < 0)
		return false;
	gb_machine_info_done(&info);
	return info.state != GB_MACHINE_RUNNING;
}

void gb_target_sweep(const struct gb_cli *cli)
{
	struct gb_strv names = {0};

	if (gb_machine_names(&cli->dirs, &names, NULL) == 0)
		for (size_t i = 0; i < names.n; i++)
			if (is_abandoned(cli, names.v[i]))
				gb_machine_remove(&cli->dirs, names.v[i], NULL);
	gb_strv_done(&names);
}

/* Whether outer is inner or a folder above it; both absolute and resolved. */
static bool contains(const char *outer, const char *inner)
{
	size_t n = strlen(outer);

	if (n && outer[n - 1] == '/')
		n--;
	return strncmp(outer, inner, n) == 0 && (!inner[n] || inner[n] == '/');
}

int gb_target_check_folder(
	const struct gb_dirs *d, const char *folder, struct gb_err *err)
{
	const char *const own[] = {d->config, d->data, d->cache, d->runtime};
	char real_folder[PATH_MAX];

	if (!realpath(folder, real_folder))
		return gb_fail_sys(err, errno, "cannot share '%s'", folder);
	for (size_t i = 0; i < GB_ARRAY_SIZE(own); i++) {
		char real_own[PATH_MAX];
		const char *path = realpath(own[i], real_own) ? real_own : own[i];

		if (contains(real_folder, path) || contains(path, real_folder))
			return gb_fail(err, GB_E_DENIED,
				"cannot share '%s': glovebox keeps its own files in "
				"'%s', which "
				"a guest must not reach; work in a folder beside them",
				folder, path);
	}
	return 0;
}

static int check_share(const struct gb_dirs *d, const char *host, struct gb_err *err)
{
	struct stat st;

	if (stat(host, &st) < 0)
		return gb_fail_sys(err, errno, "cannot share '%s'", host);
	if (!S_ISDIR(st.st_mode))
		return gb_fail(
			err, GB_E_INVALID, "cannot share '%s': not a folder", host);
	return gb_target_check_folder(d, host, err);
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

/* Configured, else the image's. */
static const char *or_image(const char *configured, const char *of_image)
{
	return *configured || !of_image ? configured : of_image;
}

static int set_strings(const struct gb_cli *cli, const struct gb_config *c,
	const struct gb_image *image, struct gb_machine_spec *s, struct gb_err *err)
{
	const char *workdir = gb_config_text(c, GB_CONFIG_WORKDIR);
	const char *user =
		or_image(gb_config_text(c, GB_CONFIG_USER), image ? image->user : NULL);
	const char *ref = gb_config_text(c, GB_CONFIG_IMAGE_DEFAULT);

	if (!*workdir)
		workdir = *cli->cwd ? WORK_DIR
				    : or_image("", image ? image->workdir : NULL);
	if (image && (!gb_spec_set(&s->image, image->digest) ||
			     !gb_spec_set(&s->image_ref, *ref ? ref : GB_DEFAULT_IMAGE)))
		return gb_nomem(err);
	if (!gb_spec_set(&s->directory, cli->cwd) || !gb_spec_set(&s->user, user) ||
		!gb_spec_set(&s->workdir, workdir) ||
		!gb_spec_set(&s->accel, gb_config_text(c, GB_CONFIG_ACCEL)) ||
		!gb_spec_set(&s->kernel, gb_config_text(c, GB_CONFIG_KERNEL)) ||
		!gb_spec_set(&s->modules, gb_config_text(c, GB_CONFIG_MODULES)))
		return gb_nomem(err);
	return 0;
}

/* The disk holds the image at least; a size that was asked for must. */
static int set_sizes(const struct gb_config *c, const struct gb_image *image,
	struct gb_machine_spec *s, struct gb_err *err)
{
	char text[32];

	s->cpus = (uint32_t)gb_config_number(c, GB_CONFIG_CPUS);
	s->memory_bytes = gb_config_number(c, GB_CONFIG_MEMORY);
	s->disk_bytes = gb_config_number(c, GB_CONFIG_DISK);
	if (!image || s->disk_bytes >= image->size)
		return 0;
	gb_amount_text(image->size, text, sizeof(text));
	if (c->settings[GB_CONFIG_DISK].source == GB_CONFIG_FROM_OPTION)
		return gb_fail(err, GB_E_INVALID,
			"the image needs a disk of %s at least (--disk)", text);
	s->disk_bytes = image->size;
	return 0;
}

int gb_target_spec(const struct gb_cli *cli, const struct gb_config *c, const char *name,
	const struct gb_image *image, struct gb_machine_spec *ret, struct gb_err *err)
{
	struct gb_machine_spec s;
	char id[33];
	int r = random_hex(16, id, err);

	if (r < 0)
		return r;
	gb_machine_spec_init(&s);
	s.created_s = time(NULL);
	r = gb_spec_set(&s.name, name) && gb_spec_set(&s.id, id) ? 0 : gb_nomem(err);
	for (size_t i = 0; r == 0 && image && i < image->env.n; i++)
		gb_strv_set_env(&s.env, image->env.v[i]);
	if (r == 0)
		r = set_strings(cli, c, image, &s, err);
	if (r == 0)
		r = set_sizes(c, image, &s, err);
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

static int check_folders(
	const struct gb_cli *cli, const struct gb_machine_spec *s, struct gb_err *err)
{
	int r = *s->directory ? check_share(&cli->dirs, s->directory, err) : 0;

	for (size_t i = 0; r == 0 && i < s->share_count; i++)
		r = check_share(&cli->dirs, s->shares[i].host, err);
	return r;
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
		r = check_folders(cli, &s, err);
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
