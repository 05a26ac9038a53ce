/* JPEG by libjpeg-turbo, which leaves by longjmp as ours does (see png.c). */
#include "media/picture.h"

#include "base/str.h"

#include <setjmp.h>
#include <string.h>

#include <jpeglib.h>

#define QUALITY	    85
#define SCANS_MAX   500 /* of a progressive picture: each costs time as a whole picture */
#define MARKER_MAX  0xffff /* bytes of a marker that is kept */
#define MARKER_EXIF (JPEG_APP0 + 1)
#define MARKER_ICC  (JPEG_APP0 + 2)

struct work {
	union {
		struct jpeg_decompress_struct in;
		struct jpeg_compress_struct out;
		struct jpeg_common_struct common;
	} j;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	struct jpeg_source_mgr source;
	struct jpeg_destination_mgr dest;
	struct gb_buf *to;
	jmp_buf leave;
	struct gb_picture *picture;
	uint8_t *row; /* owned */
	uint8_t *icc; /* owned */
	int code;
	struct gb_err *err;
};

static struct work *work_of(j_common_ptr j)
{
	return j->client_data;
}

static __attribute__((noreturn)) void fail(struct work *w, int code, const char *message)
{
	if (!w->code)
		w->code = code == GB_E_NOMEM ? gb_nomem(w->err)
					     : gb_fail(w->err, code, "%.200s", message);
	longjmp(w->leave, 1);
}

static void on_error(j_common_ptr j)
{
	char text[JMSG_LENGTH_MAX];

	j->err->format_message(j, text);
	/* jerror.h, which has the codes, uses functions that are banned here */
	fail(work_of(j),
		gb_starts_with(text, "Insufficient memory") ? GB_E_NOMEM : GB_E_PARSE,
		text);
}

static void on_message(j_common_ptr j, int level)
{
	(void)j;
	(void)level;
}

static void on_progress(j_common_ptr j)
{
	if (((j_decompress_ptr)j)->input_scan_number > SCANS_MAX)
		fail(work_of(j), GB_E_LIMIT, "it has too many scans");
}

static void no_op(j_decompress_ptr j)
{
	(void)j;
}

static boolean on_fill(j_decompress_ptr j)
{
	fail(work_of((j_common_ptr)j), GB_E_PARSE, "it ends too early");
}

static void on_skip(j_decompress_ptr j, long count)
{
	if (count <= 0)
		return;
	if ((size_t)count > j->src->bytes_in_buffer)
		on_fill(j);
	j->src->next_input_byte += count;
	j->src->bytes_in_buffer -= (size_t)count;
}

static void set_up_reading(struct work *w, const uint8_t *bytes, size_t len)
{
	w->source.next_input_byte = bytes;
	w->source.bytes_in_buffer = len;
	w->source.init_source = no_op;
	w->source.fill_input_buffer = on_fill;
	w->source.skip_input_data = on_skip;
	w->source.resync_to_restart = jpeg_resync_to_restart;
	w->source.term_source = no_op;
	w->progress.progress_monitor = on_progress;
	w->j.in.src = &w->source;
	w->j.in.progress = &w->progress;
	jpeg_save_markers(&w->j.in, MARKER_EXIF, MARKER_MAX);
	jpeg_save_markers(&w->j.in, MARKER_ICC, MARKER_MAX);
}

static void read_extras(struct work *w)
{
	unsigned int len;

	for (jpeg_saved_marker_ptr m = w->j.in.marker_list; m; m = m->next) {
		if (m->marker == MARKER_EXIF && m->data_length > 6 &&
			memcmp(m->data, "Exif\0", 5) == 0) {
			gb_picture_set_exif(w->picture, m->data, m->data_length);
			break;
		}
	}
	if (jpeg_read_icc_profile(&w->j.in, &w->icc, &len))
		gb_picture_set_icc(w->picture, w->icc, len);
}

/* Adobe's programs store the four inks inverted, and say that they wrote the file. */
static void cmyk_to_rgba(uint8_t *row, size_t width, bool inverted)
{
	for (uint8_t *p = row; p < row + width * 4; p += 4) {
		unsigned int k = inverted ? p[3] : 255u - p[3];

		for (size_t i = 0; i < 3; i++)
			p[i] = (uint8_t)(((inverted ? p[i] : 255u - p[i]) * k + 127) /
					 255);
		p[3] = 255;
	}
}

static void read_rows(struct work *w)
{
	struct gb_canvas *c = &w->picture->canvas;
	bool inks = w->j.in.out_color_space == JCS_CMYK;

	w->row = malloc((size_t)c->source_width * 4);
	if (!w->row)
		fail(w, GB_E_NOMEM, "");
	while (w->j.in.output_scanline < w->j.in.output_height) {
		if (jpeg_read_scanlines(&w->j.in, &w->row, 1) != 1)
			fail(w, GB_E_PARSE, "it ends too early");
		if (inks)
			cmyk_to_rgba(w->row, c->source_width, w->j.in.saw_Adobe_marker);
		gb_canvas_row(c, w->row);
	}
}

