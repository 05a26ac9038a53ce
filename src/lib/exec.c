/* Commands. */
#include "lib/request.h"

static int exec_start(struct glovebox_tools *tools, const struct glovebox_exec_options *o,
	struct glovebox_request **ret, struct gb_err *err)
{
	struct gb_msg_exec m = {
		.argv = gb_list_of(o->argv),
		.env = gb_list_of(o->env),
		.cwd = gb_text_of(o->cwd),
		.user = gb_text_of(o->user),
		.rows = o->rows ? o->rows : 24,
		.cols = o->cols ? o->cols : 80,
		.timeout_ms = o->timeout_ms,
		.grace_ms = o->grace_ms,
	};

	if (!m.argv.n)
		return gb_fail(err, GB_E_INVALID, "a command needs a program");
	if (o->flags & GLOVEBOX_EXEC_TTY)
		m.flags |= GB_EXEC_TTY;
	if (o->flags & GLOVEBOX_EXEC_STDIN)
		m.flags |= GB_EXEC_STDIN;
	if (o->flags & GLOVEBOX_EXEC_DETACH)
		m.flags |= GB_EXEC_DETACH;
	return gb_request_start(tools, GB_CALL_EXEC, GB_FRAME_EXEC, &gb_msg_exec_desc, &m,
		o->deadline_ms, ret, err);
}

int glovebox_exec_start(struct glovebox_tools *tools, const struct glovebox_exec_options *options,
	struct glovebox_request **ret, struct glovebox_error *err)
{
	struct glovebox_exec_options o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = exec_start(tools, &o, ret, &e);
	return gb_give_error(err, &e, r);
}

static int exec(struct glovebox_tools *tools, const struct glovebox_exec_options *options,
	const struct glovebox_callbacks *callbacks, struct glovebox_exit *ret, struct gb_err *err)
{
	struct glovebox_exec_options o;
	struct glovebox_callbacks cb;
	struct glovebox_request *q;
	struct glovebox_exit exit;
	int r = gb_options_copy(&o, sizeof(o), options, err);

	if (r == 0)
		r = gb_options_copy(&cb, sizeof(cb), callbacks, err);
	if (r == 0 && o.flags & GLOVEBOX_EXEC_STDIN)
		r = gb_fail(err, GB_E_INVALID, "a blocking exec has no input");
	if (r == 0)
		r = exec_start(tools, &o, &q, err);
	if (r < 0)
		return r;
	r = gb_scope_wait(NULL, q, &cb, err);
	if (r == 0) {
		gb_exit_of(gb_call_exit(q->call), &exit);
		r = ret ? gb_result_copy(ret, sizeof(exit), &exit, err) : 0;
	}
	glovebox_request_free(q);
	return r;
}

int glovebox_exec(struct glovebox_tools *tools, const struct glovebox_exec_options *options,
	const struct glovebox_callbacks *callbacks, struct glovebox_exit *ret,
	struct glovebox_error *err)
{
	struct gb_err e = { 0 };
	int r = exec(tools, options, callbacks, ret, &e);

	return gb_give_error(err, &e, r);
}
