/* The supervisor: the one host process of a running machine. It brings the machine up
 * (machine/boot.h), then relays between its clients and the guest agent on one loop, until it
 * is stopped, its machine dies, or (bound) its last client leaves.
 *
 * The guest is not trusted: whatever the agent sends is checked against what was asked and
 * what was granted, and a violation ends the machine with one diagnostic for everybody. */
#ifndef GB_MACHINE_SUPERVISOR_H
#define GB_MACHINE_SUPERVISOR_H

#include "base/err.h"

#include <stdbool.h>

/* Runs to the end. first_client_fd: a connected socket that is taken over. Returns 0 when the
 * machine came up, whatever ended it later; a start that failed has been told to the first
 * client and to everybody who connected meanwhile. */
int gb_supervisor_run(const char *name, bool bound, int first_client_fd);

#endif
