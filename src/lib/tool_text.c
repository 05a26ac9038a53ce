#include "lib/tool_text.h"

#include "lib/tool.h"

#include <inttypes.h>
#include <string.h>

uint64_t gb_tool_tokens(uint64_t bytes)
{
	return bytes / GB_TOOL_TOKEN_BYTES + (bytes % GB_TOOL_TOKEN_BYTES != 0);
}

/* ---- UTF-8 ---- */

/* The range of a second byte is narrower behind some first ones (overlong forms, surrogates,
 * beyond U+10FFFF). Length of the whole character, 0 for no first byte. */
static size_t first_byte(uint8_t c, uint8_t *low, uint8_t *high)
{
	*low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	*high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	if (c >= 0xf0 && c <= 0xf4)
		return 4;
	return 0;
}

/* Bytes at data that are a character, or could become one if more came; *whole tells which. At
 * least 1. */
static size_t take_char(const uint8_t *data, size_t len, bool *whole)
{
	uint8_t low;
	uint8_t high;
	size_t need = first_byte(*data, &low, &high);
	size_t n = 1;

	while (n < need && n < len && data[n] >= low && data[n] <= high) {
		low = 0x80;
		high = 0xbf;
		n++;
	}
	*whole = n == need;
	return n;
}

size_t gb_utf8_unfinished(const uint8_t *data, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		const uint8_t *at = data + len - back;
		uint8_t low;
		uint8_t high;
		bool whole;

		if ((*at & 0xc0) == 0x80)
			continue;
		return first_byte(*at, &low, &high) > back && take_char(at, back, &whole) == back
			       ? back
			       : 0;
	}
	return 0;
}

void gb_utf8_lossy(const uint8_t *data, size_t len, struct gb_buf *to)
{
	size_t plain = 0;

	if (!len)
		return;
	for (size_t at = 0; at < len;) {
		bool whole;
		size_t n = take_char(data + at, len - at, &whole);

		if (!whole) {
			gb_buf_add(to, data + plain, at - plain);
			gb_buf_add_str(to, "\xef\xbf\xbd");
			plain = at + n;
		}
		at += n;
	}
	gb_buf_add(to, data + plain, len - plain);
}

static bool starts_char(uint8_t c)
{
	return (c & 0xc0) != 0x80;
}

/* ---- too long ---- */

static size_t count_lines(const uint8_t *data, size_t len)
{
	size_t lines = 0;

	for (size_t i = 0; i < len; i++)
		lines += data[i] == '\n';
	return lines + (len && data[len - 1] != '\n');
}

/* text is valid UTF-8. */
static void add_cut(const uint8_t *text, size_t len, size_t budget, struct gb_buf *to)
{
	size_t head = GB_MIN(budget / 2, len);
	size_t tail = len - (budget - budget / 2);

	if (len <= budget) {
		if (len)
			gb_buf_add(to, text, len);
		return;
	}
	while (head && !starts_char(text[head]))
		head--;
	while (tail < len && !starts_char(text[tail]))
		tail++;
	gb_buf_printf(to,
		"Warning: truncated output (original token count: %" PRIu64 ")\n"
		"Total output lines: %zu\n\n",
		gb_tool_tokens(len), count_lines(text, len));
	gb_buf_add(to, text, head);
	gb_buf_printf(to, "\xe2\x80\xa6%" PRIu64 " tokens truncated\xe2\x80\xa6",
		gb_tool_tokens(len - budget));
	gb_buf_add(to, text + tail, len - tail);
}

/* ---- the gap ---- */

/* What is beside it may be a part of a secret or of a character: the gap grows by that. */
static size_t head_end(const struct gb_mask *m, const uint8_t *data, size_t len)
{
	len -= gb_mask_hold(m, data, len);
	return len - gb_utf8_unfinished(data, len);
}

static size_t tail_begin(const struct gb_mask *m, const uint8_t *data, size_t len)
{
	size_t n = gb_mask_tail(m, data, len);

	for (size_t more = 0; more < 3 && n < len && !starts_char(data[n]); more++)
		n++;
	return n;
}

static void add_masked(const struct gb_mask *m, const struct gb_tool_output *out, size_t len,
	struct gb_buf *to)
{
	size_t head = GB_MIN(out->head, len);
	size_t kept;
	size_t skipped;

	if (!out->omitted) {
		if (len)
			gb_mask_apply(m, out->data, len, to);
		return;
	}
	kept = head_end(m, out->data, head);
	skipped = tail_begin(m, out->data + head, len - head);
	gb_mask_apply(m, out->data, kept, to);
	gb_buf_printf(to, "%s... %" PRIu64 " bytes omitted ...\n",
		kept && out->data[kept - 1] != '\n' ? "\n" : "",
		out->omitted + (head - kept) + skipped);
	gb_mask_apply(m, out->data + head + skipped, len - head - skipped, to);
}

size_t gb_tool_hold(const struct gb_mask *m, const struct gb_tool_output *out)
{
	size_t from = out->omitted ? GB_MIN(out->head, out->len) : 0;
	size_t n;

	if (!out->running || from == out->len)
		return 0;
	n = gb_mask_hold(m, out->data + from, out->len - from);
	return n + gb_utf8_unfinished(out->data + from, out->len - from - n);
}

void gb_tool_show(const struct gb_mask *m, const struct gb_tool_output *out, size_t hold,
	size_t budget, struct gb_buf *to)
{
	gb_auto_done(gb_buf) masked = { 0 };
	gb_auto_done(gb_buf) text = { 0 };

	gb_buf_init(&masked, 0);
	gb_buf_init(&text, 0);
	add_masked(m, out, out->len - GB_MIN(hold, out->len), &masked);
	gb_utf8_lossy(masked.data, masked.len, &text);
	if (masked.error || text.error)
		to->error = masked.error ? masked.error : text.error;
	gb_buf_done(&masked);
	add_cut(text.data, text.len, budget, to);
}

/* ---- around it ---- */

void gb_tool_head_text(const struct gb_tool_head *h, struct gb_buf *to)
{
	if (*h->chunk_id)
		gb_buf_printf(to, "Chunk ID: %s\n", h->chunk_id);
	gb_buf_printf(to, "Wall time: %.4f seconds\n", h->wall_seconds);
	if (h->exited)
		gb_buf_printf(to, "Process exited with code %d\n", h->exit_code);
	else if (h->session)
		gb_buf_printf(to, "Process running with session ID %" PRIu64 "\n", h->session);
	gb_buf_printf(to, "Original token count: %" PRIu64 "\nOutput:\n", h->tokens);
}

void gb_base64(const uint8_t *data, size_t len, struct gb_buf *to)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t *out = gb_buf_reserve(to, (len + 2) / 3 * 4);

	if (!out)
		return;
	for (size_t i = 0; i < len; i += 3) {
		size_t n = GB_MIN(len - i, (size_t)3);
		uint32_t bits = (uint32_t)data[i] << 16;

		if (n > 1)
			bits |= (uint32_t)data[i + 1] << 8;
		if (n > 2)
			bits |= data[i + 2];
		for (size_t k = 0; k < 4; k++)
			*out++ = k <= n ? (uint8_t)digits[bits >> (18 - 6 * k) & 63] : '=';
		to->len += 4;
	}
}
