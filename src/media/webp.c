/* WebP by libwebp; its demux and mux libraries read and write what is around the pixels.
 */
#include "media/picture.h"

#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

#define ENCODE_LEVEL 1 /* of 9: lossless, and effort costs seconds */

struct frame {
	const uint8_t *pixels; /* RGBA */
	uint32_t x, y, width, height;
};

/* A frame can be smaller than the canvas; what is around it is transparent. */
static int put_frame(struct gb_canvas *c, const struct frame *f, struct gb_err *err)
{
	uint8_t *row = calloc(c->source_width, 4);

	if (!row)
		return gb_nomem(err);
	for (uint32_t y = 0; y < c->source_height; y++) {
		bool inside = y >= f->y && y - f->y < f->height;

		if (inside)
			memcpy(row + (size_t)f->x * 4,
				f->pixels + (size_t)(y - f->y) * f->width * 4,
				(size_t)f->width * 4);
		else
			memset(row, 0, (size_t)c->source_width * 4);
		gb_canvas_row(c, row);
	}
	free(row);
	return 0;
}

static int decode_frame(struct gb_canvas *c, const WebPIterator *it, struct gb_err *err)
{
	gb_auto_free uint8_t *pixels = NULL;
	struct frame f = {.x = (uint32_t)it->x_offset,
		.y = (uint32_t)it->y_offset,
		.width = (uint32_t)it->width,
		.height = (uint32_t)it->height};
	WebPDecoderConfig config;
	VP8StatusCode status;

	if (f.width > c->source_width || f.x > c->source_width - f.width ||
		f.height > c->source_height || f.y > c->source_height - f.height)
		return gb_fail(err, GB_E_PARSE, "its picture is outside of it");
	pixels = malloc((size_t)f.width * f.height * 4);
	if (!pixels || !WebPInitDecoderConfig(&config))
		return gb_nomem(err);
	config.output.colorspace = MODE_RGBA;
	config.output.is_external_memory = 1;
	config.output.u.RGBA.rgba = pixels;
	config.output.u.RGBA.stride = it->width * 4;
	config.output.u.RGBA.size = (size_t)f.width * f.height * 4;
	status = WebPDecode(it->fragment.bytes, it->fragment.size, &config);
	WebPFreeDecBuffer(&config.output);
	if (status == VP8_STATUS_OUT_OF_MEMORY)
		return gb_nomem(err);
	if (status != VP8_STATUS_OK)
		return gb_fail(err, GB_E_PARSE, "its pixels are broken or end too early");
	f.pixels = pixels;
	return put_frame(c, &f, err);
}

static void read_extras(WebPDemuxer *d, struct gb_picture *p)
{
	WebPChunkIterator chunk;

	if (WebPDemuxGetChunk(d, "ICCP", 1, &chunk))
		gb_picture_set_icc(p, chunk.chunk.bytes, chunk.chunk.size);
	WebPDemuxReleaseChunkIterator(&chunk);
	if (WebPDemuxGetChunk(d, "EXIF", 1, &chunk))
		gb_picture_set_exif(p, chunk.chunk.bytes, chunk.chunk.size);
	WebPDemuxReleaseChunkIterator(&chunk);
}

static int decode(WebPDemuxer *d, struct gb_picture *p, struct gb_err *err)
{
	WebPIterator it;
	int r = gb_canvas_begin(&p->canvas, WebPDemuxGetI(d, WEBP_FF_CANVAS_WIDTH),
		WebPDemuxGetI(d, WEBP_FF_CANVAS_HEIGHT), err);

	if (r < 0)
		return r;
	p->animated = WebPDemuxGetI(d, WEBP_FF_FORMAT_FLAGS) & ANIMATION_FLAG;
	read_extras(d, p);
	if (!WebPDemuxGetFrame(d, 1, &it))
		return gb_fail(err, GB_E_PARSE, "it has no picture");
	r = decode_frame(&p->canvas, &it, err);
	WebPDemuxReleaseIterator(&it);
	return r;
}

int gb_webp_decode(
	const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err)
{
	WebPData data = {bytes, len};
	WebPDemuxer *d = WebPDemux(&data);
	int r;

	if (!d)
		return gb_fail(err, GB_E_PARSE, "it is broken or ends too early");
	r = decode(d, p, err);
	WebPDemuxDelete(d);
	return r;
}

static int on_write(const uint8_t *bytes, size_t len, const WebPPicture *picture)
{
	struct gb_buf *to = picture->custom_ptr;

	gb_buf_add(to, bytes, len);
	return to->error == 0;
}

static int encode_pixels(
	const struct gb_canvas *c, struct gb_buf *ret, struct gb_err *err)
{
	WebPConfig config;
	WebPPicture picture;
	int stride = (int)c->width * 4;
	bool done;

	if (!WebPConfigInit(&config) ||
		!WebPConfigLosslessPreset(&config, ENCODE_LEVEL) ||
		!WebPPictureInit(&picture))
		return gb_fail(err, GB_E_STATE, "libwebp is another version");
	picture.use_argb = 1;
	picture.width = (int)c->width;
	picture.height = (int)c->height;
	picture.writer = on_write;
	picture.custom_ptr = ret;
	done = (c->opaque ? WebPPictureImportRGBX(&picture, c->pixels, stride)
			  : WebPPictureImportRGBA(&picture, c->pixels, stride)) &&
	       WebPEncode(&config, &picture);
	WebPPictureFree(&picture);
	if (done)
		return 0;
	if (ret->error)
		return gb_buf_check(ret, "the picture", err);
	return gb_fail(err, GB_E_NOMEM, "cannot encode it: out of memory");
}

/* Around the pixels goes what else there is. */
static int add_extras(const struct gb_picture *p, struct gb_buf *file, struct gb_err *err)
{
	WebPData data = {file->data, file->len};
	WebPData icc = {p->icc.data, p->icc.len};
	WebPData exif = {p->exif.data, p->exif.len};
	WebPData whole = {NULL, 0};
	WebPMux *mux = WebPMuxCreate(&data, 1);
	bool done = mux != NULL;

	if (done && icc.size)
		done = WebPMuxSetChunk(mux, "ICCP", &icc, 0) == WEBP_MUX_OK;
	if (done && exif.size)
		done = WebPMuxSetChunk(mux, "EXIF", &exif, 0) == WEBP_MUX_OK;
	done = done && WebPMuxAssemble(mux, &whole) == WEBP_MUX_OK;
	WebPMuxDelete(mux);
	if (!done)
		return gb_nomem(err);
	gb_buf_reset(file);
	gb_buf_add(file, whole.bytes, whole.size);
	WebPDataClear(&whole);
	return gb_buf_check(file, "the picture", err);
}

int gb_webp_encode(const struct gb_picture *p, struct gb_buf *ret, struct gb_err *err)
{
	int r = encode_pixels(&p->canvas, ret, err);

	return r < 0 || !(p->icc.len || p->exif.len) ? r : add_extras(p, ret, err);
}
