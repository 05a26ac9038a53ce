/* Every message by its own table: round trip, cut at each byte, a byte too many; then the lies
 * that a payload can tell. */
#include "rows.h"

#include "proto/frame.h"
#include "proto/msg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct desc_row {
	const char *name;
	const struct gb_msg_desc *desc;
};

static const struct desc_row desc_rows[] = {
#define M(m, FIELDS) { "message: " #m, &gb_msg_##m##_desc },
	GB_MESSAGES(M)
#undef M
};

static char *list_words[] = { (char[]){ "one=1" }, (char[]){ "" }, (char[]){ "three" }, NULL };

/* Values that differ from field to field. */
static void fill(const struct gb_msg_desc *d, void *msg)
{
	static uint8_t bytes[] = { 0, 1, 2, 0xff };
	static char word[] = "a word";

	for (size_t i = 0; i < d->count; i++) {
		void *at = (char *)msg + d->fields[i].offset;

		switch (d->fields[i].kind) {
		case GB_KIND_u32:
			*(uint32_t *)at = 0x80000000u + (uint32_t)i;
			break;
		case GB_KIND_u64:
			*(uint64_t *)at = UINT64_MAX - i;
			break;
		case GB_KIND_i64:
			*(int64_t *)at = -1 - (int64_t)i;
			break;
		case GB_KIND_str:
			*(char **)at = word;
			break;
		case GB_KIND_bytes:
			*(struct gb_bytes *)at = (struct gb_bytes){ bytes, sizeof(bytes) };
			break;
		case GB_KIND_list:
			*(struct gb_list *)at = (struct gb_list){ list_words, 3 };
			break;
		}
	}
}

static void same_bytes(const struct gb_msg_desc *d, const void *msg, const struct gb_buf *b)
{
	struct gb_buf again;

	gb_buf_init(&again, 0);
	gb_msg_encode(d, msg, &again);
	assert_int_equal(again.error, 0);
	assert_int_equal(again.len, b->len);
	if (b->len)
		assert_memory_equal(again.data, b->data, b->len);
	gb_buf_done(&again);
}

static void round_trip(const struct gb_msg_desc *d, const void *msg)
{
	void *back = calloc(1, d->size);
	struct gb_err err = { 0 };
	struct gb_buf b;
	uint8_t *exact;

	assert_non_null(back);
	gb_buf_init(&b, 0);
	gb_msg_encode(d, msg, &b);
	assert_int_equal(b.error, 0);
	assert_int_equal(gb_msg_decode(d, b.data, b.len, back, &err), 0);
	same_bytes(d, back, &b);
	gb_msg_done(d, back);
	for (size_t cut = 0; cut < b.len; cut++) {
		/* a block of just that size: a sanitizer sees one byte too many */
		exact = malloc(cut ? cut : 1);
		assert_non_null(exact);
		memcpy(exact, b.data, cut);
		memset(back, 0x5a, d->size);
		assert_int_equal(gb_msg_decode(d, exact, cut, back, &err), GB_E_PROTOCOL);
		assert_non_null(strstr(err.msg, d->name));
		for (size_t i = 0; i < d->size; i++)
			assert_int_equal(((uint8_t *)back)[i], 0x5a);
		free(exact);
	}
	gb_buf_add_byte(&b, 0);
	assert_int_equal(gb_msg_decode(d, b.data, b.len, back, &err), GB_E_PROTOCOL);
	assert_non_null(strstr(err.msg, "1 bytes too long"));
	gb_buf_done(&b);
	free(back);
}

static void each_message(void **state)
{
	const struct desc_row *row = *state;
	void *msg = calloc(1, row->desc->size);

	assert_non_null(msg);
	/* all empty: NULL counts as empty */
	round_trip(row->desc, msg);
	fill(row->desc, msg);
	round_trip(row->desc, msg);
	free(msg);
}

static void decoded_values(void **state)
{
	struct gb_msg_entry in = { .kind = 1, .mode = 0644, .size = UINT64_MAX, .mtime_s = -5,
		.mtime_ns = 7, .path = (char[]){ "a/b" } };
	struct gb_msg_entry out;
	struct gb_buf b;

	(void)state;
	gb_buf_init(&b, 0);
	gb_msg_entry_encode(&in, &b);
	assert_int_equal(gb_msg_entry_decode(b.data, b.len, &out, NULL), 0);
	assert_true(out.size == UINT64_MAX && out.mtime_s == -5 && out.mtime_ns == 7);
	assert_string_equal(out.path, "a/b");
	assert_string_equal(out.link, "");
	gb_msg_entry_done(&out);
	assert_null(out.path);
	/* twice is fine */
	gb_msg_entry_done(&out);
	gb_buf_done(&b);
}

static void add_u32(struct gb_buf *b, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		gb_buf_add_byte(b, (uint8_t)(v >> (8 * i)));
}

