/* BMP, read here: Debian's libraries that read it bring a hundred other formats along.
 *
 *   0   "BM", size, reserved, where the pixels begin (u32 at 10)
 *   14  a header that begins with its size, which tells its version:
 *       12 (OS/2): u16 width, height, planes, bits; colours of 3 bytes follow
 *       40 and more: i32 width, i32 height (negative: first row on top), u16 planes,
 * bits, u32 compression, ..., u32 number of colours (at 46); masks, colours of 4 bytes
 * follow
 *
 * Rows are padded to 4 bytes, the lowest first. Every offset is checked against the
 * length where it is used. */
#include "media/picture.h"

#include <string.h>

#define DIB       14 /* where the header begins */
#define MASKS     54 /* red, green, blue, alpha, behind the oldest fields */
#define ENTRY_OS2 3
#define ENTRY	  4

enum compression { RGB = 0, RLE8 = 1, RLE4 = 2, BITFIELDS = 3, ALPHABITFIELDS = 6 };

struct bmp {
	const uint8_t *b;
	size_t len;
	uint32_t header; /* its size */
	uint32_t width, height;
	bool top_down;
	uint32_t bits;
	uint32_t compression;
	size_t pixels; /* offset */
	uint8_t colours[256][4];
	uint32_t masks[4];
};

static int too_short(struct gb_err *err)
{
	return gb_fail(err, GB_E_PARSE, "it ends too early");
}

static int read_masks(struct bmp *m, struct gb_err *err)
{
	static const uint32_t of_16[] = {0x7c00, 0x3e0, 0x1f, 0};
	static const uint32_t of_32[] = {0xff0000, 0xff00, 0xff, 0};
	size_t count = m->header >= 56 || m->compression == ALPHABITFIELDS ? 4 : 3;

	if (m->compression == RGB) {
		memcpy(m->masks, m->bits == 16 ? of_16 : of_32, sizeof(m->masks));
		return 0;
	}
	if (m->len < MASKS + 4 * count)
		return too_short(err);
	for (size_t i = 0; i < count; i++)
		m->masks[i] = gb_le32(m->b + MASKS + 4 * i);
	return 0;
}

static void read_colours(struct bmp *m)
{
	size_t entry = m->header == 12 ? ENTRY_OS2 : ENTRY;
	size_t at = DIB + m->header;
	size_t count = m->header >= 40 ? gb_le32(m->b + 46) : 0;

	if (count == 0 || count > (1u << m->bits))
		count = 1u << m->bits;
	/* what is not there stays black */
	for (size_t i = 0; i < 256; i++) {
		m->colours[i][3] = 255;
		if (i >= count || at + entry > GB_MIN(m->pixels, m->len))
			continue;
		for (size_t k = 0; k < 3; k++)
			m->colours[i][k] = m->b[at + 2 - k];
		at += entry;
	}
}

static bool known_encoding(const struct bmp *m)
{
	switch (m->compression) {
	case RGB:
		return m->bits == 1 || m->bits == 2 || m->bits == 4 || m->bits == 8 ||
		       m->bits == 16 || m->bits == 24 || m->bits == 32;
	case RLE8:
		return m->bits == 8 && !m->top_down;
	case RLE4:
		return m->bits == 4 && !m->top_down;
	case BITFIELDS:
	case ALPHABITFIELDS:
		return m->bits == 16 || m->bits == 32;
	}
	return false;
}

static void read_sizes(struct bmp *m)
{
	const uint8_t *b = m->b;

	if (m->header == 12) {
		m->width = gb_le16(b + 18);
		m->height = gb_le16(b + 20);
		m->bits = gb_le16(b + 24);
		return;
	}
	m->width = gb_le32(b + 18);
	m->height = gb_le32(b + 22);
	m->top_down = m->height >> 31;
	if (m->top_down)
		m->height = 0u - m->height;
	m->bits = gb_le16(b + 28);
	m->compression = gb_le32(b + 30);
}

static int read_header(struct bmp *m, struct gb_err *err)
{
	if (m->len < DIB + 12)
		return too_short(err);
	m->pixels = gb_le32(m->b + 10);
	m->header = gb_le32(m->b + DIB);
	if (m->header != 12 && (m->header < 40 || m->header > 124))
		return gb_fail(err, GB_E_PARSE, "its header is of no known version");
	if (m->len < DIB + m->header)
		return too_short(err);
	read_sizes(m);
	if (!known_encoding(m))
		return gb_fail(err, GB_E_PARSE,
			"%u bits with compression %u are not known", m->bits,
			m->compression);
	if (m->bits <= 8)
		read_colours(m);
	else
		return read_masks(m, err);
	return 0;
}

static uint8_t sample(uint32_t pixel, uint32_t mask)
{
	uint32_t shift = (uint32_t)__builtin_ctz(mask);
	uint64_t most = mask >> shift;

	return (uint8_t)(((pixel & mask) >> shift) * UINT64_C(255) / most);
}

static void masked_row(const struct bmp *m, const uint8_t *in, uint8_t *out)
{
	for (size_t x = 0; x < m->width; x++) {
		uint32_t pixel =
			m->bits == 16 ? gb_le16(in + x * 2) : gb_le32(in + x * 4);

		for (size_t k = 0; k < 4; k++)
			out[x * 4 + k] = m->masks[k] ? sample(pixel, m->masks[k])
						     : (k == 3 ? 255 : 0);
	}
}

