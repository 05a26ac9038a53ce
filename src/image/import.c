#include "image/import.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "image/disk/ext4.h"
#include "image/image_json.h"
#include "image/import_feed.h"
#include "store/digest.h"
#include "store/flight.h"
#include "store/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FLIGHT_WAIT_MS 1800000 /* a slow mirror */
#define PROGRESS_NS    GB_NS_SEC

struct tick {
	struct gb_feed *feed;
	uint64_t next_ns;
};

static int on_progress(void *ctx, uint64_t bytes, uint64_t entries)
{
	struct tick *t = ctx;
	uint64_t now = gb_now_ns();

	if (now >= t->next_ns) {
		t->next_ns = now + PROGRESS_NS;
		gb_feed_say(t->feed, "read %llu MiB in %llu entries",
			(unsigned long long)(bytes >> 20), (unsigned long long)entries);
	}
	return gb_feed_cancelled(t->feed) ? 1 : 0;
}

static int open_source(struct gb_feed *f, const char *source, struct gb_tree_source **ret,
	struct gb_err *err)
{
	struct gb_tree_reader reader = gb_feed_reader(f);
	int r;

	if (gb_starts_with(source, "rootfs:"))
		return gb_tree_dir_open(source + strlen("rootfs:"), ret, err);
	if (gb_starts_with(source, "tar:"))
		r = gb_feed_open_file(f, source + strlen("tar:"), err);
	else if (gb_starts_with(source, "debootstrap:"))
		r = gb_feed_debootstrap(f, source + strlen("debootstrap:"), err);
	else
		return gb_fail(err, GB_E_INVALID,
			"unknown source '%.200s': use rootfs:DIR, tar:FILE or "
			"debootstrap:SUITE",
			source);
	return r < 0 ? r : gb_tree_tar_open(&reader, ret, err);
}

static int read_source(struct gb_feed *f, struct gb_ext4 *disk, struct gb_err *err)
{
	gb_auto(gb_tree_source) *source = NULL;
	struct tick tick = {.feed = f, .next_ns = gb_now_ns() + PROGRESS_NS};
	struct gb_err why = {0};
	int ended;
	int r = open_source(f, f->import->source, &source, &why);

	if (r == 0)
		r = gb_ext4_add(disk, source, on_progress, &tick, &why);
	if (r == 0 && gb_ext4_entries(disk) == 0)
		r = gb_fail(&why, GB_E_PARSE, "the archive is empty");
	if (r == 0)
		return gb_feed_end(f, err);
	/* an archive that breaks off because its maker failed: the maker knows why */
	if (r == GB_E_PARSE && f->child) {
		ended = gb_feed_end(f, err);
		if (ended < 0)
			return ended;
	}
	if (err)
		*err = why;
	return r;
}

static int write_disk(struct gb_feed *f, const char *path, uint64_t *ret_size,
	char digest[GB_SHA256_HEX + 1], struct gb_err *err)
{
	gb_auto(gb_ext4) *disk = NULL;
	gb_auto_fd fd = -1;
	int r = gb_ext4_new(path, &disk, err);

	if (r == 0)
		r = read_source(f, disk, err);
	if (r == 0)
		gb_feed_say(f, "writing the file system");
	if (r == 0)
		r = gb_ext4_finish(disk, ret_size, err);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0444) < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	return gb_sha256_sparse(fd, digest, err);
}

static int write_json(const char *folder, const char *source, const char *digest,
	uint64_t size, struct gb_err *err)
{
	gb_auto_free char *path = gb_path_join(folder, "image.json");
	gb_auto_free char *text = NULL;
	struct gb_image image = {.digest = (char *)digest,
		.source = (char *)source,
		.user = (char *)"",
		.workdir = (char *)"",
		.size = size,
		.created_s = (int64_t)(gb_realtime_ns() / GB_NS_SEC)};
	int r;

	if (!path)
		return gb_nomem(err);
	r = gb_image_to_json(&image, &text, err);
	return r < 0 ? r
		     : gb_file_write_atomic(
			       AT_FDCWD, path, text, strlen(text), 0444, err);
}

/* A source's flight: its text may be long and hold anything. */
static int take_flight(const struct gb_feed *f, const char *images,
	void (*waiting)(void *ctx), struct gb_flight *ret, struct gb_err *err)
{
	gb_auto(gb_sha256) *s = NULL;
	char hex[GB_SHA256_HEX + 1];
	char key[GB_SHA256_HEX + 16];
	int r = gb_sha256_new(&s, err);

	if (r < 0)
		return r;
	gb_sha256_add(s, f->import->source, strlen(f->import->source));
	r = gb_sha256_hex(s, hex, err);
	if (r < 0)
		return r;
	snprintf(key, sizeof(key), "import-%s", hex);
	return gb_flight_begin(images, key, gb_deadline_ms(FLIGHT_WAIT_MS), waiting,
		(void *)f, ret, err);
}

static void say_waiting(void *ctx)
{
	gb_feed_say(ctx, "waiting for another import of the same source");
}

static int publish(struct gb_publish *p, const char *digest, struct gb_err *err)
{
	struct gb_err why = {0};
	int r = gb_publish_commit(p, digest, 0755, &why);

	if (r == GB_E_EXISTS) /* the same content was imported before */
		return 0;
	if (r < 0 && err)
		*err = why;
	return r;
}

static int make(struct gb_feed *f, const char *images, char digest[GB_SHA256_HEX + 1],
	struct gb_err *err)
{
	gb_auto_done(gb_publish) p = GB_PUBLISH_INIT;
	gb_auto_free char *disk = NULL;
	uint64_t size = 0;
	int r = gb_publish_begin(images, &p, err);

	if (r < 0)
		return r;
	disk = gb_path_join(p.path, "root.ext4");
	if (!disk)
		return gb_nomem(err);
	r = write_disk(f, disk, &size, digest, err);
	if (r == 0)
		r = write_json(p.path, f->import->source, digest, size, err);
	if (r == 0)
		r = publish(&p, digest, err);
	return r;
}

static int check(const struct gb_import *i, struct gb_err *err)
{
	if (i->name && !gb_name_valid(i->name))
		return gb_fail(err, GB_E_INVALID,
			"'%.100s' is no name for an image: letters, digits, '_', '.', "
			"'-', at most "
			"63",
			i->name);
	return 0;
}

int gb_image_import(const struct gb_import *i, char ret_digest[GB_IMPORT_DIGEST_LEN + 1],
	struct gb_err *err)
{
	gb_auto_done(gb_feed) f = {.import = i, .data = -1, .messages = -1};
	gb_auto_done(gb_flight) flight = GB_FLIGHT_INIT;
	gb_auto_free char *images = gb_image_folder(i->data_dir);
	int r = check(i, err);

	if (r == 0 && !images)
		r = gb_nomem(err);
	if (r == 0)
		r = gb_mkdir_p(images, 0700, err);
	if (r < 0)
		return r;
	gb_publish_sweep(images);
	gb_flight_sweep(images);
	r = take_flight(&f, images, say_waiting, &flight, err);
	if (r == 0)
		r = make(&f, images, ret_digest, err);
	if (r == 0 && i->name)
		r = gb_image_set_name(i->data_dir, i->name, ret_digest, err);
	return r < 0 ? gb_wrap(err, r, "cannot import '%.200s'", i->source) : 0;
}
