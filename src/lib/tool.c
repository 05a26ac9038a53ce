#include "lib/tool.h"

#include "base/str.h"

#define WORKDIR_TEXT                                                                     \
	"Folder to run in, absolute or below the workspace. The workspace itself when "  \
	"left out."

static const char *const sandbox_words[] = { "use_default", "require_escalated", NULL };
static const char *const detail_words[] = { "high", "original", NULL };

static const struct gb_tool_property exec_inputs[] = {
	{ .name = "cmd", .type = GB_TOOL_STRING, .arg = GB_ARG_CMD, .required = true,
		.max = GB_TOOL_CMD_MAX, .text = "Shell command to run." },
	{ .name = "workdir", .type = GB_TOOL_STRING, .arg = GB_ARG_WORKDIR,
		.max = GB_TOOL_PATH_MAX, .text = WORKDIR_TEXT },
	{ .name = "shell", .type = GB_TOOL_STRING, .arg = GB_ARG_SHELL, .max = GB_TOOL_PATH_MAX,
		.text = "Shell to run the command with, a name or a path. The user's own "
			"when left out." },
	{ .name = "login", .type = GB_TOOL_BOOLEAN, .arg = GB_ARG_LOGIN,
		.text = "Whether the shell is a login shell that reads its start files. "
			"Default: true." },
	{ .name = "tty", .type = GB_TOOL_BOOLEAN, .arg = GB_ARG_TTY,
		.text = "Whether the command gets a terminal. Needed to type into it with "
			"write_stdin. Default: false (its input is empty)." },
	{ .name = "yield_time_ms", .type = GB_TOOL_NUMBER, .arg = GB_ARG_YIELD,
		.text = "How long to wait for the command's end, in milliseconds, before its "
			"output so far is returned. Default: 10000; at least 250, at most "
			"30000." },
	{ .name = "max_output_tokens", .type = GB_TOOL_NUMBER, .arg = GB_ARG_TOKENS,
		.text = "Most tokens of output to return; the middle of longer output is left "
			"out. Default: 10000." },
	{ .name = "justification", .type = GB_TOOL_STRING, .arg = GB_ARG_IGNORED,
		.max = GB_TOOL_CMD_MAX,
		.text = "Why the command is needed. Not used: everything runs inside the "
			"machine." },
	{ .name = "prefix_rule", .type = GB_TOOL_STRINGS, .arg = GB_ARG_IGNORED,
		.max = GB_TOOL_CMD_MAX, .text = "Prefix of commands to approve. Not used." },
	{ .name = "sandbox_permissions", .type = GB_TOOL_WORD, .arg = GB_ARG_IGNORED,
		.words = sandbox_words, .text = "Sandbox to run in. Not used." },
	{ .name = NULL },
};

static const struct gb_tool_property stdin_inputs[] = {
	{ .name = "session_id", .type = GB_TOOL_NUMBER, .arg = GB_ARG_SESSION, .required = true,
		.text = "Session ID that exec_command returned." },
	{ .name = "chars", .type = GB_TOOL_STRING, .arg = GB_ARG_CHARS, .raw = true,
		.max = GB_TOOL_CHARS_MAX,
		.text = "Bytes to type, as they are: end a line with \\n. Nothing: only wait "
			"for output. \\u0003 alone interrupts the command (Ctrl-C)." },
	{ .name = "yield_time_ms", .type = GB_TOOL_NUMBER, .arg = GB_ARG_YIELD,
		.text = "How long to wait for the command's end, in milliseconds. Default "
			"after typing: 250 (250 to 30000); without chars: 5000 (5000 to "
			"300000)." },
	{ .name = "max_output_tokens", .type = GB_TOOL_NUMBER, .arg = GB_ARG_TOKENS,
		.text = "Most tokens of output to return. Default: 10000." },
	{ .name = NULL },
};

static const struct gb_tool_property patch_inputs[] = {
	{ .name = "input", .type = GB_TOOL_STRING, .arg = GB_ARG_PATCH, .required = true,
		.raw = true, .max = GB_TOOL_PATCH_MAX,
		.text = "The whole patch, from *** Begin Patch to *** End Patch." },
	{ .name = "patch", .type = GB_TOOL_STRING, .arg = GB_ARG_PATCH, .hidden = true,
		.raw = true, .max = GB_TOOL_PATCH_MAX, .text = "" },
	{ .name = NULL },
};

static const struct gb_tool_property image_inputs[] = {
	{ .name = "path", .type = GB_TOOL_STRING, .arg = GB_ARG_PATH, .required = true,
		.max = GB_TOOL_PATH_MAX,
		.text = "The picture's file, absolute or below the workspace." },
	{ .name = "detail", .type = GB_TOOL_WORD, .arg = GB_ARG_DETAIL, .words = detail_words,
		.text = "high (default) is enough for most pictures; original keeps more "
			"pixels, for small print." },
	{ .name = NULL },
};

static const struct gb_tool_property exec_outputs[] = {
	{ .name = "chunk_id", .type = GB_TOOL_STRING, .text = "Names this piece of output." },
	{ .name = "wall_time_seconds", .type = GB_TOOL_NUMBER, .required = true,
		.text = "How long this call waited." },
	{ .name = "exit_code", .type = GB_TOOL_NUMBER,
		.text = "The command's exit code, once it has ended." },
	{ .name = "session_id", .type = GB_TOOL_NUMBER,
		.text = "For write_stdin, while the command runs." },
	{ .name = "original_token_count", .type = GB_TOOL_NUMBER,
		.text = "Tokens of the output before anything was left out." },
	{ .name = "output", .type = GB_TOOL_STRING, .required = true,
		.text = "What the command wrote, perhaps without its middle." },
	{ .name = NULL },
};