static int decode_exec_list(uint32_t count, uint32_t entries, uint32_t length, const char *text)
{
	struct gb_msg_exec m;
	struct gb_buf b;
	int r;

	gb_buf_init(&b, 0);
	add_u32(&b, count);
	for (uint32_t i = 0; i < entries; i++) {
		add_u32(&b, length);
		gb_buf_add(&b, text, 3);
	}
	add_u32(&b, 0); /* env */
	add_u32(&b, 0); /* cwd */
	add_u32(&b, 0); /* user */
	for (int i = 0; i < 3 + 4; i++)
		add_u32(&b, 0);
	r = gb_msg_exec_decode(b.data, b.len, &m, NULL);
	if (r == 0) {
		assert_int_equal(m.argv.n, count);
		assert_null(m.argv.v[count]);
		assert_non_null(m.env.v);
		gb_msg_exec_done(&m);
	}
	gb_buf_done(&b);
	return r;
}

struct lie_row {
	const char *name;
	uint32_t count;
	uint32_t entries;
	uint32_t length;
	const char *text;
	int code;
};

static const struct lie_row lie_rows[] = {
	{ "list: empty", 0, 0, 3, "abc", 0 },
	{ "list: two", 2, 2, 3, "abc", 0 },
	{ "list: one more than there is", 3, 2, 3, "abc", GB_E_PROTOCOL },
	{ "list: one less than there is", 1, 2, 3, "abc", GB_E_PROTOCOL },
	{ "list: the most", GB_MSG_LIST_MAX, GB_MSG_LIST_MAX, 3, "abc", 0 },
	{ "list: one over the most", GB_MSG_LIST_MAX + 1, GB_MSG_LIST_MAX + 1, 3, "abc",
		GB_E_PROTOCOL },
	{ "list: a count of 2^32-1", UINT32_MAX, 2, 3, "abc", GB_E_PROTOCOL },
	{ "list: a length of 2^32-1", 2, 2, UINT32_MAX, "abc", GB_E_PROTOCOL },
	{ "list: NUL inside", 1, 1, 3, "a\0c", GB_E_PROTOCOL },
	{ "list: NUL at the end", 1, 1, 3, "ab\0", GB_E_PROTOCOL },
};

static void list_lies(void **state)
{
	const struct lie_row *row = *state;

	assert_int_equal(
		decode_exec_list(row->count, row->entries, row->length, row->text), row->code);
}

static void string_at_its_limit(void **state)
{
	char *text = malloc(GB_MSG_STR_MAX + 2);
	struct gb_msg_error m = { .code = 1, .text = text };
	struct gb_msg_error back;
	struct gb_buf b;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', GB_MSG_STR_MAX + 1);
	text[GB_MSG_STR_MAX] = 0;
	gb_buf_init(&b, 0);
	gb_msg_error_encode(&m, &b);
	assert_int_equal(b.error, 0);
	assert_int_equal(gb_msg_error_decode(b.data, b.len, &back, NULL), 0);
	assert_int_equal(strlen(back.text), GB_MSG_STR_MAX);
	gb_msg_error_done(&back);
	/* one byte more: neither written nor read */
	gb_buf_reset(&b);
	text[GB_MSG_STR_MAX] = 'x';
	text[GB_MSG_STR_MAX + 1] = 0;
	gb_msg_error_encode(&m, &b);
	assert_int_equal(b.error, GB_E_LIMIT);
	gb_buf_reset(&b);
	add_u32(&b, 1);
	add_u32(&b, 0);
	add_u32(&b, GB_MSG_STR_MAX + 1);
	gb_buf_add(&b, text, GB_MSG_STR_MAX + 1);
	assert_int_equal(gb_msg_error_decode(b.data, b.len, &back, NULL), GB_E_PROTOCOL);
	gb_buf_done(&b);
	free(text);
}

static void bytes_over_a_frame(void **state)
{
	static uint8_t byte;
	struct gb_msg_time m = { .entropy = { &byte, GB_FRAME_MAX + 1 } };
	struct gb_buf b;

	(void)state;
	gb_buf_init(&b, 0);
	/* refused by its length; the content is not even looked at */
	gb_msg_time_encode(&m, &b);
	assert_int_equal(b.error, GB_E_LIMIT);
	gb_buf_done(&b);
}

static void list_over_its_limit_is_not_written(void **state)
{
	struct gb_msg_exec m = { .argv = { list_words, GB_MSG_LIST_MAX + 1 } };
	struct gb_buf b;

	(void)state;
	gb_buf_init(&b, 0);
	gb_msg_exec_encode(&m, &b);
	assert_int_equal(b.error, GB_E_LIMIT);
	gb_buf_done(&b);
}

static const uint8_t *only_frame(struct gb_buf *b, uint8_t type, uint32_t *len)
{
	assert_int_equal(b->error, 0);
	assert_true(b->len >= GB_FRAME_HEADER);
	assert_int_equal(b->data[4], type);
	*len = (uint32_t)(b->len - GB_FRAME_HEADER);
	return b->data + GB_FRAME_HEADER;
}

