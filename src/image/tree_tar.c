/* Tar by libarchive. The archive is foreign: libarchive checks the format, here the
 * numbers are held to the limits of tree.h, and a warning of libarchive (a name it could
 * not read, a header it doubts) is an error: half an image is none. */
#include "image/tree.h"
#include "base/str.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <string.h>

#define TAR_READ_SIZE ((size_t)256 << 10)

struct tar_source {
	struct gb_tree_source base;
	struct archive *archive;      /* owned */
	struct gb_tree_xattrs xattrs; /* owned; of the current entry */
	locale_t utf8;		      /* owned; 0 when there is none */
	struct gb_tree_reader reader;
	struct gb_err read_err; /* why the reader failed; code 0: it did not */
	uint64_t data_end;	/* of the current entry */
	uint64_t entries;
	uint8_t buffer[TAR_READ_SIZE];
};

static int tar_fail(struct tar_source *s, const char *path, struct gb_err *err)
{
	const char *why = archive_error_string(s->archive);

	if (s->read_err.code && err)
		*err = s->read_err;
	if (s->read_err.code)
		return s->read_err.code;
	if (!why)
		why = "unreadable";
	if (archive_errno(s->archive) == ENOMEM)
		return gb_nomem(err);
	if (path)
		return gb_fail(
			err, GB_E_PARSE, "bad archive after '%.300s': %s", path, why);
	return gb_fail(err, GB_E_PARSE, "bad archive: %s", why);
}

static la_ssize_t read_cb(struct archive *a, void *ctx, const void **ret)
{
	struct tar_source *s = ctx;
	size_t n = 0;
	int r = s->reader.read(
		s->reader.ctx, s->buffer, sizeof(s->buffer), &n, &s->read_err);

	if (r < 0) {
		archive_set_error(a, EIO, "%s", s->read_err.msg);
		return -1;
	}
	*ret = s->buffer;
	return (la_ssize_t)n;
}

static int entry_type(struct archive_entry *e, enum gb_tree_type *ret)
{
	if (archive_entry_hardlink(e)) {
		*ret = GB_TREE_HARDLINK;
		return 0;
	}
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		*ret = GB_TREE_FILE;
		return 0;
	case AE_IFDIR:
		*ret = GB_TREE_DIR;
		return 0;
	case AE_IFLNK:
		*ret = GB_TREE_SYMLINK;
		return 0;
	case AE_IFCHR:
		*ret = GB_TREE_CHAR;
		return 0;
	case AE_IFBLK:
		*ret = GB_TREE_BLOCK;
		return 0;
	case AE_IFIFO:
		*ret = GB_TREE_FIFO;
		return 0;
	default:
		return -1;
	}
}

static int entry_owner(int64_t value, uint32_t *ret)
{
	if (value < 0 || value > UINT32_MAX - 1)
		return -1;
	*ret = (uint32_t)value;
	return 0;
}

static int entry_xattrs(struct tar_source *s, struct archive_entry *e, struct gb_err *err)
{
	const char *name;
	const void *value;
	size_t len;

	gb_tree_xattrs_done(&s->xattrs);
	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &len) == ARCHIVE_OK) {
		int r = name ? gb_tree_xattrs_add(&s->xattrs, name, value, len, err) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int entry_fill(struct tar_source *s, struct archive_entry *e,
	struct gb_tree_entry *ret, struct gb_err *err)
{
	const char *path = archive_entry_pathname(e);
	int64_t size = archive_entry_size(e);
	int64_t ns = archive_entry_mtime_nsec(e);
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!path)
		return gb_fail(
			err, GB_E_PARSE, "bad archive: an entry without a readable name");
	ret->path = path;
	if (entry_type(e, &ret->type) < 0)
		return gb_fail(
			err, GB_E_UNSUPPORTED, "'%.300s' is of an unknown type", path);
	if (size < 0 || (uint64_t)size > GB_TREE_FILE_MAX)
		return gb_fail(
			err, GB_E_LIMIT, "'%.300s' is larger than a file can be", path);
	if (entry_owner(archive_entry_uid(e), &ret->uid) < 0 ||
		entry_owner(archive_entry_gid(e), &ret->gid) < 0)
		return gb_fail(err, GB_E_LIMIT, "'%.300s' has an impossible owner", path);
	ret->mode = archive_entry_perm(e) & 07777;
	ret->mtime_s = archive_entry_mtime(e);
	ret->mtime_ns = ns >= 0 && ns < 1000000000 ? (uint32_t)ns : 0;
	ret->size = ret->type == GB_TREE_FILE ? (uint64_t)size : 0;
	ret->dev_major = (uint32_t)archive_entry_rdevmajor(e);
	ret->dev_minor = (uint32_t)archive_entry_rdevminor(e);
	if (ret->type == GB_TREE_HARDLINK)
		ret->target = archive_entry_hardlink(e);
	if (ret->type == GB_TREE_SYMLINK)
		ret->target = archive_entry_symlink(e);
	if ((ret->type == GB_TREE_HARDLINK || ret->type == GB_TREE_SYMLINK) &&
		!ret->target)
		return gb_fail(
			err, GB_E_PARSE, "link '%.300s' has no readable target", path);
	r = entry_xattrs(s, e, err);
	if (r < 0)
		return gb_wrap(err, r, "'%.300s'", path);
	ret->xattrs = s->xattrs;
	return 0;
}

