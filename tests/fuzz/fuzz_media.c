/* A picture that a guest sent, whatever its bytes: sniffed, decoded, reduced, encoded. Pictures
 * are held to few pixels, so that a run takes little time. What comes out must be what it is
 * said to be, and be decoded again. Seeds: `ninja seeds-media` in a build folder. */
#include "media/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PIXELS (UINT64_C(1) << 16)

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check(const struct gb_media_result *r)
{
	struct gb_media_result again = { 0 };
	struct gb_err err = { 0 };

	require(r->len && gb_media_sniff(r->data, r->len) == r->format);
	require(r->format == GB_MEDIA_PNG || r->format == GB_MEDIA_JPEG ||
		r->format == GB_MEDIA_WEBP);
	require(gb_media_render(r->data, r->len, GB_MEDIA_ORIGINAL, PIXELS, &again, &err) == 0);
	require(again.width == r->width && again.height == r->height);
	/* upright and still by now */
	require(again.unchanged);
	gb_media_result_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum gb_media_detail detail = size % 2 ? GB_MEDIA_HIGH : GB_MEDIA_ORIGINAL;
	struct gb_media_result r = { 0 };
	struct gb_err err = { 0 };

	if (gb_media_render(data, size, detail, PIXELS, &r, &err) == 0)
		check(&r);
	else
		require(*err.msg);
	gb_media_result_done(&r);
	return 0;
}
