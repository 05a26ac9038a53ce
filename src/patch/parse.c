/* The parser: first the lines of the patch proper (trimmed, taken out of a
 * here-document), then line by line. What a line may be depends on the hunk it is in:
 *
 *   outside       a header, trimmed on both sides
 *   in an Add     + lines, or a header
 *   in an Update  a header only if not indented, since an indented one is a kept line */
#include "patch/parse.h"
#include "patch/report.h"

#include <string.h>

#define ADD_MARK    GB_SPAN("*** Add File: ")
#define DELETE_MARK GB_SPAN("*** Delete File: ")
#define UPDATE_MARK GB_SPAN("*** Update File: ")
#define MOVE_MARK   GB_SPAN("*** Move to: ")
#define ENV_MARK    GB_SPAN("*** Environment ID:")

#define NOT_A_HEADER                                                                     \
	"'%.*s' is not a valid hunk header. Valid hunk headers: '*** Add File: "         \
	"{path}', "                                                                      \
	"'*** Delete File: {path}', '*** Update File: {path}'"
#define NOT_A_CHANGE                                                                     \
	"Unexpected line found in update hunk: '%.*s'. Every line should start with ' "  \
	"' "                                                                             \
	"(context line), '+' (added line), or '-' (removed line)"
#define NOT_A_CHUNK "Expected update hunk to start with a @@ context marker, got: '%.*s'"
#define NO_LINES    "Update hunk does not contain any lines"

struct parser {
	struct gb_patch *patch;
	struct gb_patch_report *report;
	struct gb_err *err;
	const struct gb_span *lines; /* from the begin marker to the end marker */
	size_t count;
	size_t at;		      /* the line that is looked at */
	struct gb_patch_hunk *hunk;   /* the open one; NULL before the first */
	struct gb_patch_chunk *chunk; /* the open one of an update, or NULL */
	bool ended;		      /* the chunk had its "*** End of File" */
	bool environment;
};

static int bad_line(struct parser *p, const char *fmt)
{
	return gb_patch_fail_line(
		p->report, p->err, p->at + 1, fmt, GB_SPAN_ARG(p->lines[p->at]));
}

static bool blank(struct gb_span line)
{
	return gb_span_trim(line).len == 0;
}

static bool is_header(struct gb_span line)
{
	return gb_span_cut(&line, ADD_MARK) || gb_span_cut(&line, DELETE_MARK) ||
	       gb_span_cut(&line, UPDATE_MARK);
}

static int push_line(struct parser *p, char op, struct gb_span text, bool bare)
{
	struct gb_patch *patch = p->patch;

	if (!gb_grow(&patch->lines, &patch->line_cap, patch->line_count + 1,
		    sizeof(*patch->lines)))
		return gb_patch_nomem(p->report, p->err);
	patch->lines[patch->line_count++] = (struct gb_patch_line){ op, bare, text };
	if (p->chunk)
		p->chunk->count++;
	else
		p->hunk->count++;
	return 0;
}

static int open_chunk(struct parser *p)
{
	struct gb_patch *patch = p->patch;

	if (!gb_grow(&patch->chunks, &patch->chunk_cap, patch->chunk_count + 1,
		    sizeof(*patch->chunks)))
		return gb_patch_nomem(p->report, p->err);
	p->chunk = &patch->chunks[patch->chunk_count++];
	*p->chunk = (struct gb_patch_chunk){ .first = patch->line_count };
	p->hunk->count++;
	return 0;
}

static bool chunk_is_empty(const struct gb_patch_chunk *c)
{
	return c->count == c->anchors;
}

/* A chunk that only adds has nothing to find: empty lines behind it are no lines of the
 * file but distance to what comes next. */
static void drop_separators(struct parser *p)
{
	const struct gb_patch_line *lines = p->patch->lines + p->chunk->first;
	size_t keep = p->chunk->count;

	while (keep > p->chunk->anchors && lines[keep - 1].bare)
		keep--;
	for (size_t i = p->chunk->anchors; i < keep; i++)
		if (lines[i].op != '+')
			return;
	if (keep == p->chunk->anchors)
		return;
	p->patch->line_count -= p->chunk->count - keep;
	p->chunk->count = keep;
}

static int close_chunk(struct parser *p)
{
	if (p->chunk && chunk_is_empty(p->chunk))
		return gb_patch_fail_line(p->report, p->err, p->at + 1, NO_LINES);
	if (p->chunk)
		drop_separators(p);
	p->chunk = NULL;
	p->ended = false;
	return 0;
}

static int close_hunk(struct parser *p)
{
	int r = close_chunk(p);

	if (r < 0 || !p->hunk)
		return r;
	if (p->hunk->kind == GB_PATCH_UPDATE && !p->hunk->count && !p->hunk->move)
		return gb_patch_fail_line(p->report, p->err, p->hunk->number,
			"Update file hunk for path '%s' is empty", p->hunk->path);
	return 0;
}

