/* A growing byte buffer with a cap. It remembers the first failure (memory, cap), ignores
 * what is added after it, and is checked once at the end by gb_buf_check. */
#ifndef GB_BASE_BUF_H
#define GB_BASE_BUF_H

#include "base/err.h"
#include "base/mem.h"

struct gb_buf {
	uint8_t *data; /* owned */
	size_t len;
	size_t cap;
	size_t max; /* never grows beyond; 0 means GB_BUF_DEFAULT_MAX */
	int error;  /* 0, GB_E_NOMEM or GB_E_LIMIT; sticky */
};

#define GB_BUF_DEFAULT_MAX ((size_t)64 << 20) /* bytes of a buffer that names no cap */

void gb_buf_init(struct gb_buf *b, size_t max);
void gb_buf_done(struct gb_buf *b);
/* Empty it and forget a failure; the memory is kept. */
void gb_buf_reset(struct gb_buf *b);
void gb_buf_add(struct gb_buf *b, const void *data, size_t len);
void gb_buf_add_str(struct gb_buf *b, const char *s);
void gb_buf_add_byte(struct gb_buf *b, uint8_t c);
void gb_buf_printf(struct gb_buf *b, const char *fmt, ...) GB_PRINTF(2, 3);
/* Room for len more bytes at the end: a pointer to write to, then add to b->len.
 * NULL on failure. */
void *gb_buf_reserve(struct gb_buf *b, size_t len);
/* Drop len bytes from the front (memmove). */
void gb_buf_consume(struct gb_buf *b, size_t len);
/* 0, or the failure that was remembered, with what was being built in the message. */
int gb_buf_check(const struct gb_buf *b, const char *what, struct gb_err *err);
/* The content as a NUL-terminated string that the caller owns; NULL on failure.
 * The buffer is empty afterwards. */
char *gb_buf_take_str(struct gb_buf *b);

#endif
