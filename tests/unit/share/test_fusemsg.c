/* Raw messages on both sides of each border of the parser. */
#include "rows.h"

#include "share/fusemsg.h"

#include <string.h>

#define PROTOCOL (-1000)

struct row {
	const char *name;
	uint32_t opcode;
	size_t fixed;	      /* so many zero bytes of arguments */
	const char *tail;     /* then these … */
	size_t tail_len;      /* … */
	int want;	      /* 0, errno, PROTOCOL */
	int claim;	      /* added to the header's length */
	uint32_t put_at, put; /* a number in the arguments, when put is not 0 */
};

#define T(s) s, sizeof(s) - 1
#define N255                                                                             \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd" \
	"ef0123"                                                                         \
	"456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01" \
	"234567"                                                                         \
	"89abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef012345" \
	"6789abcde"

static const struct row rows[] = {
	{"a name", FUSE_LOOKUP, 0, T("a\0"), 0, 0, 0, 0},
	{"a name of bytes", FUSE_LOOKUP, 0, T("\xff\xfe \n\0"), 0, 0, 0, 0},
	{"three dots", FUSE_LOOKUP, 0, T("...\0"), 0, 0, 0, 0},
	{"a name without NUL", FUSE_LOOKUP, 0, T("a"), EINVAL, 0, 0, 0},
	{"no name at all", FUSE_LOOKUP, 0, T(""), EINVAL, 0, 0, 0},
	{"an empty name", FUSE_LOOKUP, 0, T("\0"), EINVAL, 0, 0, 0},
	{"bytes after the name", FUSE_LOOKUP, 0, T("a\0b"), EINVAL, 0, 0, 0},
	{"a second NUL", FUSE_LOOKUP, 0, T("a\0\0"), EINVAL, 0, 0, 0},
	{"dot", FUSE_LOOKUP, 0, T(".\0"), EINVAL, 0, 0, 0},
	{"dot dot", FUSE_LOOKUP, 0, T("..\0"), EINVAL, 0, 0, 0},
	{"slash first", FUSE_LOOKUP, 0, T("/a\0"), EINVAL, 0, 0, 0},
	{"slash inside", FUSE_LOOKUP, 0, T("a/b\0"), EINVAL, 0, 0, 0},
	{"slash last", FUSE_LOOKUP, 0, T("a/\0"), EINVAL, 0, 0, 0},
	{"up and out", FUSE_LOOKUP, 0, T("../../etc/passwd\0"), EINVAL, 0, 0, 0},
	{"255 bytes", FUSE_LOOKUP, 0, T(N255 "\0"), 0, 0, 0, 0},
	{"256 bytes", FUSE_LOOKUP, 0, T(N255 "x\0"), ENAMETOOLONG, 0, 0, 0},
	{"mkdir", FUSE_MKDIR, 8, T("a\0"), 0, 0, 0, 0},
	{"mkdir, slash", FUSE_MKDIR, 8, T("a/b\0"), EINVAL, 0, 0, 0},
	{"mkdir, short", FUSE_MKDIR, 7, T(""), EINVAL, 0, 0, 0},
	{"mkdir, arguments only", FUSE_MKDIR, 8, T(""), EINVAL, 0, 0, 0},
	{"mknod, dot dot", FUSE_MKNOD, 16, T("..\0"), EINVAL, 0, 0, 0},
	{"create, dot dot", FUSE_CREATE, 16, T("..\0"), EINVAL, 0, 0, 0},
	{"unlink, slash", FUSE_UNLINK, 0, T("a/b\0"), EINVAL, 0, 0, 0},
	{"rmdir, dot", FUSE_RMDIR, 0, T(".\0"), EINVAL, 0, 0, 0},
	{"link, slash", FUSE_LINK, 8, T("a/b\0"), EINVAL, 0, 0, 0},
	{"rename", FUSE_RENAME, 8, T("a\0b\0"), 0, 0, 0, 0},
	{"rename, one name", FUSE_RENAME, 8, T("a\0"), EINVAL, 0, 0, 0},
	{"rename, three names", FUSE_RENAME, 8, T("a\0b\0c\0"), EINVAL, 0, 0, 0},
	{"rename, second without NUL", FUSE_RENAME, 8, T("a\0b"), EINVAL, 0, 0, 0},
	{"rename to dot dot", FUSE_RENAME, 8, T("a\0..\0"), EINVAL, 0, 0, 0},
	{"rename from slash", FUSE_RENAME2, 16, T("a/b\0c\0"), EINVAL, 0, 0, 0},
	{"rename2 to slash", FUSE_RENAME2, 16, T("a\0b/c\0"), EINVAL, 0, 0, 0},
	{"symlink to anywhere", FUSE_SYMLINK, 0, T("a\0../../x\0"), 0, 0, 0, 0},
	{"symlink named dot dot", FUSE_SYMLINK, 0, T("..\0x\0"), EINVAL, 0, 0, 0},
	{"symlink to nothing", FUSE_SYMLINK, 0, T("a\0\0"), EINVAL, 0, 0, 0},
	{"getattr", FUSE_GETATTR, 16, T(""), 0, 0, 0, 0},
	{"getattr, short", FUSE_GETATTR, 15, T(""), EINVAL, 0, 0, 0},
	{"getattr, long", FUSE_GETATTR, 17, T(""), EINVAL, 0, 0, 0},
	{"readlink with bytes", FUSE_READLINK, 0, T("a"), EINVAL, 0, 0, 0},
	{"write", FUSE_WRITE, 40, T("abcd"), 0, 0, 16, 4},
	{"write, fewer bytes than said", FUSE_WRITE, 40, T("abc"), EINVAL, 0, 16, 4},
	{"write, more bytes than said", FUSE_WRITE, 40, T("abcde"), EINVAL, 0, 16, 4},
	{"write, a huge size", FUSE_WRITE, 40, T("abcd"), EINVAL, 0, 16, UINT32_MAX},
	{"setxattr", FUSE_SETXATTR, 8, T("user.a\0xyz"), 0, 0, 0, 3},
	{"setxattr, a longer value", FUSE_SETXATTR, 8, T("user.a\0xyz"), EINVAL, 0, 0, 2},
	{"setxattr, a missing value", FUSE_SETXATTR, 8, T("user.a\0"), EINVAL, 0, 0, 3},
	{"setxattr, no name", FUSE_SETXATTR, 8, T("\0xyz"), EINVAL, 0, 0, 3},
	{"getxattr", FUSE_GETXATTR, 8, T("user.a\0"), 0, 0, 0, 0},
	{"getxattr, name without NUL", FUSE_GETXATTR, 8, T("user.a"), EINVAL, 0, 0, 0},
	{"forgets, none", FUSE_BATCH_FORGET, 8, T(""), 0, 0, 0, 0},
	{"forgets, one", FUSE_BATCH_FORGET, 8, T("0123456789abcdef"), 0, 0, 0, 1},
	{"forgets, fewer than said", FUSE_BATCH_FORGET, 8, T("0123456789abcdef"), EINVAL,
		0, 0, 2},
	{"forgets, 2^32 - 1", FUSE_BATCH_FORGET, 8, T("0123456789abcdef"), EINVAL, 0, 0,
		UINT32_MAX},
	{"init, old and short", FUSE_INIT, 16, T(""), 0, 0, 0, 0},
	{"init, new and long", FUSE_INIT, 64, T(""), 0, 0, 0, 0},
	{"init, too short", FUSE_INIT, 15, T(""), EINVAL, 0, 0, 0},
	{"statfs", FUSE_STATFS, 0, T(""), 0, 0, 0, 0},
	{"ioctl", FUSE_IOCTL, 32, T(""), ENOSYS, 0, 0, 0},
	{"flush", FUSE_FLUSH, 24, T(""), 0, 0, 0, 0},
	{"operation 0", 0, 0, T(""), ENOSYS, 0, 0, 0},
	{"operation 63", 63, 0, T(""), ENOSYS, 0, 0, 0},
	{"operation 64", 64, 0, T(""), ENOSYS, 0, 0, 0},
	{"operation 2^32 - 1", UINT32_MAX, 0, T(""), ENOSYS, 0, 0, 0},
	{"a byte more claimed than sent", FUSE_LOOKUP, 0, T("a\0"), PROTOCOL, 1, 0, 0},
	{"a byte less claimed than sent", FUSE_LOOKUP, 0, T("a\0"), PROTOCOL, -1, 0, 0},
};

