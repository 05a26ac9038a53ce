#include "vmm/qemu/vm.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/proc.h"
#include "vmm/qemu/prefault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_BURST_MAX 64
/* A QEMU that gave up closes its monitor first and prints why; then it may take a moment.
 */
#define LAST_WORDS_MS 2000
#define END_GRACE_S   2 /* from the end of the monitor to that of the process */

static void note(struct gb_vm *vm, enum gb_vm_event_kind kind)
{
	vm->events |= 1u << kind;
	/* cannot fail but for a full counter, which is as good */
	(void)!eventfd_write(vm->wake, 1);
}

void gb_qemu_vm_clear_wake(struct gb_vm *vm)
{
	eventfd_t count;

	(void)!eventfd_read(vm->wake, &count);
}

static void on_block_error(struct gb_vm *vm, const json_t *data)
{
	const char *action = json_string_value(json_object_get(data, "action"));
	bool full = json_is_true(json_object_get(data, "nospace"));
	bool stops = action && strcmp(action, "stop") == 0;

	note(vm, full && stops ? GB_VM_DISK_FULL : GB_VM_DISK_ERROR);
}

static void on_event(void *ctx, const char *name, const json_t *data)
{
	struct gb_vm *vm = ctx;
	const char *status = json_string_value(json_object_get(data, "status"));

	if (strcmp(name, "RESUME") == 0)
		vm->running = true;
	else if (strcmp(name, "STOP") == 0)
		vm->running = false;
	else if (strcmp(name, "BLOCK_IO_ERROR") == 0)
		on_block_error(vm, data);
	else if (strcmp(name, "GUEST_PANICKED") == 0)
		note(vm, GB_VM_GUEST_OFF);
	else if (strcmp(name, "SHUTDOWN") == 0 &&
		 json_is_true(json_object_get(data, "guest")))
		note(vm, GB_VM_GUEST_OFF);
	else if (strcmp(name, "MIGRATION") == 0 && status &&
		 strcmp(status, "completed") == 0)
		vm->migration = GB_QEMU_MIGRATION_DONE;
	else if (strcmp(name, "MIGRATION") == 0 && status &&
		 strcmp(status, "failed") == 0)
		vm->migration = GB_QEMU_MIGRATION_FAILED;
}

static int watch(struct gb_vm *vm, int fd, struct gb_err *err)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(vm->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		return gb_fail_sys(err, errno, "cannot watch a descriptor");
	return 0;
}

/* The child's ends; all closed in the parent afterwards. */
struct ends {
	int qmp;
	int console;
	int said;
};

static void ends_done(struct ends *e)
{
	gb_fd_close(&e->qmp);
	gb_fd_close(&e->console);
	gb_fd_close(&e->said);
}

static int open_channels(
	struct gb_vm *vm, const char *console, struct ends *child, struct gb_err *err)
{
	int pair[2];
	int r;

