#include "rows.h"
#include "tmpdir.h"

#include "guest/env.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct env_row {
	const char *name;
	const char *configured[4];
	const char *extra[4];
	bool tty;
	int code;
	const char *joined; /* what comes out, joined by '|' */
};

#define REST "|HOME=/h|USER=u|LOGNAME=u|SHELL=/s"
static const struct env_row rows[] = {
	{ "env: nothing", { NULL }, { NULL }, false, 0, "PATH=" GB_DEFAULT_PATH REST },
	{ "env: a terminal", { NULL }, { NULL }, true, 0,
		"PATH=" GB_DEFAULT_PATH REST "|TERM=" GB_DEFAULT_TERM },
	{ "env: later wins", { "A=1", "B=2" }, { "A=3", "A=4" }, false, 0,
		"A=4|B=2|PATH=" GB_DEFAULT_PATH REST },
	{ "env: what is given stays", { "PATH=/x", "HOME=/y" }, { "TERM=dumb" }, true, 0,
		"PATH=/x|HOME=/y|TERM=dumb|USER=u|LOGNAME=u|SHELL=/s" },
	{ "env: empty is given", { "PATH=" }, { "HOME=" }, false, 0,
		"PATH=|HOME=|USER=u|LOGNAME=u|SHELL=/s" },
	{ "env: a name that begins alike", { "HOMER=1" }, { NULL }, false, 0,
		"HOMER=1|PATH=" GB_DEFAULT_PATH REST },
	{ "env: equals in the value", { "A==b=" }, { NULL }, false, 0,
		"A==b=|PATH=" GB_DEFAULT_PATH REST },
	{ "env: no equals", { "A" }, { NULL }, false, GB_E_INVALID, NULL },
	{ "env: no name", { NULL }, { "=x" }, false, GB_E_INVALID, NULL },
};

static void build(void **state)
{
	static const struct gb_user u = { .name = (char *)(uintptr_t) "u",
		.home = (char *)(uintptr_t) "/h",
		.shell = (char *)(uintptr_t) "/s" };
	const struct env_row *row = *state;
	struct gb_strv env = { 0 };
	char text[1024] = "";
	int r = gb_env_build((char *const *)(uintptr_t)row->configured,
		(char *const *)(uintptr_t)row->extra, &u, row->tty, &env, NULL);

	for (size_t i = 0; i < env.n; i++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%s", used ? "|" : "", env.v[i]);
	}
	gb_strv_done(&env);
	assert_int_equal(r, row->code);
	if (r == 0)
		assert_string_equal(text, row->joined);
}

/* Programs in folders a, b and what is executed. */
struct exec_row {
	const char *name;
	const char *program; /* "%" stands for the folder */
	const char *path;    /* the same; NULL: no PATH */
	int result;          /* exit code, or -errno */
};
static const struct exec_row exec_rows[] = {
	{ "exec: by path", "%/a/seven", "", 7 },
	{ "exec: found in PATH", "seven", "%/b:%/a", 7 },
	{ "exec: first in PATH", "both", "%/b:%/a", 2 },
	{ "exec: not executable is passed over", "plain", "%/a:%/b", 3 },
	{ "exec: not executable anywhere", "plain", "%/a", -EACCES },
	{ "exec: a folder", "folder", "%/a", -EACCES },
	{ "exec: nowhere", "nowhere", "%/a:%/b:%/missing", -ENOENT },
	{ "exec: a part of PATH is a file", "seven", "%/a/seven:%/a", 7 },
	{ "exec: a path that is not there", "%/a/none", "%/a", -ENOENT },
	{ "exec: an empty name", "", "%/a", -ENOENT },
	{ "exec: a script without its first line", "bare", "%/a", 5 },
	{ "exec: an interpreter that is missing", "odd", "%/a", -ELIBACC },
	{ "exec: the default PATH", "true", NULL, 0 },
};

static bool program(const struct tmpdir *t, const char *name, const char *text, mode_t mode)
{
	int fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool programs(const struct tmpdir *t)
{
	return mkdirat(t->fd, "a", 0755) == 0 && mkdirat(t->fd, "b", 0755) == 0 &&
		mkdirat(t->fd, "a/folder", 0755) == 0 &&
		program(t, "a/seven", "#!/bin/sh\nexit 7\n", 0755) &&
		program(t, "a/both", "#!/bin/sh\nexit 1\n", 0755) &&
		program(t, "b/both", "#!/bin/sh\nexit 2\n", 0755) &&
		program(t, "a/plain", "#!/bin/sh\nexit 4\n", 0644) &&
		program(t, "b/plain", "#!/bin/sh\nexit 3\n", 0755) &&
		program(t, "a/bare", "exit $1\n", 0755) &&
		program(t, "a/odd", "#!/no/such/interpreter\n", 0755);
}

static void expand(const struct tmpdir *t, const char *prefix, const char *from, char *to, size_t size)
{
	size_t n = (size_t)snprintf(to, size, "%s", prefix);

	for (; *from; from++)
		n += (size_t)(*from == '%' ? snprintf(to + n, size - n, "%s", t->path)
					   : snprintf(to + n, size - n, "%c", *from));
}

static int exec_in_child(char *const *argv, char *const *envp)
{
	int status;
	int p[2];
	int cause = 0;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1000;
	pid = fork();
	if (pid == 0) {
		cause = gb_env_exec(argv, envp);
		_exit(write(p[1], &cause, sizeof(cause)) < 0 ? 98 : 99);
	}
	close(p[1]);
	if (read(p[0], &cause, sizeof(cause)) < 0)
		cause = 1001;
	close(p[0]);
	waitpid(pid, &status, 0);
	return cause ? -cause : WIFEXITED(status) ? WEXITSTATUS(status) : -1002;
}

static void run(void **state)
{
	const struct exec_row *row = *state;
	struct tmpdir t;
	char name[1024], path[4096];
	char arg[] = "5";
	char *argv[] = { name, arg, NULL };
	char *envp[] = { row->path ? path : NULL, NULL };
	int r = -1003;

	/* valgrind runs the program itself, and ends when its interpreter is missing */
	if (row->result == -ELIBACC && getenv("GB_UNDER_VALGRIND"))
		skip();
	assert_true(tmpdir_make(&t));
	expand(&t, "", row->program, name, sizeof(name));
	expand(&t, "PATH=", row->path ? row->path : "", path, sizeof(path));
	if (programs(&t))
		r = exec_in_child(argv, envp);
	assert_int_equal(tmpdir_remove(&t), 0);
	assert_int_equal(r, row->result);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, rows, build);
	rows_add(&l, exec_rows, run);
	return rows_run("guest env", &l);
}
