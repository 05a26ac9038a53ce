#include "lib/tool_mask.h"

#include <ctype.h>
#include <string.h>

void gb_mask_done(struct gb_mask *m)
{
	for (size_t i = 0; i < m->count; i++) {
		explicit_bzero(m->values[i].data, m->values[i].len);
		free(m->values[i].data);
	}
	free(m->values);
	memset(m, 0, sizeof(*m));
}

static bool knows(const struct gb_mask *m, const uint8_t *value, size_t len)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->values[i].len == len && memcmp(m->values[i].data, value, len) == 0)
			return true;
	return false;
}

static void add_one(struct gb_mask *m, const uint8_t *value, size_t len)
{
	uint8_t *copy;
	size_t at = 0;

	if (m->error || knows(m, value, len))
		return;
	copy = malloc(len);
	if (m->count == GB_MASK_MAX)
		m->error = GB_E_LIMIT;
	else if (!copy || !gb_grow(&m->values, &m->cap, m->count + 1, sizeof(*m->values)))
		m->error = GB_E_NOMEM;
	if (m->error) {
		free(copy);
		return;
	}
	memcpy(copy, value, len);
	while (at < m->count && m->values[at].len >= len)
		at++;
	memmove(m->values + at + 1, m->values + at, (m->count - at) * sizeof(*m->values));
	m->values[at] = (struct gb_mask_value){ copy, len };
	m->count++;
	m->first[*value] = true;
}

/* A key in a file is often printed line by line, indented or joined otherwise. */
static void add_lines(struct gb_mask *m, const uint8_t *value, size_t len)
{
	while (len) {
		const uint8_t *end = memchr(value, '\n', len);
		size_t n = end ? (size_t)(end - value) : len;
		size_t skip = GB_MIN(n + 1, len);

		if (n && value[n - 1] == '\r')
			n--;
		if (n >= GB_MASK_LINE_LEAST && n <= GB_MASK_VALUE_MAX)
			add_one(m, value, n);
		value += skip;
		len -= skip;
	}
}

void gb_mask_add(struct gb_mask *m, const void *value, size_t len)
{
	if (len < GB_MASK_LEAST)
		return;
	if (len <= GB_MASK_VALUE_MAX)
		add_one(m, value, len);
	if (memchr(value, '\n', len))
		add_lines(m, value, len);
}

bool gb_mask_name_is_secret(const char *name, size_t len)
{
	static const char *const words[] = { "AUTH", "AUTHORIZATION", "COOKIE", "CREDENTIAL",
		"CREDENTIALS", "KEY", "PASS", "PASSWD", "PASSWORD", "SECRET", "TOKEN" };

	while (len) {
		const char *end = memchr(name, '_', len);
		size_t n = end ? (size_t)(end - name) : len;
		size_t skip = GB_MIN(n + 1, len);

		for (size_t i = 0; i < GB_ARRAY_SIZE(words); i++)
			if (strlen(words[i]) == n && strncasecmp(words[i], name, n) == 0)
				return true;
		name += skip;
		len -= skip;
	}
	return false;
}

void gb_mask_add_env(struct gb_mask *m, char *const *env)
{
	for (; env && *env; env++) {
		const char *eq = strchr(*env, '=');

		if (eq && gb_mask_name_is_secret(*env, (size_t)(eq - *env)))
			gb_mask_add(m, eq + 1, strlen(eq + 1));
	}
}

int gb_mask_check(const struct gb_mask *m, struct gb_err *err)
{
	if (m->error == GB_E_LIMIT)
		return gb_fail(err, GB_E_LIMIT, "over %d secret values to mask", GB_MASK_MAX);
	return m->error ? gb_nomem(err) : 0;
}

/* The value that begins at data: its length, 0 for none. partial: the data ends before a value
 * does that fits so far. */
static size_t match(const struct gb_mask *m, const uint8_t *data, size_t len, bool *partial)
{
	*partial = false;
	if (!m->first[*data])
		return 0;
	for (size_t i = 0; i < m->count; i++) {
		size_t n = m->values[i].len;

		if (memcmp(m->values[i].data, data, GB_MIN(n, len)) != 0)
			continue;
		if (n <= len)
			return n;
		*partial = true;
	}
	return 0;
}

size_t gb_mask_hold(const struct gb_mask *m, const uint8_t *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		bool partial;
		size_t n = match(m, data + at, len - at, &partial);

		/* also where a shorter value is there already: the longer may be coming */
		if (partial)
			return len - at;
		at += n ? n : 1;
	}
	return 0;
}

size_t gb_mask_tail(const struct gb_mask *m, const uint8_t *data, size_t len)
{
	size_t most = 0;

	for (size_t i = 0; i < m->count; i++) {
		const struct gb_mask_value *v = &m->values[i];

		for (size_t n = GB_MIN(v->len - 1, len); n > most; n--)
			if (memcmp(v->data + v->len - n, data, n) == 0)
				most = n;
	}
	return most;
}

void gb_mask_apply(const struct gb_mask *m, const uint8_t *data, size_t len, struct gb_buf *to)
{
	size_t plain = 0;

	for (size_t at = 0; at < len;) {
		bool partial;
		size_t n = match(m, data + at, len - at, &partial);

		if (!n) {
			at++;
			continue;
		}
		gb_buf_add(to, data + plain, at - plain);
		gb_buf_add_str(to, GB_MASK_TEXT);
		at += n;
		plain = at;
	}
	gb_buf_add(to, data + plain, len - plain);
}
