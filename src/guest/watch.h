/* A descriptor in the event loop: edge-triggered, with what is known of its readiness. */
#ifndef GB_GUEST_WATCH_H
#define GB_GUEST_WATCH_H

#include "base/mem.h"

struct gb_agent;

struct gb_watch {
	int fd;   /* owned; -1: none */
	bool in;  /* may have something to read */
	bool out; /* may take something */
	void (*fn)(struct gb_agent *, struct gb_watch *, uint32_t events);
	void *owner; /* borrowed */
};

#endif
