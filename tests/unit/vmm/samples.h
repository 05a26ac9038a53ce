/* Small kernels and modules, made up as bytes. */
#ifndef GB_TESTS_VMM_SAMPLES_H
#define GB_TESTS_VMM_SAMPLES_H

#include "base/buf.h"

#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <string.h>

#define SAMPLE_RELEASE "6.1.0-test"

static inline void sample_u32(struct gb_buf *b, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		gb_buf_add_byte(b, (uint8_t)(v >> 8 * i));
}

static inline Elf64_Ehdr sample_elf_header(uint16_t type)
{
	Elf64_Ehdr h = {.e_type = type, .e_machine = EM_X86_64, .e_version = 1};

	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	return h;
}

/* A module whose .modinfo is info, with '|' for each NUL. */
static inline void sample_module(struct gb_buf *b, const char *info)
{
	static const char names[] = "\0.modinfo\0.shstrtab";
	Elf64_Ehdr h = sample_elf_header(ET_REL);
	size_t len = strlen(info);
	Elf64_Shdr s[3] = {{0},
		{.sh_name = 1,
			.sh_type = SHT_PROGBITS,
			.sh_offset = sizeof(h),
			.sh_size = len},
		{.sh_name = 10,
			.sh_type = SHT_STRTAB,
			.sh_offset = sizeof(h) + len,
			.sh_size = sizeof(names)}};

	h.e_shoff = sizeof(h) + len + sizeof(names);
	h.e_shentsize = sizeof(s[0]);
	h.e_shnum = 3;
	h.e_shstrndx = 2;
	gb_buf_add(b, &h, sizeof(h));
	for (size_t i = 0; i < len; i++)
		gb_buf_add_byte(b, info[i] == '|' ? 0 : (uint8_t)info[i]);
	gb_buf_add(b, names, sizeof(names));
	gb_buf_add(b, s, sizeof(s));
}

/* A vmlinux that says its version; with the note by which PVH finds its entry, or not. */
static inline void sample_vmlinux(struct gb_buf *b, bool pvh)
{
	static const char banner[] = "Linux version " SAMPLE_RELEASE " (somebody)";
	Elf64_Ehdr h = sample_elf_header(ET_EXEC);
	Elf64_Phdr p = {
		.p_type = PT_NOTE, .p_offset = sizeof(h) + sizeof(p), .p_filesz = 20};

	h.e_phoff = sizeof(h);
	h.e_phentsize = sizeof(p);
	h.e_phnum = 1;
	gb_buf_add(b, &h, sizeof(h));
	gb_buf_add(b, &p, sizeof(p));
	sample_u32(b, 4);
	sample_u32(b, 4);
	sample_u32(b, pvh ? 18 : 5);
	gb_buf_add(b, "Xen", 4);
	sample_u32(b, 0x1000000);
	gb_buf_add(b, banner, sizeof(banner));
	for (int i = 0; i < 1000; i++)
		sample_u32(b, (uint32_t)i * 7);
}

enum sample_packing {
	PACK_NONE,
	PACK_GZIP,
	PACK_BZIP2,
	PACK_XZ,
	PACK_LZMA,
	PACK_ZSTD,
	PACK_LZ4
};

/* The kernel's kind of lz4 (the old frame format), all of it literals. */
static inline void sample_lz4(struct gb_buf *ret, const uint8_t *data, size_t len)
{
	size_t more = len - 15;

	sample_u32(ret, 0x184c2102);
	sample_u32(ret, (uint32_t)(1 + more / 255 + 1 + len));
	gb_buf_add_byte(ret, 0xf0);
	for (size_t i = 0; i < more / 255; i++)
		gb_buf_add_byte(ret, 255);
	gb_buf_add_byte(ret, (uint8_t)(more % 255));
	gb_buf_add(ret, data, len);
}

static inline bool sample_pack(
	struct gb_buf *ret, enum sample_packing how, const uint8_t *data, size_t len)
{
	static const char *const filters[] = {[PACK_GZIP] = "gzip",
		[PACK_BZIP2] = "bzip2",
		[PACK_XZ] = "xz",
		[PACK_LZMA] = "lzma",
		[PACK_ZSTD] = "zstd"};
	struct archive *a;
	struct archive_entry *e;
	size_t used = 0;
	bool ok;

	if (how == PACK_NONE || how == PACK_LZ4) {
		if (how == PACK_LZ4)
			sample_lz4(ret, data, len);
		else
			gb_buf_add(ret, data, len);
		return !ret->error;
	}
	a = archive_write_new();
	e = archive_entry_new();
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_pathname(e, "x");
	archive_write_set_bytes_in_last_block(a, 1);
	ok = archive_write_set_format_raw(a) == ARCHIVE_OK &&
	     archive_write_add_filter_by_name(a, filters[how]) == ARCHIVE_OK &&
	     gb_buf_reserve(ret, len + 65536) &&
	     archive_write_open_memory(a, ret->data, len + 65536, &used) == ARCHIVE_OK &&
	     archive_write_header(a, e) == ARCHIVE_OK &&
	     archive_write_data(a, data, len) == (la_ssize_t)len &&
	     archive_write_close(a) == ARCHIVE_OK;
	archive_entry_free(e);
	archive_write_free(a);
	ret->len = used;
	return ok;
}

#define SAMPLE_PAYLOAD_AT 1024

/* One setup sector, the version text in it, then the packed payload. */
static inline bool sample_bzimage(
	struct gb_buf *b, const struct gb_buf *vmlinux, enum sample_packing how)
{
	static const char version[] = SAMPLE_RELEASE " (somebody) #1";
	uint8_t setup[SAMPLE_PAYLOAD_AT] = {0};
	struct gb_buf packed = {0};
	bool ok = sample_pack(&packed, how, vmlinux->data, vmlinux->len);
	uint32_t len;

	if (how != PACK_GZIP)
		sample_u32(&packed, (uint32_t)vmlinux->len);
	len = (uint32_t)packed.len;
	setup[0x1f1] = 1;
	memcpy(setup + 0x202, "HdrS", 4);
	setup[0x206] = 0x0f;
	setup[0x207] = 0x02;
	setup[0x20f] = 0x01; /* 0x100 past the first sector */
	memcpy(setup + 0x300, version, sizeof(version));
	memcpy(setup + 0x24c, &len, sizeof(len));
	gb_buf_add(b, setup, sizeof(setup));
	gb_buf_add(b, packed.data, packed.len);
	gb_buf_done(&packed);
	return ok && !b->error;
}

#endif
