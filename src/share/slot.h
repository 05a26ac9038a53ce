/* Numbers for objects that the guest names: an index and a generation in one u64, so that a
 * number that was given back never finds the object that took its place. */
#ifndef GB_SHARE_SLOT_H
#define GB_SHARE_SLOT_H

#include "base/mem.h"

struct gb_slot {
	void *object;        /* borrowed; NULL when free */
	uint32_t generation; /* counts how often the slot was given back */
	uint32_t next_free;  /* index + 1 of the next free slot, 0 for none */
};

struct gb_slots {
	struct gb_slot *v; /* owned */
	size_t n;
	size_t cap;
	size_t used;
	uint32_t first_free;
};

/* The new number (never 0; the very first one is 1), or 0 when memory is out. */
uint64_t gb_slots_add(struct gb_slots *s, void *object);
/* NULL for a number that is not in use. */
void *gb_slots_get(const struct gb_slots *s, uint64_t id);
void gb_slots_del(struct gb_slots *s, uint64_t id);
/* The next object at or after *index, which moves past it; NULL at the end. */
void *gb_slots_next(const struct gb_slots *s, size_t *index);
void gb_slots_done(struct gb_slots *s);

#endif
