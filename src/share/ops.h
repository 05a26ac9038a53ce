/* Inside a share: what the operations have in common. Each returns 0 or -errno; what it
 * answers with is in out. */
#ifndef GB_SHARE_OPS_H
#define GB_SHARE_OPS_H

#include "share/share.h"

struct gb_share {
	struct gb_share_config config;
	struct gb_nodes nodes;
	struct gb_slots handles;
	int root_fd; /* owned; kept to start again after a reset */
	bool started; /* INIT was answered */
};

struct gb_share_out {
	uint8_t *data; /* GB_SHARE_REPLY_MAX bytes, aligned to 8 */
	size_t len;
};

/* node is the one in the header and never NULL. */
typedef int gb_share_op(struct gb_share *s, struct gb_node *node, const struct gb_fuse_req *q,
	struct gb_share_out *out);

/* Room for an answer of this type at the front of out. */
#define GB_SHARE_ANSWER(out, type) ((type *)gb_share_answer(out, sizeof(type)))
void *gb_share_answer(struct gb_share_out *out, size_t len);

/* The path of a descriptor below the working directory. */
struct gb_fd_path {
	char text[16];
};
const char *gb_fd_path(struct gb_fd_path *p, int fd);

/* attr.c */
#define GB_OWNER_XATTR "user.glovebox.owner"
/* fd: of the file, any kind. */
void gb_share_fill_attr(const struct gb_share *s, const struct statx *st, int fd,
	struct fuse_attr *ret);
uint64_t gb_share_ino(const struct gb_share *s, uint64_t dev, uint64_t ino);
/* Look name up in the folder, tell the guest of it, and fill the answer. */
int gb_share_enter_name(struct gb_share *s, struct gb_node *dir, const char *name,
	struct fuse_entry_out *ret, struct gb_node **ret_node);
gb_share_op gb_op_getattr, gb_op_setattr, gb_op_statfs;

/* op_name.c */
gb_share_op gb_op_lookup, gb_op_readlink, gb_op_symlink, gb_op_mknod, gb_op_mkdir, gb_op_unlink,
	gb_op_rmdir, gb_op_rename, gb_op_rename2, gb_op_link;

/* op_file.c, op_create.c */
int gb_handle_add(struct gb_share *s, struct gb_node *node, int fd_consume, bool is_dir,
	struct gb_handle **ret);
struct gb_handle *gb_handle_get(
	const struct gb_share *s, const struct gb_node *node, uint64_t fh, bool is_dir);
void gb_handle_close(struct gb_share *s, struct gb_handle *h);
/* What open answers: whether the guest may keep what it has cached. */
uint32_t gb_open_flags(struct gb_node *node, int fd);
int gb_open_mode(const struct gb_share *s, uint32_t flags, int *ret);
/* Open the node itself, not its name. */
int gb_open_node(struct gb_share *s, struct gb_node *node, int flags);
gb_share_op gb_op_open, gb_op_create, gb_op_tmpfile, gb_op_read, gb_op_write, gb_op_release,
	gb_op_fsync, gb_op_fallocate, gb_op_lseek, gb_op_copy;

/* op_dir.c */
void gb_dir_buf_free(struct gb_dir_buf *b);
gb_share_op gb_op_opendir, gb_op_readdir, gb_op_releasedir, gb_op_fsyncdir;

/* op_xattr.c */
gb_share_op gb_op_setxattr, gb_op_getxattr, gb_op_listxattr, gb_op_removexattr;

#endif
