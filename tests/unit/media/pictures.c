#include "pictures.h"

#include <assert.h>
#include <setjmp.h>
#include <string.h>

#include <gif_lib.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>
#include <webp/mux.h>
#include <zlib.h>

static const uint8_t quarters[4][4] = { { 200, 0, 0, 255 }, { 0, 200, 0, 255 }, { 0, 0, 200, 255 },
	{ 120, 120, 120, 255 } };

static unsigned int quarter(const struct wish *w, uint32_t x, uint32_t y)
{
	return (unsigned int)(y >= (w->height + 1) / 2) * 2 + (x >= (w->width + 1) / 2);
}

void picture_pixel(const struct wish *w, uint32_t x, uint32_t y, uint8_t rgba[4])
{
	unsigned int q = quarter(w, x, y);

	memcpy(rgba, quarters[q], 4);
	if (w->flags & GREY)
		memset(rgba, (int)(q * 60 + 20), 3);
	if (w->flags & ALPHA && q == 3)
		memset(rgba, 0, 4);
}

static uint8_t *all_pixels(const struct wish *w)
{
	uint8_t *px = malloc((size_t)w->width * w->height * 4);

	assert(px);
	for (uint32_t y = 0; y < w->height; y++)
		for (uint32_t x = 0; x < w->width; x++)
			picture_pixel(w, x, y, px + ((size_t)y * w->width + x) * 4);
	return px;
}

static void put(uint8_t *to, uint32_t v, size_t n, bool big)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)(v >> 8 * (big ? n - 1 - i : i));
}

size_t make_exif(unsigned int orientation, bool big, uint8_t to[64])
{
	memcpy(to, big ? "MM\0*" : "II*\0", 4);
	put(to + 4, 8, 4, big);
	put(to + 8, 2, 2, big);
	put(to + 10, 0x10f, 2, big); /* the camera's maker */
	put(to + 12, 2, 2, big);
	put(to + 14, 4, 4, big);
	memcpy(to + 18, "gb\0", 4);
	put(to + 22, 0x112, 2, big);
	put(to + 24, 3, 2, big);
	put(to + 26, 1, 4, big);
	put(to + 30, orientation, 2, big);
	put(to + 32, 0, 2, big);
	put(to + 34, 0, 4, big);
	return 38;
}

size_t make_icc(const char *colours, uint8_t to[256])
{
	memset(to, 0, 256);
	put(to, 200, 4, true);
	/* libpng wants it not to be packed too well */
	for (uint32_t i = 132; i < 200; i++)
		to[i] = (uint8_t)(i * i * 167 >> 4);
	to[8] = 2; /* version */
	memcpy(to + 12, "mntr", 4);
	memcpy(to + 16, colours, 4);
	memcpy(to + 20, "XYZ ", 4);
	memcpy(to + 36, "acsp", 4);
	/* the white of the standard's D50 */
	put(to + 68, 0xf6d6, 4, true);
	put(to + 72, 0x10000, 4, true);
	put(to + 76, 0xd32d, 4, true);
	return 200;
}

static void png_to_buf(png_structp png, png_bytep bytes, size_t len)
{
	gb_buf_add(png_get_io_ptr(png), bytes, len);
}

static void png_flushed(png_structp png)
{
	(void)png;
}

static void png_rows(png_structp png, const struct wish *w, int type)
{
	size_t bytes = w->flags & SIXTEEN ? 2 : 1;
	int passes = png_set_interlace_handling(png);
	uint8_t *row = calloc(w->width, 8);

	assert(row);
	for (int pass = 0; pass < passes; pass++) {
		for (uint32_t y = 0; y < w->height; y++) {
			size_t n = 0;

			for (uint32_t x = 0; x < w->width; x++) {
				uint8_t px[4];
				size_t first = type & PNG_COLOR_MASK_COLOR ? 0 : 2;
				size_t end = type & PNG_COLOR_MASK_ALPHA ? 4 : 3;

				picture_pixel(w, x, y, px);
				if (type == PNG_COLOR_TYPE_PALETTE)
					row[n++] = (uint8_t)quarter(w, x, y);
				else
					for (size_t k = first; k < end; k++, n += bytes)
						memset(row + n, px[k], bytes);
			}
			png_write_row(png, row);
		}
	}
	free(row);
}

