/* Boot bundles: a kernel, the modules that are needed in load order, and an initramfs with
 * the agent; a content-addressed, immutable folder in CACHE/boot/<id>/ with the files
 *   kernel      what the VMM boots (vmlinux for PVH where that works)
 *   initramfs   newc cpio: /init (the agent), /modules/NN-name.ko, /modules.list
 *   bundle.json {"id", "kernel_release", "pvh": bool, "source", "modules": [...]}
 */
#ifndef GB_VMM_BOOT_H
#define GB_VMM_BOOT_H

#include "base/err.h"
#include "base/mem.h"

/* Where the kernel comes from; all borrowed, NULL where not given. */
struct gb_boot_source {
	const char *kernel;  /* vmlinuz or vmlinux file */
	const char *modules; /* its modules folder: .../lib/modules/RELEASE */
	const char *agent;   /* the agent's executable; NULL: the one of this build */
};

/* Fill in what is NULL: GLOVEBOX_KERNEL_DIR (an unpacked kernel package: boot/vmlinuz-R,
 * lib/modules/R), then the kernel folder of this build or installation, then the host's own
 * kernel. Owned strings in *ret. GB_E_NOTFOUND says what to do. */
struct gb_boot_paths {
	char *kernel;
	char *modules;
	char *agent;
};
int gb_boot_locate(const struct gb_boot_source *s, struct gb_boot_paths *ret, struct gb_err *err);
void gb_boot_paths_done(struct gb_boot_paths *p);

/* The bundle's folder (owned) if it was made already and its sources have not changed (by
 * path, size, mtime, inode of kernel, modules.dep and agent); GB_E_NOTFOUND else. O(1),
 * needs no library but libc. */
int gb_bundle_lookup(const char *cache_dir, const struct gb_boot_paths *p, char **ret_dir,
	struct gb_err *err);

#endif
