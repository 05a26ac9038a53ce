/* From what a command wrote to what a model reads: secrets masked, text made valid UTF-8, the
 * middle left out where it is too long, and the lines around it. Pure. */
#ifndef GB_LIB_TOOL_TEXT_H
#define GB_LIB_TOOL_TEXT_H

#include "lib/tool_mask.h"

#include <stdint.h>

/* Output as the agent sent it. */
struct gb_tool_output {
	const uint8_t *data;
	size_t len;
	uint64_t bytes;   /* that were written in all */
	uint64_t omitted; /* of them not in data */
	size_t head;      /* bytes of data before those */
	bool running;     /* more may come */
};

/* Bytes at the end that are not shown yet, since what follows may make them a whole character or
 * a secret: they are to be given back. 0 when nothing more comes. */
size_t gb_tool_hold(const struct gb_mask *m, const struct gb_tool_output *out);
/* Append what is shown of out without its last hold bytes, within budget and a head of at most
 * GB_TOOL_TEXT_EXTRA bytes. */
#define GB_TOOL_TEXT_EXTRA 256
void gb_tool_show(const struct gb_mask *m, const struct gb_tool_output *out, size_t hold,
	size_t budget, struct gb_buf *to);

/* ceil(bytes / 4) */
uint64_t gb_tool_tokens(uint64_t bytes);
/* Append data with what is no UTF-8 replaced by U+FFFD, one for each longest broken piece. */
void gb_utf8_lossy(const uint8_t *data, size_t len, struct gb_buf *to);
/* Bytes at the end that begin a character which is not complete: 0 to 3. */
size_t gb_utf8_unfinished(const uint8_t *data, size_t len);

/* What stands above the output. */
struct gb_tool_head {
	char chunk_id[7]; /* 6 hex digits; "": left out */
	double wall_seconds;
	bool exited;
	int exit_code;
	uint64_t session; /* 0: none runs */
	uint64_t tokens;  /* before anything was left out */
};
void gb_tool_head_text(const struct gb_tool_head *h, struct gb_buf *to);

void gb_base64(const uint8_t *data, size_t len, struct gb_buf *to);

#endif