static void png_extras(png_structp png, png_infop info, const struct wish *w)
{
	uint8_t exif[64], icc[256];

	if (w->orientation && !(w->flags & EXIF_LAST))
		png_set_eXIf_1(png, info, (png_uint_32)make_exif(w->orientation, true, exif), exif);
	if (w->flags & ICC)
		png_set_iCCP(png, info, "test", 0, icc,
			(png_uint_32)make_icc(w->flags & GREY ? "GRAY" : "RGB ", icc));
}

void make_png(const struct wish *w, struct gb_buf *ret)
{
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	int type = w->flags & GREY ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB;
	uint8_t exif[64];

	if (setjmp(png_jmpbuf(png)))
		abort();
	if (w->flags & PALETTE)
		type = PNG_COLOR_TYPE_PALETTE;
	else if (w->flags & ALPHA)
		type |= PNG_COLOR_MASK_ALPHA;
	png_set_write_fn(png, ret, png_to_buf, png_flushed);
	png_set_IHDR(png, info, w->width, w->height, w->flags & SIXTEEN ? 16 : 8, type,
		w->flags & INTERLACED ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
	if (w->flags & PALETTE) {
		png_color colours[4];
		uint8_t alpha[4] = { 255, 255, 255, 0 };

		for (int i = 0; i < 4; i++)
			colours[i] = (png_color){ quarters[i][0], quarters[i][1], quarters[i][2] };
		png_set_PLTE(png, info, colours, 4);
		if (w->flags & ALPHA)
			png_set_tRNS(png, info, alpha, 4, NULL);
	}
	png_extras(png, info, w);
	png_write_info(png, info);
	png_rows(png, w, type);
	if (w->flags & EXIF_LAST) {
		size_t n = make_exif(w->orientation, false, exif);

		png_write_chunk(png, (const uint8_t *)"eXIf", exif, n);
	}
	png_write_end(png, NULL);
	png_destroy_write_struct(&png, &info);
}

void png_chunk(struct gb_buf *to, const char *name, const void *bytes, size_t len)
{
	uint8_t number[4];
	uLong crc = crc32(crc32(0, (const uint8_t *)name, 4), bytes, (uInt)len);

	put(number, (uint32_t)len, 4, true);
	gb_buf_add(to, number, 4);
	gb_buf_add(to, name, 4);
	gb_buf_add(to, bytes, len);
	put(number, (uint32_t)crc, 4, true);
	gb_buf_add(to, number, 4);
}

void png_claims(struct gb_buf *to, uint32_t width, uint32_t height, const void *idat, size_t len)
{
	uint8_t ihdr[13] = { [8] = 8, [9] = 2 };

	put(ihdr, width, 4, true);
	put(ihdr + 4, height, 4, true);
	gb_buf_add(to, "\x89PNG\r\n\x1a\n", 8);
	png_chunk(to, "IHDR", ihdr, sizeof(ihdr));
	png_chunk(to, "IDAT", idat, len);
	png_chunk(to, "IEND", "", 0);
}

static void to_inks(uint8_t *px)
{
	/* as Adobe's programs: inverted, so that colours stay as they are */
	px[3] = 255;
}

static void jpeg_extras(struct jpeg_compress_struct *j, const struct wish *w)
{
	uint8_t exif[70] = "Exif\0", icc[256];

	if (w->orientation)
		jpeg_write_marker(j, JPEG_APP0 + 1, exif,
			(unsigned int)make_exif(w->orientation, false, exif + 6) + 6);
	if (w->flags & ICC)
		jpeg_write_icc_profile(j, icc, (unsigned int)make_icc("RGB ", icc));
}

void make_jpeg(const struct wish *w, struct gb_buf *ret)
{
	struct jpeg_compress_struct j;
	struct jpeg_error_mgr errors;
	unsigned char *bytes = NULL;
	unsigned long len = 0;
	uint8_t *px = all_pixels(w);
	bool inks = w->flags & (CMYK | YCCK);

	j.err = jpeg_std_error(&errors);
	jpeg_create_compress(&j);
	jpeg_mem_dest(&j, &bytes, &len);
	j.image_width = w->width;
	j.image_height = w->height;
	j.input_components = 4;
	j.in_color_space = inks ? JCS_CMYK : JCS_EXT_RGBX;
	jpeg_set_defaults(&j);
	if (w->flags & GREY)
		jpeg_set_colorspace(&j, JCS_GRAYSCALE);
	if (inks)
		jpeg_set_colorspace(&j, w->flags & YCCK ? JCS_YCCK : JCS_CMYK);
	jpeg_set_quality(&j, 95, TRUE);
	if (w->flags & INTERLACED)
		jpeg_simple_progression(&j);
	/* an Adobe marker is written for CMYK and YCCK */
	jpeg_start_compress(&j, TRUE);
	jpeg_extras(&j, w);
	while (j.next_scanline < j.image_height) {
		JSAMPROW row = px + (size_t)j.next_scanline * w->width * 4;

		for (size_t x = 0; inks && x < w->width; x++)
			to_inks(row + x * 4);
		jpeg_write_scanlines(&j, &row, 1);
	}
	jpeg_finish_compress(&j);
	jpeg_destroy_compress(&j);
	gb_buf_add(ret, bytes, len);
	free(bytes);
	free(px);
}

static int gif_to_buf(GifFileType *gif, const GifByteType *bytes, int len)
{
	gb_buf_add(gif->UserData, bytes, (size_t)len);
	return len;
}

static void gif_frame(GifFileType *gif, const struct wish *w, const ColorMapObject *map)
{
	static const int first[] = { 0, 4, 2, 1 }, step[] = { 8, 8, 4, 2 };
	int passes = w->flags & INTERLACED ? 4 : 1;
	int at = w->flags & OFFSET ? 5 : 0;
	uint8_t *row = malloc(w->width);

	assert(row);
	EGifPutImageDesc(gif, at, at, (int)w->width, (int)w->height, passes == 4, map);
	for (int pass = 0; pass < passes; pass++) {
		for (uint32_t y = passes == 4 ? (uint32_t)first[pass] : 0; y < w->height;
			y += passes == 4 ? (uint32_t)step[pass] : 1) {
			for (uint32_t x = 0; x < w->width; x++)
				row[x] = (uint8_t)quarter(w, x, y);
			EGifPutLine(gif, row, (int)w->width);
		}
	}
	free(row);
}

void make_gif(const struct wish *w, struct gb_buf *ret)
{
	int code;
	GifFileType *gif = EGifOpen(ret, gif_to_buf, &code);
	GifColorType colours[4];
	ColorMapObject *map;
	int canvas = w->flags & OFFSET ? 10 : 0;
	uint8_t control[4] = { 1, 10, 0, 3 };

	for (int i = 0; i < 4; i++)
		colours[i] = (GifColorType){ quarters[i][0], quarters[i][1], quarters[i][2] };
	map = GifMakeMapObject(4, colours);
	assert(gif && map);
	EGifSetGifVersion(gif, true);
	EGifPutScreenDesc(gif, (int)w->width + canvas, (int)w->height + canvas, 8, 0,
		w->flags & PALETTE ? NULL : map);
	EGifPutComment(gif, "made for a test");
	if (w->flags & ALPHA)
		EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, 4, control);
	gif_frame(gif, w, w->flags & PALETTE ? map : NULL);
	if (w->flags & ANIMATED) {
		struct wish other = { w->width, 1, 0, 0 };

		gif_frame(gif, &other, NULL);
	}
	EGifCloseFile(gif, &code);
	GifFreeMapObject(map);
}

