#include "media/canvas.h"

#include <math.h>
#include <string.h>

struct gb_taps {
	uint32_t count; /* outputs */
	struct {
		uint32_t first, n,
			at; /* n inputs from first on, their weights from at on */
	} * out;
	float *weights;
};

static void taps_free(struct gb_taps *t)
{
	if (!t)
		return;
	free(t->out);
	free(t->weights);
	free(t);
}

/* A triangle as wide as two steps of the output, over the inputs whose centres it covers.
 */
static void fill_taps(struct gb_taps *t, uint32_t in, double step)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		double centre = (i + 0.5) * step;
		int64_t from = GB_MAX((int64_t)floor(centre - step), 0);
		int64_t to = GB_MIN((int64_t)ceil(centre + step), (int64_t)in);
		double sum = 0;

		while (from < to && fabs(((double)from + 0.5 - centre) / step) >= 1)
			from++;
		while (to > from && fabs(((double)to - 0.5 - centre) / step) >= 1)
			to--;
		t->out[i].first = (uint32_t)from;
		t->out[i].n = (uint32_t)(to - from);
		t->out[i].at = at;
		for (int64_t k = from; k < to; k++)
			sum += 1 - fabs(((double)k + 0.5 - centre) / step);
		for (int64_t k = from; k < to; k++)
			t->weights[at++] =
				(float)((1 - fabs(((double)k + 0.5 - centre) / step)) /
					sum);
	}
}

static struct gb_taps *taps_new(uint32_t in, uint32_t out)
{
	struct gb_taps *t = calloc(1, sizeof(*t));
	double step = (double)in / out;

	if (!t)
		return NULL;
	t->count = out;
	t->out = calloc(out, sizeof(*t->out));
	/* the loops above see 2 * step + 2 inputs at most */
	t->weights =
		calloc((size_t)out * ((size_t)ceil(2 * step) + 2), sizeof(*t->weights));
	if (!t->out || !t->weights) {
		taps_free(t);
		return NULL;
	}
	fill_taps(t, in, step);
	return t;
}

static bool begin_reducing(struct gb_canvas *c)
{
	c->across = taps_new(c->source_width, c->width);
	c->down = taps_new(c->source_height, c->height);
	c->line = calloc((size_t)c->width * 4, sizeof(float));
	for (size_t i = 0; i < GB_CANVAS_OPEN_ROWS; i++) {
		c->open[i] = calloc((size_t)c->width * 4, sizeof(float));
		if (!c->open[i])
			return false;
	}
	return c->across && c->down && c->line;
}

int gb_canvas_begin(
	struct gb_canvas *c, uint64_t width, uint64_t height, struct gb_err *err)
{
	if (width == 0 || height == 0)
		return gb_fail(err, GB_E_PARSE, "the picture has no pixels");
	if (width > GB_MEDIA_SIDE_MAX || height > GB_MEDIA_SIDE_MAX)
		return gb_fail(err, GB_E_LIMIT,
			"the picture is %llu x %llu pixels, a side may have %u: make it "
			"smaller",
			(unsigned long long)width, (unsigned long long)height,
			(unsigned int)GB_MEDIA_SIDE_MAX);
	if (width * height > c->pixels_max)
		return gb_fail(err, GB_E_LIMIT,
			"the picture is %llu x %llu pixels, more than %llu in all: make "
			"it smaller",
			(unsigned long long)width, (unsigned long long)height,
			(unsigned long long)c->pixels_max);
	c->source_width = (uint32_t)width;
	c->source_height = (uint32_t)height;
	gb_media_fit(c->source_width, c->source_height, c->detail, &c->width, &c->height);
	c->opaque = true;
	c->pixels = calloc((size_t)c->width * c->height, 4);
	if (!c->pixels)
		return gb_nomem(err);
	if (c->width == c->source_width && c->height == c->source_height)
		return 0;
	return begin_reducing(c) ? 0 : gb_nomem(err);
}

