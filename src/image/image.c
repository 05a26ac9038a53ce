/* The store of images. Names are symbolic links, replaced by rename; a folder is
 * published whole and goes by rename to a temporary name first, so that a reader sees an
 * image whole or not at all. What changes names or removes is one at a time (the flight
 * "names"), so that no name is given to an image that is being removed. */
#include "image/image_json.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/flight.h"
#include "store/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX_MIN    6
#define IMAGES_MAX    ((size_t)100000) /* listed; a folder of more is not looked through */
#define NAMES_WAIT_MS 30000

void gb_image_done(struct gb_image *i)
{
	free(i->digest);
	free(i->path);
	gb_strv_done(&i->names);
	free(i->source);
	free(i->user);
	free(i->workdir);
	gb_strv_done(&i->env);
	memset(i, 0, sizeof(*i));
}

static bool all_hex(const char *s)
{
	return strspn(s, "0123456789abcdef") == strlen(s);
}

bool gb_image_digest_valid(const char *s)
{
	return strlen(s) == GB_IMAGE_DIGEST_LEN && all_hex(s);
}

char *gb_image_folder(const char *data_dir)
{
	return gb_path_join(data_dir, "images");
}

/* Entries of folder for which wanted() holds, sorted; a missing folder has none. */
static int list_folder(const char *folder, bool (*wanted)(const char *),
	struct gb_strv *ret, struct gb_err *err)
{
	DIR *d = opendir(folder);
	struct dirent *e;

	if (!d && errno != ENOENT)
		return gb_fail_sys(err, errno, "cannot list '%s'", folder);
	while (d && (e = readdir(d)) && ret->n < IMAGES_MAX)
		if (wanted(e->d_name))
			gb_strv_add(ret, e->d_name);
	if (d)
		closedir(d);
	return gb_strv_check(ret, "list of images", err);
}

/* The digest that a name leads to; GB_E_NOTFOUND. */
static int name_target(const char *images, const char *name,
	char ret[GB_IMAGE_DIGEST_LEN + 1], struct gb_err *err)
{
	gb_auto_free char *path = NULL;
	char target[PATH_MAX];
	ssize_t n;

	if (asprintf(&path, "%s/names/%s", images, name) < 0)
		return gb_nomem(err);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return gb_fail_sys(err, errno, "no image '%s'", name);
	target[n] = 0;
	if (!gb_image_digest_valid(gb_path_base(target)))
		return gb_fail(err, GB_E_PARSE, "'%s' leads to no image", path);
	memcpy(ret, gb_path_base(target), GB_IMAGE_DIGEST_LEN + 1);
	return 0;
}

static int names_of(
	const char *images, const char *digest, struct gb_strv *ret, struct gb_err *err)
{
	gb_auto_free char *folder = gb_path_join(images, "names");
	gb_auto_done(gb_strv) all = {0};
	int r = folder ? list_folder(folder, gb_name_valid, &all, err) : gb_nomem(err);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		char target[GB_IMAGE_DIGEST_LEN + 1];

		if (name_target(images, all.v[i], target, NULL) == 0 &&
			gb_streq(target, digest))
			gb_strv_add(ret, all.v[i]);
	}
	return r < 0 ? r : gb_strv_check(ret, "names", err);
}

static int load(
	const char *images, const char *digest, struct gb_image *ret, struct gb_err *err)
{
	gb_auto_free char *json = NULL;
	gb_auto_done(gb_buf) text = {0};
	gb_auto_done(gb_image) image = {0};
	struct stat st;
	int r;

	image.digest = strdup(digest);
	if (!image.digest ||
		asprintf(&image.path, "%s/%s/root.ext4", images, digest) < 0 ||
		asprintf(&json, "%s/%s/image.json", images, digest) < 0)
		return gb_nomem(err);
	r = gb_file_read(AT_FDCWD, json, GB_IMAGE_JSON_MAX, &text, err);
	if (r == 0)
		r = gb_image_from_json((char *)text.data, text.len, &image, err);
	if (r == 0 && stat(image.path, &st) < 0)
		r = gb_fail_sys(err, errno, "cannot find '%s'", image.path);
	if (r == 0)
		r = names_of(images, digest, &image.names, err);
	if (r < 0)
		return gb_wrap(err, r, "image %.12s", digest);
	image.disk_bytes = (uint64_t)st.st_blocks * 512;
	*ret = image;
	memset(&image, 0, sizeof(image));
	return 0;
}

