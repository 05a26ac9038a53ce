/* Internal: a QEMU that was started to wait for a template's state. */
#ifndef GB_VMM_QEMU_RESTORE_H
#define GB_VMM_QEMU_RESTORE_H

#include "vmm/qemu/vm.h"

/* Read the state from GB_QEMU_FD_STATE and run. disk_size: what the guest is told that its
 * disk has; 0: it knows. */
int gb_qemu_restore(struct gb_vm *vm, uint64_t disk_size, uint64_t deadline_ns,
	struct gb_err *err);
/* The size of spec's disk as the guest sees it. */
int gb_qemu_disk_size(const struct gb_vm_spec *spec, uint64_t *ret, struct gb_err *err);
/* Turn the failure r of the monitor into the reason, which QEMU printed: then code. */
int gb_qemu_explain_closed(struct gb_vm *vm, int r, int code, struct gb_err *err);

#endif