	vm->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (vm->epoll < 0)
		return gb_fail_sys(err, errno, "cannot make an epoll descriptor");
	vm->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vm->wake < 0)
		return gb_fail_sys(err, errno, "cannot make an event descriptor");
	if (pipe2(pair, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	vm->said_fd = pair[0];
	child->said = pair[1];
	r = gb_fd_nonblock(vm->said_fd, true, err);
	if (r < 0)
		return r;
	r = gb_console_open(console, &vm->console, &child->console, err);
	if (r < 0)
		return r;
	r = gb_socketpair(pair, err);
	if (r < 0)
		return r;
	child->qmp = pair[1];
	r = gb_qmp_init_consume(&vm->qmp, pair[0], on_event, vm, err);
	if (r == 0)
		r = watch(vm, vm->wake, err);
	if (r == 0)
		r = watch(vm, vm->qmp.fd, err);
	if (r == 0)
		r = watch(vm, vm->said_fd, err);
	if (r == 0)
		r = watch(vm, vm->console.fd, err);
	return r;
}

/* Page faults are most of what a start costs on a virtual host (prefault.c): a heap of huge
 * pages, grown in large pieces, and what the library does. A user who has set the loader's
 * variables knows better. */
static void make_environment(bool hot, struct gb_strv *ret)
{
	gb_auto_free char *library = NULL;

	for (char **e = environ; *e; e++)
		gb_strv_add(ret, *e);
	if (!getenv("GLIBC_TUNABLES"))
		gb_strv_add(ret,
			"GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432");
	if (getenv("LD_AUDIT") || getenv("LD_PRELOAD") ||
		gb_role_path("prefault.so", &library, NULL) < 0)
		return;
	gb_strv_addf(ret, "LD_AUDIT=%s", library);
	gb_strv_addf(ret, "LD_PRELOAD=%s", library);
	if (hot)
		gb_strv_addf(ret, GB_HOT_VARIABLE "=%d", GB_QEMU_FD_HOT);
}

void gb_qemu_files_done(struct gb_qemu_files *f)
{
	gb_fd_close(&f->state);
	gb_fd_close(&f->memory);
	gb_fd_close(&f->hot);
}

static int spawn(struct gb_vm *vm, const struct gb_qemu_plan *plan,
	const struct ends *child, const struct gb_qemu_files *files, struct gb_err *err)
{
	gb_auto_done(gb_strv) argv = {0};
	gb_auto_done(gb_strv) env = {0};
	struct gb_fd_map map[11] = {
		{child->said, 1},
		{child->said, 2},
		{child->qmp, GB_QEMU_FD_QMP},
		{child->console, GB_QEMU_FD_CONSOLE},
		{plan->vm->ctl_fd, GB_QEMU_FD_CTL},
		{plan->vm->share_fd, GB_QEMU_FD_SHARE},
	};
	struct gb_spawn s = {.fds = map, .fd_count = 6, .die_with_parent = true};
	int r = gb_qemu_args(plan, &argv, err);

	if (r < 0)
		return r;
	make_environment(files && files->hot >= 0, &env);
	r = gb_strv_check(&env, "qemu's environment", err);
	if (r < 0)
		return r;
	s.argv = argv.v;
	s.envp = env.v;
	if (plan->vm->net_fd >= 0)
		map[s.fd_count++] = (struct gb_fd_map){plan->vm->net_fd, GB_QEMU_FD_NET};
	if (files && files->state >= 0)
		map[s.fd_count++] = (struct gb_fd_map){files->state, GB_QEMU_FD_STATE};
	if (files && files->memory >= 0)
		map[s.fd_count++] = (struct gb_fd_map){files->memory, GB_QEMU_FD_MEMORY};
	if (files && files->hot >= 0)
		map[s.fd_count++] = (struct gb_fd_map){files->hot, GB_QEMU_FD_HOT};
	r = gb_spawn(&s, &vm->pid, err);
	if (r < 0)
		return r;
	vm->pidfd = (int)syscall(SYS_pidfd_open, vm->pid, 0);
	if (vm->pidfd < 0)
		return gb_fail_sys(err, errno, "cannot watch process %d", (int)vm->pid);
	return watch(vm, vm->pidfd, err);
}

static struct gb_vm *vm_new(void)
{
	struct gb_vm *vm = calloc(1, sizeof(*vm));

	if (!vm)
		return NULL;
	vm->pidfd = vm->epoll = vm->wake = vm->grace = vm->said_fd = vm->qmp.fd = -1;
	vm->console = (struct gb_console)GB_CONSOLE_INIT;
	return vm;
}

int gb_qemu_vm_start(const struct gb_qemu_plan *plan, const struct gb_qemu_files *files,
	struct gb_vm **ret, struct gb_err *err)
{
	struct ends child = {-1, -1, -1};
	struct gb_vm *vm = vm_new();
	int r;

	if (!vm)
		return gb_nomem(err);
	r = open_channels(vm, plan->vm->console, &child, err);
	if (r == 0)
		r = spawn(vm, plan, &child, files, err);
	ends_done(&child);
	if (r < 0) {
		gb_qemu_vm_free(vm);
		return r;
	}
	*ret = vm;
	return 0;
}

/* Keep the end of what QEMU prints. */
static void drain_said(struct gb_vm *vm)
{
	char data[256];

	for (int i = 0; i < SAID_BURST_MAX && vm->said_fd >= 0; i++) {
		ssize_t n = read(vm->said_fd, data, sizeof(data));
		size_t have = strlen(vm->said);
		size_t room = sizeof(vm->said) - 1;
		size_t len;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			gb_fd_close(&vm->said_fd);
			return;
		}
		len = (size_t)n;
		for (size_t k = 0; k < len; k++)
			if (data[k] == '\0')
				data[k] = '?';
		if (have + len > room) {
			size_t drop = have + len - room;

			memmove(vm->said, vm->said + drop, have - drop + 1);
			have -= drop;
		}
		memcpy(vm->said + have, data, len);
		vm->said[have + len] = '\0';
	}
}

/* An answer that nobody waits for: the command's failure is the disk's (its size could
 * not be told to the guest, or it could not go on). */
static void take_ignored(struct gb_vm *vm, struct gb_qmp_message *m)
{
	if (m->kind == GB_QMP_ERROR) {
		gb_log(GB_LOG_ERROR, "qemu: %s", m->text);
		note(vm, GB_VM_DISK_ERROR);
	}
	gb_qmp_message_done(m);
	if (vm->ignored)
		vm->ignored--;
}

