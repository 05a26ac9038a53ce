#include "front/cli/args.h"

#include "base/str.h"

#include <string.h>

#define WORDS_MAX (CMD_COUNT + 8)

void gb_cli_args_done(struct gb_cli_args *a)
{
	free(a->seen);
	free(a->operands);
	memset(a, 0, sizeof(*a));
}

bool gb_cli_given(const struct gb_cli_args *a, enum gb_cli_option_id id)
{
	return gb_cli_value(a, id) != NULL;
}

const char *gb_cli_value(const struct gb_cli_args *a, enum gb_cli_option_id id)
{
	for (size_t i = a->seen_count; i; i--)
		if (a->seen[i - 1].id == id)
			return a->seen[i - 1].value;
	return NULL;
}

static int suggest(struct gb_err *err, const char *what, const char *word,
	const char *dashes, const char *const *words)
{
	const char *near = gb_nearest(word, words);

	if (!near)
		return gb_fail(
			err, GB_E_INVALID, "unknown %s '%s%s'", what, dashes, word);
	return gb_fail(err, GB_E_INVALID, "unknown %s '%s%s' (did you mean '%s%s'?)",
		what, dashes, word, dashes, near);
}

static int unknown_command(const char *group, const char *word, struct gb_err *err)
{
	const char *words[WORDS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < CMD_COUNT; i++)
		if (gb_streq(gb_cli_commands[i].group, group))
			words[n++] = gb_cli_commands[i].name;
	for (const char *const *g = gb_cli_groups; !group && *g; g++)
		words[n++] = *g;
	words[n] = NULL;
	return suggest(err, group ? "subcommand" : "command", word, "", words);
}

static int unknown_option(
	const struct gb_cli_command *c, const char *name, struct gb_err *err)
{
	const char *words[OPT_COUNT + 1];
	size_t n = 0;

	for (int i = 0; i < OPT_COUNT; i++)
		if (gb_cli_takes(c, (enum gb_cli_option_id)i))
			words[n++] = gb_cli_options[i].name;
	words[n] = NULL;
	return suggest(err, "option", name, "--", words);
}

/* The words that are left, and where what they mean goes. */
struct parser {
	int argc;
	char **argv;
	int at;
	struct gb_cli_args *ret;
	struct gb_err *err;
};

static void add_seen(struct parser *p, enum gb_cli_option_id id, const char *value)
{
	/* seen has room for one a character of argv, see gb_cli_parse */
	p->ret->seen[p->ret->seen_count++] = (struct gb_cli_seen){id, value};
	if (id == OPT_HELP)
		p->ret->help = true;
}

static const struct gb_cli_option *find_long(
	const struct gb_cli_command *c, const char *name, size_t len)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct gb_cli_option *o = &gb_cli_options[i];

		if (gb_cli_takes(c, o->id) && strlen(o->name) == len &&
			memcmp(o->name, name, len) == 0)
			return o;
	}
	return NULL;
}

static const struct gb_cli_option *find_letter(
	const struct gb_cli_command *c, char letter)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (gb_cli_takes(c, (enum gb_cli_option_id)i) &&
			gb_cli_options[i].letter == letter)
			return &gb_cli_options[i];
	return NULL;
}

/* The next word is the value of an option. */
static int take_value(struct parser *p, const struct gb_cli_option *o)
{
	if (p->at == p->argc)
		return gb_fail(p->err, GB_E_INVALID, "option --%s needs %s (such as %s)",
			o->name, o->arg, o->example);
	add_seen(p, o->id, p->argv[p->at++]);
	return 0;
}

static int parse_long(struct parser *p, const char *word)
{
	size_t len = strcspn(word, "=");
	const struct gb_cli_option *o = find_long(p->ret->command, word, len);
	const char *value = word[len] ? word + len + 1 : NULL;

	if (!o) {
		gb_auto_free char *name = strndup(word, len);

		return name ? unknown_option(p->ret->command, name, p->err)
			    : gb_nomem(p->err);
	}
	if (!o->arg && value)
		return gb_fail(
			p->err, GB_E_INVALID, "option --%s takes no value", o->name);
	if (o->arg && !value)
		return take_value(p, o);
	add_seen(p, o->id, value ? value : "");
	return 0;
}

