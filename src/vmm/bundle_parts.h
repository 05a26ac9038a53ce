/* Internal to vmm: the parts from which a boot bundle is made. */
#ifndef GB_VMM_BUNDLE_PARTS_H
#define GB_VMM_BUNDLE_PARTS_H

#include "base/buf.h"
#include "base/str.h"

/* What each may weigh, packed or not. */
#define GB_KERNEL_MAX  ((size_t)512 << 20) /* a kernel */
#define GB_MODULE_MAX  ((size_t)64 << 20)  /* a module */
#define GB_AGENT_MAX   ((size_t)64 << 20)  /* the guest agent */
#define GB_MODULES_MAX 256		   /* modules in a bundle */
#define GB_RELEASE_MAX 128		   /* of the name of a kernel release */

/* Decompress gzip, bzip2, xz, lzma, zstd or lz4, told by content, into *ret: at most max
 * bytes, else GB_E_LIMIT. GB_E_UNSUPPORTED when it is none of them, GB_E_PARSE when it is
 * damaged. */
int gb_unpack(
	const void *data, size_t len, size_t max, struct gb_buf *ret, struct gb_err *err);

/* A little-endian 64-bit ELF file in memory; nothing is owned. */
bool gb_elf_valid(const uint8_t *data, size_t len);
/* The section with that name: GB_E_NOTFOUND, or GB_E_PARSE when the file is damaged. */
int gb_elf_section(const uint8_t *data, size_t len, const char *name, const uint8_t **ret,
	size_t *ret_len, struct gb_err *err);
/* Whether a PT_NOTE segment has a note of that owner and type. */
bool gb_elf_has_note(const uint8_t *data, size_t len, const char *owner, uint32_t type);

/* What to boot. */
struct gb_kernel {
	struct gb_buf image; /* a vmlinux if pvh, else what was given */
	bool pvh;
	char release[GB_RELEASE_MAX];
};
void gb_kernel_done(struct gb_kernel *k);
/* From a bzImage or vmlinux; file is taken over. GB_E_UNSUPPORTED says what is missing.
 */
int gb_kernel_read_consume(
	struct gb_buf *file, struct gb_kernel *ret, struct gb_err *err);

/* Modules in the order in which they must be loaded, decompressed. */
struct gb_module {
	char *name;	    /* owned; '-' written as '_' */
	struct gb_buf data; /* owned */
};
struct gb_module_list {
	struct gb_module *v; /* owned */
	size_t n;
	size_t cap;
};
void gb_module_list_done(struct gb_module_list *l);

struct gb_module_want {
	const char *name;
	bool optional; /* fine if the kernel has none such */
};
/* The wanted modules of a lib/modules/RELEASE folder and all that they need, without what
 * is built into the kernel. GB_E_NOTFOUND names a required one that is missing. Every
 * module must have been built for release. */
int gb_modules_collect(const char *folder, const char *release,
	const struct gb_module_want *want, size_t count, struct gb_module_list *ret,
	struct gb_err *err);

/* newc cpio archives. Entries get mtime 0, owner 0 and numbers in order, so that the same
 * content makes the same bytes. Failures are remembered in b. */
struct gb_cpio {
	struct gb_buf *b; /* borrowed */
	uint32_t next_inode;
};
void gb_cpio_folder(struct gb_cpio *c, const char *path);
void gb_cpio_file(
	struct gb_cpio *c, const char *path, uint32_t mode, const void *data, size_t len);
void gb_cpio_char_device(struct gb_cpio *c, const char *path, uint32_t mode,
	uint32_t major, uint32_t minor);
void gb_cpio_end(struct gb_cpio *c);

/* bundle_keep.c: remove bundles below folder (CACHE/boot) that were not used for the longest,
 * until GB_BUNDLES_KEPT are left or only such that may be in use. */
#define GB_BUNDLES_KEPT	   4
#define GB_BUNDLE_IN_USE_S 3600
void gb_bundle_clear_up(const char *folder);

#endif
