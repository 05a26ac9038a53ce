/* Internal to vmm: how a lookup and the making of a bundle agree on what was made
 * already.
 *
 * CACHE/boot/index/<hash> holds the bundle's id, a newline, and the key it was made from:
 * path, size, mtime and inode of every source, so that a lookup reads one small file and
 * a clash of the (short) hashes is seen. */
#ifndef GB_VMM_BOOT_KEY_H
#define GB_VMM_BOOT_KEY_H

#include "vmm/boot.h"

#define GB_BUNDLE_ID_LEN    64	  /* hex digits of SHA-256 */
#define GB_BUNDLE_INDEX_MAX 32768 /* id and key in CACHE/boot/index */
/* Counts up when bundles of the same sources come out differently. */
#define GB_BUNDLE_FORMAT "glovebox-bundle 1"

struct gb_bundle_key {
	char *text;	  /* owned */
	char *index_path; /* owned */
};
int gb_bundle_key_init(struct gb_bundle_key *k, const char *cache_dir,
	const struct gb_boot_paths *p, struct gb_err *err);
void gb_bundle_key_done(struct gb_bundle_key *k);
/* The folder (owned) that the index file names, if it is whole. */
int gb_bundle_key_lookup(const struct gb_bundle_key *k, const char *cache_dir,
	char **ret_dir, struct gb_err *err);

/* The file in a modules folder that lists all modules: modules.dep of an installed
 * kernel, modules.order of a package that was only unpacked. Owned. */
int gb_modules_index_path(const char *modules, char **ret, struct gb_err *err);

/* The newest kernel of an unpacked package or tree: root/boot/vmlinuz-R with
 * root/lib/modules/R (or below root/usr). Fills kernel and modules of *ret.
 * GB_E_NOTFOUND when there is none. */
int gb_boot_find_kernel(const char *root, struct gb_boot_paths *ret, struct gb_err *err);

#endif
