#include "guest/env.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *gb_env_get(char *const *envp, const char *name)
{
	size_t len = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return *envp + len + 1;
	return NULL;
}

static int add_all(char *const *from, struct gb_strv *to, struct gb_err *err)
{
	for (; from && *from; from++) {
		const char *eq = strchr(*from, '=');

		if (!eq || eq == *from)
			return gb_fail(err, GB_E_INVALID,
				"environment entry '%.64s' is not NAME=VALUE", *from);
		gb_strv_set_env(to, *from);
	}
	return 0;
}

static void add_missing(struct gb_strv *to, const char *name, const char *value)
{
	if (!gb_env_get(to->v, name))
		gb_strv_addf(to, "%s=%s", name, value);
}

int gb_env_build(char *const *configured, char *const *extra, const struct gb_user *u, bool tty,
	struct gb_strv *ret, struct gb_err *err)
{
	int r = add_all(configured, ret, err);

	if (r == 0)
		r = add_all(extra, ret, err);
	if (r < 0)
		return r;
	add_missing(ret, "PATH", GB_DEFAULT_PATH);
	add_missing(ret, "HOME", u->home);
	add_missing(ret, "USER", u->name);
	add_missing(ret, "LOGNAME", u->name);
	add_missing(ret, "SHELL", u->shell);
	if (tty)
		add_missing(ret, "TERM", GB_DEFAULT_TERM);
	return gb_strv_check(ret, "environment", err);
}

bool gb_env_is_sensitive(const char *entry)
{
	static const char *const words[] = { "AUTH", "AUTHORIZATION", "COOKIE", "CREDENTIAL",
		"CREDENTIALS", "KEY", "PASS", "PASSWD", "PASSWORD", "SECRET", "TOKEN" };
	size_t end = strcspn(entry, "=");

	for (size_t at = 0; at < end;) {
		size_t len = GB_MIN(strcspn(entry + at, "_"), end - at);

		for (size_t i = 0; i < GB_ARRAY_SIZE(words); i++)
			if (strlen(words[i]) == len && strncasecmp(entry + at, words[i], len) == 0)
				return true;
		at += len + 1;
	}
	return false;
}

int gb_env_build_tool(char *const *configured, char *const *extra, const struct gb_user *u,
	struct gb_strv *ret, struct gb_err *err)
{
	static const char *const fixed[] = { "NO_COLOR=1", "TERM=dumb", "LANG=C.UTF-8",
		"LC_CTYPE=C.UTF-8", "LC_ALL=C.UTF-8", "COLORTERM=", "PAGER=cat", "GIT_PAGER=cat",
		"GH_PAGER=cat", "CODEX_CI=1" };
	gb_auto_done(gb_strv) kept = { 0 };
	int r;

	for (; configured && *configured; configured++)
		if (!gb_env_is_sensitive(*configured))
			gb_strv_add(&kept, *configured);
	r = gb_strv_check(&kept, "environment", err);
	if (r == 0)
		r = gb_env_build(kept.v, extra, u, false, ret, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < GB_ARRAY_SIZE(fixed); i++)
		gb_strv_set_env(ret, fixed[i]);
	return gb_strv_check(ret, "environment", err);
}

#define SCRIPT_ARGS_MAX 4096

/* A text file without "#!": a shell would run it, so we have the shell run it. */
static int exec_script(const char *path, char *const *argv, char *const *envp)
{
	char *args[SCRIPT_ARGS_MAX];
	size_t n = 0;

	args[n++] = (char *)(uintptr_t) "sh";
	args[n++] = (char *)(uintptr_t)path;
	for (size_t i = 1; argv[i]; i++) {
		if (n >= SCRIPT_ARGS_MAX - 1)
			return E2BIG;
		args[n++] = argv[i];
	}
	args[n] = NULL;
	execve("/bin/sh", args, envp);
	return ENOEXEC;
}

static int exec_path(const char *path, char *const *argv, char *const *envp)
{
	struct stat st;

	execve(path, argv, envp);
	if (errno == ENOEXEC)
		return exec_script(path, argv, envp);
	/* the interpreter or loader that it names is missing: not the same as no file */
	if (errno == ENOENT && stat(path, &st) == 0)
		return ELIBACC;
	return errno;
}

int gb_env_exec(char *const *argv, char *const *envp)
{
	const char *path = gb_env_get(envp, "PATH");
	char file[4096];
	int result = ENOENT;

	if (!argv[0][0])
		return ENOENT;
	if (strchr(argv[0], '/'))
		return exec_path(argv[0], argv, envp);
	for (const char *p = path ? path : GB_DEFAULT_PATH;;) {
		size_t len = strcspn(p, ":");
		int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)len, p, len ? "/" : "",
			argv[0]);
		int r = n < (int)sizeof(file) ? exec_path(file, argv, envp) : ENAMETOOLONG;

		/* a file that is there but may not be run says more than one that is not */
		if (r != ENOENT && r != ENOTDIR && r != ENAMETOOLONG && r != EACCES)
			return r;
		if (r == EACCES)
			result = EACCES;
		if (!p[len])
			return result;
		p += len + 1;
	}
}
