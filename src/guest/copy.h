/* Copies in and out of the guest (proto/tree.h): what their child process does. */
#ifndef GB_GUEST_COPY_H
#define GB_GUEST_COPY_H

#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

/* What and where; all borrowed. path is absolute, resolved below the folder root (links in it
 * are followed, and never lead out of root). */
struct gb_copy {
	int root;
	const char *path;
	const char *name; /* in: where path is an existing folder, the tree goes into it under
	                   * this name; NULL or "": path is the exact place */
	unsigned flags;   /* enum gb_copy_flag */
	uid_t uid;      /* in: owner of what is written */
	gid_t gid;
};
/* Read a tree from fd to its end and write it at path (or in it, as name says); its parent
 * must exist. A folder that is there is written into; a file is replaced at once when its
 * content is whole. Nothing below path is reached through a link. */
int gb_copy_in(const struct gb_copy *c, int fd, struct gb_err *err);
/* Write what is at path to fd. A link is sent as a link; sockets and devices are left out. */
int gb_copy_out(const struct gb_copy *c, int fd, struct gb_err *err);

#endif
