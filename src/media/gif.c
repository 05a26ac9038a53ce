/* GIF by giflib: the first picture, on the canvas that the file names. */
#include "media/picture.h"

#include <string.h>

#include <gif_lib.h>

#define NOT_TRANSPARENT (-1)

static int on_read(GifFileType *gif, GifByteType *to, int len)
{
	struct gb_bytes *in = gif->UserData;
	size_t n = GB_MIN((size_t)GB_MAX(len, 0), in->left);

	memcpy(to, in->at, n);
	in->at += n;
	in->left -= n;
	return (int)n;
}

static int broken(const GifFileType *gif, struct gb_err *err)
{
	const struct gb_bytes *in = gif->UserData;
	const char *why = GifErrorString(gif->Error);

	if (gif->Error == D_GIF_ERR_NOT_ENOUGH_MEM)
		return gb_nomem(err);
	if (in->left == 0 || !why)
		why = "it ends too early";
	return gb_fail(err, GB_E_PARSE, "%.200s", why);
}

/* A chain of blocks; only the one that names a transparent colour matters here. */
static int read_extension(GifFileType *gif, int *transparent)
{
	GifByteType *block; /* its length, then its bytes */
	GraphicsControlBlock g;
	int kind;

	if (DGifGetExtension(gif, &kind, &block) == GIF_ERROR)
		return GIF_ERROR;
	if (kind == GRAPHICS_EXT_FUNC_CODE && block && block[0] == 4 &&
		DGifExtensionToGCB(block[0], block + 1, &g) == GIF_OK)
		*transparent = g.TransparentColor;
	while (block)
		if (DGifGetExtensionNext(gif, &block) == GIF_ERROR)
			return GIF_ERROR;
	return GIF_OK;
}

/* As far as the description of the first picture. */
static int find_picture(GifFileType *gif, int *transparent, struct gb_err *err)
{
	GifRecordType kind;

	for (;;) {
		if (DGifGetRecordType(gif, &kind) == GIF_ERROR)
			return broken(gif, err);
		if (kind == TERMINATE_RECORD_TYPE)
			return gb_fail(err, GB_E_PARSE, "it has no picture");
		if (kind == EXTENSION_RECORD_TYPE &&
			read_extension(gif, transparent) == GIF_ERROR)
			return broken(gif, err);
		if (kind == IMAGE_DESC_RECORD_TYPE)
			return DGifGetImageDesc(gif) == GIF_ERROR ? broken(gif, err) : 0;
	}
}

struct frame {
	const GifImageDesc *desc;
	const uint8_t *indices;
	uint8_t colours[256][4];
};

static int make_colours(
	const GifFileType *gif, int transparent, struct frame *f, struct gb_err *err)
{
	const ColorMapObject *map =
		f->desc->ColorMap ? f->desc->ColorMap : gif->SColorMap;

	if (!map)
		return gb_fail(err, GB_E_PARSE, "it has no colours");
	/* an index that has no colour is black, as in browsers */
	for (int i = 0; i < 256; i++) {
		if (i < map->ColorCount) {
			f->colours[i][0] = map->Colors[i].Red;
			f->colours[i][1] = map->Colors[i].Green;
			f->colours[i][2] = map->Colors[i].Blue;
		}
		f->colours[i][3] = 255;
	}
	if (transparent >= 0 && transparent < 256)
		memset(f->colours[transparent], 0, 4);
	return 0;
}

static int read_indices(GifFileType *gif, uint8_t *to, struct gb_err *err)
{
	static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
	int passes = gif->Image.Interlace ? 4 : 1;

	for (int pass = 0; pass < passes; pass++)
		for (int y = passes == 1 ? 0 : first[pass]; y < gif->Image.Height;
			y += passes == 1 ? 1 : step[pass])
			if (DGifGetLine(gif, to + (size_t)y * (size_t)gif->Image.Width,
				    gif->Image.Width) == GIF_ERROR)
				return broken(gif, err);
	return 0;
}

static void put_row(const struct frame *f, size_t y, uint8_t *to)
{
	size_t width = (size_t)f->desc->Width;

	for (size_t x = 0; x < width; x++)
		memcpy(to + x * 4, f->colours[f->indices[y * width + x]], 4);
}

static int put_frame(struct gb_canvas *c, const struct frame *f, struct gb_err *err)
{
	gb_auto_free uint8_t *row = calloc(c->source_width, 4);
	int64_t top = f->desc->Top;

	if (!row)
		return gb_nomem(err);
	for (int64_t y = 0; y < c->source_height; y++) {
		memset(row, 0, (size_t)c->source_width * 4);
		if (y >= top && y < top + f->desc->Height)
			put_row(f, (size_t)(y - top), row + (size_t)f->desc->Left * 4);
		gb_canvas_row(c, row);
	}
	return 0;
}

static int decode(GifFileType *gif, struct gb_picture *p, struct gb_err *err)
{
	gb_auto_free uint8_t *indices = NULL;
	struct frame f = {.desc = &gif->Image};
	int transparent = NOT_TRANSPARENT;
	int r = find_picture(gif, &transparent, err);

	if (r < 0)
		return r;
	/* a picture that sticks out makes the canvas larger, as in browsers */
	r = gb_canvas_begin(&p->canvas,
		(uint64_t)GB_MAX(gif->SWidth, f.desc->Left + f.desc->Width),
		(uint64_t)GB_MAX(gif->SHeight, f.desc->Top + f.desc->Height), err);
	if (r == 0)
		r = make_colours(gif, transparent, &f, err);
	if (r < 0)
		return r;
	if (f.desc->Width <= 0 || f.desc->Height <= 0)
		return gb_fail(err, GB_E_PARSE, "its picture has no pixels");
	indices = malloc((size_t)f.desc->Width * (size_t)f.desc->Height);
	if (!indices)
		return gb_nomem(err);
	r = read_indices(gif, indices, err);
	f.indices = indices;
	return r < 0 ? r : put_frame(&p->canvas, &f, err);
}

int gb_gif_decode(
	const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err)
{
	struct gb_bytes in = {bytes, len};
	int code = 0;
	GifFileType *gif = DGifOpen(&in, on_read, &code);
	int r;

	if (!gif && code == D_GIF_ERR_NOT_ENOUGH_MEM)
		return gb_nomem(err);
	if (!gif)
		return gb_fail(err, GB_E_PARSE, "its header is broken or ends too early");
	r = decode(gif, p, err);
	DGifCloseFile(gif, &code);
	return r;
}
