/* A tar archive, however damaged, into a tree of names: every limit holds, nothing is
 * read or written out of bounds, and it ends: work is cut off after so many entries and
 * bytes. */
#include "image/names.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES_MAX 2000
#define BYTES_MAX   (UINT64_C(4) << 20)

struct input {
	const uint8_t *data;
	size_t len;
};

static int read_input(
	void *ctx, void *data, size_t len, size_t *ret_len, struct gb_err *err)
{
	struct input *in = ctx;

	(void)err;
	*ret_len = GB_MIN(GB_MIN(len, (size_t)4096), in->len);
	memcpy(data, in->data, *ret_len);
	in->data += *ret_len;
	in->len -= *ret_len;
	return 0;
}

static int take_content(
	struct gb_tree_source *source, struct gb_inode *inode, uint64_t *bytes)
{
	const void *data;
	size_t len;
	uint64_t offset;
	uint64_t end = 0;
	volatile uint8_t sum = 0;
	int r;

	while ((r = source->ops->data(source, &data, &len, &offset, NULL)) > 0) {
		if (offset < end || offset + len < offset)
			abort(); /* offsets rise */
		end = offset + len;
		for (size_t i = 0; i < len; i += 64)
			sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
		*bytes += len;
		if (*bytes > BYTES_MAX || end > inode->size)
			return -1;
		if (gb_inode_add_run(inode, (uint32_t)(offset / 4096), offset / 4096 + 1,
			    1, NULL) < 0)
			return -1;
	}
	return r;
}

/* What the writer relies on. */
static void check_tree(const struct gb_names *names)
{
	size_t count = 0;

	for (const struct gb_name *c = gb_names_root(names); c; c = gb_names_walk(c)) {
		if (c->parent->inode->type != GB_TREE_DIR || strlen(c->text) != c->len ||
			strchr(c->text, '/') || strcmp(c->text, ".") == 0 ||
			strcmp(c->text, "..") == 0 || c->inode->links == 0 ||
			c->inode->type == GB_TREE_HARDLINK ||
			++count > ENTRIES_MAX * 2100)
			abort();
		if (c->parent != c && c->len == 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .len = size};
	struct gb_tree_reader reader = {.read = read_input, .ctx = &in};
	gb_auto(gb_tree_source) *source = NULL;
	gb_auto(gb_names) *names = NULL;
	struct gb_tree_entry entry;
	uint64_t bytes = 0;

	if (gb_names_new(0, &names, NULL) < 0 ||
		gb_tree_tar_open(&reader, &source, NULL) < 0)
		return 0;
	for (int i = 0; i < ENTRIES_MAX && source->ops->next(source, &entry, NULL) > 0;
		i++) {
		struct gb_inode *inode = NULL;

		if (gb_names_put(names, &entry, &inode, NULL) < 0)
			break;
		if (inode && take_content(source, inode, &bytes) < 0)
			break;
	}
	check_tree(names);
	return 0;
}
