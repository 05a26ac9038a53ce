/* Internal to vmm: the KVM probe, with its system calls behind a table so that tests can
 * put a broken, hanging or working KVM in its place. */
#ifndef GB_VMM_ACCEL_PROBE_H
#define GB_VMM_ACCEL_PROBE_H

#include "vmm/accel.h"

#define GB_KVM_DEVICE	"/dev/kvm"
#define GB_KVM_LIMIT_MS 250 /* for the whole bare guest */

/* Called in a forked child: no allocation, no locks. Results as the system calls of the
 * same names. */
struct gb_kvm_ops {
	int (*open)(const char *path);
	int (*ioctl)(int fd, unsigned long request, unsigned long arg);
	void *(*map)(
		size_t len, int fd); /* shared, read-write; fd -1: anonymous memory */
};
extern const struct gb_kvm_ops gb_kvm_ops_real;

struct gb_kvm_verdict {
	bool usable;
	bool certain; /* worth remembering until the next boot */
	char why[160];
};

/* The stages of the bare guest, in the order in which it passes them. */
enum gb_kvm_stage {
	GB_KVM_SETUP,
	GB_KVM_CMPXCHG16B,
	GB_KVM_INT3,
	GB_KVM_XSAVE,
	GB_KVM_LOOP,
	GB_KVM_STAGES,
};

/* What the child writes to its parent; outcome is what stopped the guest in that stage.
 */
enum gb_kvm_outcome {
	GB_KVM_OK,
	GB_KVM_CALL_FAILED, /* detail: errno; what: the call */
	GB_KVM_BAD_EXIT,    /* detail: the exit reason of KVM_RUN */
	GB_KVM_WRONG,	    /* the guest saw a wrong result */
};
struct gb_kvm_report {
	enum gb_kvm_stage stage;
	enum gb_kvm_outcome outcome;
	int detail;
	char what[32];
};

/* Build and run the bare guest in this process. Does not come back if the guest hangs. */
void gb_kvm_run_guest(
	const struct gb_kvm_ops *ops, const char *device, struct gb_kvm_report *ret);

/* Run it in a child that is killed after limit_ms. Always returns, within twice the
 * limit. */
void gb_kvm_probe(const struct gb_kvm_ops *ops, const char *device, uint64_t limit_ms,
	struct gb_kvm_verdict *ret);

/* gb_accel_resolve over another KVM, with another limit. */
int gb_accel_resolve_with(const struct gb_kvm_ops *ops, const char *device,
	uint64_t limit_ms, enum gb_accel want, const char *cache_dir,
	struct gb_accel_result *ret, struct gb_err *err);

#endif
