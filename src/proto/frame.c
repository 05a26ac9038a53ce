#include "proto/frame.h"

#include <stdio.h>
#include <string.h>

static void put_le(uint8_t *out, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_le(const uint8_t *in, int bytes)
{
	uint32_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint32_t)in[i] << (8 * i);
	return v;
}

void gb_frame_put_header(uint8_t *out, const struct gb_frame *f)
{
	put_le(out, f->length, 4);
	out[4] = f->type;
	out[5] = f->flags;
	put_le(out + 6, f->stream, 2);
	put_le(out + 8, f->request, 4);
}

void gb_frame_add(struct gb_buf *b, const struct gb_frame *f)
{
	uint8_t *to;

	if (f->length > GB_FRAME_MAX) {
		b->error = GB_E_LIMIT;
		return;
	}
	to = gb_buf_reserve(b, GB_FRAME_HEADER + f->length);
	if (!to)
		return;
	gb_frame_put_header(to, f);
	if (f->length)
		memcpy(to + GB_FRAME_HEADER, f->payload, f->length);
	b->len += GB_FRAME_HEADER + f->length;
}

const char *gb_frame_type_name(uint8_t type)
{
	switch (type) {
#define X(name, value, text)                                                             \
	case GB_FRAME_##name:                                                            \
		return #name;
		GB_FRAME_TYPES(X)
#undef X
	default:
		return NULL;
	}
}

void gb_frame_reader_init(struct gb_frame_reader *r)
{
	memset(r, 0, sizeof(*r));
	gb_buf_init(&r->in, 2 * (GB_FRAME_HEADER + GB_FRAME_MAX));
}

void gb_frame_reader_done(struct gb_frame_reader *r)
{
	gb_buf_done(&r->in);
	r->taken = 0;
}

#define READ_CHUNK (64u << 10)

uint8_t *gb_frame_reader_room(struct gb_frame_reader *r, size_t *room)
{
	size_t want = READ_CHUNK;
	uint8_t *to;

	gb_buf_consume(&r->in, r->taken);
	r->taken = 0;
	if (r->in.len >= GB_FRAME_HEADER) {
		size_t whole = GB_FRAME_HEADER + get_le(r->in.data, 4);

		if (whole > r->in.len && whole <= GB_FRAME_HEADER + GB_FRAME_MAX)
			want = GB_MAX(want, whole - r->in.len);
	}
	to = gb_buf_reserve(&r->in, want);
	*room = to ? r->in.cap - r->in.len : 0;
	return to;
}

void gb_frame_reader_filled(struct gb_frame_reader *r, size_t n)
{
	r->in.len += n;
}

int gb_frame_reader_next(struct gb_frame_reader *r, struct gb_frame *ret, struct gb_err *err)
{
	size_t have = r->in.len - r->taken;
	const uint8_t *p;

	if (have < GB_FRAME_HEADER)
		return 0;
	p = r->in.data + r->taken;
	ret->length = get_le(p, 4);
	ret->type = p[4];
	ret->flags = p[5];
	ret->stream = (uint16_t)get_le(p + 6, 2);
	ret->request = get_le(p + 8, 4);
	if (ret->length > GB_FRAME_MAX)
		return gb_fail(err, GB_E_PROTOCOL, "frame of %u bytes, %u are allowed",
			ret->length, GB_FRAME_MAX);
	if (!gb_frame_type_name(ret->type))
		return gb_fail(err, GB_E_PROTOCOL, "frame of unknown type %u", ret->type);
	if (have - GB_FRAME_HEADER < ret->length)
		return 0;
	ret->payload = p + GB_FRAME_HEADER;
	r->taken += GB_FRAME_HEADER + ret->length;
	return 1;
}
