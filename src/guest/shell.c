#include "guest/shell.h"

#include <stdio.h>
#include <string.h>

#define SHELL_PATH_MAX 4096

enum kind { KIND_OTHER, KIND_ZSH, KIND_BASH, KIND_SH, KIND_POWERSHELL };

static enum kind kind_of(const char *shell)
{
	static const struct {
		const char *name;
		enum kind kind;
	} names[] = { { "zsh", KIND_ZSH }, { "bash", KIND_BASH }, { "sh", KIND_SH },
		{ "pwsh", KIND_POWERSHELL }, { "powershell", KIND_POWERSHELL } };
	const char *base = strrchr(shell, '/');
	size_t len;

	base = base ? base + 1 : shell;
	len = strcspn(base, ".");
	for (size_t i = 0; i < GB_ARRAY_SIZE(names); i++)
		if (strlen(names[i].name) == len && strncmp(base, names[i].name, len) == 0)
			return names[i].kind;
	return KIND_OTHER;
}

static bool there(const struct gb_shell_world *w, const char *path)
{
	return path[0] == '/' && w->is_file(w->ctx, path);
}

/* The first folder of PATH that has it. */
static bool in_path(const struct gb_shell_world *w, const char *name, char *ret, size_t size)
{
	for (const char *p = w->path; p && *p;) {
		size_t len = strcspn(p, ":");
		int n = snprintf(ret, size, "%.*s/%s", (int)len, p, name);

		if (n > 0 && (size_t)n < size && there(w, ret))
			return true;
		p += len + (p[len] == ':');
	}
	return false;
}

static bool find(const struct gb_shell_world *w, enum kind kind, char *ret, size_t size)
{
	static const char *const names[] = { NULL, "zsh", "bash", "sh", "pwsh" };
	static const char *const usual[][3] = { { NULL }, { "/bin/zsh" },
		{ "/bin/bash", "/usr/bin/bash" }, { "/bin/sh" }, { "/usr/bin/pwsh" } };

	if (kind_of(w->user_shell) == kind && there(w, w->user_shell)) {
		snprintf(ret, size, "%s", w->user_shell);
		return true;
	}
	if (in_path(w, names[kind], ret, size))
		return true;
	for (const char *const *p = usual[kind]; *p; p++)
		if (there(w, *p)) {
			snprintf(ret, size, "%s", *p);
			return true;
		}
	return false;
}

static enum kind choose(const struct gb_shell_world *w, const char *wanted, char *ret, size_t size)
{
	enum kind kind = kind_of(*wanted ? wanted : w->user_shell);

	if (kind != KIND_OTHER) {
		if (*wanted && there(w, wanted)) {
			snprintf(ret, size, "%s", wanted);
			return kind;
		}
		if (find(w, kind, ret, size))
			return kind;
	}
	if (!*wanted && find(w, KIND_BASH, ret, size))
		return KIND_BASH;
	if (!*wanted && find(w, KIND_ZSH, ret, size))
		return KIND_ZSH;
	snprintf(ret, size, "/bin/sh");
	return KIND_SH;
}

int gb_shell_argv(const struct gb_shell_world *w, const char *wanted, const char *script,
	bool login, struct gb_strv *ret, struct gb_err *err)
{
	char program[SHELL_PATH_MAX];
	enum kind kind = choose(w, wanted, program, sizeof(program));

	gb_strv_add(ret, program);
	if (kind == KIND_POWERSHELL) {
		if (!login)
			gb_strv_add(ret, "-NoProfile");
		gb_strv_add(ret, "-Command");
	} else {
		gb_strv_add(ret, login ? "-lc" : "-c");
	}
	gb_strv_add(ret, script);
	return gb_strv_check(ret, "the shell's arguments", err);
}
