/* The QEMU driver: how a machine is started and listened to. A cold boot runs as soon as
 * QEMU's main loop does; asking for the status is enough to know. */
#include "base/clock.h"
#include "base/fd.h"
#include "vmm/qemu/host.h"
#include "vmm/qemu/prefault.h"
#include "vmm/qemu/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BOOT_COMMANDS "{\"execute\":\"qmp_capabilities\"}{\"execute\":\"query-status\"}"

static int start_cold(struct gb_vm *vm, uint64_t deadline_ns, struct gb_err *err)
{
	json_auto_t *status = NULL;
	const char *word;
	int r = gb_qmp_send(&vm->qmp, BOOT_COMMANDS, deadline_ns, err);

	if (r == 0)
		r = gb_qmp_answer(&vm->qmp, deadline_ns, NULL, err);
	if (r == 0)
		r = gb_qmp_answer(&vm->qmp, deadline_ns, &status, err);
	if (r < 0)
		return gb_qemu_explain_closed(vm, r, GB_E_IO, err);
	word = json_string_value(json_object_get(status, "status"));
	if (!word || strcmp(word, "running") != 0)
		return gb_fail(err, GB_E_STATE,
			"qemu did not start the machine: it is '%s'", word ? word : "?");
	vm->running = true;
	return 0;
}

/* The template's files; what is wrong with them is GB_E_STATE: another can be made. */
static int open_template(
	const struct gb_vm_spec *spec, struct gb_qemu_files *ret, struct gb_err *err)
{
	gb_auto_fd dir = -1;
	struct stat st;

	if (spec->disk_readonly)
		return gb_fail(err, GB_E_INVALID,
			"a read-only disk cannot be given to a restored machine");
	dir = open(spec->template_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ret->memory = dir < 0 ? -1 : openat(dir, "memory", O_RDONLY | O_CLOEXEC);
	if (ret->memory < 0 || fstat(ret->memory, &st) < 0)
		return gb_fail(err, GB_E_STATE, "template without memory in '%s'",
			spec->template_path);
	if ((uint64_t)st.st_size != gb_qemu_memory(spec->memory_bytes))
		return gb_fail(err, GB_E_STATE,
			"the template's memory in '%s' has a wrong size",
			spec->template_path);
	ret->state = openat(dir, "state", O_RDONLY | O_CLOEXEC);
	if (ret->state < 0)
		return gb_fail(err, GB_E_STATE, "template without state in '%s'",
			spec->template_path);
	ret->hot = openat(dir, GB_HOT_FILE, O_RDONLY | O_CLOEXEC);
	return 0;
}

static int do_meanwhile(const struct gb_vm_spec *spec, struct gb_err *err)
{
	return spec->meanwhile ? spec->meanwhile(spec->ctx, err) : 0;
}

static int start_restored(const struct gb_vm_spec *spec, struct gb_qemu_plan *plan,
	uint64_t deadline_ns, struct gb_vm **ret, struct gb_err *err)
{
	struct gb_qemu_files files = GB_QEMU_FILES_INIT;
	uint64_t disk_size = 0;
	struct gb_vm *vm = NULL;
	int r = 0;

	plan->mode = GB_QEMU_RESTORE;
	plan->memory = GB_QEMU_MEMORY_INHERITED;
	if (!spec->template_root)
		r = gb_qemu_disk_size(spec, &disk_size, err);
	if (r == 0)
		r = open_template(spec, &files, err);
	if (r == 0)
		r = gb_qemu_vm_start(plan, &files, &vm, err);
	gb_qemu_files_done(&files);
	if (r == 0)
		r = do_meanwhile(spec, err);
	if (r == 0)
		r = gb_qemu_restore(vm, disk_size, deadline_ns, err);
	*ret = vm;
	return r;
}

static int start_booted(struct gb_qemu_plan *plan, uint64_t deadline_ns,
	struct gb_vm **ret, struct gb_err *err)
{
	int r;

	if (plan->vm->accel == GB_ACCEL_TCG)
		plan->tsc_khz = gb_host_tsc_khz(NULL);
	r = gb_qemu_vm_start(plan, NULL, ret, err);
	if (r == 0)
		r = do_meanwhile(plan->vm, err);
	return r == 0 ? start_cold(*ret, deadline_ns, err) : r;
}

static int driver_start(const struct gb_vm_spec *spec, uint64_t deadline_ns,
	struct gb_vm **ret, struct gb_err *err)
{
	struct gb_qemu_plan plan = {.vm = spec};
	gb_auto_free char *binary = NULL;
	struct gb_vm *vm = NULL;
	int r = gb_qemu_binary(&binary, err);

	if (r < 0)
		return r;
	plan.binary = binary;
	r = spec->template_path ? start_restored(spec, &plan, deadline_ns, &vm, err)
				: start_booted(&plan, deadline_ns, &vm, err);
	if (r < 0) {
		gb_qemu_vm_free(vm);
		return r;
	}
	/* what came with the answers must not wait for more to come */
	gb_qemu_vm_drain(vm);
	*ret = vm;
	return 0;
}

static pid_t driver_pid(const struct gb_vm *vm)
{
	return vm->pid;
}

static int driver_event_fd(const struct gb_vm *vm)
{
	return vm->epoll;
}

static int driver_next_event(
	struct gb_vm *vm, struct gb_vm_event *ret, struct gb_err *err)
{
	/* what tells why comes before the end itself */
	static const enum gb_vm_event_kind order[] = {
		GB_VM_GUEST_OFF, GB_VM_DISK_FULL, GB_VM_DISK_ERROR, GB_VM_EXITED};

	(void)err;
	gb_qemu_vm_drain(vm);
	for (size_t i = 0; i < GB_ARRAY_SIZE(order); i++) {
		unsigned bit = 1u << order[i];

		if (!(vm->events & bit))
			continue;
		vm->events &= ~bit;
		ret->kind = order[i];
		ret->status = order[i] == GB_VM_EXITED ? vm->status : 0;
		return 1;
	}
	gb_qemu_vm_clear_wake(vm);
	return 0;
}

static int driver_resume(struct gb_vm *vm, struct gb_err *err)
{
	if (vm->reaped || vm->qmp.fd < 0)
		return gb_fail(err, GB_E_STATE, "the machine is not running");
	vm->ignored++;
	return gb_qmp_send(&vm->qmp, "{\"execute\":\"cont\"}", gb_now_ns(), err);
}

const struct gb_driver gb_driver_qemu = {
	.name = "qemu",
	.start = driver_start,
	.pid = driver_pid,
	.event_fd = driver_event_fd,
	.next_event = driver_next_event,
	.resume = driver_resume,
	.kill = gb_qemu_vm_kill,
	.free = gb_qemu_vm_free,
};
