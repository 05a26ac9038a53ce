#include "config/toml.h"

#include "base/mem.h"

#include <string.h>

/* A dotted key makes one table a dot, and the parser frees tables by recursion: without
 * this bound a file of dots would run it out of stack. The scan follows TOML's tokens
 * only as far as strings and comments go; where the text is malformed the parser stops
 * too, so what the scan makes of the rest does not matter. */
struct dot_scan {
	const char *text;
	size_t len;
	size_t at;
	unsigned line;
	size_t line_start;
	unsigned dots;
};

static bool ahead(const struct dot_scan *s, const char *what, size_t n)
{
	return s->len - s->at >= n && memcmp(s->text + s->at, what, n) == 0;
}

static void newline(struct dot_scan *s)
{
	s->line++;
	s->line_start = s->at + 1;
}

/* At the first quote of a string: move behind its end. */
static void skip_string(struct dot_scan *s)
{
	char quote = s->text[s->at];
	char triple[3] = {quote, quote, quote};
	bool multi = ahead(s, triple, 3);

	for (s->at += multi ? 3 : 1; s->at < s->len; s->at++) {
		char c = s->text[s->at];

		if (c == '\n' && !multi)
			return;
		if (c == '\n')
			newline(s);
		else if (c == '\\' && quote == '"' && s->at + 1 < s->len &&
			 s->text[s->at + 1] != '\n')
			s->at++;
		else if (c == quote && (!multi || ahead(s, triple, 3)))
			break;
	}
	s->at += multi ? 3 : 1;
}

static int check_dots(const char *name, const char *text, size_t len, struct gb_err *err)
{
	struct dot_scan s = {.text = text, .len = len, .line = 1};

	while (s.at < len) {
		char c = text[s.at];

		if (c == '"' || c == '\'') {
			skip_string(&s);
			continue;
		}
		if (c == '#') {
			while (s.at < len && text[s.at] != '\n')
				s.at++;
			continue;
		}
		if (c == '.' && ++s.dots > GB_TOML_DOTS_MAX)
			return gb_fail(err, GB_E_LIMIT,
				"%s:%u:%zu: a key with more than %u dots", name, s.line,
				s.at - s.line_start + 1, GB_TOML_DOTS_MAX);
		if (c && strchr("=,[]{}\n", c))
			s.dots = 0;
		if (c == '\n')
			newline(&s);
		s.at++;
	}
	return 0;
}

int gb_toml_parse(
	const char *name, const char *text, size_t len, json_t **ret, struct gb_err *err)
{
	struct gb_toml_error error = {0};
	json_t *root;
	int r;

	if (len > GB_TOML_MAX)
		return gb_fail(err, GB_E_LIMIT, "%s:1:1: the file is over %zu KiB", name,
			GB_TOML_MAX >> 10);
	r = check_dots(name, text, len, err);
	if (r < 0)
		return r;
	root = gb_toml_shim(text, len, &error);
	if (!root && !error.line)
		return gb_nomem(err);
	if (!root)
		return gb_fail(err, GB_E_PARSE, "%s:%u:%u: %s", name, error.line,
			error.column, error.text);
	*ret = root;
	return 0;
}
