/* Single flight: of all threads and processes that want to make the same thing in a folder,
 * one makes it and the others wait for it, a bounded time. A lock file FOLDER/.lock-KEY
 * carries the lock; it is gone when nobody holds or wants it. After gb_flight_begin look
 * again whether the thing exists: the holder before may have made it. */
#ifndef GB_STORE_FLIGHT_H
#define GB_STORE_FLIGHT_H

#include "base/err.h"

#include <stdint.h>

#define GB_FLIGHT_KEY_MAX 200 /* bytes; with its prefix it is a file name */

struct gb_flight {
	char *path; /* owned; of the lock file */
	int fd;     /* -1 when not held */
};
#define GB_FLIGHT_INIT { .path = 0, .fd = -1 }

/* Take the flight KEY ([A-Za-z0-9_.-], 1..200) in an existing folder. waiting (may be NULL)
 * is called once, before the first wait. GB_E_TIMEOUT when deadline_ns (CLOCK_MONOTONIC)
 * passes: the message names the lock file. A holder that dies lets go. */
int gb_flight_begin(const char *folder, const char *key, uint64_t deadline_ns,
	void (*waiting)(void *ctx), void *ctx, struct gb_flight *ret, struct gb_err *err);
/* Remove the lock file and let go. A struct that holds nothing is fine. */
void gb_flight_end(struct gb_flight *f);
/* For "gb_auto_done(gb_flight) f = GB_FLIGHT_INIT;": the same as end. */
void gb_flight_done(struct gb_flight *f);
/* Remove lock files in folder that killed processes have left. Never waits. */
void gb_flight_sweep(const char *folder);

#endif
