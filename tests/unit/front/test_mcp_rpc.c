/* The reader of lines and of messages. */
#include "rows.h"

#include "front/mcp/rpc.h"

#include <string.h>

struct lines_row {
	const char *name;
	const char *in;
	const char *lines[4];
};
static const struct lines_row lines[] = {
	{ "one line", "a\n", { "a" } },
	{ "no end yet", "a", { NULL } },
	{ "two lines", "a\nbc\n", { "a", "bc" } },
	{ "empty ones are passed over", "\n\r\n \t\na\n", { "a" } },
	{ "a CR before the end goes", "a\r\nb\n", { "a", "b" } },
	{ "a CR within stays", "a\rb\n", { "a\rb" } },
};

/* In pieces of every size the lines are the same. */
static void test_lines(void **state)
{
	const struct lines_row *row = *state;

	for (size_t piece = 1; piece <= strlen(row->in); piece++) {
		struct gb_rpc_reader r;
		size_t n = 0;

		gb_rpc_reader_init(&r);
		for (size_t at = 0; at < strlen(row->in); at += piece) {
			const char *line;
			size_t len;

			assert_int_equal(gb_rpc_reader_add(&r, row->in + at,
						 GB_MIN(piece, strlen(row->in) - at), NULL),
				0);
			while (gb_rpc_reader_next(&r, &line, &len) == 1) {
				assert_non_null(row->lines[n]);
				assert_int_equal(len, strlen(row->lines[n]));
				assert_memory_equal(line, row->lines[n], len);
				n++;
			}
		}
		assert_null(row->lines[n]);
		gb_rpc_reader_done(&r);
	}
}

static void feed(struct gb_rpc_reader *r, size_t len, int *too_long)
{
	static char data[65536];

	memset(data, 'x', sizeof(data));
	while (len) {
		size_t n = GB_MIN(len, sizeof(data));
		const char *line;
		size_t line_len;

		gb_rpc_reader_add(r, data, n, NULL);
		*too_long += gb_rpc_reader_next(r, &line, &line_len) == GB_E_LIMIT;
		len -= n;
	}
}

static void test_longest(void **state)
{
	struct gb_rpc_reader r;
	const char *line;
	size_t len;
	int too_long = 0;

	(void)state;
	gb_rpc_reader_init(&r);
	feed(&r, GB_RPC_LINE_MAX, &too_long);
	gb_rpc_reader_add(&r, "\nnext\n", 6, NULL);
	assert_int_equal(gb_rpc_reader_next(&r, &line, &len), 1);
	assert_int_equal(len, GB_RPC_LINE_MAX);
	assert_int_equal(gb_rpc_reader_next(&r, &line, &len), 1);
	assert_int_equal(len, 4);
	assert_int_equal(too_long, 0);
	gb_rpc_reader_done(&r);
}

static void test_too_long(void **state)
{
	struct gb_rpc_reader r;
	const char *line;
	size_t len;
	int too_long = 0;

	(void)state;
	gb_rpc_reader_init(&r);
	feed(&r, 3 * GB_RPC_LINE_MAX, &too_long);
	assert_int_equal(too_long, 1);
	assert_true(r.in.cap <= 2 * GB_RPC_LINE_MAX);
	gb_rpc_reader_add(&r, "\nnext\n", 6, NULL);
	assert_int_equal(gb_rpc_reader_next(&r, &line, &len), 1);
	assert_int_equal(len, 4);
	assert_int_equal(gb_rpc_reader_next(&r, &line, &len), 0);
	gb_rpc_reader_done(&r);
}

