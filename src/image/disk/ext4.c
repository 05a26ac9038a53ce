#include "image/disk/ext4_priv.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <et/com_err.h>
#include <ext2fs/ext2_err.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FREE_MIN       (UINT64_C(256) << 20) /* free space in a new file system… */
#define FREE_PART      4		     /* …or a quarter of what is in it */
#define JOURNAL_BLOCKS 8192u		     /* 32 MiB, a hole until it is used */
#define INODES_DEFAULT 8192u		     /* a group, one for 16 KiB, as mke2fs */
#define INODES_MAX     (EXT4_BLOCK * 8)	     /* a group: its bitmap is one block */
#define INODE_SIZE     256u
#define INODES_BLOCK   (EXT4_BLOCK / INODE_SIZE)
#define INODES_SPARE   1024u
#define FLEX_LOG       8u /* 32 GiB: the kernel grows a disk by a flex group at a time */
#define PROGRESS_BYTES (UINT64_C(8) << 20)

/* Groups that keep a copy of the super block up to 1 TiB; each may also waste a piece
 * that is too small for an inode table. */
#define SUPER_COPIES_MAX 25u

int ext4_fail(struct gb_err *err, errcode_t code, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (code == EXT2_ET_NO_MEMORY)
		return gb_nomem(err);
	if (code > 0 && code < 4096)
		return gb_fail_sys(err, (int)code, "%s", what);
	return gb_fail(err, GB_E_IO, "%s: %s", what, error_message(code));
}

int gb_ext4_new(const char *path, struct gb_ext4 **ret, struct gb_err *err)
{
	gb_auto(gb_ext4) *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return gb_nomem(err);
	e->fd = -1;
	initialize_ext2_error_table();
	r = gb_names_new(EXT4_TIME, &e->names, err);
	if (r < 0)
		return r;
	e->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (e->fd < 0)
		return gb_fail_sys(err, errno, "cannot create '%s'", path);
	e->path = strdup(path);
	if (!e->path) {
		unlink(path);
		return gb_nomem(err);
	}
	*ret = gb_take_ptr(e);
	return 0;
}

struct gb_ext4 *gb_ext4_free(struct gb_ext4 *e)
{
	if (!e)
		return NULL;
	if (e->fs)
		ext2fs_free(e->fs);
	if (e->path && !e->finished)
		unlink(e->path);
	gb_fd_close(&e->fd);
	gb_names_free(e->names);
	free(e->path);
	free(e->buffer);
	free(e);
	return NULL;
}

static int report(
	struct gb_ext4 *e, gb_ext4_progress progress, void *ctx, struct gb_err *err)
{
	if (progress && progress(ctx, e->bytes, e->entries))
		return gb_fail(err, GB_E_CANCELLED, "cancelled");
	return 0;
}

static int add_content(struct gb_ext4 *e, struct gb_tree_source *source,
	struct gb_inode *i, gb_ext4_progress progress, void *ctx, struct gb_err *err)
{
	uint64_t reported = e->bytes;

	for (;;) {
		const void *data;
		size_t len;
		uint64_t offset;
		int r = source->ops->data(source, &data, &len, &offset, err);

		if (r <= 0)
			return r;
		if (offset > i->size || len > i->size - offset)
			return gb_fail(
				err, GB_E_PARSE, "more content than its size says");
		r = ext4_content(e, i, offset, data, len, err);
		if (r < 0)
			return r;
		e->bytes += len;
		if (e->bytes - reported >= PROGRESS_BYTES) {
			reported = e->bytes;
			r = report(e, progress, ctx, err);
			if (r < 0)
				return r;
		}
	}
}

int gb_ext4_add(struct gb_ext4 *e, struct gb_tree_source *source,
	gb_ext4_progress progress, void *ctx, struct gb_err *err)
{
	struct gb_tree_entry entry;
	int r;

	while ((r = source->ops->next(source, &entry, err)) > 0) {
		struct gb_inode *inode = NULL;

		if (++e->entries % 256 == 0)
			r = report(e, progress, ctx, err);
		if (r >= 0)
			r = gb_names_put(e->names, &entry, &inode, err);
		if (r < 0)
			return r;
		if (!inode || inode->size == 0)
			continue;
		r = add_content(e, source, inode, progress, ctx, err);
		if (r < 0)
			return gb_wrap(err, r, "entry '%.200s'", entry.path);
	}
	return r;
}

