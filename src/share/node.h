/* What the guest knows of the host folder: one node per file that it was told of, found by
 * number (from the guest) or by identity (device, inode, birth time, type).
 *
 * A guest may walk a million files and its kernel forgets them only when its memory is short,
 * so a node costs no descriptor. It remembers its parent and its name; when it is needed, the
 * path is walked from the nearest ancestor that is open, one component at a time, each opened
 * relative to its parent without following links, and each compared with the identity that
 * was promised. A file that was moved or replaced on the host is therefore never mistaken:
 * the answer is ESTALE, upon which the guest's kernel looks the name up again.
 *
 * Descriptors: folders keep theirs in a list, oldest first out. Those of other files pass:
 * they are kept for a second at most (a file that the host deletes must free its space) and
 * few at a time, so that what follows a lookup finds the file that was looked up even when
 * the host renames another one over it meanwhile; without that, a guest that reads a file
 * which an editor saves again and again would see ESTALE. A node whose name the guest removed
 * keeps its descriptor until the guest forgets it, as nothing else leads there any more.
 * Nothing is closed in the middle of a request: numbers of descriptors stay valid until
 * gb_nodes_trim.
 *
 * Files are also reached as "/proc/self/fd/N" (to open what an O_PATH descriptor stands for,
 * chmod it, link it, read its attributes): see gb_share_new. */
#ifndef GB_SHARE_NODE_H
#define GB_SHARE_NODE_H

#include "share/slot.h"

#include <sys/queue.h>
#include <sys/stat.h>

/* What all shares of one server hold together. */
struct gb_share_budget {
	size_t nodes, nodes_max;
	size_t dirs, dirs_max;       /* descriptors of folders in the lists */
	size_t handles, handles_max; /* of open files and of removed nodes */
};

struct gb_node;

/* An open file or folder of the guest. */
struct gb_handle {
	LIST_ENTRY(gb_handle) link;
	struct gb_node *node;
	uint64_t id;
	int fd; /* owned */
	bool is_dir;
	struct gb_dir_buf *dir; /* owned: what was read ahead of a folder, or NULL */
};

enum gb_node_fd {
	GB_NODE_CLOSED,
	GB_NODE_DIR,    /* in the list of folders */
	GB_NODE_PASSING, /* for a moment */
	GB_NODE_PINNED, /* the root, or its name is gone */
};

struct gb_node {
	uint64_t dev, ino, birth_ns;
	uint64_t id;
	uint64_t lookups;       /* how often the guest was told of it and did not forget */
	struct gb_node *parent; /* NULL for the root and when the name is gone */
	char *name;             /* owned; in parent */
	struct gb_node *next;   /* in its hash bucket */
	struct gb_node *via;    /* scratch of a walk: the child to open next */
	TAILQ_ENTRY(gb_node) link;
	LIST_HEAD(, gb_handle) handles;
	uint64_t cached_ctime_ns; /* state of the content that the guest may have cached … */
	uint64_t cached_since_ns; /* … since this time */
	uint32_t children;        /* nodes whose parent this is */
	int fd;                   /* owned; O_PATH */
	uint16_t type;            /* S_IFMT bits */
	uint8_t where;            /* enum gb_node_fd */
};

TAILQ_HEAD(gb_node_list, gb_node);

struct gb_nodes {
	struct gb_share_budget *budget; /* borrowed */
	struct gb_slots slots;
	struct gb_node **buckets; /* owned */
	size_t bucket_count;      /* a power of two */
	size_t count;
	struct gb_node_list dirs;    /* oldest use first */
	struct gb_node_list passing; /* oldest first */
	size_t passing_count;
	struct gb_node *root;
};

#define GB_NODE_PASSING_MAX 128u

#define GB_NODE_STATX (STATX_BASIC_STATS | STATX_BTIME)

/* root_fd (an O_PATH descriptor of a folder) is taken over. 0 or -errno. */
int gb_nodes_init(struct gb_nodes *t, int root_fd_consume, struct gb_share_budget *budget);
void gb_nodes_done(struct gb_nodes *t);

struct gb_node *gb_node_get(const struct gb_nodes *t, uint64_t id);
/* The node that st belongs to, or NULL when the guest was not told of it. */
struct gb_node *gb_node_find(const struct gb_nodes *t, const struct statx *st);
/* Tell the guest of a name in parent: its node is found or made, its place brought up to
 * date, and counted as looked up once more. parent NULL: it has no name. 0 or -errno. */
int gb_node_learn(struct gb_nodes *t, struct gb_node *parent, const char *name,
	const struct statx *st, struct gb_node **ret);
void gb_node_forget(struct gb_nodes *t, struct gb_node *node, uint64_t lookups);

/* A descriptor of exactly this file, or -errno. Borrowed until gb_nodes_trim; O_PATH or an
 * open one, so use it for *at calls and through /proc only. */
int gb_node_fd(struct gb_nodes *t, struct gb_node *node);
/* The same, but an own O_PATH descriptor even where a handle has one. */
int gb_node_open(struct gb_nodes *t, struct gb_node *node);
bool gb_node_is(const struct gb_node *node, const struct statx *st);
/* Before the guest removes a node's name: get hold of its descriptor. After: it is gone, or
 * it has moved. Who calls gone or moved has called hold. */
void gb_node_hold(struct gb_nodes *t, struct gb_node *node);
void gb_node_gone(struct gb_nodes *t, struct gb_node *node);
/* -ENOMEM leaves it without a name. */
int gb_node_moved(struct gb_nodes *t, struct gb_node *node, struct gb_node *parent, const char *name);
/* An O_PATH descriptor of this very file, as it was just opened, is taken over. */
void gb_node_keep_fd(struct gb_nodes *t, struct gb_node *node, int fd_consume);
/* The end of a request: close what is too much. */
void gb_nodes_trim(struct gb_nodes *t);
/* About once a second: close what was passing. */
void gb_nodes_rest(struct gb_nodes *t);

void gb_node_add_handle(struct gb_node *node, struct gb_handle *h);
void gb_node_del_handle(struct gb_nodes *t, struct gb_handle *h);

#endif
