#include "front/cli/help.h"

#include "base/str.h"

#include <string.h>

/* How each shell finds the words of a kind. Machines and images are asked for as they are
 * when the key is pressed. */
static const char *const bash_words[] = {
	[WORD_TEXT] = ":",
	[WORD_FILE] = "compgen -f -- \"$cur\"",
	[WORD_FOLDER] = "compgen -d -- \"$cur\"",
	[WORD_MACHINE] = "compgen -W \"$(glovebox ls -q 2>/dev/null)\" -- \"$cur\"",
	[WORD_IMAGE] = "compgen -W \"$(glovebox image ls -q 2>/dev/null)\" -- \"$cur\"",
	[WORD_COMMAND] = "compgen -c -- \"$cur\"",
	[WORD_ACCEL] = "compgen -W 'auto kvm hvf tcg' -- \"$cur\"",
	[WORD_SHELL] = "compgen -W 'bash zsh fish' -- \"$cur\"",
	[WORD_OWN] = "compgen -W \"$commands\" -- \"$cur\"",
	[WORD_COPY] = ("compgen -f -- \"$cur\"; "
		       "compgen -S : -W \"$(glovebox ls -q 2>/dev/null)\" -- \"$cur\""),
	[WORD_TOOL] = "compgen -W \"$(glovebox tool 2>/dev/null | sed -n '2,$s/ .*//p')\" -- \"$cur\"",
};

static const char *const zsh_words[] = {
	[WORD_TEXT] = "_message argument",
	[WORD_FILE] = "_files",
	[WORD_FOLDER] = "_files -/",
	[WORD_MACHINE] = "compadd -- ${(f)\"$(glovebox ls -q 2>/dev/null)\"}",
	[WORD_IMAGE] = "compadd -- ${(f)\"$(glovebox image ls -q 2>/dev/null)\"}",
	[WORD_COMMAND] = "_command_names -e",
	[WORD_ACCEL] = "compadd -- auto kvm hvf tcg",
	[WORD_SHELL] = "compadd -- bash zsh fish",
	[WORD_OWN] = "compadd -- $commands",
	[WORD_COPY] = "_files; compadd -S : -- ${(f)\"$(glovebox ls -q 2>/dev/null)\"}",
	[WORD_TOOL] = "compadd -- ${(f)\"$(glovebox tool 2>/dev/null | sed -n '2,$s/ .*//p')\"}",
};

static const char *const fish_words[] = {
	[WORD_TEXT] = "",
	[WORD_FILE] = "(__fish_complete_path)",
	[WORD_FOLDER] = "(__fish_complete_directories)",
	[WORD_MACHINE] = "(glovebox ls -q 2>/dev/null)",
	[WORD_IMAGE] = "(glovebox image ls -q 2>/dev/null)",
	[WORD_COMMAND] = "(__fish_complete_command)",
	[WORD_ACCEL] = "auto kvm hvf tcg",
	[WORD_SHELL] = "bash zsh fish",
	[WORD_OWN] = "",
	[WORD_COPY] = ("(__fish_complete_path) (glovebox ls -q 2>/dev/null | "
		       "string replace -r '$' ':')"),
	[WORD_TOOL] = "(glovebox tool 2>/dev/null | string replace -f -r '^([a-z_]+) .*' '$1')",
};

/* "run", "image ls": the words that name a command. */
static void add_name(struct gb_buf *out, const struct gb_cli_command *c)
{
	gb_buf_printf(
		out, "%s%s%s", c->group ? c->group : "", c->group ? " " : "", c->name);
}

static void add_options(struct gb_buf *out, const struct gb_cli_command *c)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct gb_cli_option *o = &gb_cli_options[i];

		if (!gb_cli_takes(c, o->id))
			continue;
		gb_buf_printf(out, "--%s ", o->name);
		if (o->letter)
			gb_buf_printf(out, "-%c ", o->letter);
	}
}

static void add_commands(struct gb_buf *out, const char *group)
{
	for (size_t i = 0; i < CMD_COUNT; i++)
		if (gb_streq(gb_cli_commands[i].group, group))
			gb_buf_printf(out, "%s ", gb_cli_commands[i].name);
	for (const char *const *g = gb_cli_groups; !group && *g; g++)
		gb_buf_printf(out, "%s ", *g);
}

