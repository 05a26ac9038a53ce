/* Writes a raw ext4 file from streams of entries: without root, without a mount, without a
 * VM. The same entries give the same bytes, whenever and wherever. One thread. */
#ifndef GB_IMAGE_DISK_EXT4_H
#define GB_IMAGE_DISK_EXT4_H

#include "image/tree.h"

#define GB_EXT4_CONTENT_MAX (UINT64_C(512) << 30) /* of all files together */

struct gb_ext4;

/* Called now and then with the bytes of content so far. A non-zero answer cancels:
 * gb_ext4_add fails with GB_E_CANCELLED. */
typedef int (*gb_ext4_progress)(void *ctx, uint64_t bytes, uint64_t entries);

/* Creates the file, which must not exist. It is removed when the writer is freed before
 * gb_ext4_finish succeeded. */
int gb_ext4_new(const char *path, struct gb_ext4 **ret, struct gb_err *err);
struct gb_ext4 *gb_ext4_free(struct gb_ext4 *e); /* NULL is fine; returns NULL */
GB_DEFINE_CLEANUP(gb_ext4)

/* Put every entry of a source over what is there already; later ones win. */
int gb_ext4_add(struct gb_ext4 *e, struct gb_tree_source *source, gb_ext4_progress progress,
	void *ctx, struct gb_err *err);
uint64_t gb_ext4_entries(const struct gb_ext4 *e);
/* Write what makes it a file system. Not synced. Nothing can be added afterwards. */
int gb_ext4_finish(struct gb_ext4 *e, uint64_t *ret_size, struct gb_err *err);

#endif
