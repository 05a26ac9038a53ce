/* What glovebox-media gives up before it reads the first byte of a picture:
 *
 *   limits      address space, processor time, no core dump
 *   close       all descriptors but 0 to 2: the picture, the answer, nothing (/dev/null)
 *   namespaces  and mounts: an empty root without a network
 *   privileges  no_new_privs, every capability
 *   landlock    nothing may be opened
 *   seccomp     read, write, memory, exit; never executable memory
 *
 * Namespaces, mounts and landlock may be missing (a container, an old kernel) or not be
 * granted: without them the filter still leaves no call that opens, connects or starts
 * anything. If one of the others fails nothing is decoded. */
#ifndef GB_MEDIA_SANDBOX_H
#define GB_MEDIA_SANDBOX_H

#include "base/err.h"

#define GB_MEDIA_MEMORY_MAX  ((size_t)1 << 30) /* bytes of address space of the decoder */
#define GB_MEDIA_CPU_MAX     20                /* seconds of processor time of the decoder */

enum gb_media_stage {
	GB_MEDIA_NAMESPACES = 1 << 0,
	GB_MEDIA_MOUNTS = 1 << 1,
	GB_MEDIA_PRIVILEGES = 1 << 2,
	GB_MEDIA_LANDLOCK = 1 << 3,
	GB_MEDIA_SECCOMP = 1 << 4,
};

/* keep: a descriptor that stays open, or -1. *ret_stages: what holds (enum gb_media_stage). */
int gb_media_jail(int keep, unsigned int *ret_stages, struct gb_err *err);

/* Try from inside what must be refused, and print a line each. GB_E_STATE when anything
 * was not. status_fd: /proc/self/status, opened before. */
int gb_media_selftest(int status_fd, unsigned int stages, struct gb_err *err);

#endif
