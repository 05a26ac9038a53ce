/* A machine for an agent's commands, in 60 lines.
 *
 *	cc embed.c $(pkg-config --cflags --libs glovebox) -o embed
 *	./embed . make test
 *
 * Runs a command in a new machine that has the folder at /work, shows its output as it comes, and
 * ends with its exit code. The machine is gone afterwards, whatever happens. */
#include <glovebox.h>

#include <stdio.h>
#include <unistd.h>

static void progress(void *ctx, const char *line)
{
	(void)ctx;
	fprintf(stderr, "%s\n", line);
}

static int output(void *ctx, int stream, const void *data, size_t len)
{
	(void)ctx;
	return fwrite(data, 1, len, stream == GLOVEBOX_STREAM_ERR ? stderr : stdout) != len;
}

static int run(struct glovebox_workspace *ws, const char *const *argv, struct glovebox_error *err)
{
	struct glovebox_exec_options command = { .size = sizeof(command), .argv = argv };
	struct glovebox_callbacks callbacks = { .size = sizeof(callbacks), .output = output };
	struct glovebox_exit exit = { .size = sizeof(exit) };
	int r = glovebox_exec(
		glovebox_workspace_own_tools(ws), &command, &callbacks, &exit, err);

	return r < 0 ? r : exit.code;
}

int main(int argc, char **argv)
{
	struct glovebox_launch_options options = { .size = sizeof(options),
		.progress = progress };
	struct glovebox_workspace *ws;
	struct glovebox_error err;
	int code;

	if (argc < 3) {
		fprintf(stderr, "usage: embed FOLDER COMMAND [ARGUMENT…]\n");
		return 2;
	}
	options.directory = argv[1];
	code = glovebox_workspace_launch(&options, &ws, &err);
	if (code == 0) {
		code = run(ws, (const char *const *)argv + 2, &err);
		if (code >= 0 && glovebox_workspace_shutdown(ws, 0, &err) < 0)
			code = -1;
		glovebox_workspace_free(ws);
	}
	if (code < 0)
		fprintf(stderr, "embed: %s\n", err.message);
	return code < 0 ? 125 : code;
}
