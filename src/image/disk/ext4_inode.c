#include "image/disk/ext4_priv.h"

#include <ext2fs/ext3_extents.h>

#include <string.h>

#define TIME_MIN (-(INT64_C(1) << 31))
#define TIME_MAX                                                                         \
	((INT64_C(1) << 34) - (INT64_C(1) << 31) -                                       \
		1) /* 34 bits of seconds: the year 2446 */

#define FAST_LINK_MAX                                                                    \
	59 /* a target that lies in the inode itself, with room for a NUL                \
	    */
#define DEV_MAJOR_MAX 0xfffu   /* 12 bits, as in the kernel */
#define DEV_MINOR_MAX 0xfffffu /* 20 bits */
#define DIR_LINKS_MAX 65000u   /* beyond it a folder says 1 (dir_nlink) */

/* 32 bits of seconds, two more and the nanoseconds in the extra field. */
static void put_time(int64_t s, uint32_t ns, uint32_t *low, uint32_t *extra)
{
	s = GB_MIN(GB_MAX(s, TIME_MIN), TIME_MAX);
	*low = (uint32_t)s;
	*extra = ns << 2 | (uint32_t)(((s - (int32_t)(uint32_t)s) >> 32) & 3);
}

static uint16_t mode_bits(enum gb_tree_type type)
{
	switch (type) {
	case GB_TREE_DIR:
		return LINUX_S_IFDIR;
	case GB_TREE_SYMLINK:
		return LINUX_S_IFLNK;
	case GB_TREE_CHAR:
		return LINUX_S_IFCHR;
	case GB_TREE_BLOCK:
		return LINUX_S_IFBLK;
	case GB_TREE_FIFO:
		return LINUX_S_IFIFO;
	default:
		return LINUX_S_IFREG;
	}
}

static uint16_t dir_links(const struct gb_name *dir)
{
	uint32_t n = 2;

	for (const struct gb_name *c = dir->first; c; c = c->next)
		n += c->inode->type == GB_TREE_DIR;
	return (uint16_t)(n > DIR_LINKS_MAX ? 1 : n);
}

static void put_attributes(const struct gb_name *name, struct ext2_inode_large *d)
{
	const struct gb_inode *i = name->inode;

	d->i_mode = (uint16_t)(mode_bits(i->type) | i->mode);
	d->i_uid = (uint16_t)i->uid;
	d->i_gid = (uint16_t)i->gid;
	d->osd2.linux2.l_i_uid_high = (uint16_t)(i->uid >> 16);
	d->osd2.linux2.l_i_gid_high = (uint16_t)(i->gid >> 16);
	d->i_links_count = i->type == GB_TREE_DIR ? dir_links(name) : (uint16_t)i->links;
	d->i_size = (uint32_t)i->size;
	d->i_size_high = (uint32_t)(i->size >> 32);
	d->i_extra_isize = sizeof(*d) - EXT2_GOOD_OLD_INODE_SIZE;
	put_time(i->mtime_s, i->mtime_ns, &d->i_mtime, &d->i_mtime_extra);
	put_time(i->mtime_s, i->mtime_ns, &d->i_ctime, &d->i_ctime_extra);
	put_time(i->mtime_s, i->mtime_ns, &d->i_atime, &d->i_atime_extra);
	put_time(i->mtime_s, i->mtime_ns, &d->i_crtime, &d->i_crtime_extra);
}

static int put_device(
	const struct gb_inode *i, struct ext2_inode_large *d, struct gb_err *err)
{
	if (i->dev_major > DEV_MAJOR_MAX || i->dev_minor > DEV_MINOR_MAX)
		return gb_fail(err, GB_E_LIMIT, "impossible device number %u:%u",
			i->dev_major, i->dev_minor);
	if (i->dev_major < 256 && i->dev_minor < 256)
		d->i_block[0] = i->dev_major << 8 | i->dev_minor;
	else
		d->i_block[1] = (i->dev_minor & 0xff) | i->dev_major << 8 |
				(i->dev_minor & ~0xffu) << 12;
	return 0;
}