/* Cases "COMMAND:OPTION) ..." of all options that take a value. */
static void add_value_cases(struct gb_buf *out, const struct gb_cli_command *c,
	const char *const *words, const char *fmt)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct gb_cli_option *o = &gb_cli_options[i];

		if (!gb_cli_takes(c, o->id) || !o->arg)
			continue;
		gb_buf_add_str(out, "\t\"");
		add_name(out, c);
		gb_buf_printf(out, ":--%s\"", o->name);
		if (o->letter) {
			gb_buf_add_str(out, "|\"");
			add_name(out, c);
			gb_buf_printf(out, ":-%c\"", o->letter);
		}
		gb_buf_printf(out, fmt, words[o->word]);
	}
}

static void bash_commands(struct gb_buf *out)
{
	gb_buf_add_str(out, "\tcase \"$cmd:$prev\" in\n");
	for (size_t i = 0; i < CMD_COUNT; i++)
		add_value_cases(out, &gb_cli_commands[i], bash_words,
			") mapfile -t COMPREPLY < <(%s); return ;;\n");
	gb_buf_add_str(out, "\tesac\n\tcase \"$cmd\" in\n");
	for (size_t i = 0; i < CMD_COUNT; i++) {
		const struct gb_cli_command *c = &gb_cli_commands[i];

		gb_buf_add_str(out, "\t\"");
		add_name(out, c);
		gb_buf_add_str(out, "\")\n\t\tif [[ $cur == -* ]]; then words='");
		add_options(out, c);
		gb_buf_printf(out,
			"'; mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
			"\t\telse mapfile -t COMPREPLY < <(%s); fi ;;\n",
			bash_words[c->word]);
	}
	gb_buf_add_str(out, "\tesac\n");
}

static void completion_bash(struct gb_buf *out)
{
	gb_buf_add_str(out,
		"# bash completion of glovebox\n"
		"_glovebox() {\n"
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		"\tlocal cmd=${COMP_WORDS[1]} words at=2 commands='");
	add_commands(out, NULL);
	gb_buf_add_str(out, "'\n\tCOMPREPLY=()\n"
			    "\tif ((COMP_CWORD == 1)); then\n"
			    "\t\tmapfile -t COMPREPLY < <(compgen -W \"$commands\" -- "
			    "\"$cur\"); return\n"
			    "\tfi\n"
			    "\tcase \"$cmd\" in\n");
	for (const char *const *g = gb_cli_groups; *g; g++) {
		gb_buf_printf(out, "\t%s)\n\t\twords='", *g);
		add_commands(out, *g);
		gb_buf_add_str(out,
			"'\n\t\tif ((COMP_CWORD == 2)); then\n"
			"\t\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
			"\"$cur\"); return\n"
			"\t\tfi\n\t\tcmd=\"$cmd ${COMP_WORDS[2]}\" at=3 ;;\n");
	}
	gb_buf_add_str(out, "\tesac\n");
	bash_commands(out);
	gb_buf_add_str(out, "}\ncomplete -o default -F _glovebox glovebox\n");
}

static void completion_zsh(struct gb_buf *out)
{
	gb_buf_add_str(out,
		"#compdef glovebox\n"
		"_glovebox() {\n"
		"\tlocal cur=$words[CURRENT] prev=$words[CURRENT-1] cmd=$words[2]\n"
		"\tlocal -a commands\n\tcommands=(");
	add_commands(out, NULL);
	gb_buf_add_str(out,
		")\n\tif ((CURRENT == 2)); then compadd -- $commands; return; fi\n"
		"\tcase $cmd in\n");
	for (const char *const *g = gb_cli_groups; *g; g++) {
		gb_buf_printf(
			out, "\t%s)\n\t\tif ((CURRENT == 3)); then compadd -- ", *g);
		add_commands(out, *g);
		gb_buf_add_str(out, "; return; fi\n\t\tcmd=\"$cmd $words[3]\" ;;\n");
	}
	gb_buf_add_str(out, "\tesac\n\tcase \"$cmd:$prev\" in\n");
	for (size_t i = 0; i < CMD_COUNT; i++)
		add_value_cases(out, &gb_cli_commands[i], zsh_words, ") %s; return ;;\n");
	gb_buf_add_str(out, "\tesac\n\tcase $cmd in\n");
	for (size_t i = 0; i < CMD_COUNT; i++) {
		const struct gb_cli_command *c = &gb_cli_commands[i];

		gb_buf_add_str(out, "\t\"");
		add_name(out, c);
		gb_buf_add_str(out, "\")\n\t\tif [[ $cur == -* ]]; then compadd -- ");
		add_options(out, c);
		gb_buf_printf(out, "\n\t\telse %s; fi ;;\n", zsh_words[c->word]);
	}
	gb_buf_add_str(out,
		"\tesac\n}\nif [[ $funcstack[1] == _glovebox ]]; then _glovebox \"$@\"\n"
		"else compdef _glovebox glovebox; fi\n");
}

