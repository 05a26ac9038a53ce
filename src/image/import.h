/* Making an image from a source and publishing it in the store. */
#ifndef GB_IMAGE_IMPORT_H
#define GB_IMAGE_IMPORT_H

#include "base/err.h"

#include <stdint.h>

#define GB_IMPORT_DIGEST_LEN 64

struct gb_import {
	const char *data_dir;
	/* rootfs:DIR | tar:FILE | debootstrap:SUITE[?include=a,b&variant=minbase] */
	const char *source;
	const char *name; /* to give to the image; NULL: none */
	/* Readable: stop and leave nothing (GB_E_CANCELLED); -1: none. */
	int cancel_fd;
	/* One line a step, for a person; may be NULL. */
	void (*progress)(void *ctx, const char *line);
	void *ctx;
};

/* The same content gives the same digest, and an image that is there already is kept; the
 * name moves to it. Two imports of one source at once: one waits for the other. Blocks. */
int gb_image_import(const struct gb_import *i, char ret_digest[GB_IMPORT_DIGEST_LEN + 1],
	struct gb_err *err);

#endif
