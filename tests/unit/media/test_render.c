/* The decoders and encoders, in this process: every kind of picture, upright, reduced, cut off,
 * and claiming what it does not have. */
#include "pictures.h"
#include "rows.h"

#include "base/clock.h"
#include "media/picture.h"

#include <string.h>
#include <zlib.h>

#define NO (-1)

struct kind_row {
	const char *name;
	picture_maker *make;
	struct wish wish;
	enum gb_media_format becomes;
	bool unchanged;
	int tolerance; /* of a sample */
};

static const struct kind_row kind_rows[] = {
	{ "png", make_png, { 21, 13, 0, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png grey", make_png, { 21, 13, GREY, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png alpha", make_png, { 21, 13, ALPHA, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png grey alpha", make_png, { 21, 13, GREY | ALPHA, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png palette", make_png, { 21, 13, PALETTE, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png palette alpha", make_png, { 21, 13, PALETTE | ALPHA, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png 16 bits", make_png, { 21, 13, SIXTEEN, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png 16 bits grey alpha", make_png, { 21, 13, SIXTEEN | GREY | ALPHA, 0 },
		GB_MEDIA_PNG, true, 0 },
	{ "png interlaced", make_png, { 21, 13, INTERLACED, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png interlaced 16 bits alpha", make_png, { 21, 13, INTERLACED | SIXTEEN | ALPHA, 0 },
		GB_MEDIA_PNG, true, 0 },
	{ "png with a profile", make_png, { 21, 13, ICC, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png of one pixel", make_png, { 1, 1, 0, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "png of one row", make_png, { 40, 1, 0, 0 }, GB_MEDIA_PNG, true, 0 },
	{ "jpeg", make_jpeg, { 64, 48, 0, 0 }, GB_MEDIA_JPEG, true, 12 },
	{ "jpeg grey", make_jpeg, { 64, 48, GREY, 0 }, GB_MEDIA_JPEG, true, 12 },
	{ "jpeg progressive", make_jpeg, { 64, 48, INTERLACED, 0 }, GB_MEDIA_JPEG, true, 12 },
	{ "jpeg cmyk", make_jpeg, { 64, 48, CMYK, 0 }, GB_MEDIA_JPEG, true, 12 },
	{ "jpeg ycck", make_jpeg, { 64, 48, YCCK, 0 }, GB_MEDIA_JPEG, true, 12 },
	{ "jpeg cmyk progressive", make_jpeg, { 64, 48, CMYK | INTERLACED, 0 }, GB_MEDIA_JPEG,
		true, 12 },
	{ "jpeg with a profile", make_jpeg, { 64, 48, ICC, 0 }, GB_MEDIA_JPEG, true, 12 },
	{ "gif", make_gif, { 21, 13, 0, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "gif interlaced", make_gif, { 21, 13, INTERLACED, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "gif transparent", make_gif, { 21, 13, ALPHA, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "gif with colours of its frame", make_gif, { 21, 13, PALETTE, 0 }, GB_MEDIA_PNG, false,
		0 },
	{ "gif animated", make_gif, { 21, 13, ANIMATED, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "webp lossless", make_webp, { 21, 13, 0, 0 }, GB_MEDIA_WEBP, true, 0 },
	{ "webp lossless alpha", make_webp, { 21, 13, ALPHA, 0 }, GB_MEDIA_WEBP, true, 0 },
	{ "webp lossy", make_webp, { 64, 48, LOSSY, 0 }, GB_MEDIA_WEBP, true, 25 },
	{ "webp lossy alpha", make_webp, { 64, 48, LOSSY | ALPHA, 0 }, GB_MEDIA_WEBP, true, 25 },
	{ "webp with a profile", make_webp, { 21, 13, ICC, 0 }, GB_MEDIA_WEBP, true, 0 },
	{ "webp animated", make_webp, { 20, 14, ANIMATED, 0 }, GB_MEDIA_WEBP, false, 0 },
	{ "bmp", make_bmp, { 21, 13, 0, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp, first row on top", make_bmp, { 21, 13, TOP_DOWN, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp of os/2", make_bmp, { 21, 13, OS2, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp of os/2, palette", make_bmp, { 21, 13, OS2 | PALETTE, 0 }, GB_MEDIA_PNG, false,
		0 },
	{ "bmp palette", make_bmp, { 21, 13, PALETTE, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp palette of 16", make_bmp, { 21, 13, PALETTE | BITS4, 0 }, GB_MEDIA_PNG, false,
		0 },
	{ "bmp run lengths", make_bmp, { 21, 13, RLE, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp run lengths of 16", make_bmp, { 24, 13, RLE | BITS4, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp long runs", make_bmp, { 1200, 3, RLE, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp masks", make_bmp, { 21, 13, MASKS, 0 }, GB_MEDIA_PNG, false, 16 },
	{ "bmp masks alpha", make_bmp, { 21, 13, MASKS | ALPHA, 0 }, GB_MEDIA_PNG, false, 16 },
	{ "bmp 32 bits", make_bmp, { 21, 13, BITS32, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "bmp 32 bits alpha", make_bmp, { 21, 13, BITS32 | ALPHA, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "ppm", make_pnm, { 21, 13, 0, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "ppm text", make_pnm, { 21, 13, TEXT, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "ppm 16 bits", make_pnm, { 21, 13, SIXTEEN, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "ppm 16 bits text", make_pnm, { 21, 13, SIXTEEN | TEXT, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "pgm", make_pnm, { 21, 13, GREY, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "pgm text", make_pnm, { 21, 13, GREY | TEXT, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "pam", make_pnm, { 21, 13, PAM, 0 }, GB_MEDIA_PNG, false, 0 },
	{ "pam alpha", make_pnm, { 21, 13, PAM | ALPHA, 0 }, GB_MEDIA_PNG, false, 0 },
};

static int decode(const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err)
{
	switch (gb_media_sniff(bytes, len)) {
	case GB_MEDIA_PNG:
		return gb_png_decode(bytes, len, p, err);
	case GB_MEDIA_JPEG:
		return gb_jpeg_decode(bytes, len, p, err);
	case GB_MEDIA_WEBP:
		return gb_webp_decode(bytes, len, p, err);
	default:
		return gb_fail(err, GB_E_UNSUPPORTED, "not what is handed on");
	}
}

static bool near(const uint8_t *a, const uint8_t *b, int tolerance)
{
	if (b[3] == 0) /* the colour of nothing does not matter */
		return a[3] <= tolerance;
	for (int k = 0; k < 4; k++)
		if (abs(a[k] - b[k]) > tolerance)
			return false;
	return true;
}

/* The picture in result against the wish, at the middle of each quarter; empty when right. */
static void compare(const struct gb_media_result *result, const struct wish *w, int tolerance,
	char *why, size_t size)
{
	struct gb_picture p;
	struct gb_err err = { 0 };

	*why = 0;
	gb_picture_init(&p, GB_MEDIA_ORIGINAL, GB_MEDIA_PIXELS_MAX);
	if (decode(result->data, result->len, &p, &err) < 0)
		snprintf(why, size, "cannot decode the result: %.100s", err.msg);
	else if (p.canvas.width != result->width || p.canvas.height != result->height)
		snprintf(why, size, "is %u x %u", p.canvas.width, p.canvas.height);
	for (uint32_t i = 0; i < 4 && !*why; i++) {
		uint32_t x = (i % 2 * 2 + 1) * p.canvas.width / 4;
		uint32_t y = (i / 2 * 2 + 1) * p.canvas.height / 4;
		const uint8_t *is = p.canvas.pixels + ((size_t)y * p.canvas.width + x) * 4;
		uint8_t want[4];

		picture_pixel(w, (i % 2 * 2 + 1) * w->width / 4, (i / 2 * 2 + 1) * w->height / 4,
			want);
		if (!near(is, want, tolerance))
			snprintf(why, size, "quarter %u: %d %d %d %d, not %d %d %d %d", i, is[0],
				is[1], is[2], is[3], want[0], want[1], want[2], want[3]);
	}
	gb_picture_done(&p);
}

static void test_kind(void **state)
{
	const struct kind_row *row = *state;
	struct gb_buf file = { 0 };
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	char why[200] = "";
	bool same = false;
	int r;

	row->make(&row->wish, &file);
	r = gb_media_render(file.data, file.len, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX, &result,
		&err);
	if (r == 0) {
		compare(&result, &row->wish, row->tolerance, why, sizeof(why));
		same = result.len == file.len && memcmp(result.data, file.data, file.len) == 0;
	}
	gb_buf_done(&file);
	free(gb_take_ptr(result.data));
	if (r < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(why, "");
	assert_int_equal(result.format, row->becomes);
	assert_int_equal(result.unchanged, row->unchanged);
	assert_int_equal(same, row->unchanged);
	assert_int_equal(result.width, row->wish.width);
	assert_int_equal(result.height, row->wish.height);
	assert_int_equal(result.source_width, row->wish.width);
}

/* The result of a picture of that kind; aborts the test when there is none. */
static void rendered(picture_maker *make, const struct wish *w, enum gb_media_detail detail,
	struct gb_media_result *ret)
{
	struct gb_buf file = { 0 };
	struct gb_err err = { 0 };
	int r;

	make(w, &file);
	r = gb_media_render(file.data, file.len, detail, GB_MEDIA_PIXELS_MAX, ret, &err);
	gb_buf_done(&file);
	if (r < 0)
		fail_msg("%s", err.msg);
}

/* A pbm has two colours, which the quarters have not. */
static void test_bitmaps(void **state)
{
	static const unsigned int flags[] = { PALETTE, PALETTE | TEXT };

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(flags); i++) {
		struct wish w = { 21, 13, flags[i], 0 };
		struct gb_media_result result = { 0 };
		struct gb_picture p;
		int corner, next;

		rendered(make_pnm, &w, GB_MEDIA_HIGH, &result);
		gb_picture_init(&p, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX);
		gb_png_decode(result.data, result.len, &p, NULL);
		corner = p.canvas.pixels[0];
		next = p.canvas.pixels[20 * 4];
		gb_picture_done(&p);
		gb_media_result_done(&result);
		assert_int_equal(corner, 0);
		assert_int_equal(next, 255);
	}
}

struct turn_row {
	const char *name;
	picture_maker *make;
	unsigned int flags;
	unsigned int orientation;
};

/* Quarter i of what is shown is quarter shown[orientation][i] of what is stored. */
static const unsigned char shown[9][4] = { { 0 }, { 0, 1, 2, 3 }, { 1, 0, 3, 2 }, { 3, 2, 1, 0 },
	{ 2, 3, 0, 1 }, { 0, 2, 1, 3 }, { 2, 0, 3, 1 }, { 3, 1, 2, 0 }, { 1, 3, 0, 2 } };

#define TURNS(name, make, flags)                                                         \
	{ name " 1", make, flags, 1 }, { name " 2", make, flags, 2 },                    \
		{ name " 3", make, flags, 3 }, { name " 4", make, flags, 4 },            \
		{ name " 5", make, flags, 5 }, { name " 6", make, flags, 6 },            \
		{ name " 7", make, flags, 7 }, { name " 8", make, flags, 8 }

static const struct turn_row turn_rows[] = {
	TURNS("jpeg orientation", make_jpeg, 0),
	TURNS("png orientation", make_png, 0),
	TURNS("png orientation behind the pixels", make_png, EXIF_LAST),
	TURNS("webp orientation", make_webp, 0),
};

static void test_turn(void **state)
{
	const struct turn_row *row = *state;
	struct wish w = { 64, 32, row->flags, row->orientation };
	struct gb_media_result result = { 0 };
	struct gb_picture p;
	unsigned int wrong = 9, told;
	size_t kept;

	rendered(row->make, &w, GB_MEDIA_HIGH, &result);
	gb_picture_init(&p, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX);
	decode(result.data, result.len, &p, NULL);
	for (uint32_t i = 0; i < 4 && p.canvas.pixels; i++) {
		uint32_t x = (i % 2 * 2 + 1) * p.canvas.width / 4;
		uint32_t y = (i / 2 * 2 + 1) * p.canvas.height / 4;
		unsigned int from = shown[row->orientation][i];
		uint8_t want[4];

		picture_pixel(&w, from % 2 * 40, from / 2 * 20, want);
		if (!near(p.canvas.pixels + ((size_t)y * p.canvas.width + x) * 4, want, 14))
			wrong = GB_MIN(wrong, i);
	}
	told = gb_exif_orientation(p.exif.data, p.exif.len);
	kept = p.exif.len;
	gb_picture_done(&p);
	gb_media_result_done(&result);
	assert_int_equal(wrong, 9);
	/* the other EXIF data is still there, and nobody turns it a second time */
	assert_int_equal(kept, 38);
	assert_int_equal(told, 1);
}

static void test_turn_sizes(void **state)
{
	struct wish w = { 64, 32, 0, 6 };
	struct gb_media_result result = { 0 };

	(void)state;
	rendered(make_jpeg, &w, GB_MEDIA_HIGH, &result);
	free(gb_take_ptr(result.data));
	assert_int_equal(result.width, 32);
	assert_int_equal(result.height, 64);
	assert_int_equal(result.source_width, 64);
	assert_false(result.unchanged);
}

struct size_row {
	const char *name;
	picture_maker *make;
	struct wish wish;
	enum gb_media_detail detail;
	uint32_t width, height;
	bool unchanged;
};

static const struct size_row size_rows[] = {
	{ "png, just small enough", make_png, { 1600, 1600, 0, 0 }, GB_MEDIA_HIGH, 1600, 1600,
		true },
	{ "png, a pixel too wide", make_png, { 1601, 1600, 0, 0 }, GB_MEDIA_HIGH, 1568, 1568,
		false },
	{ "png reduced, alpha", make_png, { 2049, 100, ALPHA, 0 }, GB_MEDIA_HIGH, 2048, 100,
		false },
	{ "png reduced, interlaced", make_png, { 5000, 50, INTERLACED, 0 }, GB_MEDIA_HIGH, 2048,
		20, false },
	{ "png with original", make_png, { 5000, 50, 0, 0 }, GB_MEDIA_ORIGINAL, 5000, 50, true },
	{ "png too large for original", make_png, { 6401, 100, 0, 0 }, GB_MEDIA_ORIGINAL, 6000,
		94, false },
	{ "png, very wide", make_png, { 65535, 4, 0, 0 }, GB_MEDIA_HIGH, 2048, 1, false },
	{ "jpeg reduced", make_jpeg, { 3000, 200, 0, 0 }, GB_MEDIA_HIGH, 2048, 137, false },
	{ "jpeg reduced and turned", make_jpeg, { 3000, 200, 0, 6 }, GB_MEDIA_HIGH, 137, 2048,
		false },
	{ "webp reduced", make_webp, { 3000, 200, 0, 0 }, GB_MEDIA_HIGH, 2048, 137, false },
	{ "gif reduced", make_gif, { 3000, 200, 0, 0 }, GB_MEDIA_HIGH, 2048, 137, false },
	{ "bmp reduced", make_bmp, { 3000, 200, 0, 0 }, GB_MEDIA_HIGH, 2048, 137, false },
	{ "ppm reduced", make_pnm, { 3000, 200, 0, 0 }, GB_MEDIA_HIGH, 2048, 137, false },
	{ "ppm, tall", make_pnm, { 3, 40000, 0, 0 }, GB_MEDIA_HIGH, 1, 2048, false },
};

static void test_size(void **state)
{
	const struct size_row *row = *state;
	struct gb_media_result result = { 0 };
	struct wish w = row->wish;
	char why[200] = "";

	rendered(row->make, &w, row->detail, &result);
	/* colours mix where a quarter is less than a pixel */
	if (GB_MIN(row->width, row->height) > 10 && !row->wish.orientation)
		compare(&result, &w, 12, why, sizeof(why));
	free(gb_take_ptr(result.data));
	assert_string_equal(why, "");
	assert_int_equal(result.width, row->width);
	assert_int_equal(result.height, row->height);
	assert_int_equal(result.unchanged, row->unchanged);
}

/* An even colour stays exactly that, and what is behind transparent pixels does not show. */
static void test_reducing_keeps_colours(void **state)
{
	struct gb_canvas c = { .detail = GB_MEDIA_HIGH, .pixels_max = GB_MEDIA_PIXELS_MAX };
	static uint8_t row[3000 * 4];
	unsigned int wrong = 0;

	(void)state;
	for (size_t x = 0; x < 3000; x++)
		memcpy(row + x * 4, x % 3 ? "\xff\x0\x0\x0" : "\x11\xc8\x37\xff", 4);
	assert_int_equal(gb_canvas_begin(&c, 3000, 100, NULL), 0);
	for (int y = 0; y < 100; y++)
		gb_canvas_row(&c, row);
	for (size_t i = 0; i < (size_t)c.width * c.height; i++)
		if (c.pixels[i * 4 + 3] && memcmp(c.pixels + i * 4, "\x11\xc8\x37", 3) != 0)
			wrong++;
	assert_int_equal(c.finished, c.height);
	gb_canvas_done(&c);
	assert_int_equal(wrong, 0);
}

static void test_offset_frames(void **state)
{
	struct wish w = { 20, 14, OFFSET, 0 };
	struct gb_media_result result = { 0 };
	struct gb_picture p;
	uint8_t around[4], inside[4];

	(void)state;
	for (int webp = 0; webp < 2; webp++) {
		w.flags = webp ? OFFSET | ANIMATED : OFFSET;
		rendered(webp ? make_webp : make_gif, &w, GB_MEDIA_HIGH, &result);
		gb_picture_init(&p, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX);
		decode(result.data, result.len, &p, NULL);
		memcpy(around, p.canvas.pixels, 4);
		memcpy(inside, p.canvas.pixels + (6 * 30 + 6) * 4, 4);
		gb_picture_done(&p);
		free(gb_take_ptr(result.data));
		assert_int_equal(result.width, 30);
		assert_int_equal(result.height, 24);
		assert_int_equal(around[3], 0);
		assert_int_equal(inside[0], 200);
		assert_int_equal(inside[3], 255);
	}
}

struct profile_row {
	const char *name;
	picture_maker *make;
	struct wish wish;
	size_t kept;
};

static const struct profile_row profile_rows[] = {
	{ "profile of a jpeg", make_jpeg, { 3000, 40, ICC, 0 }, 200 },
	{ "profile of a webp", make_webp, { 3000, 40, ICC, 0 }, 200 },
	{ "profile of a png", make_png, { 3000, 40, ICC, 0 }, 200 },
	{ "profile for grey is left out", make_png, { 3000, 40, ICC | GREY, 0 }, 0 },
	{ "no profile", make_png, { 3000, 40, 0, 0 }, 0 },
};

static void test_profile(void **state)
{
	const struct profile_row *row = *state;
	struct gb_media_result result = { 0 };
	struct gb_picture p;
	size_t kept;

	rendered(row->make, &row->wish, GB_MEDIA_HIGH, &result);
	gb_picture_init(&p, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX);
	decode(result.data, result.len, &p, NULL);
	kept = p.icc.len;
	gb_picture_done(&p);
	gb_media_result_done(&result);
	assert_int_equal(kept, row->kept);
}

/* Every beginning of every kind, in memory that ends where it does: an error, and one line. */
static void test_cut_off(void **state)
{
	const struct kind_row *row = *state;
	struct wish w = row->wish;
	struct gb_buf file = { 0 };

	w.width = GB_MIN(w.width, 24);
	w.height = GB_MIN(w.height, 16);
	row->make(&w, &file);
	for (size_t n = 0; n < file.len; n++) {
		uint8_t *part = malloc(n ? n : 1);
		struct gb_media_result result = { 0 };
		struct gb_err err = { 0 };
		int r;

		memcpy(part, file.data, n);
		r = gb_media_render(
			part, n, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX, &result, &err);
		free(part);
		gb_media_result_done(&result);
		/* of a GIF only the first picture counts, the last bytes of a BMP are padding,
		 * and a number in text is one too when its last digits are missing */
		if (r == 0 && (row->make == make_gif || row->make == make_bmp ||
				      (w.flags & TEXT && n + 6 > file.len)))
			continue;
		if (r == 0 || !*err.msg || strchr(err.msg, '\n'))
			fail_msg("%zu of %zu bytes: %d '%s'", n, file.len, r, err.msg);
	}
	gb_buf_done(&file);
}

/* Each byte changed, a bit at a time: no crash, no hang, and what comes out is a picture. */
static void test_changed(void **state)
{
	const struct kind_row *row = *state;
	struct wish w = row->wish;
	struct gb_buf file = { 0 };

	w.width = GB_MIN(w.width, 24);
	w.height = GB_MIN(w.height, 16);
	row->make(&w, &file);
	for (size_t n = 0; n < file.len; n++) {
		struct gb_media_result result = { 0 };
		enum gb_media_format is;

		file.data[n] ^= (uint8_t)(1u << n % 8);
		if (gb_media_render(file.data, file.len, GB_MEDIA_HIGH, 1 << 20, &result, NULL) ==
			0) {
			is = gb_media_sniff(result.data, result.len);
			if (is != result.format)
				fail_msg("byte %zu: a %d that is a %d", n, result.format, is);
		}
		gb_media_result_done(&result);
		file.data[n] ^= (uint8_t)(1u << n % 8);
	}
	gb_buf_done(&file);
}

struct claim_row {
	const char *name;
	const char *bytes;
	size_t len;
	int code;
	const char *says;
};
#define B(text) text, sizeof(text) - 1

static const struct claim_row claim_rows[] = {
	{ "no bytes", B(""), GB_E_UNSUPPORTED, "an empty file is not a picture" },
	{ "text", B("hello"), GB_E_UNSUPPORTED, "not a picture: PNG, JPEG, GIF" },
	{ "gif with a huge canvas",
		B("GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\1\0\1\0\x80\0\0\0\xff\xff\xff\2\2D\1\0;"),
		GB_E_LIMIT, "65535 x 65535 pixels" },
	{ "gif without colours", B("GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"),
		GB_E_PARSE, "no colours" },
	{ "gif without a picture", B("GIF89a\1\0\1\0\0\0\0;"), GB_E_PARSE, "no picture" },
	{ "bmp of 100000 x 100000",
		B("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xa0\x86\1\0\xa0\x86\1\0\1\0\x18\0\0\0\0\0"
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
		GB_E_LIMIT, "a side may have 65535" },
	{ "bmp of height -2^31",
		B("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\1\0\0\0\0\0\0\x80\1\0\x18\0\0\0\0\0"
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
		GB_E_LIMIT, "a side may have 65535" },
	{ "bmp without pixels",
		B("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\0\0\0\0\1\0\0\0\1\0\x18\0\0\0\0\0"
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
		GB_E_PARSE, "no pixels" },
	{ "bmp whose pixels begin nowhere",
		B("BM\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x28\0\0\0\1\0\0\0\1\0\0\0\1\0\x18\0\0\0\0\0"
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
		GB_E_PARSE, "ends too early" },
	{ "bmp with a jpeg in it",
		B("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\1\0\0\0\1\0\0\0\1\0\x18\0\4\0\0\0"
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
		GB_E_PARSE, "24 bits with compression 4" },
	{ "ppm of 50000 x 50000", B("P6 50000 50000 255\n"), GB_E_LIMIT, "more than 100000000" },
	{ "ppm with a number that is too large", B("P6 99999999999999999999 1 255\n"), GB_E_PARSE,
		"too large" },
	{ "ppm with a minus", B("P6 -1 1 255\n"), GB_E_PARSE, "a number is missing" },
	{ "ppm whose largest sample is 0", B("P6 1 1 0\n\0\0\0"), GB_E_PARSE, "sample is 0" },
	{ "ppm whose largest sample is 65536", B("P6 1 1 65536\n\0\0\0\0\0\0"), GB_E_PARSE,
		"sample is 65536" },
	{ "pgm with a sample over its largest", B("P2 1 1 9\n10\n"), GB_E_PARSE,
		"larger than it says" },
	{ "pbm with a 2", B("P1 2 1\n02\n"), GB_E_PARSE, "larger than it says" },
	{ "pam of five samples", B("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 5\nMAXVAL 255\nENDHDR\n12345"),
		GB_E_PARSE, "5 samples a pixel" },
	{ "pam with an unknown word", B("P7\nWIDE 1\nENDHDR\n"), GB_E_PARSE, "unknown word" },
	{ "jpeg of nothing", B("\xff\xd8\xff\xd9"), GB_E_PARSE, "cannot decode this JPEG" },
	{ "webp of nothing", B("RIFF\4\0\0\0WEBP"), GB_E_PARSE, "cannot decode this WebP" },
};

static void test_claim(void **state)
{
	const struct claim_row *row = *state;
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	int r = gb_media_render((const uint8_t *)row->bytes, row->len, GB_MEDIA_HIGH,
		GB_MEDIA_PIXELS_MAX, &result, &err);

	if (r != row->code || !strstr(err.msg, row->says))
		fail_msg("%d '%s'", r, err.msg);
	assert_null(result.data);
}

/* Bytes that unpack to many zeroes. */
static void zeroes(size_t count, struct gb_buf *ret)
{
	static uint8_t chunk[1 << 16];
	z_stream z = { 0 };

	assert_int_equal(deflateInit(&z, 9), Z_OK);
	while (count || z.avail_out == 0) {
		size_t n = GB_MIN(count, sizeof(chunk));

		z.next_in = chunk;
		z.avail_in = (uInt)n;
		count -= n;
		do {
			z.next_out = gb_buf_reserve(ret, 4096);
			z.avail_out = 4096;
			deflate(&z, count ? Z_NO_FLUSH : Z_FINISH);
			ret->len += 4096 - z.avail_out;
		} while (z.avail_out == 0);
	}
	deflateEnd(&z);
}

struct bomb_row {
	const char *name;
	uint32_t width, height;
	size_t unpacked;
	const char *says; /* NULL: decoded, the rest ignored */
};

static const struct bomb_row bomb_rows[] = {
	{ "png that claims 60000 x 60000", 60000, 60000, 1000, "60000 x 60000 pixels, more than" },
	{ "png that claims 2147483647 x 1", 2147483647, 1, 1000, "a side may have" },
	{ "png that claims one pixel too much", 10000, 10001, 1000, "10000 x 10001" },
	{ "png that has too few pixels", 100, 100, 100, "" },
	{ "png that unpacks to 256 MiB behind its pixels", 8, 8, (size_t)256 << 20, NULL },
};

static void test_bomb(void **state)
{
	const struct bomb_row *row = *state;
	struct gb_buf idat = { 0 }, file = { 0 };
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	uint64_t start;
	int r;

	zeroes(row->unpacked, &idat);
	png_claims(&file, row->width, row->height, idat.data, idat.len);
	start = gb_now_ns();
	r = gb_media_render(file.data, file.len, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX, &result,
		&err);
	start = gb_now_ns() - start;
	gb_buf_done(&idat);
	gb_buf_done(&file);
	gb_media_result_done(&result);
	if (row->says ? r == 0 || !strstr(err.msg, row->says) : r != 0)
		fail_msg("%d '%s'", r, err.msg);
	if (!getenv("GB_UNDER_VALGRIND"))
		assert_true(start < 5 * GB_NS_SEC);
}

/* 10,000 x 10,000 pixels of text that is packed well are allowed, and need little memory. */
static void test_largest(void **state)
{
	struct gb_buf idat = { 0 }, file = { 0 };
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	int r;

	(void)state;
	if (getenv("GB_UNDER_VALGRIND"))
		skip();
	zeroes((size_t)10000 * 30001, &idat);
	png_claims(&file, 10000, 10000, idat.data, idat.len);
	r = gb_media_render(file.data, file.len, GB_MEDIA_HIGH, GB_MEDIA_PIXELS_MAX, &result,
		&err);
	gb_buf_done(&idat);
	gb_buf_done(&file);
	free(gb_take_ptr(result.data));
	if (r < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(result.width, 1600);
	assert_int_equal(result.height, 1600);
}

struct exif_row {
	const char *name;
	const char *bytes;
	size_t len;
	unsigned int is;
};

static const struct exif_row exif_rows[] = {
	{ "exif of nothing", B(""), 1 },
	{ "exif without entries", B("II*\0\10\0\0\0\0\0"), 1 },
	{ "exif that begins nowhere", B("II*\0\xff\xff\xff\xff\1\0"), 1 },
	{ "exif that begins at its end", B("II*\0\12\0\0\0\1\0"), 1 },
	{ "exif that says 65535 entries", B("II*\0\10\0\0\0\xff\xff\0\0"), 1 },
	{ "exif that says 6",
		B("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"), 6 },
	{ "exif that says 6, most significant first",
		B("MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"), 6 },
	{ "exif that says 0", B("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0\0\0\0\0"), 1 },
	{ "exif that says 9", B("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\x9\0\0\0\0\0\0\0"), 1 },
	{ "exif of another type", B("II*\0\10\0\0\0\1\0\x12\1\4\0\1\0\0\0\6\0\0\0\0\0\0\0"), 1 },
	{ "exif of two values", B("II*\0\10\0\0\0\1\0\x12\1\3\0\2\0\0\0\6\0\6\0\0\0\0\0"), 1 },
	{ "exif, a byte short", B("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0"), 1 },
	{ "exif, just long enough", B("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"), 6 },
};

static void test_exif(void **state)
{
	const struct exif_row *row = *state;
	uint8_t *copy = malloc(row->len ? row->len : 1);
	unsigned int is, after;

	memcpy(copy, row->bytes, row->len);
	is = gb_exif_orientation(copy, row->len);
	gb_exif_reset_orientation(copy, row->len);
	after = gb_exif_orientation(copy, row->len);
	free(copy);
	assert_int_equal(is, row->is);
	assert_int_equal(after, 1);
}

static void add_named(struct rows_list *l, const char *suffix, CMUnitTestFunction fn)
{
	static char names[2 * GB_ARRAY_SIZE(kind_rows)][80];
	static size_t used;

	for (size_t i = 0; i < GB_ARRAY_SIZE(kind_rows); i++) {
		char *name = names[used++];

		snprintf(name, sizeof(names[0]), "%s, %s", kind_rows[i].name, suffix);
		rows_add_one(l, name, fn);
		l->tests[l->n - 1].initial_state = (void *)(uintptr_t)&kind_rows[i];
	}
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, kind_rows, test_kind);
	rows_add_one(&l, "bitmaps", test_bitmaps);
	rows_add(&l, turn_rows, test_turn);
	rows_add_one(&l, "turned sizes", test_turn_sizes);
	rows_add(&l, size_rows, test_size);
	rows_add_one(&l, "reducing keeps colours", test_reducing_keeps_colours);
	rows_add_one(&l, "frames smaller than the canvas", test_offset_frames);
	rows_add(&l, profile_rows, test_profile);
	rows_add(&l, claim_rows, test_claim);
	rows_add(&l, bomb_rows, test_bomb);
	rows_add_one(&l, "the largest picture", test_largest);
	rows_add(&l, exif_rows, test_exif);
	if (!getenv("GB_UNDER_VALGRIND")) {
		add_named(&l, "cut off", test_cut_off);
		add_named(&l, "changed", test_changed);
	}
	return rows_run("media-render", &l);
}