static void test_parse(void **state)
{
	const struct row *row = *state;
	struct fuse_in_header h = {.opcode = row->opcode, .nodeid = 1};
	size_t len = sizeof(h) + row->fixed + row->tail_len;
	uint8_t *msg = calloc(1, len);
	struct gb_err err = {0};
	struct gb_fuse_req q;
	int r;

	h.len = (uint32_t)((int)len + row->claim);
	memcpy(msg, &h, sizeof(h));
	if (row->put)
		memcpy(msg + sizeof(h) + row->put_at, &row->put, sizeof(row->put));
	memcpy(msg + sizeof(h) + row->fixed, row->tail, row->tail_len);
	r = gb_fuse_parse(msg, len, &q, &err);
	if (r == 0 && q.name[0])
		assert_ptr_equal(q.name[0], msg + sizeof(h) + row->fixed);
	free(msg);
	if (row->want == PROTOCOL)
		assert_int_equal(r, GB_E_PROTOCOL);
	else
		assert_int_equal(r, row->want);
}

static void test_no_header(void **state)
{
	uint8_t msg[sizeof(struct fuse_in_header)] = {0};
	struct gb_fuse_req q;

	(void)state;
	for (uint32_t len = 0; len < sizeof(msg); len++) {
		memcpy(msg, &len, sizeof(len));
		assert_int_equal(gb_fuse_parse(msg, len, &q, NULL), GB_E_PROTOCOL);
	}
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, rows, test_parse);
	rows_add_one(&l, "less than a header", test_no_header);
	return rows_run("share-fusemsg", &l);
}
