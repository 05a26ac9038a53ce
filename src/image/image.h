/* Images in the store: DATA/images/<digest>/{root.ext4 (0444), image.json}, names in
 * DATA/images/names/<name> (a link to ../<digest>). Needs no heavy library: looking up,
 * listing and removing; making one is src/image/import.h and the role "image". */
#ifndef GB_IMAGE_IMAGE_H
#define GB_IMAGE_IMAGE_H

#include "base/err.h"
#include "base/str.h"

struct gb_image {
	char *digest; /* 64 hex digits */
	char *path;   /* of root.ext4 */
	struct gb_strv names;
	char *source;      /* what it was made from */
	char *user;        /* default user, "" for root */
	char *workdir;     /* "" for / */
	struct gb_strv env; /* K=V */
	uint64_t size;     /* bytes of the file system */
	uint64_t disk_bytes; /* bytes really used on the host's disk */
	int64_t created_s;
};
void gb_image_done(struct gb_image *i);

/* By name, whole digest or a unique prefix of 6 digits at least. GB_E_NOTFOUND names the
 * nearest name. */
int gb_image_find(const char *data_dir, const char *ref, struct gb_image *ret, struct gb_err *err);
/* Calls each for every image, oldest first; stops on a non-zero answer and returns it. */
int gb_image_list(const char *data_dir, int (*each)(void *ctx, const struct gb_image *i),
	void *ctx, struct gb_err *err);
/* Remove a name; the image goes with its last name, or whole when ref is a digest. The
 * caller has checked that no machine uses it. */
int gb_image_remove(const char *data_dir, const char *ref, struct gb_err *err);
/* Let name lead to an image that is there; a name that led elsewhere moves. */
int gb_image_set_name(const char *data_dir, const char *name, const char *digest,
	struct gb_err *err);

#endif
