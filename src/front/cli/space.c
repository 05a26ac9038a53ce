#include "front/cli/space.h"

#include "front/cli/target.h"
#include "lib/tool_mask.h"
#include "machine/make.h"

#include <stdio.h>
#include <string.h>

#define START_MS 300000u /* the start of a machine whose image or template is made first */

int gb_space_error(const struct glovebox_error *from, struct gb_err *err)
{
	gb_fail(err, from->code, "%s", from->message);
	err->sys = from->sys;
	return from->code;
}

void gb_space_done(struct gb_space *s)
{
	gb_cli_exec_done(&s->exec);
	gb_config_done(&s->config);
	gb_strv_done(&s->secrets);
	free(gb_take_ptr(s->name));
	free(gb_take_ptr(s->folder));
}

/* What is passed on to commands and named like a secret is masked in what they print. */
static int find_secrets(struct gb_space *s, struct gb_err *err)
{
	for (size_t i = 0; i < s->exec.env.n; i++) {
		const char *entry = s->exec.env.v[i];
		const char *eq = strchr(entry, '=');

		if (eq && gb_mask_name_is_secret(entry, (size_t)(eq - entry)))
			gb_strv_add(&s->secrets, eq + 1);
	}
	return gb_strv_check(&s->secrets, "secrets", err);
}

/* A machine keeps the folder with which it was created. */
static int find_folder(struct gb_space *s, struct gb_err *err)
{
	struct gb_machine_spec spec;

	if (s->name && gb_machine_load(&s->cli->dirs, s->name, &spec, NULL) == 0) {
		s->folder = strdup(spec.directory);
		gb_machine_spec_done(&spec);
	} else {
		s->folder = strdup(s->cli->cwd);
	}
	return s->folder ? 0 : gb_nomem(err);
}

int gb_space_init(struct gb_space *s, struct gb_cli *cli, const char *name, struct gb_err *err)
{
	bool ephemeral = gb_cli_given(&cli->args, OPT_RM);
	int r;

	memset(s, 0, sizeof(*s));
	s->cli = cli;
	if (ephemeral && name)
		return gb_fail(err, GB_E_INVALID,
			"--machine and --rm exclude each other: the machine of --rm has no name");
	r = gb_cli_load_config(cli, &s->config, err);
	if (r == 0)
		r = gb_cli_exec_init(&cli->args, NULL, 0, false,
			gb_config_list(&s->config, GB_CONFIG_ENVIRONMENT), &s->exec, err);
	if (r == 0)
		r = find_secrets(s, err);
	if (r == 0 && name)
		s->name = strdup(name);
	else if (r == 0 && !ephemeral)
		r = gb_target_here(cli, &s->name, err);
	if (r == 0 && name && !s->name)
		r = gb_nomem(err);
	return r == 0 ? find_folder(s, err) : r;
}

void gb_space_options(const struct gb_space *s, struct glovebox_tool_options *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->size = sizeof(*ret);
	ret->workdir = gb_cli_value(&s->cli->args, OPT_WORKDIR);
	ret->user = gb_cli_value(&s->cli->args, OPT_USER);
	ret->env = (const char *const *)s->exec.env.v;
}

static int open_workspace(struct gb_space *s, bool bound, glovebox_progress_fn progress, void *ctx,
	struct glovebox_workspace **ret, struct gb_err *err)
{
	const struct glovebox_open_options o = {
		.size = sizeof(o),
		.flags = bound ? 0 : GLOVEBOX_LAUNCH_RETAINED,
		.start_deadline_ms = START_MS,
		.progress = progress,
		.progress_ctx = ctx,
		.secrets = (const char *const *)s->secrets.v,
	};
	struct glovebox_error e = { 0 };

	if (glovebox_workspace_open(s->name, &o, ret, &e) < 0)
		return gb_space_error(&e, err);
	return 0;
}

/* Each opening makes a new one: the last may have been lost. */
static int open_ephemeral(struct gb_space *s, glovebox_progress_fn progress, void *ctx,
	struct glovebox_workspace **ret, struct gb_err *err)
{
	int r;

	gb_machine_sweep_ephemeral(&s->cli->dirs);
	free(gb_take_ptr(s->name));
	r = gb_machine_ephemeral_name(&s->name, err);
	if (r == 0)
		r = gb_target_create(s->cli, &s->config, s->name, true, err);
	if (r < 0)
		return r;
	r = open_workspace(s, true, progress, ctx, ret, err);
	if (r < 0)
		gb_machine_remove(&s->cli->dirs, s->name, NULL);
	return r;
}

int gb_space_open(struct gb_space *s, glovebox_progress_fn progress, void *ctx,
	struct glovebox_workspace **ret, struct gb_err *err)
{
	struct gb_machine_spec spec;
	int r;

	if (gb_cli_given(&s->cli->args, OPT_RM))
		return open_ephemeral(s, progress, ctx, ret, err);
	r = gb_target_ensure(s->cli, &s->config, s->name, &spec, err);
	if (r < 0)
		return r;
	gb_machine_spec_done(&spec);
	return open_workspace(s, false, progress, ctx, ret, err);
}

int gb_space_connect(struct gb_space *s, struct glovebox_workspace **ret, struct gb_err *err)
{
	struct gb_machine_info info;
	int r = gb_machine_inspect(&s->cli->dirs, s->name, &info, err);

	if (r < 0)
		return r;
	gb_machine_info_done(&info);
	if (!info.supervisor)
		return gb_fail(err, GB_E_STATE,
			"machine '%s' is not running (glovebox start %s starts it)", s->name,
			s->name);
	return open_workspace(s, false, NULL, NULL, ret, err);
}