static int take_path(struct parser *p, struct gb_span text, char **ret)
{
	text = gb_span_trim(text);
	if (memchr(text.at, 0, text.len))
		return gb_patch_fail_line(
			p->report, p->err, p->at + 1, "a path holds a NUL byte");
	*ret = strndup(text.at, text.len);
	return *ret ? 0 : gb_patch_nomem(p->report, p->err);
}

/* header is trimmed as its place wants it. */
static int open_hunk(struct parser *p, struct gb_span header)
{
	struct gb_patch *patch = p->patch;
	struct gb_patch_hunk h = { .kind = GB_PATCH_UPDATE, .number = p->at + 1 };
	int r = close_hunk(p);

	if (r < 0)
		return r;
	if (patch->hunk_count == GB_PATCH_HUNKS_MAX)
		return gb_patch_fail(p->report, p->err, GB_PATCH_BAD_PATCH, GB_E_LIMIT,
			"more than %zu files: split the patch", GB_PATCH_HUNKS_MAX);
	if (gb_span_cut(&header, ADD_MARK))
		h.kind = GB_PATCH_ADD;
	else if (gb_span_cut(&header, DELETE_MARK))
		h.kind = GB_PATCH_DELETE;
	else
		gb_span_cut(&header, UPDATE_MARK);
	h.first = h.kind == GB_PATCH_UPDATE ? patch->chunk_count : patch->line_count;
	if (!gb_grow(&patch->hunks, &patch->hunk_cap, patch->hunk_count + 1,
		    sizeof(*patch->hunks)))
		return gb_patch_nomem(p->report, p->err);
	r = take_path(p, header, &h.path);
	if (r < 0)
		return r;
	p->hunk = &patch->hunks[patch->hunk_count++];
	*p->hunk = h;
	return 0;
}

/* Empty lines are fine between a hunk without a body of its own form and the next header.
 */
static bool only_blank_before_header(const struct parser *p)
{
	size_t i = p->at;

	while (i < p->count - 1 && blank(p->lines[i]))
		i++;
	return i == p->count - 1 || is_header(gb_span_trim(p->lines[i]));
}

static int outside_line(struct parser *p)
{
	struct gb_span line = p->lines[p->at];
	struct gb_span trimmed = gb_span_trim(line);

	if (p->hunk && p->hunk->kind == GB_PATCH_ADD && gb_span_cut(&line, GB_SPAN("+")))
		return push_line(p, '+', line, false);
	if (is_header(trimmed))
		return open_hunk(p, trimmed);
	if (blank(line) && only_blank_before_header(p))
		return 0;
	if (!p->hunk && !p->environment && gb_span_cut(&trimmed, ENV_MARK)) {
		p->environment = true;
		if (!blank(trimmed))
			return 0;
		return gb_patch_fail(p->report, p->err, GB_PATCH_BAD_PATCH, GB_E_PARSE,
			"The environment id must not be empty");
	}
	return gb_patch_fail_line(
		p->report, p->err, p->at + 1, NOT_A_HEADER, GB_SPAN_ARG(trimmed));
}

static int anchor_line(struct parser *p, struct gb_span text)
{
	/* one may follow another: the first class, then the method in it */
	if (p->chunk && chunk_is_empty(p->chunk) && (!text.len || !p->chunk->anchors))
		return bad_line(p, NOT_A_CHANGE);
	if (!p->chunk || !chunk_is_empty(p->chunk)) {
		int r = close_chunk(p);

		if (r == 0)
			r = open_chunk(p);
		if (r < 0)
			return r;
	}
	if (!text.len)
		return 0;
	p->chunk->anchors++;
	return push_line(p, '@', text, false);
}

static int end_of_file_line(struct parser *p)
{
	if (!p->chunk || chunk_is_empty(p->chunk))
		return gb_patch_fail_line(p->report, p->err, p->at + 1, NO_LINES);
	p->chunk->at_end = true;
	p->ended = true;
	return 0;
}

static int change_line(struct parser *p, struct gb_span line)
{
	char op = line.len ? line.at[0] : ' ';
	int r = 0;

	if (op != ' ' && op != '-' && op != '+') {
		if (!p->chunk || chunk_is_empty(p->chunk))
			return bad_line(p, NOT_A_CHANGE);
		return bad_line(p, op == '*' ? NOT_A_HEADER : NOT_A_CHUNK);
	}
	if (!p->chunk)
		r = open_chunk(p);
	if (r < 0)
		return r;
	if (!line.len)
		return push_line(p, ' ', GB_SPAN(""), true);
	return push_line(p, op, (struct gb_span){ line.at + 1, line.len - 1 }, false);
}

