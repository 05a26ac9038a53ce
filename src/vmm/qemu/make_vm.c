#include "vmm/qemu/make_impl.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BOOT_DEADLINE_MS 120000
#define SAVE_DEADLINE_MS 60000

/* The machine is not paused first: what is written says that it ran, so a restored one
 * goes on at once instead of waiting to be told. QEMU pauses it itself before it writes.
 */
#define SAVE_COMMAND                                                                     \
	"{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":["    \
	"{\"capability\":\"x-ignore-shared\",\"state\":true},"                           \
	"{\"capability\":\"events\",\"state\":true}]}}"
#define GETFD_COMMAND	"{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"state\"}}"
#define MIGRATE_COMMAND "{\"execute\":\"migrate\",\"arguments\":{\"uri\":\"fd:state\"}}"

void gb_make_ports_done(struct gb_make_ports *p)
{
	for (int i = 0; i < 2; i++) {
		gb_fd_close(&p->ctl[i]);
		gb_fd_close(&p->share[i]);
		gb_fd_close(&p->net[i]);
	}
}

/* The child has its ends. */
void gb_make_ports_given(struct gb_make_ports *p)
{
	gb_fd_close(&p->ctl[1]);
	gb_fd_close(&p->share[1]);
	gb_fd_close(&p->net[1]);
}

int gb_make_ports_open(struct gb_make_ports *p, bool network, struct gb_err *err)
{
	int r = gb_socketpair(p->ctl, err);

	if (r == 0)
		r = gb_socketpair(p->share, err);
	if (r == 0 && network)
		r = gb_socketpair(p->net, err);
	return r < 0 ? r : gb_fd_nonblock(p->ctl[0], true, err);
}

/* 1: a frame came; 0: not yet. */
static int read_frame(
	int ctl, struct gb_frame_reader *reader, struct gb_frame *ret, struct gb_err *err)
{
	size_t room;
	uint8_t *to;
	ssize_t n;
	int r = gb_frame_reader_next(reader, ret, err);

	if (r != 0)
		return r;
	to = gb_frame_reader_room(reader, &room);
	if (!to)
		return gb_nomem(err);
	n = read(ctl, to, room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return gb_fail(err, GB_E_CLOSED, "the guest's port is gone");
	gb_frame_reader_filled(reader, (size_t)n);
	return gb_frame_reader_next(reader, ret, err);
}

int gb_make_next(struct gb_vm *vm, int ctl, struct gb_frame_reader *reader,
	struct gb_frame *ret, struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(BOOT_DEADLINE_MS);
	int r = read_frame(ctl, reader, ret, err);

	while (r == 0) {
		struct pollfd p[2] = {{.fd = ctl, .events = POLLIN},
			{.fd = vm->epoll, .events = POLLIN}};

		if (poll(p, 2, gb_deadline_poll_ms(deadline)) < 0 && errno != EINTR)
			r = gb_fail_sys(err, errno, "cannot poll");
		else if (p[0].revents)
			r = read_frame(ctl, reader, ret, err);
		if (r == 0 && p[1].revents)
			gb_qemu_vm_drain(vm);
		if (r == 0 && (vm->reaped || vm->events & 1u << GB_VM_GUEST_OFF))
			r = gb_qemu_vm_explain(vm, GB_E_STATE, err);
		else if (r == 0 && gb_deadline_passed(deadline))
			r = gb_fail(err, GB_E_TIMEOUT,
				"the agent did not answer in %d seconds",
				BOOT_DEADLINE_MS / 1000);
	}
	/* the ports of a QEMU that ends close before its process is gone */
	if (r == GB_E_CLOSED)
		r = gb_qemu_vm_explain(vm, GB_E_STATE, err);
	return r < 0 ? r : 0;
}

int gb_make_expect(struct gb_vm *vm, int ctl, struct gb_frame_reader *reader,
	uint8_t type, struct gb_frame *ret, struct gb_err *err)
{
	int r = gb_make_next(vm, ctl, reader, ret, err);

	if (r < 0)
		return r;
	if (ret->type == GB_FRAME_ERROR)
		return gb_wrap(
			err, gb_msg_take_error(ret->payload, ret->length, err), "guest");
	if (ret->type != type)
		return gb_fail(err, GB_E_PROTOCOL, "the agent sent %s, not %s",
			gb_frame_type_name(ret->type), gb_frame_type_name(type));
	return 0;
}

static int await_saved(struct gb_vm *vm, uint64_t deadline_ns, struct gb_err *err)
{
	struct gb_qmp_message m;

	while (vm->migration == GB_QEMU_MIGRATION_NONE) {
		int r = gb_qmp_next(&vm->qmp, &m, err);

		if (r == 1)
			gb_qmp_message_done(&m);
		else if (r == 0 && vm->migration == GB_QEMU_MIGRATION_NONE)
			r = gb_qmp_wait(&vm->qmp, deadline_ns, err);
		if (r < 0)
			return r;
	}
	if (vm->migration != GB_QEMU_MIGRATION_DONE)
		return gb_fail(err, GB_E_IO, "qemu could not write the machine's state");
	return 0;
}

int gb_make_save(struct gb_making *m, struct gb_vm *vm, struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(SAVE_DEADLINE_MS);
	gb_auto_fd state =
		openat(m->dir, "state", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (state < 0)
		return gb_fail_sys(err, errno, "cannot create the state file");
	r = gb_qmp_call(&vm->qmp, SAVE_COMMAND, deadline, NULL, err);
	if (r == 0)
		r = gb_qmp_send_fd(&vm->qmp, GETFD_COMMAND, state, deadline, err);
	if (r == 0)
		r = gb_qmp_answer(&vm->qmp, deadline, NULL, err);
	/* a machine that was itself restored has said so */
	vm->migration = GB_QEMU_MIGRATION_NONE;
	if (r == 0)
		r = gb_qmp_call(&vm->qmp, MIGRATE_COMMAND, deadline, NULL, err);
	if (r == 0)
		r = await_saved(vm, deadline, err);
	if (r == 0)
		r = gb_qmp_call(&vm->qmp, "{\"execute\":\"quit\"}", deadline, NULL, err);
	if (r == 0)
		r = gb_wait_child(vm->pid, deadline, &vm->status, err);
	if (r < 0)
		return r == GB_E_CLOSED ? gb_qemu_vm_explain(vm, GB_E_IO, err) : r;
	vm->reaped = true;
	return 0;
}

int gb_make_boot(struct gb_making *m, struct gb_make_ports *ports, struct gb_err *err)
{
	gb_auto_free char *memory = gb_path_join(m->place.path, "memory");
	gb_auto_free char *disk = gb_path_join(m->place.path, "disk");
	gb_auto_free char *console = gb_path_join(m->place.path, "console.log");
	struct gb_vm_spec spec = gb_template_spec(m->want, disk);
	struct gb_qemu_plan plan = {.mode = GB_QEMU_MAKE,
		.vm = &spec,
		.memory = memory,
		.binary = m->key->binary,
		.tsc_khz = m->tsc_khz};
	struct gb_vm *vm = NULL;
	struct gb_frame_reader reader;
	struct gb_frame f;
	uint64_t from = gb_now_ns();
	int r;

	if (!memory || !disk || !console)
		return gb_nomem(err);
	spec.ctl_fd = ports->ctl[1];
	spec.share_fd = ports->share[1];
	spec.net_fd = ports->net[1];
	spec.console = console;
	r = gb_qemu_vm_start(&plan, NULL, &vm, err);
	if (r < 0)
		return r;
	gb_make_ports_given(ports);
	r = gb_qmp_call(&vm->qmp, "{\"execute\":\"qmp_capabilities\"}",
		gb_deadline_ms(SAVE_DEADLINE_MS), NULL, err);
	if (r == GB_E_CLOSED)
		r = gb_qemu_vm_explain(vm, GB_E_IO, err);
	gb_frame_reader_init(&reader);
	if (r == 0)
		r = gb_make_expect(vm, ports->ctl[0], &reader, GB_FRAME_READY, &f, err);
	gb_frame_reader_done(&reader);
	m->boot_ns = gb_now_ns() - from;
	if (r == 0)
		r = gb_make_save(m, vm, err);
	snprintf(m->qemu, sizeof(m->qemu), "%s", vm->qmp.version);
	gb_qemu_vm_free(vm);
	return r;
}