static void frames_with_messages(void **state)
{
	struct gb_msg_credit m = { .bytes = 7 };
	struct gb_buf b;
	uint32_t len;

	(void)state;
	gb_buf_init(&b, 0);
	gb_msg_add_frame(&b, GB_FRAME_CREDIT, 3, &gb_msg_credit_desc, &m);
	only_frame(&b, GB_FRAME_CREDIT, &len);
	assert_int_equal(len, 4);
	gb_buf_reset(&b);
	gb_msg_add_frame(&b, GB_FRAME_OK, 3, NULL, NULL);
	only_frame(&b, GB_FRAME_OK, &len);
	assert_int_equal(len, 0);
	gb_buf_done(&b);
}

static void frame_over_its_limit(void **state)
{
	char *text = malloc(GB_MSG_STR_MAX + 1);
	char *words[5];
	struct gb_msg_exec m = { .argv = { words, 5 } };
	struct gb_buf b;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', GB_MSG_STR_MAX);
	text[GB_MSG_STR_MAX] = 0;
	for (int i = 0; i < 5; i++)
		words[i] = text;
	gb_buf_init(&b, 0);
	gb_msg_add_frame(&b, GB_FRAME_EXEC, 1, &gb_msg_exec_desc, &m);
	assert_int_equal(b.error, GB_E_LIMIT);
	assert_int_equal(b.len, 0);
	gb_buf_done(&b);
	free(text);
}

static void errors_travel(void **state)
{
	struct gb_err in = { 0 };
	struct gb_err out = { 0 };
	struct gb_buf b;
	uint32_t len;
	const uint8_t *p;

	(void)state;
	gb_fail_sys(&in, 2, "cannot open '%s'", "x\x1b[2J");
	gb_buf_init(&b, 0);
	gb_msg_add_error(&b, 5, &in);
	p = only_frame(&b, GB_FRAME_ERROR, &len);
	assert_int_equal(gb_msg_take_error(p, len, &out), GB_E_NOTFOUND);
	assert_int_equal(out.sys, 2);
	assert_string_equal(out.msg, "cannot open 'x?[2J': No such file or directory");
	assert_int_equal(gb_msg_take_error(p, len, NULL), GB_E_NOTFOUND);
	assert_int_equal(gb_msg_take_error(p, len - 1, &out), GB_E_PROTOCOL);
	gb_buf_done(&b);
}

struct code_row {
	const char *name;
	int code;
	int taken;
};

static const struct code_row code_rows[] = {
	{ "error code: the first", GB_E_INVALID, GB_E_INVALID },
	{ "error code: the last", GB_E_PROTOCOL, GB_E_PROTOCOL },
	{ "error code: beyond the last", GB_E_PROTOCOL - 1, GB_E_PROTOCOL },
	{ "error code: success is no error", 0, GB_E_PROTOCOL },
	{ "error code: positive", 5, GB_E_PROTOCOL },
	{ "error code: the smallest", INT32_MIN, GB_E_PROTOCOL },
};

static void error_code(void **state)
{
	const struct code_row *row = *state;
	struct gb_err in = { .code = row->code, .msg = "m" };
	struct gb_err out = { 0 };
	struct gb_buf b;
	uint32_t len;
	const uint8_t *p;

	gb_buf_init(&b, 0);
	gb_msg_add_error(&b, 5, &in);
	p = only_frame(&b, GB_FRAME_ERROR, &len);
	assert_int_equal(gb_msg_take_error(p, len, &out), row->taken);
	assert_int_equal(out.code, row->taken);
	gb_buf_done(&b);
}

static void hello_checks_the_version(void **state)
{
	struct gb_err err = { 0 };
	struct gb_buf b;
	uint32_t len;
	const uint8_t *p;

	(void)state;
	gb_buf_init(&b, 0);
	gb_msg_add_hello(&b, "agent");
	p = only_frame(&b, GB_FRAME_HELLO, &len);
	assert_int_equal(gb_msg_check_hello(p, len, "the agent", &err), 0);
	assert_int_equal(gb_msg_check_hello(p, len - 1, "the agent", &err), GB_E_PROTOCOL);
	assert_non_null(strstr(err.msg, "the agent: malformed hello"));
	/* another version is named even when the rest is unknown to us */
	b.data[GB_FRAME_HEADER] = 99;
	assert_int_equal(gb_msg_check_hello(p, 4, "the agent", &err), GB_E_PROTOCOL);
	assert_non_null(strstr(err.msg, "the agent speaks protocol version 99"));
	assert_int_equal(gb_msg_check_hello(p, 3, "the agent", &err), GB_E_PROTOCOL);
	gb_buf_done(&b);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, desc_rows, each_message);
	rows_add_one(&l, "decoded values", decoded_values);
	rows_add(&l, lie_rows, list_lies);
	rows_add_one(&l, "string: both sides of the limit", string_at_its_limit);
	rows_add_one(&l, "bytes: over a frame", bytes_over_a_frame);
	rows_add_one(&l, "list: over the limit is not written", list_over_its_limit_is_not_written);
	rows_add_one(&l, "frames with messages", frames_with_messages);
	rows_add_one(&l, "frame: over its limit", frame_over_its_limit);
	rows_add_one(&l, "errors travel", errors_travel);
	rows_add(&l, code_rows, error_code);
	rows_add_one(&l, "hello checks the version", hello_checks_the_version);
	return rows_run("msg", &l);
}