uint64_t gb_ext4_entries(const struct gb_ext4 *e)
{
	return e->entries;
}

/* What the file system must hold, counted before it is made. */
struct plan {
	const struct gb_name **order; /* owned; the first name of each inode, by number */
	uint32_t inodes;
	uint64_t blocks; /* of the whole file system */
	uint32_t inodes_per_group;
	uint32_t groups;
};

/* The root is inode 2, lost+found the first that is not reserved, as everywhere. */
static int number_inodes(struct gb_ext4 *e, struct plan *p, struct gb_err *err)
{
	const struct gb_name *root = gb_names_root(e->names);
	struct gb_name *lost;
	uint32_t number = EXT2_GOOD_OLD_FIRST_INO;
	uint32_t count = 0;

	for (const struct gb_name *c = root; c; c = gb_names_walk(c))
		count++;
	p->order = calloc(count, sizeof(*p->order));
	if (!p->order)
		return gb_nomem(err);
	lost = (struct gb_name *)gb_names_find(e->names, "lost+found");
	root->inode->number = EXT2_ROOT_INO;
	lost->inode->number = number++;
	p->order[p->inodes++] = root;
	p->order[p->inodes++] = lost;
	for (const struct gb_name *c = root; c; c = gb_names_walk(c)) {
		if (c->inode->number)
			continue;
		c->inode->number = number++;
		p->order[p->inodes++] = c;
	}
	return 0;
}

/* Blocks that are yet to be taken, at most. */
static uint64_t blocks_to_come(const struct plan *p)
{
	uint64_t n = JOURNAL_BLOCKS + 64; /* its extents, the resize inode */

	for (uint32_t i = 0; i < p->inodes; i++) {
		const struct gb_inode *inode = p->order[i]->inode;

		if (inode->type == GB_TREE_DIR)
			n += ext4_dir_estimate(p->order[i]);
		else if (inode->type == GB_TREE_SYMLINK)
			n++;
		n += inode->xattrs.n ? 1 : 0;
		if (inode->run_count > EXT4_INLINE_RUNS)
			n += 4 + inode->run_count / 64;
	}
	return n;
}

/* More groups need more tables, so groups are added until all fits. */
static int plan_size(const struct gb_ext4 *e, struct plan *p, struct gb_err *err)
{
	uint64_t used = e->next + blocks_to_come(p);
	uint64_t spare = GB_MAX(FREE_MIN / EXT4_BLOCK, used / FREE_PART);
	uint64_t inodes = (uint64_t)p->inodes + p->inodes / 4 + INODES_SPARE;
	uint64_t limit = (uint64_t)EXT4_GDT_BLOCKS * (EXT4_BLOCK / 64);

	for (uint64_t groups = 1; groups < limit; groups++) {
		uint64_t per_group =
			GB_MAX((inodes + groups - 1) / groups, INODES_DEFAULT);
		uint64_t tables, copies;

		per_group = (per_group + INODES_BLOCK - 1) / INODES_BLOCK * INODES_BLOCK;
		tables = groups * (2 + per_group / INODES_BLOCK);
		copies = GB_MIN(groups, SUPER_COPIES_MAX) *
			 (1 + EXT4_GDT_BLOCKS + per_group / INODES_BLOCK);
		if (per_group > INODES_MAX ||
			used + spare + tables + copies > groups * EXT4_GROUP_BLOCKS)
			continue;
		p->groups = (uint32_t)groups;
		p->inodes_per_group = (uint32_t)per_group;
		p->blocks = groups * EXT4_GROUP_BLOCKS;
		return 0;
	}
	return gb_fail(err, GB_E_LIMIT, "the image would be over 1 TiB");
}

static void set_features(struct ext2_super_block *s)
{
	ext2fs_set_feature_journal(s);
	ext2fs_set_feature_xattr(s);
	ext2fs_set_feature_resize_inode(s);
	ext2fs_set_feature_dir_index(s);
	ext2fs_set_feature_filetype(s);
	ext2fs_set_feature_extents(s);
	ext2fs_set_feature_64bit(s);
	ext2fs_set_feature_flex_bg(s);
	ext2fs_set_feature_sparse_super(s);
	ext2fs_set_feature_large_file(s);
	ext2fs_set_feature_huge_file(s);
	ext2fs_set_feature_dir_nlink(s);
	ext2fs_set_feature_extra_isize(s);
	ext2fs_set_feature_metadata_csum(s);
}