static int tar_next(
	struct gb_tree_source *base, struct gb_tree_entry *ret, struct gb_err *err)
{
	struct tar_source *s = (struct tar_source *)base;
	struct archive_entry *e = NULL;
	locale_t old = s->utf8 ? uselocale(s->utf8) : (locale_t)0;
	int r = archive_read_next_header(s->archive, &e);

	s->data_end = 0;
	if (r == ARCHIVE_EOF)
		r = 0;
	else if (r != ARCHIVE_OK)
		r = tar_fail(s, e ? archive_entry_pathname(e) : NULL, err);
	else if (++s->entries > GB_TREE_ENTRIES_MAX)
		r = gb_fail(err, GB_E_LIMIT, "over %d entries", GB_TREE_ENTRIES_MAX);
	else
		r = entry_fill(s, e, ret, err) < 0 ? (err ? err->code : GB_E_PARSE) : 1;
	if (s->utf8)
		uselocale(old);
	return r;
}

static int tar_data(struct gb_tree_source *base, const void **ret_data, size_t *ret_len,
	uint64_t *ret_offset, struct gb_err *err)
{
	struct tar_source *s = (struct tar_source *)base;
	la_int64_t offset = 0;
	int r = archive_read_data_block(s->archive, ret_data, ret_len, &offset);

	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK)
		return tar_fail(s, NULL, err);
	if (offset < 0 || (uint64_t)offset < s->data_end ||
		(uint64_t)offset > GB_TREE_FILE_MAX - *ret_len)
		return gb_fail(err, GB_E_PARSE,
			"bad archive: a sparse file's map runs backwards");
	*ret_offset = (uint64_t)offset;
	s->data_end = (uint64_t)offset + *ret_len;
	return 1;
}

static void tar_free(struct gb_tree_source *base)
{
	struct tar_source *s = (struct tar_source *)base;

	archive_read_free(s->archive);
	gb_tree_xattrs_done(&s->xattrs);
	if (s->utf8)
		freelocale(s->utf8);
	free(s);
}

static const struct gb_tree_ops tar_ops = {tar_next, tar_data, tar_free};

static int tar_formats(struct archive *a)
{
	if (archive_read_support_format_tar(a) != ARCHIVE_OK)
		return -1;
	/* one that this libarchive does in another process or lacks is not asked for */
	return archive_read_support_filter_gzip(a) == ARCHIVE_OK &&
			       archive_read_support_filter_zstd(a) == ARCHIVE_OK &&
			       archive_read_support_filter_xz(a) == ARCHIVE_OK &&
			       archive_read_support_filter_bzip2(a) == ARCHIVE_OK &&
			       archive_read_support_filter_lz4(a) == ARCHIVE_OK
		       ? 0
		       : -1;
}

int gb_tree_tar_open(const struct gb_tree_reader *reader, struct gb_tree_source **ret,
	struct gb_err *err)
{
	struct tar_source *s = calloc(1, sizeof(*s));
	gb_auto(gb_tree_source) *guard = NULL;

	if (!s)
		return gb_nomem(err);
	s->base.ops = &tar_ops;
	s->reader = *reader;
	guard = &s->base;
	/* pax names are UTF-8; without such a locale libarchive loses them */
	s->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	s->archive = archive_read_new();
	if (!s->archive)
		return gb_nomem(err);
	if (tar_formats(s->archive) < 0)
		return gb_fail(err, GB_E_UNSUPPORTED,
			"this libarchive lacks tar, gzip, zstd, xz, bzip2 or lz4");
	if (archive_read_open(s->archive, s, NULL, read_cb, NULL) != ARCHIVE_OK)
		return tar_fail(s, NULL, err);
	*ret = gb_take_ptr(guard);
	return 0;
}
