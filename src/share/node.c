#include "share/node.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS_LEAST 256u

static uint64_t dev_of(const struct statx *st)
{
	return (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
}

static uint64_t birth_of(const struct statx *st)
{
	if (!(st->stx_mask & STATX_BTIME))
		return 0;
	return (uint64_t)st->stx_btime.tv_sec * 1000000000u + st->stx_btime.tv_nsec;
}

bool gb_node_is(const struct gb_node *node, const struct statx *st)
{
	return node->ino == st->stx_ino && node->dev == dev_of(st) &&
		node->birth_ns == birth_of(st) && node->type == (st->stx_mode & S_IFMT);
}

static size_t bucket_of(const struct gb_nodes *t, uint64_t dev, uint64_t ino)
{
	uint64_t x = (ino ^ dev << 20) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(x >> 32) & (t->bucket_count - 1);
}

/* Without memory for it the buckets just get longer. */
static void grow_buckets(struct gb_nodes *t)
{
	size_t count = t->bucket_count * 2;
	struct gb_node **old = t->buckets;
	size_t old_count = t->bucket_count;
	struct gb_node **fresh = calloc(count, sizeof(*fresh));

	if (!fresh)
		return;
	t->buckets = fresh;
	t->bucket_count = count;
	for (size_t i = 0; i < old_count; i++) {
		struct gb_node *node = old[i];

		while (node) {
			struct gb_node *next = node->next;
			size_t b = bucket_of(t, node->dev, node->ino);

			node->next = fresh[b];
			fresh[b] = node;
			node = next;
		}
	}
	free(old);
}

static int add_node(struct gb_nodes *t, const struct statx *st, struct gb_node **ret)
{
	struct gb_node *node;
	size_t b;

	if (t->budget->nodes >= t->budget->nodes_max)
		return -ENFILE;
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->id = gb_slots_add(&t->slots, node);
	if (!node->id) {
		free(node);
		return -ENOMEM;
	}
	if (t->count >= t->bucket_count)
		grow_buckets(t);
	node->dev = dev_of(st);
	node->ino = st->stx_ino;
	node->birth_ns = birth_of(st);
	node->type = st->stx_mode & S_IFMT;
	node->fd = -1;
	LIST_INIT(&node->handles);
	b = bucket_of(t, node->dev, node->ino);
	node->next = t->buckets[b];
	t->buckets[b] = node;
	t->count++;
	t->budget->nodes++;
	*ret = node;
	return 0;
}

int gb_nodes_init(struct gb_nodes *t, int root_fd_consume, struct gb_share_budget *budget)
{
	struct statx st;
	int r;

	memset(t, 0, sizeof(*t));
	t->budget = budget;
	TAILQ_INIT(&t->dirs);
	TAILQ_INIT(&t->passing);
	t->bucket_count = BUCKETS_LEAST;
	t->buckets = calloc(t->bucket_count, sizeof(struct gb_node *));
	if (!t->buckets)
		r = -ENOMEM;
	else if (statx(root_fd_consume, "", AT_EMPTY_PATH, GB_NODE_STATX, &st) < 0)
		r = -errno;
	else
		r = S_ISDIR(st.stx_mode) ? add_node(t, &st, &t->root) : -ENOTDIR;
	if (r < 0) {
		close(root_fd_consume);
		return r;
	}
	t->root->fd = root_fd_consume;
	t->root->where = GB_NODE_PINNED;
	t->root->lookups = 1;
	budget->handles++;
	return 0;
}

static void close_fd(struct gb_nodes *t, struct gb_node *node)
{
	switch ((enum gb_node_fd)node->where) {
	case GB_NODE_CLOSED:
		return;
	case GB_NODE_DIR:
		TAILQ_REMOVE(&t->dirs, node, link);
		t->budget->dirs--;
		break;
	case GB_NODE_PASSING:
		TAILQ_REMOVE(&t->passing, node, link);
		t->passing_count--;
		break;
	case GB_NODE_PINNED:
		t->budget->handles--;
		break;
	}
	close(node->fd);
	node->fd = -1;
	node->where = GB_NODE_CLOSED;
}

static void unhash(struct gb_nodes *t, struct gb_node *node)
{
	struct gb_node **p = &t->buckets[bucket_of(t, node->dev, node->ino)];

	while (*p != node)
		p = &(*p)->next;
	*p = node->next;
}

static bool is_unused(const struct gb_node *node)
{
	return !node->lookups && !node->children && LIST_EMPTY(&node->handles);
}

/* Free a node that nothing needs any more, then its parents for which that became true. */
static void release(struct gb_nodes *t, struct gb_node *node)
{
	while (node && node != t->root && is_unused(node)) {
		struct gb_node *parent = node->parent;

		close_fd(t, node);
		unhash(t, node);
		gb_slots_del(&t->slots, node->id);
		free(node->name);
		free(node);
		t->count--;
		t->budget->nodes--;
		if (parent)
			parent->children--;
		node = parent;
	}
}

void gb_nodes_done(struct gb_nodes *t)
{
	size_t index = 0;
	struct gb_node *node;

	if (!t->buckets)
		return;
	while ((node = gb_slots_next(&t->slots, &index))) {
		close_fd(t, node);
		free(node->name);
		free(node);
	}
	t->budget->nodes -= t->count;
	gb_slots_done(&t->slots);
	free(t->buckets);
	memset(t, 0, sizeof(*t));
}

struct gb_node *gb_node_get(const struct gb_nodes *t, uint64_t id)
{
	return gb_slots_get(&t->slots, id);
}

struct gb_node *gb_node_find(const struct gb_nodes *t, const struct statx *st)
{
	struct gb_node *node = t->buckets[bucket_of(t, dev_of(st), st->stx_ino)];

	while (node && !gb_node_is(node, st))
		node = node->next;
	return node;
}

static bool is_below(const struct gb_node *node, const struct gb_node *top)
{
	while (node && node != top)
		node = node->parent;
	return node == top;
}

static void detach(struct gb_nodes *t, struct gb_node *node)
{
	struct gb_node *parent = node->parent;

	free(node->name);
	node->name = NULL;
	node->parent = NULL;
	if (parent) {
		parent->children--;
		release(t, parent);
	}
}

/* The host may have turned a tree inside out (a was in b, now b is in a) while we know only
 * half of it: a parent that is below its own child is not taken, the old place stays, and a
 * walk to it answers ESTALE. */
int gb_node_moved(struct gb_nodes *t, struct gb_node *node, struct gb_node *parent, const char *name)
{
	char *copy;

	if (node == t->root || is_below(parent, node))
		return 0;
	copy = strdup(name);
	parent->children++;
	detach(t, node);
	if (!copy) {
		parent->children--;
		return -ENOMEM;
	}
	node->parent = parent;
	node->name = copy;
	if (node->where == GB_NODE_PINNED) {
		t->budget->handles--;
		node->where = GB_NODE_PASSING;
		TAILQ_INSERT_TAIL(&t->passing, node, link);
		t->passing_count++;
	}
	return 0;
}

int gb_node_learn(struct gb_nodes *t, struct gb_node *parent, const char *name,
	const struct statx *st, struct gb_node **ret)
{
	struct gb_node *node = gb_node_find(t, st);
	int r = 0;

	if (!node)
		r = add_node(t, st, &node);
	if (r < 0)
		return r;
	if (parent && (node->parent != parent || strcmp(node->name, name) != 0))
		r = gb_node_moved(t, node, parent, name);
	if (r < 0) {
		release(t, node);
		return r;
	}
	node->lookups++;
	*ret = node;
	return 0;
}

void gb_node_forget(struct gb_nodes *t, struct gb_node *node, uint64_t lookups)
{
	node->lookups -= GB_MIN(node->lookups, lookups);
	release(t, node);
}

void gb_node_hold(struct gb_nodes *t, struct gb_node *node)
{
	/* a handle's descriptor does not outlive the handle: an own one is wanted here */
	if (node->fd < 0 && node->parent)
		gb_node_open(t, node);
}

void gb_node_gone(struct gb_nodes *t, struct gb_node *node)
{
	if (node == t->root)
		return;
	if (node->fd >= 0 && node->where != GB_NODE_PINNED &&
		t->budget->handles < t->budget->handles_max) {
		TAILQ_REMOVE(node->where == GB_NODE_DIR ? &t->dirs : &t->passing, node, link);
		t->budget->dirs -= node->where == GB_NODE_DIR;
		t->passing_count -= node->where == GB_NODE_PASSING;
		node->where = GB_NODE_PINNED;
		t->budget->handles++;
	}
	detach(t, node);
}

void gb_nodes_trim(struct gb_nodes *t)
{
	struct gb_node *node;

	while (t->passing_count > GB_NODE_PASSING_MAX && (node = TAILQ_FIRST(&t->passing)))
		close_fd(t, node);
	while (t->budget->dirs > t->budget->dirs_max && (node = TAILQ_FIRST(&t->dirs)))
		close_fd(t, node);
}

void gb_nodes_rest(struct gb_nodes *t)
{
	struct gb_node *node;

	while ((node = TAILQ_FIRST(&t->passing)))
		close_fd(t, node);
}

void gb_node_add_handle(struct gb_node *node, struct gb_handle *h)
{
	h->node = node;
	LIST_INSERT_HEAD(&node->handles, h, link);
}

void gb_node_del_handle(struct gb_nodes *t, struct gb_handle *h)
{
	LIST_REMOVE(h, link);
	release(t, h->node);
}
