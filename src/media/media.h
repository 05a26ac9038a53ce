/* Pictures that a model wants to see (view_image), from bytes that a guest sent.
 *
 * The bytes are hostile, and decoders of pictures have had holes. So this process only looks
 * at the first few of them (gb_media_sniff); everything else happens in glovebox-media, which
 * decodes one picture, answers and ends. It can open, run and reach nothing (sandbox.h), has
 * limits for memory and processor time, and is killed at the deadline. Its answer is believed
 * as little as the picture: kind, sizes and lengths are checked again.
 *
 * What comes out: a PNG, JPEG or WebP that is upright, still, and within the detail's size is
 * handed on byte for byte, once all of it could be decoded. Everything else is encoded anew:
 * JPEG as JPEG (quality 85), WebP as lossless WebP, the rest as PNG; reduced with a triangle
 * filter where it is too large; EXIF data (with the orientation taken out) and RGB profiles are
 * carried over. Of an animation the first picture is taken. */
#ifndef GB_MEDIA_MEDIA_H
#define GB_MEDIA_MEDIA_H

#include "base/err.h"
#include "base/mem.h"

#define GB_MEDIA_BYTES_MAX  ((size_t)25164258)    /* of a picture's file */
#define GB_MEDIA_SIDE_MAX   UINT32_C(65535)       /* pixels of a picture's longer side */
#define GB_MEDIA_PIXELS_MAX UINT64_C(100000000)   /* pixels of a picture */
#define GB_MEDIA_OUTPUT_MAX ((size_t)48 << 20)    /* of what is handed to the model */
#define GB_MEDIA_DEADLINE_MS UINT64_C(30000)      /* for callers with no deadline of their own */

enum gb_media_format {
	GB_MEDIA_NONE, /* none of these */
	GB_MEDIA_PNG,
	GB_MEDIA_JPEG,
	GB_MEDIA_GIF,
	GB_MEDIA_WEBP,
	GB_MEDIA_BMP,
	GB_MEDIA_PNM,
};

/* By content; a file's name says nothing. Pure; looks at 32 bytes at most. */
enum gb_media_format gb_media_sniff(const void *bytes, size_t len);
const char *gb_media_format_name(enum gb_media_format f); /* "PNG"; never NULL */
const char *gb_media_mime(enum gb_media_format f);        /* "image/png"; never NULL */

/* The failures that need no decoder: no known kind; more than GB_MEDIA_BYTES_MAX. */
int gb_media_unknown(size_t len, struct gb_err *err);
int gb_media_too_long(struct gb_err *err);

enum gb_media_detail {
	GB_MEDIA_HIGH,     /* longer side 2048 and 2,500 patches at most */
	GB_MEDIA_ORIGINAL, /* 6000 and 10,000 */
};

/* "high" or "original"; NULL is high. GB_E_INVALID. */
int gb_media_detail_parse(const char *word, enum gb_media_detail *ret, struct gb_err *err);
/* The size in which a picture of width x height (not 0) is shown; never larger. First the
 * longer side is brought to its limit (rounded), then the area, so that whole patches of
 * 32 x 32 fit (rounded down). */
void gb_media_fit(uint32_t width, uint32_t height, enum gb_media_detail detail,
	uint32_t *ret_width, uint32_t *ret_height);

struct gb_media_result {
	uint8_t *data; /* owned */
	size_t len;
	enum gb_media_format format; /* PNG, JPEG or WebP */
	uint32_t width, height;
	uint32_t source_width, source_height; /* as stored, before orientation and reduction */
	bool unchanged;                       /* the very bytes that came */
};
void gb_media_result_done(struct gb_media_result *r);

/* Blocks until the answer is there or the deadline (CLOCK_MONOTONIC ns) has passed; any thread.
 * GB_E_UNSUPPORTED: not a picture that is known. GB_E_PARSE: broken or cut off. GB_E_LIMIT: too
 * many bytes or pixels, or more memory or time needed than is given. GB_E_TIMEOUT.
 * On success the caller owns *ret; on failure it is untouched. */
int gb_media_view(const void *bytes, size_t len, enum gb_media_detail detail,
	uint64_t deadline_ns, struct gb_media_result *ret, struct gb_err *err);
/* The same with what can be read from fd until its end: borrowed, blocking; a pipe that another
 * thread fills, or a memory file. */
int gb_media_view_fd(int fd, enum gb_media_detail detail, uint64_t deadline_ns,
	struct gb_media_result *ret, struct gb_err *err);

#endif
