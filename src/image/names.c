/* Threats: a path with "..", an absolute path, a link that points out, a path that goes
 * through a file, links in a circle. Since paths are resolved here, in a tree of our own
 * that starts at its root and in which ".." of the root is the root, nothing can point at
 * a file of the host; what is refused is refused because it cannot be meant. */
#include "image/names.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define LINKS_FOLLOWED_MAX 40 /* as the kernel */
#define FIRST_BUCKETS	   1024

struct gb_names {
	struct gb_name *root;
	struct gb_name **buckets; /* a power of two */
	size_t bucket_count;
	size_t count;
	struct gb_run *dropped;
	size_t dropped_count, dropped_cap;
	int64_t time_s;
};

static void inode_free(struct gb_inode *i)
{
	free(i->target);
	gb_tree_xattrs_done(&i->xattrs);
	free(i->runs);
	free(i);
}

static uint32_t hash_of(const struct gb_name *parent, const char *text, size_t len)
{
	uint64_t h = gb_fnv1a(&parent, sizeof(parent), GB_FNV1A_SEED);

	h = gb_fnv1a(text, len, h);
	return (uint32_t)(h ^ (h >> 32));
}

static struct gb_name *lookup(const struct gb_names *n, const struct gb_name *parent,
	const char *text, size_t len)
{
	uint32_t hash = hash_of(parent, text, len);
	struct gb_name *c = n->buckets[hash & (n->bucket_count - 1)];

	while (c && (c->hash != hash || c->parent != parent || c->len != len ||
			    memcmp(c->text, text, len) != 0))
		c = c->chain;
	return c;
}

static int grow_table(struct gb_names *n, struct gb_err *err)
{
	size_t count = n->bucket_count * 2;
	struct gb_name **buckets = calloc(count, sizeof(*buckets));

	if (!buckets)
		return gb_nomem(err);
	for (size_t i = 0; i < n->bucket_count; i++)
		for (struct gb_name *c = n->buckets[i], *next; c; c = next) {
			struct gb_name **b = &buckets[c->hash & (count - 1)];

			next = c->chain;
			c->chain = *b;
			*b = c;
		}
	free(n->buckets);
	n->buckets = buckets;
	n->bucket_count = count;
	return 0;
}

static void attach(struct gb_names *n, struct gb_name *parent, struct gb_name *c)
{
	struct gb_name **b = &n->buckets[c->hash & (n->bucket_count - 1)];

	c->chain = *b;
	*b = c;
	c->parent = parent;
	c->previous = parent->last;
	if (parent->last)
		parent->last->next = c;
	else
		parent->first = c;
	parent->last = c;
	parent->children++;
	n->count++;
}

/* A name for inode_consume, which is freed on failure if it has no other name. */
static int add(struct gb_names *n, struct gb_name *parent, const char *text, size_t len,
	struct gb_inode *inode_consume, struct gb_name **ret, struct gb_err *err)
{
	struct gb_name *c = NULL;
	int r = 0;

	if (n->count >= GB_TREE_ENTRIES_MAX)
		r = gb_fail(err, GB_E_LIMIT, "over %d names", GB_TREE_ENTRIES_MAX);
	else if (n->count >= n->bucket_count)
		r = grow_table(n, err);
	if (r == 0) {
		c = calloc(1, sizeof(*c) + len + 1);
		if (!c)
			r = gb_nomem(err);
	}
	if (r < 0) {
		if (inode_consume->links == 0)
			inode_free(inode_consume);
		return r;
	}
	memcpy(c->text, text, len);
	c->len = (uint8_t)len;
	c->hash = hash_of(parent, text, len);
	c->inode = inode_consume;
	inode_consume->links++;
	attach(n, parent, c);
	*ret = c;
	return 0;
}

static struct gb_inode *new_folder(int64_t time_s, uint32_t mode)
{
	struct gb_inode *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->type = GB_TREE_DIR;
	i->mode = mode;
	i->mtime_s = time_s;
	return i;
}

int gb_names_new(int64_t time_s, struct gb_names **ret, struct gb_err *err)
{
	gb_auto(gb_names) *n = calloc(1, sizeof(*n));

	if (!n)
		return gb_nomem(err);
	n->time_s = time_s;
	n->bucket_count = FIRST_BUCKETS;
	n->buckets = calloc(FIRST_BUCKETS, sizeof(*n->buckets));
	n->root = calloc(1, sizeof(*n->root) + 1);
	if (!n->buckets || !n->root)
		return gb_nomem(err);
	n->root->parent = n->root;
	n->root->inode = new_folder(time_s, 0755);
	if (!n->root->inode)
		return gb_nomem(err);
	n->root->inode->links = 1;
	*ret = gb_take_ptr(n);
	return 0;
}

