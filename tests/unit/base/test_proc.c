#include "rows.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define WAIT_MS 20000
/* a string that may be written to, as argument vectors want it */
#define STR(s) ((char[]){ s })

/* Runs script with sh; what it wrote to descriptor `out` is in text. Returns its status. */
static int run_sh(struct gb_spawn *s, const char *script, int out, char *text, size_t size)
{
	char *argv[] = { STR("sh"), STR("-c"), (char *)(uintptr_t)script, NULL };
	struct gb_fd_map map[8];
	int pipe_fds[2];
	size_t got = 0;
	pid_t pid = -1;
	int status = -1;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	for (size_t i = 0; i < s->fd_count; i++)
		map[i] = s->fds[i];
	map[s->fd_count] = (struct gb_fd_map){ pipe_fds[1], out };
	s->fds = map;
	s->fd_count++;
	s->argv = argv;
	assert_int_equal(gb_spawn(s, &pid, NULL), 0);
	close(pipe_fds[1]);
	assert_int_equal(gb_fd_read_full(pipe_fds[0], text, size - 1, &got, NULL), 0);
	text[got] = 0;
	close(pipe_fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void exit_code_and_output(void **state)
{
	struct gb_spawn s = { 0 };
	char text[64];
	int status = run_sh(&s, "echo hi; exit 3", 1, text, sizeof(text));

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 3);
	assert_string_equal(text, "hi\n");
}

static int make_pipe_with(const char *text)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	if (write(fds[1], text, strlen(text)) < 0)
		return -1;
	close(fds[1]);
	return fds[0];
}

/* a and b get the numbers from and to of each other */
static void swapped_descriptors(void **state)
{
	int a = make_pipe_with("A");
	int b = make_pipe_with("B");
	struct gb_fd_map map[] = { { a, b }, { b, a } };
	struct gb_spawn s = { .fds = map, .fd_count = 2 };
	char script[64];
	char text[64];

	(void)state;
	assert_true(a >= 3 && b >= 3 && a < 10 && b < 10);
	snprintf(script, sizeof(script), "cat <&%d; cat <&%d", b, a);
	run_sh(&s, script, 1, text, sizeof(text));
	assert_string_equal(text, "AB");
	close(a);
	close(b);
}

static void one_descriptor_twice(void **state)
{
	int a = make_pipe_with("x");
	struct gb_fd_map map[] = { { a, 0 }, { a, 5 } };
	struct gb_spawn s = { .fds = map, .fd_count = 2 };
	char text[64];

	(void)state;
	run_sh(&s, "cat <&5; cat; echo .", 1, text, sizeof(text));
	assert_string_equal(text, "x.\n");
	close(a);
}

static void nothing_else_is_inherited(void **state)
{
	int leaky = open("/dev/null", O_RDONLY); /* no CLOEXEC */
	int high = fcntl(leaky, F_DUPFD, 50);
	struct gb_spawn s = { 0 };
	char text[256];

	(void)state;
	/* the shell's own listing descriptor is what ls opened */
	run_sh(&s, "ls /proc/$$/fd | tr '\\n' ' '; readlink /proc/self/fd/0 /proc/self/fd/2", 1, text,
		sizeof(text));
	assert_string_equal(text, "0 1 2 /dev/null\n/dev/null\n");
	close(leaky);
	close(high);
}

