#include "front/mcp/rpc.h"

#include <stdio.h>
#include <string.h>

/* ---- lines ---- */

void gb_rpc_reader_init(struct gb_rpc_reader *r)
{
	memset(r, 0, sizeof(*r));
	/* a line that is complete may have the begin of the next one behind it */
	gb_buf_init(&r->in, 2 * GB_RPC_LINE_MAX);
}

void gb_rpc_reader_done(struct gb_rpc_reader *r)
{
	gb_buf_done(&r->in);
}

int gb_rpc_reader_add(struct gb_rpc_reader *r, const void *data, size_t len, struct gb_err *err)
{
	if (r->taken) {
		gb_buf_consume(&r->in, r->taken);
		r->seen -= r->taken;
		r->taken = 0;
	}
	/* a long line's memory is not kept for short ones */
	if (!r->in.len && r->in.cap > (1u << 20)) {
		gb_buf_done(&r->in);
		gb_buf_init(&r->in, 2 * GB_RPC_LINE_MAX);
	}
	gb_buf_add(&r->in, data, len);
	return gb_buf_check(&r->in, "a message", err);
}

/* More of an endless line: only its end is of interest. */
static int pass_over(struct gb_rpc_reader *r)
{
	bool first = !r->passing;

	r->passing = true;
	r->taken = r->seen = r->in.len;
	return first ? GB_E_LIMIT : 0;
}

int gb_rpc_reader_next(struct gb_rpc_reader *r, const char **line, size_t *len)
{
	for (;;) {
		const char *at = (const char *)r->in.data + r->taken;
		size_t there = r->in.len - r->taken;
		const char *end = r->in.len > r->seen
			? memchr(r->in.data + r->seen, '\n', r->in.len - r->seen) : NULL;
		size_t n = end ? (size_t)(end - at) : there;

		r->seen = r->in.len;
		if (!end)
			return n > GB_RPC_LINE_MAX || r->passing ? pass_over(r) : 0;
		r->taken += n + 1;
		r->seen = r->taken;
		if (r->passing) {
			r->passing = false;
			continue;
		}
		if (n > GB_RPC_LINE_MAX)
			return GB_E_LIMIT;
		if (n && at[n - 1] == '\r')
			n--;
		if (strspn(at, " \t\r") >= n)
			continue;
		*line = at;
		*len = n;
		return 1;
	}
}

/* ---- messages ---- */

static bool id_is_fit(const json_t *id)
{
	return json_is_number(id) ||
		(json_is_string(id) && json_string_length(id) <= GB_RPC_ID_MAX);
}

static json_t *id_of(json_t *message)
{
	json_t *id = json_object_get(message, "id");

	return id_is_fit(id) ? json_incref(id) : json_null();
}

json_t *gb_rpc_load(const char *line, size_t len, json_t **ret_id, struct gb_rpc_fault *fault)
{
	const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
	json_error_t why;
	json_t *j = json_loadb(line, len, flags | JSON_REJECT_DUPLICATES, &why);
	json_t *again;

	if (j)
		return j;
	*ret_id = json_null();
	fault->code = GB_RPC_PARSE;
	snprintf(fault->text, sizeof(fault->text), "Parse error: column %d", why.column);
	if (json_error_code(&why) != json_error_duplicate_key)
		return NULL;
	again = json_loadb(line, len, flags, NULL);
	*ret_id = id_of(again);
	json_decref(again);
	fault->code = GB_RPC_REQUEST;
	snprintf(fault->text, sizeof(fault->text),
		"Invalid request: a name comes twice in an object (column %d)", why.column);
	return NULL;
}

static enum gb_rpc_kind broken(struct gb_rpc_fault *fault, int code, const char *text)
{
	fault->code = code;
	snprintf(fault->text, sizeof(fault->text), "%s", text);
	return GB_RPC_BROKEN;
}

enum gb_rpc_kind gb_rpc_read(json_t *message, struct gb_rpc_message *ret,
	struct gb_rpc_fault *fault)
{
	json_t *id = json_object_get(message, "id");
	json_t *method = json_object_get(message, "method");
	json_t *params = json_object_get(message, "params");
	const char *version = json_string_value(json_object_get(message, "jsonrpc"));

	memset(ret, 0, sizeof(*ret));
	ret->id = id && !id_is_fit(id) ? json_null() : id;
	if (!json_is_object(message) || !version || strcmp(version, "2.0") != 0) {
		ret->id = ret->id ? ret->id : json_null();
		return broken(fault, GB_RPC_REQUEST, "Invalid request: not JSON-RPC 2.0");
	}
	if (!method && (json_object_get(message, "result") || json_object_get(message, "error")))
		return GB_RPC_REPLY;
	if (!json_is_string(method) || (id && !id_is_fit(id))) {
		ret->id = ret->id ? ret->id : json_null();
		return broken(fault, GB_RPC_REQUEST,
			method ? "Invalid request: the id must be a number or a string of at most "
				 "1024 bytes" : "Invalid request: there is no method");
	}
	ret->method = json_string_value(method);
	ret->params = params;
	if (params && !json_is_object(params)) {
		if (!id)
			return GB_RPC_NOTICE;
		return broken(fault, GB_RPC_PARAMS, "Invalid params: not an object");
	}
	return id ? GB_RPC_CALL : GB_RPC_NOTICE;
}

json_t *gb_rpc_result(json_t *id, json_t *result_consume)
{
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result",
		result_consume);
}

json_t *gb_rpc_error(json_t *id, int code, const char *text, json_t *data_consume)
{
	json_t *error = json_pack("{s:i, s:s}", "code", code, "message", text);

	if (data_consume)
		json_object_set_new(error, "data", data_consume);
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "error", error);
}

json_t *gb_rpc_notice(const char *method, json_t *params_consume)
{
	return json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params",
		params_consume);
}

static int add_piece(const char *data, size_t len, void *to)
{
	gb_buf_add(to, data, len);
	return ((struct gb_buf *)to)->error ? -1 : 0;
}

void gb_rpc_write(json_t *message_consume, struct gb_buf *to)
{
	if (!message_consume || json_dump_callback(message_consume, add_piece, to, JSON_COMPACT) < 0)
		to->error = to->error ? to->error : GB_E_NOMEM;
	gb_buf_add_byte(to, '\n');
	json_decref(message_consume);
}
