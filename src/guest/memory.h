/* How the machine's memory fares, since its start. */
#ifndef GB_GUEST_MEMORY_H
#define GB_GUEST_MEMORY_H

#include "base/err.h"

#include <stdint.h>

struct gb_agent;
struct gb_frame;

struct gb_memory {
	uint64_t available_min_kib; /* of the samples; 0: none yet */
	uint64_t oom_before;        /* kills before the first sample: of the template */
	uint64_t sampled_at;
};
/* Look, if the last look was a while ago. Cheap enough for every turn of the loop. */
void gb_memory_sample(struct gb_agent *a);
/* When to look again: only while something is served. */
uint64_t gb_memory_deadline(const struct gb_agent *a);
int gb_memory_reply(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);

#endif