static WebPData webp_still(const struct wish *w)
{
	uint8_t *px = all_pixels(w);
	WebPData d = { NULL, 0 };
	uint8_t *bytes = NULL;

	d.size = w->flags & LOSSY
		? WebPEncodeRGBA(px, (int)w->width, (int)w->height, (int)w->width * 4, 95, &bytes)
		: WebPEncodeLosslessRGBA(
			  px, (int)w->width, (int)w->height, (int)w->width * 4, &bytes);
	d.bytes = bytes;
	assert(d.size);
	free(px);
	return d;
}

static void webp_frames(WebPMux *mux, const struct wish *w, const WebPData *still)
{
	WebPMuxFrameInfo f = { .bitstream = *still, .id = WEBP_CHUNK_ANMF, .duration = 100 };
	WebPMuxAnimParams params = { 0, 0 };

	if (w->flags & OFFSET) {
		f.x_offset = f.y_offset = 4;
		WebPMuxSetCanvasSize(mux, (int)w->width + 10, (int)w->height + 10);
	}
	WebPMuxPushFrame(mux, &f, 1);
	WebPMuxPushFrame(mux, &f, 1);
	WebPMuxSetAnimationParams(mux, &params);
}

void make_webp(const struct wish *w, struct gb_buf *ret)
{
	WebPData still = webp_still(w), whole = { NULL, 0 };
	WebPMux *mux = WebPMuxNew();
	uint8_t exif[64], icc[256];
	WebPData chunk;

	if (w->flags & ANIMATED)
		webp_frames(mux, w, &still);
	else
		WebPMuxSetImage(mux, &still, 1);
	if (w->orientation) {
		chunk = (WebPData){ exif, make_exif(w->orientation, true, exif) };
		WebPMuxSetChunk(mux, "EXIF", &chunk, 1);
	}
	if (w->flags & ICC) {
		chunk = (WebPData){ icc, make_icc("RGB ", icc) };
		WebPMuxSetChunk(mux, "ICCP", &chunk, 1);
	}
	assert(WebPMuxAssemble(mux, &whole) == WEBP_MUX_OK);
	gb_buf_add(ret, whole.bytes, whole.size);
	WebPDataClear(&whole);
	WebPFree((void *)(uintptr_t)still.bytes);
	WebPMuxDelete(mux);
}

