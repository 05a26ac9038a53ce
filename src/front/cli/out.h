/* What people and programs get to see: results on stdout, talk on stderr. Text from a guest
 * or a file may hold anything, so nothing here lets control characters reach a terminal. */
#ifndef GB_FRONT_CLI_OUT_H
#define GB_FRONT_CLI_OUT_H

#include "base/err.h"
#include "base/mem.h"

#include <jansson.h>

/* "glovebox: ..." on stderr, one line. Ends a progress line that is shown. */
void gb_say(const char *fmt, ...) GB_PRINTF(1, 2);

/* Progress: on a terminal one line that is written over, else plain lines. */
void gb_progress_show(void *unused, const char *line);
/* A step on the way that stays to be read. */
void gb_step_show(void *unused, const char *line);
/* Take the progress line off the terminal. */
void gb_progress_end(void);

/* text with control characters made visible as '?'; owned, NULL when memory is out.
 * Newlines and tabs stay when lines is set. */
char *gb_printable(const char *text, bool lines);

/* A row of a table: cells are collected and printed when the widths are known. */
struct gb_table {
	char ***rows; /* owned cells */
	size_t count, cap;
	size_t columns;
	int error;
};
/* cells ends with NULL; the first row is the head and sets the number of columns. */
void gb_table_row(struct gb_table *t, const char *const *cells);
int gb_table_print(const struct gb_table *t, struct gb_err *err);
void gb_table_done(struct gb_table *t);

/* Print a value and a newline; takes it over. NULL is out of memory. */
int gb_print_json(json_t *value_consume, struct gb_err *err);
/* The string, or its bytes that are not UTF-8 replaced by '?'. */
json_t *gb_json_text(const char *text);
/* Flush stdout. A reader that went away is GB_E_CLOSED with sys EPIPE. */
int gb_flush(struct gb_err *err);

/* "2026-01-31 12:00" of local time. */
void gb_time_text(int64_t seconds, char *text, size_t size);
/* About 3 digits: "1.5 GiB". */
void gb_amount_text(uint64_t bytes, char *text, size_t size);

#endif
