/* Feeds every file of the folders that are named to a fuzz target: seeds and found crashes as
 * plain tests. Fails when there is nothing to feed. */
#include "base/buf.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define SEED_MAX ((size_t)8 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(int dirfd, const char *name)
{
	gb_auto_done(gb_buf) b = { 0 };
	gb_auto_free uint8_t *exact = NULL;
	struct gb_err err = { 0 };

	if (gb_file_read(dirfd, name, SEED_MAX, &b, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return -1;
	}
	/* a block of just this size, so that a sanitizer sees a read past its end */
	exact = malloc(b.len ? b.len : 1);
	if (!exact)
		return -1;
	if (b.len)
		memcpy(exact, b.data, b.len);
	LLVMFuzzerTestOneInput(exact, b.len);
	return 0;
}

/* The number of files, -1 on failure. */
static int replay_folder(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int count = 0;

	if (!d) {
		perror(path);
		return -1;
	}
	while (count >= 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		count = replay_file(dirfd(d), e->d_name) < 0 ? -1 : count + 1;
	}
	closedir(d);
	return count;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int n = replay_folder(argv[i]);

		if (n <= 0) {
			fprintf(stderr, "%s: nothing was replayed\n", argv[i]);
			return 1;
		}
		printf("%s: %d inputs\n", argv[i], n);
	}
	return argc < 2;
}
