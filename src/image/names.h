/* The tree of an image in memory: names, inodes, and where in the disk each file's content
 * lies. Entries are put one after the other as in unpacking an archive; the paths in them
 * are foreign. Nothing here touches a disk. */
#ifndef GB_IMAGE_NAMES_H
#define GB_IMAGE_NAMES_H

#include "image/tree.h"

#define GB_NAMES_LINKS_MAX 65000 /* ext4's limit of hard links */

/* Blocks of a file that lie together. */
struct gb_run {
	uint64_t physical;
	uint32_t logical;
	uint32_t count;
};

struct gb_inode {
	enum gb_tree_type type; /* never a hard link */
	uint32_t mode;
	uint32_t uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t dev_major, dev_minor;
	uint32_t links;  /* names; 1 for a folder */
	uint32_t number; /* for the writer */
	uint64_t size;
	char *target;                 /* owned; of a symbolic link */
	struct gb_tree_xattrs xattrs; /* owned */
	struct gb_run *runs;          /* owned */
	size_t run_count, run_cap;
};

struct gb_name {
	struct gb_inode *inode; /* shared by its links */
	struct gb_name *parent; /* the root's is itself */
	struct gb_name *next, *previous; /* siblings, in the order they came */
	struct gb_name *first, *last;    /* children of a folder */
	struct gb_name *chain;           /* in the hash table */
	uint32_t children;
	uint32_t hash;
	uint8_t len;
	char text[]; /* NUL-terminated */
};

struct gb_names;
/* Starts with a root folder, 0755. time_s: for folders that no entry describes. */
int gb_names_new(int64_t time_s, struct gb_names **ret, struct gb_err *err);
struct gb_names *gb_names_free(struct gb_names *n); /* NULL is fine; returns NULL */
GB_DEFINE_CLEANUP(gb_names)

/* Put an entry. Leading "/" and "./" are dropped, ".." is refused (GB_E_DENIED); missing
 * parents are made, 0755 root; a parent that is a symbolic link is followed inside the tree.
 * The last part is not followed: what had the name before is replaced, but a folder by a
 * folder only gets its attributes. *ret_inode (borrowed) takes the content of a file. */
int gb_names_put(struct gb_names *n, const struct gb_tree_entry *e, struct gb_inode **ret_inode,
	struct gb_err *err);
/* As put of a folder, if there is no folder of that path yet. */
int gb_names_ensure_dir(struct gb_names *n, const char *path, uint32_t mode, struct gb_err *err);

const struct gb_name *gb_names_root(const struct gb_names *n);
/* The name after in a walk that gives each folder before what is in it; NULL: the end. */
const struct gb_name *gb_names_walk(const struct gb_name *after);
/* Of a path relative to the root, no link followed; NULL. For tests. */
const struct gb_name *gb_names_find(const struct gb_names *n, const char *path);

/* One more run of an inode, joined to its last one where they touch. */
int gb_inode_add_run(struct gb_inode *i, uint32_t logical, uint64_t physical, uint32_t count,
	struct gb_err *err);
/* Runs of files that were replaced: free again. Borrowed. */
const struct gb_run *gb_names_dropped(const struct gb_names *n, size_t *ret_count);

#endif
