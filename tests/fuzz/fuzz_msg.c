/* Every message's decoder. Input: one byte that chooses the message, then a payload. What
 * decodes must encode to the same bytes. */
#include "proto/frame.h"
#include "proto/msg.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct gb_msg_desc *const messages[] = {
#define M(m, FIELDS) &gb_msg_##m##_desc,
	GB_MESSAGES(M)
#undef M
};

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void decode_and_back(const struct gb_msg_desc *d, const uint8_t *payload, size_t len)
{
	gb_auto_done(gb_buf) again = { 0 };
	gb_auto_free void *msg = calloc(1, d->size);
	struct gb_err err = { 0 };

	require(msg != NULL);
	if (gb_msg_decode(d, payload, len, msg, &err) < 0) {
		require(err.code == GB_E_PROTOCOL && err.msg[0]);
		return;
	}
	gb_msg_encode(d, msg, &again);
	/* a value that decodes may still be over what one frame carries */
	require(again.error == 0 || len > GB_FRAME_MAX);
	require(again.error || (again.len == len && (!len || !memcmp(again.data, payload, len))));
	gb_msg_done(d, msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gb_err err = { 0 };
	const struct gb_msg_desc *d;

	if (size < 1)
		return 0;
	d = messages[data[0] % GB_ARRAY_SIZE(messages)];
	decode_and_back(d, data + 1, size - 1);
	if (d == &gb_msg_error_desc)
		require(gb_msg_take_error(data + 1, size - 1, &err) < 0);
	if (d == &gb_msg_hello_desc)
		gb_msg_check_hello(data + 1, size - 1, "peer", &err);
	return 0;
}
