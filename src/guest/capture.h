/* Output that is kept with its middle left out, and output of which only the end is kept.
 * Pure: memory only, grown as it is needed. */
#ifndef GB_GUEST_CAPTURE_H
#define GB_GUEST_CAPTURE_H

#include "base/buf.h"

/* The last max bytes of what was added. */
struct gb_ring {
	uint8_t *data; /* owned */
	size_t cap, start, len;
	size_t max;
};
void gb_ring_init(struct gb_ring *r, size_t max);
void gb_ring_done(struct gb_ring *r);
/* How many bytes were lost for it: the oldest, or of the new ones when memory is out. */
uint64_t gb_ring_add(struct gb_ring *r, const void *data, size_t len);
/* The longest run at its begin that lies together in memory. */
const uint8_t *gb_ring_front(const struct gb_ring *r, size_t *ret_len);
void gb_ring_consume(struct gb_ring *r, size_t len);

/* The first and the last bytes, half bytes of each at most. */
struct gb_capture {
	struct gb_buf head;
	struct gb_ring tail;
	size_t half;
	uint64_t bytes;   /* added, with what was left out */
	uint64_t omitted; /* between head and tail */
};
void gb_capture_init(struct gb_capture *c, size_t half);
void gb_capture_done(struct gb_capture *c);
void gb_capture_add(struct gb_capture *c, const void *data, size_t len);
/* Bytes that are kept. */
size_t gb_capture_kept(const struct gb_capture *c);
/* Put bytes in front of all that is there: they come first again. len is half at most. */
void gb_capture_unread(struct gb_capture *c, const void *data, size_t len);
/* Move what is kept to out (empty, initialised), and begin anew. The gap is after *ret_head
 * bytes. GB_E_NOMEM: nothing has changed. */
int gb_capture_take(struct gb_capture *c, struct gb_buf *out, uint64_t *ret_head,
	uint64_t *ret_bytes, uint64_t *ret_omitted, struct gb_err *err);

#endif
