#include "share/fusemsg.h"

#include <errno.h>
#include <string.h>

/* What stands after the fixed arguments. */
enum tail {
	TAIL_NONE,   /* nothing; the message ends */
	TAIL_NAME,   /* one path component */
	TAIL_NAMES,  /* two path components */
	TAIL_TARGET, /* a path component and a symlink's text */
	TAIL_TEXT,   /* one string that is not a path component (an attribute's name) */
	TAIL_VALUE,  /* such a string, then arg.setxattr.size bytes */
	TAIL_DATA,   /* arg.write.size bytes */
	TAIL_ONES,   /* arg.batch.count records of fuse_forget_one */
	TAIL_MORE,   /* more of the same struct, which grew over the years */
};

struct shape {
	uint16_t fixed;
	uint8_t tail;
	uint8_t flags;
};

#define NR GB_FUSE_NO_REPLY
#define MU GB_FUSE_MUTATES
/* fuse_setxattr_in as it is without FUSE_SETXATTR_EXT, which is not offered. */
#define SETXATTR_SIZE  FUSE_COMPAT_SETXATTR_IN_SIZE
#define INIT_SIZE_LEAST 16u /* major, minor, max_readahead, flags */

static const struct shape shapes[GB_FUSE_OPCODES] = {
	[FUSE_LOOKUP] = { 0, TAIL_NAME, 0 },
	[FUSE_FORGET] = { sizeof(struct fuse_forget_in), TAIL_NONE, NR },
	[FUSE_GETATTR] = { sizeof(struct fuse_getattr_in), TAIL_NONE, 0 },
	[FUSE_SETATTR] = { sizeof(struct fuse_setattr_in), TAIL_NONE, MU },
	[FUSE_READLINK] = { 0, TAIL_NONE, 0 },
	[FUSE_SYMLINK] = { 0, TAIL_TARGET, MU },
	[FUSE_MKNOD] = { sizeof(struct fuse_mknod_in), TAIL_NAME, MU },
	[FUSE_MKDIR] = { sizeof(struct fuse_mkdir_in), TAIL_NAME, MU },
	[FUSE_UNLINK] = { 0, TAIL_NAME, MU },
	[FUSE_RMDIR] = { 0, TAIL_NAME, MU },
	[FUSE_RENAME] = { sizeof(struct fuse_rename_in), TAIL_NAMES, MU },
	[FUSE_LINK] = { sizeof(struct fuse_link_in), TAIL_NAME, MU },
	[FUSE_OPEN] = { sizeof(struct fuse_open_in), TAIL_NONE, 0 },
	[FUSE_READ] = { sizeof(struct fuse_read_in), TAIL_NONE, 0 },
	[FUSE_WRITE] = { sizeof(struct fuse_write_in), TAIL_DATA, MU },
	[FUSE_STATFS] = { 0, TAIL_NONE, 0 },
	[FUSE_RELEASE] = { sizeof(struct fuse_release_in), TAIL_NONE, 0 },
	[FUSE_FSYNC] = { sizeof(struct fuse_fsync_in), TAIL_NONE, 0 },
	[FUSE_SETXATTR] = { SETXATTR_SIZE, TAIL_VALUE, MU },
	[FUSE_GETXATTR] = { sizeof(struct fuse_getxattr_in), TAIL_TEXT, 0 },
	[FUSE_LISTXATTR] = { sizeof(struct fuse_getxattr_in), TAIL_NONE, 0 },
	[FUSE_REMOVEXATTR] = { 0, TAIL_TEXT, MU },
	[FUSE_FLUSH] = { sizeof(struct fuse_flush_in), TAIL_NONE, 0 },
	[FUSE_INIT] = { INIT_SIZE_LEAST, TAIL_MORE, 0 },
	[FUSE_OPENDIR] = { sizeof(struct fuse_open_in), TAIL_NONE, 0 },
	[FUSE_READDIR] = { sizeof(struct fuse_read_in), TAIL_NONE, 0 },
	[FUSE_RELEASEDIR] = { sizeof(struct fuse_release_in), TAIL_NONE, 0 },
	[FUSE_FSYNCDIR] = { sizeof(struct fuse_fsync_in), TAIL_NONE, 0 },
	[FUSE_ACCESS] = { sizeof(struct fuse_access_in), TAIL_NONE, 0 },
	[FUSE_CREATE] = { sizeof(struct fuse_create_in), TAIL_NAME, MU },
	[FUSE_INTERRUPT] = { sizeof(struct fuse_interrupt_in), TAIL_NONE, NR },
	[FUSE_DESTROY] = { 0, TAIL_NONE, 0 },
	[FUSE_BATCH_FORGET] = { sizeof(struct fuse_batch_forget_in), TAIL_ONES, NR },
	[FUSE_FALLOCATE] = { sizeof(struct fuse_fallocate_in), TAIL_NONE, MU },
	[FUSE_RENAME2] = { sizeof(struct fuse_rename2_in), TAIL_NAMES, MU },
	[FUSE_LSEEK] = { sizeof(struct fuse_lseek_in), TAIL_NONE, 0 },
	[FUSE_COPY_FILE_RANGE] = { sizeof(struct fuse_copy_file_range_in), TAIL_NONE, MU },
	/* the kernel sends the name "/" here, which nobody looks at */
	[FUSE_TMPFILE] = { sizeof(struct fuse_create_in), TAIL_TEXT, MU },
};

