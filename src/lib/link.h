/* The library's connection to a machine's supervisor, shared by all requests of a workspace.
 *
 * One I/O thread for each link reads frames into the queues of their calls; callers write
 * their frames themselves as far as the socket takes them. Everything but the reader's buffer
 * is under the link's one lock, which is never held while anything waits or user code runs.
 *
 *             gb_call_start            admitted                 last frame
 *   (nothing) ------------->  WAITING ----------->  FLYING  -------------->  ANSWERED
 *                                |  dropped: no frame        |  dropped: one CANCEL, what comes
 *                                |  was sent, none follows   |  is thrown away, the slot stays
 *                                v                           v  taken until the last frame
 *                             (gone)                     FLYING
 *
 * Admission: at most GB_LINK_SLOTS calls fly. A request's frame is queued whole, and a CANCEL
 * behind it in the same queue, so it can neither overtake nor cut it.
 *
 * Failure: a frame that is malformed, not of its call, or of no call, and the end of the
 * stream, end the link once with one error. All calls that wait or fly, and all that are
 * started later, fail with it.
 *
 * What a peer can make us hold: one window a stream of each call (what is thrown away is
 * granted again at once), GB_CALL_NOTES notes and GB_CALL_INFOS infos a call, one frame in the
 * reader. */
#ifndef GB_LIB_LINK_H
#define GB_LIB_LINK_H

#include "machine/wire.h"

#include "glovebox.h"

#define GB_LINK_SLOTS    GLOVEBOX_REQUESTS_MAX
#define GB_LINK_WAITING  GLOVEBOX_WAITING_MAX
#define GB_LINK_WAITING_BYTES ((size_t)16 << 20) /* of all waiting calls together */
#define GB_LINK_OUT_HIGH ((size_t)2 << 20) /* unsent bytes from which on nothing new is queued */
#define GB_CALL_NOTES    16
#define GB_CALL_INFOS    4096

struct gb_link;
struct gb_call;

/* Which frames belong to a call, and which one is its last. ERROR ends each of them. */
enum gb_call_kind {
	GB_CALL_PLAIN,   /* OK */
	GB_CALL_EXEC,    /* STARTED, DATA, EXIT; takes input */
	GB_CALL_SESSION, /* DATA, SESSION_OUTPUT */
	GB_CALL_ATTACH,  /* STARTED, DATA, EXIT; takes input */
	GB_CALL_LIST,    /* SESSION_INFO, OK */
	GB_CALL_READ,    /* FILE_INFO, DATA, OK */
	GB_CALL_WRITE,   /* OK; takes input */
	GB_CALL_PATCH,   /* DATA, EXIT; takes input */
	GB_CALL_MEMORY,  /* MEMORY_REPLY */
	GB_CALL_LOCAL,   /* nothing is sent: a tool's call, ended by gb_call_finish */
	GB_CALL_KINDS
};

/* Takes over wire, whose HELLO was exchanged; starts the thread. first_id: ids below it were used
 * on the wire before, and answers to them may still come. */
int gb_link_new(struct gb_wire *wire_consume, uint32_t first_id, struct gb_link **ret,
	struct gb_err *err);
/* Ends the connection and the thread. All calls were released by their users. forked: the
 * thread is not of this process, only memory and descriptors are released. */
void gb_link_free(struct gb_link *l, bool forked);

/* The begin of the end. Under one lock: nothing changes and GB_E_BUSY with the number of owner's
 * calls that have not ended, if there are any or held is not 0; GB_E_CLOSED when it is closing
 * or has failed; else no call is admitted from here on, and STOP is sent. */
int gb_link_close(struct gb_link *l, unsigned held, uint32_t deadline_ms, struct gb_err *err);
/* Until the peer has closed the connection: 0, or GB_E_TIMEOUT. */
int gb_link_await_end(struct gb_link *l, uint64_t deadline_ns, struct gb_err *err);

struct gb_call_options {
	bool owner;           /* counts in gb_link_close */
	uint64_t deadline_ms; /* 0: none */
};
/* msg may be NULL. The caller owns the user's end of *ret. GB_E_LIMIT for a message that is too
 * large, and when too many wait. */
int gb_call_start(struct gb_link *l, enum gb_call_kind kind, uint8_t type,
	const struct gb_msg_desc *d, const void *msg, const struct gb_call_options *options,
	struct gb_call **ret, struct gb_err *err);
/* GB_CALL_LOCAL: somebody else ends it, who holds an end of his own. */
int gb_call_local(struct gb_link *l, const struct gb_call_options *options, struct gb_call **ret,
	struct gb_err *err);
/* failure NULL: in order. Releases that other end. */
void gb_call_finish(struct gb_call *c, const struct gb_err *failure);
/* Releases the user's end; what still flies is cancelled. */
void gb_call_drop(struct gb_call *c);

/* As the public functions of the same name. */
int gb_call_fd(struct gb_call *c, struct gb_err *err);
int gb_call_next(struct gb_call *c, struct glovebox_event *ret);
bool gb_call_ended(struct gb_call *c);
/* Until there is an event or the deadline has passed. */
void gb_call_await(struct gb_call *c, uint64_t deadline_ns);
void gb_call_cancel(struct gb_call *c);
int64_t gb_call_write(struct gb_call *c, const void *data, size_t len, struct gb_err *err);
int gb_call_write_eof(struct gb_call *c, struct gb_err *err);
/* SIGNAL and WINSIZE: a message about the call; dropped when it does not fly. */
int gb_call_tell(struct gb_call *c, uint8_t type, const struct gb_msg_desc *d, const void *msg,
	struct gb_err *err);
/* 0 when it ended in order, its error, or GB_E_STATE when it has not ended. */
int gb_call_outcome(struct gb_call *c, struct gb_err *err);

/* What the last frame said; valid after the end, borrowed until the drop, NULL when there was
 * none. */
enum gb_call_kind gb_call_kind_of(const struct gb_call *c);
const struct gb_msg_exit *gb_call_exit(const struct gb_call *c);
const struct gb_msg_session_output *gb_call_session(const struct gb_call *c);
const struct gb_msg_memory_reply *gb_call_memory(const struct gb_call *c);
const struct gb_msg_session_info *gb_call_infos(const struct gb_call *c, size_t *count);
/* From its first event on. */
bool gb_call_file_info(struct gb_call *c, struct gb_msg_file_info *ret);

#endif
