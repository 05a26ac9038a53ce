/* ELF files as far as bundles need them. They come from packages that somebody else
 * built: every offset is checked against the file before it is followed. */
#include "vmm/bundle_parts.h"

#include <elf.h>
#include <string.h>

#define ELF_SEGMENTS_MAX 1024 /* looked at for notes */

static bool in_file(size_t len, uint64_t offset, uint64_t size)
{
	return offset <= len && size <= len - offset;
}

static bool read_header(const uint8_t *data, size_t len, Elf64_Ehdr *ret)
{
	if (len < sizeof(*ret))
		return false;
	memcpy(ret, data, sizeof(*ret));
	return memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0 &&
	       ret->e_ident[EI_CLASS] == ELFCLASS64 &&
	       ret->e_ident[EI_DATA] == ELFDATA2LSB;
}

bool gb_elf_valid(const uint8_t *data, size_t len)
{
	Elf64_Ehdr h;

	return read_header(data, len, &h);
}

static bool section_at(
	const uint8_t *data, size_t len, const Elf64_Ehdr *h, unsigned i, Elf64_Shdr *ret)
{
	if (i >= h->e_shnum || h->e_shentsize != sizeof(*ret) ||
		!in_file(len, h->e_shoff, (uint64_t)h->e_shnum * sizeof(*ret)))
		return false;
	memcpy(ret, data + h->e_shoff + i * sizeof(*ret), sizeof(*ret));
	return ret->sh_type == SHT_NOBITS || in_file(len, ret->sh_offset, ret->sh_size);
}

int gb_elf_section(const uint8_t *data, size_t len, const char *name, const uint8_t **ret,
	size_t *ret_len, struct gb_err *err)
{
	Elf64_Ehdr h;
	Elf64_Shdr names;
	Elf64_Shdr s;
	size_t want = strlen(name) + 1;

	if (!read_header(data, len, &h) ||
		!section_at(data, len, &h, h.e_shstrndx, &names) ||
		names.sh_type == SHT_NOBITS)
		return gb_fail(err, GB_E_PARSE, "not a 64-bit ELF file with sections");
	for (unsigned i = 0; i < h.e_shnum; i++) {
		if (!section_at(data, len, &h, i, &s))
			return gb_fail(err, GB_E_PARSE, "damaged ELF section %u", i);
		if (s.sh_type == SHT_NOBITS || !in_file(names.sh_size, s.sh_name, want) ||
			memcmp(data + names.sh_offset + s.sh_name, name, want) != 0)
			continue;
		*ret = data + s.sh_offset;
		*ret_len = s.sh_size;
		return 0;
	}
	return gb_fail(err, GB_E_NOTFOUND, "no ELF section '%s'", name);
}

/* Notes: owner's length, content's length, type, then both, each padded to four bytes. */
static bool notes_have(const uint8_t *data, size_t len, const char *owner, uint32_t type)
{
	size_t owner_size = strlen(owner) + 1;

	while (len >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		uint64_t size;

		memcpy(&n, data, sizeof(n));
		size = sizeof(n) + (((uint64_t)n.n_namesz + 3) & ~UINT64_C(3)) +
		       (((uint64_t)n.n_descsz + 3) & ~UINT64_C(3));
		if (in_file(len, sizeof(n), n.n_namesz) && n.n_type == type &&
			n.n_namesz == owner_size &&
			memcmp(data + sizeof(n), owner, owner_size) == 0)
			return true;
		if (size > len)
			return false;
		data += size;
		len -= size;
	}
	return false;
}

bool gb_elf_has_note(const uint8_t *data, size_t len, const char *owner, uint32_t type)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;

	if (!read_header(data, len, &h) || h.e_phentsize != sizeof(p) ||
		h.e_phnum > ELF_SEGMENTS_MAX ||
		!in_file(len, h.e_phoff, (uint64_t)h.e_phnum * sizeof(p)))
		return false;
	for (unsigned i = 0; i < h.e_phnum; i++) {
		memcpy(&p, data + h.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_NOTE && in_file(len, p.p_offset, p.p_filesz) &&
			notes_have(data + p.p_offset, p.p_filesz, owner, type))
			return true;
	}
	return false;
}