static void read_all(struct work *w, const uint8_t *bytes, size_t len)
{
	struct jpeg_decompress_struct *j = &w->j.in;

	if (setjmp(w->leave))
		return;
	jpeg_create_decompress(j);
	set_up_reading(w, bytes, len);
	jpeg_read_header(j, TRUE);
	w->code = gb_canvas_begin(
		&w->picture->canvas, j->image_width, j->image_height, w->err);
	if (w->code < 0)
		return;
	read_extras(w);
	j->out_color_space =
		j->jpeg_color_space == JCS_CMYK || j->jpeg_color_space == JCS_YCCK
			? JCS_CMYK
			: JCS_EXT_RGBA;
	jpeg_start_decompress(j);
	read_rows(w);
	jpeg_finish_decompress(j);
}

static struct work *work_new(struct gb_picture *p, struct gb_err *err)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->j.common.err = jpeg_std_error(&w->errors);
	w->errors.error_exit = on_error;
	w->errors.emit_message = on_message;
	w->j.common.client_data = w;
	w->picture = p;
	w->err = err;
	return w;
}

static int work_free(struct work *w)
{
	int code = w->code;

	jpeg_destroy(&w->j.common);
	free(w->row);
	free(w->icc);
	free(w);
	return code;
}

int gb_jpeg_decode(
	const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err)
{
	struct work *w = work_new(p, err);

	if (!w)
		return gb_nomem(err);
	read_all(w, bytes, len);
	return work_free(w);
}

#define WRITE_STEP ((size_t)65536)

static void more_room(struct work *w)
{
	w->dest.next_output_byte = gb_buf_reserve(w->to, WRITE_STEP);
	w->dest.free_in_buffer = WRITE_STEP;
	if (!w->dest.next_output_byte) {
		w->code = gb_buf_check(w->to, "the picture", w->err);
		longjmp(w->leave, 1);
	}
}

static void on_write_begin(j_compress_ptr j)
{
	more_room(work_of((j_common_ptr)j));
}

static boolean on_write_full(j_compress_ptr j)
{
	struct work *w = work_of((j_common_ptr)j);

	/* free_in_buffer is not kept while the buffer is full: all of it is */
	w->to->len += WRITE_STEP;
	more_room(w);
	return TRUE;
}

static void on_write_end(j_compress_ptr j)
{
	struct work *w = work_of((j_common_ptr)j);

	w->to->len += WRITE_STEP - w->dest.free_in_buffer;
}

static void write_extras(struct work *w)
{
	const struct gb_picture *p = w->picture;

	if (p->exif.len) {
		jpeg_write_m_header(
			&w->j.out, MARKER_EXIF, (unsigned int)(p->exif.len + 6));
		for (size_t i = 0; i < 6; i++)
			jpeg_write_m_byte(&w->j.out, "Exif\0\0"[i]);
		for (size_t i = 0; i < p->exif.len; i++)
			jpeg_write_m_byte(&w->j.out, p->exif.data[i]);
	}
	if (p->icc.len)
		jpeg_write_icc_profile(&w->j.out, p->icc.data, (unsigned int)p->icc.len);
}

static void write_all(struct work *w)
{
	struct jpeg_compress_struct *j = &w->j.out;
	struct gb_canvas *c = &w->picture->canvas;

	if (setjmp(w->leave))
		return;
	jpeg_create_compress(j);
	w->dest.init_destination = on_write_begin;
	w->dest.empty_output_buffer = on_write_full;
	w->dest.term_destination = on_write_end;
	j->dest = &w->dest;
	j->image_width = c->width;
	j->image_height = c->height;
	j->input_components = 4;
	j->in_color_space = JCS_EXT_RGBX;
	jpeg_set_defaults(j);
	jpeg_set_quality(j, QUALITY, TRUE);
	jpeg_start_compress(j, TRUE);
	write_extras(w);
	while (j->next_scanline < j->image_height) {
		JSAMPROW row = c->pixels + (size_t)j->next_scanline * c->width * 4;

		jpeg_write_scanlines(j, &row, 1);
	}
	jpeg_finish_compress(j);
}

int gb_jpeg_encode(const struct gb_picture *p, struct gb_buf *ret, struct gb_err *err)
{
	struct work *w = work_new((struct gb_picture *)(uintptr_t)p, err);

	if (!w)
		return gb_nomem(err);
	w->to = ret;
	write_all(w);
	return work_free(w);
}
