#include "image/disk/ext4_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DATA_BUFFER ((size_t)1 << 20)

static bool power_of(uint64_t n, uint64_t base)
{
	while (n % base == 0)
		n /= base;
	return n == 1;
}

/* sparse_super: groups 0, 1 and the powers of 3, 5 and 7. */
static bool has_super(uint64_t group)
{
	return group <= 1 || power_of(group, 3) || power_of(group, 5) ||
	       power_of(group, 7);
}

/* Past the super block and its descriptors, if block lies there. */
static uint64_t skip_super(uint64_t block)
{
	uint64_t group = block / EXT4_GROUP_BLOCKS;
	uint64_t first = group * EXT4_GROUP_BLOCKS + 1 + EXT4_GDT_BLOCKS;

	return block < first && has_super(group) ? first : block;
}

/* How many blocks from block on are free of super blocks, at most count. */
static uint32_t clear_run(uint64_t block, uint32_t count)
{
	uint64_t end = (block / EXT4_GROUP_BLOCKS + 1) * EXT4_GROUP_BLOCKS;

	while (end < block + count && !has_super(end / EXT4_GROUP_BLOCKS))
		end += EXT4_GROUP_BLOCKS;
	return (uint32_t)GB_MIN((uint64_t)count, end - block);
}

uint64_t ext4_take(struct gb_ext4 *e, uint32_t count, uint32_t *ret_count)
{
	uint64_t block = skip_super(e->next);

	*ret_count = clear_run(block, count);
	e->next = block + *ret_count;
	return block;
}

uint64_t ext4_take_whole(struct gb_ext4 *e, uint32_t count)
{
	uint64_t block = skip_super(e->next);

	while (clear_run(block, count) < count)
		block = skip_super((block / EXT4_GROUP_BLOCKS + 1) * EXT4_GROUP_BLOCKS);
	e->next = block + count;
	return block;
}

static int write_at(
	int fd, const uint8_t *data, size_t len, uint64_t at, struct gb_err *err)
{
	while (len) {
		ssize_t n = pwrite(fd, data, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot write the image");
		data += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int ext4_flush(struct gb_ext4 *e, struct gb_err *err)
{
	int r = write_at(e->fd, e->buffer, e->buffer_len, e->buffer_at, err);

	e->buffer_len = 0;
	return r;
}

/* Small files follow each other: the rest of a file's last block is filled up, so that
 * they go out in one write. */
int ext4_put(
	struct gb_ext4 *e, uint64_t at, const void *data, size_t len, struct gb_err *err)
{
	uint64_t end = e->buffer_at + e->buffer_len;
	uint64_t gap = at - end;
	int r;

	if (!e->buffer) {
		e->buffer = malloc(DATA_BUFFER);
		if (!e->buffer)
			return gb_nomem(err);
	}
	if (e->buffer_len && at >= end && gap < EXT4_BLOCK &&
		e->buffer_len + gap + len <= DATA_BUFFER) {
		memset(e->buffer + e->buffer_len, 0, gap);
		memcpy(e->buffer + e->buffer_len + gap, data, len);
		e->buffer_len += gap + len;
		return 0;
	}
	r = ext4_flush(e, err);
	if (r < 0)
		return r;
	if (len > DATA_BUFFER / 4)
		return write_at(e->fd, data, len, at, err);
	memcpy(e->buffer, data, len);
	e->buffer_len = len;
	e->buffer_at = at;
	return 0;
}

/* The disk block of a file's block, which is its last one or new; *ret_count: how many
 * from there on lie together, at most count. */
static int map(struct gb_ext4 *e, struct gb_inode *i, uint32_t logical, uint32_t count,
	uint64_t *ret, uint32_t *ret_count, struct gb_err *err)
{
	const struct gb_run *last = i->run_count ? &i->runs[i->run_count - 1] : NULL;

	if (last && logical < last->logical + last->count) {
		*ret = last->physical + (logical - last->logical);
		*ret_count = 1;
		return 0;
	}
	if ((e->content_blocks + count) * EXT4_BLOCK > GB_EXT4_CONTENT_MAX)
		return gb_fail(err, GB_E_LIMIT, "over %llu GiB of content",
			(unsigned long long)(GB_EXT4_CONTENT_MAX >> 30));
	*ret = ext4_take(e, count, ret_count);
	e->content_blocks += *ret_count;
	return gb_inode_add_run(i, logical, *ret, *ret_count, err);
}

int ext4_content(struct gb_ext4 *e, struct gb_inode *i, uint64_t offset, const void *data,
	size_t len, struct gb_err *err)
{
	const uint8_t *p = data;

	while (len) {
		uint32_t logical = (uint32_t)(offset / EXT4_BLOCK);
		size_t within = offset % EXT4_BLOCK;
		size_t blocks = (within + len + EXT4_BLOCK - 1) / EXT4_BLOCK;
		uint64_t block = 0;
		uint32_t count = 0;
		size_t n;
		int r = map(e, i, logical,
			(uint32_t)GB_MIN(blocks, (size_t)EXT4_EXTENT_MAX), &block, &count,
			err);

		if (r < 0)
			return r;
		n = GB_MIN(len, (size_t)count * EXT4_BLOCK - within);
		r = ext4_put(e, block * EXT4_BLOCK + within, p, n, err);
		if (r < 0)
			return r;
		p += n;
		len -= n;
		offset += n;
	}
	return 0;
}

void ext4_punch_dropped(struct gb_ext4 *e)
{
	size_t count;
	const struct gb_run *runs = gb_names_dropped(e->names, &count);

	/* only space is lost where the host's file system cannot */
	for (size_t i = 0; i < count; i++)
		fallocate(e->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)(runs[i].physical * EXT4_BLOCK),
			(off_t)((uint64_t)runs[i].count * EXT4_BLOCK));
}
