/* A public request: a call of the link, or of a tool's worker, with what keeps it alive. */
#ifndef GB_LIB_REQUEST_H
#define GB_LIB_REQUEST_H

#include "lib/core.h"

/* What a local call's end may have for its request (a tool's result). */
struct gb_request_extra {
	void (*cancel)(struct gb_request_extra *extra);
	void (*release)(struct gb_request_extra *extra); /* the request's end of it */
};

struct glovebox_request {
	struct gb_core *core;         /* reference */
	struct glovebox_tools *tools; /* reference to a counted capability, else NULL */
	struct gb_call *call;         /* the user's end, owned */
	struct gb_request_extra *extra; /* NULL: none */
};

/* Start a call as a request of tools. */
int gb_request_start(struct glovebox_tools *tools, enum gb_call_kind kind, uint8_t type,
	const struct gb_msg_desc *d, const void *msg, uint64_t deadline_ms,
	struct glovebox_request **ret, struct gb_err *err);
/* A request whose call is ended by gb_call_finish(request->call); extra is taken over on success. */
int gb_request_local(struct glovebox_tools *tools, struct gb_request_extra *extra,
	struct glovebox_request **ret, struct gb_err *err);
/* Takes events until the end. 1, 0 when the time passed, or its failure. callbacks are complete,
 * or NULL. */
int gb_request_wait(struct glovebox_request *request, uint64_t deadline_ns,
	const struct glovebox_callbacks *callbacks, struct gb_err *err);

/* Cancelling a composition of requests from another thread: whoever composes runs its requests
 * one after the other through the scope. */
struct gb_scope {
	pthread_mutex_t lock;
	bool cancelled;
	struct glovebox_request *running; /* borrowed */
};
void gb_scope_init(struct gb_scope *scope);
void gb_scope_done(struct gb_scope *scope);
/* From any thread: what runs is cancelled, what is run later fails with GB_E_CANCELLED. */
void gb_scope_cancel(struct gb_scope *scope);
/* As gb_request_wait until the end, under the scope (NULL: none). 0, or its failure. */
int gb_scope_wait(struct gb_scope *scope, struct glovebox_request *request,
	const struct glovebox_callbacks *callbacks, struct gb_err *err);

/* Until there is room for input: 1; 0: it has ended. Other events go to callbacks. */
int gb_scope_wait_writable(struct gb_scope *scope, struct glovebox_request *request,
	const struct glovebox_callbacks *callbacks);
/* All of data as its input, then its end, then as gb_scope_wait. */
int gb_request_feed(struct gb_scope *scope, struct glovebox_request *request, const void *data,
	size_t len, const struct glovebox_callbacks *callbacks, struct gb_err *err);
/* A request that only ends with OK; blocks. */
int gb_request_plain(struct glovebox_tools *tools, uint8_t type, const struct gb_msg_desc *d,
	const void *msg, uint64_t deadline_ms, struct gb_err *err);

/* Lists of an options struct as the messages have them; borrowed. */
struct gb_list gb_list_of(const char *const *v);
/* NULL is "". */
char *gb_text_of(const char *text);
void gb_exit_of(const struct gb_msg_exit *m, struct glovebox_exit *ret);

#endif
