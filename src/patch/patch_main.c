#include "patch/patch_main.h"
#include "base/fd.h"
#include "base/str.h"
#include "patch/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define USAGE                                                                            \
	"Usage: apply_patch [--allow-outside] 'PATCH'\n"                                 \
	"       echo 'PATCH' | apply_patch [--allow-outside]\n"

struct call {
	bool outside;
	bool help;
	const char *patch; /* NULL: standard input */
};

/* 0, or the exit code. --preserve-crlf is what other programs of this name need to be
 * told. */
static int read_arguments(int argc, char **argv, struct call *call)
{
	int at = 1;

	for (; at < argc && gb_starts_with(argv[at], "-"); at++) {
		if (gb_streq(argv[at], "--allow-outside"))
			call->outside = true;
		else if (gb_streq(argv[at], "--help") || gb_streq(argv[at], "-h"))
			call->help = true;
		else if (!gb_streq(argv[at], "--preserve-crlf"))
			break;
	}
	if (at < argc)
		call->patch = argv[at++];
	if (at == argc)
		return 0;
	fputs("Error: apply_patch accepts exactly one PATCH argument.\n", stderr);
	return 2;
}

static int read_stdin(struct gb_buf *ret)
{
	struct gb_err err;
	size_t got;

	do {
		char *to = gb_buf_reserve(ret, 65536);

		if (!to)
			break;
		if (gb_fd_read_full(STDIN_FILENO, to, 65536, &got, &err) < 0) {
			fprintf(stderr, "Error: Failed to read PATCH from stdin.\n%s\n",
				err.msg);
			return 1;
		}
		ret->len += got;
	} while (got == 65536);
	if (ret->error) {
		fprintf(stderr, "Error: the PATCH is over %zu bytes.\n",
			GB_PATCH_TEXT_MAX);
		return 1;
	}
	if (!ret->len) {
		fputs(USAGE, stderr);
		return 2;
	}
	return 0;
}

static bool is_below(const char *path, const char *root)
{
	size_t n = strlen(root);

	return n > 1 && *root == '/' && strncmp(path, root, n) == 0 &&
	       (!path[n] || path[n] == '/');
}

static int apply(const struct call *call, const char *text, size_t len)
{
	gb_auto_free char *cwd = getcwd(NULL, 0);
	const char *named = getenv("GLOVEBOX_WORKSPACE");
	gb_auto_done(gb_buf) out = { 0 };
	gb_auto_fd root = -1;
	struct gb_patch_where where = { .allow_outside = call->outside };
	int r;

	if (!cwd) {
		fprintf(stderr, "Error: Failed to determine current directory.\n%s\n",
			strerror(errno));
		return 1;
	}
	where.root_path = named && *named ? named : "/work";
	if (!is_below(cwd, where.root_path))
		where.root_path = cwd;
	where.cwd = cwd;
	root = open(where.root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		fprintf(stderr, "Error: Failed to open the workspace %s: %s\n",
			where.root_path, strerror(errno));
		return 1;
	}
	where.root = root;
	r = gb_patch_apply(&where, text, len, GB_PATCH_AS_COMMAND, &out, NULL);
	fwrite(out.data, 1, out.len, r < 0 ? stderr : stdout);
	return r < 0 || fflush(stdout) == EOF ? 1 : 0;
}

int gb_patch_main(int argc, char **argv)
{
	gb_auto_done(gb_buf) in = { 0 };
	struct call call = { 0 };
	int code = read_arguments(argc, argv, &call);

	if (code)
		return code;
	if (call.help) {
		fputs(USAGE, stdout);
		return fflush(stdout) == EOF;
	}
	if (call.patch)
		return apply(&call, call.patch, strlen(call.patch));
	gb_buf_init(&in, GB_PATCH_TEXT_MAX + 65536);
	code = read_stdin(&in);
	return code ? code : apply(&call, (const char *)in.data, in.len);
}
