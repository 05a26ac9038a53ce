#include "guest/env.h"
#include "guest/shell.h"

#include "rows.h"

#include <stdio.h>
#include <string.h>

struct shell_row {
	const char *name;
	const char *user_shell;
	const char *wanted;
	const char *files; /* ":" around each path that is there */
	const char *program;
	const char *flag; /* NULL: as for a login shell of POSIX */
};

#define DEBIAN ":/bin/bash:/usr/bin/bash:/bin/sh:"

static const struct shell_row shell_rows[] = {
	{ "shell: the user's", "/bin/bash", "", DEBIAN, "/bin/bash", NULL },
	{ "shell: the user's zsh", "/usr/bin/zsh", "", DEBIAN "/usr/bin/zsh:", "/usr/bin/zsh", NULL },
	{ "shell: the user's is gone, its kind is elsewhere", "/opt/zsh", "", DEBIAN "/bin/zsh:", "/bin/zsh",
		NULL },
	{ "shell: the user's kind is gone: bash", "/bin/zsh", "", DEBIAN, "/usr/bin/bash", NULL },
	{ "shell: nologin becomes bash", "/usr/sbin/nologin", "", DEBIAN, "/usr/bin/bash", NULL },
	{ "shell: none and no bash: zsh", "", "", ":/bin/zsh:/bin/sh:", "/bin/zsh", NULL },
	{ "shell: only sh", "", "", ":/bin/sh:", "/bin/sh", NULL },
	{ "shell: nothing at all", "", "", ":", "/bin/sh", NULL },
	{ "shell: a path", "/bin/bash", "/opt/bin/zsh", DEBIAN "/opt/bin/zsh:", "/opt/bin/zsh", NULL },
	{ "shell: a path that is not there", "/bin/bash", "/opt/bin/bash", DEBIAN, "/bin/bash", NULL },
	{ "shell: a name, found in PATH", "/bin/sh", "bash", ":/usr/local/bin/bash:" DEBIAN,
		"/usr/local/bin/bash", NULL },
	{ "shell: a name that is the user's", "/opt/bash", "bash", ":/opt/bash:" DEBIAN, "/opt/bash", NULL },
	{ "shell: sh", "/bin/bash", "sh", DEBIAN, "/bin/sh", NULL },
	{ "shell: with an ending", "/bin/bash", "bash.exe", DEBIAN, "/bin/bash", NULL },
	{ "shell: not one that is known", "/bin/bash", "fish", DEBIAN "/usr/bin/fish:", "/bin/sh", NULL },
	{ "shell: a name that only begins so", "/bin/bash", "bashful", DEBIAN, "/bin/sh", NULL },
	{ "shell: known but nowhere", "/bin/bash", "zsh", DEBIAN, "/bin/sh", NULL },
	{ "shell: powershell", "/bin/bash", "pwsh", DEBIAN "/usr/bin/pwsh:", "/usr/bin/pwsh", "-Command" },
	{ "shell: a relative path is no file", "/bin/bash", "./bash", DEBIAN ":./bash:", "/bin/bash", NULL },
};

static bool is_file(void *ctx, const char *path)
{
	char word[128];

	snprintf(word, sizeof(word), ":%s:", path);
	return strstr(ctx, word);
}

static void shell(void **state)
{
	const struct shell_row *row = *state;
	struct gb_shell_world w = { .user_shell = row->user_shell,
		.path = "/usr/local/bin:/usr/bin:/bin",
		.is_file = is_file,
		.ctx = (void *)(uintptr_t)row->files };
	struct gb_strv login = { 0 }, plain = { 0 };
	int r = gb_shell_argv(&w, row->wanted, "echo hi", true, &login, NULL);
	int r2 = gb_shell_argv(&w, row->wanted, "echo hi", false, &plain, NULL);

	assert_int_equal(r, 0);
	assert_int_equal(r2, 0);
	assert_int_equal(login.n, 3);
	assert_string_equal(login.v[0], row->program);
	assert_string_equal(login.v[1], row->flag ? row->flag : "-lc");
	assert_string_equal(login.v[2], "echo hi");
	assert_string_equal(plain.v[0], row->program);
	assert_string_equal(plain.v[1], row->flag ? "-NoProfile" : "-c");
	assert_string_equal(plain.v[plain.n - 1], "echo hi");
	gb_strv_done(&login);
	gb_strv_done(&plain);
}

struct sensitive_row {
	const char *name; /* the entry */
	bool sensitive;
};

static const struct sensitive_row sensitive_rows[] = {
	{ "API_KEY=x", true },
	{ "KEY=x", true },
	{ "github_token=x", true },
	{ "A_SECRET_B=x", true },
	{ "MY_PASSWORD", true },
	{ "DB_PASS=x", true },
	{ "HTTP_AUTHORIZATION=x", true },
	{ "SESSION_COOKIE=x", true },
	{ "KEYBOARD=x", false },
	{ "MONKEY=x", false },
	{ "TOKENIZER=x", false },
	{ "PATH=/key/token", false },
	{ "X=A_KEY", false },
	{ "=KEY", false },
	{ "_=x", false },
	{ "A__KEY__=x", true },
};

static void sensitive(void **state)
{
	const struct sensitive_row *row = *state;

	assert_int_equal(gb_env_is_sensitive(row->name), row->sensitive);
}

static void tools_environment(void **state)
{
	static char *const configured[] = { (char *)(uintptr_t) "API_KEY=secret-of-the-image",
		(char *)(uintptr_t) "TERM=linux", (char *)(uintptr_t) "LANG=de_DE", (char *)(uintptr_t) "A=1",
		(char *)(uintptr_t) "PATH=/x", NULL };
	static char *const extra[] = { (char *)(uintptr_t) "A=2", (char *)(uintptr_t) "PAGER=less",
		(char *)(uintptr_t) "MY_TOKEN=given", NULL };
	static const struct {
		const char *name, *value;
	} want[] = { { "A", "2" }, { "TERM", "dumb" }, { "LANG", "C.UTF-8" }, { "PATH", "/x" },
		{ "PAGER", "cat" }, { "MY_TOKEN", "given" }, { "HOME", "/home/u" }, { "USER", "u" },
		{ "COLORTERM", "" }, { "NO_COLOR", "1" }, { "CODEX_CI", "1" }, { "GH_PAGER", "cat" } };
	struct gb_user u = { .name = (char *)(uintptr_t) "u", .home = (char *)(uintptr_t) "/home/u",
		.shell = (char *)(uintptr_t) "/bin/sh" };
	struct gb_strv env = { 0 };

	(void)state;
	assert_int_equal(gb_env_build_tool(configured, extra, &u, &env, NULL), 0);
	for (size_t i = 0; i < GB_ARRAY_SIZE(want); i++) {
		const char *value = gb_env_get(env.v, want[i].name);

		assert_non_null(value);
		assert_string_equal(value, want[i].value);
	}
	assert_null(gb_env_get(env.v, "API_KEY"));
	gb_strv_done(&env);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, shell_rows, shell);
	rows_add(&l, sensitive_rows, sensitive);
	rows_add_one(&l, "the tools' environment", tools_environment);
	return rows_run("guest shell", &l);
}
