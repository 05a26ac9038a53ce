/* A kernel of one's own: sends raw FUSE messages, right and wrong ones, to a share. */
#ifndef GB_TESTS_SHARE_RAW_H
#define GB_TESTS_SHARE_RAW_H

#include "rows.h"
#include "tmpdir.h"

#include "share/share.h"

#include <string.h>
#include <sys/stat.h>

struct raw {
	struct tmpdir dir;
	struct gb_share_budget budget;
	struct gb_share *share;
	uint64_t unique;
	size_t len;	  /* of the last reply, 0 for none */
	const void *data; /* of the last reply, behind its header */
	_Alignas(8) uint8_t reply[sizeof(struct fuse_out_header) + GB_SHARE_REPLY_MAX];
	uint8_t message[4096 + GB_FUSE_IO_MAX];
};

#define RAW_PROTOCOL                                                                     \
	(-9999) /* what raw_send returns for a message that cannot be answered */

static inline int raw_reply_error(struct raw *w)
{
	struct fuse_out_header h;

	if (!w->len)
		return 0;
	memcpy(&h, w->reply, sizeof(h));
	w->data = w->reply + sizeof(h);
	return h.len == w->len && h.unique == w->unique ? h.error : -9998;
}

/* arg, then tail (names with their NULs, data). The answer's error: 0 or -errno. */
static inline int raw_send(struct raw *w, uint32_t opcode, uint64_t node, const void *arg,
	size_t arg_len, const void *tail, size_t tail_len)
{
	struct fuse_in_header h = {
		.opcode = opcode, .nodeid = node, .unique = ++w->unique};
	uint8_t *exact;
	int r;

	h.len = (uint32_t)(sizeof(h) + arg_len + tail_len);
	memcpy(w->message, &h, sizeof(h));
	if (arg_len)
		memcpy(w->message + sizeof(h), arg, arg_len);
	if (tail_len)
		memcpy(w->message + sizeof(h) + arg_len, tail, tail_len);
	/* a block of just this size, so that a sanitizer sees a read past its end */
	exact = malloc(h.len);
	memcpy(exact, w->message, h.len);
	r = gb_share_handle(w->share, exact, h.len, w->reply, &w->len, NULL);
	free(exact);
	return r < 0 ? RAW_PROTOCOL : raw_reply_error(w);
}

#define raw_arg(w, op, node, arg) raw_send(w, op, node, &(arg), sizeof(arg), NULL, 0)
#define raw_arg_name(w, op, node, arg, name)                                             \
	raw_send(w, op, node, &(arg), sizeof(arg), name, strlen(name) + 1)
#define raw_name(w, op, node, name) raw_send(w, op, node, NULL, 0, name, strlen(name) + 1)
#define raw_plain(w, op, node)	    raw_send(w, op, node, NULL, 0, NULL, 0)

static inline int raw_init(struct raw *w)
{
	struct fuse_init_in in = {
		.major = 7, .minor = 38, .flags = UINT32_MAX & ~FUSE_INIT_EXT};

	return raw_arg(w, FUSE_INIT, 0, in);
}

/* The new node's number, or a negative error. */
static inline int64_t raw_lookup(struct raw *w, uint64_t dir, const char *name)
{
	int r = raw_name(w, FUSE_LOOKUP, dir, name);

	return r < 0 ? r : (int64_t)((const struct fuse_entry_out *)w->data)->nodeid;
}

static inline int64_t raw_open(struct raw *w, uint64_t node, uint32_t flags)
{
	struct fuse_open_in in = {.flags = flags};
	int r = raw_arg(w, FUSE_OPEN, node, in);

	return r < 0 ? r : (int64_t)((const struct fuse_open_out *)w->data)->fh;
}

static inline int raw_getattr(struct raw *w, uint64_t node, struct fuse_attr *ret)
{
	struct fuse_getattr_in in = {0};
	int r = raw_arg(w, FUSE_GETATTR, node, in);

	if (r == 0 && ret)
		*ret = ((const struct fuse_attr_out *)w->data)->attr;
	return r;
}

static inline void raw_forget(struct raw *w, uint64_t node, uint64_t n)
{
	struct fuse_forget_in in = {.nlookup = n};

	raw_arg(w, FUSE_FORGET, node, in);
}

static inline bool raw_file(struct raw *w, const char *name, const char *text)
{
	int fd = openat(w->dir.fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A started share of a new folder; max_fds as for gb_share_budget_init. */
static inline struct raw *raw_new(bool read_only, size_t max_fds)
{
	struct raw *w = calloc(1, sizeof(*w));
	struct gb_share_config c = {.read_only = read_only, .uid = 1000, .gid = 1001};

	if (!w || !tmpdir_make(&w->dir) || chdir("/proc/self/fd") < 0)
		return NULL;
	gb_share_budget_init(&w->budget, max_fds);
	c.budget = &w->budget;
	if (gb_share_new(open(w->dir.path, O_PATH | O_DIRECTORY | O_CLOEXEC), &c,
		    &w->share, NULL) < 0 ||
		raw_init(w) < 0)
		return NULL;
	return w;
}

/* True when nothing was left in the budget or on the disk. */
static inline bool raw_free(struct raw *w)
{
	bool ok;

	gb_share_free(w->share);
	ok = !w->budget.nodes && !w->budget.dirs && !w->budget.handles;
	ok &= tmpdir_remove(&w->dir) == 0;
	free(w);
	return ok;
}

#endif
