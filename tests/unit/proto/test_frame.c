#include "rows.h"

#include "base/str.h"
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

static void feed(struct gb_frame_reader *r, const uint8_t *data, size_t len)
{
	while (len) {
		size_t room = 0;
		uint8_t *to = gb_frame_reader_room(r, &room);
		size_t n = GB_MIN(len, room);

		assert_non_null(to);
		assert_true(room >= 1);
		memcpy(to, data, n);
		gb_frame_reader_filled(r, n);
		data += n;
		len -= n;
		if (len) {
			struct gb_frame f;

			assert_int_equal(gb_frame_reader_next(r, &f, NULL), 0);
		}
	}
}

static void header_layout(void **state)
{
	static const uint8_t wanted[] = { 0x03, 0x02, 0x01, 0x00, 5, 1, 0x34, 0x12, 0xef, 0xbe,
		0xad, 0xde };
	struct gb_frame f = { .length = 0x010203, .type = GB_FRAME_DATA, .flags = GB_FRAME_EOF,
		.stream = 0x1234, .request = 0xdeadbeef };
	uint8_t out[GB_FRAME_HEADER];

	(void)state;
	assert_int_equal(sizeof(wanted), GB_FRAME_HEADER);
	gb_frame_put_header(out, &f);
	assert_memory_equal(out, wanted, sizeof(wanted));
}

/* three frames, cut at each pair of positions */
static void every_split(void **state)
{
	struct gb_buf b;
	struct gb_frame out[] = {
		{ 3, GB_FRAME_DATA, 0, 1, 7, (const uint8_t *)"abc" },
		{ 0, GB_FRAME_OK, 0, 0, 8, NULL },
		{ 5, GB_FRAME_EXEC, 0, 0, 9, (const uint8_t *)"hello" },
	};

	(void)state;
	gb_buf_init(&b, 0);
	for (size_t i = 0; i < 3; i++)
		gb_frame_add(&b, &out[i]);
	assert_int_equal(b.error, 0);
	assert_int_equal(b.len, 3 * GB_FRAME_HEADER + 8);
	for (size_t first = 0; first <= b.len; first++) {
		for (size_t second = first; second <= b.len; second++) {
			size_t cuts[] = { 0, first, second, b.len };
			struct gb_frame_reader r;
			struct gb_frame f;
			size_t n = 0;

			gb_frame_reader_init(&r);
			for (int i = 0; i < 3; i++) {
				feed(&r, b.data + cuts[i], cuts[i + 1] - cuts[i]);
				while (gb_frame_reader_next(&r, &f, NULL) == 1) {
					assert_true(n < 3);
					assert_int_equal(f.length, out[n].length);
					assert_int_equal(f.type, out[n].type);
					assert_int_equal(f.stream, out[n].stream);
					assert_int_equal(f.request, out[n].request);
					if (f.length)
						assert_memory_equal(
							f.payload, out[n].payload, f.length);
					n++;
				}
			}
			assert_int_equal(n, 3);
			gb_frame_reader_done(&r);
		}
	}
	gb_buf_done(&b);
}

struct bad_row {
	const char *name;
	uint32_t length;
	uint8_t type;
	int answer; /* of next after the header alone */
};

static const struct bad_row bad_rows[] = {
	{ "header: the longest waits for more", GB_FRAME_MAX, GB_FRAME_DATA, 0 },
	{ "header: one byte over", GB_FRAME_MAX + 1, GB_FRAME_DATA, GB_E_PROTOCOL },
	{ "header: largest length", UINT32_MAX, GB_FRAME_DATA, GB_E_PROTOCOL },
	{ "header: type 0", 0, 0, GB_E_PROTOCOL },
	{ "header: the first type", 0, GB_FRAME_HELLO, 1 },
	{ "header: an unknown type", 0, 200, GB_E_PROTOCOL },
	{ "header: type 255", 0, 255, GB_E_PROTOCOL },
};

