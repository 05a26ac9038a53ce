/* From a file's old content and an update's chunks to its new content. Pure. */
#ifndef GB_PATCH_MATCH_H
#define GB_PATCH_MATCH_H

#include "patch/parse.h"

/* Steps (about a byte each) that one file's search may take: a patch of many lines that
 * are nearly found everywhere would otherwise hold us up for hours. */
#define GB_PATCH_SEARCH_MAX UINT64_C(100000000)

/* name is for messages; old is borrowed; ret must be initialised and empty. Fails with
 * GB_E_STATE (MISMATCH), GB_E_LIMIT (REFUSED), GB_E_NOMEM.
 *
 * Chunks are found in order, each behind the one before. Kept lines come from the file,
 * whatever the patch says they look like. Added lines get the line end of the line before
 * them. The file keeps its byte order mark, and ends with a line end if it did so before.
 */
int gb_patch_rewrite(const struct gb_patch *patch, const struct gb_patch_hunk *hunk,
	const char *name, struct gb_span old, struct gb_buf *ret,
	struct gb_patch_report *report, struct gb_err *err);

#endif
