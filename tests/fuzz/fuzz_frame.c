/* The frame reader, fed in pieces. Input: one byte that says how the rest is cut, then the
 * stream. What it takes must be the same as when it is fed at once, and a frame written again
 * must give the same bytes. */
#include "proto/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

struct seen {
	uint64_t frames;
	uint64_t bytes;
	int end;
};

static void check_frame(const struct gb_frame *f)
{
	gb_auto_done(gb_buf) again = { 0 };

	gb_frame_add(&again, f);
	require(again.error == 0 && again.len == GB_FRAME_HEADER + f->length);
	require(!memcmp(again.data, f->payload - GB_FRAME_HEADER, again.len));
	require(gb_frame_type_name(f->type) != NULL);
}

static void drain(struct gb_frame_reader *r, struct seen *s)
{
	struct gb_frame f;
	struct gb_err err;

	while ((s->end = gb_frame_reader_next(r, &f, &err)) == 1) {
		check_frame(&f);
		s->frames++;
		s->bytes += f.length;
	}
}

static struct seen read_all(const uint8_t *data, size_t size, size_t piece)
{
	struct gb_frame_reader r;
	struct seen s = { 0 };

	gb_frame_reader_init(&r);
	while (size && s.end >= 0) {
		size_t room = 0;
		uint8_t *to = gb_frame_reader_room(&r, &room);
		size_t n = GB_MIN(size, GB_MIN(room, piece));

		require(to && n);
		memcpy(to, data, n);
		gb_frame_reader_filled(&r, n);
		data += n;
		size -= n;
		drain(&r, &s);
	}
	gb_frame_reader_done(&r);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole;
	struct seen cut;

	if (size < 1)
		return 0;
	whole = read_all(data + 1, size - 1, SIZE_MAX);
	cut = read_all(data + 1, size - 1, (size_t)data[0] + 1);
	require(whole.frames == cut.frames && whole.bytes == cut.bytes && whole.end == cut.end);
	return 0;
}