static void free_name(struct gb_name *c)
{
	if (c->inode && --c->inode->links == 0)
		inode_free(c->inode);
	free(c);
}

/* The deepest first child: whoever frees starts there and goes on with siblings, parents.
 */
static struct gb_name *leftmost(struct gb_name *c)
{
	while (c->first)
		c = c->first;
	return c;
}

struct gb_names *gb_names_free(struct gb_names *n)
{
	struct gb_name *c = n && n->root ? leftmost(n->root) : NULL;

	while (c) {
		struct gb_name *next = c == n->root ? NULL
				       : c->next    ? leftmost(c->next)
						    : c->parent;

		free_name(c);
		c = next;
	}
	if (n) {
		free(n->buckets);
		free(n->dropped);
	}
	free(n);
	return NULL;
}

static int drop_runs(struct gb_names *n, const struct gb_inode *i, struct gb_err *err)
{
	if (!gb_grow(&n->dropped, &n->dropped_cap, n->dropped_count + i->run_count,
		    sizeof(*n->dropped)))
		return gb_nomem(err);
	if (i->run_count)
		memcpy(n->dropped + n->dropped_count, i->runs,
			i->run_count * sizeof(*i->runs));
	n->dropped_count += i->run_count;
	return 0;
}

static void detach(struct gb_names *n, struct gb_name *c)
{
	struct gb_name **b = &n->buckets[c->hash & (n->bucket_count - 1)];

	while (*b != c)
		b = &(*b)->chain;
	*b = c->chain;
	if (c->previous)
		c->previous->next = c->next;
	else
		c->parent->first = c->next;
	if (c->next)
		c->next->previous = c->previous;
	else
		c->parent->last = c->previous;
	c->parent->children--;
	n->count--;
}

/* A name with everything below it, children first. */
static int remove_tree(struct gb_names *n, struct gb_name *top, struct gb_err *err)
{
	struct gb_name *c = leftmost(top);

	for (;;) {
		struct gb_name *next = c->next ? leftmost(c->next) : c->parent;
		bool done = c == top;

		if (c->inode->links == 1 && drop_runs(n, c->inode, err) < 0)
			return GB_E_NOMEM;
		detach(n, c);
		free_name(c);
		if (done)
			return 0;
		c = next;
	}
}

static int make_folder(struct gb_names *n, struct gb_name *parent, const char *text,
	size_t len, struct gb_name **ret, struct gb_err *err)
{
	struct gb_inode *i = new_folder(n->time_s, 0755);

	return i ? add(n, parent, text, len, i, ret, err) : gb_nomem(err);
}

/* What is left to walk: a text of our own that a link's target is put in front of. */
struct walk {
	char *text; /* owned */
	char *at;
	int links;
};

static int walk_link(struct walk *w, struct gb_name **at, const struct gb_name *link,
	const struct gb_names *n, struct gb_err *err)
{
	char *text = NULL;

	if (++w->links > LINKS_FOLLOWED_MAX)
		return gb_fail(err, GB_E_PARSE, "symbolic links run in a circle at '%s'",
			link->text);
	if (strlen(w->at) + strlen(link->inode->target) > 2 * GB_TREE_PATH_MAX)
		return gb_fail(err, GB_E_LIMIT, "symbolic links make too long a path");
	if (asprintf(&text, "%s/%s", link->inode->target, w->at) < 0)
		return gb_nomem(err);
	*at = *text == '/' ? n->root : link->parent;
	free(w->text);
	w->text = text;
	w->at = text;
	return 0;
}

static bool is_part(const char *text, size_t len, const char *part)
{
	return len == strlen(part) && memcmp(text, part, len) == 0;
}

/* One component below *at. */
static int walk_part(struct gb_names *n, struct walk *w, const char *text, size_t len,
	bool create, struct gb_name **at, struct gb_err *err)
{
	struct gb_name *c;

	if (len == 0 || is_part(text, len, "."))
		return 0;
	if (is_part(text, len, "..")) {
		*at = (*at)->parent;
		return 0;
	}
	if (len > GB_TREE_NAME_MAX)
		return gb_fail(err, GB_E_LIMIT, "a name is over %d bytes: '%.60s…'",
			GB_TREE_NAME_MAX, text);
	c = lookup(n, *at, text, len);
	if (!c && !create)
		return gb_fail(
			err, GB_E_NOTFOUND, "'%.*s' does not exist", (int)len, text);
	if (!c)
		return make_folder(n, *at, text, len, at, err);
	if (c->inode->type == GB_TREE_SYMLINK)
		return walk_link(w, at, c, n, err);
	if (c->inode->type != GB_TREE_DIR)
		return gb_fail(err, GB_E_PARSE, "'%s' is not a folder", c->text);
	*at = c;
	return 0;
}