static void reduce_across(const struct gb_canvas *c, const uint8_t *rgba)
{
	for (uint32_t x = 0; x < c->width; x++) {
		const float *weight = c->across->weights + c->across->out[x].at;
		const uint8_t *in = rgba + (size_t)c->across->out[x].first * 4;
		float sum[4] = {0};

		for (uint32_t k = 0; k < c->across->out[x].n; k++, in += 4) {
			float w = weight[k] * (float)in[3];

			sum[0] += w * (float)in[0];
			sum[1] += w * (float)in[1];
			sum[2] += w * (float)in[2];
			sum[3] += w;
		}
		memcpy(c->line + (size_t)x * 4, sum, sizeof(sum));
	}
}

static uint8_t to_byte(float v)
{
	return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)(v + 0.5f);
}

static void finish_row(struct gb_canvas *c)
{
	float *sum = c->open[c->finished % GB_CANVAS_OPEN_ROWS];
	uint8_t *out = c->pixels + (size_t)c->finished * c->width * 4;

	for (size_t x = 0; x < (size_t)c->width * 4; x += 4) {
		float alpha = sum[x + 3];

		if (alpha < 0.5f)
			continue; /* stays 0, 0, 0, 0 */
		for (size_t k = 0; k < 3; k++)
			out[x + k] = to_byte(sum[x + k] / alpha);
		out[x + 3] = to_byte(alpha);
	}
	memset(sum, 0, (size_t)c->width * 4 * sizeof(float));
	c->finished++;
}

static void add_down(struct gb_canvas *c, uint32_t y)
{
	uint32_t end = GB_MIN(c->finished + GB_CANVAS_OPEN_ROWS, c->height);

	for (uint32_t i = c->finished; i < end && c->down->out[i].first <= y; i++) {
		float *sum = c->open[i % GB_CANVAS_OPEN_ROWS];
		uint32_t k = y - c->down->out[i].first;
		float w;

		if (k >= c->down->out[i].n)
			continue;
		w = c->down->weights[c->down->out[i].at + k];
		for (size_t x = 0; x < (size_t)c->width * 4; x++)
			sum[x] += w * c->line[x];
	}
	while (c->finished < c->height &&
		c->down->out[c->finished].first + c->down->out[c->finished].n <= y + 1)
		finish_row(c);
}

void gb_canvas_row(struct gb_canvas *c, const uint8_t *rgba)
{
	uint32_t y = c->rows;

	if (y >= c->source_height)
		return;
	c->rows++;
	for (size_t x = 0; x < c->source_width && c->opaque; x++)
		c->opaque = rgba[x * 4 + 3] == 255;
	if (!c->across) {
		memcpy(c->pixels + (size_t)y * c->width * 4, rgba, (size_t)c->width * 4);
		return;
	}
	reduce_across(c, rgba);
	add_down(c, y);
}

/* Where the pixel comes from that is at (x, y) when upright: each orientation is a swap
 * of the axes or none, and each axis forwards or backwards. */
int gb_canvas_orient(struct gb_canvas *c, unsigned int orientation, struct gb_err *err)
{
	bool swap = orientation >= 5;
	bool back_x = orientation == 2 || orientation == 3 || orientation == 7 ||
		      orientation == 8;
	bool back_y = orientation == 3 || orientation == 4 || orientation == 6 ||
		      orientation == 7;
	uint32_t w = swap ? c->height : c->width;
	uint32_t h = swap ? c->width : c->height;
	uint8_t *turned;

	if (orientation < 2 || orientation > 8)
		return 0;
	turned = malloc((size_t)w * h * 4);
	if (!turned)
		return gb_nomem(err);
	for (uint32_t y = 0; y < h; y++) {
		for (uint32_t x = 0; x < w; x++) {
			uint32_t from_x = swap ? y : x;
			uint32_t from_y = swap ? x : y;

			from_x = back_x ? c->width - 1 - from_x : from_x;
			from_y = back_y ? c->height - 1 - from_y : from_y;
			memcpy(turned + ((size_t)y * w + x) * 4,
				c->pixels + ((size_t)from_y * c->width + from_x) * 4, 4);
		}
	}
	free(c->pixels);
	c->pixels = turned;
	c->width = w;
	c->height = h;
	return 0;
}

void gb_canvas_done(struct gb_canvas *c)
{
	taps_free(c->across);
	taps_free(c->down);
	free(c->line);
	for (size_t i = 0; i < GB_CANVAS_OPEN_ROWS; i++)
		free(c->open[i]);
	free(c->pixels);
	memset(c, 0, sizeof(*c));
}
