/* Applying the difference of two random texts to the first gives the second. The seed is
 * printed; GB_TEST_SEED sets it. */
#include "rows.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "patch/match.h"
#include "patch_text.h"
#include "tmpdir.h"

#include <sys/stat.h>

#define ROUNDS	    4000
#define TREE_ROUNDS 300

static unsigned next_id;

/* Few different lines, so that texts repeat themselves; an empty one among them. */
static void common_line(char *line)
{
	static const char *const words[] = { "", "a", "b", "\tc", "d ", "*** End Patch",
		"+", "@@" };

	snprintf(line, LINE_BYTES, "%s", words[random_below(GB_ARRAY_SIZE(words))]);
}

/* A line that is nowhere else, also when it is compared loosely. */
static void own_line(char *line)
{
	static const char *const forms[] = { "%u", "  %u", "\t%u  ",
		"\xe2\x80\x9c%u\xe2\x80\x9d", "%u \xe2\x80\x93 x", "caf\xe9 %u" };

	snprintf(line, LINE_BYTES, forms[random_below(GB_ARRAY_SIZE(forms))], next_id++);
}

static void random_text(struct text *t, void (*make)(char *line))
{
	t->count = random_below(TEXT_LINES / 2);
	for (size_t i = 0; i < t->count; i++)
		make(t->line[i]);
}

/* The line as a model may remember it: other spaces at its ends, ASCII for Unicode. */
static void put_loosely(struct gb_buf *b, const char *line)
{
	while (*line == ' ' || *line == '\t')
		line++;
	if (random_below(2))
		gb_buf_add_byte(b, ' ');
	for (; *line; line++) {
		if (strncmp(line, "\xe2\x80\x93", 3) == 0)
			gb_buf_add_byte(b, '-');
		else if (strncmp(line, "\xe2\x80", 2) == 0)
			gb_buf_add_byte(b, '"');
		else
			gb_buf_add_byte(b, (uint8_t)*line);
		if ((unsigned char)*line == 0xe2)
			line += 2;
	}
	gb_buf_add_str(b, random_below(2) ? " \t" : "");
}

static void put_op(struct gb_buf *b, const struct op *op, bool loose)
{
	gb_buf_add_byte(b, (uint8_t)op->op);
	if (loose && op->op != '+')
		put_loosely(b, op->line);
	else
		gb_buf_add_str(b, op->line);
	gb_buf_add_byte(b, '\n');
}

/* One chunk with all lines: finds its place whatever repeats. */
static void put_whole(struct gb_buf *b, const struct op *ops, size_t n)
{
	gb_buf_add_str(b, "@@\n");
	for (size_t i = 0; i < n; i++) {
		/* an empty line may stand for a kept one, unless it could be mere
		 * distance */
		if (ops[i].op == ' ' && !*ops[i].line && i + 1 < n && *ops[i + 1].line &&
			random_below(2))
			gb_buf_add_byte(b, '\n');
		else
			put_op(b, &ops[i], false);
	}
	if (random_below(2) && n && ops[n - 1].op != '+')
		gb_buf_add_str(b, "*** End of File\n");
}

/* A chunk for ops [from, to), given that lines before done are behind us. */
static void put_chunk(struct gb_buf *b, const struct op *ops, size_t from, size_t to,
	const struct text *old, size_t done, bool loose)
{
	bool finds = false;

	for (size_t i = from; i < to; i++)
		finds |= ops[i].op != '+';
	if (ops[from].old > done && (!finds || random_below(2)))
		gb_buf_printf(b, "@@ %s\n", old->line[ops[from].old - 1]);
	else
		gb_buf_add_str(b, "@@\n");
	for (size_t i = from; i < to; i++)
		put_op(b, &ops[i], loose);
}

/* Chunks with few lines around each change. */
static void put_chunks(struct gb_buf *b, const struct op *ops, size_t n,
	const struct text *old, bool loose)
{
	size_t done = 0; /* old lines */
	size_t free_from = 0;

	for (size_t i = 0; i < n; i++) {
		size_t from = i;
		size_t to;
		size_t around = random_below(3);

		if (ops[i].op == ' ')
			continue;
		while (from > free_from && i - from < around)
			from--;
		for (to = i; to < n && ops[to].op != ' '; to++)
			;
		/* a pure insertion that no free line precedes needs one behind it */
		if (ops[from].old <= done && around == 0 && ops[i].old < old->count)
			around = 1;
		for (; to < n && around && ops[to].op == ' '; around--)
			to++;
		put_chunk(b, ops, from, to, old, done, loose);
		done = to < n ? ops[to].old : old->count;
		free_from = to;
		i = to - 1;
	}
}

