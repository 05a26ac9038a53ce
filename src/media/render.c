#include "media/picture.h"

static const struct {
	gb_picture_decoder *decode;
	gb_picture_encoder *encode;
	enum gb_media_format becomes; /* itself: its bytes can be handed on */
} kinds[] = {
	[GB_MEDIA_PNG] = {gb_png_decode, gb_png_encode, GB_MEDIA_PNG},
	[GB_MEDIA_JPEG] = {gb_jpeg_decode, gb_jpeg_encode, GB_MEDIA_JPEG},
	[GB_MEDIA_GIF] = {gb_gif_decode, gb_png_encode, GB_MEDIA_PNG},
	[GB_MEDIA_WEBP] = {gb_webp_decode, gb_webp_encode, GB_MEDIA_WEBP},
	[GB_MEDIA_BMP] = {gb_bmp_decode, gb_png_encode, GB_MEDIA_PNG},
	[GB_MEDIA_PNM] = {gb_pnm_decode, gb_png_encode, GB_MEDIA_PNG},
};

static int encode(enum gb_media_format from, struct gb_picture *p, struct gb_buf *ret,
	struct gb_err *err)
{
	int r = gb_canvas_orient(
		&p->canvas, gb_exif_orientation(p->exif.data, p->exif.len), err);

	if (r < 0)
		return r;
	gb_exif_reset_orientation(p->exif.data, p->exif.len);
	return kinds[from].encode(p, ret, err);
}

/* Decoded in full even where the bytes are handed on: then they are known to be whole. */
static int render(enum gb_media_format format, const uint8_t *bytes, size_t len,
	struct gb_picture *p, struct gb_buf *out, struct gb_media_result *ret,
	struct gb_err *err)
{
	const struct gb_canvas *c = &p->canvas;
	int r = kinds[format].decode(bytes, len, p, err);

	if (r == 0 && c->rows < c->source_height)
		r = gb_fail(err, GB_E_PARSE, "it ends too early");
	if (r < 0)
		return r;
	ret->unchanged = kinds[format].becomes == format && !p->animated &&
			 c->width == c->source_width && c->height == c->source_height &&
			 gb_exif_orientation(p->exif.data, p->exif.len) == 1;
	ret->format = kinds[format].becomes;
	ret->source_width = c->source_width;
	ret->source_height = c->source_height;
	if (!ret->unchanged) {
		r = encode(format, p, out, err);
	} else {
		gb_buf_add(out, bytes, len);
		r = gb_buf_check(out, "the picture", err);
	}
	ret->width = c->width;
	ret->height = c->height;
	return r;
}

int gb_media_render(const uint8_t *bytes, size_t len, enum gb_media_detail detail,
	uint64_t pixels_max, struct gb_media_result *ret, struct gb_err *err)
{
	enum gb_media_format format = gb_media_sniff(bytes, len);
	struct gb_media_result result = {0};
	gb_auto_done(gb_picture) p;
	gb_auto_done(gb_buf) out;
	int r;

	gb_picture_init(&p, detail, pixels_max);
	gb_buf_init(&out, GB_MEDIA_OUTPUT_MAX);
	if (format == GB_MEDIA_NONE)
		return gb_media_unknown(len, err);
	r = render(format, bytes, len, &p, &out, &result, err);
	if (r < 0)
		return gb_wrap(
			err, r, "cannot decode this %s", gb_media_format_name(format));
	result.len = out.len;
	result.data = gb_take_ptr(out.data);
	*ret = result;
	return 0;
}