/* To the folder that path (len bytes) leads to. */
static int walk_to(struct gb_names *n, const char *path, size_t len, bool create,
	struct gb_name **ret, struct gb_err *err)
{
	struct walk w = {.text = strndup(path, len)};
	struct gb_name *at = n->root;
	int r = 0;

	if (!w.text)
		return gb_nomem(err);
	w.at = w.text;
	while (r == 0 && *w.at) {
		char *text = w.at;
		size_t part = strcspn(text, "/");

		w.at = text + part + (text[part] == '/');
		r = walk_part(n, &w, text, part, create, &at, err);
	}
	free(w.text);
	if (r == 0)
		*ret = at;
	return r;
}

struct split {
	const char *path; /* without leading "/" */
	size_t folder;	  /* length of what leads to the folder */
	const char *last; /* "" for the root */
	size_t last_len;
};

static int split_path(const char *path, struct split *ret, struct gb_err *err)
{
	size_t len = strlen(path);

	if (len > GB_TREE_PATH_MAX)
		return gb_fail(
			err, GB_E_LIMIT, "a path is over %d bytes", GB_TREE_PATH_MAX);
	for (const char *p = path; *p;) {
		size_t part = strcspn(p, "/");

		if (is_part(p, part, ".."))
			return gb_fail(err, GB_E_DENIED, "a path must not hold '..'");
		if (part > GB_TREE_NAME_MAX)
			return gb_fail(err, GB_E_LIMIT, "a name is over %d bytes",
				GB_TREE_NAME_MAX);
		p += part + (p[part] == '/');
	}
	while (len &&
		(path[len - 1] == '/' ||
			(path[len - 1] == '.' && (len == 1 || path[len - 2] == '/'))))
		len--;
	ret->path = path;
	ret->folder = len;
	while (ret->folder && path[ret->folder - 1] != '/')
		ret->folder--;
	ret->last = path + ret->folder;
	ret->last_len = len - ret->folder;
	return 0;
}

static int copy_attributes(
	const struct gb_tree_entry *e, struct gb_inode *i, struct gb_err *err)
{
	struct gb_tree_xattrs copy = {0};

	for (size_t n = 0; n < e->xattrs.n; n++) {
		const struct gb_tree_xattr *x = &e->xattrs.v[n];
		int r = gb_tree_xattrs_add(&copy, x->name, x->value, x->len, err);

		if (r < 0) {
			gb_tree_xattrs_done(&copy);
			return r;
		}
	}
	gb_tree_xattrs_done(&i->xattrs);
	i->xattrs = copy;
	i->type = e->type;
	i->mode = e->mode & 07777;
	i->uid = e->uid;
	i->gid = e->gid;
	i->mtime_s = e->mtime_s;
	i->mtime_ns = e->mtime_ns;
	i->dev_major = e->dev_major;
	i->dev_minor = e->dev_minor;
	i->size = e->size;
	return 0;
}

static int inode_of(
	const struct gb_tree_entry *e, struct gb_inode **ret, struct gb_err *err)
{
	struct gb_inode *i = calloc(1, sizeof(*i));
	int r = i ? copy_attributes(e, i, err) : gb_nomem(err);

	if (r == 0 && e->type == GB_TREE_SYMLINK) {
		size_t len = strlen(e->target);

		if (len == 0 || len > GB_TREE_LINK_MAX)
			r = gb_fail(err, GB_E_LIMIT,
				"a symbolic link's target must have 1 to %d bytes",
				GB_TREE_LINK_MAX);
		else if (!(i->target = strdup(e->target)))
			r = gb_nomem(err);
		i->size = len;
	}
	if (r < 0 && i)
		inode_free(i);
	if (r == 0)
		*ret = i;
	return r;
}

/* The inode that a hard link means. */
static int link_target(
	struct gb_names *n, const char *path, struct gb_inode **ret, struct gb_err *err)
{
	struct gb_name *folder = NULL;
	struct gb_name *c = NULL;
	struct split s;
	int r = split_path(path, &s, err);

	if (r == 0)
		r = walk_to(n, s.path, s.folder, false, &folder, err);
	if (r == 0)
		c = s.last_len ? lookup(n, folder, s.last, s.last_len) : n->root;
	if (r == 0 && !c)
		r = gb_fail(err, GB_E_NOTFOUND, "it does not exist");
	if (r == 0 && c->inode->type == GB_TREE_DIR)
		r = gb_fail(err, GB_E_PARSE, "it is a folder");
	if (r == 0 && c->inode->links >= GB_NAMES_LINKS_MAX)
		r = gb_fail(
			err, GB_E_LIMIT, "it has %d names already", GB_NAMES_LINKS_MAX);
	if (r < 0)
		return gb_wrap(err, r, "hard link to '%.200s'", path);
	*ret = c->inode;
	return 0;
}

