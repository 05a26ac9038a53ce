#include "front/cli/exec.h"

#include "front/cli/term.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIMEOUT_MAX_MS (UINT64_C(30) * 24 * 3600 * 1000)

void gb_cli_exec_done(struct gb_cli_exec *e)
{
	gb_strv_done(&e->env);
	memset(e, 0, sizeof(*e));
}

enum gb_stdin_kind gb_stdin_kind(int fd)
{
	struct stat st;

	if (isatty(fd))
		return GB_STDIN_TERMINAL;
	if (fstat(fd, &st) == 0 &&
		(S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode)))
		return GB_STDIN_STREAM;
	return GB_STDIN_NOTHING; /* /dev/null */
}

bool gb_stdin_is_passed(enum gb_stdin_kind kind, bool interactive, bool tty)
{
	return kind == GB_STDIN_STREAM || interactive ||
	       (tty && kind == GB_STDIN_TERMINAL);
}

/* "K=V", or "K" with our value; a K that we do not have is left out. */
static void add_env(struct gb_strv *env, const char *text)
{
	const char *value;

	if (strchr(text, '=')) {
		gb_strv_set_env(env, text);
		return;
	}
	value = getenv(text);
	if (value) {
		gb_auto_free char *pair = NULL;

		if (asprintf(&pair, "%s=%s", text, value) < 0)
			env->error = GB_E_NOMEM;
		else
			gb_strv_set_env(env, pair);
	}
}

static int build_env(const struct gb_cli_args *a, bool tty, const struct gb_strv *passed,
	struct gb_strv *ret, struct gb_err *err)
{
	if (tty)
		add_env(ret, getenv("TERM") ? "TERM" : "TERM=xterm");
	for (size_t i = 0; passed && i < passed->n; i++)
		if (!strchr(passed->v[i], '='))
			add_env(ret, passed->v[i]);
	for (size_t i = 0; i < a->seen_count; i++) {
		if (a->seen[i].id != OPT_ENV)
			continue;
		if (!gb_env_arg_valid(a->seen[i].value))
			return gb_fail(err, GB_E_INVALID, "--env '%s' is not K=V or K",
				a->seen[i].value);
		add_env(ret, a->seen[i].value);
	}
	return gb_strv_check(ret, "environment", err);
}

/* The message only borrows what it is made of. */
static char *borrow(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

int gb_cli_exec_init(const struct gb_cli_args *a, char **argv, size_t argc, bool tty,
	const struct gb_strv *passed, struct gb_cli_exec *ret, struct gb_err *err)
{
	struct gb_cli_exec e = {0};
	const char *timeout = gb_cli_value(a, OPT_TIMEOUT);
	bool detach = gb_cli_given(a, OPT_DETACH);
	int r = 0;

	if (detach && (tty || gb_cli_given(a, OPT_INTERACTIVE)))
		return gb_fail(err, GB_E_INVALID,
			"-d excludes -t and -i: nobody would be there");
	if (timeout)
		r = gb_parse_duration_ms(timeout, TIMEOUT_MAX_MS, &e.msg.timeout_ms, err);
	if (r < 0)
		return gb_wrap(err, r, "--timeout");
	if (timeout && !e.msg.timeout_ms)
		return gb_fail(err, GB_E_INVALID, "--timeout must be more than nothing");
	r = build_env(a, tty, passed, &e.env, err);
	if (r < 0) {
		gb_cli_exec_done(&e);
		return r;
	}
	e.msg.argv = (struct gb_list){argv, argc};
	e.msg.env = (struct gb_list){e.env.v, e.env.n};
	e.msg.cwd = borrow(gb_cli_value(a, OPT_WORKDIR));
	e.msg.user = borrow(gb_cli_value(a, OPT_USER));
	e.msg.grace_ms = GB_EXEC_GRACE_MS;
	if (detach)
		e.msg.flags = GB_EXEC_DETACH;
	else if (tty)
		e.msg.flags = GB_EXEC_TTY;
	if (!detach && gb_stdin_is_passed(gb_stdin_kind(STDIN_FILENO),
			       gb_cli_given(a, OPT_INTERACTIVE), tty))
		e.msg.flags |= GB_EXEC_STDIN;
	*ret = e;
	return 0;
}

static void say_note(void *ctx, const char *line)
{
	(void)ctx;
	gb_say("note: %s", line);
}

static int exit_code(struct gb_msg_exit *m)
{
	int code = (int)(m->code & 255);

	if (m->note && *m->note)
		gb_say("note: %s", m->note);
	gb_msg_exit_done(m);
	return code;
}

int gb_cli_exec_run(struct gb_client *c, const struct gb_cli_exec *e, struct gb_err *err)
{
	struct gb_msg_exec msg = e->msg;
	bool tty = msg.flags & GB_EXEC_TTY;
	struct gb_exec_io io = {
		.in = msg.flags & GB_EXEC_STDIN ? STDIN_FILENO : -1,
		.out = msg.flags & GB_EXEC_DETACH ? -1 : STDOUT_FILENO,
		.err = msg.flags & GB_EXEC_DETACH ? -1 : STDERR_FILENO,
		.winch_fd = tty ? gb_signals_winch_fd() : -1,
		.signal_fd = gb_signals_fd(),
		.note = say_note,
	};
	struct gb_msg_exit m = {0};
	int r = 0;

	gb_progress_end();
	if (tty) {
		unsigned rows;
		unsigned cols;

		gb_term_size(&rows, &cols);
		msg.rows = rows;
		msg.cols = cols;
		if (msg.flags & GB_EXEC_STDIN)
			r = gb_term_raw(err);
	}
	if (r == 0)
		r = gb_client_exec(c, &msg, &io, &m, err);
	gb_term_restore();
	return r < 0 ? r : exit_code(&m);
}
