/* create, start, stop, rm, set: machines as such. */
#include "front/cli/cli.h"
#include "front/cli/target.h"
#include "front/cli/term.h"
#include "machine/client.h"

#include <string.h>

#define STOP_DEADLINE_MS UINT64_C(10000)
#define STOP_MAX_MS	 (UINT64_C(24) * 3600 * 1000)

int gb_cli_each(struct gb_cli *cli,
	int (*one)(struct gb_cli *cli, const char *name, struct gb_err *err))
{
	int code = 0;

	for (size_t i = 0; i < cli->args.operand_count; i++) {
		struct gb_err err = {0};

		if (one(cli, cli->args.operands[i], &err) >= 0)
			continue;
		gb_say("%s", err.msg);
		code = cli->args.command->failure;
	}
	return code;
}

/* -e, -w and -u of create are the machine's own from then on. */
static int take_defaults(
	const struct gb_cli *cli, struct gb_config *c, struct gb_err *err)
{
	static const struct {
		enum gb_cli_option_id option;
		enum gb_config_id key;
	} map[] = {
		{OPT_WORKDIR, GB_CONFIG_WORKDIR},
		{OPT_USER, GB_CONFIG_USER},
		{OPT_ENV, GB_CONFIG_ENVIRONMENT},
	};
	const struct gb_config_base base = {cli->cwd, NULL};

	for (size_t i = 0; i < cli->args.seen_count; i++) {
		const struct gb_cli_seen *seen = &cli->args.seen[i];

		for (size_t j = 0; j < GB_ARRAY_SIZE(map); j++) {
			int r = map[j].option != seen->id
					? 0
					: gb_config_set(c, map[j].key,
						  GB_CONFIG_FROM_OPTION, "option",
						  seen->value, &base, err);
			if (r < 0)
				return gb_wrap(
					err, r, "--%s", gb_cli_options[seen->id].name);
		}
	}
	return 0;
}

int gb_cmd_create(struct gb_cli *cli, struct gb_err *err)
{
	gb_auto_done(gb_config) c = {0};
	gb_auto_free char *here = NULL;
	const char *name = cli->args.operands[0];
	int r = gb_cli_load_config(cli, &c, err);

	if (r == 0)
		r = take_defaults(cli, &c, err);
	if (r == 0 && !name)
		r = gb_target_here(cli, &here, err);
	if (r < 0)
		return r;
	name = name ? name : here;
	r = gb_signals_catch(err); /* an image may be made first */
	if (r == 0)
		r = gb_target_create(cli, &c, name, false, err);
	if (r < 0)
		return r;
	puts(name);
	return gb_flush(err);
}

static int start_one(struct gb_cli *cli, const char *name, struct gb_err *err)
{
	int r = gb_client_start(&cli->dirs, name, false, gb_step_show, NULL, NULL, err);

	gb_progress_end();
	return r;
}

int gb_cmd_start(struct gb_cli *cli, struct gb_err *err)
{
	(void)err;
	return gb_cli_each(cli, start_one);
}

static int stop_deadline(const struct gb_cli *cli, uint64_t *ret, struct gb_err *err)
{
	const char *text = gb_cli_value(&cli->args, OPT_STOP_TIME);
	int r;

	*ret = STOP_DEADLINE_MS;
	if (!text)
		return 0;
	r = gb_parse_duration_ms(text, STOP_MAX_MS, ret, err);
	return r < 0 ? gb_wrap(err, r, "--time") : 0;
}

static int stop_one(struct gb_cli *cli, const char *name, struct gb_err *err)
{
	uint64_t deadline;
	int r = stop_deadline(cli, &deadline, err);

	if (r < 0)
		return r;
	r = gb_client_stop(
		&cli->dirs, name, deadline, gb_cli_given(&cli->args, OPT_FORCE), err);
	return r < 0 ? gb_wrap(err, r, "cannot stop '%s'", name) : 0;
}

int gb_cmd_stop(struct gb_cli *cli, struct gb_err *err)
{
	uint64_t deadline;
	int r = stop_deadline(cli, &deadline, err);

	return r < 0 ? r : gb_cli_each(cli, stop_one);
}

static int rm_one(struct gb_cli *cli, const char *name, struct gb_err *err)
{
	int r = gb_cli_given(&cli->args, OPT_FORCE)
			? gb_client_stop(&cli->dirs, name, STOP_DEADLINE_MS, true, err)
			: 0;

	if (r == 0)
		r = gb_machine_remove(&cli->dirs, name, err);
	/* a machine of run --rm goes by itself when it is stopped; -f is content with
	 * that */
	if (r == GB_E_NOTFOUND && gb_cli_given(&cli->args, OPT_FORCE) &&
		gb_starts_with(name, "rm-"))
		return 0;
	return r < 0 ? gb_wrap(err, r, "cannot remove '%s'", name) : 0;
}

int gb_cmd_rm(struct gb_cli *cli, struct gb_err *err)
{
	(void)err;
	return gb_cli_each(cli, rm_one);
}

static int apply_changes(const struct gb_cli *cli, const struct gb_config *c,
	struct gb_machine_spec *s, struct gb_err *err)
{
	const struct gb_cli_args *a = &cli->args;
	const char *user = gb_cli_value(a, OPT_USER);
	const char *workdir = gb_cli_value(a, OPT_WORKDIR);

	if (gb_cli_given(a, OPT_CPUS))
		s->cpus = (uint32_t)gb_config_number(c, GB_CONFIG_CPUS);
	if (gb_cli_given(a, OPT_MEMORY))
		s->memory_bytes = gb_config_number(c, GB_CONFIG_MEMORY);
	if (gb_cli_given(a, OPT_DISK)) {
		uint64_t disk = gb_config_number(c, GB_CONFIG_DISK);
		char text[32];

		gb_size_text(s->disk_bytes, text, sizeof(text));
		if (disk < s->disk_bytes)
			return gb_fail(
				err, GB_E_INVALID, "a disk only grows: it has %s", text);
		if (*s->root)
			return gb_fail(err, GB_E_INVALID,
				"its root is the file '%s': resize that (truncate, "
				"resize2fs)",
				s->root);
		s->disk_bytes = disk;
	}
	if (gb_cli_given(a, OPT_ACCEL) &&
		!gb_spec_set(&s->accel, gb_config_text(c, GB_CONFIG_ACCEL)))
		return gb_nomem(err);
	if ((user && !gb_spec_set(&s->user, user)) ||
		(workdir && !gb_spec_set(&s->workdir, workdir)))
		return gb_nomem(err);
	return 0;
}

int gb_cmd_set(struct gb_cli *cli, struct gb_err *err)
{
	gb_auto_done(gb_config) c = {0};
	gb_auto_done(gb_machine_spec) s = {0};
	const char *name = cli->args.operands[0];
	int r;

	if (!cli->args.seen_count) {
		gb_say("nothing to set: name an option, such as --disk 40G");
		return GB_EXIT_USAGE;
	}
	r = gb_cli_load_config(cli, &c, err);
	if (r == 0)
		r = take_defaults(cli, &c, err); /* checks them */
	if (r == 0)
		r = gb_machine_load(&cli->dirs, name, &s, err);
	if (r == 0)
		r = apply_changes(cli, &c, &s, err);
	if (r == 0)
		r = gb_machine_update(&cli->dirs, &s, err);
	return r < 0 ? gb_wrap(err, r, "cannot change '%s'", name) : 0;
}
