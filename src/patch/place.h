/* Where a path of a patch leads, without ever leaving the workspace.
 *
 * The path is walked name by name from the root folder's descriptor, never following a
 * link in the kernel: each name is opened with O_NOFOLLOW, and a link's text is walked
 * like the rest of the path, so one that is absolute may lead back into the workspace,
 * and none leads out. Swapping a folder for a link while the walk goes on gains nothing:
 * what was opened stays what it is, and a name is only ever used below the descriptor it
 * was found in. */
#ifndef GB_PATCH_PLACE_H
#define GB_PATCH_PLACE_H

#include "patch/patch.h"

#include <sys/stat.h>

#define GB_PATCH_PATH_MAX  ((size_t)4095) /* bytes of a path, its links expanded or not */
#define GB_PATCH_LINKS_MAX 40		  /* links on the way, as the kernel has it */

struct gb_patch_space {
	int root;	       /* borrowed */
	const char *root_path; /* absolute; borrowed */
	const char *cwd;       /* borrowed */
	/* Whether the patch removes the file at that path below the root before: what
	 * stands in the way on the disk is then gone. */
	bool (*gone)(void *ctx, const char *path);
	void *ctx;
};

struct gb_patch_place {
	char *path;  /* owned; below the root, without links, "." or ".." */
	size_t rest; /* path from here on is below dir; a folder itself has "" */
	int dir;     /* owned, O_PATH: the deepest folder on the way that exists */
	bool exists; /* then st is what is there, not followed */
	struct stat st;
};
void gb_patch_place_done(struct gb_patch_place *p);

/* The absolute path, owned, as it is shown. NULL when memory is out. */
char *gb_patch_shown(const struct gb_patch_space *space, const char *path);
/* shown is for messages. A link at the path's end is followed if follow is set. */
int gb_patch_locate(const struct gb_patch_space *space, const char *path,
	const char *shown, bool follow, struct gb_patch_place *ret,
	struct gb_patch_report *report, struct gb_err *err);

#endif
