/* Errors, the log, the clock. */
#include "rows.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct errno_row {
	const char *name;
	int sys;
	int code;
};

static const struct errno_row errno_rows[] = {
	{ "errno: ENOENT", ENOENT, GB_E_NOTFOUND },
	{ "errno: EEXIST", EEXIST, GB_E_EXISTS },
	{ "errno: EACCES", EACCES, GB_E_DENIED },
	{ "errno: EROFS", EROFS, GB_E_DENIED },
	{ "errno: ENOSPC", ENOSPC, GB_E_NOSPACE },
	{ "errno: EDQUOT", EDQUOT, GB_E_NOSPACE },
	{ "errno: EMFILE", EMFILE, GB_E_LIMIT },
	{ "errno: ECONNREFUSED", ECONNREFUSED, GB_E_CLOSED },
	{ "errno: ENOMEM", ENOMEM, GB_E_NOMEM },
	{ "errno: ETIMEDOUT", ETIMEDOUT, GB_E_TIMEOUT },
	{ "errno: ENOSYS", ENOSYS, GB_E_UNSUPPORTED },
	{ "errno: anything else", ENOTTY, GB_E_IO },
};

static void from_errno(void **state)
{
	const struct errno_row *row = *state;
	struct gb_err err = { 0 };

	assert_int_equal(gb_fail_sys(&err, row->sys, "cannot open '%s'", "x"), row->code);
	assert_int_equal(err.code, row->code);
	assert_int_equal(err.sys, row->sys);
	assert_ptr_equal(strstr(err.msg, "cannot open 'x': "), err.msg);
	assert_string_equal(err.msg + strlen("cannot open 'x': "), strerror(row->sys));
}

static void wrap_goes_outward_in(void **state)
{
	struct gb_err err = { 0 };

	(void)state;
	gb_fail_sys(&err, ENOENT, "cannot open '%s'", "f");
	assert_int_equal(gb_wrap(&err, err.code, "machine '%s'", "m"), GB_E_NOTFOUND);
	assert_string_equal(err.msg, "machine 'm': cannot open 'f': No such file or directory");
	assert_int_equal(err.sys, ENOENT);
}

static void message_from_itself(void **state)
{
	struct gb_err err = { 0 };

	(void)state;
	gb_fail(&err, GB_E_IO, "first");
	gb_fail(&err, GB_E_BUSY, "second after %s", err.msg);
	assert_string_equal(err.msg, "second after first");
	assert_int_equal(err.code, GB_E_BUSY);
}

static void long_messages_are_cut(void **state)
{
	struct gb_err err = { 0 };
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	gb_fail(&err, GB_E_IO, "%s", text);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	gb_wrap(&err, GB_E_IO, "outer");
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	assert_memory_equal(err.msg, "outer: xxx", 10);
	gb_wrap(&err, GB_E_IO, "%s", text);
	gb_fail_sys(&err, EIO, "%s", text);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
}

static void nobody_interested(void **state)
{
	(void)state;
	assert_int_equal(gb_fail(NULL, GB_E_BUSY, "x"), GB_E_BUSY);
	assert_int_equal(gb_fail_sys(NULL, ENOENT, "x"), GB_E_NOTFOUND);
	assert_int_equal(gb_wrap(NULL, GB_E_IO, "x"), GB_E_IO);
	assert_int_equal(gb_nomem(NULL), GB_E_NOMEM);
}

static void every_code_has_a_text(void **state)
{
	(void)state;
#define X(name, value, text) assert_string_equal(gb_code_text(value), text);
	GB_ERROR_MAP(X)
#undef X
	assert_string_equal(gb_code_text(0), "unknown error");
	assert_string_equal(gb_code_text(-99), "unknown error");
}

struct sink {
	int lines;
	char last[1100];
};

static void remember(enum gb_log_level level, const char *line, void *data)
{
	struct sink *s = data;

	(void)level;
	s->lines++;
	snprintf(s->last, sizeof(s->last), "%s", line);
}

static void log_levels(void **state)
{
	struct sink s = { 0 };

	(void)state;
	gb_log(GB_LOG_ERROR, "nobody listens");
	gb_log_set_sink(remember, &s, GB_LOG_WARN);
	gb_log(GB_LOG_WARN, "a %d", 1);
	gb_log(GB_LOG_INFO, "b");
	gb_log_set_sink(NULL, NULL, GB_LOG_ERROR);
	gb_log(GB_LOG_ERROR, "c");
	assert_int_equal(s.lines, 1);
	assert_string_equal(s.last, "a 1");
}

static void log_cannot_be_forged(void **state)
{
	struct sink s = { 0 };

	(void)state;
	gb_log_set_sink(remember, &s, GB_LOG_DEBUG);
	gb_log(GB_LOG_INFO, "guest said: %s", "x\nerror: \x1b[2J\x7f\ttab \xc3\xa9");
	gb_log_set_sink(NULL, NULL, GB_LOG_ERROR);
	assert_string_equal(s.last, "guest said: x?error: ?[2J?\ttab \xc3\xa9");
}

static void deadlines(void **state)
{
	uint64_t now = gb_now_ns();

	(void)state;
	assert_int_equal(gb_deadline_poll_ms(GB_NEVER), -1);
	assert_false(gb_deadline_passed(GB_NEVER));
	assert_true(gb_deadline_passed(now));
	assert_int_equal(gb_deadline_poll_ms(now), 0);
	assert_int_equal(gb_deadline_poll_ms(0), 0);
	/* rounded up: a poll never comes back before the deadline */
	assert_in_range(gb_deadline_poll_ms(gb_now_ns() + 1), 0, 1);
	assert_in_range(gb_deadline_poll_ms(gb_now_ns() + 3600 * GB_NS_SEC), 3599000, 3600000);
	assert_int_equal(gb_deadline_poll_ms(GB_NEVER - 1), INT_MAX);
	assert_true(gb_deadline_ms(UINT64_MAX) == GB_NEVER);
	assert_true(gb_deadline_ms(0) >= now);
	assert_true(gb_realtime_ns() > UINT64_C(1600000000) * GB_NS_SEC);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, errno_rows, from_errno);
	rows_add_one(&l, "wrap: outward-in", wrap_goes_outward_in);
	rows_add_one(&l, "fail: message made from itself", message_from_itself);
	rows_add_one(&l, "messages: cut when too long", long_messages_are_cut);
	rows_add_one(&l, "nobody is interested", nobody_interested);
	rows_add_one(&l, "every code has a text", every_code_has_a_text);
	rows_add_one(&l, "log: levels", log_levels);
	rows_add_one(&l, "log: cannot be forged", log_cannot_be_forged);
	rows_add_one(&l, "deadlines", deadlines);
	return rows_run("err", &l);
}
