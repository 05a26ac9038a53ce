/* The driver with the real QEMU and guests of a few bytes. */
#include "../rows.h"
#include "tiny_kernel.h"
#include "base/clock.h"
#include "vmm/driver.h"
#include "vmm/qemu/host.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEADLINE   gb_deadline_ms(30000)
struct bench {
	struct tmpdir t;
	int ctl[2];
	int share[2];
	struct gb_vm_spec spec;
	char disk[1024];
	char console[1024];
};

static int bench_open(struct bench *b, const uint8_t *code, size_t len)
{
	memset(b, 0, sizeof(*b));
	if (!tmpdir_make(&b->t) || write_kernel(&b->t, code, len) < 0)
		return -1;
	if (gb_file_write_atomic(b->t.fd, "disk,1", "", 0, 0600, NULL) < 0 ||
		truncate(tmpdir_at(&b->t, "disk,1"), 1 << 20) < 0)
		return -1;
	if (gb_socketpair(b->ctl, NULL) < 0 || gb_socketpair(b->share, NULL) < 0)
		return -1;
	snprintf(b->disk, sizeof(b->disk), "%s", tmpdir_at(&b->t, "disk,1"));
	snprintf(b->console, sizeof(b->console), "%s", tmpdir_at(&b->t, "console.log"));
	b->spec = (struct gb_vm_spec){ .accel = GB_ACCEL_TCG, .cpus = 1, .memory_bytes = 64 << 20,
		.disk = b->disk, .bundle = b->t.path, .ctl_fd = b->ctl[1], .share_fd = b->share[1],
		.net_fd = -1, .console = b->console };
	return 0;
}

static int bench_close(struct bench *b)
{
	for (int i = 0; i < 2; i++) {
		gb_fd_close(&b->ctl[i]);
		gb_fd_close(&b->share[i]);
	}
	return tmpdir_remove(&b->t);
}

/* The next event, or 0 when none comes in time. */
static int next_event(struct gb_vm *vm, struct gb_vm_event *e)
{
	uint64_t deadline = DEADLINE;
	int r;

	while ((r = gb_driver_qemu.next_event(vm, e, NULL)) == 0)
		if (gb_fd_wait(gb_driver_qemu.event_fd(vm), POLLIN, deadline, NULL) < 0)
			return 0;
	return r;
}

static void need_qemu(void)
{
	char *binary = NULL;

	skip_without_syscall(pidfd_open, -1, 0);
	if (gb_qemu_binary(&binary, NULL) < 0) {
		print_message("qemu-system-x86_64 is not installed\n");
		skip();
	}
	free(binary);
}

static void test_kill(void **state)
{
	struct gb_vm_event e = { 0 };
	struct gb_err err = { 0 };
	struct gb_vm *vm = NULL;
	struct bench b;
	pid_t pid;

	(void)state;
	need_qemu();
	assert_int_equal(bench_open(&b, code_halt, sizeof(code_halt)), 0);
	if (gb_driver_qemu.start(&b.spec, DEADLINE, &vm, &err) < 0)
		fail_msg("%s", err.msg);
	pid = gb_driver_qemu.pid(vm);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(gb_driver_qemu.next_event(vm, &e, NULL), 0);
	gb_driver_qemu.kill(vm);
	gb_driver_qemu.kill(vm);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(next_event(vm, &e), 1);
	assert_int_equal(e.kind, GB_VM_EXITED);
	assert_true(WIFSIGNALED(e.status) && WTERMSIG(e.status) == SIGKILL);
	assert_int_equal(gb_driver_qemu.next_event(vm, &e, NULL), 0);
	assert_int_equal(gb_driver_qemu.resume(vm, &err), GB_E_STATE);
	assert_null(gb_driver_qemu.free(vm));
	assert_int_equal(bench_close(&b), 0);
}

