/* The share relay: a process of its own that owns the share port and copies FUSE messages
 * between it and /dev/fuse descriptors. */
#ifndef GB_GUEST_RELAY_H
#define GB_GUEST_RELAY_H

/* Never returns. sock: descriptors of new shares arrive there (base/fd.h), the tag is their
 * index; its end ends the relay. Both are owned. */
_Noreturn void gb_relay_run(int sock, int port);

#endif
