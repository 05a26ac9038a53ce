/* JSON-RPC 2.0 over lines: what a client writes to us, and what we answer.
 *
 * A line is one message, or (in one old revision of MCP) a list of messages. Whatever a line
 * holds, the worst that it can do is to be answered by an error: a line that is too long is
 * passed over up to its end, and reading goes on. Pure. */
#ifndef GB_FRONT_MCP_RPC_H
#define GB_FRONT_MCP_RPC_H

#include "base/buf.h"

#include <jansson.h>

#define GB_RPC_LINE_MAX  ((size_t)20 << 20) /* bytes of a line */
#define GB_RPC_ID_MAX    1024               /* bytes of an id */
#define GB_RPC_BATCH_MAX 256                /* messages of a list */

enum gb_rpc_code {
	GB_RPC_PARSE = -32700,
	GB_RPC_REQUEST = -32600,
	GB_RPC_METHOD = -32601,
	GB_RPC_PARAMS = -32602,
	GB_RPC_INTERNAL = -32603,
};

/* ---- lines ---- */

struct gb_rpc_reader {
	struct gb_buf in;
	size_t taken;   /* bytes at the front that were given out */
	size_t seen;    /* bytes that hold no line's end */
	bool passing;   /* over a line that is too long */
};
void gb_rpc_reader_init(struct gb_rpc_reader *r);
void gb_rpc_reader_done(struct gb_rpc_reader *r);
/* Bytes that arrived. GB_E_NOMEM. */
int gb_rpc_reader_add(struct gb_rpc_reader *r, const void *data, size_t len, struct gb_err *err);
/* 1: the next line, without its end, borrowed until the next call with r; empty ones are passed
 * over. 0: none is complete. GB_E_LIMIT, once for each line that was too long. */
int gb_rpc_reader_next(struct gb_rpc_reader *r, const char **line, size_t *len);

/* ---- messages ---- */

/* What is wrong with a message. */
struct gb_rpc_fault {
	int code;       /* enum gb_rpc_code or one of MCP's */
	char text[256]; /* UTF-8 */
};

/* The JSON of a line: a new reference, or NULL with *fault and *ret_id, which is the id to answer
 * with, a new reference, JSON null where it could not be told. A name that comes twice in an
 * object is refused. */
json_t *gb_rpc_load(const char *line, size_t len, json_t **ret_id, struct gb_rpc_fault *fault);

enum gb_rpc_kind { GB_RPC_CALL, GB_RPC_NOTICE, GB_RPC_REPLY, GB_RPC_BROKEN };
struct gb_rpc_message {
	json_t *id;         /* borrowed; NULL for a notice, JSON null where it is unfit */
	const char *method; /* borrowed; NULL for a reply */
	json_t *params;     /* borrowed; NULL: none. An object */
};
/* BROKEN: *fault says why, and ret->id what to answer to. */
enum gb_rpc_kind gb_rpc_read(json_t *message, struct gb_rpc_message *ret,
	struct gb_rpc_fault *fault);

/* New references, or NULL when memory is out. What is consumed is so in any case. */
json_t *gb_rpc_result(json_t *id, json_t *result_consume);
json_t *gb_rpc_error(json_t *id, int code, const char *text, json_t *data_consume);
json_t *gb_rpc_notice(const char *method, json_t *params_consume);
/* Append a message as a line. Sets to->error when memory is out. */
void gb_rpc_write(json_t *message_consume, struct gb_buf *to);

#endif