/* FUSE_LOOKUP and others have neither fixed arguments nor flags: a row is known by its tail
 * or, where that is TAIL_NONE too, by this list. */
static bool is_known(uint32_t opcode)
{
	if (opcode >= GB_FUSE_OPCODES)
		return false;
	if (opcode == FUSE_READLINK || opcode == FUSE_STATFS || opcode == FUSE_DESTROY)
		return true;
	return shapes[opcode].fixed || shapes[opcode].tail;
}

/* One string from the front of the data. */
static int take_string(struct gb_fuse_req *q, size_t max, const char **ret)
{
	const uint8_t *end = memchr(q->data, 0, q->data_len);
	size_t len;

	if (!end || end == q->data)
		return EINVAL;
	len = (size_t)(end - q->data);
	if (len > max)
		return ENAMETOOLONG;
	*ret = (const char *)q->data;
	q->data += len + 1;
	q->data_len -= len + 1;
	return 0;
}

static int take_name(struct gb_fuse_req *q, const char **ret)
{
	int r = take_string(q, GB_FUSE_NAME_MAX, ret);

	if (r)
		return r;
	if (strchr(*ret, '/') || !strcmp(*ret, ".") || !strcmp(*ret, ".."))
		return EINVAL;
	return 0;
}

static int take_tail(struct gb_fuse_req *q, enum tail tail)
{
	size_t data = 0;
	int r = 0;

	switch (tail) {
	case TAIL_NONE:
		break;
	case TAIL_NAME:
		r = take_name(q, &q->name[0]);
		break;
	case TAIL_NAMES:
		r = take_name(q, &q->name[0]);
		if (!r)
			r = take_name(q, &q->name[1]);
		break;
	case TAIL_TARGET:
		r = take_name(q, &q->name[0]);
		if (!r)
			r = take_string(q, GB_FUSE_TARGET_MAX, &q->name[1]);
		break;
	case TAIL_VALUE:
		data = q->arg.setxattr.size;
		r = take_string(q, GB_FUSE_NAME_MAX, &q->name[0]);
		break;
	case TAIL_TEXT:
		r = take_string(q, GB_FUSE_NAME_MAX, &q->name[0]);
		break;
	case TAIL_DATA:
		data = q->arg.write.size;
		if (data > GB_FUSE_IO_MAX)
			return EINVAL;
		break;
	case TAIL_ONES:
		data = (size_t)q->arg.batch.count * sizeof(struct fuse_forget_one);
		break;
	case TAIL_MORE:
		return 0;
	}
	if (r)
		return r;
	return q->data_len == data ? 0 : EINVAL;
}

int gb_fuse_parse(const uint8_t *msg, size_t len, struct gb_fuse_req *ret, struct gb_err *err)
{
	const struct shape *shape;

	memset(ret, 0, sizeof(*ret));
	if (len < sizeof(ret->h))
		return gb_fail(err, GB_E_PROTOCOL, "message of %zu bytes has no whole header", len);
	memcpy(&ret->h, msg, sizeof(ret->h));
	if (ret->h.len != len)
		return gb_fail(err, GB_E_PROTOCOL, "message of %zu bytes claims %u", len, ret->h.len);
	if (!is_known(ret->h.opcode))
		return ENOSYS;
	shape = &shapes[ret->h.opcode];
	ret->flags = shape->flags;
	ret->data = msg + sizeof(ret->h);
	ret->data_len = len - sizeof(ret->h);
	if (ret->data_len < shape->fixed)
		return EINVAL;
	if (shape->fixed)
		memcpy(&ret->arg, ret->data, shape->fixed);
	ret->data += shape->fixed;
	ret->data_len -= shape->fixed;
	return take_tail(ret, (enum tail)shape->tail);
}
