#include "machine/boot_impl.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Making a bundle and a template: seconds under TCG, more on a busy machine. */
#define PREPARE_DEADLINE_MS UINT64_C(240000)
#define PREPARE_LINE_MAX    ((size_t)4096)

void gb_parts_done(struct gb_parts *p)
{
	gb_boot_paths_done(&p->paths);
	free(p->bundle);
	free(p->image_template);
	free(p->template_path);
	memset(p, 0, sizeof(*p));
}

static struct gb_template_want template_want(
	const struct gb_machine_spec *spec, const struct gb_parts *p)
{
	return (struct gb_template_want){
		.accel = p->accel.accel,
		.cpus = spec->cpus,
		.memory_bytes = spec->memory_bytes,
		.bundle = p->bundle,
	};
}

static struct gb_template_want image_want(
	const struct gb_machine_spec *spec, const struct gb_parts *p)
{
	struct gb_template_want w = template_want(spec, p);

	w.image = spec->image;
	w.disk_bytes = spec->disk_bytes;
	return w;
}

/* image: NULL but for a template of it. */
static void prepare_arguments(struct gb_strv *argv, const char *what, const char *image,
	const struct gb_machine_spec *spec, const struct gb_parts *p)
{
	gb_strv_add(argv, what);
	if (*spec->kernel) {
		gb_strv_add(argv, "--kernel");
		gb_strv_add(argv, spec->kernel);
	}
	if (*spec->modules) {
		gb_strv_add(argv, "--modules");
		gb_strv_add(argv, spec->modules);
	}
	if (gb_streq(what, "bundle"))
		return;
	gb_strv_addf(argv, "--accel=%s", gb_accel_name(p->accel.accel));
	gb_strv_addf(argv, "--cpus=%u", spec->cpus);
	gb_strv_addf(argv, "--memory=%llu", (unsigned long long)spec->memory_bytes);
	if (!image)
		return;
	gb_strv_addf(argv, "--image=%s", image);
	gb_strv_addf(argv, "--digest=%s", spec->image);
	gb_strv_addf(argv, "--disk=%llu", (unsigned long long)spec->disk_bytes);
}

/* The role's two outputs: progress lines on stderr, the folder on stdout. */
struct prepare_run {
	int out, err_fd;
	struct gb_buf result;
	struct gb_buf line;
	char last[256];
	gb_boot_progress progress;
	void *ctx;
};

static void take_lines(struct prepare_run *run)
{
	uint8_t *end;

	while ((end = memchr(run->line.data, '\n', run->line.len))) {
		size_t n = (size_t)(end - run->line.data);

		snprintf(run->last, sizeof(run->last), "%.*s", (int)n, (char *)run->line.data);
		if (run->progress)
			run->progress(run->ctx, run->last);
		gb_buf_consume(&run->line, n + 1);
	}
}

/* False when the descriptor has ended. */
static bool read_some(int fd, struct gb_buf *to)
{
	uint8_t *room = gb_buf_reserve(to, 1024);
	ssize_t n = room ? read(fd, room, 1024) : 0;

	if (n > 0)
		to->len += (size_t)n;
	return n > 0 || (n < 0 && errno == EINTR);
}

