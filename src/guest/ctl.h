/* The control port: frames in, a bounded queue of frames out. Nothing here blocks.
 *
 * Bulk output is not copied: its pages move from the command's pipe into one of ours, then
 * from there into the port's queue. Ours, because a frame begins with its length: from the
 * command's pipe another process could still take what the header has promised. One such
 * payload may be on its way at a time; what is queued after it waits until it is sent. */
#ifndef GB_GUEST_CTL_H
#define GB_GUEST_CTL_H

#include "base/buf.h"
#include "guest/watch.h"
#include "proto/frame.h"
#include "proto/msg.h"

/* The virtio port copies at most 32 KiB a write into one buffer of its queue: frames of bulk
 * data fill two of them exactly. */
#define GB_CHUNK     ((64u << 10) - GB_FRAME_HEADER)
#define GB_CTL_BULK  (128u << 10) /* bytes of a frame that is not copied */
#define GB_CTL_HIGH  (512u << 10) /* unsent bytes beyond which no pipe is read */
#define GB_CTL_STALL (4u << 20)   /* unsent bytes beyond which no request is read */
#define GB_CTL_MAX   (16u << 20)  /* the queue's cap; never reached by the two above */

struct gb_ctl {
	struct gb_watch port; /* in, out: edge-triggered readiness */
	struct gb_frame_reader reader;
	struct gb_buf out; /* unsent frames; the first out_sent bytes are gone */
	size_t out_sent;
	int bulk[2];      /* owned: the pipe; valid once bulk_made */
	bool bulk_made;
	size_t bulk_left; /* what is in it, */
	size_t bulk_at;   /* and where in out it belongs */
	bool broken; /* the host closed its end */
};

void gb_ctl_init(struct gb_ctl *c, int fd);
/* Write what the port takes. */
int gb_ctl_flush(struct gb_ctl *c, struct gb_err *err);
/* Write everything, waiting until the deadline: for last words only. */
void gb_ctl_flush_wait(struct gb_ctl *c, uint64_t deadline_ns);
/* Read once. Returns bytes read; 0: nothing there now. */
int gb_ctl_fill(struct gb_ctl *c, struct gb_err *err);
static inline size_t gb_ctl_unsent(const struct gb_ctl *c)
{
	return c->out.len - c->out_sent + c->bulk_left;
}
static inline bool gb_ctl_has_room(const struct gb_ctl *c)
{
	return gb_ctl_unsent(c) < GB_CTL_HIGH;
}
/* Room for a DATA frame of up to len bytes; write content there, then finish with the
 * length that it has. NULL when memory is out. */
uint8_t *gb_ctl_data_room(struct gb_ctl *c, size_t len);
void gb_ctl_data_end(struct gb_ctl *c, uint32_t request, uint16_t stream, uint32_t len, uint8_t flags);
/* A DATA frame of up to want bytes that are taken from a pipe without copying. Returns how
 * many it took; 0: the pipe has ended; -1 with errno EAGAIN: nothing there now, EBUSY: the
 * frame before is not sent yet, else: cannot be done with this descriptor. */
ssize_t gb_ctl_bulk(struct gb_ctl *c, int pipe, uint32_t request, uint16_t stream, size_t want);
void gb_ctl_error(struct gb_ctl *c, uint32_t request, const struct gb_err *err);
void gb_ctl_ok(struct gb_ctl *c, uint32_t request);

#endif
