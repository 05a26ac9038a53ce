#include "vmm/bundle_parts.h"

#include <archive.h>
#include <archive_entry.h>

#define UNPACK_CHUNK 65536

static void reader_free(struct archive **a)
{
	archive_read_free(*a);
}

/* Only decoders that are linked in: libarchive would run programs for some others. */
static bool set_up(struct archive *a)
{
	return archive_read_support_filter_gzip(a) == ARCHIVE_OK &&
	       archive_read_support_filter_bzip2(a) == ARCHIVE_OK &&
	       archive_read_support_filter_xz(a) == ARCHIVE_OK &&
	       archive_read_support_filter_lzma(a) == ARCHIVE_OK &&
	       archive_read_support_filter_zstd(a) == ARCHIVE_OK &&
	       archive_read_support_filter_lz4(a) == ARCHIVE_OK &&
	       archive_read_support_format_raw(a) == ARCHIVE_OK;
}

int gb_unpack(
	const void *data, size_t len, size_t max, struct gb_buf *ret, struct gb_err *err)
{
	__attribute__((cleanup(reader_free))) struct archive *a = archive_read_new();
	struct archive_entry *entry;

	if (!a || !set_up(a))
		return gb_nomem(err);
	if (archive_read_open_memory(a, data, len) != ARCHIVE_OK ||
		archive_read_next_header(a, &entry) != ARCHIVE_OK)
		return gb_fail(err, GB_E_PARSE, "damaged compressed data");
	if (archive_filter_count(a) != 2)
		return gb_fail(
			err, GB_E_UNSUPPORTED, "compressed in a way that is not known");
	gb_buf_reset(ret);
	ret->max = max;
	for (;;) {
		void *to =
			gb_buf_reserve(ret, GB_MIN((size_t)UNPACK_CHUNK, max - ret->len));
		la_ssize_t n;
		uint8_t beyond;

		if (!to)
			return gb_buf_check(ret, "unpacking", err);
		if (ret->len == max)
			n = archive_read_data(a, &beyond, 1);
		else
			n = archive_read_data(
				a, to, GB_MIN((size_t)UNPACK_CHUNK, max - ret->len));
		if (n < 0)
			return gb_fail(err, GB_E_PARSE, "damaged compressed data");
		if (n == 0)
			return 0;
		if (ret->len == max)
			return gb_fail(
				err, GB_E_LIMIT, "over %zu bytes when unpacked", max);
		ret->len += (size_t)n;
	}
}