struct bmp_shape {
	uint32_t header, bits, compression, colours, entry;
};

static struct bmp_shape bmp_shape(const struct wish *w)
{
	struct bmp_shape s = { w->flags & OS2 ? 12 : 40, 24, 0, 0, w->flags & OS2 ? 3 : 4 };

	if (w->flags & (PALETTE | RLE)) {
		s.bits = w->flags & BITS4 ? 4 : 8;
		s.colours = s.header == 12 ? 1u << s.bits : 4;
		s.compression = w->flags & RLE ? (s.bits == 8 ? 1 : 2) : 0;
	} else if (w->flags & MASKS) {
		s.bits = 16;
		s.compression = 3;
		s.header = w->flags & ALPHA ? 56 : 40;
	} else if (w->flags & BITS32) {
		s.bits = 32;
		s.header = w->flags & ALPHA ? 124 : 40;
		s.compression = w->flags & ALPHA ? 3 : 0;
	}
	return s;
}

static void bmp_rle(const struct wish *w, const struct bmp_shape *s, uint32_t y, struct gb_buf *to)
{
	uint32_t half = (w->width + 1) / 2;

	for (uint32_t x = 0; x < w->width;) {
		uint32_t end = x < half ? half : w->width;
		uint32_t n = GB_MIN(end - x, 255u - 255u % 2);
		uint8_t q = (uint8_t)quarter(w, x, y);

		gb_buf_add_byte(to, (uint8_t)n);
		gb_buf_add_byte(to, (uint8_t)(s->bits == 8 ? q : q << 4 | q));
		x += n;
	}
	gb_buf_add(to, "\0\0", 2);
}

static void bmp_row(const struct wish *w, const struct bmp_shape *s, uint32_t y, struct gb_buf *to)
{
	size_t stride = ((size_t)w->width * s->bits + 31) / 32 * 4;
	uint8_t *row = calloc(1, stride);

	assert(row);
	for (uint32_t x = 0; x < w->width; x++) {
		uint8_t px[4];
		unsigned int q = quarter(w, x, y);

		picture_pixel(w, x, y, px);
		if (s->bits == 4)
			row[x / 2] |= (uint8_t)(x % 2 ? q : q << 4);
		else if (s->bits == 8)
			row[x] = (uint8_t)q;
		else if (s->bits == 16)
			put(row + x * 2, (uint32_t)(px[0] >> 4 | px[1] >> 4 << 4 | px[2] >> 4 << 8 |
				px[3] >> 4 << 12), 2, false);
		else
			for (size_t k = 0; k < s->bits / 8; k++)
				row[x * s->bits / 8 + k] = k < 3 ? px[2 - k] : px[3];
	}
	gb_buf_add(to, row, stride);
	free(row);
}

