/* Old boot bundles: each build of the agent and each kernel makes one of some 50 MB, so those
 * used last are kept. A machine that runs needs its bundle no more (the kernel is in its
 * memory); one that boots or becomes a template has looked it up a moment ago, so what was
 * used within the last hour stays in any case. */
#include "vmm/bundle_parts.h"
#include "vmm/boot_key.h"
#include "base/fd.h"
#include "base/path.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLEAR_MAX 64 /* bundles removed at once */

static bool is_id(const char *name)
{
	return strlen(name) == GB_BUNDLE_ID_LEN &&
	       strspn(name, "0123456789abcdef") == GB_BUNDLE_ID_LEN;
}

/* The one not used for the longest; how many there are. */
static size_t find_oldest(DIR *folder, char *oldest, time_t *used)
{
	size_t count = 0;
	struct dirent *e;

	rewinddir(folder);
	while ((e = readdir(folder))) {
		char path[GB_BUNDLE_ID_LEN + 16];
		struct stat st = {0};

		if (!is_id(e->d_name))
			continue;
		snprintf(path, sizeof(path), "%.64s/bundle.json", e->d_name);
		if (fstatat(dirfd(folder), path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			st.st_mtim.tv_sec = 0;
		if (count++ == 0 || st.st_mtim.tv_sec < *used) {
			memcpy(oldest, e->d_name, GB_BUNDLE_ID_LEN + 1);
			*used = st.st_mtim.tv_sec;
		}
	}
	return count;
}

/* Index files whose bundle is gone. */
static void clear_index(int boot)
{
	int fd = openat(boot, "index", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *index = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	while (index && (e = readdir(index))) {
		gb_auto_done(gb_buf) text = {0};
		char id[GB_BUNDLE_ID_LEN + 1];

		if (e->d_name[0] == '.' ||
			gb_file_read(fd, e->d_name, GB_BUNDLE_INDEX_MAX, &text, NULL) < 0 ||
			text.len < GB_BUNDLE_ID_LEN)
			continue;
		memcpy(id, text.data, GB_BUNDLE_ID_LEN);
		id[GB_BUNDLE_ID_LEN] = 0;
		if (is_id(id) && faccessat(boot, id, F_OK, 0) < 0)
			unlinkat(fd, e->d_name, 0);
	}
	if (index)
		closedir(index);
}

void gb_bundle_clear_up(const char *folder)
{
	DIR *boot = opendir(folder);
	char oldest[GB_BUNDLE_ID_LEN + 1];
	time_t used = 0;

	if (!boot)
		return;
	for (int i = 0; i < CLEAR_MAX && find_oldest(boot, oldest, &used) > GB_BUNDLES_KEPT; i++)
		if (time(NULL) - used < GB_BUNDLE_IN_USE_S ||
			gb_rm_tree(dirfd(boot), oldest, NULL) < 0)
			break;
	clear_index(dirfd(boot));
	closedir(boot);
}
