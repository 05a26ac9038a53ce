/* PNG by libpng, which leaves by longjmp: all that is to be released hangs on struct
 * work, and no function between setjmp and longjmp has locals with cleanup. */
#include "media/picture.h"

#include <png.h>
#include <string.h>

#define CHUNK_MAX    8000000u /* bytes of a chunk that is held or unpacked */
#define CHUNKS_MAX   1000u    /* of those kinds that are held */
#define ENCODE_LEVEL 4        /* of zlib: half the time of 6, two percent larger */

struct work {
	png_structp png;
	png_infop info;
	struct gb_bytes in;
	struct gb_buf *out;
	struct gb_picture *picture;
	uint8_t *pixels; /* owned; a row, or all of an interlaced picture */
	uint8_t **rows;  /* owned; of an interlaced picture */
	int code;
	struct gb_err *err;
};

static void on_error(png_structp png, png_const_charp message)
{
	struct work *w = png_get_error_ptr(png);

	if (!w->code)
		w->code = gb_fail(w->err, GB_E_PARSE, "%.200s", message);
	png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

static void on_read(png_structp png, png_bytep to, size_t len)
{
	struct work *w = png_get_io_ptr(png);

	if (len > w->in.left) {
		w->code = gb_fail(w->err, GB_E_PARSE, "it ends too early");
		png_error(png, "");
	}
	memcpy(to, w->in.at, len);
	w->in.at += len;
	w->in.left -= len;
}

static void read_header(struct work *w)
{
	/* text, which can be large when unpacked, is passed over */
	static const uint8_t ignored[] = "tEXt\0zTXt\0iTXt\0sPLT\0hIST";

	png_set_read_fn(w->png, w, on_read);
	png_set_keep_unknown_chunks(w->png, PNG_HANDLE_CHUNK_NEVER, ignored, 5);
	/* sizes are checked by the canvas, before anything is allocated */
	png_set_user_limits(w->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
	png_set_chunk_malloc_max(w->png, CHUNK_MAX);
	png_set_chunk_cache_max(w->png, CHUNKS_MAX);
	png_read_info(w->png, w->info);
	w->code =
		gb_canvas_begin(&w->picture->canvas, png_get_image_width(w->png, w->info),
			png_get_image_height(w->png, w->info), w->err);
	if (w->code < 0)
		png_longjmp(w->png, 1);
	png_set_expand(w->png);
	png_set_scale_16(w->png);
	png_set_gray_to_rgb(w->png);
	png_set_add_alpha(w->png, 255, PNG_FILLER_AFTER);
}

static void no_memory(struct work *w)
{
	w->code = gb_nomem(w->err);
	png_longjmp(w->png, 1);
}

/* An interlaced picture comes in seven passes, so all of it is held. */
static void read_passes(struct work *w, size_t stride)
{
	struct gb_canvas *c = &w->picture->canvas;

	w->pixels = calloc(c->source_height, stride);
	w->rows = calloc(c->source_height, sizeof(*w->rows));
	if (!w->pixels || !w->rows)
		no_memory(w);
	for (uint32_t y = 0; y < c->source_height; y++)
		w->rows[y] = w->pixels + y * stride;
	png_read_image(w->png, w->rows);
	for (uint32_t y = 0; y < c->source_height; y++)
		gb_canvas_row(c, w->rows[y]);
}

static void read_pixels(struct work *w)
{
	struct gb_canvas *c = &w->picture->canvas;
	size_t stride = (size_t)c->source_width * 4;
	int passes = png_set_interlace_handling(w->png);

	png_read_update_info(w->png, w->info);
	if (png_get_rowbytes(w->png, w->info) != stride)
		png_error(w->png, "rows of an unexpected length");
	if (passes > 1) {
		read_passes(w, stride);
	} else {
		w->pixels = calloc(1, stride);
		if (!w->pixels)
			no_memory(w);
		for (uint32_t y = 0; y < c->source_height; y++) {
			png_read_row(w->png, w->pixels, NULL);
			gb_canvas_row(c, w->pixels);
		}
	}
	png_read_end(w->png, w->info);
}

static void read_extras(struct work *w)
{
	png_charp name;
	png_bytep bytes;
	png_uint_32 len;
	int compression;

	if (png_get_iCCP(w->png, w->info, &name, &compression, &bytes, &len))
		gb_picture_set_icc(w->picture, bytes, len);
	if (png_get_eXIf_1(w->png, w->info, &len, &bytes))
		gb_picture_set_exif(w->picture, bytes, len);
}

static void read_all(struct work *w)
{
	if (setjmp(png_jmpbuf(w->png)))
		return;
	read_header(w);
	read_pixels(w);
	read_extras(w);
}

int gb_png_decode(
	const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err)
{
	struct work w = {.in = {bytes, len}, .picture = p, .err = err};

	w.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &w, on_error, on_warning);
	w.info = w.png ? png_create_info_struct(w.png) : NULL;
	if (w.info)
		read_all(&w);
	else
		w.code = gb_nomem(err);
	png_destroy_read_struct(&w.png, &w.info, NULL);
	free(w.pixels);
	free(w.rows);
	return w.code;
}

static void on_write(png_structp png, png_bytep bytes, size_t len)
{
	struct work *w = png_get_io_ptr(png);

	gb_buf_add(w->out, bytes, len);
	if (w->out->error) {
		w->code = gb_buf_check(w->out, "the picture", w->err);
		png_error(png, "");
	}
}

static void on_flush(png_structp png)
{
	(void)png;
}

static void write_extras(struct work *w)
{
	struct gb_picture *p = w->picture;

	if (p->icc.len)
		png_set_iCCP(w->png, w->info, "icc", PNG_COMPRESSION_TYPE_BASE,
			p->icc.data, (png_uint_32)p->icc.len);
	if (p->exif.len)
		png_set_eXIf_1(w->png, w->info, (png_uint_32)p->exif.len, p->exif.data);
}

static void write_all(struct work *w)
{
	struct gb_canvas *c = &w->picture->canvas;

	if (setjmp(png_jmpbuf(w->png)))
		return;
	png_set_write_fn(w->png, w, on_write, on_flush);
	/* a profile that libpng finds fault with is left out, the picture is not lost for
	 * it */
	png_set_benign_errors(w->png, 1);
	png_set_compression_level(w->png, ENCODE_LEVEL);
	png_set_IHDR(w->png, w->info, c->width, c->height, 8,
		c->opaque ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGBA, PNG_INTERLACE_NONE,
		PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	write_extras(w);
	png_write_info(w->png, w->info);
	if (c->opaque)
		png_set_filler(w->png, 0, PNG_FILLER_AFTER);
	for (uint32_t y = 0; y < c->height; y++)
		png_write_row(w->png, c->pixels + (size_t)y * c->width * 4);
	png_write_end(w->png, w->info);
}

int gb_png_encode(const struct gb_picture *p, struct gb_buf *ret, struct gb_err *err)
{
	struct work w = {
		.out = ret, .picture = (struct gb_picture *)(uintptr_t)p, .err = err};

	w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, on_error, on_warning);
	w.info = w.png ? png_create_info_struct(w.png) : NULL;
	if (w.info)
		write_all(&w);
	else
		w.code = gb_nomem(err);
	png_destroy_write_struct(&w.png, &w.info);
	return w.code;
}