/* An extent is shorter than a run can be. */
static size_t extent_count(const struct gb_inode *i)
{
	size_t n = 0;

	for (size_t k = 0; k < i->run_count; k++)
		n += (i->runs[k].count + EXT4_EXTENT_MAX - 1) / EXT4_EXTENT_MAX;
	return n;
}

/* Up to four extents in the inode; more are added by ext4_inode_extend. */
static void put_extents(const struct gb_inode *i, struct ext2_inode_large *d)
{
	struct ext3_extent_header *h = (struct ext3_extent_header *)d->i_block;
	struct ext3_extent *x = (struct ext3_extent *)(h + 1);

	d->i_flags |= EXT4_EXTENTS_FL;
	h->eh_magic = EXT3_EXT_MAGIC;
	h->eh_max = EXT4_INLINE_RUNS;
	if (extent_count(i) > EXT4_INLINE_RUNS)
		return;
	for (size_t k = 0; k < i->run_count; k++)
		for (uint32_t done = 0; done < i->runs[k].count;
			done += EXT4_EXTENT_MAX) {
			uint64_t at = i->runs[k].physical + done;

			x->ee_block = i->runs[k].logical + done;
			x->ee_len = (uint16_t)GB_MIN(
				i->runs[k].count - done, EXT4_EXTENT_MAX);
			x->ee_start = (uint32_t)at;
			x->ee_start_hi = (uint16_t)(at >> 32);
			h->eh_entries++;
			x++;
		}
}

static void put_blocks(
	struct gb_ext4 *e, const struct gb_inode *i, struct ext2_inode_large *d)
{
	uint64_t sectors = 0;

	for (size_t k = 0; k < i->run_count; k++) {
		ext2fs_block_alloc_stats_range(
			e->fs, i->runs[k].physical, i->runs[k].count, 1);
		sectors += (uint64_t)i->runs[k].count * (EXT4_BLOCK / 512);
	}
	d->i_blocks = (uint32_t)sectors;
	d->osd2.linux2.l_i_blocks_hi = (uint16_t)(sectors >> 32);
}

/* Content that the archive did not bring: a long link's target, a folder's blocks. */
static int put_own_block(struct gb_ext4 *e, struct gb_inode *i, struct gb_err *err)
{
	uint64_t block = ext4_take_whole(e, 1);
	int r = gb_inode_add_run(i, 0, block, 1, err);

	return r < 0 ? r : ext4_put(e, block * EXT4_BLOCK, i->target, i->size, err);
}

static int store(struct gb_ext4 *e, const struct gb_inode *i, struct ext2_inode_large *d,
	struct gb_err *err)
{
	errcode_t code = ext2fs_write_inode_full(
		e->fs, i->number, (struct ext2_inode *)d, sizeof(*d));

	if (code)
		return ext4_fail(err, code, "cannot write inode %u", i->number);
	ext2fs_inode_alloc_stats2(e->fs, i->number, 1, i->type == GB_TREE_DIR);
	return 0;
}

static int write_dir(struct gb_ext4 *e, const struct gb_name *name,
	struct ext2_inode_large *d, struct gb_err *err)
{
	gb_auto_free uint8_t *blocks = NULL;
	uint32_t count = 0;
	uint64_t at;
	int r = ext4_dir_build(e->fs, name, &blocks, &count, err);