/* Give the name to inode_consume, in place of what has it now. */
static int place(struct gb_names *n, struct gb_name *folder, const struct split *s,
	struct gb_inode *inode_consume, struct gb_err *err)
{
	struct gb_name *old = lookup(n, folder, s->last, s->last_len);
	struct gb_name *c;
	int r = 0;

	if (old && old->inode == inode_consume)
		return 0;
	if (old) {
		/* a link to what is about to be removed must survive it */
		inode_consume->links++;
		r = remove_tree(n, old, err);
		inode_consume->links--;
	}
	if (r < 0) {
		if (inode_consume->links == 0)
			inode_free(inode_consume);
		return r;
	}
	return add(n, folder, s->last, s->last_len, inode_consume, &c, err);
}

static int put_root(struct gb_names *n, const struct gb_tree_entry *e, struct gb_err *err)
{
	if (e->type != GB_TREE_DIR)
		return gb_fail(err, GB_E_PARSE, "the root can only be a folder");
	return copy_attributes(e, n->root->inode, err);
}

static int put(struct gb_names *n, const struct gb_tree_entry *e,
	struct gb_inode **ret_inode, struct gb_err *err)
{
	struct gb_inode *inode = NULL;
	struct gb_name *folder = NULL;
	struct gb_name *old;
	struct split s;
	int r = split_path(e->path, &s, err);

	*ret_inode = NULL;
	if (r < 0)
		return r;
	if (s.last_len == 0)
		return put_root(n, e, err);
	r = walk_to(n, s.path, s.folder, true, &folder, err);
	if (r < 0)
		return r;
	old = lookup(n, folder, s.last, s.last_len);
	if (e->type == GB_TREE_DIR && old && old->inode->type == GB_TREE_DIR)
		return copy_attributes(e, old->inode, err);
	if (e->type == GB_TREE_HARDLINK)
		r = link_target(n, e->target, &inode, err);
	else
		r = inode_of(e, &inode, err);
	if (r == 0)
		r = place(n, folder, &s, inode, err);
	if (r == 0 && e->type == GB_TREE_FILE)
		*ret_inode = inode;
	return r;
}

int gb_names_put(struct gb_names *n, const struct gb_tree_entry *e,
	struct gb_inode **ret_inode, struct gb_err *err)
{
	int r = put(n, e, ret_inode, err);

	return r < 0 ? gb_wrap(err, r, "entry '%.200s'", e->path) : 0;
}

int gb_names_ensure_dir(
	struct gb_names *n, const char *path, uint32_t mode, struct gb_err *err)
{
	struct gb_tree_entry e = {
		.path = path, .type = GB_TREE_DIR, .mode = mode, .mtime_s = n->time_s};
	const struct gb_name *c = gb_names_find(n, path);
	struct gb_inode *none;

	return c && c->inode->type == GB_TREE_DIR ? 0 : gb_names_put(n, &e, &none, err);
}

const struct gb_name *gb_names_root(const struct gb_names *n)
{
	return n->root;
}

const struct gb_name *gb_names_walk(const struct gb_name *after)
{
	if (after->first)
		return after->first;
	while (after->parent != after) {
		if (after->next)
			return after->next;
		after = after->parent;
	}
	return NULL;
}

const struct gb_name *gb_names_find(const struct gb_names *n, const char *path)
{
	const struct gb_name *at = n->root;

	while (at && *path) {
		size_t part = strcspn(path, "/");

		if (part)
			at = lookup(n, at, path, part);
		path += part + (path[part] == '/');
	}
	return at;
}

int gb_inode_add_run(struct gb_inode *i, uint32_t logical, uint64_t physical,
	uint32_t count, struct gb_err *err)
{
	struct gb_run *last = i->run_count ? &i->runs[i->run_count - 1] : NULL;

	if (last && last->logical + last->count == logical &&
		last->physical + last->count == physical) {
		last->count += count;
		return 0;
	}
	if (!gb_grow(&i->runs, &i->run_cap, i->run_count + 1, sizeof(*i->runs)))
		return gb_nomem(err);
	i->runs[i->run_count++] =
		(struct gb_run){.logical = logical, .physical = physical, .count = count};
	return 0;
}

const struct gb_run *gb_names_dropped(const struct gb_names *n, size_t *ret_count)
{
	*ret_count = n->dropped_count;
	return n->dropped;
}
