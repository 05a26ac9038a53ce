/* What glovebox-media writes to its standard output: this header, then len bytes, which are the
 * picture when code is 0 and a message otherwise. Both ends are one build on one host, so the
 * struct goes as it is. */
#ifndef GB_MEDIA_ANSWER_H
#define GB_MEDIA_ANSWER_H

#include <stdint.h>

#define GB_MEDIA_ANSWER_MAGIC   UINT32_C(0x3149424d) /* "MBI1" */
#define GB_MEDIA_MESSAGE_MAX    511u                 /* bytes of a message */

struct gb_media_answer {
	uint32_t magic;
	int32_t code;
	uint32_t format;
	uint32_t width, height;
	uint32_t source_width, source_height;
	uint32_t unchanged;
	uint64_t len;
};

_Static_assert(sizeof(struct gb_media_answer) == 40, "no padding");

#endif
