/* A distribution's kernel is a bzImage: a small program that unpacks the real one,
 * vmlinux. Booting vmlinux by PVH skips that, which under emulation is most of a second.
 *
 * The setup header of a bzImage (Documentation/x86/boot.rst of the kernel):
 *   1f1 setup sectors   202 "HdrS"   206 protocol version   20e offset of the version
 * text 248 payload offset  24c payload length; both count from the protected-mode part
 * The payload's last four bytes are the size of what it unpacks to; with gzip they belong
 * to the format, other formats have them after their end. */
#include "vmm/bundle_parts.h"

#include <elf.h>
#include <string.h>

#define SETUP_SECTS	 0x1f1
#define SETUP_MAGIC	 0x202
#define SETUP_PROTOCOL	 0x206
#define SETUP_VERSION	 0x20e
#define SETUP_PAYLOAD	 0x248
#define SETUP_END	 0x250
#define PROTOCOL_PAYLOAD 0x0208 /* the first with a payload offset */
#define SECTOR		 512

#define XEN_OWNER	      "Xen"
#define XEN_PHYS32_ENTRY_NOTE 18 /* XEN_ELFNOTE_PHYS32_ENTRY */

#define BANNER "Linux version "

static uint32_t get_le(const uint8_t *p, size_t bytes)
{
	uint32_t v = 0;

	while (bytes--)
		v = v << 8 | p[bytes];
	return v;
}

void gb_kernel_done(struct gb_kernel *k)
{
	gb_buf_done(&k->image);
}

/* The first word of text, which need not end within len. */
static bool take_release(struct gb_kernel *k, const uint8_t *text, size_t len)
{
	size_t n = 0;

	while (n < len && text[n] > ' ' && text[n] < 0x7f)
		n++;
	if (n == 0 || n == len || n >= sizeof(k->release))
		return false;
	memcpy(k->release, text, n);
	k->release[n] = 0;
	return true;
}

static bool is_bzimage(const struct gb_buf *f)
{
	return f->len >= SETUP_END && memcmp(f->data + SETUP_MAGIC, "HdrS", 4) == 0;
}

static int bzimage_release(
	const struct gb_buf *f, struct gb_kernel *ret, struct gb_err *err)
{
	size_t at = SECTOR + (size_t)get_le(f->data + SETUP_VERSION, 2);

	if (at >= f->len || !take_release(ret, f->data + at, f->len - at))
		return gb_fail(err, GB_E_PARSE, "the kernel does not say its version");
	return 0;
}

static int unpack_payload(const struct gb_buf *f, struct gb_buf *ret, struct gb_err *err)
{
	uint8_t sectors = f->data[SETUP_SECTS];
	size_t start = ((sectors ? sectors : 4U) + 1U) * (size_t)SECTOR;
	uint64_t offset = start + (uint64_t)get_le(f->data + SETUP_PAYLOAD, 4);
	size_t len = get_le(f->data + SETUP_PAYLOAD + 4, 4);
	const uint8_t *payload;
	size_t size;
	int r;

	if (len < 8 || offset > f->len || len > f->len - offset)
		return gb_fail(
			err, GB_E_PARSE, "the kernel's payload is not within the file");
	payload = f->data + offset;
	size = get_le(payload + len - 4, 4);
	if (size > GB_KERNEL_MAX)
		return gb_fail(
			err, GB_E_LIMIT, "over %zu bytes when unpacked", GB_KERNEL_MAX);
	if (payload[0] != 0x1f || payload[1] != 0x8b)
		len -= 4;
	r = gb_unpack(payload, len, size, ret, err);
	if (r == 0 && ret->len != size)
		r = gb_fail(err, GB_E_PARSE, "damaged compressed data");
	return r < 0 ? gb_wrap(err, r, "the kernel's payload") : 0;
}

static bool boots_by_pvh(const struct gb_buf *image)
{
	return gb_elf_has_note(image->data, image->len, XEN_OWNER, XEN_PHYS32_ENTRY_NOTE);
}

static int read_bzimage(struct gb_buf *file, struct gb_kernel *ret, struct gb_err *err)
{
	gb_auto_done(gb_buf) vmlinux = {0};
	int r = bzimage_release(file, ret, err);

	if (r < 0)
		return r;
	if (get_le(file->data + SETUP_PROTOCOL, 2) >= PROTOCOL_PAYLOAD) {
		r = unpack_payload(file, &vmlinux, err);
		/* a packing we cannot read is no reason not to boot the bzImage */
		if (r < 0 && r != GB_E_UNSUPPORTED)
			return r;
		ret->pvh = r == 0 && boots_by_pvh(&vmlinux);
	}
	ret->image = ret->pvh ? vmlinux : *file;
	if (ret->pvh)
		memset(&vmlinux, 0, sizeof(vmlinux));
	else
		memset(file, 0, sizeof(*file));
	return 0;
}

static int read_vmlinux(struct gb_buf *file, struct gb_kernel *ret, struct gb_err *err)
{
	const uint8_t *at = memmem(file->data, file->len, BANNER, strlen(BANNER));

	if (!boots_by_pvh(file))
		return gb_fail(err, GB_E_UNSUPPORTED,
			"this vmlinux cannot be booted directly (built without "
			"CONFIG_PVH): "
			"give its vmlinuz (bzImage) instead");
	if (at)
		at += strlen(BANNER);
	if (!at || !take_release(ret, at, (size_t)(file->data + file->len - at)))
		return gb_fail(err, GB_E_PARSE, "the kernel does not say its version");
	ret->pvh = true;
	ret->image = *file;
	memset(file, 0, sizeof(*file));
	return 0;
}

int gb_kernel_read_consume(struct gb_buf *file, struct gb_kernel *ret, struct gb_err *err)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	if (is_bzimage(file))
		r = read_bzimage(file, ret, err);
	else if (gb_elf_valid(file->data, file->len))
		r = read_vmlinux(file, ret, err);
	else
		r = gb_fail(err, GB_E_UNSUPPORTED,
			"neither an x86 bzImage nor a 64-bit ELF kernel");
	gb_buf_done(file);
	return r;
}
