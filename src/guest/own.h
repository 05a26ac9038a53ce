/* What our own code does in a child among the tools, as the user that is asked for: each reads
 * its input from descriptor 0 or writes its output to 1, and says why it failed. */
#ifndef GB_GUEST_OWN_H
#define GB_GUEST_OWN_H

#include "guest/copy.h"
#include "guest/job.h"

#include <sys/types.h>

struct gb_own {
	struct gb_copy copy;       /* COPY_IN, COPY_OUT */
	const char *path;          /* borrowed, absolute */
	uint64_t limit;            /* FILE_READ; 0: none */
	mode_t mode;               /* FILE_WRITE, MKDIR: exact */
	bool set_mtime;
	struct timespec mtime;
	bool outside;              /* PATCH */
	struct gb_report *report;  /* FILE_READ says there what it found */
};

int gb_own_read(struct gb_own *o, struct gb_err *err);
int gb_own_write(struct gb_own *o, struct gb_err *err);
int gb_own_mkdir(struct gb_own *o, struct gb_err *err);
/* The text of the answer goes to 1 in any case. */
int gb_own_patch(struct gb_own *o, struct gb_err *err);

#endif
