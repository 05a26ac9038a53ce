/* The four tools of a model, as an agent would call them.
 *
 *	cc tools.c $(pkg-config --cflags --libs glovebox) -o tools
 *	./tools FOLDER
 *
 * Writes a program with apply_patch, runs it with exec_command, talks to it with write_stdin, and
 * looks at a picture that it made with view_image. */
#include <glovebox.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char patch[] = "*** Begin Patch\n"
			    "*** Add File: hello.sh\n"
			    "+#!/bin/sh\n"
			    "+printf 'name? '\n"
			    "+read -r name\n"
			    "+echo \"hello, $name\"\n"
			    "+printf 'P3 2 1 255 255 0 0 0 0 255 ' > dots.ppm\n"
			    "*** End Patch\n";

/* One call, shown; its result, which the caller frees. Ends the program when the machine fails;
 * what the model did wrong is for the model to read. */
static struct glovebox_tool_result *call(
	struct glovebox_tools *tools, const char *name, const char *arguments)
{
	struct glovebox_tool_result *result;
	struct glovebox_error err;

	printf("--> %s %s\n", name, arguments);
	if (glovebox_tool_call(tools, name, arguments, NULL, &result, &err) < 0) {
		fprintf(stderr, "tools: %s\n", err.message);
		exit(1);
	}
	printf("<-- %s\n%s\n", result->success ? "in order" : "failed", result->text);
	if (result->image)
		printf("    and a picture: %s, %zu bytes\n", result->image_mime, result->image_len);
	return result;
}

static void show(struct glovebox_tools *tools, const char *name, const char *arguments)
{
	glovebox_tool_result_free(call(tools, name, arguments));
}

/* The session's number, out of what a model would read. */
static long session_of(const struct glovebox_tool_result *result)
{
	const char *text = strstr(result->text, "session ID ");

	return text ? strtol(text + strlen("session ID "), NULL, 10) : -1;
}

static void use(struct glovebox_tools *tools)
{
	struct glovebox_tool_result *started;
	char arguments[128];

	show(tools, "apply_patch", patch);
	started = call(tools, "exec_command",
		"{\"cmd\": \"sh hello.sh\", \"tty\": true, \"yield_time_ms\": 1000}");
	snprintf(arguments, sizeof(arguments), "{\"session_id\": %ld, \"chars\": \"world\\n\"}",
		session_of(started));
	glovebox_tool_result_free(started);
	show(tools, "write_stdin", arguments);
	show(tools, "view_image", "{\"path\": \"dots.ppm\"}");
}

int main(int argc, char **argv)
{
	struct glovebox_launch_options options = { .size = sizeof(options) };
	struct glovebox_workspace *ws;
	struct glovebox_tools *tools;
	struct glovebox_error err;
	size_t count;
	const struct glovebox_tool_definition *first = glovebox_tool_definitions(&count);

	if (argc != 2) {
		fprintf(stderr, "usage: tools FOLDER\n");
		return 2;
	}
	printf("%zu tools, the first is %s: %s\n", count, first->name, first->parameters_json);
	options.directory = argv[1];
	if (glovebox_workspace_launch(&options, &ws, &err) < 0) {
		fprintf(stderr, "tools: %s\n", err.message);
		return 1;
	}
	/* a capability of its own could be given to a thread, an agent, a plug-in */
	tools = glovebox_workspace_tools(ws);
	if (tools)
		use(tools);
	glovebox_tools_unref(tools);
	if (glovebox_workspace_shutdown(ws, 0, &err) < 0)
		fprintf(stderr, "tools: %s\n", err.message);
	glovebox_workspace_free(ws);
	return 0;
}
