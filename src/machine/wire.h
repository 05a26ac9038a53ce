/* A client's end of the socket: frames both ways over a non-blocking descriptor, used by one
 * thread that waits in poll. Internal to the client. */
#ifndef GB_MACHINE_WIRE_H
#define GB_MACHINE_WIRE_H

#include "base/fd.h"
#include "proto/frame.h"
#include "proto/msg.h"

struct gb_wire {
	int fd; /* owned */
	struct gb_frame_reader in;
	struct gb_buf out; /* bytes not yet written */
};

void gb_wire_init(struct gb_wire *w, int fd_consume);
void gb_wire_done(struct gb_wire *w);
/* What poll() shall wait for. */
short gb_wire_events(const struct gb_wire *w);
/* Write what can be written now. What a peer that is gone would have got is dropped: fill then
 * finds its last words, or the end. */
int gb_wire_flush(struct gb_wire *w, struct gb_err *err);
/* Read what is there now (one read). GB_E_CLOSED at end of file. */
int gb_wire_fill(struct gb_wire *w, struct gb_err *err);
/* The next frame that is complete: 1, or 0. Payload is borrowed until the next fill. */
int gb_wire_next(struct gb_wire *w, struct gb_frame *ret, struct gb_err *err);
/* Write all of out, then wait for one frame until the deadline. */
int gb_wire_receive(struct gb_wire *w, uint64_t deadline_ns, struct gb_frame *ret,
	struct gb_err *err);

#endif