static int not_found(const char *images, const char *ref, struct gb_err *err)
{
	gb_auto_free char *folder = gb_path_join(images, "names");
	gb_auto_done(gb_strv) all = {0};
	const char *near = NULL;

	if (folder && list_folder(folder, gb_name_valid, &all, NULL) == 0 && all.n)
		near = gb_nearest(ref, (const char *const *)all.v);
	if (near)
		return gb_fail(err, GB_E_NOTFOUND, "no image '%s': did you mean '%s'?",
			ref, near);
	return gb_fail(err, GB_E_NOTFOUND,
		"no image '%s': 'glovebox image ls' lists them, 'glovebox image import' "
		"makes one",
		ref);
}

static int find_prefix(const char *images, const char *ref,
	char ret[GB_IMAGE_DIGEST_LEN + 1], struct gb_err *err)
{
	gb_auto_done(gb_strv) all = {0};
	const char *found = NULL;
	int r = list_folder(images, gb_image_digest_valid, &all, err);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		if (!gb_starts_with(all.v[i], ref))
			continue;
		if (found)
			return gb_fail(err, GB_E_INVALID,
				"'%s' is the beginning of more than one image's digest",
				ref);
		found = all.v[i];
	}
	if (r < 0)
		return r;
	if (!found)
		return not_found(images, ref, err);
	memcpy(ret, found, GB_IMAGE_DIGEST_LEN + 1);
	return 0;
}

/* What ref stands for; *ret_is_name tells a name from a digest. */
static int resolve(const char *images, const char *ref, char ret[GB_IMAGE_DIGEST_LEN + 1],
	bool *ret_is_name, struct gb_err *err)
{
	*ret_is_name = gb_name_valid(ref) && name_target(images, ref, ret, NULL) == 0;
	if (*ret_is_name)
		return 0;
	if (strlen(ref) >= PREFIX_MIN && strlen(ref) <= GB_IMAGE_DIGEST_LEN &&
		all_hex(ref))
		return find_prefix(images, ref, ret, err);
	return not_found(images, ref, err);
}

int gb_image_find(
	const char *data_dir, const char *ref, struct gb_image *ret, struct gb_err *err)
{
	gb_auto_free char *images = gb_image_folder(data_dir);
	char digest[GB_IMAGE_DIGEST_LEN + 1];
	bool is_name;
	int r;

	if (!images)
		return gb_nomem(err);
	r = resolve(images, ref, digest, &is_name, err);
	return r < 0 ? r : load(images, digest, ret, err);
}

static int by_age(const void *a, const void *b)
{
	const struct gb_image *x = a;
	const struct gb_image *y = b;

	if (x->created_s != y->created_s)
		return x->created_s < y->created_s ? -1 : 1;
	return strcmp(x->digest, y->digest);
}

int gb_image_list(const char *data_dir, int (*each)(void *ctx, const struct gb_image *i),
	void *ctx, struct gb_err *err)
{
	gb_auto_free char *images = gb_image_folder(data_dir);
	gb_auto_free struct gb_image *all = NULL;
	gb_auto_done(gb_strv) digests = {0};
	size_t n = 0;
	int r = images ? list_folder(images, gb_image_digest_valid, &digests, err)
		       : gb_nomem(err);

	if (r < 0)
		return r;
	all = calloc(digests.n + 1, sizeof(*all));
	if (!all)
		return gb_nomem(err);
	/* one that is damaged or being removed must not hide the others */
	for (size_t i = 0; i < digests.n; i++)
		n += load(images, digests.v[i], &all[n], NULL) == 0;
	qsort(all, n, sizeof(*all), by_age);
	for (size_t i = 0; i < n && r == 0; i++)
		r = each(ctx, &all[i]);
	for (size_t i = 0; i < n; i++)
		gb_image_done(&all[i]);
	return r;
}

