#include "media/picture.h"

#include <string.h>

void gb_picture_init(
	struct gb_picture *p, enum gb_media_detail detail, uint64_t pixels_max)
{
	memset(p, 0, sizeof(*p));
	p->canvas.detail = detail;
	p->canvas.pixels_max = pixels_max;
	gb_buf_init(&p->icc, GB_PICTURE_ICC_MAX);
	gb_buf_init(&p->exif, GB_PICTURE_EXIF_MAX);
}

void gb_picture_done(struct gb_picture *p)
{
	gb_canvas_done(&p->canvas);
	gb_buf_done(&p->icc);
	gb_buf_done(&p->exif);
}

static void set(struct gb_buf *b, size_t max, const uint8_t *bytes, size_t len)
{
	if (len > max)
		return;
	gb_buf_reset(b);
	gb_buf_add(b, bytes, len);
	if (b->error)
		gb_buf_reset(b);
}

void gb_picture_set_icc(struct gb_picture *p, const uint8_t *bytes, size_t len)
{
	/* the header of a profile names the colours that it is for, and "acsp" */
	if (len >= 128 && memcmp(bytes + 16, "RGB ", 4) == 0 &&
		memcmp(bytes + 36, "acsp", 4) == 0)
		set(&p->icc, GB_PICTURE_ICC_MAX, bytes, len);
}

void gb_picture_set_exif(struct gb_picture *p, const uint8_t *bytes, size_t len)
{
	/* in JPEG by its standard, elsewhere by mistake */
	if (len >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) {
		bytes += 6;
		len -= 6;
	}
	if (len >= 8 &&
		(memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0))
		set(&p->exif, GB_PICTURE_EXIF_MAX, bytes, len);
}

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT	3

struct tiff {
	const uint8_t *b;
	size_t len;
	bool big;
};

static uint32_t u16(const struct tiff *t, size_t at)
{
	return (uint32_t)(t->big ? t->b[at] << 8 | t->b[at + 1]
				 : t->b[at + 1] << 8 | t->b[at]);
}

static uint32_t u32(const struct tiff *t, size_t at)
{
	return t->big ? u16(t, at) << 16 | u16(t, at + 2)
		      : u16(t, at + 2) << 16 | u16(t, at);
}

/* Where the value of the orientation is, two bytes; 0 where there is none. */
static size_t find_orientation(const struct tiff *t)
{
	size_t at, count;

	if (t->len < 8 || (t->b[0] != 'I' && t->b[0] != 'M'))
		return 0;
	at = u32(t, 4);
	if (at > t->len - 2)
		return 0;
	count = u16(t, at);
	at += 2;
	for (; count && t->len - at >= 12; count--, at += 12)
		if (u16(t, at) == TAG_ORIENTATION)
			return u16(t, at + 2) == TYPE_SHORT && u32(t, at + 4) == 1
				       ? at + 8
				       : 0;
	return 0;
}

unsigned int gb_exif_orientation(const uint8_t *tiff, size_t len)
{
	struct tiff t = {tiff, len, len && tiff[0] == 'M'};
	size_t at = find_orientation(&t);
	uint32_t value = at ? u16(&t, at) : 1;

	return value >= 1 && value <= 8 ? value : 1;
}

void gb_exif_reset_orientation(uint8_t *tiff, size_t len)
{
	struct tiff t = {tiff, len, len && tiff[0] == 'M'};
	size_t at = find_orientation(&t);

	if (at) {
		tiff[at] = t.big ? 0 : 1;
		tiff[at + 1] = t.big ? 1 : 0;
	}
}
