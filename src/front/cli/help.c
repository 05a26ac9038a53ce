#include "front/cli/help.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define WIDTH	      80
#define OPTION_INDENT 10

/* Words of text up to its end or a newline, in lines of WIDTH, each after indent blanks;
 * the first line goes on at column. */
static const char *wrap(
	struct gb_buf *out, const char *text, size_t indent, size_t column)
{
	while (*text && *text != '\n') {
		size_t n = strcspn(text, " \n");

		if (column > indent && column + 1 + n > WIDTH) {
			gb_buf_add_byte(out, '\n');
			column = 0;
		}
		if (column < indent)
			gb_buf_printf(out, "%*s", (int)(indent - column), "");
		if (column > indent)
			gb_buf_add_byte(out, ' ');
		column = GB_MAX(column + (column > indent), indent) + n;
		gb_buf_add(out, text, n);
		text += n;
		while (*text == ' ')
			text++;
	}
	gb_buf_add_byte(out, '\n');
	return *text ? text + 1 : text;
}

static void paragraphs(struct gb_buf *out, const char *text)
{
	while (*text) {
		gb_buf_add_byte(out, '\n');
		text = wrap(out, text, 0, 0);
	}
}

static void command_rows(const char *group, struct gb_buf *out)
{
	for (size_t i = 0; i < CMD_COUNT; i++) {
		const struct gb_cli_command *c = &gb_cli_commands[i];

		if (gb_streq(c->group, group))
			gb_buf_printf(out, "  %-12s %s\n", c->name, c->summary);
	}
}

void gb_cli_help_all(struct gb_buf *out)
{
	gb_buf_add_str(out, "usage: glovebox COMMAND [OPTION]... [ARG]...\n\n"
			    "Runs commands in a microVM that sees the project folder and "
			    "nothing else of "
			    "the host.\n\ncommands:\n");
	command_rows(NULL, out);
	for (const char *const *g = gb_cli_groups; *g; g++) {
		gb_buf_printf(out, "\n%s commands (glovebox %s ...):\n", *g, *g);
		command_rows(*g, out);
	}
	gb_buf_add_str(out,
		"\nexamples:\n"
		"  glovebox run -- make test    run it in this folder's machine\n"
		"  glovebox shell               look around in there\n"
		"\nglovebox COMMAND --help tells more about each.\n");
}

void gb_cli_help_group(const char *group, struct gb_buf *out)
{
	gb_buf_printf(out,
		"usage: glovebox %s COMMAND [OPTION]... [ARG]...\n\ncommands:\n", group);
	command_rows(group, out);
	gb_buf_printf(
		out, "\nglovebox %s COMMAND --help tells more about each.\n", group);
}

static void option_row(const struct gb_cli_option *o, struct gb_buf *out)
{
	const struct gb_config_key *k =
		o->key == GB_CLI_NO_KEY ? NULL : gb_config_key((enum gb_config_id)o->key);
	gb_auto_done(gb_buf) text = {0};

	gb_buf_init(&text, 0);
	if (o->letter)
		gb_buf_printf(out, "  -%c, --%s", o->letter, o->name);
	else
		gb_buf_printf(out, "      --%s", o->name);
	gb_buf_printf(out, "%s%s\n", o->arg ? " " : "", o->arg ? o->arg : "");
	gb_buf_add_str(&text, o->help);
	if (k)
		gb_buf_printf(&text, " (%s%s%ssetting %s.%s)",
			*k->fallback ? "default: " : "", k->fallback,
			*k->fallback ? "; " : "", k->table, k->key);
	if (o->id != OPT_HELP)
		gb_buf_printf(&text, "; example: %s", o->example);
	gb_buf_add_byte(&text, 0);
	if (!text.error)
		wrap(out, (const char *)text.data, OPTION_INDENT, 0);
}

void gb_cli_help_command(const struct gb_cli_command *c, struct gb_buf *out)
{
	gb_buf_printf(out, "usage: glovebox %s%s%s%s%s%s\n", c->group ? c->group : "",
		c->group ? " " : "", c->name, c->options ? " [OPTION]..." : "",
		*c->operands ? " " : "", c->operands);
	gb_buf_printf(out, "\n%s\n", c->summary);
	if (c->text)
		paragraphs(out, c->text);
	gb_buf_add_str(out, "\noptions:\n");
	for (int i = 1; i <= OPT_COUNT; i++) {
		const struct gb_cli_option *o = &gb_cli_options[i % OPT_COUNT];

		if (gb_cli_takes(c, o->id))
			option_row(o, out);
	}
	gb_buf_add_str(out, "\nexamples:\n");
	for (const char *const *e = c->examples; *e; e++)
		gb_buf_printf(out, "  %s\n", *e);
}
