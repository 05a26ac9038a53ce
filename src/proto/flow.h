/* Credits: a sender may have at most as many unacknowledged bytes on a stream as the
 * receiver granted. Each stream starts with GB_FLOW_WINDOW; the receiver grants more
 * (CREDIT) as it consumes. So a slow reader never stalls its siblings, and memory is bounded
 * on both sides. Who receives more than was granted has a hostile or broken peer. */
#ifndef GB_PROTO_FLOW_H
#define GB_PROTO_FLOW_H

#include "base/err.h"
#include "base/mem.h"

#define GB_FLOW_WINDOW (512u << 10) /* bytes a stream at its start */
#define GB_FLOW_MAX    (16u << 20)  /* a grant never raises the open window beyond this */

struct gb_flow_sender {
	uint32_t credit; /* bytes that may still be sent */
};
void gb_flow_sender_init(struct gb_flow_sender *s);
uint32_t gb_flow_sender_take(struct gb_flow_sender *s, uint32_t want); /* how many, and spend them */
int gb_flow_sender_grant(struct gb_flow_sender *s, uint32_t bytes, struct gb_err *err);

struct gb_flow_receiver {
	uint32_t open;     /* bytes the peer may still send */
	uint32_t consumed; /* consumed and not yet granted again */
};
void gb_flow_receiver_init(struct gb_flow_receiver *r);
/* bytes arrived: GB_E_PROTOCOL when more than was granted. */
int gb_flow_receiver_arrived(struct gb_flow_receiver *r, uint32_t bytes, struct gb_err *err);
/* bytes were consumed: returns how much to grant now (0: not worth a frame yet). */
uint32_t gb_flow_receiver_consumed(struct gb_flow_receiver *r, uint32_t bytes);

#endif
