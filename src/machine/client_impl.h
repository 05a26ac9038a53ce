/* What the client's files share. */
#ifndef GB_MACHINE_CLIENT_IMPL_H
#define GB_MACHINE_CLIENT_IMPL_H

#include "machine/client.h"
#include "machine/wire.h"

struct gb_client {
	struct gb_wire wire;
	uint32_t next_request;
};

/* Sends a request and waits for the frame that ends it: OK gives 0; ERROR its code; want
 * (a frame type) gives 0 with the frame in *ret; NOTE lines are dropped. */
int gb_client_request(struct gb_client *c, uint8_t type, const struct gb_msg_desc *d,
	const void *msg, uint8_t want, uint64_t deadline_ns, struct gb_frame *ret,
	struct gb_err *err);
/* GB_E_PROTOCOL for a frame that does not fit here. */
int gb_client_unexpected(const struct gb_frame *f, struct gb_err *err);

#endif
