/* Pieces of text, as bytes: a patch and the files that it changes may be in any encoding.
 * What is compared loosely knows the UTF-8 forms of spaces, hyphens and quotes; bytes
 * that are no UTF-8 are themselves. Nothing here allocates or fails. */
#ifndef GB_PATCH_TEXT_H
#define GB_PATCH_TEXT_H

#include "base/mem.h"

struct gb_span {
	const char *at; /* borrowed */
	size_t len;
};

#define GB_SPAN(literal) ((struct gb_span){ (literal), sizeof(literal) - 1 })

/* White space is what Unicode calls so. */
struct gb_span gb_span_trim_end(struct gb_span s);
struct gb_span gb_span_trim(struct gb_span s);
bool gb_span_eq(struct gb_span a, struct gb_span b);
/* Whether s starts with prefix, which is then cut from it. */
bool gb_span_cut(struct gb_span *s, struct gb_span prefix);
/* The next line of *rest without its LF or CR LF; false at the end. A last line without a
 * line end is a line; nothing after a last line end is none. *eol is 0, 1 or 2, the line
 * end's bytes. */
bool gb_span_line(struct gb_span *rest, struct gb_span *line, unsigned *eol);

/* How alike two lines must be, strictest first. */
enum gb_likeness {
	GB_LIKE_EXACT,
	GB_LIKE_TRIM_END,
	GB_LIKE_TRIM,
	GB_LIKE_FOLDED, /* also: hyphens, quotes and spaces of Unicode are those of ASCII
			 */
	GB_LIKE_COUNT,
};
/* The bytes that were looked at are added to *work. */
bool gb_line_like(
	struct gb_span a, struct gb_span b, enum gb_likeness likeness, uint64_t *work);

#endif
