#include "proto/msg.h"
#include "proto/frame.h"

#include <stdio.h>
#include <string.h>

#define GB_MSG_DEFINE(m, FIELDS)                                                         \
	static const struct gb_msg_field m##_fields[] = { FIELDS(FIELD_##m) };           \
	const struct gb_msg_desc gb_msg_##m##_desc = { #m, sizeof(struct gb_msg_##m),    \
		m##_fields, GB_ARRAY_SIZE(m##_fields) };

/* One FIELD_m per message: a row needs its struct's name for offsetof. */
#define ROW(m, kind, n)           { #n, GB_KIND_##kind, offsetof(struct gb_msg_##m, n) },
#define FIELD_hello(k, n)         ROW(hello, k, n)
#define FIELD_error(k, n)         ROW(error, k, n)
#define FIELD_credit(k, n)        ROW(credit, k, n)
#define FIELD_configure(k, n)     ROW(configure, k, n)
#define FIELD_configured(k, n)    ROW(configured, k, n)
#define FIELD_time(k, n)          ROW(time, k, n)
#define FIELD_share(k, n)         ROW(share, k, n)
#define FIELD_shutdown(k, n)      ROW(shutdown, k, n)
#define FIELD_exec(k, n)          ROW(exec, k, n)
#define FIELD_started(k, n)       ROW(started, k, n)
#define FIELD_exit(k, n)          ROW(exit, k, n)
#define FIELD_signal(k, n)        ROW(signal, k, n)
#define FIELD_winsize(k, n)       ROW(winsize, k, n)
#define FIELD_copy(k, n)          ROW(copy, k, n)
#define FIELD_status(k, n)        ROW(status, k, n)
#define FIELD_stop(k, n)          ROW(stop, k, n)
#define FIELD_bench(k, n)         ROW(bench, k, n)
#define FIELD_bench_result(k, n)  ROW(bench_result, k, n)
#define FIELD_owner(k, n)         ROW(owner, k, n)
#define FIELD_note(k, n)          ROW(note, k, n)
#define FIELD_entry(k, n)         ROW(entry, k, n)
#define FIELD_session_start(k, n) ROW(session_start, k, n)
#define FIELD_session_input(k, n) ROW(session_input, k, n)
#define FIELD_session_output(k, n) ROW(session_output, k, n)
#define FIELD_session_hold(k, n) ROW(session_hold, k, n)
#define FIELD_session_info(k, n) ROW(session_info, k, n)
#define FIELD_attach(k, n)       ROW(attach, k, n)
#define FIELD_terminate(k, n)    ROW(terminate, k, n)
#define FIELD_file_read(k, n)    ROW(file_read, k, n)
#define FIELD_file_info(k, n)    ROW(file_info, k, n)
#define FIELD_file_write(k, n)   ROW(file_write, k, n)
#define FIELD_patch(k, n)        ROW(patch, k, n)
#define FIELD_memory_reply(k, n) ROW(memory_reply, k, n)
GB_MESSAGES(GB_MSG_DEFINE)

