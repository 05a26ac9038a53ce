/* A workspace comes to be: a machine is made and started, or one that exists is. */
#include "base/clock.h"
#include "lib/core.h"
#include "machine/client.h"
#include "machine/make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define START_MS       30000u
#define DEFAULT_IMAGE  "default"
#define DEFAULT_CPUS   2u
#define DEFAULT_MEMORY (UINT64_C(2) << 30)
#define DEFAULT_DISK   (UINT64_C(20) << 30)
#define KILL_MS        10000
#define SECRETS_MAX    1024

static int add_list(struct gb_strv *to, const char *const *from, struct gb_err *err)
{
	for (; from && *from; from++)
		gb_strv_add(to, *from);
	return gb_strv_check(to, "options", err);
}

static int add_env(struct gb_machine_spec *s, const char *const *env, struct gb_err *err)
{
	for (; env && *env; env++) {
		const char *equals = strchr(*env, '=');

		/* the text may be a secret: its place must do */
		if (!equals || equals == *env)
			return gb_fail(err, GB_E_INVALID,
				"an entry of the environment is not of the form NAME=VALUE");
		gb_strv_set_env(&s->env, *env);
	}
	return gb_strv_check(&s->env, "environment", err);
}

static int set_directory(struct gb_machine_spec *s, const char *directory, struct gb_err *err)
{
	gb_auto_free char *real = NULL;

	if (!directory)
		return 0;
	real = realpath(directory, NULL);
	if (!real)
		return gb_fail_sys(err, errno, "cannot share '%s'", directory);
	return gb_spec_set(&s->directory, real) ? 0 : gb_nomem(err);
}

