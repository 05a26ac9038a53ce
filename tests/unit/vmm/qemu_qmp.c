#include "../rows.h"
#include "base/clock.h"
#include "base/fd.h"
#include "vmm/qemu/qmp.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct line_row {
	const char *name;
	const char *line;
	int want;
	enum gb_qmp_kind kind;
	const char *word;
};

static const struct line_row lines[] = {
	{ "a greeting", "{\"QMP\":{\"version\":{\"qemu\":{\"major\":7}}}}", 0, GB_QMP_GREETING, NULL },
	{ "an answer", "{\"return\":{}}", 0, GB_QMP_RETURN, NULL },
	{ "an answer with a line's end", "{\"return\":{}}\r", 0, GB_QMP_RETURN, NULL },
	{ "an answer that is a text", "{\"return\":\"x\",\"id\":3}", 0, GB_QMP_RETURN, NULL },
	{ "an error", "{\"error\":{\"class\":\"GenericError\",\"desc\":\"no\"}}", 0, GB_QMP_ERROR,
		"GenericError" },
	{ "an event", "{\"event\":\"STOP\",\"timestamp\":{}}", 0, GB_QMP_EVENT, "STOP" },
	{ "an error without words", "{\"error\":{\"class\":\"x\"}}", GB_E_PROTOCOL, 0, NULL },
	{ "an error that is a number", "{\"error\":4}", GB_E_PROTOCOL, 0, NULL },
	{ "an event that is a number", "{\"event\":4}", GB_E_PROTOCOL, 0, NULL },
	{ "something else", "{\"hello\":1}", GB_E_PROTOCOL, 0, NULL },
	{ "a list", "[1]", GB_E_PROTOCOL, 0, NULL },
	{ "a bare word", "true", GB_E_PROTOCOL, 0, NULL },
	{ "nothing", "", GB_E_PROTOCOL, 0, NULL },
	{ "half an object", "{\"return\":", GB_E_PROTOCOL, 0, NULL },
	{ "two objects", "{\"return\":1}{\"return\":2}", GB_E_PROTOCOL, 0, NULL },
	{ "a key twice", "{\"return\":1,\"return\":2}", GB_E_PROTOCOL, 0, NULL },
	{ "a NUL inside", "{\"event\":\"\\u0000\"}", GB_E_PROTOCOL, 0, NULL },
	{ "bad UTF-8", "{\"event\":\"\xff\"}", GB_E_PROTOCOL, 0, NULL },
};

static void test_line(void **state)
{
	const struct line_row *row = *state;
	struct gb_qmp_message m = { 0 };
	struct gb_err err = { 0 };

	assert_int_equal(gb_qmp_parse(row->line, strlen(row->line), &m, &err), row->want);
	assert_int_equal(err.code, row->want);
	if (row->want == 0) {
		assert_int_equal(m.kind, row->kind);
		if (row->word)
			assert_string_equal(m.name, row->word);
		else
			assert_null(m.name);
	} else {
		assert_null(m.root);
	}
	gb_qmp_message_done(&m);
}

struct seen {
	int events;
	char last[64];
};

static void on_event(void *ctx, const char *name, const json_t *data)
{
	struct seen *s = ctx;

	(void)data;
	s->events++;
	snprintf(s->last, sizeof(s->last), "%s", name);
}

struct pair {
	struct gb_qmp q;
	int peer;
	struct seen seen;
};

static int pair_open(struct pair *p)
{
	int fds[2];

	memset(p, 0, sizeof(*p));
	if (gb_socketpair(fds, NULL) < 0)
		return -1;
	p->peer = fds[1];
	return gb_qmp_init_consume(&p->q, fds[0], on_event, &p->seen, NULL);
}

static void pair_close(struct pair *p)
{
	gb_qmp_done(&p->q);
	gb_fd_close(&p->peer);
}

static int say(struct pair *p, const char *text)
{
	return gb_fd_write_full(p->peer, text, strlen(text), NULL);
}

static void test_pieces(void **state)
{
	static const char all[] =
		"{\"QMP\":{\"version\":{\"qemu\":{\"major\":7,\"minor\":2,\"micro\":22}}}}\r\n"
		"{\"event\":\"RESUME\"}\r\n{\"return\":{\"a\":1}}\r\n{\"event\":\"STOP\"}\r\n";
	struct gb_qmp_message m;
	struct pair p;
	int answers = 0;

	(void)state;
	assert_int_equal(pair_open(&p), 0);
	for (size_t i = 0; i < sizeof(all) - 1; i++) {
		int r;

		assert_int_equal(send(p.peer, all + i, 1, 0), 1);
		r = gb_qmp_next(&p.q, &m, NULL);
		assert_in_range(r, 0, 1);
		if (r == 0)
			continue;
		answers++;
		assert_int_equal(json_integer_value(json_object_get(m.data, "a")), 1);
		gb_qmp_message_done(&m);
	}
	assert_int_equal(answers, 1);
	assert_int_equal(p.seen.events, 2);
	assert_string_equal(p.seen.last, "STOP");
	assert_string_equal(p.q.version, "7.2.22");
	pair_close(&p);
}