static void add_u32(struct gb_buf *b, uint32_t v)
{
	uint8_t le[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

	gb_buf_add(b, le, sizeof(le));
}

static void add_u64(struct gb_buf *b, uint64_t v)
{
	add_u32(b, (uint32_t)v);
	add_u32(b, (uint32_t)(v >> 32));
}

static void add_str(struct gb_buf *b, const char *s)
{
	size_t n = s ? strlen(s) : 0;

	if (n > GB_MSG_STR_MAX) {
		b->error = GB_E_LIMIT;
		return;
	}
	add_u32(b, (uint32_t)n);
	gb_buf_add(b, s, n);
}

static void add_list(struct gb_buf *b, const struct gb_list *l)
{
	if (l->n > GB_MSG_LIST_MAX) {
		b->error = GB_E_LIMIT;
		return;
	}
	add_u32(b, (uint32_t)l->n);
	for (size_t i = 0; i < l->n; i++)
		add_str(b, l->v[i]);
}

static void encode_field(const struct gb_msg_field *f, const void *at, struct gb_buf *b)
{
	const struct gb_bytes *bytes = at;

	switch (f->kind) {
	case GB_KIND_u32:
		add_u32(b, *(const uint32_t *)at);
		break;
	case GB_KIND_u64:
	case GB_KIND_i64:
		add_u64(b, *(const uint64_t *)at);
		break;
	case GB_KIND_str:
		add_str(b, *(char *const *)at);
		break;
	case GB_KIND_bytes:
		if (bytes->len > GB_FRAME_MAX) {
			b->error = GB_E_LIMIT;
			break;
		}
		add_u32(b, (uint32_t)bytes->len);
		gb_buf_add(b, bytes->data, bytes->len);
		break;
	case GB_KIND_list:
		add_list(b, at);
		break;
	}
}

void gb_msg_encode(const struct gb_msg_desc *d, const void *msg, struct gb_buf *b)
{
	for (size_t i = 0; i < d->count; i++)
		encode_field(&d->fields[i], (const char *)msg + d->fields[i].offset, b);
}

struct cursor {
	const uint8_t *p;
	size_t left;
};

static bool take_u32(struct cursor *c, uint32_t *ret)
{
	if (c->left < 4)
		return false;
	*ret = (uint32_t)c->p[0] | (uint32_t)c->p[1] << 8 | (uint32_t)c->p[2] << 16 |
		(uint32_t)c->p[3] << 24;
	c->p += 4;
	c->left -= 4;
	return true;
}

static bool take_u64(struct cursor *c, uint64_t *ret)
{
	uint32_t low;
	uint32_t high;

	if (!take_u32(c, &low) || !take_u32(c, &high))
		return false;
	*ret = (uint64_t)high << 32 | low;
	return true;
}

/* A counted run of bytes that stays in the payload. */
static bool take_run(struct cursor *c, const uint8_t **ret, uint32_t *len)
{
	if (!take_u32(c, len) || *len > c->left)
		return false;
	*ret = c->p;
	c->p += *len;
	c->left -= *len;
	return true;
}

/* 0, GB_E_PROTOCOL or GB_E_NOMEM */
static int take_str(struct cursor *c, char **ret)
{
	const uint8_t *run;
	uint32_t len;
	char *s;

	if (!take_run(c, &run, &len) || len > GB_MSG_STR_MAX || memchr(run, 0, len))
		return GB_E_PROTOCOL;
	s = malloc((size_t)len + 1);
	if (!s)
		return GB_E_NOMEM;
	memcpy(s, run, len);
	s[len] = 0;
	*ret = s;
	return 0;
}

static int take_bytes(struct cursor *c, struct gb_bytes *ret)
{
	const uint8_t *run;
	uint32_t len;

	if (!take_run(c, &run, &len))
		return GB_E_PROTOCOL;
	ret->data = malloc(len ? len : 1);
	if (!ret->data)
		return GB_E_NOMEM;
	memcpy(ret->data, run, len);
	ret->len = len;
	return 0;
}

static int take_list(struct cursor *c, struct gb_list *ret)
{
	uint32_t count;

	/* each entry takes four bytes at least, so a lying count cannot make us allocate much */
	if (!take_u32(c, &count) || count > GB_MSG_LIST_MAX || count > c->left / 4)
		return GB_E_PROTOCOL;
	ret->v = calloc((size_t)count + 1, sizeof(*ret->v));
	if (!ret->v)
		return GB_E_NOMEM;
	for (uint32_t i = 0; i < count; i++) {
		int r = take_str(c, &ret->v[i]);

		if (r < 0)
			return r;
		ret->n++;
	}
	return 0;
}

static int decode_field(const struct gb_msg_field *f, struct cursor *c, void *at)
{
	switch (f->kind) {
	case GB_KIND_u32:
		return take_u32(c, at) ? 0 : GB_E_PROTOCOL;
	case GB_KIND_u64:
	case GB_KIND_i64:
		return take_u64(c, at) ? 0 : GB_E_PROTOCOL;
	case GB_KIND_str:
		return take_str(c, at);
	case GB_KIND_bytes:
		return take_bytes(c, at);
	case GB_KIND_list:
		return take_list(c, at);
	}
	return GB_E_PROTOCOL;
}

int gb_msg_decode(const struct gb_msg_desc *d, const uint8_t *payload, size_t len, void *ret,
	struct gb_err *err)
{
	struct cursor c = { payload, len };
	gb_auto_free void *msg = calloc(1, d->size);
	int r = msg ? 0 : GB_E_NOMEM;

	for (size_t i = 0; r == 0 && i < d->count; i++) {
		r = decode_field(&d->fields[i], &c, (char *)msg + d->fields[i].offset);
		if (r == GB_E_PROTOCOL)
			gb_fail(err, r, "malformed %s message at '%s'", d->name,
				d->fields[i].name);
	}
	if (r == 0 && c.left)
		r = gb_fail(err, GB_E_PROTOCOL, "%s message is %zu bytes too long", d->name,
			c.left);
	if (r == GB_E_NOMEM)
		gb_nomem(err);
	if (r < 0) {
		if (msg)
			gb_msg_done(d, msg);
		return r;
	}
	memcpy(ret, msg, d->size);
	return 0;
}

static void list_done(struct gb_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

void gb_msg_done(const struct gb_msg_desc *d, void *msg)
{
	for (size_t i = 0; i < d->count; i++) {
		void *at = (char *)msg + d->fields[i].offset;

		switch (d->fields[i].kind) {
		case GB_KIND_str:
			free(*(char **)at);
			break;
		case GB_KIND_bytes:
			free(((struct gb_bytes *)at)->data);
			break;
		case GB_KIND_list:
			list_done(at);
			break;
		default:
			break;
		}
	}
	memset(msg, 0, d->size);
}

void gb_msg_add_frame(struct gb_buf *b, uint8_t type, uint32_t request,
	const struct gb_msg_desc *d, const void *msg)
{
	gb_auto_done(gb_buf) payload = { 0 };
	struct gb_frame f = { .type = type, .request = request };

	gb_buf_init(&payload, GB_FRAME_MAX);
	if (msg)
		gb_msg_encode(d, msg, &payload);
	if (payload.error) {
		b->error = payload.error;
		return;
	}
	f.length = (uint32_t)payload.len;
	f.payload = payload.data;
	gb_frame_add(b, &f);
}

void gb_msg_add_error(struct gb_buf *b, uint32_t request, const struct gb_err *err)
{
	struct gb_msg_error m = {
		.code = (uint32_t)err->code,
		.sys = (uint32_t)err->sys,
		.text = (char *)(uintptr_t)err->msg,
	};

	gb_msg_add_frame(b, GB_FRAME_ERROR, request, &gb_msg_error_desc, &m);
}

int gb_msg_take_error(const uint8_t *payload, size_t len, struct gb_err *err)
{
	gb_auto_done(gb_msg_error) m = { 0 };
	int r = gb_msg_error_decode(payload, len, &m, err);
	int code;

	if (r < 0)
		return r;
	/* a hostile peer's words go to a person's terminal */
	for (char *p = m.text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	code = (int)m.code;
	if (code >= 0 || code < GB_E_PROTOCOL)
		return gb_fail(err, GB_E_PROTOCOL, "error message with the code %d", code);
	gb_fail(err, code, "%s", m.text);
	if (err)
		err->sys = (int)m.sys;
	return code;
}

void gb_msg_add_hello(struct gb_buf *b, const char *role)
{
	struct gb_msg_hello m = {
		.version = GB_FRAME_VERSION,
		.role = (char *)(uintptr_t)role,
		.software = (char *)(uintptr_t) "glovebox",
	};

	gb_msg_add_frame(b, GB_FRAME_HELLO, 0, &gb_msg_hello_desc, &m);
}

int gb_msg_check_hello(const uint8_t *payload, size_t len, const char *peer, struct gb_err *err)
{
	gb_auto_done(gb_msg_hello) m = { 0 };
	struct cursor c = { payload, len };
	uint32_t version;
	int r;

	/* before the rest is decoded: another version may have other fields after it */
	if (take_u32(&c, &version) && version != GB_FRAME_VERSION)
		return gb_fail(err, GB_E_PROTOCOL,
			"%s speaks protocol version %u, this program speaks %u: "
			"stop the machine and start it again with this version",
			peer, version, GB_FRAME_VERSION);
	r = gb_msg_hello_decode(payload, len, &m, err);
	return r < 0 ? gb_wrap(err, r, "%s", peer) : 0;
}
