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
/* Whether dest is as gb_disk_clone made it with these arguments and nothing was ever written to
 * it: what its guest would read is the image. False when that cannot be told. */
bool gb_disk_is_pristine(const char *base, const char *dest, uint64_t size);
#define GB_DISK_REPLACING ".new" /* dest with this is left behind by a killed replace */
/* Replace dest, which must be pristine (GB_E_STATE if it is not), by a copy of the overlay in
 * from_fd, which has the same size and an image of the same content below it, perhaps at another
 * path. durable: the copy outlives a crash of the host from here on. Nobody else may open dest
 * meanwhile. On failure dest is as it was, or the whole copy. */
int gb_disk_replace(int from_fd, const char *base, const char *dest, uint64_t size, bool durable,
	struct gb_err *err);
/* Grow an overlay made by gb_disk_clone; never shrinks (GB_E_INVALID). */
int gb_disk_grow(const char *path, uint64_t size, struct gb_err *err);
int gb_disk_size(const char *path, uint64_t *ret, struct gb_err *err);
/* An exclusive lock on a disk for as long as *ret_fd is open. GB_E_BUSY names the holder's
 * pid where it can be had. */
int gb_disk_lock(const char *path, int *ret_fd, struct gb_err *err);

#endif