struct message_row {
	const char *name;
	const char *json;
	enum gb_rpc_kind kind; /* BROKEN with code too */
	int code;
	const char *id; /* JSON of the id that is answered to; NULL: none */
};
static const struct message_row messages[] = {
	{ "a call", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}", GB_RPC_CALL, 0, "1" },
	{ "its id may be text", "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"a\"}", GB_RPC_CALL, 0,
		"\"x\"" },
	{ "or a fraction", "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"a\"}", GB_RPC_CALL, 0, "1.5" },
	{ "but not null", "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", GB_RPC_BROKEN, -32600,
		"null" },
	{ "nor a list", "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"a\"}", GB_RPC_BROKEN, -32600,
		"null" },
	{ "a notice", "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{}}", GB_RPC_NOTICE, 0, NULL },
	{ "an answer", "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}", GB_RPC_REPLY, 0, "7" },
	{ "an answer that is an error", "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{}}", GB_RPC_REPLY, 0,
		"7" },
	{ "another version", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a\"}", GB_RPC_BROKEN, -32600,
		"1" },
	{ "no version", "{\"id\":1,\"method\":\"a\"}", GB_RPC_BROKEN, -32600, "1" },
	{ "no method", "{\"jsonrpc\":\"2.0\",\"id\":1}", GB_RPC_BROKEN, -32600, "1" },
	{ "a method that is no text", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":2}", GB_RPC_BROKEN,
		-32600, "1" },
	{ "params in a list", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[1]}",
		GB_RPC_BROKEN, -32602, "1" },
	{ "a number", "5", GB_RPC_BROKEN, -32600, "null" },
};

static void test_message(void **state)
{
	const struct message_row *row = *state;
	struct gb_rpc_message q;
	struct gb_rpc_fault fault = { 0 };
	json_t *id = NULL;
	json_t *j = gb_rpc_load(row->json, strlen(row->json), &id, &fault);

	assert_non_null(j);
	assert_int_equal(gb_rpc_read(j, &q, &fault), row->kind);
	if (row->kind == GB_RPC_BROKEN)
		assert_int_equal(fault.code, row->code);
	if (row->id) {
		char *text = json_dumps(q.id, JSON_ENCODE_ANY);

		assert_string_equal(text, row->id);
		free(text);
	} else {
		assert_null(q.id);
	}
	json_decref(j);
}

struct unfit_row {
	const char *name;
	const char *line;
	int code;
	int id;
};
static const struct unfit_row unfit[] = {
	{ "no JSON", "{\"a\":", -32700, 0 },
	{ "two values", "{} {}", -32700, 0 },
	{ "no UTF-8", "{\"a\":\"\xff\"}", -32700, 0 },
	{ "half a surrogate", "{\"a\":\"\\ud800\"}", -32700, 0 },
	{ "a name twice keeps the id", "{\"id\":7,\"x\":{\"a\":1,\"a\":2}}", -32600, 7 },
	{ "a name twice without id", "{\"a\":1,\"a\":2}", -32600, 0 },
};

static void test_unfit(void **state)
{
	const struct unfit_row *row = *state;
	struct gb_rpc_fault fault = { 0 };
	json_t *id = NULL;

	assert_null(gb_rpc_load(row->line, strlen(row->line), &id, &fault));
	assert_int_equal(fault.code, row->code);
	assert_int_equal(json_integer_value(id), row->id);
	assert_true(row->id || json_is_null(id));
	json_decref(id);
}

static void test_deep(void **state)
{
	static char line[200000];
	struct gb_rpc_fault fault = { 0 };
	json_t *id = NULL;

	(void)state;
	memset(line, '[', sizeof(line));
	assert_null(gb_rpc_load(line, sizeof(line), &id, &fault));
	assert_int_equal(fault.code, -32700);
	json_decref(id);
}

static void test_long_id(void **state)
{
	char text[GB_RPC_ID_MAX + 64];

	(void)state;
	for (int more = 0; more < 2; more++) {
		struct gb_rpc_message q;
		struct gb_rpc_fault fault;
		int n = snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":\"%0*d\"}",
			GB_RPC_ID_MAX + more, 0);
		json_t *id;
		json_t *j = gb_rpc_load(text, (size_t)n, &id, &fault);

		assert_non_null(j);
		assert_int_equal(gb_rpc_read(j, &q, &fault), more ? GB_RPC_BROKEN : GB_RPC_CALL);
		json_decref(j);
	}
}

int main(void)
{
	static struct rows_list list;

	rows_add(&list, lines, test_lines);
	rows_add(&list, messages, test_message);
	rows_add(&list, unfit, test_unfit);
	rows_add_one(&list, "the longest line", test_longest);
	rows_add_one(&list, "a line that is too long is passed over", test_too_long);
	rows_add_one(&list, "nested too deep", test_deep);
	rows_add_one(&list, "the longest id", test_long_id);
	return rows_run("front mcp rpc", &list);
}
