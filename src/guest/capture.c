#include "guest/capture.h"

#include <string.h>

#define RING_FIRST 4096

void gb_ring_init(struct gb_ring *r, size_t max)
{
	memset(r, 0, sizeof(*r));
	r->max = max;
}

void gb_ring_done(struct gb_ring *r)
{
	free(r->data);
	gb_ring_init(r, r->max);
}

const uint8_t *gb_ring_front(const struct gb_ring *r, size_t *ret_len)
{
	*ret_len = GB_MIN(r->len, r->cap - r->start);
	return r->data + r->start;
}

void gb_ring_consume(struct gb_ring *r, size_t len)
{
	r->len -= len;
	r->start = r->len ? (r->start + len) % r->cap : 0;
}

/* Straightens it out into a larger piece of memory. */
static bool grow(struct gb_ring *r, size_t need)
{
	size_t cap = GB_MAX(r->cap, (size_t)RING_FIRST);
	size_t first;
	const uint8_t *front;
	uint8_t *data;

	while (cap < need)
		cap *= 2;
	cap = GB_MIN(cap, r->max);
	data = malloc(cap);
	if (!data)
		return false;
	if (r->len) {
		front = gb_ring_front(r, &first);
		memcpy(data, front, first);
		memcpy(data + first, r->data, r->len - first);
	}
	free(r->data);
	r->data = data;
	r->cap = cap;
	r->start = 0;
	return true;
}

uint64_t gb_ring_add(struct gb_ring *r, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t lost = 0;
	size_t end, first;

	if (len > r->max) {
		lost = len - r->max;
		p += lost;
		len = r->max;
	}
	if (r->len + len > r->cap && r->cap < r->max &&
		!grow(r, GB_MIN(r->len + len, r->max)) && !r->cap)
		return lost + len;
	if (len > r->cap) { /* memory was out: what there is must do */
		lost += len - r->cap;
		p += len - r->cap;
		len = r->cap;
	}
	if (r->len + len > r->cap) {
		size_t drop = r->len + len - r->cap;

		gb_ring_consume(r, drop);
		lost += drop;
	}
	if (!len)
		return lost;
	end = (r->start + r->len) % r->cap;
	first = GB_MIN(len, r->cap - end);
	memcpy(r->data + end, p, first);
	memcpy(r->data, p + first, len - first);
	r->len += len;
	return lost;
}

void gb_capture_init(struct gb_capture *c, size_t half)
{
	memset(c, 0, sizeof(*c));
	c->half = half;
	gb_buf_init(&c->head, half);
	gb_ring_init(&c->tail, half);
}

void gb_capture_done(struct gb_capture *c)
{
	gb_buf_done(&c->head);
	gb_ring_done(&c->tail);
}

void gb_capture_add(struct gb_capture *c, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t room = c->omitted || c->tail.len ? 0 : c->half - c->head.len;
	size_t n = GB_MIN(len, room);

	c->bytes += len;
	gb_buf_add(&c->head, p, n);
	if (c->head.error) {
		c->head.error = 0;
		n = 0;
	}
	if (len > n)
		c->omitted += gb_ring_add(&c->tail, p + n, len - n);
}

size_t gb_capture_kept(const struct gb_capture *c)
{
	return c->head.len + c->tail.len;
}

void gb_capture_unread(struct gb_capture *c, const void *data, size_t len)
{
	struct gb_buf head;
	size_t keep;

	len = GB_MIN(len, c->half);
	gb_buf_init(&head, c->half);
	gb_buf_add(&head, data, len);
	/* what has no room any more falls into the gap, unless there is none yet */
	keep = GB_MIN(c->head.len, c->half - len);
	gb_buf_add(&head, c->head.data, keep);
	if (head.error) {
		gb_buf_done(&head);
		return;
	}
	c->bytes += len;
	if (keep < c->head.len) {
		struct gb_ring tail;
		size_t n;

		gb_ring_init(&tail, c->half);
		if (!c->omitted)
			c->omitted += gb_ring_add(&tail, c->head.data + keep, c->head.len - keep);
		else
			c->omitted += c->head.len - keep;
		while (c->tail.len) {
			const uint8_t *p = gb_ring_front(&c->tail, &n);

			c->omitted += gb_ring_add(&tail, p, n);
			gb_ring_consume(&c->tail, n);
		}
		gb_ring_done(&c->tail);
		c->tail = tail;
	}
	gb_buf_done(&c->head);
	c->head = head;
}

int gb_capture_take(struct gb_capture *c, struct gb_buf *out, uint64_t *ret_head,
	uint64_t *ret_bytes, uint64_t *ret_omitted, struct gb_err *err)
{
	size_t n;

	c->head.max = 2 * c->half;
	if (c->tail.len && !gb_buf_reserve(&c->head, c->tail.len)) {
		c->head.error = 0;
		return gb_nomem(err);
	}
	*ret_head = c->head.len;
	*ret_bytes = c->bytes;
	*ret_omitted = c->omitted;
	while (c->tail.len) {
		const uint8_t *p = gb_ring_front(&c->tail, &n);

		gb_buf_add(&c->head, p, n);
		gb_ring_consume(&c->tail, n);
	}
	gb_buf_done(out);
	*out = c->head;
	c->head = (struct gb_buf){ 0 };
	gb_capture_done(c);
	gb_capture_init(c, c->half);
	return 0;
}