/* "-it", "-w DIR", "-wDIR", "-w=DIR" is the folder "=DIR". */
static int parse_letters(struct parser *p, const char *letters)
{
	for (; *letters; letters++) {
		const struct gb_cli_option *o = find_letter(p->ret->command, *letters);

		if (!o)
			return gb_fail(
				p->err, GB_E_INVALID, "unknown option '-%c'", *letters);
		if (o->arg && letters[1]) {
			add_seen(p, o->id, letters + 1);
			return 0;
		}
		if (o->arg)
			return take_value(p, o);
		add_seen(p, o->id, "");
	}
	return 0;
}

static int parse_words(struct parser *p)
{
	struct gb_cli_args *a = p->ret;
	bool options = true;
	bool marked = false;

	while (p->at < p->argc) {
		char *word = p->argv[p->at++];
		int r = 0;

		if (!options || word[0] != '-' || !word[1]) {
			/* exec MACHINE -- COMMAND: a mark between the two */
			if (a->command->id == CMD_EXEC && a->operand_count == 1 &&
				!marked && gb_streq(word, "--")) {
				marked = true;
				continue;
			}
			a->operands[a->operand_count++] = word;
			options = options && !a->command->stops;
		} else if (gb_streq(word, "--")) {
			options = false;
		} else if (word[1] == '-') {
			r = parse_long(p, word + 2);
		} else {
			r = parse_letters(p, word + 1);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_operands(const struct gb_cli_args *a, struct gb_err *err)
{
	const struct gb_cli_command *c = a->command;
	int n = (int)a->operand_count;

	if (n < c->min)
		return gb_fail(err, GB_E_INVALID, "%s%s%s needs %s",
			c->group ? c->group : "", c->group ? " " : "", c->name,
			c->operands);
	if (c->max != GB_CLI_MANY && n > c->max)
		return gb_fail(err, GB_E_INVALID, "'%s' is one word too many",
			a->operands[c->max]);
	return 0;
}

/* "image ls" or "run" at the front. */
static int parse_command(struct parser *p)
{
	struct gb_cli_args *a = p->ret;
	const char *word = p->argv[p->at++];

	if (gb_streq(word, "--help") || gb_streq(word, "-h")) {
		a->help = true;
		return 0;
	}
	if (gb_streq(word, "--version"))
		word = "version";
	if (gb_cli_is_group(word)) {
		a->group = word;
		if (p->at == p->argc)
			return gb_fail(
				p->err, GB_E_INVALID, "%s needs a subcommand", word);
		word = p->argv[p->at++];
		if (gb_streq(word, "--help") || gb_streq(word, "-h")) {
			a->help = true;
			return 0;
		}
	}
	a->command = gb_cli_command_find(a->group, word);
	if (!a->command && word[0] == '-')
		return gb_fail(p->err, GB_E_INVALID,
			"option '%s' stands before a command; options go behind it",
			word);
	return a->command ? 0 : unknown_command(a->group, word, p->err);
}

int gb_cli_parse(int argc, char **argv, struct gb_cli_args *ret, struct gb_err *err)
{
	struct parser p = {argc, argv, 1, ret, err};
	size_t letters = 1;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (argc < 2)
		return gb_fail(err, GB_E_INVALID, "a command is needed");
	for (int i = 1; i < argc; i++)
		letters += strlen(argv[i]);
	ret->seen = calloc(letters, sizeof(*ret->seen));
	ret->operands = calloc((size_t)argc + 1, sizeof(*ret->operands));
	if (!ret->seen || !ret->operands)
		return gb_nomem(err);
	r = parse_command(&p);
	if (r < 0 || ret->help)
		return r;
	r = parse_words(&p);
	if (ret->help)
		return 0;
	return r < 0 ? r : check_operands(ret, err);
}