static void bmp_header(const struct wish *w, const struct bmp_shape *s, struct gb_buf *to)
{
	uint8_t h[14 + 124] = "BM";
	uint32_t masks = s->header == 40 && s->compression == 3 ? 12 : 0;
	static const uint32_t mask16[] = { 0xf, 0xf0, 0xf00, 0xf000 };
	static const uint32_t mask32[] = { 0xff0000, 0xff00, 0xff, 0xff000000 };

	put(h + 10, 14 + s->header + masks + s->colours * s->entry, 4, false);
	put(h + 14, s->header, 4, false);
	if (s->header == 12) {
		put(h + 18, w->width, 2, false);
		put(h + 20, w->height, 2, false);
		put(h + 22, 1, 2, false);
		put(h + 24, s->bits, 2, false);
	} else {
		put(h + 18, w->width, 4, false);
		put(h + 22, w->flags & TOP_DOWN ? 0u - w->height : w->height, 4, false);
		put(h + 26, 1, 2, false);
		put(h + 28, s->bits, 2, false);
		put(h + 30, s->compression, 4, false);
		put(h + 46, s->colours, 4, false);
		for (size_t i = 0; s->compression == 3 && i < (w->flags & ALPHA ? 4 : 3); i++)
			put(h + 54 + 4 * i, (s->bits == 16 ? mask16 : mask32)[i], 4, false);
	}
	gb_buf_add(to, h, 14 + s->header + masks);
	for (uint32_t i = 0; i < s->colours; i++) {
		const uint8_t *q = quarters[i % 4];

		gb_buf_add(to, (uint8_t[]){ q[2], q[1], q[0], 0 }, s->entry);
	}
}

void make_bmp(const struct wish *w, struct gb_buf *ret)
{
	struct bmp_shape s = bmp_shape(w);

	bmp_header(w, &s, ret);
	for (uint32_t i = 0; i < w->height; i++) {
		uint32_t y = w->flags & TOP_DOWN ? i : w->height - 1 - i;

		if (w->flags & RLE)
			bmp_rle(w, &s, y, ret);
		else
			bmp_row(w, &s, y, ret);
	}
	if (w->flags & RLE)
		gb_buf_add(ret, "\0\1", 2);
}

static void pnm_header(const struct wish *w, int kind, unsigned int most, struct gb_buf *to)
{
	if (w->flags & PAM) {
		gb_buf_printf(to, "P7\nWIDTH %u\nHEIGHT %u\n# a comment\nDEPTH %u\nMAXVAL %u\n"
				  "TUPLTYPE SOMETHING\nENDHDR\n",
			w->width, w->height, w->flags & ALPHA ? 4u : 3u, most);
		return;
	}
	gb_buf_printf(to, "P%d\n# a comment\n%u %u\n", kind, w->width, w->height);
	if (kind != 1 && kind != 4)
		gb_buf_printf(to, "%u\n", most);
}

static void pnm_sample(const struct wish *w, uint8_t v, struct gb_buf *to)
{
	if (w->flags & TEXT)
		gb_buf_printf(to, "%u\n", w->flags & SIXTEEN ? v * 257u : v);
	else
		gb_buf_add(to, (uint8_t[]){ v, v }, w->flags & SIXTEEN ? 2 : 1);
}

/* PALETTE: a bitmap, whose first and last quarters are black. */
static void pnm_bits(const struct wish *w, uint32_t y, struct gb_buf *to)
{
	uint8_t byte = 0;

	for (uint32_t x = 0; x < w->width; x++) {
		unsigned int q = quarter(w, x, y);
		bool black = q == 0 || q == 3;

		if (w->flags & TEXT) {
			gb_buf_add_byte(to, black ? '1' : '0');
			continue;
		}
		byte |= (uint8_t)(black << (7 - x % 8));
		if (x % 8 == 7 || x == w->width - 1) {
			gb_buf_add_byte(to, byte);
			byte = 0;
		}
	}
}

void make_pnm(const struct wish *w, struct gb_buf *ret)
{
	int kind = (w->flags & PALETTE ? 1 : w->flags & GREY ? 2 : 3) + (w->flags & TEXT ? 0 : 3);

	pnm_header(w, kind, w->flags & SIXTEEN ? 65535 : 255, ret);
	for (uint32_t y = 0; y < w->height; y++) {
		if (w->flags & PALETTE) {
			pnm_bits(w, y, ret);
			continue;
		}
		for (uint32_t x = 0; x < w->width; x++) {
			uint8_t px[4];
			size_t n = w->flags & PAM && w->flags & ALPHA ? 4 : 3;

			picture_pixel(w, x, y, px);
			for (size_t k = w->flags & GREY ? 2 : 0; k < n; k++)
				pnm_sample(w, px[k], ret);
		}
	}
}
