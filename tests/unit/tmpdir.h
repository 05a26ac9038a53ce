/* A folder of one's own for a test, under $TMPDIR or /tmp, removed at the end. */
#ifndef GB_TESTS_TMPDIR_H
#define GB_TESTS_TMPDIR_H

#include "base/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct tmpdir {
	char path[512];
	int fd;
};

static inline bool tmpdir_make(struct tmpdir *t)
{
	const char *base = getenv("TMPDIR");

	snprintf(t->path, sizeof(t->path), "%s/gbtest.XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(t->path))
		return false;
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->fd >= 0;
}

static inline int tmpdir_remove(struct tmpdir *t)
{
	close(t->fd);
	return gb_rm_tree(AT_FDCWD, t->path, NULL);
}

/* path below it; one of four buffers in turn */
static inline const char *tmpdir_at(const struct tmpdir *t, const char *name)
{
	static char text[4][1024];
	static unsigned turn;
	char *to = text[turn++ % 4];

	snprintf(to, sizeof(text[0]), "%s/%s", t->path, name);
	return to;
}

#endif