static void bad_header(void **state)
{
	const struct bad_row *row = *state;
	struct gb_frame f = { .length = row->length, .type = row->type };
	struct gb_frame_reader r;
	struct gb_err err = { 0 };
	uint8_t header[GB_FRAME_HEADER];

	gb_frame_put_header(header, &f);
	gb_frame_reader_init(&r);
	feed(&r, header, sizeof(header));
	assert_int_equal(gb_frame_reader_next(&r, &f, &err), row->answer);
	/* it does not get over it */
	if (row->answer < 0) {
		assert_true(err.msg[0] != 0);
		assert_int_equal(gb_frame_reader_next(&r, &f, &err), row->answer);
	}
	gb_frame_reader_done(&r);
}

static void longest_frame(void **state)
{
	uint8_t *payload = malloc(GB_FRAME_MAX + 1);
	struct gb_frame f = { .length = GB_FRAME_MAX, .type = GB_FRAME_DATA, .payload = payload };
	struct gb_frame_reader r;
	struct gb_buf b;

	(void)state;
	assert_non_null(payload);
	for (size_t i = 0; i <= GB_FRAME_MAX; i++)
		payload[i] = (uint8_t)(i * 7);
	gb_buf_init(&b, 0);
	gb_frame_add(&b, &f);
	gb_frame_add(&b, &f);
	assert_int_equal(b.error, 0);
	gb_frame_reader_init(&r);
	for (int i = 0; i < 2; i++) {
		struct gb_frame got;

		feed(&r, b.data + i * (b.len / 2), b.len / 2);
		assert_int_equal(gb_frame_reader_next(&r, &got, NULL), 1);
		assert_int_equal(got.length, GB_FRAME_MAX);
		assert_memory_equal(got.payload, payload, GB_FRAME_MAX);
		assert_int_equal(gb_frame_reader_next(&r, &got, NULL), 0);
	}
	/* memory is bounded, whatever comes */
	assert_true(r.in.cap <= 2 * (GB_FRAME_HEADER + GB_FRAME_MAX));
	gb_frame_reader_done(&r);
	f.length = GB_FRAME_MAX + 1;
	gb_frame_add(&b, &f);
	assert_int_equal(b.error, GB_E_LIMIT);
	gb_buf_done(&b);
	free(payload);
}

static void many_small_frames_at_once(void **state)
{
	struct gb_frame_reader r;
	struct gb_frame f;
	size_t room = 0;
	uint8_t *to;
	size_t count;

	(void)state;
	gb_frame_reader_init(&r);
	to = gb_frame_reader_room(&r, &room);
	assert_non_null(to);
	count = room / GB_FRAME_HEADER;
	for (size_t i = 0; i < count; i++) {
		struct gb_frame one = { .type = GB_FRAME_OK, .request = (uint32_t)i };

		gb_frame_put_header(to + i * GB_FRAME_HEADER, &one);
	}
	gb_frame_reader_filled(&r, count * GB_FRAME_HEADER);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(gb_frame_reader_next(&r, &f, NULL), 1);
		assert_int_equal(f.request, i);
	}
	assert_int_equal(gb_frame_reader_next(&r, &f, NULL), 0);
	gb_frame_reader_done(&r);
}

static void type_names(void **state)
{
	(void)state;
	assert_string_equal(gb_frame_type_name(GB_FRAME_HELLO), "HELLO");
	assert_string_equal(gb_frame_type_name(GB_FRAME_OWNER), "OWNER");
	assert_null(gb_frame_type_name(0));
	assert_null(gb_frame_type_name(255));
}

static void empty_reader(void **state)
{
	struct gb_frame_reader r;
	struct gb_frame f;

	(void)state;
	gb_frame_reader_init(&r);
	assert_int_equal(gb_frame_reader_next(&r, &f, NULL), 0);
	gb_frame_reader_done(&r);
}

int main(void)
{
	static struct rows_list l;

	rows_add_one(&l, "header layout", header_layout);
	rows_add_one(&l, "three frames in every split", every_split);
	rows_add(&l, bad_rows, bad_header);
	rows_add_one(&l, "the longest frame, twice; and one byte more", longest_frame);
	rows_add_one(&l, "many small frames at once", many_small_frames_at_once);
	rows_add_one(&l, "type names", type_names);
	rows_add_one(&l, "an empty reader", empty_reader);
	return rows_run("frame", &l);
}
