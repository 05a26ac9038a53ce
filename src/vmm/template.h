/* Templates: a paused, booted VM on disk, from which machines start.
 * CACHE/templates/<key>/{memory,state,template.json}; key is a hash over the bundle's id,
 * QEMU's version, the accelerator, cpus, memory and the device set. */
#ifndef GB_VMM_TEMPLATE_H
#define GB_VMM_TEMPLATE_H

#include "vmm/driver.h"

/* What a template depends on. */
struct gb_template_want {
	enum gb_accel accel;
	unsigned cpus;
	uint64_t memory_bytes;
	const char *bundle; /* folder */
	bool network;       /* whether the device set has a network device */
};

/* The template's folder (owned), or GB_E_NOTFOUND. Starts no process. */
int gb_template_lookup(const char *cache_dir, const struct gb_template_want *w, char **ret_dir,
	struct gb_err *err);
/* Forget a template that could not be restored (renamed away, then removed). */
int gb_template_discard(const char *cache_dir, const struct gb_template_want *w, struct gb_err *err);

#endif
