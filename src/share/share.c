#include "share/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The newest minor version whose rules are kept here (FUSE_INIT_EXT came with it). */
#define MINOR_MAX 36u
/* Before it, structs were shorter in ways that nobody needs any more (Linux 5.4). */
#define MINOR_MIN 31u

/* What is used of what a kernel offers. Left out on purpose: FUSE_POSIX_LOCKS and
 * FUSE_FLOCK_LOCKS (the guest's kernel then locks by itself), FUSE_WRITEBACK_CACHE and
 * FUSE_DO_READDIRPLUS (they trade coherence with the host for speed, the latter in vain as
 * long as entries have no lifetime), FUSE_DONT_MASK (the guest applies its umask). */
#define WANTED                                                                           \
	(FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES | FUSE_AUTO_INVAL_DATA |    \
		FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES |                     \
		FUSE_HANDLE_KILLPRIV_V2)

#define MAX_BACKGROUND 64u
#define PAGES_MAX      (GB_FUSE_IO_MAX / 4096u)

static gb_share_op *const ops[GB_FUSE_OPCODES] = {
	[FUSE_LOOKUP] = gb_op_lookup,
	[FUSE_GETATTR] = gb_op_getattr,
	[FUSE_SETATTR] = gb_op_setattr,
	[FUSE_READLINK] = gb_op_readlink,
	[FUSE_SYMLINK] = gb_op_symlink,
	[FUSE_MKNOD] = gb_op_mknod,
	[FUSE_MKDIR] = gb_op_mkdir,
	[FUSE_UNLINK] = gb_op_unlink,
	[FUSE_RMDIR] = gb_op_rmdir,
	[FUSE_RENAME] = gb_op_rename,
	[FUSE_RENAME2] = gb_op_rename2,
	[FUSE_LINK] = gb_op_link,
	[FUSE_OPEN] = gb_op_open,
	[FUSE_CREATE] = gb_op_create,
	[FUSE_TMPFILE] = gb_op_tmpfile,
	[FUSE_READ] = gb_op_read,
	[FUSE_WRITE] = gb_op_write,
	[FUSE_RELEASE] = gb_op_release,
	[FUSE_FSYNC] = gb_op_fsync,
	[FUSE_FALLOCATE] = gb_op_fallocate,
	[FUSE_LSEEK] = gb_op_lseek,
	[FUSE_COPY_FILE_RANGE] = gb_op_copy,
	[FUSE_OPENDIR] = gb_op_opendir,
	[FUSE_READDIR] = gb_op_readdir,
	[FUSE_RELEASEDIR] = gb_op_releasedir,
	[FUSE_FSYNCDIR] = gb_op_fsyncdir,
	[FUSE_SETXATTR] = gb_op_setxattr,
	[FUSE_GETXATTR] = gb_op_getxattr,
	[FUSE_LISTXATTR] = gb_op_listxattr,
	[FUSE_REMOVEXATTR] = gb_op_removexattr,
	[FUSE_STATFS] = gb_op_statfs,
	/* FUSE_FLUSH and FUSE_ACCESS have no row: on ENOSYS the guest's kernel stops asking
	 * and does by itself what there is to do. */
};

void gb_share_budget_init(struct gb_share_budget *b, size_t max_fds)
{
	memset(b, 0, sizeof(*b));
	b->nodes_max = GB_SHARE_NODES_MAX;
	b->dirs_max = GB_MAX(16u, GB_MIN(GB_SHARE_DIRS_MAX, max_fds / 4));
	b->handles_max = GB_MIN(GB_SHARE_HANDLES_MAX, max_fds / 2);
}

void *gb_share_answer(struct gb_share_out *out, size_t len)
{
	memset(out->data, 0, len);
	out->len = len;
	return out->data;
}

const char *gb_fd_path(struct gb_fd_path *p, int fd)
{
	snprintf(p->text, sizeof(p->text), "%d", fd);
	return p->text;
}

static int start_nodes(struct gb_share *s, struct gb_err *err)
{
	int fd = fcntl(s->root_fd, F_DUPFD_CLOEXEC, 3);
	int r = fd < 0 ? -errno : gb_nodes_init(&s->nodes, fd, s->config.budget);

	if (r < 0)
		return gb_fail_sys(err, -r, "cannot use the shared folder");
	return 0;
}

int gb_share_new(int root_fd_consume, const struct gb_share_config *config,
	struct gb_share **ret, struct gb_err *err)
{
	gb_auto(gb_share) *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		close(root_fd_consume);
		return gb_nomem(err);
	}
	s->config = *config;
	s->root_fd = root_fd_consume;
	r = start_nodes(s, err);
	if (r < 0)
		return r;
	*ret = gb_take_ptr(s);
	return 0;
}

