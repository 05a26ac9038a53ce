/* A picture between its decoder and its encoder. One file a format; each names its library. */
#ifndef GB_MEDIA_PICTURE_H
#define GB_MEDIA_PICTURE_H

#include "base/buf.h"
#include "media/canvas.h"

#define GB_PICTURE_ICC_MAX  ((size_t)4 << 20)  /* of a colour profile; a longer one is left out */
#define GB_PICTURE_EXIF_MAX ((size_t)65527)    /* of EXIF data; a JPEG can hold no more */

struct gb_picture {
	struct gb_canvas canvas;
	struct gb_buf icc;  /* a profile for RGB, or empty */
	struct gb_buf exif; /* a TIFF structure, or empty */
	bool animated;
};

void gb_picture_init(
	struct gb_picture *p, enum gb_media_detail detail, uint64_t pixels_max);
void gb_picture_done(struct gb_picture *p);
/* Kept when it is sound, small enough, and (a profile) for RGB; silently left out otherwise. */
void gb_picture_set_icc(struct gb_picture *p, const uint8_t *bytes, size_t len);
void gb_picture_set_exif(struct gb_picture *p, const uint8_t *bytes, size_t len);

/* The orientation (1 to 8) that a TIFF structure tells; 1 where it does not. Pure. */
unsigned int gb_exif_orientation(const uint8_t *tiff, size_t len);
/* Make it 1 where it is told. */
void gb_exif_reset_orientation(uint8_t *tiff, size_t len);

/* All of the picture onto the canvas: GB_E_PARSE when it is broken or cut off, GB_E_LIMIT,
 * GB_E_NOMEM. The message is without the format's name. */
typedef int gb_picture_decoder(
	const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err);
gb_picture_decoder gb_png_decode, gb_jpeg_decode, gb_gif_decode, gb_webp_decode, gb_bmp_decode,
	gb_pnm_decode;

/* Canvas, profile and EXIF data as a file. */
typedef int gb_picture_encoder(
	const struct gb_picture *p, struct gb_buf *ret, struct gb_err *err);
gb_picture_encoder gb_png_encode, gb_jpeg_encode, gb_webp_encode;

/* Bytes of a file whose reader counts what is left. */
struct gb_bytes {
	const uint8_t *at;
	size_t left;
};
static inline uint32_t gb_le16(const uint8_t *b)
{
	return (uint32_t)(b[0] | b[1] << 8);
}
static inline uint32_t gb_le32(const uint8_t *b)
{
	return gb_le16(b) | gb_le16(b + 2) << 16;
}

/* The whole: what view_image shows. In this process, so only where the bytes are trusted or
 * the process is jailed. */
int gb_media_render(const uint8_t *bytes, size_t len, enum gb_media_detail detail,
	uint64_t pixels_max, struct gb_media_result *ret, struct gb_err *err);

#endif
