/* How a node is reached: by a descriptor that is there, else by walking to it. */
#include "share/node.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void gb_node_keep_fd(struct gb_nodes *t, struct gb_node *node, int fd_consume)
{
	if (node->fd >= 0) {
		close(fd_consume);
		return;
	}
	node->fd = fd_consume;
	if (node->type == S_IFDIR) {
		node->where = GB_NODE_DIR;
		TAILQ_INSERT_TAIL(&t->dirs, node, link);
		t->budget->dirs++;
	} else {
		node->where = GB_NODE_PASSING;
		TAILQ_INSERT_TAIL(&t->passing, node, link);
		t->passing_count++;
	}
}

/* A name that leads elsewhere, or nowhere, is no longer this node's. */
static int stale(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP ? -ESTALE : -errnum;
}

static int open_below(struct gb_nodes *t, int parent_fd, struct gb_node *node)
{
	struct statx st;
	int fd = openat(parent_fd, node->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return stale(errno);
	if (statx(fd, "", AT_EMPTY_PATH, GB_NODE_STATX, &st) < 0 || !gb_node_is(node, &st)) {
		close(fd);
		return -ESTALE;
	}
	gb_node_keep_fd(t, node, fd);
	return 0;
}

/* A folder was used: it and what it is in go to the young end, so that a folder stays open
 * longer than what is below it. What was moved on the host is then still found from there. */
static void touch(struct gb_nodes *t, struct gb_node *node)
{
	for (; node; node = node->parent) {
		if (node->where != GB_NODE_DIR)
			continue;
		TAILQ_REMOVE(&t->dirs, node, link);
		TAILQ_INSERT_TAIL(&t->dirs, node, link);
	}
}

static int fd_at_hand(const struct gb_node *node)
{
	if (node->fd >= 0)
		return node->fd;
	return LIST_EMPTY(&node->handles) ? -1 : LIST_FIRST(&node->handles)->fd;
}

int gb_node_open(struct gb_nodes *t, struct gb_node *node)
{
	struct gb_node *at = node;
	int r;

	if (node->fd >= 0) {
		touch(t, node);
		return node->fd;
	}
	node->via = NULL;
	do {
		if (!at->parent)
			return -ESTALE;
		at->parent->via = at;
		at = at->parent;
	} while (fd_at_hand(at) < 0);
	for (; at != node; at = at->via) {
		r = open_below(t, fd_at_hand(at), at->via);
		if (r < 0)
			return r;
	}
	touch(t, node);
	return node->fd;
}

int gb_node_fd(struct gb_nodes *t, struct gb_node *node)
{
	int fd = fd_at_hand(node);

	if (fd < 0)
		return gb_node_open(t, node);
	touch(t, node);
	return fd;
}
