/* Raw FUSE messages of the guest, taken apart under the strictest reading.
 *
 * A FUSE server normally trusts the kernel that it talks to. Ours talks to the kernel of a
 * guest that may be hostile, so nothing in a message is believed: the length in the header
 * must be the length that arrived, each operation has one row in a table that says what must
 * follow, names must end in NUL and fill the rest to the last byte, and a name is one path
 * component. What gets past here can be used without looking at lengths again.
 *
 *   | fuse_in_header | fixed arguments | name NUL | name NUL | data |
 *     40 bytes         by the table      0 to 2              rest, where the table allows it
 */
#ifndef GB_SHARE_FUSEMSG_H
#define GB_SHARE_FUSEMSG_H

#include "base/err.h"
#include "base/mem.h"

#include <linux/fuse.h>

#define GB_FUSE_NAME_MAX   255u          /* bytes of one path component */
#define GB_FUSE_TARGET_MAX 4095u         /* bytes of a symlink's text */
#define GB_FUSE_IO_MAX     (256u << 10)  /* bytes of one read or write */
#define GB_FUSE_OPCODES    64u

union gb_fuse_arg {
	struct fuse_forget_in forget;
	struct fuse_batch_forget_in batch;
	struct fuse_getattr_in getattr;
	struct fuse_setattr_in setattr;
	struct fuse_mknod_in mknod;
	struct fuse_mkdir_in mkdir;
	struct fuse_rename_in rename;
	struct fuse_rename2_in rename2;
	struct fuse_link_in link;
	struct fuse_open_in open;
	struct fuse_create_in create;
	struct fuse_read_in read;
	struct fuse_write_in write;
	struct fuse_release_in release;
	struct fuse_flush_in flush;
	struct fuse_fsync_in fsync;
	struct fuse_setxattr_in setxattr;
	struct fuse_getxattr_in getxattr;
	struct fuse_init_in init;
	struct fuse_access_in access;
	struct fuse_fallocate_in fallocate;
	struct fuse_lseek_in lseek;
	struct fuse_copy_file_range_in copy;
};

enum gb_fuse_req_flag {
	GB_FUSE_NO_REPLY = 1 << 0, /* the kernel waits for no answer */
	GB_FUSE_MUTATES = 1 << 1,  /* never on a read-only share */
};

struct gb_fuse_req {
	struct fuse_in_header h;
	unsigned int flags;    /* enum gb_fuse_req_flag */
	union gb_fuse_arg arg; /* zero beyond what was sent */
	const char *name[2];   /* borrowed from the message; NUL inside it */
	const uint8_t *data;   /* borrowed from the message, not aligned */
	size_t data_len;
};

/* 0: *ret is filled and sound. GB_E_PROTOCOL: the message has no sound header and cannot
 * even be answered. A positive errno: the header (and ret->flags) is sound, the rest is not:
 * answer with it. */
int gb_fuse_parse(const uint8_t *msg, size_t len, struct gb_fuse_req *ret, struct gb_err *err);

#endif
