/* Making a template of what cannot become one: each failure says why and leaves nothing. */
#include "../rows.h"
#include "tiny_kernel.h"
#include "vmm/prepare.h"
#include "vmm/qemu/host.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct making_row {
	const char *name;
	const uint8_t *code;
	size_t len;
	const char *script; /* in place of QEMU */
	int want;
	const char *words[2];
};

static const struct making_row rows[] = {
	{ "a guest that resets", code_die, sizeof(code_die), NULL, GB_E_STATE,
		{ "cannot make a template: qemu exited with 0", "the guest's console ends with: no" } },
	{ "a qemu that gives up", code_halt, sizeof(code_halt),
		"#!/bin/sh\necho 'qemu-system-x86_64: no such machine' >&2\nexit 3\n", GB_E_IO,
		{ "qemu exited with 3: no such machine", "" } },
	{ "a qemu that talks nonsense", code_halt, sizeof(code_halt),
		"#!/bin/sh\necho hello >&3\nexec cat <&3\n", GB_E_PROTOCOL, { "qemu's monitor", "" } },
	{ "a qemu that refuses", code_halt, sizeof(code_halt),
		"#!/bin/sh\necho '{\"error\":{\"class\":\"C\",\"desc\":\"not today\"}}' >&3\nexec cat <&3\n",
		GB_E_STATE, { "not today", "" } },
	{ "an agent that is none", code_halt, sizeof(code_halt),
		"#!/bin/sh\necho '{\"return\":{}}' >&3\nprintf "
		"'\\000\\000\\000\\000\\004\\000\\000\\000\\000\\000\\000\\000' >&4\nexec cat <&3\n",
		GB_E_PROTOCOL, { "the agent sent OK, not READY", "" } },
	{ "a port that closes", code_halt, sizeof(code_halt),
		"#!/bin/sh\necho '{\"return\":{}}' >&3\nexec 4>&- 5>&-\nexec cat <&3\n", GB_E_STATE,
		{ "qemu closed its channels", "" } },
};

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

static void count_lines(void *ctx, const char *line)
{
	*(int *)ctx += line[0] != '\0';
}

static void need_qemu(const struct making_row *row)
{
	char *binary = NULL;

	skip_without_syscall(pidfd_open, -1, 0);
	if (!row->script && gb_qemu_binary(&binary, NULL) < 0) {
		print_message("qemu-system-x86_64 is not installed\n");
		skip();
	}
	free(binary);
}

static void test_row(void **state)
{
	const struct making_row *row = *state;
	struct gb_template_want want = { .accel = GB_ACCEL_TCG, .cpus = 1, .memory_bytes = 64 << 20 };
	struct gb_err err = { 0 };
	char *path = NULL;
	struct tmpdir t;
	int told = 0;
	int r;

	need_qemu(row);
	assert_true(tmpdir_make(&t));
	assert_int_equal(write_kernel(&t, row->code, row->len), 0);
	want.bundle = t.path;
	if (row->script) {
		assert_int_equal(gb_file_write_atomic(t.fd, "qemu", row->script, strlen(row->script),
					 0755, NULL), 0);
		setenv("GLOVEBOX_QEMU", tmpdir_at(&t, "qemu"), 1);
	}
	r = gb_template_make(tmpdir_at(&t, "cache"), &want, NULL, count_lines, &told, &path, &err);
	unsetenv("GLOVEBOX_QEMU");
	if (r != row->want)
		print_error("%s\n", err.msg);
	assert_int_equal(r, row->want);
	assert_null(path);
	for (size_t i = 0; i < 2; i++)
		if (!strstr(err.msg, row->words[i]))
			fail_msg("'%s' says nothing of '%s'", err.msg, row->words[i]);
	assert_int_equal(told, 1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(entries(tmpdir_at(&t, "cache/templates")), 0);
	assert_int_equal(tmpdir_remove(&t), 0);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, rows, test_row);
	return rows_run("vmm qemu make", &l);
}