static void descriptor_that_is_not_open(void **state)
{
	char *argv[] = { STR("true"), NULL };
	struct gb_fd_map map[] = { { 987, 3 } };
	struct gb_spawn s = { .argv = argv, .fds = map, .fd_count = 1 };
	struct gb_err err = { 0 };
	pid_t pid = -1;

	(void)state;
	assert_true(gb_spawn(&s, &pid, &err) < 0);
	assert_int_equal(err.sys, EBADF);
	assert_non_null(strstr(err.msg, "cannot pass descriptors to 'true'"));
	assert_int_equal(pid, -1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void descriptors_at_the_limit(void **state)
{
	char *argv[] = { STR("true"), NULL };
	struct gb_fd_map map[33];
	struct gb_spawn s = { .argv = argv, .fds = map, .fd_count = 32 };
	pid_t pid = -1;
	int status;

	(void)state;
	for (int i = 0; i < 33; i++)
		map[i] = (struct gb_fd_map){ 2, 3 + i };
	assert_int_equal(gb_spawn(&s, &pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	s.fd_count = 33;
	assert_int_equal(gb_spawn(&s, &pid, NULL), GB_E_LIMIT);
}

struct fail_row {
	const char *name;
	const char *program;
	const char *cwd;
	int sys;
	const char *part;
};

static const struct fail_row fail_rows[] = {
	{ "exec fails: missing path", "/no/such/program", NULL, ENOENT, "cannot run '/no/such" },
	{ "exec fails: not in PATH", "gb-no-such-program", NULL, ENOENT, "cannot run 'gb-no" },
	{ "exec fails: a folder", "/tmp", NULL, EACCES, "cannot run '/tmp'" },
	{ "exec fails: no such folder to run in", "true", "/no/such", ENOENT, "in folder '/no/such'" },
	{ "exec fails: no execute bit", "/etc/passwd", NULL, EACCES, "cannot run '/etc/passwd'" },
};

static void exec_fails(void **state)
{
	const struct fail_row *row = *state;
	char *argv[] = { (char *)(uintptr_t)row->program, NULL };
	struct gb_spawn s = { .argv = argv, .cwd = row->cwd };
	struct gb_err err = { 0 };
	pid_t pid = -1;

	assert_true(gb_spawn(&s, &pid, &err) < 0);
	assert_int_equal(err.sys, row->sys);
	assert_non_null(strstr(err.msg, row->part));
	assert_int_equal(pid, -1);
	/* and no zombie is left */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void environment_and_folder(void **state)
{
	char *env[] = { STR("A=1"), STR("PATH=/usr/bin:/bin"), NULL };
	struct gb_spawn s = { .envp = env, .cwd = "/" };
	char text[64];

	(void)state;
	run_sh(&s, "echo $A$HOME; pwd", 1, text, sizeof(text));
	assert_string_equal(text, "1\n/\n");
}

static void on_signal(int signo)
{
	(void)signo;
}

static void signals_are_reset(void **state)
{
	struct gb_spawn s = { 0 };
	char text[256];
	unsigned long long blocked = 1;
	unsigned long long ignored = 1;
	sigset_t block;
	sigset_t old;

	(void)state;
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, on_signal);
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, &old);
	run_sh(&s, "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\n\\t'", 1, text,
		sizeof(text));
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	assert_int_equal(sscanf(text, "SigBlk:%llxSigIgn:%llx", &blocked, &ignored), 2);
	/* 32 and 33 are the C library's own, which it lets nobody change */
	assert_true(blocked == 0 && (ignored & ~(3ull << 31)) == 0);
	/* our own mask is as it was */
	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &block), 0);
	assert_false(sigismember(&block, SIGUSR1));
}

static void new_session(void **state)
{
	struct gb_spawn s = { .new_session = true };
	char text[64];
	char wanted[64];

	(void)state;
	run_sh(&s, "cut -d' ' -f1,6 /proc/$$/stat; echo $$", 1, text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "%.*s", (int)(strchr(text, ' ') - text), text);
	assert_non_null(strstr(strchr(text, ' '), wanted));
}

static void wait_has_a_deadline(void **state)
{
	char *argv[] = { STR("sleep"), STR("1000"), NULL };
	struct gb_spawn s = { .argv = argv };
	pid_t pid;
	int status = -1;
	char text[64];

	(void)state;
	assert_int_equal(gb_spawn(&s, &pid, NULL), 0);
	assert_int_equal(gb_wait_child(pid, gb_deadline_ms(30), &status, NULL), GB_E_TIMEOUT);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(gb_wait_child(pid, gb_deadline_ms(WAIT_MS), &status, NULL), 0);
	gb_describe_status(status, text, sizeof(text));
	assert_string_equal(text, "killed by signal 15 (Terminated)");
	gb_describe_status(3 << 8, text, sizeof(text));
	assert_string_equal(text, "exited with 3");
	gb_describe_status(3 << 8, text, 7);
	assert_string_equal(text, "exited");
	/* reaped: there is nothing to wait for any more */
	assert_true(gb_wait_child(pid, 0, &status, NULL) < 0);
}

static void kill_reaps_and_spares_groups(void **state)
{
	char *argv[] = { STR("sleep"), STR("1000"), NULL };
	struct gb_spawn s = { .argv = argv };
	pid_t pid;

	(void)state;
	assert_int_equal(gb_spawn(&s, &pid, NULL), 0);
	/* 0 and -1 would mean "everybody" to kill(2) */
	gb_kill_child(0);
	gb_kill_child(-1);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	gb_kill_child(pid);
	assert_int_equal(kill(pid, 0), -1);
}

/* A parent in between dies; its child must die with it. */
static void dies_with_parent(void **state)
{
	int alive[2];
	struct pollfd p;
	pid_t middle;

	(void)state;
	assert_int_equal(pipe2(alive, O_CLOEXEC), 0);
	middle = fork();
	assert_true(middle >= 0);
	if (middle == 0) {
		char *argv[] = { STR("sleep"), STR("1000"), NULL };
		struct gb_fd_map map[] = { { alive[1], 3 } };
		struct gb_spawn s = { .argv = argv, .fds = map, .fd_count = 1,
			.die_with_parent = true };
		pid_t pid;

		_exit(gb_spawn(&s, &pid, NULL) < 0);
	}
	close(alive[1]);
	waitpid(middle, NULL, 0);
	p = (struct pollfd){ .fd = alive[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(p.revents & POLLHUP);
	close(alive[0]);
}

int main(void)
{
	static struct rows_list l;

	/* a folder of PATH that may not be looked into would change what exec says */
	setenv("PATH", "/usr/bin:/bin", 1);
	rows_add_one(&l, "exit code and output", exit_code_and_output);
	rows_add_one(&l, "descriptors: swapped", swapped_descriptors);
	rows_add_one(&l, "descriptors: one twice", one_descriptor_twice);
	rows_add_one(&l, "descriptors: nothing else is inherited", nothing_else_is_inherited);
	rows_add_one(&l, "descriptors: not open", descriptor_that_is_not_open);
	rows_add_one(&l, "descriptors: both sides of the limit", descriptors_at_the_limit);
	rows_add(&l, fail_rows, exec_fails);
	rows_add_one(&l, "environment and folder", environment_and_folder);
	rows_add_one(&l, "signals are reset", signals_are_reset);
	rows_add_one(&l, "new session", new_session);
	rows_add_one(&l, "wait has a deadline", wait_has_a_deadline);
	rows_add_one(&l, "kill reaps and spares groups", kill_reaps_and_spares_groups);
	rows_add_one(&l, "dies with its parent", dies_with_parent);
	return rows_run("proc", &l);
}
