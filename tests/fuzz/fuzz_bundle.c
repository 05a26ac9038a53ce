/* Kernels and modules as packages bring them: a bzImage or vmlinux, then the same bytes as a
 * module's ELF file. */
#include "vmm/bundle_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	gb_auto_done(gb_kernel) kernel = {0};
	struct gb_buf file = {0};
	const uint8_t *section = NULL;
	size_t len = 0;

	if (gb_elf_section(data, size, ".modinfo", &section, &len, NULL) == 0 &&
		(section < data || len > size || section + len > data + size))
		abort();
	gb_elf_has_note(data, size, "Xen", 18);
	gb_buf_add(&file, data, size);
	if (gb_kernel_read_consume(&file, &kernel, NULL) == 0 && !kernel.release[0])
		abort();
	return 0;
}
