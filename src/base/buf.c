#include "base/buf.h"

#include <stdio.h>
#include <string.h>

void gb_buf_init(struct gb_buf *b, size_t max)
{
	memset(b, 0, sizeof(*b));
	b->max = max;
}

void gb_buf_done(struct gb_buf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

void gb_buf_reset(struct gb_buf *b)
{
	b->len = 0;
	b->error = 0;
}

void *gb_buf_reserve(struct gb_buf *b, size_t len)
{
	size_t max = b->max ? b->max : GB_BUF_DEFAULT_MAX;

	if (b->error)
		return NULL;
	if (len > max || b->len > max - len) {
		b->error = GB_E_LIMIT;
		return NULL;
	}
	if (!gb_grow(&b->data, &b->cap, b->len + len, 1)) {
		b->error = GB_E_NOMEM;
		return NULL;
	}
	return b->data + b->len;
}

void gb_buf_add(struct gb_buf *b, const void *data, size_t len)
{
	void *to;

	if (!len)
		return;
	to = gb_buf_reserve(b, len);
	if (!to)
		return;
	memcpy(to, data, len);
	b->len += len;
}

void gb_buf_add_str(struct gb_buf *b, const char *s)
{
	gb_buf_add(b, s, strlen(s));
}

void gb_buf_add_byte(struct gb_buf *b, uint8_t c)
{
	gb_buf_add(b, &c, 1);
}

void gb_buf_printf(struct gb_buf *b, const char *fmt, ...)
{
	va_list ap;
	int need;
	char *to;

	va_start(ap, fmt);
	need = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (need < 0) {
		b->error = GB_E_NOMEM;
		return;
	}
	to = gb_buf_reserve(b, (size_t)need + 1);
	if (!to)
		return;
	va_start(ap, fmt);
	vsnprintf(to, (size_t)need + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)need;
}

void gb_buf_consume(struct gb_buf *b, size_t len)
{
	if (len >= b->len) {
		b->len = 0;
		return;
	}
	memmove(b->data, b->data + len, b->len - len);
	b->len -= len;
}

int gb_buf_check(const struct gb_buf *b, const char *what, struct gb_err *err)
{
	if (b->error == GB_E_LIMIT)
		return gb_fail(err, GB_E_LIMIT, "%s is too large", what);
	if (b->error)
		return gb_fail(err, b->error, "%s: %s", what, gb_code_text(b->error));
	return 0;
}

char *gb_buf_take_str(struct gb_buf *b)
{
	char *s;

	gb_buf_add_byte(b, 0);
	if (b->error)
		return NULL;
	s = (char *)b->data;
	b->data = NULL;
	b->len = b->cap = 0;
	return s;
}
