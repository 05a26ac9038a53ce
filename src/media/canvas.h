/* Where decoders put pixels: told the size once, then given rows from top to bottom, it keeps
 * only the reduced picture. So a decoder that works by rows needs no memory for the whole.
 *
 * Reducing is separable: each row is reduced across, then added, weighted, to the one or two
 * rows of the result that it belongs to. Colours are weighted by their alpha, so that what is
 * behind transparent pixels does not show. */
#ifndef GB_MEDIA_CANVAS_H
#define GB_MEDIA_CANVAS_H

#include "media/media.h"

struct gb_taps; /* which inputs make an output, and their weights */

#define GB_CANVAS_OPEN_ROWS 4 /* rows of the result that one row can belong to, with room */

struct gb_canvas {
	enum gb_media_detail detail;
	uint64_t pixels_max;
	uint32_t source_width, source_height;
	uint32_t width, height; /* 0 before gb_canvas_begin */
	uint8_t *pixels;        /* owned; RGBA, rows without gaps */
	bool opaque;
	uint32_t rows; /* given so far */
	/* only while reducing */
	struct gb_taps *across, *down;    /* owned */
	float *line;                      /* owned; a row reduced across */
	float *open[GB_CANVAS_OPEN_ROWS]; /* owned; output row i is in open[i % N] */
	uint32_t finished;                /* rows of the result */
};

/* GB_E_LIMIT says how large the picture is and what is allowed; nothing was allocated then. */
int gb_canvas_begin(struct gb_canvas *c, uint64_t width, uint64_t height, struct gb_err *err);
/* source_width pixels. A row too many is ignored. */
void gb_canvas_row(struct gb_canvas *c, const uint8_t *rgba);
/* Turn what is stored with this EXIF orientation (1 to 8) upright. */
int gb_canvas_orient(struct gb_canvas *c, unsigned int orientation, struct gb_err *err);
void gb_canvas_done(struct gb_canvas *c);

#endif
