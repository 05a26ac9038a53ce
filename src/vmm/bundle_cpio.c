/* An entry: "070701", thirteen numbers of eight hex digits, the name with its NUL padded
 * to a multiple of four (with the header), then the data padded likewise. */
#include "vmm/bundle_parts.h"

#include <string.h>
#include <sys/stat.h>

#define NEWC_MAGIC "070701"

static void pad(struct gb_cpio *c)
{
	while (c->b->len % 4 && !c->b->error)
		gb_buf_add_byte(c->b, 0);
}

struct entry {
	const char *path;
	uint32_t mode;
	uint32_t links;
	uint32_t size;
	uint32_t major;
	uint32_t minor;
};

static void header(struct gb_cpio *c, const struct entry *e)
{
	uint32_t name_size = (uint32_t)strlen(e->path) + 1;
	const uint32_t fields[] = {c->next_inode++, e->mode, 0, 0, e->links, 0, e->size,
		0, 0, e->major, e->minor, name_size, 0};

	gb_buf_add_str(c->b, NEWC_MAGIC);
	for (size_t i = 0; i < GB_ARRAY_SIZE(fields); i++)
		gb_buf_printf(c->b, "%08X", fields[i]);
	gb_buf_add(c->b, e->path, name_size);
	pad(c);
}

void gb_cpio_folder(struct gb_cpio *c, const char *path)
{
	header(c, &(struct entry){.path = path, .mode = S_IFDIR | 0755, .links = 2});
}

void gb_cpio_file(
	struct gb_cpio *c, const char *path, uint32_t mode, const void *data, size_t len)
{
	if (len > UINT32_MAX) {
		c->b->error = GB_E_LIMIT;
		return;
	}
	header(c, &(struct entry){.path = path,
			  .mode = S_IFREG | mode,
			  .links = 1,
			  .size = (uint32_t)len});
	gb_buf_add(c->b, data, len);
	pad(c);
}

void gb_cpio_char_device(struct gb_cpio *c, const char *path, uint32_t mode,
	uint32_t major, uint32_t minor)
{
	header(c, &(struct entry){.path = path,
			  .mode = S_IFCHR | mode,
			  .links = 1,
			  .major = major,
			  .minor = minor});
}

void gb_cpio_end(struct gb_cpio *c)
{
	header(c, &(struct entry){.path = "TRAILER!!!", .links = 1});
}
