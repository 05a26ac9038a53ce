/* The netpbm formats, read here as there is no library for them alone: P1 to P6 (bitmap,
 * grey, colour; as text and as bytes) and P7 (PAM).
 *
 * Header: the magic, then width, height and (not for bitmaps) the largest sample, as
 * decimal numbers between white space and comments, then one white space. P7 has lines of
 * a word and a value, up to ENDHDR. */
#include "media/picture.h"

#include <string.h>

#define SAMPLE_MAX 65535u      /* of the largest sample */
#define NUMBER_MAX 0xffffffffu /* of any number */
#define WORD_MAX   16          /* of a word in a P7 header */

struct pnm {
	struct gb_bytes in;
	char kind; /* '1' to '7' */
	uint32_t width, height;
	uint32_t most;  /* the largest sample */
	uint32_t depth; /* samples a pixel */
};

static int too_short(struct gb_err *err)
{
	return gb_fail(err, GB_E_PARSE, "it ends too early");
}

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static uint8_t next(struct pnm *p)
{
	p->in.left--;
	return *p->in.at++;
}

static void skip_line(struct pnm *p)
{
	while (p->in.left && next(p) != '\n')
		;
}

static void skip_space(struct pnm *p)
{
	while (p->in.left && (is_space(*p->in.at) || *p->in.at == '#')) {
		if (*p->in.at == '#')
			skip_line(p);
		else
			next(p);
	}
}

static int read_number(struct pnm *p, uint32_t *ret, struct gb_err *err)
{
	uint64_t n = 0;
	bool any = false;

	skip_space(p);
	for (; p->in.left && *p->in.at >= '0' && *p->in.at <= '9'; any = true) {
		n = n * 10 + (next(p) - '0');
		if (n > NUMBER_MAX)
			return gb_fail(err, GB_E_PARSE, "a number in it is too large");
	}
	if (!any)
		return p->in.left ? gb_fail(err, GB_E_PARSE, "a number is missing in it")
				  : too_short(err);
	*ret = (uint32_t)n;
	return 0;
}

static int read_plain_header(struct pnm *p, struct gb_err *err)
{
	int r = read_number(p, &p->width, err);

	if (r == 0)
		r = read_number(p, &p->height, err);
	p->most = 1;
	p->depth = p->kind == '3' || p->kind == '6' ? 3 : 1;
	if (r == 0 && p->kind != '1' && p->kind != '4')
		r = read_number(p, &p->most, err);
	if (r < 0)
		return r;
	if (p->in.left == 0)
		return too_short(err);
	if (!is_space(next(p)))
		return gb_fail(err, GB_E_PARSE, "its header does not end");
	return 0;
}

static void read_word(struct pnm *p, char *to)
{
	size_t n = 0;

	skip_space(p);
	while (p->in.left && !is_space(*p->in.at)) {
		char c = (char)next(p);

		if (n < WORD_MAX - 1)
			to[n++] = c;
	}
	to[n] = 0;
}

static int read_pam_header(struct pnm *p, struct gb_err *err)
{
	const struct {
		const char *word;
		uint32_t *to;
	} fields[] = {{"WIDTH", &p->width}, {"HEIGHT", &p->height}, {"DEPTH", &p->depth},
		{"MAXVAL", &p->most}};
	char word[WORD_MAX];

	for (;;) {
		uint32_t *to = NULL;
		int r;

		read_word(p, word);
		if (p->in.left == 0)
			return too_short(err);
		if (strcmp(word, "ENDHDR") == 0)
			break;
		for (size_t i = 0; i < GB_ARRAY_SIZE(fields); i++)
			if (strcmp(word, fields[i].word) == 0)
				to = fields[i].to;
		if (!to && strcmp(word, "TUPLTYPE") != 0)
			return gb_fail(err, GB_E_PARSE, "its header has an unknown word");
		r = to ? read_number(p, to, err) : 0;
		if (r < 0)
			return r;
		skip_line(p);
	}
	skip_line(p);
	if (p->depth < 1 || p->depth > 4)
		return gb_fail(
			err, GB_E_PARSE, "%u samples a pixel are not known", p->depth);
	return 0;
}

/* One sample of a text format; the digits of a bitmap need no space between them. */
static int read_text(struct pnm *p, uint32_t *ret, struct gb_err *err)
{
	if (p->kind != '1')
		return read_number(p, ret, err);
	skip_space(p);
	if (p->in.left == 0)
		return too_short(err);
	*ret = next(p) - (uint32_t)'0';
	return 0;
}

static int read_samples(struct pnm *p, uint32_t *to, size_t count, struct gb_err *err)
{
	size_t wide = p->most > 255 ? 2 : 1;
	int r = 0;

	if (p->kind <= '3') {
		for (size_t i = 0; i < count && r == 0; i++)
			r = read_text(p, &to[i], err);
	} else if (p->kind == '4') {
		if (p->in.left < (count + 7) / 8)
			return too_short(err);
		for (size_t i = 0; i < count; i++)
			to[i] = p->in.at[i / 8] >> (7 - i % 8) & 1;
		p->in.at += (count + 7) / 8;
		p->in.left -= (count + 7) / 8;
	} else {
		if (p->in.left / wide < count)
			return too_short(err);
		for (size_t i = 0; i < count; i++) {
			to[i] = next(p);
			if (wide == 2)
				to[i] = to[i] << 8 | next(p);
		}
	}
	for (size_t i = 0; i < count && r == 0; i++)
		if (to[i] > p->most)
			return gb_fail(
				err, GB_E_PARSE, "a sample is larger than it says");
	return r;
}

static uint8_t scaled(const struct pnm *p, uint32_t sample)
{
	return (uint8_t)((sample * 255 + p->most / 2) / p->most);
}

static void put_row(const struct pnm *p, const uint32_t *in, uint8_t *out)
{
	bool bitmap = p->kind == '1' || p->kind == '4';

	for (size_t x = 0; x < p->width; x++, in += p->depth, out += 4) {
		for (size_t k = 0; k < 3; k++)
			out[k] = scaled(p, in[p->depth >= 3 ? k : 0]);
		if (bitmap) /* where 1 is black */
			out[0] = out[1] = out[2] = in[0] ? 0 : 255;
		out[3] = p->depth % 2 ? 255 : scaled(p, in[p->depth - 1]);
	}
}

static int read_rows(struct pnm *p, struct gb_canvas *c, struct gb_err *err)
{
	size_t count = (size_t)p->width * p->depth;
	gb_auto_free uint32_t *samples = calloc(count, sizeof(*samples));
	gb_auto_free uint8_t *row = malloc((size_t)p->width * 4);

	if (!samples || !row)
		return gb_nomem(err);
	for (uint32_t y = 0; y < p->height; y++) {
		int r = read_samples(p, samples, count, err);

		if (r < 0)
			return r;
		put_row(p, samples, row);
		gb_canvas_row(c, row);
	}
	return 0;
}

int gb_pnm_decode(
	const uint8_t *bytes, size_t len, struct gb_picture *p, struct gb_err *err)
{
	struct pnm m = {.in = {bytes, len}};
	int r;

	if (len < 3)
		return too_short(err);
	next(&m);
	m.kind = (char)next(&m);
	r = m.kind == '7' ? read_pam_header(&m, err) : read_plain_header(&m, err);
	if (r < 0)
		return r;
	if (m.most == 0 || m.most > SAMPLE_MAX)
		return gb_fail(err, GB_E_PARSE, "its largest sample is %u", m.most);
	r = gb_canvas_begin(&p->canvas, m.width, m.height, err);
	return r < 0 ? r : read_rows(&m, &p->canvas, err);
}