static void indexed_row(const struct bmp *m, const uint8_t *in, uint8_t *out)
{
	uint32_t mask = (1u << m->bits) - 1;

	for (size_t x = 0; x < m->width; x++) {
		size_t bit = x * m->bits;
		uint32_t shift = 8 - m->bits - (uint32_t)(bit % 8);

		memcpy(out + x * 4, m->colours[in[bit / 8] >> shift & mask], 4);
	}
}

static void plain_row(const struct bmp *m, const uint8_t *in, uint8_t *out)
{
	for (size_t x = 0; x < m->width; x++) {
		for (size_t k = 0; k < 3; k++)
			out[x * 4 + k] = in[x * 3 + 2 - k];
		out[x * 4 + 3] = 255;
	}
}

static int read_rows(
	const struct bmp *m, struct gb_canvas *c, uint8_t *row, struct gb_err *err)
{
	size_t used = ((size_t)m->width * m->bits + 7) / 8;
	size_t stride = (used + 3) / 4 * 4;

	/* the padding of the last row may be missing */
	if (m->pixels > m->len || m->len - m->pixels < stride * (m->height - 1) + used)
		return too_short(err);
	for (size_t y = 0; y < m->height; y++) {
		size_t at = m->pixels + stride * (m->top_down ? y : m->height - 1 - y);

		if (m->bits <= 8)
			indexed_row(m, m->b + at, row);
		else if (m->bits == 24)
			plain_row(m, m->b + at, row);
		else
			masked_row(m, m->b + at, row);
		gb_canvas_row(c, row);
	}
	return 0;
}

/* Run lengths: pairs (count, index); a count of 0 is an escape: end of line, end of
 * picture, move, or so many indices as they are, padded to two bytes. With 4 bits an
 * index byte holds two, which take turns. */
struct rle {
	const struct bmp *m;
	struct gb_bytes in;
	uint8_t *indices; /* width * height, lowest row first */
	uint32_t x, y;
};

static void put(struct rle *r, uint8_t index)
{
	if (r->x < r->m->width && r->y < r->m->height)
		r->indices[(size_t)r->y * r->m->width + r->x++] = index;
}

static void put_run(struct rle *r, uint32_t count, const uint8_t *from, size_t step)
{
	for (uint32_t i = 0; i < count; i++) {
		if (r->m->bits == 8)
			put(r, from[i * step]);
		else
			put(r, i % 2 ? from[i / 2 * step] & 15 : from[i / 2 * step] >> 4);
	}
}

static bool take(struct rle *r, size_t n, const uint8_t **ret)
{
	if (r->in.left < n)
		return false;
	*ret = r->in.at;
	r->in.at += n;
	r->in.left -= n;
	return true;
}

enum { RLE_GO_ON, RLE_DONE, RLE_SHORT };

static int escape(struct rle *r, uint32_t kind)
{
	const uint8_t *b;
	size_t bytes = (kind * (size_t)r->m->bits + 7) / 8;

	if (kind == 1)
		return RLE_DONE;
	if (kind == 0) {
		r->x = 0;
		r->y++;
	} else if (kind == 2) {
		if (!take(r, 2, &b))
			return RLE_SHORT;
		r->x = GB_MIN(r->x + b[0], r->m->width);
		r->y += b[1];
	} else {
		if (!take(r, (bytes + 1) / 2 * 2, &b))
			return RLE_SHORT;
		put_run(r, kind, b, 1);
	}
	return RLE_GO_ON;
}

static int unpack(struct rle *r)
{
	const uint8_t *b;
	int state = RLE_GO_ON;

	while (state == RLE_GO_ON && r->y < r->m->height) {
		if (!take(r, 2, &b))
			return RLE_SHORT;
		if (b[0] == 0)
			state = escape(r, b[1]);
		else
			put_run(r, b[0], b + 1, 0);
	}
	return state == RLE_SHORT ? RLE_SHORT : RLE_DONE;
}

static int read_rle(
	const struct bmp *m, struct gb_canvas *c, uint8_t *row, struct gb_err *err)
{
	gb_auto_free uint8_t *indices = calloc(m->width, m->height);
	struct rle r = {.m = m, .indices = indices};

	if (!indices)
		return gb_nomem(err);
	if (m->pixels > m->len)
		return too_short(err);
	r.in = (struct gb_bytes){m->b + m->pixels, m->len - m->pixels};
	if (unpack(&r) == RLE_SHORT)
		return too_short(err);
	for (size_t y = 0; y < m->height; y++) {
		const uint8_t *in = indices + (m->height - 1 - y) * m->width;

		for (size_t x = 0; x < m->width; x++)
			memcpy(row + x * 4, m->colours[in[x]], 4);
		gb_canvas_row(c, row);
	}
	return 0;
}

int gb_bmp_decode(
	const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err)
{
	gb_auto_free uint8_t *row = NULL;
	struct bmp m = {.b = bytes, .len = len};
	int r = read_header(&m, err);

	if (r == 0)
		r = gb_canvas_begin(&p->canvas, m.width, m.height, err);
	if (r < 0)
		return r;
	row = malloc((size_t)m.width * 4);
	if (!row)
		return gb_nomem(err);
	return m.compression == RLE8 || m.compression == RLE4
		       ? read_rle(&m, &p->canvas, row, err)
		       : read_rows(&m, &p->canvas, row, err);
}
