/* The slow half, linked only into the role "prepare": making bundles and templates. Both are
 * single-flighted across processes and published atomically. progress may be NULL. */
#ifndef GB_VMM_PREPARE_H
#define GB_VMM_PREPARE_H

#include "vmm/boot.h"
#include "vmm/template.h"

typedef void (*gb_progress)(void *ctx, const char *line);

int gb_bundle_make(const char *cache_dir, const struct gb_boot_paths *p, gb_progress progress,
	void *ctx, char **ret_dir, struct gb_err *err);
/* How the disk of an image's template comes to be: a private disk of w->disk_bytes on the image,
 * made at path. */
struct gb_template_disk {
	int (*make)(void *ctx, const char *path, struct gb_err *err);
	void *ctx;
};
/* disk: for an image's template, which is made out of the generic one (made too if it is not
 * there); NULL for a generic one. */
int gb_template_make(const char *cache_dir, const struct gb_template_want *w,
	const struct gb_template_disk *disk, gb_progress progress, void *ctx, char **ret_dir,
	struct gb_err *err);

#endif