static int update_line(struct parser *p)
{
	struct gb_span line = p->lines[p->at];
	struct gb_span cut = gb_span_trim_end(line);

	if (is_header(cut))
		return open_hunk(p, cut);
	if (!p->hunk->count && !p->hunk->move && gb_span_cut(&cut, MOVE_MARK))
		return take_path(p, cut, &p->hunk->move);
	if (gb_span_eq(cut, GB_SPAN("@@")))
		return anchor_line(p, GB_SPAN(""));
	if (gb_span_cut(&cut, GB_SPAN("@@ ")))
		return anchor_line(p, cut);
	if (gb_span_eq(cut, GB_SPAN("*** End of File")) && !p->ended)
		return end_of_file_line(p);
	if ((!p->chunk || p->ended) && blank(line))
		return 0;
	if (p->ended)
		return bad_line(p, line.at[0] == '*' ? NOT_A_HEADER : NOT_A_CHUNK);
	return change_line(p, line);
}

static int parse_lines(struct parser *p)
{
	for (p->at = 1; p->at < p->count - 1; p->at++) {
		bool update = p->hunk && p->hunk->kind == GB_PATCH_UPDATE;
		int r = update ? update_line(p) : outside_line(p);

		if (r < 0)
			return r;
	}
	if (!p->hunk)
		return gb_patch_fail(p->report, p->err, GB_PATCH_NO_HUNKS, GB_E_PARSE,
			"No files were modified.");
	return close_hunk(p);
}

static bool is_begin(struct gb_span line)
{
	return gb_span_eq(gb_span_trim(line), GB_SPAN("*** Begin Patch"));
}

static bool is_end(struct gb_span line)
{
	return gb_span_eq(gb_span_trim(line), GB_SPAN("*** End Patch"));
}

static bool word_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/* "<<EOF", quoted or not, with any word, with or without the command before it. */
static bool here_document(struct gb_span first, struct gb_span last)
{
	if (gb_span_cut(&first, GB_SPAN("apply_patch")) ||
		gb_span_cut(&first, GB_SPAN("applypatch")))
		first = gb_span_trim(first);
	if (!gb_span_cut(&first, GB_SPAN("<<")))
		return false;
	if (first.len > 2 && (first.at[0] == '\'' || first.at[0] == '"') &&
		first.at[first.len - 1] == first.at[0])
		first = (struct gb_span){ first.at + 1, first.len - 2 };
	for (size_t i = 0; i < first.len; i++)
		if (!word_letter(first.at[i]))
			return false;
	last = gb_span_trim(last);
	if (!first.len || last.len < first.len)
		return false;
	last.at += last.len - first.len;
	last.len = first.len;
	return gb_span_eq(first, last);
}

static int check_markers(struct parser *p)
{
	if (p->count >= 4 && here_document(p->lines[0], p->lines[p->count - 1])) {
		p->lines++;
		p->count -= 2;
	}
	if (!p->count || !is_begin(p->lines[0]))
		return gb_patch_fail(p->report, p->err, GB_PATCH_BAD_PATCH, GB_E_PARSE,
			"The first line of the patch must be '*** Begin Patch'");
	if (p->count < 2 || !is_end(p->lines[p->count - 1]))
		return gb_patch_fail(p->report, p->err, GB_PATCH_BAD_PATCH, GB_E_PARSE,
			"The last line of the patch must be '*** End Patch'");
	return 0;
}

static int split(struct parser *p, struct gb_span text, struct gb_span **ret)
{
	size_t cap = 0;
	unsigned eol;
	struct gb_span line;

	text = gb_span_trim(text);
	gb_span_cut(&text, GB_SPAN("\xef\xbb\xbf")); /* a byte order mark */
	while (gb_span_line(&text, &line, &eol)) {
		if (p->count == GB_PATCH_LINES_MAX)
			return gb_patch_fail(p->report, p->err, GB_PATCH_BAD_PATCH,
				GB_E_LIMIT, "more than %zu lines: split the patch",
				GB_PATCH_LINES_MAX);
		if (!gb_grow(ret, &cap, p->count + 1, sizeof(**ret)))
			return gb_patch_nomem(p->report, p->err);
		(*ret)[p->count++] = line;
	}
	p->lines = *ret;
	return 0;
}

int gb_patch_parse(const char *text, size_t len, struct gb_patch **ret,
	struct gb_patch_report *report, struct gb_err *err)
{
	gb_auto_free struct gb_span *lines = NULL;
	gb_auto(gb_patch) *patch = calloc(1, sizeof(*patch));
	struct parser p = { .patch = patch, .report = report, .err = err };
	int r;

	if (!patch)
		return gb_patch_nomem(report, err);
	if (len > GB_PATCH_TEXT_MAX)
		return gb_patch_fail(report, err, GB_PATCH_BAD_PATCH, GB_E_LIMIT,
			"over %zu bytes: split the patch", GB_PATCH_TEXT_MAX);
	r = split(&p, (struct gb_span){ text, len }, &lines);
	if (r == 0)
		r = check_markers(&p);
	if (r == 0)
		r = parse_lines(&p);
	if (r < 0)
		return r;
	*ret = gb_take_ptr(patch);
	return 0;
}

struct gb_patch *gb_patch_free(struct gb_patch *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->hunk_count; i++) {
		free(p->hunks[i].path);
		free(p->hunks[i].move);
	}
	free(p->hunks);
	free(p->chunks);
	free(p->lines);
	free(p);
	return NULL;
}