static uint64_t descriptor_blocks(const struct plan *p)
{
	return (p->groups + EXT4_BLOCK / 64 - 1) / (EXT4_BLOCK / 64);
}

/* Same content, same name: a hash of what every inode says of itself. */
static void set_uuid(const struct plan *p, uint8_t uuid[16])
{
	uint64_t h[2] = {GB_FNV1A_SEED, ~GB_FNV1A_SEED};

	for (uint32_t i = 0; i < p->inodes; i++) {
		const struct gb_name *c = p->order[i];
		uint64_t facts[] = {c->inode->size, (uint64_t)c->inode->mtime_s,
			c->inode->mtime_ns, c->inode->mode, c->inode->uid, c->inode->gid};

		for (int k = 0; k < 2; k++) {
			h[k] = gb_fnv1a(c->text, c->len, h[k]);
			h[k] = gb_fnv1a(facts, sizeof(facts), h[k]);
		}
	}
	memcpy(uuid, h, 16);
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80); /* version 8: our own rule */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

/* Tables that the kernel adds when the disk grows lie where nothing was ever written. It
 * need not fill them with zeros in the background, into the machine's own disk. */
#define MOUNT_OPTIONS "noinit_itable"

static void set_super(ext2_filsys fs, const struct plan *p)
{
	struct ext2_super_block *s = fs->super;

	set_uuid(p, s->s_uuid);
	memcpy(s->s_hash_seed, s->s_uuid, sizeof(s->s_hash_seed));
	s->s_def_hash_version = EXT2_HASH_HALF_MD4;
	s->s_flags |= EXT2_FLAGS_SIGNED_HASH;
	s->s_flags &= ~(uint32_t)EXT2_FLAGS_UNSIGNED_HASH;
	s->s_checksum_type = EXT2_CRC32C_CHKSUM;
	s->s_default_mount_opts = EXT2_DEFM_XATTR_USER | EXT2_DEFM_ACL;
	memcpy(s->s_mount_opts, MOUNT_OPTIONS, sizeof(MOUNT_OPTIONS));
	s->s_max_mnt_count = -1;
	s->s_checkinterval = 0;
	s->s_mkfs_time = (uint32_t)EXT4_TIME;
	s->s_lastcheck = (uint32_t)EXT4_TIME;
	s->s_state = EXT2_VALID_FS;
	fs->now = (time_t)EXT4_TIME;
	fs->umask = 022;
	ext2fs_init_csum_seed(fs);
}

static int make_fs(struct gb_ext4 *e, const struct plan *p, struct gb_err *err)
{
	struct ext2_super_block param = {0};
	errcode_t code;

	ext2fs_blocks_count_set(&param, p->blocks);
	param.s_rev_level = EXT2_DYNAMIC_REV;
	param.s_log_block_size = 2;
	param.s_log_cluster_size = 2;
	param.s_inode_size = INODE_SIZE;
	param.s_inodes_count = p->groups * p->inodes_per_group;
	param.s_desc_size = 64;
	param.s_log_groups_per_flex = FLEX_LOG;
	param.s_reserved_gdt_blocks = (uint16_t)(EXT4_GDT_BLOCKS - descriptor_blocks(p));
	set_features(&param);
	if (ftruncate(e->fd, (off_t)(p->blocks * EXT4_BLOCK)) < 0)
		return gb_fail_sys(err, errno, "cannot set the image's size");
	code = ext2fs_initialize(
		e->path, EXT2_FLAG_64BITS, &param, unix_io_manager, &e->fs);
	if (code)
		return ext4_fail(err, code, "cannot start the file system");
	if (e->fs->desc_blocks + e->fs->super->s_reserved_gdt_blocks != EXT4_GDT_BLOCKS ||
		e->fs->group_desc_count != p->groups ||
		e->fs->super->s_inodes_per_group != p->inodes_per_group)
		return gb_fail(err, GB_E_UNSUPPORTED,
			"this libext2fs lays out a disk differently");
	set_super(e->fs, p);
	return 0;
}

static uint64_t take_marked(struct gb_ext4 *e, uint32_t count)
{
	uint64_t block = ext4_take_whole(e, count);

	ext2fs_block_alloc_stats_range(e->fs, block, count, 1);
	return block;
}

