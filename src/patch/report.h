/* Filling in a report and the error beside it; each returns code. */
#ifndef GB_PATCH_REPORT_H
#define GB_PATCH_REPORT_H

#include "patch/patch.h"
#include "patch/text.h"

#define GB_PATCH_QUOTE_MAX  ((size_t)8 << 10)  /* bytes that are quoted of a patch */
#define GB_PATCH_REPORT_MAX ((size_t)64 << 10) /* bytes of a report */

int gb_patch_fail(struct gb_patch_report *r, struct gb_err *err,
	enum gb_patch_fault fault, int code, const char *fmt, ...) GB_PRINTF(5, 6);
/* As gb_patch_fail with GB_PATCH_IO and ": TEXT (os error N)" added. */
int gb_patch_fail_sys(struct gb_patch_report *r, struct gb_err *err, int errnum,
	const char *fmt, ...) GB_PRINTF(4, 5);
/* A bad hunk at a line of the patch. */
int gb_patch_fail_line(struct gb_patch_report *r, struct gb_err *err, size_t line,
	const char *fmt, ...) GB_PRINTF(4, 5);
/* Out of memory, or err as it is taken over into the report. */
int gb_patch_nomem(struct gb_patch_report *r, struct gb_err *err);

/* For "%.*s". */
#define GB_SPAN_ARG(s) (int)GB_MIN((s).len, GB_PATCH_QUOTE_MAX), (s).at

#endif
