/* The stream of entries on which every source of an image meets: folders and tar archives
 * now. What a source says is hostile; the consumer (names.h) judges paths, a source only
 * keeps numbers and texts within the limits here. */
#ifndef GB_IMAGE_TREE_H
#define GB_IMAGE_TREE_H

#include "base/err.h"
#include "base/mem.h"

#define GB_TREE_PATH_MAX   4096 /* of an entry, with its slashes */
#define GB_TREE_NAME_MAX   255  /* of one component: ext4's limit */
#define GB_TREE_LINK_MAX   4095 /* of a symbolic link's target: the kernel's limit */
#define GB_TREE_FILE_MAX   ((UINT64_C(1) << 44) - 4096) /* ext4's limit with 4 KiB blocks */
#define GB_TREE_XATTRS_MAX 128 /* of an entry */
#define GB_TREE_XATTR_BYTES_MAX 65536 /* all of an entry; what fits in ext4 is less */
#define GB_TREE_ENTRIES_MAX 4000000 /* of a source, and names of an image */

enum gb_tree_type {
	GB_TREE_FILE,
	GB_TREE_DIR,
	GB_TREE_SYMLINK,
	GB_TREE_HARDLINK, /* a second name of what target leads to */
	GB_TREE_CHAR,
	GB_TREE_BLOCK,
	GB_TREE_FIFO,
};

struct gb_tree_xattr {
	char *name;  /* owned; with its prefix, "security.capability" */
	void *value; /* owned */
	size_t len;
};
struct gb_tree_xattrs {
	struct gb_tree_xattr *v; /* owned */
	size_t n;
	size_t bytes; /* of names and values */
};
/* Copies. GB_E_LIMIT; names of a space that ext4 has not ("nfs4_acl") are left out. */
int gb_tree_xattrs_add(struct gb_tree_xattrs *x, const char *name, const void *value, size_t len,
	struct gb_err *err);
void gb_tree_xattrs_done(struct gb_tree_xattrs *x);

/* All pointers are borrowed from the source, until its next call. */
struct gb_tree_entry {
	const char *path;
	enum gb_tree_type type;
	uint32_t mode; /* 07777 */
	uint32_t uid;
	uint32_t gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint64_t size; /* of a file */
	uint32_t dev_major;
	uint32_t dev_minor;
	const char *target; /* of a symbolic or hard link */
	struct gb_tree_xattrs xattrs;
};

struct gb_tree_source;
struct gb_tree_ops {
	/* 1: *ret is the next entry; 0: there are no more. */
	int (*next)(struct gb_tree_source *s, struct gb_tree_entry *ret, struct gb_err *err);
	/* The content of the file that next() gave, piece by piece, offsets rising; what lies
	 * between the pieces is a hole. 1: a piece; 0: the end. Need not be read to the end. */
	int (*data)(struct gb_tree_source *s, const void **ret_data, size_t *ret_len,
		uint64_t *ret_offset, struct gb_err *err);
	void (*free)(struct gb_tree_source *s);
};
struct gb_tree_source {
	const struct gb_tree_ops *ops;
};
struct gb_tree_source *gb_tree_source_free(struct gb_tree_source *s); /* NULL is fine */
GB_DEFINE_CLEANUP(gb_tree_source)

/* Everything below a folder, sorted by name, its own attributes first as ".". Owners as they
 * are; hard links within it are kept; sockets are left out; other file systems that are
 * mounted below are included. Symbolic links are entries, never followed. */
int gb_tree_dir_open(const char *path, struct gb_tree_source **ret, struct gb_err *err);
/* Where an archive's bytes come from. *ret_len 0 is the end. */
struct gb_tree_reader {
	int (*read)(void *ctx, void *data, size_t len, size_t *ret_len, struct gb_err *err);
	void *ctx;
};
/* A tar archive (ustar, pax, GNU, old), plain or compressed (gzip, zstd, xz, bzip2, lz4),
 * told by its content. The reader is copied, what it leads to is borrowed. */
int gb_tree_tar_open(const struct gb_tree_reader *reader, struct gb_tree_source **ret,
	struct gb_err *err);

#endif
