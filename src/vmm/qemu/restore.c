/* A restore is told to read the template's state after the one capability that cannot be
 * set on the command line; all commands leave in one write. QEMU then goes
 *
 *   inmigrate --state read--> disks activated --> running (event RESUME), migration
 * completed |                         | | state unfit: exits      | disk locked by
 * another: paused, migration completed
 *
 * Disks are activated late, so a disk that is in use shows up only there. A generic
 * template's block driver has seen a placeholder of no size: after RESUME the true size
 * is told (block_resize to what it is already), which reaches the guest as a config
 * change. */
#include "vmm/qemu/restore.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RESTORE_COMMANDS                                                                 \
	"{\"execute\":\"qmp_capabilities\"}"                                             \
	"{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":["    \
	"{\"capability\":\"x-ignore-shared\",\"state\":true},"                           \
	"{\"capability\":\"events\",\"state\":true}]}}"                                  \
	"{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"fd:8\"}}"
_Static_assert(GB_QEMU_FD_STATE == 8, "named in the command");

int gb_qemu_explain_closed(struct gb_vm *vm, int r, int code, struct gb_err *err)
{
	return r == GB_E_CLOSED ? gb_qemu_vm_explain(vm, code, err) : r;
}

int gb_qemu_disk_size(const struct gb_vm_spec *spec, uint64_t *ret, struct gb_err *err)
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
			return gb_qemu_explain_closed(vm, r, GB_E_STATE, err);
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
	return gb_qemu_explain_closed(vm, r, GB_E_STATE, err);
}

int gb_qemu_restore(
	struct gb_vm *vm, uint64_t disk_size, uint64_t deadline_ns, struct gb_err *err)
{
	char resize[128];
	int r = gb_qmp_send(&vm->qmp, RESTORE_COMMANDS, deadline_ns, err);

	if (r == 0)
		r = gb_qmp_answer(&vm->qmp, deadline_ns, NULL, err);
	if (r < 0)
		return gb_qemu_explain_closed(vm, r, GB_E_IO, err);
	for (int i = 0; r == 0 && i < 2; i++)
		r = gb_qmp_answer(&vm->qmp, deadline_ns, NULL, err);
	if (r < 0)
		return gb_qemu_explain_closed(vm, r, GB_E_STATE, err);
	r = restore_wait(vm, deadline_ns, err);
	if (r < 0 || !disk_size)
		return r;
	snprintf(resize, sizeof(resize),
		"{\"execute\":\"block_resize\",\"arguments\":{\"node-name\":\"root\","
		"\"size\":%" PRIu64 "}}",
		disk_size);
	vm->ignored++;
	return gb_qmp_send(&vm->qmp, resize, deadline_ns, err);
}