static void test_killed_by_another(void **state)
{
	struct gb_vm_event e = { 0 };
	struct gb_vm *vm = NULL;
	struct bench b;

	(void)state;
	need_qemu();
	assert_int_equal(bench_open(&b, code_halt, sizeof(code_halt)), 0);
	assert_int_equal(gb_driver_qemu.start(&b.spec, DEADLINE, &vm, NULL), 0);
	assert_int_equal(kill(gb_driver_qemu.pid(vm), SIGTERM), 0);
	assert_int_equal(next_event(vm, &e), 1);
	assert_int_equal(e.kind, GB_VM_EXITED);
	assert_true(WIFEXITED(e.status) && WEXITSTATUS(e.status) == 0);
	gb_driver_qemu.free(vm);
	assert_int_equal(bench_close(&b), 0);
}

static void test_reset(void **state)
{
	struct gb_vm_event e = { 0 };
	struct gb_vm *vm = NULL;
	struct bench b;
	int r;

	(void)state;
	need_qemu();
	assert_int_equal(bench_open(&b, code_fault, sizeof(code_fault)), 0);
	/* the guest may be gone before QEMU answers */
	r = gb_driver_qemu.start(&b.spec, DEADLINE, &vm, NULL);
	if (r == 0) {
		assert_int_equal(next_event(vm, &e), 1);
		assert_int_equal(e.kind, GB_VM_GUEST_OFF);
		assert_int_equal(next_event(vm, &e), 1);
		assert_int_equal(e.kind, GB_VM_EXITED);
		assert_true(WIFEXITED(e.status) && WEXITSTATUS(e.status) == 0);
	} else {
		assert_int_equal(r, GB_E_IO);
	}
	gb_driver_qemu.free(vm);
	assert_int_equal(bench_close(&b), 0);
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : st.st_size;
}

static void test_console(void **state)
{
	struct gb_vm_event e = { 0 };
	struct gb_vm *vm = NULL;
	uint64_t deadline = DEADLINE;
	struct gb_buf text = { 0 };
	struct bench b;

	(void)state;
	need_qemu();
	assert_int_equal(bench_open(&b, code_talk, sizeof(code_talk)), 0);
	assert_int_equal(gb_driver_qemu.start(&b.spec, DEADLINE, &vm, NULL), 0);
	while (size_of(b.console) < 3 && !gb_deadline_passed(deadline)) {
		gb_fd_wait(gb_driver_qemu.event_fd(vm), POLLIN, deadline, NULL);
		assert_int_equal(gb_driver_qemu.next_event(vm, &e, NULL), 0);
	}
	gb_buf_init(&text, 0);
	assert_int_equal(gb_file_read(AT_FDCWD, b.console, 4096, &text, NULL), 0);
	assert_string_equal((char *)text.data, "hi\n");
	gb_buf_done(&text);
	gb_driver_qemu.free(vm);
	assert_int_equal(bench_close(&b), 0);
}

static void test_second_writer(void **state)
{
	struct gb_err err = { 0 };
	struct gb_vm *first = NULL;
	struct gb_vm *second = NULL;
	struct bench b;

	(void)state;
	need_qemu();
	assert_int_equal(bench_open(&b, code_halt, sizeof(code_halt)), 0);
	assert_int_equal(gb_driver_qemu.start(&b.spec, DEADLINE, &first, NULL), 0);
	assert_int_equal(gb_driver_qemu.start(&b.spec, DEADLINE, &second, &err), GB_E_BUSY);
	assert_null(second);
	assert_non_null(strstr(err.msg, "in use by another process"));
	gb_driver_qemu.free(first);
	assert_int_equal(gb_driver_qemu.start(&b.spec, DEADLINE, &second, NULL), 0);
	gb_driver_qemu.free(second);
	assert_int_equal(bench_close(&b), 0);
}

/* What is missing or broken, and what is said of it. */
struct failing_row {
	const char *name;
	const char *remove; /* from the folder */
	const char *template_file; /* written there, as the template's state */
	bool template;
	bool readonly;
	int want;
	const char *words;
};

