/* The blocks of a folder. One block is a plain list; more are an index by hash
 * (dir_index):
 *
 *   block 0        ".", "..", the root of the index: hash -> block
 *   (blocks 1…)    a second level, when the root is full
 *   leaves         entries sorted by hash; all of a hash in a row. When they run over a
 *                  leaf's end the next leaf's hash has its lowest bit set, which tells
 * the kernel to look on
 *
 * Leaves are filled to four fifths, so that a folder does not split all over at the first
 * file that is added to it. Every block but those of the index ends in a checksum. */
#include "image/disk/ext4_priv.h"

#include <string.h>

#define DIR_TAIL      sizeof(struct ext2_dir_entry_tail)
#define DIR_LEAF_ROOM (EXT4_BLOCK - DIR_TAIL)
#define DIR_LEAF_FILL (DIR_LEAF_ROOM / 5 * 4)
#define DIR_HASH      EXT2_HASH_HALF_MD4
#define DX_ROOT_START 32u /* after ".", ".." (12 each) and the index's info (8) */
#define DX_NODE_START 8u  /* after an empty entry over the whole block */
#define DX_ENTRY      8u
#define DX_TAIL	      sizeof(struct ext2_dx_tail)
#define DX_ROOT_LIMIT                                                                    \
	((EXT4_BLOCK - DX_ROOT_START - DX_TAIL) /                                        \
		DX_ENTRY) /* entries of the index's root */
#define DX_NODE_LIMIT                                                                    \
	((EXT4_BLOCK - DX_NODE_START - DX_TAIL) /                                        \
		DX_ENTRY) /* entries of a node below it */

struct dir_item {
	const struct gb_name *name;
	uint32_t hash, minor;
};

struct dir_leaf {
	size_t first, count; /* items */
	uint32_t hash;
};

static uint32_t entry_len(size_t name_len)
{
	return (uint32_t)((8 + name_len + 3) & ~(size_t)3);
}

static int file_type(enum gb_tree_type type)
{
	switch (type) {
	case GB_TREE_DIR:
		return EXT2_FT_DIR;
	case GB_TREE_SYMLINK:
		return EXT2_FT_SYMLINK;
	case GB_TREE_CHAR:
		return EXT2_FT_CHRDEV;
	case GB_TREE_BLOCK:
		return EXT2_FT_BLKDEV;
	case GB_TREE_FIFO:
		return EXT2_FT_FIFO;
	default:
		return EXT2_FT_REG_FILE;
	}
}

uint64_t ext4_dir_estimate(const struct gb_name *dir)
{
	uint64_t bytes = 24;
	uint64_t leaves;

	for (const struct gb_name *c = dir->first; c; c = c->next)
		bytes += entry_len(c->len);
	if (bytes <= DIR_LEAF_ROOM)
		return 1;
	/* a leaf is left with less than the longest entry's room unused */
	leaves = bytes / (DIR_LEAF_FILL - entry_len(GB_TREE_NAME_MAX)) + 1;
	return 2 + leaves + leaves / DX_NODE_LIMIT;
}

static uint8_t *put_entry(uint8_t *at, uint32_t ino, const char *text, size_t len,
	int type, uint32_t rec_len)
{
	struct ext2_dir_entry *e = (struct ext2_dir_entry *)at;

	e->inode = ino;
	e->rec_len = (uint16_t)rec_len;
	e->name_len = (uint16_t)((unsigned int)len | (unsigned int)type << 8);
	memcpy(e->name, text, len);
	return at + rec_len;
}

static uint8_t *put_name(uint8_t *at, const struct gb_name *c, uint32_t rec_len)
{
	return put_entry(at, c->inode->number, c->text, c->len, file_type(c->inode->type),
		rec_len);
}

/* The last entry reaches to the tail, which looks like an empty entry to old kernels. */
static void end_leaf(ext2_filsys fs, uint8_t *block, uint8_t *last)
{
	struct ext2_dir_entry *e = (struct ext2_dir_entry *)last;

	e->rec_len = (uint16_t)(block + DIR_LEAF_ROOM - last);
	ext2fs_initialize_dirent_tail(
		fs, (struct ext2_dir_entry_tail *)(block + DIR_LEAF_ROOM));
}

static void build_plain(ext2_filsys fs, const struct gb_name *dir, uint8_t *block)
{
	uint8_t *last = put_entry(block, dir->inode->number, ".", 1, EXT2_FT_DIR, 12);
	uint8_t *at =
		put_entry(last, dir->parent->inode->number, "..", 2, EXT2_FT_DIR, 12);

	for (const struct gb_name *c = dir->first; c; c = c->next) {
		last = at;
		at = put_name(at, c, entry_len(c->len));
	}
	end_leaf(fs, block, last);
}

static int by_hash(const void *a, const void *b)
{
	const struct dir_item *x = a;
	const struct dir_item *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->minor != y->minor)
		return x->minor < y->minor ? -1 : 1;
	return strcmp(x->name->text, y->name->text);
}

static int hash_all(ext2_filsys fs, const struct gb_name *dir, struct dir_item *items,
	struct gb_err *err)
{
	size_t n = 0;

	for (const struct gb_name *c = dir->first; c; c = c->next, n++) {
		errcode_t code = ext2fs_dirhash2(DIR_HASH, c->text, c->len, NULL, 0,
			fs->super->s_hash_seed, &items[n].hash, &items[n].minor);

		if (code)
			return ext4_fail(err, code, "cannot hash a name");
		items[n].name = c;
	}
	qsort(items, n, sizeof(*items), by_hash);
	return 0;
}

