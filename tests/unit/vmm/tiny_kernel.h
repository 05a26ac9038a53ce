/* Guests of a few bytes: a PVH kernel that halts, talks, or faults until the machine resets.
 * No kernel package is needed to run them. */
#ifndef GB_TESTS_TINY_KERNEL_H
#define GB_TESTS_TINY_KERNEL_H

#include "../tmpdir.h"
#include "base/fd.h"

#include <elf.h>
#include <string.h>

#define LOAD_AT    0x100000u
#define NOTE_ENTRY 18 /* XEN_ELFNOTE_PHYS32_ENTRY */

/* cli; hlt; jmp back to hlt */
static GB_UNUSED const uint8_t code_halt[] = { 0xfa, 0xf4, 0xeb, 0xfd };
/* lidt of zeroes (behind the code); int3: a triple fault */
static GB_UNUSED const uint8_t code_fault[] = { 0x0f, 0x01, 0x1d, 0x10, 0x00, 0x10, 0x00, 0xcc };
/* "hi" to the serial port, then halt */
static GB_UNUSED const uint8_t code_talk[] = { 0x66, 0xba, 0xf8, 0x03, 0xb0, 'h', 0xee, 0xb0, 'i', 0xee,
	0xb0, '\n', 0xee, 0xfa, 0xf4, 0xeb, 0xfd };

/* "no\n" to the serial port, then a triple fault as above */
static GB_UNUSED const uint8_t code_die[] = { 0x66, 0xba, 0xf8, 0x03, 0xb0, 'n', 0xee, 0xb0, 'o',
	0xee, 0xb0, '\n', 0xee, 0x0f, 0x01, 0x1d, 0x20, 0x00, 0x10, 0x00, 0xcc };

struct kernel {
	Elf64_Ehdr head;
	Elf64_Phdr segments[2];
	struct {
		Elf64_Nhdr head;
		char name[4];
		uint32_t entry;
	} note;
	uint8_t code[64];
};

static inline int write_kernel(const struct tmpdir *t, const uint8_t *code, size_t len)
{
	struct kernel k = {
		.head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			.e_entry = LOAD_AT, .e_phoff = offsetof(struct kernel, segments),
			.e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2 },
		.segments = { { .p_type = PT_LOAD, .p_flags = PF_R | PF_X,
				      .p_offset = offsetof(struct kernel, code), .p_vaddr = LOAD_AT,
				      .p_paddr = LOAD_AT, .p_filesz = 64, .p_memsz = 64 },
			{ .p_type = PT_NOTE, .p_offset = offsetof(struct kernel, note),
				.p_filesz = sizeof(k.note), .p_memsz = sizeof(k.note), .p_align = 4 } },
		.note = { { 4, 4, NOTE_ENTRY }, "Xen", LOAD_AT },
	};

	memcpy(k.code, code, len);
	if (gb_file_write_atomic(t->fd, "kernel", &k, sizeof(k), 0600, NULL) < 0)
		return -1;
	return gb_file_write_atomic(t->fd, "initramfs", "x", 1, 0600, NULL);
}

#endif
