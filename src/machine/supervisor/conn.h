/* A connection of frames on the loop: reads frames, queues what is sent and writes it before
 * the loop sleeps. Belongs to the loop's thread. */
#ifndef GB_MACHINE_SUPERVISOR_CONN_H
#define GB_MACHINE_SUPERVISOR_CONN_H

#include "proto/frame.h"
#include "proto/msg.h"

#include <uv.h>

struct gb_conn;

struct gb_conn_ops {
	/* A negative code closes the connection with err as the reason. The frame's payload
	 * is borrowed for the call. */
	int (*frame)(struct gb_conn *c, const struct gb_frame *f, struct gb_err *err);
	/* Once, when it ended by the peer, an error, or a negative answer of frame (never
	 * after gb_conn_close); reason is never NULL. */
	void (*ended)(struct gb_conn *c, const struct gb_err *reason);
	/* The memory of c may be released. */
	void (*closed)(struct gb_conn *c);
	/* What was queued fell below the low mark after having been over the high one. */
	void (*drained)(struct gb_conn *c);
};

#define GB_CONN_HIGH ((size_t)4 << 20)
#define GB_CONN_LOW  ((size_t)1 << 20)

struct gb_conn {
	uv_pipe_t pipe;
	const struct gb_conn_ops *ops;
	void *owner;
	struct gb_frame_reader in;
	struct gb_buf out;     /* queued */
	size_t in_flight;      /* bytes that libuv is writing */
	bool over_high;
	bool closing;
	struct gb_conn *next_dirty; /* in the loop's list of those to flush */
	bool dirty;
};

/* Flushes the connections that were written to, before every sleep of the loop. */
struct gb_flusher {
	uv_prepare_t prepare;
	struct gb_conn *dirty;
};
int gb_flusher_init(struct gb_flusher *f, uv_loop_t *loop);

/* Takes over fd (a connected Unix socket), starts reading. */
int gb_conn_init(struct gb_conn *c, uv_loop_t *loop, int fd_consume,
	const struct gb_conn_ops *ops, void *owner, struct gb_err *err);
/* Queue. Afterwards the connection is flushed by f. */
struct gb_buf *gb_conn_out(struct gb_conn *c, struct gb_flusher *f);
void gb_conn_send(struct gb_conn *c, struct gb_flusher *f, const struct gb_frame *frame);
size_t gb_conn_queued(const struct gb_conn *c);
void gb_conn_pause(struct gb_conn *c, bool pause);
/* Ends with a call of ops->closed. What is queued is still written where it can be at once. */
void gb_conn_close(struct gb_conn *c, struct gb_flusher *f);

#endif
