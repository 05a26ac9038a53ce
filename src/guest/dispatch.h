/* One frame from the host to what serves it. */
#ifndef GB_GUEST_DISPATCH_H
#define GB_GUEST_DISPATCH_H

#include "guest/agent.h"

/* Fails only when the connection is of no more use. */
int gb_dispatch(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);

#endif
