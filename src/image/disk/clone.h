/* A machine's private root: a clone of an image, in milliseconds whatever its size; and the
 * lock that every writable raw disk carries. */
#ifndef GB_IMAGE_DISK_CLONE_H
#define GB_IMAGE_DISK_CLONE_H

#include "base/err.h"
#include "base/mem.h"

/* Make dest (must not exist; published atomically, 0600) as a qcow2 overlay of size bytes on
 * the raw image base (absolute path). size is at least the base's size. GB_E_EXISTS,
 * GB_E_NOSPACE… leave nothing behind. */
int gb_disk_clone(const char *base, const char *dest, uint64_t size, struct gb_err *err);
/* Grow an overlay made by gb_disk_clone; never shrinks (GB_E_INVALID). */
int gb_disk_grow(const char *path, uint64_t size, struct gb_err *err);
int gb_disk_size(const char *path, uint64_t *ret, struct gb_err *err);
/* An exclusive lock on a disk for as long as *ret_fd is open. GB_E_BUSY names the holder's
 * pid where it can be had. */
int gb_disk_lock(const char *path, int *ret_fd, struct gb_err *err);

#endif
