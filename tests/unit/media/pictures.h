/* Pictures made for tests: four quarters (red, green / blue, grey), as a file of each kind. */
#ifndef GB_TESTS_PICTURES_H
#define GB_TESTS_PICTURES_H

#include "base/buf.h"

/* What a maker can be asked for; what a kind does not know it ignores. */
enum {
	GREY = 1 << 0,
	PALETTE = 1 << 1,
	ALPHA = 1 << 2,     /* the last quarter is transparent */
	SIXTEEN = 1 << 3,   /* bits a sample */
	INTERLACED = 1 << 4, /* or progressive */
	CMYK = 1 << 5,
	YCCK = 1 << 6,
	ANIMATED = 1 << 7,
	LOSSY = 1 << 8,
	ICC = 1 << 9,
	TEXT = 1 << 10,    /* netpbm's text formats, a comment included */
	RLE = 1 << 11,
	TOP_DOWN = 1 << 12,
	OS2 = 1 << 13,
	MASKS = 1 << 14,   /* a BMP of 16 bits with masks */
	BITS32 = 1 << 15,
	BITS4 = 1 << 16,
	PAM = 1 << 17,
	OFFSET = 1 << 18,  /* a frame smaller than its canvas */
	EXIF_LAST = 1 << 19, /* behind the pixels */
};

struct wish {
	uint32_t width, height;
	unsigned int flags;
	unsigned int orientation; /* 0: no EXIF data */
};

typedef void picture_maker(const struct wish *w, struct gb_buf *ret);
picture_maker make_png, make_jpeg, make_gif, make_webp, make_bmp, make_pnm;

/* The colour of a place of a picture that is width x height. */
void picture_pixel(const struct wish *w, uint32_t x, uint32_t y, uint8_t rgba[4]);
/* EXIF data with the orientation and one more entry, of 38 bytes; big: most significant first. */
size_t make_exif(unsigned int orientation, bool big, uint8_t to[64]);
/* A profile that is one by its header, for colours such as "RGB ". */
size_t make_icc(const char *colours, uint8_t to[256]);
/* A PNG's chunk; its length, name and checksum around the bytes. */
void png_chunk(struct gb_buf *to, const char *name, const void *bytes, size_t len);
/* A PNG of that claimed size and colour type, whose pixels are the given compressed bytes. */
void png_claims(struct gb_buf *to, uint32_t width, uint32_t height, const void *idat, size_t len);

#endif
