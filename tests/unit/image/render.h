/* A tree of names as text, a line a name, for comparing. */
#ifndef GB_TEST_IMAGE_RENDER_H
#define GB_TEST_IMAGE_RENDER_H

#include "base/buf.h"
#include "image/names.h"

#include <string.h>

static inline void render_path(struct gb_buf *b, const struct gb_name *c)
{
	if (c->parent != c && c->parent->parent != c->parent) {
		render_path(b, c->parent);
		gb_buf_add_byte(b, '/');
	}
	if (c->parent == c)
		gb_buf_add_byte(b, '.');
	else if (c->len > 40)
		gb_buf_printf(b, "%.4s*%d", c->text, c->len);
	else
		gb_buf_add_str(b, c->text);
}

/* "bin/app -4755 0:0 1 x2": kind and mode, owners, size, names if there are more; "-> to". */
static inline void render_tree(struct gb_buf *b, const struct gb_names *names)
{
	for (const struct gb_name *c = gb_names_root(names); c; c = gb_names_walk(c)) {
		const struct gb_inode *i = c->inode;

		render_path(b, c);
		gb_buf_printf(b, " %c%04o %u:%u %llu", "-dlhcbp"[i->type], i->mode, i->uid,
			i->gid, (unsigned long long)i->size);
		if (i->links > 1)
			gb_buf_printf(b, " x%u", i->links);
		if (i->target && strlen(i->target) <= 40)
			gb_buf_printf(b, " -> %s", i->target);
		if (i->type == GB_TREE_CHAR || i->type == GB_TREE_BLOCK)
			gb_buf_printf(b, " %u,%u", i->dev_major, i->dev_minor);
		gb_buf_add_byte(b, '\n');
	}
	gb_buf_add_byte(b, 0);
}

#endif
