/* A parsed patch, as the other steps see it. */
#ifndef GB_PATCH_PARSE_H
#define GB_PATCH_PARSE_H

#include "patch/patch.h"
#include "patch/text.h"

struct gb_patch_line {
	char op;   /* '@' a line to go to first; ' ' kept, '-' removed, '+' added */
	bool bare; /* kept, written as an empty line: perhaps only a separator */
	struct gb_span text; /* without its first letter or line end */
};

struct gb_patch_chunk {
	size_t first; /* of patch.lines: the '@' lines, then the others */
	size_t count;
	size_t anchors; /* '@' lines */
	bool at_end;	/* "*** End of File" */
};

enum gb_patch_kind { GB_PATCH_ADD, GB_PATCH_DELETE, GB_PATCH_UPDATE };

struct gb_patch_hunk {
	enum gb_patch_kind kind;
	char *path;    /* owned */
	char *move;    /* owned; NULL: it stays where it is */
	size_t number; /* line of its header in the patch */
	size_t first;  /* ADD: of patch.lines; UPDATE: of patch.chunks */
	size_t count;
};

struct gb_patch {
	struct gb_patch_hunk *hunks; /* owned, as the next two */
	size_t hunk_count, hunk_cap;
	struct gb_patch_chunk *chunks;
	size_t chunk_count, chunk_cap;
	struct gb_patch_line *lines;
	size_t line_count, line_cap;
};

#endif