	if (r < 0)
		return r;
	at = ext4_take_whole(e, count);
	name->inode->size = (uint64_t)count * EXT4_BLOCK;
	r = gb_inode_add_run(name->inode, 0, at, count, err);
	if (r < 0)
		return r;
	put_attributes(name, d);
	put_extents(name->inode, d);
	put_blocks(e, name->inode, d);
	if (count > 1)
		d->i_flags |= EXT2_INDEX_FL;
	r = store(e, name->inode, d, err);
	if (r == 0)
		r = ext4_dir_seal(e->fs, name->inode->number, blocks, count, err);
	if (r == 0)
		r = ext4_put(e, at * EXT4_BLOCK, blocks, (size_t)count * EXT4_BLOCK, err);
	return r;
}

int ext4_inode_write(struct gb_ext4 *e, const struct gb_name *name, struct gb_err *err)
{
	struct gb_inode *i = name->inode;
	struct ext2_inode_large d = {0};
	int r = 0;

	if (i->type == GB_TREE_DIR)
		return write_dir(e, name, &d, err);
	put_attributes(name, &d);
	switch (i->type) {
	case GB_TREE_CHAR:
	case GB_TREE_BLOCK:
		r = put_device(i, &d, err);
		break;
	case GB_TREE_SYMLINK:
		if (i->size <= FAST_LINK_MAX) {
			memcpy(d.i_block, i->target, i->size);
			break;
		}
		r = put_own_block(e, i, err);
		put_extents(i, &d);
		break;
	case GB_TREE_FILE:
		put_extents(i, &d);
		break;
	default:
		break;
	}
	put_blocks(e, i, &d);
	return r < 0 ? r : store(e, i, &d, err);
}

static errcode_t insert_runs(ext2_extent_handle_t h, const struct gb_inode *i)
{
	errcode_t code = 0;

	for (size_t k = 0; k < i->run_count; k++)
		for (uint32_t done = 0; done < i->runs[k].count && !code;
			done += EXT4_EXTENT_MAX) {
			struct ext2fs_extent x = {
				.e_lblk = i->runs[k].logical + done,
				.e_pblk = i->runs[k].physical + done,
				.e_len = GB_MIN(i->runs[k].count - done, EXT4_EXTENT_MAX),
			};

			code = ext2fs_extent_insert(h, EXT2_EXTENT_INSERT_AFTER, &x);
			if (!code)
				code = ext2fs_extent_fix_parents(h);
		}
	return code;
}

static int extend_extents(struct gb_ext4 *e, const struct gb_inode *i, struct gb_err *err)
{
	ext2_extent_handle_t h = NULL;
	errcode_t code = ext2fs_extent_open(e->fs, i->number, &h);

	if (!code)
		code = insert_runs(h, i);
	if (h)
		ext2fs_extent_free(h);
	return code ? ext4_fail(err, code, "cannot write extents of inode %u", i->number)
		    : 0;
}

static int extend_xattrs(struct gb_ext4 *e, const struct gb_inode *i, struct gb_err *err)
{
	struct ext2_xattr_handle *h = NULL;
	errcode_t code = ext2fs_xattrs_open(e->fs, i->number, &h);

	for (size_t k = 0; k < i->xattrs.n && !code; k++) {
		code = ext2fs_xattr_set(
			h, i->xattrs.v[k].name, i->xattrs.v[k].value, i->xattrs.v[k].len);
		if (code == EXT2_ET_EA_NO_SPACE)
			break;
	}
	if (!code)
		code = ext2fs_xattrs_write(h);
	if (h)
		ext2fs_xattrs_close(&h);
	if (code == EXT2_ET_EA_NO_SPACE)
		return gb_fail(err, GB_E_LIMIT,
			"extended attributes of %zu bytes do not fit into a block",
			i->xattrs.bytes);
	return code ? ext4_fail(err, code, "cannot write extended attributes") : 0;
}

int ext4_inode_extend(struct gb_ext4 *e, struct gb_inode *i, struct gb_err *err)
{
	int r = 0;

	if (extent_count(i) > EXT4_INLINE_RUNS)
		r = extend_extents(e, i, err);
	if (r == 0 && i->xattrs.n)
		r = extend_xattrs(e, i, err);
	return r;
}
