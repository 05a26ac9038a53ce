/* Templates: a paused, booted VM on disk, from which machines start. Two kinds.
 *
 * A generic one waits before its root is mounted, and starts any machine:
 *   CACHE/templates/<key>/{memory,state,template.json}
 * key is a hash over the bundle's id, QEMU's version, the accelerator, cpus, memory and the
 * device set.
 *
 * One of an image has the root mounted and grown, the tools' world made, and has run a few
 * commands, so that what every command needs is in memory:
 *   CACHE/image-templates/<key>/{memory,state,disk.qcow2,template.json}
 * key is that of the generic one, the image's digest and the disk's size. Its memory knows what
 * is on its disk. So only a machine whose disk is a copy of disk.qcow2 of the same folder may be
 * restored from it, and only once: with any other disk the file system would be destroyed. What
 * machines are told after a restore (identity, entropy, time, user, environment) is in neither. */
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
	const char *image;  /* digest: a template of this image; NULL: a generic one */
	uint64_t disk_bytes; /* with image: the machine's disk */
};
#define GB_TEMPLATE_DISK "disk.qcow2"

/* The template's folder (owned), or GB_E_NOTFOUND. Starts no process. */
int gb_template_lookup(const char *cache_dir, const struct gb_template_want *w, char **ret_dir,
	struct gb_err *err);
/* Forget a template that could not be restored (renamed away, then removed). */
int gb_template_discard(const char *cache_dir, const struct gb_template_want *w, struct gb_err *err);

/* An image's template that cannot be made or restored is made once more, then not again until
 * GB_TEMPLATE_REST_S have passed: each failure is noted, and allowed says whether it may be tried.
 * Machines start from the generic one meanwhile. */
#define GB_TEMPLATE_FAILURES 2
#define GB_TEMPLATE_REST_S   86400
bool gb_template_allowed(const char *cache_dir, const struct gb_template_want *w);
void gb_template_failed(const char *cache_dir, const struct gb_template_want *w);

#endif