static const struct gb_tool_property image_outputs[] = {
	{ .name = "image_url", .type = GB_TOOL_STRING, .required = true,
		.text = "The picture as a data URL." },
	{ .name = "detail", .type = GB_TOOL_WORD, .required = true, .words = detail_words,
		.text = "How it was reduced." },
	{ .name = NULL },
};

/* What src/patch accepts beyond it (a here-document around the patch, blank lines, spaces around
 * markers) is not offered to a model. */
static const char patch_grammar[] =
	"start: begin file+ end\n"
	"begin: \"*** Begin Patch\" NL\n"
	"end: \"*** End Patch\" NL?\n"
	"file: add | delete | update\n"
	"add: \"*** Add File: \" name NL (\"+\" text? NL)+\n"
	"delete: \"*** Delete File: \" name NL\n"
	"update: \"*** Update File: \" name NL rename? chunk*\n"
	"rename: \"*** Move to: \" name NL\n"
	"chunk: (anchor+ line* | line+) last?\n"
	"anchor: \"@@\" NL | \"@@ \" text NL\n"
	"line: (\" \" | \"-\" | \"+\") text? NL\n"
	"last: \"*** End of File\" NL\n"
	"name: /[^\\r\\n]+/\n"
	"text: /[^\\r\\n]+/\n"
	"%import common.LF -> NL\n";

const struct gb_tool gb_tools[GB_TOOL_COUNT] = {
	[GB_TOOL_EXEC_COMMAND] = {
		.id = GB_TOOL_EXEC_COMMAND, .name = "exec_command", .title = "Run a command",
		.text = "Runs a shell command inside the machine and returns what it wrote. A "
			"command that has not ended after yield_time_ms goes on running: the "
			"answer then has a session ID, with which write_stdin waits for more "
			"output, types into it, or interrupts it. What a command leaves in the "
			"background ends with its shell, so keep servers running in a session "
			"of their own.",
		.inputs = exec_inputs, .outputs = exec_outputs, .destructive = true,
		.parallel = true },
	[GB_TOOL_WRITE_STDIN] = {
		.id = GB_TOOL_WRITE_STDIN, .name = "write_stdin", .title = "Type into a command",
		.text = "Types into a command that exec_command left running (started with tty: "
			"true), or with no chars only waits, and returns what it wrote since the "
			"last answer.",
		.inputs = stdin_inputs, .outputs = exec_outputs, .destructive = true,
		.parallel = true },
	[GB_TOOL_APPLY_PATCH] = {
		.id = GB_TOOL_APPLY_PATCH, .name = "apply_patch", .title = "Edit files",
		.text = "Adds, changes, renames and deletes files below the workspace. Use it for "
			"edits instead of shell commands. The patch is checked whole before "
			"anything is written: when a part does not fit, nothing changes. Its "
			"form:\n"
			"*** Begin Patch\n"
			"*** Add File: new.txt\n"
			"+a line of the new file\n"
			"*** Update File: old.txt\n"
			"*** Move to: renamed.txt\n"
			"@@ def function_that_the_change_is_in():\n"
			" a line that stays\n"
			"-a line that goes\n"
			"+a line that comes\n"
			"*** Delete File: obsolete.txt\n"
			"*** End Patch\n"
			"Move to and the text behind @@ are optional. Show about three lines that "
			"stay around each change, and name a place with @@ when they are not "
			"unique. Every line of an added file starts with +. Paths are relative "
			"to the workspace.",
		.inputs = patch_inputs, .grammar = patch_grammar, .destructive = true },
	[GB_TOOL_VIEW_IMAGE] = {
		.id = GB_TOOL_VIEW_IMAGE, .name = "view_image", .title = "Look at a picture",
		.text = "Shows a picture file of the machine (PNG, JPEG, GIF, WebP, BMP or PNM) to "
			"you. Use it for pictures that nobody has shown you yet.",
		.inputs = image_inputs, .outputs = image_outputs, .read_only = true,
		.parallel = true },
};

const struct gb_tool *gb_tool_find(const char *name)
{
	for (size_t i = 0; i < GB_TOOL_COUNT; i++)
		if (gb_streq(gb_tools[i].name, name))
			return &gb_tools[i];
	return NULL;
}

void gb_tool_args_done(struct gb_tool_args *a)
{
	for (size_t i = 0; i < GB_ARG_COUNT; i++)
		free(gb_take_ptr(a->v[i].text));
}

static uint64_t clamp(const struct gb_tool_value *v, int64_t normal, int64_t least, int64_t most)
{
	int64_t n = v->given ? v->number : normal;

	return (uint64_t)GB_MIN(GB_MAX(n, least), most);
}

uint64_t gb_tool_yield_ms(const struct gb_tool_args *a)
{
	const struct gb_tool_value *v = &a->v[GB_ARG_YIELD];

	if (a->tool->id == GB_TOOL_EXEC_COMMAND)
		return clamp(v, GB_TOOL_EXEC_YIELD, GB_TOOL_YIELD_MIN, GB_TOOL_YIELD_MAX);
	if (a->v[GB_ARG_CHARS].len)
		return clamp(v, GB_TOOL_WRITE_YIELD, GB_TOOL_YIELD_MIN, GB_TOOL_YIELD_MAX);
	return clamp(v, GB_TOOL_POLL_YIELD, GB_TOOL_POLL_MIN, GB_TOOL_POLL_MAX);
}

size_t gb_tool_budget(const struct gb_tool_args *a)
{
	const int64_t most = (int64_t)(GB_TOOL_OUTPUT_MAX / GB_TOOL_TOKEN_BYTES);

	return (size_t)clamp(&a->v[GB_ARG_TOKENS], GB_TOOL_TOKENS, 0, most) *
	       GB_TOOL_TOKEN_BYTES;
}