static void close_handles(struct gb_share *s)
{
	size_t index = 0;
	struct gb_handle *h;

	while ((h = gb_slots_next(&s->handles, &index)))
		gb_handle_close(s, h);
	gb_slots_done(&s->handles);
}

struct gb_share *gb_share_free(struct gb_share *s)
{
	if (!s)
		return NULL;
	close_handles(s);
	gb_nodes_done(&s->nodes);
	close(s->root_fd);
	free(s);
	return NULL;
}

void gb_share_rest(struct gb_share *s)
{
	gb_nodes_rest(&s->nodes);
}

int gb_share_reset(struct gb_share *s, struct gb_err *err)
{
	s->started = false;
	close_handles(s);
	gb_nodes_done(&s->nodes);
	return start_nodes(s, err);
}

static int op_init(struct gb_share *s, const struct gb_fuse_req *q, struct gb_share_out *out)
{
	const struct fuse_init_in *in = &q->arg.init;
	struct fuse_init_out *ret;

	if (s->started)
		return -EBUSY;
	if (in->major < FUSE_KERNEL_VERSION ||
		(in->major == FUSE_KERNEL_VERSION && in->minor < MINOR_MIN))
		return -EPROTO;
	ret = GB_SHARE_ANSWER(out, struct fuse_init_out);
	ret->major = FUSE_KERNEL_VERSION;
	ret->minor = GB_MIN(in->minor, MINOR_MAX);
	if (in->major > FUSE_KERNEL_VERSION)
		return 0; /* it comes again with our major version */
	ret->flags = in->flags & WANTED;
	ret->max_readahead = GB_MIN(in->max_readahead, GB_FUSE_IO_MAX);
	ret->max_write = GB_FUSE_IO_MAX;
	ret->max_pages = PAGES_MAX;
	ret->max_background = MAX_BACKGROUND;
	ret->congestion_threshold = MAX_BACKGROUND / 4 * 3;
	ret->time_gran = 1;
	s->started = true;
	return 0;
}

static void forget_many(struct gb_share *s, const struct gb_fuse_req *q)
{
	for (uint32_t i = 0; i < q->arg.batch.count; i++) {
		struct fuse_forget_one one;
		struct gb_node *node;

		memcpy(&one, q->data + i * sizeof(one), sizeof(one));
		node = gb_node_get(&s->nodes, one.nodeid);
		if (node && node != s->nodes.root)
			gb_node_forget(&s->nodes, node, one.nlookup);
	}
}

/* Messages without an answer. INTERRUPT finds its request done already, as requests are
 * answered one after the other. */
static void run_silent(struct gb_share *s, const struct gb_fuse_req *q)
{
	struct gb_node *node = gb_node_get(&s->nodes, q->h.nodeid);

	if (q->h.opcode == FUSE_BATCH_FORGET)
		forget_many(s, q);
	else if (q->h.opcode == FUSE_FORGET && node && node != s->nodes.root)
		gb_node_forget(&s->nodes, node, q->arg.forget.nlookup);
}

static int run(struct gb_share *s, const struct gb_fuse_req *q, struct gb_share_out *out)
{
	struct gb_node *node;

	if (q->h.opcode == FUSE_INIT)
		return op_init(s, q, out);
	if (!s->started)
		return -EIO;
	if (q->h.opcode == FUSE_DESTROY)
		return gb_share_reset(s, NULL) < 0 ? -EIO : 0;
	if (s->config.read_only && (q->flags & GB_FUSE_MUTATES))
		return -EROFS;
	if (!ops[q->h.opcode])
		return -ENOSYS;
	node = gb_node_get(&s->nodes, q->h.nodeid);
	if (!node)
		return -ESTALE;
	return ops[q->h.opcode](s, node, q, out);
}

int gb_share_handle(struct gb_share *s, const uint8_t *msg, size_t len, uint8_t *reply,
	size_t *ret_len, struct gb_err *err)
{
	struct fuse_out_header h = { .len = sizeof(h) };
	struct gb_share_out out = { .data = reply + sizeof(h) };
	struct gb_fuse_req q;
	int r = gb_fuse_parse(msg, len, &q, err);

	*ret_len = 0;
	if (r < 0)
		return r;
	if (q.flags & GB_FUSE_NO_REPLY) {
		if (r == 0 && s->started)
			run_silent(s, &q);
		return 0;
	}
	r = r > 0 ? -r : run(s, &q, &out);
	gb_nodes_trim(&s->nodes);
	if (r == 0)
		h.len += (uint32_t)out.len;
	h.error = r;
	h.unique = q.h.unique;
	memcpy(reply, &h, sizeof(h));
	*ret_len = h.len;
	return 0;
}