static void check_round(
	const struct text *old, const struct text *fresh, bool whole, unsigned round)
{
	static struct op ops[2 * TEXT_LINES];
	struct gb_buf patch_text = { 0 }, before = { 0 }, after = { 0 }, got = { 0 };
	struct gb_patch_report report;
	struct gb_patch *patch = NULL;
	struct gb_err err = { 0 };
	size_t n = diff(old, fresh, ops);
	const char *eol = random_below(2) ? "\r\n" : "\n";
	bool last_eol = random_below(2);
	int r;

	/* a last line that is empty is none */
	if ((old->count && !*old->line[old->count - 1]) ||
		(fresh->count && !*fresh->line[fresh->count - 1]))
		last_eol = true;
	put_text(old, eol, last_eol, &before);
	if (!old->count || (old->count == 1 && !last_eol))
		eol = "\n";
	put_text(fresh, eol, last_eol || !old->count, &after);
	gb_buf_add_str(
		&patch_text, "*** Begin Patch\n*** Update File: f\n*** Move to: f\n");
	if (whole)
		put_whole(&patch_text, ops, n);
	else
		put_chunks(&patch_text, ops, n, old, random_below(2));
	gb_buf_add_str(&patch_text, "*** End Patch\n");
	gb_patch_report_init(&report);
	r = gb_patch_parse(
		(char *)patch_text.data, patch_text.len, &patch, &report, &err);
	if (r == 0)
		r = gb_patch_rewrite(patch, &patch->hunks[0], "f",
			(struct gb_span){
				before.data ? (char *)before.data : "", before.len },
			&got, &report, &err);
	if (r < 0 || got.len != after.len ||
		(got.len && memcmp(got.data, after.data, got.len) != 0)) {
		print_error("round %u: %s\n--- old\n%.*s\n--- patch\n%.*s--- "
			    "got\n%.*s\n--- wanted\n%.*s\n",
			round, err.msg, (int)before.len, (char *)before.data,
			(int)patch_text.len, (char *)patch_text.data, (int)got.len,
			(char *)got.data, (int)after.len, (char *)after.data);
		fail();
	}
	gb_patch_free(patch);
	gb_patch_report_done(&report);
	gb_buf_done(&patch_text);
	gb_buf_done(&before);
	gb_buf_done(&after);
	gb_buf_done(&got);
}

static void rounds(void (*make)(char *), bool whole)
{
	static struct text old, fresh;

	for (unsigned i = 0; i < ROUNDS; i++) {
		next_id = 10000;
		random_text(&old, make);
		change_text(&old, &fresh, make);
		if (old.count || fresh.count)
			check_round(&old, &fresh, whole, i);
	}
}

static void whole_file(void **state)
{
	(void)state;
	rounds(common_line, true);
}

static void own_lines(void **state)
{
	(void)state;
	rounds(own_line, false);
}

/* ------------------------------------------------------------------ trees */

static const char *const names[] = { "a", "b", "d/a", "d/e/a", "link" };
#define NAMES GB_ARRAY_SIZE(names)
#define LINK  4 /* leads to "b"; only read through and removed */

struct tree {
	struct text file[NAMES];
	bool there[NAMES];
};

struct tree_round {
	struct tree now;
	struct gb_buf patch;
	bool wrong; /* a hunk cannot be carried out: nothing may be */
};

static void add_random(struct tree_round *t, size_t at)
{
	struct text *f = &t->now.file[at];

	random_text(f, own_line);
	t->now.there[at] = true;
	gb_buf_printf(&t->patch, "*** Add File: %s\n", names[at]);
	for (size_t i = 0; i < f->count; i++)
		gb_buf_printf(&t->patch, "+%s\n", f->line[i]);
}

static void delete_random(struct tree_round *t, size_t at)
{
	t->wrong |= !t->now.there[at];
	t->now.there[at] = false;
	gb_buf_printf(&t->patch, "*** Delete File: %s\n", names[at]);
}

static void update_random(struct tree_round *t, size_t at)
{
	static struct text fresh;
	static struct op ops[2 * TEXT_LINES];
	size_t to = random_below(2) ? at : random_below(LINK);
	struct text *f = &t->now.file[at];

	gb_buf_printf(&t->patch, "*** Update File: %s\n*** Move to: %s\n", names[at],
		names[to]);
	t->wrong |= !t->now.there[at];
	if (random_below(3)) {
		change_text(f, &fresh, own_line);
		put_chunks(&t->patch, ops, diff(f, &fresh, ops), f, false);
		*f = fresh;
	}
	t->now.there[at] = false;
	t->now.file[to] = *f;
	t->now.there[to] = true;
}