/* The file was never written there, so the tables are zero: the guest need not do it. */
static void place_tables(struct gb_ext4 *e)
{
	for (uint32_t g = 0; g < e->fs->group_desc_count; g++)
		ext2fs_block_bitmap_loc_set(e->fs, g, take_marked(e, 1));
	for (uint32_t g = 0; g < e->fs->group_desc_count; g++)
		ext2fs_inode_bitmap_loc_set(e->fs, g, take_marked(e, 1));
	for (uint32_t g = 0; g < e->fs->group_desc_count; g++) {
		ext2fs_inode_table_loc_set(
			e->fs, g, take_marked(e, e->fs->inode_blocks_per_group));
		ext2fs_bg_flags_set(e->fs, g, EXT2_BG_INODE_ZEROED);
	}
}

static int reserve_inodes(ext2_filsys fs, struct gb_err *err)
{
	errcode_t code;

	for (uint32_t i = 1; i < EXT2_FIRST_INODE(fs->super); i++)
		if (i != EXT2_ROOT_INO)
			ext2fs_inode_alloc_stats2(fs, i, 1, 0);
	code = ext2fs_update_bb_inode(fs, NULL);
	return code ? ext4_fail(err, code, "cannot write the bad blocks inode") : 0;
}

static int write_inodes(struct gb_ext4 *e, const struct plan *p, struct gb_err *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < p->inodes; i++) {
		r = ext4_inode_write(e, p->order[i], err);
		if (r < 0)
			return gb_wrap(err, r, "'%s'", p->order[i]->text);
	}
	for (uint32_t i = 0; r == 0 && i < p->inodes; i++) {
		r = ext4_inode_extend(e, p->order[i]->inode, err);
		if (r < 0)
			return gb_wrap(err, r, "'%s'", p->order[i]->text);
	}
	return r;
}

static int add_journal(ext2_filsys fs, uint64_t goal, struct gb_err *err)
{
	struct ext2fs_journal_params params = {.num_journal_blocks = JOURNAL_BLOCKS};
	errcode_t code = ext2fs_add_journal_inode3(
		fs, &params, goal, EXT2_MKJOURNAL_LAZYINIT | EXT2_MKJOURNAL_NO_MNT_CHECK);

	return code ? ext4_fail(err, code, "cannot make the journal") : 0;
}

static int close_fs(struct gb_ext4 *e, struct gb_err *err)
{
	errcode_t code;

	for (uint32_t g = 0; g < e->fs->group_desc_count; g++)
		ext2fs_group_desc_csum_set(e->fs, g);
	ext2fs_mark_super_dirty(e->fs);
	ext2fs_mark_bb_dirty(e->fs);
	ext2fs_mark_ib_dirty(e->fs);
	code = ext2fs_close2(e->fs, EXT2_FLAG_FLUSH_NO_SYNC);
	if (code)
		return ext4_fail(err, code, "cannot write the file system");
	e->fs = NULL;
	return 0;
}

static int finish(struct gb_ext4 *e, struct plan *p, struct gb_err *err)
{
	errcode_t code;
	int r = number_inodes(e, p, err);

	if (r == 0)
		r = plan_size(e, p, err);
	if (r == 0)
		r = make_fs(e, p, err);
	if (r < 0)
		return r;
	place_tables(e);
	r = reserve_inodes(e->fs, err);
	if (r == 0)
		r = write_inodes(e, p, err);
	if (r == 0)
		r = ext4_flush(e, err);
	if (r == 0)
		r = add_journal(e->fs, e->next, err);
	if (r < 0)
		return r;
	code = ext2fs_create_resize_inode(e->fs);
	if (code)
		return ext4_fail(err, code, "cannot make the resize inode");
	return close_fs(e, err);
}

int gb_ext4_finish(struct gb_ext4 *e, uint64_t *ret_size, struct gb_err *err)
{
	struct plan p = {0};
	int r;

	r = gb_names_ensure_dir(e->names, "lost+found", 0700, err);
	if (r == 0)
		r = ext4_flush(e, err);
	if (r == 0) {
		ext4_punch_dropped(e);
		r = finish(e, &p, err);
	}
	free(p.order);
	if (r < 0)
		return r;
	e->finished = true;
	*ret_size = p.blocks * EXT4_BLOCK;
	return 0;
}
