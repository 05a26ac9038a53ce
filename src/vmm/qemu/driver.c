/* The QEMU driver: how a machine is started and listened to.
 *
 * A cold boot runs as soon as QEMU's main loop does; asking for the status is enough to
 * know. A restore is told to read the template's state after the one capability that
 * cannot be set on the command line; all commands leave in one write. QEMU then goes
 *
 *   inmigrate --state read--> disks activated --> running (event RESUME), migration
 * completed |                         | | state unfit: exits      | disk locked by
 * another: paused, migration completed
 *
 * Disks are activated late, so a disk that is in use shows up only there. The guest's
 * block driver has seen the template's placeholder of no size: after RESUME the true size
 * is told (block_resize to what it is already), which reaches the guest as a config
 * change. */
#include "base/clock.h"
#include "base/fd.h"
#include "vmm/qemu/host.h"
#include "vmm/qemu/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RESTORE_COMMANDS                                                                 \
	"{\"execute\":\"qmp_capabilities\"}"                                             \
	"{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":["    \
	"{\"capability\":\"x-ignore-shared\",\"state\":true},"                           \
	"{\"capability\":\"events\",\"state\":true}]}}"                                  \
	"{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"fd:8\"}}"
_Static_assert(GB_QEMU_FD_STATE == 8, "named in the command");

#define BOOT_COMMANDS "{\"execute\":\"qmp_capabilities\"}{\"execute\":\"query-status\"}"

/* Turn a failure of the monitor into the reason, which QEMU printed. */
static int explain(struct gb_vm *vm, int r, int code, struct gb_err *err)
{
	return r == GB_E_CLOSED ? gb_qemu_vm_explain(vm, code, err) : r;
}

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
		return explain(vm, r, GB_E_IO, err);
	word = json_string_value(json_object_get(status, "status"));
	if (!word || strcmp(word, "running") != 0)
		return gb_fail(err, GB_E_STATE,
			"qemu did not start the machine: it is '%s'", word ? word : "?");
	vm->running = true;
	return 0;
}

/* The size of a disk as the guest sees it. */
static int virtual_size(const struct gb_vm_spec *spec, uint64_t *ret, struct gb_err *err)
{
	gb_auto_fd fd = open(spec->disk, O_RDONLY | O_CLOEXEC);
	uint8_t head[32];
	uint64_t size = 0;
	off_t end;

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open disk '%s'", spec->disk);
	if (spec->disk_format == GB_DISK_RAW) {
		end = lseek(fd, 0, SEEK_END);
		if (end < 0)
			return gb_fail_sys(
				err, errno, "cannot size disk '%s'", spec->disk);
		*ret = (uint64_t)end / 512 * 512;
		return 0;
	}
	if (pread(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
		memcmp(head, "QFI\xfb", 4) != 0)
		return gb_fail(
			err, GB_E_PARSE, "disk '%s' is not a qcow2 file", spec->disk);
	for (int i = 24; i < 32; i++)
		size = size << 8 | head[i];
	*ret = size;
	return 0;
}

static int restore_wait(struct gb_vm *vm, uint64_t deadline_ns, struct gb_err *err)
{
	struct gb_qmp_message m;
	int r;

	while (!vm->running) {
		r = gb_qmp_next(&vm->qmp, &m, err);
		if (r < 0)
			return explain(vm, r, GB_E_STATE, err);
		if (r == 1) {
			gb_qmp_message_done(&m);
			return gb_fail(
				err, GB_E_PROTOCOL, "qemu answered what was not asked");
		}
		if (vm->running)
			return 0;
		if (vm->migration == GB_QEMU_MIGRATION_FAILED)
			return gb_qemu_vm_explain(vm, GB_E_STATE, err);
		if (vm->migration == GB_QEMU_MIGRATION_DONE)
			break;
		r = gb_qmp_wait(&vm->qmp, deadline_ns, err);
		if (r < 0)
			return r;
	}
	if (vm->running)
		return 0;
	/* paused, for a reason that it gives when asked to go on */
	r = gb_qmp_call(&vm->qmp, "{\"execute\":\"cont\"}", deadline_ns, NULL, err);
	if (r == GB_E_STATE && err && strstr(err->msg, "lock"))
		return gb_fail(err, GB_E_BUSY, "the disk is in use by another process");
	return explain(vm, r, GB_E_STATE, err);
}

static int start_restored(
	struct gb_vm *vm, uint64_t disk_size, uint64_t deadline_ns, struct gb_err *err)
{
	char resize[128];
	int r = gb_qmp_send(&vm->qmp, RESTORE_COMMANDS, deadline_ns, err);

	if (r == 0)
		r = gb_qmp_answer(&vm->qmp, deadline_ns, NULL, err);
	if (r < 0)
		return explain(vm, r, GB_E_IO, err);
	for (int i = 0; r == 0 && i < 2; i++)
		r = gb_qmp_answer(&vm->qmp, deadline_ns, NULL, err);
	if (r < 0)
		return explain(vm, r, GB_E_STATE, err);
	r = restore_wait(vm, deadline_ns, err);
	if (r < 0)
		return r;
	snprintf(resize, sizeof(resize),
		"{\"execute\":\"block_resize\",\"arguments\":{\"node-name\":\"root\","
		"\"size\":%" PRIu64 "}}",
		disk_size);
	vm->ignored++;
	return gb_qmp_send(&vm->qmp, resize, deadline_ns, err);
}

/* The template's files; what is wrong with them is GB_E_STATE: another can be made. */
static int open_template(const struct gb_vm_spec *spec, char **ret_memory, int *ret_state,
	struct gb_err *err)
{
	gb_auto_free char *memory = NULL;
	gb_auto_free char *state = NULL;
	struct stat st;

	if (spec->disk_readonly)
		return gb_fail(err, GB_E_INVALID,
			"a read-only disk cannot be given to a restored machine");
	if (asprintf(&memory, "%s/memory", spec->template_path) < 0) {
		memory = NULL;
		return gb_nomem(err);
	}
	if (asprintf(&state, "%s/state", spec->template_path) < 0) {
		state = NULL;
		return gb_nomem(err);
	}
	if (stat(memory, &st) < 0)
		return gb_fail(err, GB_E_STATE, "template without '%s'", memory);
	if ((uint64_t)st.st_size != gb_qemu_memory(spec->memory_bytes))
		return gb_fail(err, GB_E_STATE,
			"the template's memory '%s' has a wrong size", memory);
	*ret_state = open(state, O_RDONLY | O_CLOEXEC);
	if (*ret_state < 0)
		return gb_fail(err, GB_E_STATE, "template without '%s'", state);
	*ret_memory = gb_take_ptr(memory);
	return 0;
}

static int driver_start(const struct gb_vm_spec *spec, uint64_t deadline_ns,
	struct gb_vm **ret, struct gb_err *err)
{
	struct gb_qemu_plan plan = {.vm = spec};
	gb_auto_free char *binary = NULL;
	gb_auto_free char *memory = NULL;
	gb_auto_fd state = -1;
	struct gb_vm *vm = NULL;
	uint64_t disk_size = 0;
	int r = gb_qemu_binary(&binary, err);

	if (r == 0 && spec->template_path) {
		r = virtual_size(spec, &disk_size, err);
		if (r == 0)
			r = open_template(spec, &memory, &state, err);
		plan.mode = GB_QEMU_RESTORE;
		plan.memory = memory;
	} else if (r == 0 && spec->accel == GB_ACCEL_TCG) {
		plan.tsc_khz = gb_host_tsc_khz(NULL);
	}
	if (r < 0)
		return r;
	plan.binary = binary;
	r = gb_qemu_vm_start(&plan, state, &vm, err);
	if (r < 0)
		return r;
	r = spec->template_path ? start_restored(vm, disk_size, deadline_ns, err)
				: start_cold(vm, deadline_ns, err);
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
