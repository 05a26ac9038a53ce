/* image.json, and the folder of images. Internal to the floor. */
#ifndef GB_IMAGE_IMAGE_JSON_H
#define GB_IMAGE_IMAGE_JSON_H

#include "image/image.h"

#define GB_IMAGE_DIGEST_LEN 64
#define GB_IMAGE_JSON_MAX   ((size_t)1 << 20) /* bytes of an image.json */

bool gb_image_digest_valid(const char *s);
/* Text to be written as image.json; owned by the caller. */
int gb_image_to_json(const struct gb_image *i, char **ret, struct gb_err *err);
/* Fills all but names, path and disk_bytes; digest is set by the caller. */
int gb_image_from_json(const char *text, size_t len, struct gb_image *ret, struct gb_err *err);

/* DATA/images, owned. */
char *gb_image_folder(const char *data_dir);

#endif