static int add_shares(struct gb_machine_spec *s, const struct glovebox_share *shares, size_t count,
	struct gb_err *err)
{
	for (size_t i = 0; i < count; i++) {
		gb_auto_free char *real = NULL;
		int r;

		if (!shares[i].host || !shares[i].guest)
			return gb_fail(err, GB_E_INVALID, "share %zu has no folder", i);
		real = realpath(shares[i].host, NULL);
		if (!real)
			return gb_fail_sys(err, errno, "cannot share '%s'", shares[i].host);
		r = gb_machine_spec_add_share(
			s, real, shares[i].guest, shares[i].read_only, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int fill_spec(struct gb_machine_spec *s, const struct glovebox_launch_options *o,
	const struct gb_image *image, struct gb_err *err)
{
	const char *workdir = o->workdir;
	int r = set_directory(s, o->directory, err);

	if (r < 0)
		return r;
	if (!workdir)
		workdir = o->directory ? GB_WORK_PATH : image->workdir ? image->workdir : "";
	if (!gb_spec_set(&s->workdir, workdir) || (o->user && !gb_spec_set(&s->user, o->user)) ||
		!gb_spec_set(&s->accel, o->accel ? o->accel : "auto"))
		return gb_nomem(err);
	s->cpus = o->cpus ? o->cpus : DEFAULT_CPUS;
	s->memory_bytes = o->memory_bytes ? o->memory_bytes : DEFAULT_MEMORY;
	s->ephemeral = !o->name;
	r = gb_machine_spec_disk(s, image, o->disk_bytes ? o->disk_bytes : DEFAULT_DISK,
		o->disk_bytes != 0, err);
	if (r == 0)
		r = add_env(s, o->env, err);
	if (r == 0)
		r = add_shares(s, o->shares, o->share_count, err);
	return r;
}

/* Its folder; *ret_name is owned. */
static int create(const struct gb_dirs *d, const struct glovebox_launch_options *o,
	char **ret_name, struct gb_err *err)
{
	const char *ref = o->image ? o->image : DEFAULT_IMAGE;
	gb_auto_done(gb_machine_spec) s = { 0 };
	gb_auto_done(gb_image) image = { 0 };
	gb_auto_free char *name = NULL;
	int r = 0;

	if (o->name)
		name = strdup(o->name);
	else
		r = gb_machine_ephemeral_name(&name, err);
	if (r < 0 || !name)
		return r < 0 ? r : gb_nomem(err);
	if (!gb_name_valid(name))
		return gb_fail(err, GB_E_INVALID, "'%s' is no name for a machine", name);
	gb_machine_sweep_ephemeral(d);
	r = gb_image_find(d->data, ref, &image, err);
	if (r == 0)
		r = gb_machine_spec_new(name, &image, ref, &s, err);
	if (r == 0)
		r = fill_spec(&s, o, &image, err);
	if (r == 0)
		r = gb_machine_check_shares(d, &s, err);
	if (r == 0)
		r = gb_machine_create(d, &s, image.path, err);
	if (r == 0)
		*ret_name = gb_take_ptr(name);
	return r;
}

static int open_log(const struct gb_dirs *d, const char *machine, const char *file)
{
	gb_auto_free char *path = gb_machine_path(d, machine, file);

	return path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
}

static int core_new(const struct gb_dirs *d, const char *machine, const char *const *secrets,
	struct gb_core **ret, struct gb_err *err)
{
	struct gb_core *core = calloc(1, sizeof(*core));
	int r;

	if (!core)
		return gb_nomem(err);
	atomic_init(&core->refs, 1);
	core->pid = getpid();
	pthread_mutex_init(&core->lock, NULL);
	core->logs[0] = core->logs[1] = -1;
	core->machine = strdup(machine);
	core->dirs.config = strdup(d->config);
	core->dirs.data = strdup(d->data);
	core->dirs.cache = strdup(d->cache);
	core->dirs.runtime = strdup(d->runtime);
	r = core->machine && core->dirs.config && core->dirs.data && core->dirs.cache &&
			core->dirs.runtime
		? add_list(&core->secrets, secrets, err)
		: gb_nomem(err);
	if (r == 0 && core->secrets.n > SECRETS_MAX)
		r = gb_fail(err, GB_E_LIMIT, "more than %d secrets", SECRETS_MAX);
	if (r < 0) {
		gb_core_unref(core);
		return r;
	}
	*ret = core;
	return 0;
}

/* What start needs, of both kinds of options. */
struct start {
	bool bound;
	uint32_t deadline_ms;
	glovebox_progress_fn progress;
	void *ctx;
	const char *const *secrets;
};

/* A connected core on a machine that exists. */
static int start(const struct gb_dirs *d, const char *machine, const struct start *s,
	struct glovebox_workspace **ret, struct gb_err *err)
{
	const struct gb_client_start_options options = {
		.bound = s->bound,
		.deadline_ms = s->deadline_ms ? s->deadline_ms : START_MS,
		.progress = s->progress,
		.ctx = s->ctx,
	};
	struct glovebox_workspace *ws;
	struct gb_core *core = NULL;
	struct gb_client *c = NULL;
	struct gb_wire wire;
	uint32_t next;
	int r = core_new(d, machine, s->secrets, &core, err);

	if (r < 0)
		return r;
	ws = calloc(1, sizeof(*ws));
	r = ws ? gb_client_start_with(d, machine, &options, &c, err) : gb_nomem(err);
	if (r == 0) {
		gb_client_release(c, &wire, &next);
		r = gb_link_new(&wire, next, &core->link, err);
	}
	if (r < 0) {
		free(ws);
		gb_core_unref(core);
		return r;
	}
	core->logs[0] = open_log(d, machine, "console.log");
	core->logs[1] = open_log(d, machine, "supervisor.log");
	ws->core = core;
	ws->own = (struct glovebox_tools){ .core = core, .owner = true };
	*ret = ws;
	return 0;
}

static int launch(const struct glovebox_launch_options *o, struct glovebox_workspace **ret,
	struct gb_err *err)
{
	const struct start s = { !(o->flags & GLOVEBOX_LAUNCH_RETAINED), o->start_deadline_ms,
		o->progress, o->progress_ctx, o->secrets };
	gb_auto_done(gb_dirs) d = { 0 };
	gb_auto_free char *name = NULL;
	int r;

	if (o->flags & ~(uint32_t)GLOVEBOX_LAUNCH_RETAINED)
		return gb_fail(err, GB_E_UNSUPPORTED, "an unknown flag");
	if (!o->name && !s.bound)
		return gb_fail(err, GB_E_INVALID, "a machine that is retained needs a name");
	r = gb_dirs_init(&d, err);
	if (r == 0)
		r = create(&d, o, &name, err);
	if (r < 0)
		return r;
	r = start(&d, name, &s, ret, err);
	if (r < 0) {
		/* what went wrong first is what counts */
		gb_core_kill(&d, name, true, gb_deadline_ms(KILL_MS), NULL);
		return r;
	}
	(*ret)->core->made_ephemeral = !o->name;
	return 0;
}

int glovebox_workspace_launch(const struct glovebox_launch_options *options,
	struct glovebox_workspace **ret, struct glovebox_error *err)
{
	struct glovebox_launch_options o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = launch(&o, ret, &e);
	return gb_give_error(err, &e, r);
}

static int open_machine(const char *machine, const struct glovebox_open_options *o,
	struct glovebox_workspace **ret, struct gb_err *err)
{
	const struct start s = { !(o->flags & GLOVEBOX_LAUNCH_RETAINED), o->start_deadline_ms,
		o->progress, o->progress_ctx, o->secrets };
	gb_auto_done(gb_dirs) d = { 0 };
	int r;

	if (o->flags & ~(uint32_t)GLOVEBOX_LAUNCH_RETAINED)
		return gb_fail(err, GB_E_UNSUPPORTED, "an unknown flag");
	if (!machine || !gb_name_valid(machine))
		return gb_fail(err, GB_E_INVALID, "'%s' is no name for a machine",
			machine ? machine : "");
	r = gb_dirs_init(&d, err);
	return r < 0 ? r : start(&d, machine, &s, ret, err);
}

int glovebox_workspace_open(const char *machine, const struct glovebox_open_options *options,
	struct glovebox_workspace **ret, struct glovebox_error *err)
{
	struct glovebox_open_options o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = open_machine(machine, &o, ret, &e);
	return gb_give_error(err, &e, r);
}
