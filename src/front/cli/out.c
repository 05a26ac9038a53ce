#include "front/cli/out.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define PROGRESS_MAX 400 /* bytes of a progress line on a terminal */

char *gb_printable(const char *text, bool lines)
{
	char *copy = strdup(text);

	for (char *p = copy; p && *p; p++) {
		unsigned char c = (unsigned char)*p;

		if ((c < 0x20 && !(lines && (c == '\n' || c == '\t'))) || c == 0x7f)
			*p = '?';
		/* U+0080..U+009F, which some terminals obey too */
		if (c == 0xc2 && (unsigned char)p[1] >= 0x80 &&
			(unsigned char)p[1] < 0xa0)
			p[0] = p[1] = '?';
	}
	return copy;
}

/* Whether a progress line stands on the terminal that other output has to clear first. */
static bool progress_shown;

void gb_progress_end(void)
{
	static const char clear[] = "\r\033[K";

	if (progress_shown)
		gb_fd_write_full(STDERR_FILENO, clear, sizeof(clear) - 1, NULL);
	progress_shown = false;
}

void gb_say(const char *fmt, ...)
{
	gb_auto_free char *text = NULL;
	gb_auto_free char *clean = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		return;
	}
	clean = gb_printable(text, true);
	gb_progress_end();
	if (clean)
		/* the terminal may be in raw mode, where a newline only goes down */
		dprintf(STDERR_FILENO, "glovebox: %s%s\n", clean,
			isatty(STDERR_FILENO) ? "\r" : "");
}

static int terminal_width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
		return 80;
	return GB_MIN((int)size.ws_col, PROGRESS_MAX);
}

void gb_progress_show(void *unused, const char *line)
{
	gb_auto_free char *clean = NULL;

	(void)unused;
	if (!isatty(STDERR_FILENO)) {
		gb_say("%s", line);
		return;
	}
	clean = gb_printable(line, false);
	if (!clean)
		return;
	dprintf(STDERR_FILENO, "\r\033[K%.*s", terminal_width() - 1, clean);
	progress_shown = true;
}

void gb_step_show(void *unused, const char *line)
{
	(void)unused;
	gb_say("%s", line);
}

void gb_table_row(struct gb_table *t, const char *const *cells)
{
	char **row;

	if (!t->columns)
		while (cells[t->columns])
			t->columns++;
	row = calloc(t->columns, sizeof(*row));
	if (!row || !gb_grow(&t->rows, &t->cap, t->count + 1, sizeof(*t->rows))) {
		free(row);
		t->error = GB_E_NOMEM;
		return;
	}
	t->rows[t->count++] = row;
	for (size_t i = 0; i < t->columns; i++) {
		row[i] = gb_printable(cells[i], false);
		if (!row[i])
			t->error = GB_E_NOMEM;
	}
}

void gb_table_done(struct gb_table *t)
{
	for (size_t r = 0; r < t->count; r++) {
		for (size_t i = 0; i < t->columns; i++)
			free(t->rows[r][i]);
		free(t->rows[r]);
	}
	free(t->rows);
	memset(t, 0, sizeof(*t));
}

/* Characters, not bytes: names and folders may be any UTF-8. */
static size_t text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static size_t column_width(const struct gb_table *t, size_t column)
{
	size_t width = 0;

	for (size_t r = 0; r < t->count; r++)
		width = GB_MAX(width, text_width(t->rows[r][column]));
	return width;
}

int gb_table_print(const struct gb_table *t, struct gb_err *err)
{
	gb_auto_free size_t *widths = calloc(t->columns + 1, sizeof(*widths));

	if (t->error || !widths)
		return gb_nomem(err);
	for (size_t i = 0; i < t->columns; i++)
		widths[i] = column_width(t, i);
	for (size_t r = 0; r < t->count; r++) {
		for (size_t i = 0; i < t->columns; i++) {
			const char *cell = t->rows[r][i];
			bool last = i + 1 == t->columns;

			fputs(cell, stdout);
			printf("%*s", last ? 0 : (int)(widths[i] - text_width(cell) + 2),
				"");
		}
		putchar('\n');
	}
	return gb_flush(err);
}

int gb_flush(struct gb_err *err)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return gb_fail_sys(err, errno, "cannot write to standard output");
}

json_t *gb_json_text(const char *text)
{
	json_t *s = json_string(text);
	gb_auto_free char *copy = NULL;

	if (s)
		return s;
	copy = strdup(text);
	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return copy ? json_string(copy) : NULL;
}

int gb_print_json(json_t *value_consume, struct gb_err *err)
{
	/* U+0080 to U+009F may come from a guest, and some terminals obey them */
	size_t flags = JSON_INDENT(2) | (isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII : 0);
	int r = value_consume ? json_dumpf(value_consume, stdout, flags) : -1;

	if (!value_consume)
		return gb_nomem(err);
	json_decref(value_consume);
	if (r < 0 && !ferror(stdout))
		return gb_nomem(err);
	putchar('\n');
	return gb_flush(err);
}

void gb_time_text(int64_t seconds, char *text, size_t size)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(text, size, "%Y-%m-%d %H:%M", &tm))
		snprintf(text, size, "?");
}

void gb_amount_text(uint64_t bytes, char *text, size_t size)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes;
	size_t unit = 0;

	while (v >= 1000 && unit + 1 < GB_ARRAY_SIZE(units)) {
		v /= 1024;
		unit++;
	}
	snprintf(text, size, "%.*f %s", unit && v < 10 ? 1 : 0, v, units[unit]);
}
