/* What can be said of a picture without decoding it: its kind, and the size it is shown
 * in. */
#include "media/media.h"

#include "base/str.h"

#include <math.h>
#include <string.h>

#define PATCH 32u /* pixels of a patch's side */

static bool starts(const uint8_t *b, size_t len, size_t at, const char *magic, size_t n)
{
	return len >= at + n && memcmp(b + at, magic, n) == 0;
}

/* Two letters are too few to believe: the size of the header that follows has few values.
 */
static bool is_bmp(const uint8_t *b, size_t len)
{
	static const uint8_t sizes[] = {12, 40, 52, 56, 64, 108, 124};

	if (!starts(b, len, 0, "BM", 2) || len < 18 || b[15] || b[16] || b[17])
		return false;
	for (size_t i = 0; i < sizeof(sizes); i++)
		if (b[14] == sizes[i])
			return true;
	return false;
}

static bool is_pnm(const uint8_t *b, size_t len)
{
	if (len < 3 || b[0] != 'P' || b[1] < '1' || b[1] > '7')
		return false;
	return b[2] == ' ' || (b[2] >= '\t' && b[2] <= '\r') || b[2] == '#';
}

enum gb_media_format gb_media_sniff(const void *bytes, size_t len)
{
	const uint8_t *b = bytes;

	if (starts(b, len, 0, "\x89PNG\r\n\x1a\n", 8))
		return GB_MEDIA_PNG;
	if (starts(b, len, 0, "\xff\xd8\xff", 3))
		return GB_MEDIA_JPEG;
	if (starts(b, len, 0, "GIF87a", 6) || starts(b, len, 0, "GIF89a", 6))
		return GB_MEDIA_GIF;
	if (starts(b, len, 0, "RIFF", 4) && starts(b, len, 8, "WEBP", 4))
		return GB_MEDIA_WEBP;
	if (is_bmp(b, len))
		return GB_MEDIA_BMP;
	return is_pnm(b, len) ? GB_MEDIA_PNM : GB_MEDIA_NONE;
}

static const struct {
	const char *name, *mime;
} formats[] = {
	[GB_MEDIA_NONE] = {"no picture", "application/octet-stream"},
	[GB_MEDIA_PNG] = {"PNG", "image/png"},
	[GB_MEDIA_JPEG] = {"JPEG", "image/jpeg"},
	[GB_MEDIA_GIF] = {"GIF", "image/gif"},
	[GB_MEDIA_WEBP] = {"WebP", "image/webp"},
	[GB_MEDIA_BMP] = {"BMP", "image/bmp"},
	[GB_MEDIA_PNM] = {"PNM", "image/x-portable-anymap"},
};

const char *gb_media_format_name(enum gb_media_format f)
{
	return formats[(size_t)f < GB_ARRAY_SIZE(formats) ? f : GB_MEDIA_NONE].name;
}

const char *gb_media_mime(enum gb_media_format f)
{
	return formats[(size_t)f < GB_ARRAY_SIZE(formats) ? f : GB_MEDIA_NONE].mime;
}

int gb_media_unknown(size_t len, struct gb_err *err)
{
	return gb_fail(err, GB_E_UNSUPPORTED,
		"%s: PNG, JPEG, GIF, WebP, BMP and PNM are known",
		len ? "not a picture" : "an empty file is not a picture");
}

int gb_media_too_long(struct gb_err *err)
{
	return gb_fail(err, GB_E_LIMIT,
		"the picture has more than %zu bytes: make it smaller, or convert it to "
		"PNG, "
		"JPEG or WebP",
		GB_MEDIA_BYTES_MAX);
}

int gb_media_detail_parse(const char *word, enum gb_media_detail *ret, struct gb_err *err)
{
	if (!word || gb_streq(word, "high"))
		*ret = GB_MEDIA_HIGH;
	else if (gb_streq(word, "original"))
		*ret = GB_MEDIA_ORIGINAL;
	else
		return gb_fail(err, GB_E_INVALID,
			"detail '%.32s' is not known: use high or original, or leave it "
			"out",
			word);
	return 0;
}

struct limits {
	uint32_t side;
	uint32_t patches;
};

static bool fits(uint32_t width, uint32_t height, const struct limits *l)
{
	uint64_t wide = (width + (uint64_t)PATCH - 1) / PATCH;
	uint64_t high = (height + (uint64_t)PATCH - 1) / PATCH;

	return width <= l->side && height <= l->side && wide * high <= l->patches;
}

static uint32_t at_least_one(double n)
{
	return n < 1 ? 1 : (uint32_t)n;
}

void gb_media_fit(uint32_t width, uint32_t height, enum gb_media_detail detail,
	uint32_t *ret_width, uint32_t *ret_height)
{
	static const struct limits all[] = {
		[GB_MEDIA_HIGH] = {2048, 2500},
		[GB_MEDIA_ORIGINAL] = {6000, 10000},
	};
	const struct limits *l = &all[detail];

	if (!fits(width, height, l)) {
		double scale = (double)l->side / GB_MAX(width, height);

		width = at_least_one(round(width * GB_MIN(scale, 1.0)));
		height = at_least_one(round(height * GB_MIN(scale, 1.0)));
	}
	if (!fits(width, height, l)) {
		double scale = sqrt((double)PATCH * PATCH * l->patches / width / height);
		double wide = width * scale / PATCH;
		double high = height * scale / PATCH;

		scale *= GB_MIN(floor(wide) / wide, floor(high) / high);
		width = at_least_one(floor(width * scale));
		height = at_least_one(floor(height * scale));
	}
	*ret_width = width;
	*ret_height = height;
}

void gb_media_result_done(struct gb_media_result *r)
{
	free(r->data);
	memset(r, 0, sizeof(*r));
}
