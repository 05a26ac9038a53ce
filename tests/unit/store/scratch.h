/* A scratch folder for a test, removed with everything in it. */
#ifndef GB_TEST_STORE_SCRATCH_H
#define GB_TEST_STORE_SCRATCH_H

#include "base/path.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static char scratch[256];

static inline int scratch_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(scratch, sizeof(scratch), "%s/gb-test-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(scratch) ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
	(void)state;
	return gb_rm_tree(AT_FDCWD, scratch, NULL);
}

static inline size_t scratch_entries(void)
{
	DIR *d = opendir(scratch);
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		closedir(d);
	return n;
}

#endif