/* A text within single quotes of fish. */
static void add_quoted(struct gb_buf *out, const char *text)
{
	gb_buf_add_byte(out, '\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			gb_buf_add_byte(out, '\\');
		gb_buf_add_byte(out, (uint8_t)*text);
	}
	gb_buf_add_byte(out, '\'');
}

static void fish_condition(struct gb_buf *out, const struct gb_cli_command *c)
{
	gb_buf_printf(out, "complete -c glovebox -n '__glovebox_is \"");
	add_name(out, c);
	gb_buf_add_str(out, "\"'");
}

static void fish_option(
	struct gb_buf *out, const struct gb_cli_command *c, const struct gb_cli_option *o)
{
	fish_condition(out, c);
	gb_buf_printf(out, " -l %s", o->name);
	if (o->letter)
		gb_buf_printf(out, " -s %c", o->letter);
	if (o->arg) {
		gb_buf_add_str(out, " -x -a ");
		add_quoted(out, fish_words[o->word]);
	}
	gb_buf_add_str(out, " -d ");
	add_quoted(out, o->help);
	gb_buf_add_byte(out, '\n');
}

static void fish_command(struct gb_buf *out, const struct gb_cli_command *c)
{
	gb_buf_add_str(out, "complete -c glovebox -f -n '__glovebox_is \"");
	gb_buf_add_str(out, c->group ? c->group : "");
	gb_buf_printf(out, "\"' -a %s -d ", c->name);
	add_quoted(out, c->summary);
	gb_buf_add_byte(out, '\n');
	for (int i = 0; i < OPT_COUNT; i++)
		if (gb_cli_takes(c, (enum gb_cli_option_id)i))
			fish_option(out, c, &gb_cli_options[i]);
	if (!*fish_words[c->word])
		return;
	fish_condition(out, c);
	gb_buf_add_str(out, " -f -a ");
	add_quoted(out, fish_words[c->word]);
	gb_buf_add_byte(out, '\n');
}

static void completion_fish(struct gb_buf *out)
{
	gb_buf_add_str(out, "# fish completion of glovebox\n"
			    "function __glovebox_is\n"
			    "\tset -l words (commandline -opc)\n"
			    "\tset -e words[1]\n"
			    "\tset -l name\n"
			    "\tif set -q words[1]\n"
			    "\t\tset name $words[1]\n"
			    "\t\tif contains -- $name");
	for (const char *const *g = gb_cli_groups; *g; g++)
		gb_buf_printf(out, " %s", *g);
	gb_buf_add_str(out, "; and set -q words[2]\n"
			    "\t\t\tset name \"$name $words[2]\"\n"
			    "\t\tend\n"
			    "\tend\n"
			    "\ttest \"$name\" = \"$argv[1]\"\n"
			    "end\n");
	for (const char *const *g = gb_cli_groups; *g; g++)
		gb_buf_printf(out,
			"complete -c glovebox -f -n '__glovebox_is \"\"' -a %s\n", *g);
	for (size_t i = 0; i < CMD_COUNT; i++)
		fish_command(out, &gb_cli_commands[i]);
}

bool gb_cli_completion(const char *shell, struct gb_buf *out)
{
	if (gb_streq(shell, "bash"))
		completion_bash(out);
	else if (gb_streq(shell, "zsh"))
		completion_zsh(out);
	else if (gb_streq(shell, "fish"))
		completion_fish(out);
	else
		return false;
	return true;
}