static int read_outputs(struct prepare_run *run, uint64_t deadline, struct gb_err *err)
{
	bool out_open = true;
	bool err_open = true;

	while (out_open || err_open) {
		struct pollfd p[2] = { { out_open ? run->out : -1, POLLIN, 0 },
			{ err_open ? run->err_fd : -1, POLLIN, 0 } };

		if (gb_deadline_passed(deadline))
			return gb_fail(err, GB_E_TIMEOUT, "preparing the machine timed out");
		if (poll(p, 2, gb_deadline_poll_ms(deadline)) < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot poll");
		if (p[0].revents)
			out_open = read_some(run->out, &run->result);
		if (p[1].revents) {
			err_open = read_some(run->err_fd, &run->line);
			take_lines(run);
		}
	}
	return 0;
}

static int wait_prepare(pid_t pid, struct prepare_run *run, char **ret, struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(PREPARE_DEADLINE_MS);
	int status = 0;
	int r = read_outputs(run, deadline, err);

	if (r == 0)
		r = gb_wait_child(pid, deadline, &status, err);
	if (r < 0) {
		gb_kill_child(pid);
		return r;
	}
	if (status != 0)
		return gb_fail(err, GB_E_IO, "%s",
			*run->last ? run->last : "glovebox-prepare failed");
	while (run->result.len && run->result.data[run->result.len - 1] == '\n')
		run->result.len--;
	*ret = gb_buf_take_str(&run->result);
	return *ret ? 0 : gb_nomem(err);
}

static int run_prepare(const char *what, const char *image, const struct gb_machine_spec *spec,
	const struct gb_parts *p, gb_boot_progress progress, void *ctx, char **ret,
	struct gb_err *err)
{
	gb_auto_free char *role = NULL;
	gb_auto_done(gb_strv) argv = { 0 };
	struct prepare_run run = { .progress = progress, .ctx = ctx };
	gb_auto_fd out_read = -1, out_write = -1, err_read = -1, err_write = -1;
	struct gb_fd_map fds[2];
	struct gb_spawn s = { .fds = fds, .fd_count = 2, .die_with_parent = true };
	int pair[2];
	pid_t pid;
	int r = gb_role_path("prepare", &role, err);

	if (r < 0)
		return r;
	gb_strv_add(&argv, role);
	prepare_arguments(&argv, what, image, spec, p);
	r = gb_strv_check(&argv, "arguments", err);
	if (r < 0)
		return r;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	out_read = pair[0];
	out_write = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	err_read = pair[0];
	err_write = pair[1];
	fds[0] = (struct gb_fd_map){ out_write, 1 };
	fds[1] = (struct gb_fd_map){ err_write, 2 };
	s.argv = argv.v;
	r = gb_spawn(&s, &pid, err);
	if (r < 0)
		return r;
	gb_fd_close(&out_write);
	gb_fd_close(&err_write);
	run.out = out_read;
	run.err_fd = err_read;
	gb_buf_init(&run.result, PREPARE_LINE_MAX);
	gb_buf_init(&run.line, PREPARE_LINE_MAX);
	r = wait_prepare(pid, &run, ret, err);
	gb_buf_done(&run.result);
	gb_buf_done(&run.line);
	return r;
}

/* A machine without a template still starts, only slower. */
static void find_template(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	gb_boot_progress progress, void *ctx, struct gb_parts *p)
{
	struct gb_template_want want = template_want(spec, p);
	struct gb_err e = { 0 };
	int r = gb_template_lookup(d->cache, &want, &p->template_path, &e);

	if (r == GB_E_NOTFOUND)
		r = run_prepare(
			"template", NULL, spec, p, progress, ctx, &p->template_path, &e);
	if (r < 0)
		snprintf(p->why, sizeof(p->why), "no template: %.480s", e.msg);
}

static void find_image_template(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	const char *image, gb_boot_progress progress, void *ctx, struct gb_parts *p)
{
	struct gb_template_want want = image_want(spec, p);
	struct gb_err e = { 0 };
	int r = gb_template_lookup(d->cache, &want, &p->image_template, &e);

	if (r != GB_E_NOTFOUND)
		return;
	if (!gb_template_allowed(d->cache, &want)) {
		snprintf(p->image_why, sizeof(p->image_why),
			"templates of this image have failed: not tried for a day");
		return;
	}
	r = run_prepare("template", image, spec, p, progress, ctx, &p->image_template, &e);
	if (r == 0)
		return;
	gb_template_failed(d->cache, &want);
	gb_log(GB_LOG_WARN, "no template of the image: %s", e.msg);
	snprintf(p->image_why, sizeof(p->image_why), "no template of the image: %.470s", e.msg);
}

int gb_parts_find(const struct gb_dirs *d, const struct gb_machine_spec *spec, const char *image,
	gb_boot_progress progress, void *ctx, struct gb_parts *ret, struct gb_err *err)
{
	struct gb_boot_source source = {
		.kernel = *spec->kernel ? spec->kernel : NULL,
		.modules = *spec->modules ? spec->modules : NULL,
	};
	enum gb_accel want;
	int r = gb_accel_parse(spec->accel, &want, err);

	if (r == 0)
		r = gb_mkdir_p(d->cache, 0700, err);
	if (r == 0)
		r = gb_accel_resolve(want, d->cache, &ret->accel, err);
	if (r < 0)
		return r;
	if (want == GB_ACCEL_AUTO && ret->accel.accel == GB_ACCEL_TCG && !ret->accel.cached &&
		progress)
		progress(ctx, ret->accel.why);
	r = gb_boot_locate(&source, &ret->paths, err);
	if (r < 0)
		return r;
	r = gb_bundle_lookup(d->cache, &ret->paths, &ret->bundle, err);
	if (r == GB_E_NOTFOUND)
		r = run_prepare("bundle", NULL, spec, ret, progress, ctx, &ret->bundle, err);
	if (r < 0)
		return r;
	if (image)
		find_image_template(d, spec, image, progress, ctx, ret);
	if (!ret->image_template)
		find_template(d, spec, progress, ctx, ret);
	return 0;
}

void gb_parts_drop_image(const struct gb_dirs *d, const struct gb_machine_spec *spec, bool broken,
	gb_boot_progress progress, void *ctx, struct gb_parts *p)
{
	struct gb_template_want want = image_want(spec, p);

	free(gb_take_ptr(p->image_template));
	if (broken) {
		gb_template_discard(d->cache, &want, NULL);
		gb_template_failed(d->cache, &want);
	}
	find_template(d, spec, progress, ctx, p);
}

int gb_parts_rebuild(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	gb_boot_progress progress, void *ctx, struct gb_parts *p, struct gb_err *err)
{
	struct gb_template_want want = template_want(spec, p);
	int r = gb_template_discard(d->cache, &want, err);

	free(gb_take_ptr(p->template_path));
	if (r < 0)
		return r;
	return run_prepare("template", NULL, spec, p, progress, ctx, &p->template_path, err);
}
