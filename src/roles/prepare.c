/* glovebox-prepare: makes boot bundles and templates. A program of its own, so that only
 * it links the libraries for that. Progress goes to stderr, a line each; the folder that
 * was made (or was there already) is the one line on stdout; a failure is one line on
 * stderr and exit code 1. */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "image/disk/clone.h"
#include "vmm/prepare.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define CPUS_MAX   64
#define MEMORY_MAX (UINT64_C(1) << 44)
#define DISK_MAX   (UINT64_C(1) << 44)

static const char usage[] =
	"usage: glovebox-prepare bundle [--kernel FILE [--modules DIR]] [--agent FILE]\n"
	"       glovebox-prepare template --accel kvm|tcg --cpus N --memory BYTES "
	"[--network]\n"
	"                        [--kernel FILE [--modules DIR]] [--agent FILE]\n"
	"\n"
	"  --kernel FILE   a vmlinuz or vmlinux; default: the one that 'make deps' "
	"unpacked\n"
	"  --modules DIR   its lib/modules/RELEASE folder; default: beside the kernel\n"
	"  --agent FILE    the guest agent; default: the one of this build\n"
	"  --accel WORD    the accelerator for which the template is made\n"
	"  --cpus N        processors of the machines that start from it\n"
	"  --memory BYTES  their memory (also 512M, 2G)\n"
	"  --network       with a network device\n"
	"  --image FILE    a template of this image (a raw ext4), with:\n"
	"  --digest HEX    its digest, and\n"
	"  --disk BYTES    the size of its machines' disks\n"
	"  --cache DIR     where the results are kept\n"
	"\n"
	"example: glovebox-prepare template --accel tcg --cpus 2 --memory 2G\n";

struct request {
	const char *what; /* "bundle" or "template" */
	struct gb_boot_source source;
	struct gb_template_want want;
	const char *image; /* path; NULL: a generic template */
	const char *cache; /* NULL: the usual place */
};

enum option_code {
	OPT_KERNEL = 256,
	OPT_MODULES,
	OPT_AGENT,
	OPT_ACCEL,
	OPT_CPUS,
	OPT_MEMORY,
	OPT_NETWORK,
	OPT_CACHE,
	OPT_IMAGE,
	OPT_DIGEST,
	OPT_DISK
};

static const struct option options[] = {
	{"kernel", required_argument, NULL, OPT_KERNEL},
	{"modules", required_argument, NULL, OPT_MODULES},
	{"agent", required_argument, NULL, OPT_AGENT},
	{"accel", required_argument, NULL, OPT_ACCEL},
	{"cpus", required_argument, NULL, OPT_CPUS},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"network", no_argument, NULL, OPT_NETWORK},
	{"cache", required_argument, NULL, OPT_CACHE},
	{"image", required_argument, NULL, OPT_IMAGE},
	{"digest", required_argument, NULL, OPT_DIGEST},
	{"disk", required_argument, NULL, OPT_DISK},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int take_option(struct request *q, int code, const char *value, struct gb_err *err)
{
	uint64_t number;
	int r;

	switch (code) {
	case OPT_KERNEL:
		q->source.kernel = value;
		return 0;
	case OPT_MODULES:
		q->source.modules = value;
		return 0;
	case OPT_AGENT:
		q->source.agent = value;
		return 0;
	case OPT_CACHE:
		q->cache = value;
		return 0;
	case OPT_IMAGE:
		q->image = value;
		return 0;
	case OPT_DIGEST:
		q->want.image = value;
		return 0;
	case OPT_NETWORK:
		q->want.network = true;
		return 0;
	case OPT_ACCEL:
		return gb_accel_parse(value, &q->want.accel, err);
	case OPT_CPUS:
		r = gb_parse_u64(value, CPUS_MAX, &number, err);
		q->want.cpus = r < 0 ? 0 : (unsigned)number;
		return r < 0 ? gb_wrap(err, r, "--cpus") : 0;
	case OPT_MEMORY:
		r = gb_parse_size(value, 1, MEMORY_MAX, &q->want.memory_bytes, err);
		return r < 0 ? gb_wrap(err, r, "--memory") : 0;
	case OPT_DISK:
		r = gb_parse_size(value, 1, DISK_MAX, &q->want.disk_bytes, err);
		return r < 0 ? gb_wrap(err, r, "--disk") : 0;
	default:
		return gb_fail(err, GB_E_INVALID, "unknown option (see --help)");
	}
}

/* 1: help was asked for. */
static int parse(int argc, char **argv, struct request *q, struct gb_err *err)
{
	int code;

	opterr = 0;
	while ((code = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		int r = code == 'h' ? 1 : take_option(q, code, optarg, err);

		if (r == GB_E_INVALID && code == '?')
			return gb_fail(err, r,
				"'%s' is not an option or lacks its value (see --help)",
				argv[optind - 1]);
		if (r != 0)
			return r;
	}
	if (optind + 1 != argc || (!gb_streq(argv[optind], "bundle") &&
					  !gb_streq(argv[optind], "template")))
		return gb_fail(err, GB_E_INVALID,
			"say what to make: bundle or template (see --help)");
	q->what = argv[optind];
	if (gb_streq(q->what, "template") &&
		(q->want.accel == GB_ACCEL_AUTO || !q->want.cpus ||
			!q->want.memory_bytes))
		return gb_fail(err, GB_E_INVALID,
			"template needs --accel (not auto), --cpus and --memory");
	if (!q->image != !q->want.image || !q->image != !q->want.disk_bytes)
		return gb_fail(err, GB_E_INVALID,
			"--image, --digest and --disk come together");
	return 0;
}

static void show(void *ctx GB_UNUSED, const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static int make_disk(void *ctx, const char *path, struct gb_err *err)
{
	const struct request *q = ctx;

	return gb_disk_clone(q->image, path, q->want.disk_bytes, err);
}

static int make(struct request *q, const char *cache, char **ret, struct gb_err *err)
{
	gb_auto_done(gb_boot_paths) paths = {0};
	struct gb_template_disk disk = {make_disk, q};
	gb_auto_free char *bundle = NULL;
	int r = gb_boot_locate(&q->source, &paths, err);

	if (r < 0)
		return r;
	r = gb_bundle_make(cache, &paths, show, NULL, &bundle, err);
	if (r < 0)
		return r;
	if (gb_streq(q->what, "bundle")) {
		*ret = gb_take_ptr(bundle);
		return 0;
	}
	q->want.bundle = bundle;
	return gb_template_make(
		cache, &q->want, q->image ? &disk : NULL, show, NULL, ret, err);
}

static int run(struct request *q, struct gb_err *err)
{
	gb_auto_done(gb_dirs) dirs = {0};
	gb_auto_free char *folder = NULL;
	int r = q->cache ? 0 : gb_dirs_init(&dirs, err);

	if (r == 0)
		r = make(q, q->cache ? q->cache : dirs.cache, &folder, err);
	if (r < 0)
		return r;
	if (printf("%s\n", folder) < 0 || fflush(stdout) != 0)
		return gb_fail(err, GB_E_IO, "cannot write to stdout");
	return 0;
}

int main(int argc, char **argv)
{
	struct request q = {0};
	struct gb_err err = {0};
	int r = parse(argc, argv, &q, &err);

	if (r == 1)
		return fputs(usage, stdout) < 0;
	if (r == 0)
		r = run(&q, &err);
	if (r < 0)
		fprintf(stderr, "glovebox-prepare: %s\n", err.msg);
	return r < 0;
}
