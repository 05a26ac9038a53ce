/* A patch that does one of everything, and the files before and after it. */
#ifndef GB_TESTS_PATCH_EVERYTHING_H
#define GB_TESTS_PATCH_EVERYTHING_H

#include "folder.h"

static const struct entry all_before[] = {
	{ "replaced", "1\n", 0640 },
	{ "deleted", "2\n", 0600 },
	{ "renamed", "3\n", 0755 },
	{ "moved", "4\n", 0644 },
	{ "over", "5\n", 0751 },
	{ "left", "l\n", 0644 },
	{ "right", "r\n", 0644 },
	{ "new", "-", 0 },
	{ "n", "-", 0 },
};

static const struct entry all_after[] = {
	{ "replaced", "1+\n", 0640 },
	{ "deleted", "-", 0 },
	{ "renamed", "-", 0 },
	{ "n/renamed", "3\n", 0755 },
	{ "moved", "-", 0 },
	{ "over", "4+\n", 0751 },
	{ "left", "r\n", 0644 },
	{ "right", "l\n", 0644 },
	{ "new", "6\n", 0644 },
	{ "n/e/w", "7\n", 0644 },
	{ "swap", "-", 0 },
};

static const char all_text[] = "*** Begin Patch\n"
			       "*** Update File: replaced\n-1\n+1+\n"
			       "*** Delete File: deleted\n"
			       "*** Update File: renamed\n*** Move to: n/renamed\n"
			       "*** Update File: moved\n*** Move to: over\n-4\n+4+\n"
			       "*** Update File: left\n*** Move to: swap\n"
			       "*** Update File: right\n*** Move to: left\n"
			       "*** Update File: swap\n*** Move to: right\n"
			       "*** Add File: new\n+6\n"
			       "*** Add File: n/e/w\n+7\n"
			       "*** End Patch\n";

static inline void put_all(const struct folder *f)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(all_before); i++)
		if (*all_before[i].content != '-')
			put_entry(f->root, &all_before[i]);
}

static inline void check(const struct folder *f, const struct entry *e, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_entry(f->root, &e[i]);
}
#define check_all(f, entries) check(f, entries, GB_ARRAY_SIZE(entries))

static inline bool says(const struct folder *f, const char *text)
{
	return strstr((char *)f->out.data, text) != NULL;
}

#endif