static const struct failing_row failing[] = {
	{ "no kernel", "kernel", NULL, false, false, GB_E_IO, "could not open kernel" },
	{ "no disk", "disk,1", NULL, false, false, GB_E_IO, "Could not open" },
	{ "no disk to restore with", "disk,1", NULL, true, false, GB_E_NOTFOUND, "cannot open disk" },
	{ "a template without state", "", NULL, true, false, GB_E_STATE, "template without" },
	{ "a template with an empty state", "", "", true, false, GB_E_STATE, "load of migration" },
	{ "a template with another state", "", "no state at all", true, false, GB_E_STATE,
		"load of migration" },
	{ "a read-only disk and a template", "", "", true, true, GB_E_INVALID, "read-only" },
};

static void test_failing(void **state)
{
	const struct failing_row *row = *state;
	struct gb_err err = { 0 };
	struct gb_vm *vm = NULL;
	struct bench b;

	need_qemu();
	assert_int_equal(bench_open(&b, code_halt, sizeof(code_halt)), 0);
	if (row->remove[0])
		assert_int_equal(unlinkat(b.t.fd, row->remove, 0), 0);
	if (row->template) {
		b.spec.template_path = b.t.path;
		assert_int_equal(gb_file_write_atomic(b.t.fd, "memory", "", 0, 0600, NULL), 0);
		assert_int_equal(truncate(tmpdir_at(&b.t, "memory"), 64 << 20), 0);
	}
	if (row->template_file)
		assert_int_equal(gb_file_write_atomic(b.t.fd, "state", row->template_file,
					 strlen(row->template_file), 0600, NULL), 0);
	b.spec.disk_readonly = row->readonly;
	assert_int_equal(gb_driver_qemu.start(&b.spec, DEADLINE, &vm, &err), row->want);
	assert_null(vm);
	if (!strstr(err.msg, row->words))
		fail_msg("'%s' says nothing of '%s'", err.msg, row->words);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(bench_close(&b), 0);
}

static void test_no_qemu(void **state)
{
	struct gb_err err = { 0 };
	struct gb_vm *vm = NULL;
	struct bench b;

	(void)state;
	assert_int_equal(bench_open(&b, code_halt, sizeof(code_halt)), 0);
	setenv("GLOVEBOX_QEMU", tmpdir_at(&b.t, "none"), 1);
	assert_int_equal(gb_driver_qemu.start(&b.spec, DEADLINE, &vm, &err), GB_E_NOTFOUND);
	unsetenv("GLOVEBOX_QEMU");
	assert_int_equal(bench_close(&b), 0);
}

/* A program that stands for a QEMU that never says a word. */
static void test_silent(void **state)
{
	static const char script[] = "#!/bin/sh\nexec cat <&3\n";
	struct gb_err err = { 0 };
	struct gb_vm *vm = NULL;
	struct bench b;

	(void)state;
	skip_without_syscall(pidfd_open, -1, 0);
	assert_int_equal(bench_open(&b, code_halt, sizeof(code_halt)), 0);
	assert_int_equal(gb_file_write_atomic(b.t.fd, "silent", script, strlen(script), 0755, NULL), 0);
	setenv("GLOVEBOX_QEMU", tmpdir_at(&b.t, "silent"), 1);
	assert_int_equal(gb_driver_qemu.start(&b.spec, gb_deadline_ms(300), &vm, &err),
		GB_E_TIMEOUT);
	unsetenv("GLOVEBOX_QEMU");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(bench_close(&b), 0);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add_one(&l, "start and kill", test_kill);
	rows_add_one(&l, "ended by another", test_killed_by_another);
	rows_add_one(&l, "a guest that resets", test_reset);
	rows_add_one(&l, "the console's file", test_console);
	rows_add_one(&l, "a second writer of a disk", test_second_writer);
	rows_add(&l, failing, test_failing);
	rows_add_one(&l, "no qemu", test_no_qemu);
	rows_add_one(&l, "a qemu that never answers", test_silent);
	return rows_run("vmm qemu driver", &l);
}
