/* What is known of a picture without decoding it. */
#include "rows.h"

#include "media/media.h"

#include <string.h>

struct sniff_row {
	const char *name;
	const char *bytes;
	size_t len;
	enum gb_media_format is;
};
#define B(text) text, sizeof(text) - 1

static const struct sniff_row sniff_rows[] = {
	{ "nothing", B(""), GB_MEDIA_NONE },
	{ "png", B("\x89PNG\r\n\x1a\n"), GB_MEDIA_PNG },
	{ "png, one byte short", B("\x89PNG\r\n\x1a"), GB_MEDIA_NONE },
	{ "png whose line ends were translated", B("\x89PNG\n\x1a\n...."), GB_MEDIA_NONE },
	{ "jpeg, jfif", B("\xff\xd8\xff\xe0"), GB_MEDIA_JPEG },
	{ "jpeg, exif", B("\xff\xd8\xff\xe1"), GB_MEDIA_JPEG },
	{ "jpeg, one byte short", B("\xff\xd8"), GB_MEDIA_NONE },
	{ "gif 87", B("GIF87a"), GB_MEDIA_GIF },
	{ "gif 89", B("GIF89a..."), GB_MEDIA_GIF },
	{ "gif of no version", B("GIF88a..."), GB_MEDIA_NONE },
	{ "webp", B("RIFF\1\2\3\4WEBP"), GB_MEDIA_WEBP },
	{ "webp, one byte short", B("RIFF\1\2\3\4WEB"), GB_MEDIA_NONE },
	{ "another riff", B("RIFF\1\2\3\4WAVEfmt "), GB_MEDIA_NONE },
	{ "bmp", B("BM............\x28\0\0\0"), GB_MEDIA_BMP },
	{ "bmp of os/2", B("BM............\x0c\0\0\0"), GB_MEDIA_BMP },
	{ "bmp 5", B("BM............\x7c\0\0\0"), GB_MEDIA_BMP },
	{ "bmp, one byte short", B("BM............\x28\0\0"), GB_MEDIA_NONE },
	{ "bmp of no version", B("BM............\x29\0\0\0"), GB_MEDIA_NONE },
	{ "bmp with a long header", B("BM............\x28\0\1\0"), GB_MEDIA_NONE },
	{ "text that begins with BM", B("BMW makes cars, and has for long"), GB_MEDIA_NONE },
	{ "pbm text", B("P1\n"), GB_MEDIA_PNM },
	{ "ppm bytes", B("P6 2 2 255\n"), GB_MEDIA_PNM },
	{ "pnm with a comment at once", B("P3#x\n"), GB_MEDIA_PNM },
	{ "pam", B("P7\n"), GB_MEDIA_PNM },
	{ "pnm, one byte short", B("P6"), GB_MEDIA_NONE },
	{ "pnm 8", B("P8\n"), GB_MEDIA_NONE },
	{ "pnm 0", B("P0\n"), GB_MEDIA_NONE },
	{ "a word that begins as a pnm", B("P2P network"), GB_MEDIA_NONE },
	{ "svg", B("<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), GB_MEDIA_NONE },
	{ "tiff", B("II*\0\10\0\0\0"), GB_MEDIA_NONE },
	{ "postscript", B("%!PS-Adobe-3.0 EPSF-3.0\n"), GB_MEDIA_NONE },
	{ "pdf", B("%PDF-1.7\n"), GB_MEDIA_NONE },
	{ "avif", B("\0\0\0\x1c" "ftypavif"), GB_MEDIA_NONE },
	{ "zeroes", B("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), GB_MEDIA_NONE },
};

static void test_sniff(void **state)
{
	const struct sniff_row *row = *state;
	/* a copy without a byte behind it, for what watches memory */
	uint8_t *copy = malloc(row->len ? row->len : 1);
	enum gb_media_format is;

	memcpy(copy, row->bytes, row->len);
	is = gb_media_sniff(copy, row->len);
	free(copy);
	assert_int_equal(is, row->is);
}

struct fit_row {
	const char *name;
	uint32_t width, height;
	enum gb_media_detail detail;
	uint32_t to_width, to_height;
};

static const struct fit_row fit_rows[] = {
	{ "one pixel", 1, 1, GB_MEDIA_HIGH, 1, 1 },
	{ "fits by a hair: 50 x 50 patches", 1600, 1600, GB_MEDIA_HIGH, 1600, 1600 },
	{ "a pixel wider: 51 x 50 patches", 1601, 1600, GB_MEDIA_HIGH, 1568, 1568 },
	{ "the longest side", 2048, 1024, GB_MEDIA_HIGH, 2048, 1024 },
	{ "over the longest side", 2049, 1024, GB_MEDIA_HIGH, 2048, 1024 },
	{ "twice as large", 4096, 2048, GB_MEDIA_HIGH, 2048, 1024 },
	{ "2048 squared", 2048, 2048, GB_MEDIA_HIGH, 1600, 1600 },
	{ "64 x 39 patches", 2048, 1248, GB_MEDIA_HIGH, 2048, 1248 },
	{ "64 x 40 patches", 2048, 1280, GB_MEDIA_HIGH, 1996, 1248 },
	{ "a line", 65535, 1, GB_MEDIA_HIGH, 2048, 1 },
	{ "a standing line", 1, 65535, GB_MEDIA_HIGH, 1, 2048 },
	{ "original, wide", 6401, 100, GB_MEDIA_ORIGINAL, 6000, 94 },
	{ "original, tall", 100, 6401, GB_MEDIA_ORIGINAL, 94, 6000 },
	{ "original, fits by a hair", 3200, 3200, GB_MEDIA_ORIGINAL, 3200, 3200 },
	{ "original, a pixel more", 3201, 3201, GB_MEDIA_ORIGINAL, 3200, 3200 },
	{ "original, the longest side", 6000, 1696, GB_MEDIA_ORIGINAL, 6000, 1696 },
	{ "original, large", 10000, 10000, GB_MEDIA_ORIGINAL, 3200, 3200 },
	{ "original keeps what high reduces", 2048, 2048, GB_MEDIA_ORIGINAL, 2048, 2048 },
};

static void test_fit(void **state)
{
	const struct fit_row *row = *state;
	uint32_t w = 0, h = 0;

	gb_media_fit(row->width, row->height, row->detail, &w, &h);
	assert_int_equal(w, row->to_width);
	assert_int_equal(h, row->to_height);
}

/* Whatever the size: within the limits, not larger, not zero, and fitting stays as it is. */
static void test_fit_limits(void **state)
{
	static const uint32_t side[] = { 2048, 6000 }, patches[] = { 2500, 10000 };
	uint32_t seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint32_t w0, h0, w, h, again_w, again_h;
		int d = i % 2;

		seed = seed * 1664525 + 1013904223;
		w0 = 1 + (seed >> 8) % 9000;
		seed = seed * 1664525 + 1013904223;
		h0 = 1 + (seed >> 8) % 9000;
		gb_media_fit(w0, h0, d ? GB_MEDIA_ORIGINAL : GB_MEDIA_HIGH, &w, &h);
		gb_media_fit(w, h, d ? GB_MEDIA_ORIGINAL : GB_MEDIA_HIGH, &again_w, &again_h);
		if (!w || !h || w > w0 || h > h0 || w > side[d] || h > side[d] ||
			((w + 31) / 32) * ((h + 31) / 32) > patches[d] || w != again_w ||
			h != again_h)
			fail_msg("%u x %u became %u x %u", w0, h0, w, h);
	}
}

struct detail_row {
	const char *name;
	const char *word;
	int code;
	enum gb_media_detail is;
};

static const struct detail_row detail_rows[] = {
	{ "detail left out", NULL, 0, GB_MEDIA_HIGH },
	{ "detail high", "high", 0, GB_MEDIA_HIGH },
	{ "detail original", "original", 0, GB_MEDIA_ORIGINAL },
	{ "detail low", "low", GB_E_INVALID, GB_MEDIA_HIGH },
	{ "detail in capitals", "High", GB_E_INVALID, GB_MEDIA_HIGH },
	{ "detail empty", "", GB_E_INVALID, GB_MEDIA_HIGH },
};

static void test_detail(void **state)
{
	const struct detail_row *row = *state;
	enum gb_media_detail is = GB_MEDIA_HIGH;
	struct gb_err err = { 0 };

	assert_int_equal(gb_media_detail_parse(row->word, &is, &err), row->code);
	assert_int_equal(is, row->is);
	if (row->code)
		assert_non_null(strstr(err.msg, "use high or original"));
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(gb_media_mime(GB_MEDIA_WEBP), "image/webp");
	assert_string_equal(gb_media_mime((enum gb_media_format)99), "application/octet-stream");
	assert_string_equal(gb_media_format_name(GB_MEDIA_JPEG), "JPEG");
	assert_non_null(gb_media_format_name((enum gb_media_format)99));
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, sniff_rows, test_sniff);
	rows_add(&l, fit_rows, test_fit);
	rows_add(&l, detail_rows, test_detail);
	rows_add_one(&l, "any size fits afterwards", test_fit_limits);
	rows_add_one(&l, "names", test_names);
	return rows_run("media-format", &l);
}
