/* What the files of the ext4 writer share.
 *
 * The layout lets content be written before the size of anything is known, so that an
 * archive is read once, straight into the disk:
 *
 *   group 0                 group 1                 group 2         …
 *   | sb GDT reserved | files' content →    | sb GDT reserved | content → | content …
 *   … content, folders, links | bitmaps, inode tables of all groups | journal, the rest | free
 *
 * Super block and descriptors always take EXT4_GDT_BLOCKS + 1 blocks, in group 0 and in the
 * groups that keep a copy, whatever the number of groups will be: what the descriptors do
 * not need now is reserved for them (resize_inode), enough for 1 TiB; beyond that the kernel
 * goes on with meta_bg. flex_bg lets bitmaps and inode tables lie anywhere. */
#ifndef GB_IMAGE_DISK_EXT4_PRIV_H
#define GB_IMAGE_DISK_EXT4_PRIV_H

#include "image/disk/ext4.h"
#include "image/names.h"

#include <assert.h>

#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2fs.h>

#define EXT4_BLOCK        4096u
#define EXT4_GROUP_BLOCKS 32768u /* 128 MiB */
#define EXT4_GDT_BLOCKS   128u   /* of 64 descriptors each: 8 GiB a block */
#define EXT4_EXTENT_MAX   32768u /* blocks of an initialised extent */
#define EXT4_INLINE_RUNS  4      /* extents that fit in the inode */

/* Every time that no entry gives (made, written, checked, folders nobody described):
 * 2020-01-01, so that the same entries give the same bytes. */
#define EXT4_TIME INT64_C(1577836800)

/* Disk structures are used as they lie in memory. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big endian hosts are not supported");

struct gb_ext4 {
	struct gb_names *names; /* owned */
	char *path;             /* owned */
	int fd;
	bool finished;
	uint64_t next; /* the next block for content */
	uint64_t content_blocks;
	uint64_t bytes, entries; /* for progress */
	uint8_t *buffer; /* owned; content that is not written yet */
	size_t buffer_len;
	uint64_t buffer_at;
	ext2_filsys fs; /* while it is finished */
};

/* ext4_data.c: content. */
/* count blocks in one piece, or as many as fit before a copy of the super block. */
uint64_t ext4_take(struct gb_ext4 *e, uint32_t count, uint32_t *ret_count);
/* count blocks in one piece. */
uint64_t ext4_take_whole(struct gb_ext4 *e, uint32_t count);
int ext4_put(struct gb_ext4 *e, uint64_t at, const void *data, size_t len, struct gb_err *err);
int ext4_flush(struct gb_ext4 *e, struct gb_err *err);
/* A piece of a file's content; offsets rise. */
int ext4_content(struct gb_ext4 *e, struct gb_inode *i, uint64_t offset, const void *data,
	size_t len, struct gb_err *err);
/* Give the space of replaced files back to the host. */
void ext4_punch_dropped(struct gb_ext4 *e);

/* ext4_dir.c: the blocks of a folder. */
/* At most so many blocks. */
uint64_t ext4_dir_estimate(const struct gb_name *dir);
/* All blocks of a folder, without checksums; owned by the caller. */
int ext4_dir_build(ext2_filsys fs, const struct gb_name *dir, uint8_t **ret, uint32_t *ret_blocks,
	struct gb_err *err);
/* Checksums; the inode is written already. */
int ext4_dir_seal(ext2_filsys fs, uint32_t ino, uint8_t *blocks, uint32_t count,
	struct gb_err *err);

/* ext4_inode.c: inodes, extents, attributes. */
/* With content in place and blocks marked as used. A folder's blocks are taken and written. */
int ext4_inode_write(struct gb_ext4 *e, const struct gb_name *name, struct gb_err *err);
/* What allocates blocks by libext2fs, after all that is taken by us: long extent trees and
 * extended attributes. */
int ext4_inode_extend(struct gb_ext4 *e, struct gb_inode *i, struct gb_err *err);

/* An error of libext2fs. */
int ext4_fail(struct gb_err *err, errcode_t code, const char *fmt, ...) GB_PRINTF(3, 4);

#endif
