/* glovebox-image import [--name NAME] [--data DIR] SOURCE: makes an image. Progress goes
 * to stderr, a line a step; the digest to stdout. Its own program, because it alone links
 * libarchive, libext2fs and libcrypto. */
#include "base/path.h"
#include "base/str.h"
#include "image/import.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

static void on_progress(void *ctx, const char *line)
{
	(void)ctx;
	fprintf(stderr, "%s\n", line);
}

static int usage(struct gb_err *err)
{
	return gb_fail(err, GB_E_INVALID,
		"usage: glovebox-image import [--name NAME] [--data DIR] SOURCE");
}

static int parse(int argc, char **argv, struct gb_import *i, struct gb_err *err)
{
	static const struct option options[] = {{"name", required_argument, NULL, 'n'},
		{"data", required_argument, NULL, 'd'}, {0}};
	int c;

	if (argc < 2 || !gb_streq(argv[1], "import"))
		return usage(err);
	opterr = 0;
	while ((c = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
		if (c == 'n')
			i->name = optarg;
		else if (c == 'd')
			i->data_dir = optarg;
		else
			return usage(err);
	}
	if (optind != argc - 2)
		return usage(err);
	i->source = argv[1 + optind];
	return 0;
}

/* The signals that end us are read as an event, so that nothing is left behind. */
static int cancel_fd(struct gb_err *err)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? gb_fail(err, GB_E_IO, "cannot watch signals") : fd;
}

static int run(int argc, char **argv, struct gb_err *err)
{
	gb_auto_done(gb_dirs) dirs = {0};
	struct gb_import i = {.progress = on_progress};
	char digest[GB_IMPORT_DIGEST_LEN + 1];
	int r = gb_dirs_init(&dirs, err);

	if (r < 0)
		return r;
	i.data_dir = dirs.data;
	r = parse(argc, argv, &i, err);
	if (r < 0)
		return r;
	i.cancel_fd = cancel_fd(err);
	if (i.cancel_fd < 0)
		return i.cancel_fd;
	umask(022);
	r = gb_image_import(&i, digest, err);
	if (r == 0)
		puts(digest);
	return r;
}

int main(int argc, char **argv)
{
	struct gb_err err = {0};

	if (run(argc, argv, &err) == 0)
		return 0;
	fprintf(stderr, "glovebox-image: %s\n", err.msg);
	return 1;
}
