/* A command with its whole output, bounded. */
#include "base/clock.h"
#include "lib/request.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define EXECUTE_TIMEOUT_MS UINT64_C(60000)
#define EXECUTE_OUTPUT     UINT64_C(8388608)
#define EXECUTE_OUTPUT_MAX (UINT64_C(1) << 30)
/* From the command's time being over to the end of waiting for the machine's word of it: it
 * kills at once, and word comes in a moment, or the machine hangs. */
#define EXECUTE_GRACE_MS   UINT64_C(900)

struct run {
	struct gb_buf streams[2]; /* out, err */
	uint64_t room;            /* bytes of both that may still come */
	bool over;
	int mirrors[2];           /* -1: none */
};

/* A reader that is gone is no failure; SIGPIPE is not for the program: it is blocked meanwhile
 * and taken away again. */
static ssize_t write_quietly(int fd, const void *data, size_t len)
{
	const struct timespec now = { 0, 0 };
	sigset_t pipe, old, pending;
	bool was_pending;
	ssize_t n;
	int saved;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &pipe, &old);
	n = write(fd, data, len);
	saved = errno;
	if (n < 0 && saved == EPIPE && !was_pending)
		sigtimedwait(&pipe, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return n;
}

static void mirror(int *fd, const uint8_t *data, size_t len)
{
	while (len && *fd >= 0) {
		ssize_t n = write_quietly(*fd, data, len);

		if (n >= 0) {
			data += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			gb_fd_wait(*fd, POLLOUT, GB_NEVER, NULL);
		} else if (errno != EINTR) {
			*fd = -1;
		}
	}
}

static int take_output(void *ctx, int stream, const void *data, size_t len)
{
	struct run *run = ctx;
	int i = stream == GLOVEBOX_STREAM_ERR;

	if (len > run->room) {
		run->over = true;
		return 1;
	}
	run->room -= len;
	gb_buf_add(&run->streams[i], data, len);
	mirror(&run->mirrors[i], data, len);
	return run->streams[i].error;
}

static int give(struct run *run, const struct glovebox_exit *exit,
	struct glovebox_execution **ret, struct gb_err *err)
{
	struct glovebox_execution *x = calloc(1, sizeof(*x));

	if (!x)
		return gb_nomem(err);
	x->size = sizeof(*x);
	x->exit = *exit;
	x->out_len = run->streams[0].len;
	x->err_len = run->streams[1].len;
	x->out_data = gb_buf_take_str(&run->streams[0]);
	x->err_data = gb_buf_take_str(&run->streams[1]);
	if (!x->out_data || !x->err_data) {
		glovebox_execution_free(x);
		return gb_nomem(err);
	}
	*ret = x;
	return 0;
}

/* What became of it; r is what waiting for it said. */
static int conclude(struct run *run, struct glovebox_request *q, const struct glovebox_execute_options *o,
	int r, struct glovebox_execution **ret, struct gb_err *err)
{
	struct glovebox_exit exit = { .size = sizeof(exit) };
	int given;

	if (run->over)
		return gb_fail(err, GB_E_LIMIT, "over %llu bytes of output",
			(unsigned long long)o->max_output);
	for (size_t i = 0; i < GB_ARRAY_SIZE(run->streams); i++)
		if (run->streams[i].error)
			return gb_buf_check(&run->streams[i], "output", err);
	if (r < 0 && r != GB_E_TIMEOUT)
		return r;
	if (r == 0)
		gb_exit_of(gb_call_exit(q->call), &exit);
	else
		exit = (struct glovebox_exit){ .size = sizeof(exit), .code = 124,
			.flags = GLOVEBOX_EXIT_TIMED_OUT };
	given = give(run, &exit, ret, err);
	if (given < 0 || !(exit.flags & GLOVEBOX_EXIT_TIMED_OUT))
		return given;
	return gb_fail(err, GB_E_TIMEOUT, "the command was over its %llu ms",
		(unsigned long long)o->timeout_ms);
}

static int execute(struct glovebox_tools *tools, struct glovebox_execute_options *o,
	struct glovebox_execution **ret, struct gb_err *err)
{
	struct glovebox_exec_options x = { .size = sizeof(x), .argv = o->argv, .env = o->env,
		.cwd = o->cwd, .user = o->user };
	struct glovebox_error given;
	struct glovebox_request *q;
	struct run run = { .mirrors = { -1, -1 } };
	struct glovebox_callbacks cb = { .size = sizeof(cb), .ctx = &run, .output = take_output };
	int r;

	if (!o->timeout_ms)
		o->timeout_ms = EXECUTE_TIMEOUT_MS;
	if (!o->max_output)
		o->max_output = EXECUTE_OUTPUT;
	if (o->max_output > EXECUTE_OUTPUT_MAX)
		return gb_fail(err, GB_E_INVALID, "max_output is over %llu bytes",
			(unsigned long long)EXECUTE_OUTPUT_MAX);
	x.timeout_ms = o->timeout_ms;
	x.deadline_ms = o->timeout_ms + EXECUTE_GRACE_MS;
	if (o->flags & GLOVEBOX_EXECUTE_MIRROR_OUT)
		run.mirrors[0] = o->out_fd;
	if (o->flags & GLOVEBOX_EXECUTE_MIRROR_ERR)
		run.mirrors[1] = o->err_fd;
	run.room = o->max_output;
	for (size_t i = 0; i < GB_ARRAY_SIZE(run.streams); i++)
		gb_buf_init(&run.streams[i], (size_t)o->max_output + 1);
	r = glovebox_exec_start(tools, &x, &q, &given);
	if (r < 0)
		return gb_fail(err, r, "%s", given.message);
	r = gb_scope_wait(NULL, q, &cb, err);
	r = conclude(&run, q, o, r, ret, err);
	glovebox_request_free(q);
	for (size_t i = 0; i < GB_ARRAY_SIZE(run.streams); i++)
		gb_buf_done(&run.streams[i]);
	return r;
}

int glovebox_execute(struct glovebox_tools *tools, const struct glovebox_execute_options *options,
	struct glovebox_execution **ret, struct glovebox_error *err)
{
	struct glovebox_execute_options o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = execute(tools, &o, ret, &e);
	return gb_give_error(err, &e, r);
}

void glovebox_execution_free(struct glovebox_execution *execution)
{
	if (!execution)
		return;
	free(execution->out_data);
	free(execution->err_data);
	free(execution);
}