/* Where each leaf begins. The hashes' lowest bit is never set by the hash itself. */
static size_t cut_leaves(
	const struct dir_item *items, size_t count, struct dir_leaf *leaves)
{
	size_t n = 0;
	size_t room = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t need = entry_len(items[i].name->len);

		if (i == 0 || room < need) {
			bool same = i > 0 && items[i].hash == items[i - 1].hash;

			leaves[n++] = (struct dir_leaf){
				.first = i, .hash = items[i].hash | (same ? 1 : 0)};
			room = DIR_LEAF_FILL;
		}
		leaves[n - 1].count++;
		room -= need;
	}
	return n;
}

static void build_leaf(
	ext2_filsys fs, const struct dir_item *items, size_t count, uint8_t *block)
{
	uint8_t *at = block;
	uint8_t *last = block;

	for (size_t i = 0; i < count; i++) {
		last = at;
		at = put_name(at, items[i].name, entry_len(items[i].name->len));
	}
	end_leaf(fs, block, last);
}

/* Entries of an index block. The first one's hash is not stored: limit and count are
 * there. */
static void put_index(uint8_t *at, size_t limit, const struct dir_leaf *leaves,
	size_t count, uint32_t first_block)
{
	struct ext2_dx_countlimit *cl = (struct ext2_dx_countlimit *)at;
	struct ext2_dx_entry *e = (struct ext2_dx_entry *)at;

	for (size_t i = 0; i < count; i++) {
		e[i].hash = leaves[i].hash;
		e[i].block = first_block + (uint32_t)i;
	}
	cl->limit = (uint16_t)limit;
	cl->count = (uint16_t)count;
}

static void put_root(const struct gb_name *dir, uint8_t *block, uint8_t levels)
{
	struct ext2_dx_root_info *info = (struct ext2_dx_root_info *)(block + 24);

	put_entry(block, dir->inode->number, ".", 1, EXT2_FT_DIR, 12);
	put_entry(block + 12, dir->parent->inode->number, "..", 2, EXT2_FT_DIR,
		EXT4_BLOCK - 12);
	info->hash_version = DIR_HASH;
	info->info_length = sizeof(*info);
	info->indirect_levels = levels;
}

/* Root, second level if it takes one, leaves. */
static int build_index(ext2_filsys fs, const struct gb_name *dir,
	const struct dir_item *items, const struct dir_leaf *leaves, size_t leaf_count,
	uint8_t **ret, uint32_t *ret_blocks, struct gb_err *err)
{
	size_t nodes = leaf_count <= DX_ROOT_LIMIT
			       ? 0
			       : (leaf_count + DX_NODE_LIMIT - 1) / DX_NODE_LIMIT;
	struct dir_leaf tops[DX_ROOT_LIMIT];
	uint8_t *blocks;

	if (nodes > DX_ROOT_LIMIT)
		return gb_fail(
			err, GB_E_LIMIT, "folder '%s' has too many entries", dir->text);
	blocks = calloc(1 + nodes + leaf_count, EXT4_BLOCK);
	if (!blocks)
		return gb_nomem(err);
	put_root(dir, blocks, nodes ? 1 : 0);
	for (size_t i = 0; i < nodes; i++) {
		size_t first = i * DX_NODE_LIMIT;
		uint8_t *block = blocks + (1 + i) * EXT4_BLOCK;

		tops[i] = leaves[first];
		put_entry(block, 0, "", 0, 0, EXT4_BLOCK);
		put_index(block + DX_NODE_START, DX_NODE_LIMIT, leaves + first,
			GB_MIN(DX_NODE_LIMIT, leaf_count - first),
			(uint32_t)(1 + nodes + first));
	}
	put_index(blocks + DX_ROOT_START, DX_ROOT_LIMIT, nodes ? tops : leaves,
		nodes ? nodes : leaf_count, 1);
	for (size_t i = 0; i < leaf_count; i++)
		build_leaf(fs, items + leaves[i].first, leaves[i].count,
			blocks + (1 + nodes + i) * EXT4_BLOCK);
	*ret = blocks;
	*ret_blocks = (uint32_t)(1 + nodes + leaf_count);
	return 0;
}

static bool fits_plain(const struct gb_name *dir)
{
	return ext4_dir_estimate(dir) == 1;
}

int ext4_dir_build(ext2_filsys fs, const struct gb_name *dir, uint8_t **ret,
	uint32_t *ret_blocks, struct gb_err *err)
{
	gb_auto_free struct dir_item *items = NULL;
	gb_auto_free struct dir_leaf *leaves = NULL;
	int r;

	if (fits_plain(dir)) {
		*ret = calloc(1, EXT4_BLOCK);
		if (!*ret)
			return gb_nomem(err);
		build_plain(fs, dir, *ret);
		*ret_blocks = 1;
		return 0;
	}
	items = calloc(dir->children, sizeof(*items));
	leaves = calloc(dir->children, sizeof(*leaves));
	if (!items || !leaves)
		return gb_nomem(err);
	r = hash_all(fs, dir, items, err);
	if (r < 0)
		return r;
	return build_index(fs, dir, items, leaves,
		cut_leaves(items, dir->children, leaves), ret, ret_blocks, err);
}

int ext4_dir_seal(
	ext2_filsys fs, uint32_t ino, uint8_t *blocks, uint32_t count, struct gb_err *err)
{
	for (uint32_t i = 0; i < count; i++) {
		errcode_t code = ext2fs_dir_block_csum_set(fs, ino,
			(struct ext2_dir_entry *)(blocks + (size_t)i * EXT4_BLOCK));

		if (code)
			return ext4_fail(err, code, "cannot checksum a folder");
	}
	return 0;
}
