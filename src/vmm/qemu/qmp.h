/* A small client of QEMU's machine protocol (QMP): one JSON object a line.
 *
 * QEMU holds the guest's devices, so what it says is taken with care: a line is bounded, and
 * what is not a greeting, an answer or an event ends the session. Answers come in the order
 * of the commands; events come at any time and go to a callback.
 *
 * QEMU reads its monitor one byte at a time, 14 microseconds each on a slow host: commands
 * are text without a byte too many, and several go out in one write. */
#ifndef GB_VMM_QEMU_QMP_H
#define GB_VMM_QEMU_QMP_H

#include "base/buf.h"

#include <jansson.h>

#define GB_QMP_LINE_MAX ((size_t)64 << 10)

enum gb_qmp_kind { GB_QMP_GREETING = 1, GB_QMP_RETURN, GB_QMP_ERROR, GB_QMP_EVENT };

/* What one line says, borrowed from root. */
struct gb_qmp_message {
	enum gb_qmp_kind kind;
	json_t *root;      /* owned; gb_qmp_message_done */
	const char *name;  /* EVENT: its name; ERROR: its class */
	const char *text;  /* ERROR: its description */
	const json_t *data; /* RETURN: the value; EVENT: data or NULL; GREETING: version */
};
void gb_qmp_message_done(struct gb_qmp_message *m);
/* Read one line. On failure (GB_E_PROTOCOL, GB_E_NOMEM) *ret is untouched. */
int gb_qmp_parse(const char *line, size_t len, struct gb_qmp_message *ret, struct gb_err *err);

typedef void (*gb_qmp_event_fn)(void *ctx, const char *name, const json_t *data);

struct gb_qmp {
	int fd; /* owned, non-blocking; -1 when closed */
	struct gb_buf in;
	size_t taken; /* bytes at the front of in that were used */
	gb_qmp_event_fn on_event;
	void *ctx;
	char version[64]; /* of QEMU, from the greeting; "" before it came */
};

/* Takes fd over, also on failure. */
int gb_qmp_init_consume(struct gb_qmp *q, int fd, gb_qmp_event_fn on_event, void *ctx,
	struct gb_err *err);
void gb_qmp_done(struct gb_qmp *q);
/* Write commands (JSON text, one or more). */
int gb_qmp_send(struct gb_qmp *q, const char *text, uint64_t deadline_ns, struct gb_err *err);
/* The same, with a descriptor beside the first byte (for "getfd"). */
int gb_qmp_send_fd(struct gb_qmp *q, const char *text, int fd, uint64_t deadline_ns,
	struct gb_err *err);
/* The next RETURN or ERROR if one came: 1, 0 when none is there yet (nothing blocks),
 * GB_E_CLOSED at end of file. Events are delivered on the way. */
int gb_qmp_next(struct gb_qmp *q, struct gb_qmp_message *ret, struct gb_err *err);
/* Wait for the answer to the oldest command that has none. An ERROR is GB_E_STATE with
 * QEMU's words. *ret_value (may be NULL) is a new reference. */
int gb_qmp_answer(struct gb_qmp *q, uint64_t deadline_ns, json_t **ret_value, struct gb_err *err);
/* Send one command and wait for its answer. */
int gb_qmp_call(struct gb_qmp *q, const char *text, uint64_t deadline_ns, json_t **ret_value,
	struct gb_err *err);
/* Block until something may be there to read. */
int gb_qmp_wait(struct gb_qmp *q, uint64_t deadline_ns, struct gb_err *err);

#endif