static int remove_name(const char *images, const char *name, struct gb_err *err)
{
	gb_auto_free char *path = NULL;

	if (asprintf(&path, "%s/names/%s", images, name) < 0)
		return gb_nomem(err);
	if (unlink(path) < 0 && errno != ENOENT)
		return gb_fail_sys(err, errno, "cannot remove '%s'", path);
	return 0;
}

/* By a temporary folder, which a later sweep finds when we are killed in the middle. */
static int remove_folder(const char *images, const char *digest, struct gb_err *err)
{
	gb_auto_done(gb_publish) grave = GB_PUBLISH_INIT;
	gb_auto_free char *from = gb_path_join(images, digest);
	gb_auto_free char *to = NULL;
	int r = gb_publish_begin(images, &grave, err);

	if (r < 0)
		return r;
	to = gb_path_join(grave.path, "image");
	if (!from || !to)
		return gb_nomem(err);
	if (rename(from, to) < 0 && errno != ENOENT)
		return gb_fail_sys(err, errno, "cannot remove image %.12s", digest);
	return 0;
}

int gb_image_remove(const char *data_dir, const char *ref, struct gb_err *err)
{
	gb_auto_free char *images = gb_image_folder(data_dir);
	gb_auto_done(gb_flight) flight = GB_FLIGHT_INIT;
	gb_auto_done(gb_strv) names = {0};
	char digest[GB_IMAGE_DIGEST_LEN + 1];
	bool is_name;
	int r;

	if (!images)
		return gb_nomem(err);
	r = resolve(images, ref, digest, &is_name,
		err); /* before a lock: is there a store? */
	if (r == 0)
		r = gb_flight_begin(images, "names", gb_deadline_ms(NAMES_WAIT_MS), NULL,
			NULL, &flight, err);
	if (r == 0)
		r = resolve(images, ref, digest, &is_name, err);
	if (r == 0)
		r = names_of(images, digest, &names, err);
	if (r == 0 && is_name && names.n > 1)
		return remove_name(images, ref, err);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = remove_name(images, names.v[i], err);
	return r < 0 ? r : remove_folder(images, digest, err);
}

static int replace_link(
	const char *folder, const char *name, const char *digest, struct gb_err *err)
{
	gb_auto_free char *target = NULL;
	gb_auto_free char *tmp = NULL;
	gb_auto_free char *path = gb_path_join(folder, name);

	if (!path || asprintf(&target, "../%s", digest) < 0 ||
		asprintf(&tmp, "%s/.tmp-%d", folder, (int)getpid()) < 0)
		return gb_nomem(err);
	unlink(tmp); /* of a process that had our number and was killed */
	if (symlink(target, tmp) < 0)
		return gb_fail_sys(err, errno, "cannot create '%s'", tmp);
	if (rename(tmp, path) < 0) {
		unlink(tmp);
		return gb_fail_sys(err, errno, "cannot rename to '%s'", path);
	}
	return gb_sync_folder(folder, err);
}

int gb_image_set_name(
	const char *data_dir, const char *name, const char *digest, struct gb_err *err)
{
	gb_auto_free char *images = gb_image_folder(data_dir);
	gb_auto_free char *image = images ? gb_path_join(images, digest) : NULL;
	gb_auto_free char *names = images ? gb_path_join(images, "names") : NULL;
	gb_auto_done(gb_flight) flight = GB_FLIGHT_INIT;
	int r;

	if (!gb_name_valid(name))
		return gb_fail(err, GB_E_INVALID,
			"'%s' is no name for an image: letters, digits, '_', '.', '-', "
			"at most 63",
			name);
	if (!image || !names)
		return gb_nomem(err);
	r = gb_mkdir_p(names, 0700, err);
	if (r == 0)
		r = gb_flight_begin(images, "names", gb_deadline_ms(NAMES_WAIT_MS), NULL,
			NULL, &flight, err);
	if (r < 0)
		return r;
	if (access(image, F_OK) < 0)
		return gb_fail_sys(err, errno, "no image %.12s", digest);
	return replace_link(names, name, digest, err);
}