static void end_now(struct gb_vm *vm)
{
	if (!vm->reaped)
		kill(vm->pid, SIGKILL);
}

static bool start_grace(struct gb_vm *vm)
{
	struct itimerspec t = {.it_value.tv_sec = END_GRACE_S};

	vm->grace = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return vm->grace >= 0 && timerfd_settime(vm->grace, 0, &t, NULL) == 0 &&
	       watch(vm, vm->grace, NULL) == 0;
}

static void drain_qmp(struct gb_vm *vm)
{
	struct gb_qmp_message m;
	struct gb_err err;
	int r;

	if (vm->qmp.fd < 0)
		return;
	while ((r = gb_qmp_next(&vm->qmp, &m, &err)) == 1)
		take_ignored(vm, &m);
	if (r >= 0)
		return;
	if (r != GB_E_CLOSED)
		gb_log(GB_LOG_ERROR, "%s", err.msg);
	gb_fd_close(&vm->qmp.fd);
	/* without a monitor it cannot be led any more; one that is just ending closes it
	 * too */
	if (r != GB_E_CLOSED || !start_grace(vm))
		end_now(vm);
}

static void check_grace(struct gb_vm *vm)
{
	uint64_t count;

	if (vm->grace >= 0 && read(vm->grace, &count, sizeof(count)) > 0)
		end_now(vm);
}

static void try_reap(struct gb_vm *vm)
{
	if (vm->reaped || waitpid(vm->pid, &vm->status, WNOHANG) != vm->pid)
		return;
	vm->reaped = true;
	gb_fd_close(&vm->pidfd);
	note(vm, GB_VM_EXITED);
}

void gb_qemu_vm_drain(struct gb_vm *vm)
{
	drain_said(vm);
	if (vm->console.fd >= 0 && !gb_console_pump(&vm->console))
		gb_fd_close(&vm->console.fd);
	drain_qmp(vm);
	check_grace(vm);
	try_reap(vm);
}

/* The lines that were printed as one, without the program's name before each. */
static void tidy(const char *said, char *out, size_t size)
{
	static const char prefix[] = "qemu-system-x86_64: ";
	size_t n = 0;

	for (const char *p = said; *p && n + 3 < size; p++) {
		if ((p == said || p[-1] == '\n') && gb_starts_with(p, prefix))
			p += sizeof(prefix) - 1;
		if (*p == '\n' && p[1]) {
			out[n++] = ';';
			out[n++] = ' ';
		} else if ((unsigned char)*p >= ' ') {
			out[n++] = *p;
		}
	}
	out[n] = '\0';
}

int gb_qemu_vm_explain(struct gb_vm *vm, int code, struct gb_err *err)
{
	char said[sizeof(vm->said)];
	char how[64] = "closed its channels but did not end";

	if (!vm->reaped)
		vm->reaped = gb_wait_child(vm->pid, gb_deadline_ms(LAST_WORDS_MS),
				     &vm->status, NULL) == 0;
	if (vm->reaped)
		gb_describe_status(vm->status, how, sizeof(how));
	drain_said(vm);
	/* and what the guest said last, for whoever reads the console */
	gb_console_pump(&vm->console);
	gb_qemu_vm_kill(vm);
	tidy(vm->said, said, sizeof(said));
	if (strstr(said, "Failed to get"))
		return gb_fail(err, GB_E_BUSY,
			"the disk is in use by another process: %s", said);
	return gb_fail(err, code, "qemu %s%s%s", how, said[0] ? ": " : "", said);
}

void gb_qemu_vm_kill(struct gb_vm *vm)
{
	if (vm->reaped || vm->pid <= 0)
		return;
	kill(vm->pid, SIGKILL);
	while (waitpid(vm->pid, &vm->status, 0) < 0)
		if (errno != EINTR)
			break;
	vm->reaped = true;
	gb_fd_close(&vm->pidfd);
	note(vm, GB_VM_EXITED);
}

struct gb_vm *gb_qemu_vm_free(struct gb_vm *vm)
{
	if (!vm)
		return NULL;
	gb_qemu_vm_kill(vm);
	gb_qmp_done(&vm->qmp);
	gb_console_done(&vm->console);
	gb_fd_close(&vm->said_fd);
	gb_fd_close(&vm->pidfd);
	gb_fd_close(&vm->wake);
	gb_fd_close(&vm->grace);
	gb_fd_close(&vm->epoll);
	free(vm);
	return NULL;
}
