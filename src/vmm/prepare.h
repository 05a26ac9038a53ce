/* The slow half, linked only into the role "prepare": making bundles and templates. Both are
 * single-flighted across processes and published atomically. progress may be NULL. */
#ifndef GB_VMM_PREPARE_H
#define GB_VMM_PREPARE_H

#include "vmm/boot.h"
#include "vmm/template.h"

typedef void (*gb_progress)(void *ctx, const char *line);

int gb_bundle_make(const char *cache_dir, const struct gb_boot_paths *p, gb_progress progress,
	void *ctx, char **ret_dir, struct gb_err *err);
int gb_template_make(const char *cache_dir, const struct gb_template_want *w,
	gb_progress progress, void *ctx, char **ret_dir, struct gb_err *err);

#endif