static void put_tree(const struct tmpdir *tmp, const struct tree *t)
{
	for (size_t i = 0; i < LINK; i++) {
		struct gb_buf b = { 0 };

		unlinkat(tmp->fd, names[i], 0);
		put_text(&t->file[i], "\n", true, &b);
		if (t->there[i])
			assert_int_equal(gb_file_write_atomic(tmp->fd, names[i], b.data,
						 b.len, 0640, NULL),
				0);
		gb_buf_done(&b);
	}
	unlinkat(tmp->fd, names[LINK], 0);
	if (t->there[LINK])
		assert_int_equal(symlinkat("b", tmp->fd, names[LINK]), 0);
}

static void check_tree(const struct tmpdir *tmp, const struct tree *t)
{
	struct stat st;

	for (size_t i = 0; i < NAMES; i++) {
		struct gb_buf want = { 0 }, got = { 0 };
		int r = gb_file_read(tmp->fd, names[i], 1 << 20, &got, NULL);

		put_text(&t->file[i], "\n", true, &want);
		if (i == LINK) {
			assert_int_equal(
				fstatat(tmp->fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0,
				t->there[i]);
		} else if (t->there[i]) {
			assert_int_equal(r, 0);
			assert_int_equal(got.len, want.len);
			assert_memory_equal(
				got.data, want.len ? want.data : got.data, want.len);
		} else {
			assert_int_equal(r, GB_E_NOTFOUND);
		}
		gb_buf_done(&want);
		gb_buf_done(&got);
	}
}

/* No name of ours is left. */
static void check_clean(const struct tmpdir *tmp)
{
	char command[700];
	FILE *p;

	snprintf(command, sizeof(command), "find '%s' -name '.apply_patch*'", tmp->path);
	p = popen(command, "r");
	assert_non_null(p);
	assert_int_equal(fgetc(p), EOF);
	pclose(p);
}

static void tree_round(struct tmpdir *tmp, unsigned round)
{
	static struct tree before;
	static struct tree_round t;
	struct gb_patch_where where = { .root = tmp->fd, .root_path = tmp->path };
	struct gb_buf out = { 0 };
	struct gb_err err = { 0 };
	int r;

	memset(&before, 0, sizeof(before));
	memset(&t, 0, sizeof(t));
	for (size_t i = 0; i < NAMES; i++) {
		before.there[i] = random_below(4) != 0;
		random_text(&before.file[i], own_line);
	}
	put_tree(tmp, &before);
	t.now = before;
	gb_buf_add_str(&t.patch, "*** Begin Patch\n");
	for (unsigned n = 1 + random_below(5); n > 0; n--) {
		size_t at = random_below(LINK);

		if (random_below(12) == 0)
			delete_random(&t, LINK);
		else if (random_below(3) == 0)
			add_random(&t, at);
		else if (random_below(4) == 0)
			delete_random(&t, at);
		else
			update_random(&t, at);
	}
	gb_buf_add_str(&t.patch, "*** End Patch\n");
	r = gb_patch_apply(
		&where, (char *)t.patch.data, t.patch.len, GB_PATCH_AS_TOOL, &out, &err);
	if ((r < 0) != t.wrong)
		print_error("round %u: %s\n%.*s\n", round, err.msg, (int)t.patch.len,
			(char *)t.patch.data);
	assert_int_equal(r < 0, t.wrong);
	check_tree(tmp, t.wrong ? &before : &t.now);
	gb_buf_done(&t.patch);
	gb_buf_done(&out);
}

static void trees(void **state)
{
	struct tmpdir tmp;

	(void)state;
	assert_true(tmpdir_make(&tmp));
	assert_int_equal(gb_mkdir_p(tmpdir_at(&tmp, "d/e"), 0755, NULL), 0);
	next_id = 10000;
	for (unsigned i = 0; i < TREE_ROUNDS; i++)
		tree_round(&tmp, i);
	check_clean(&tmp);
	tmpdir_remove(&tmp);
}

int main(void)
{
	static struct rows_list l;
	const char *seed = getenv("GB_TEST_SEED");

	random_state = seed ? strtoull(seed, NULL, 10) : gb_realtime_ns();
	print_message("seed: GB_TEST_SEED=%llu\n", (unsigned long long)random_state);
	random_state |= 1;
	rows_add_one(&l, "lines that repeat, a chunk of all", whole_file);
	rows_add_one(&l, "lines of their own, chunks of few, also loosely", own_lines);
	rows_add_one(&l, "hunks of all kinds against a model", trees);
	return rows_run("patch-property", &l);
}