static void test_call(void **state)
{
	struct gb_err err = { 0 };
	json_t *value = NULL;
	char got[64] = "";
	struct pair p;

	(void)state;
	assert_int_equal(pair_open(&p), 0);
	assert_int_equal(say(&p, "{\"event\":\"STOP\"}\n{\"return\":{\"x\":2}}\n"
				 "{\"error\":{\"class\":\"C\",\"desc\":\"cannot\"}}\n"), 0);
	assert_int_equal(gb_qmp_call(&p.q, "{one}", gb_deadline_ms(5000), &value, &err), 0);
	assert_int_equal(json_integer_value(json_object_get(value, "x")), 2);
	json_decref(value);
	assert_int_equal(gb_qmp_call(&p.q, "{two}", gb_deadline_ms(5000), NULL, &err), GB_E_STATE);
	assert_string_equal(err.msg, "qemu: cannot");
	assert_int_equal(recv(p.peer, got, sizeof(got) - 1, 0), 10);
	assert_string_equal(got, "{one}{two}");
	assert_int_equal(p.seen.events, 1);
	assert_int_equal(gb_qmp_answer(&p.q, gb_deadline_ms(1), NULL, &err), GB_E_TIMEOUT);
	pair_close(&p);
}

static void test_fd(void **state)
{
	gb_auto_fd file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	size_t count = 1;
	uint8_t tag = 0;
	char rest[16] = "";
	struct pair p;
	int got = -1;

	(void)state;
	assert_int_equal(pair_open(&p), 0);
	assert_int_equal(gb_qmp_send_fd(&p.q, "{get}", file, gb_deadline_ms(5000), NULL), 0);
	assert_int_equal(gb_fd_recv(p.peer, &tag, &got, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_int_equal(tag, '{');
	assert_int_equal(recv(p.peer, rest, sizeof(rest) - 1, 0), 4);
	assert_string_equal(rest, "get}");
	close(got);
	pair_close(&p);
}

static void test_end(void **state)
{
	struct gb_qmp_message m;
	struct gb_err err = { 0 };
	struct pair p;

	(void)state;
	assert_int_equal(pair_open(&p), 0);
	assert_int_equal(say(&p, "{\"return\":{}}\n{\"ret"), 0);
	gb_fd_close(&p.peer);
	assert_int_equal(gb_qmp_next(&p.q, &m, &err), 1);
	gb_qmp_message_done(&m);
	assert_int_equal(gb_qmp_next(&p.q, &m, &err), GB_E_CLOSED);
	assert_int_equal(gb_qmp_send(&p.q, "{}", gb_deadline_ms(1000), &err), GB_E_CLOSED);
	pair_close(&p);
}

/* Write len bytes of a line, reading them on the other side as they come. */
static int feed_line(struct pair *p, size_t len, struct gb_err *err)
{
	static char chunk[4096];
	struct gb_qmp_message m;
	int r = 0;

	memset(chunk, ' ', sizeof(chunk));
	while (len && r == 0) {
		size_t n = GB_MIN(len, sizeof(chunk));

		if (gb_fd_write_full(p->peer, chunk, n, NULL) < 0)
			return -100;
		len -= n;
		r = gb_qmp_next(&p->q, &m, err);
	}
	return r;
}

static void test_long_line(void **state)
{
	static const char word[] = "{\"event\":\"LONG\"}";
	struct gb_qmp_message m;
	struct gb_err err = { 0 };
	struct pair p;

	(void)state;
	assert_int_equal(pair_open(&p), 0);
	/* room for a whole chunk is wanted before each read */
	assert_int_equal(feed_line(&p, GB_QMP_LINE_MAX - 8192, &err), 0);
	assert_int_equal(say(&p, word), 0);
	assert_int_equal(say(&p, "\n"), 0);
	assert_int_equal(gb_qmp_next(&p.q, &m, &err), 0);
	assert_string_equal(p.seen.last, "LONG");
	assert_int_equal(feed_line(&p, GB_QMP_LINE_MAX + 8192, &err), GB_E_PROTOCOL);
	assert_string_equal(err.msg, "qemu's monitor: a line is too long");
	pair_close(&p);
}

/* However many events there are: none is left unread while the socket seems empty. */
static void test_flood(void **state)
{
	struct gb_qmp_message m;
	struct gb_buf all = { 0 };
	struct pair p;

	(void)state;
	assert_int_equal(pair_open(&p), 0);
	gb_buf_init(&all, 0);
	for (int i = 0; i < 5000; i++)
		gb_buf_add_str(&all, "{\"event\":\"E\"}\n");
	/* in one write, which the socket's buffer takes whole */
	assert_int_equal(send(p.peer, all.data, all.len, MSG_DONTWAIT), all.len);
	gb_buf_done(&all);
	for (int i = 0; i < 5000 && gb_fd_wait(p.q.fd, POLLIN, gb_now_ns(), NULL) == 0; i++)
		assert_int_equal(gb_qmp_next(&p.q, &m, NULL), 0);
	assert_int_equal(p.seen.events, 5000);
	pair_close(&p);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, lines, test_line);
	rows_add_one(&l, "a session in pieces of one byte", test_pieces);
	rows_add_one(&l, "commands and their answers", test_call);
	rows_add_one(&l, "a descriptor beside a command", test_fd);
	rows_add_one(&l, "the end of the session", test_end);
	rows_add_one(&l, "a line as long as may be and one longer", test_long_line);
	rows_add_one(&l, "a flood of events", test_flood);
	return rows_run("vmm qemu qmp", &l);
}
