/* QEMU's argument vector, as a function of what is wanted and nothing else: no file is
 * looked at, so that every line we ever run is in a table of the tests. */
#ifndef GB_VMM_QEMU_ARGS_H
#define GB_VMM_QEMU_ARGS_H

#include "base/str.h"
#include "vmm/driver.h"

enum gb_qemu_mode {
	GB_QEMU_COLD,    /* boot, with memory of its own */
	GB_QEMU_MAKE,    /* boot with the memory in a shared file, to become a template */
	GB_QEMU_REMAKE,  /* wait for a template's state, with a copy of its memory, shared: to
			    become another template */
	GB_QEMU_RESTORE, /* the template's memory mapped privately, waiting for its state */
};

/* The numbers under which the child finds what it inherits. */
enum gb_qemu_fd {
	GB_QEMU_FD_QMP = 3,
	GB_QEMU_FD_CTL = 4,
	GB_QEMU_FD_SHARE = 5,
	GB_QEMU_FD_CONSOLE = 6,
	GB_QEMU_FD_NET = 7,
	GB_QEMU_FD_STATE = 8,
	GB_QEMU_FD_MEMORY = 9,
	GB_QEMU_FD_HOT = 10,
};

#define GB_QEMU_CPUS_MAX   64u
#define GB_QEMU_MEMORY_MIN (UINT64_C(64) << 20)
#define GB_QEMU_MEMORY_MAX (UINT64_C(1) << 40)

/* Opened through the descriptor: whatever happens to the template's folder meanwhile, memory and
 * state are of one making. */
#define GB_QEMU_MEMORY_INHERITED "/proc/self/fd/9"
_Static_assert(GB_QEMU_FD_MEMORY == 9, "named in the path");

struct gb_qemu_plan {
	enum gb_qemu_mode mode;
	const struct gb_vm_spec *vm; /* borrowed */
	const char *binary;          /* borrowed; of qemu-system-* */
	const char *memory;          /* borrowed; the memory file, not for COLD; where it is
					inherited: GB_QEMU_MEMORY_INHERITED */
	unsigned tsc_khz;            /* TCG: the host's frequency; 0: let the guest find out */
};

/* Fill *ret, which must be empty. GB_E_INVALID where the plan makes no sense,
 * GB_E_UNSUPPORTED for an accelerator that this driver does not run. */
int gb_qemu_args(const struct gb_qemu_plan *p, struct gb_strv *ret, struct gb_err *err);
/* Memory as the machine gets it: whole MiB, rounded up. */
uint64_t gb_qemu_memory(uint64_t bytes);

#endif
