#include "share/slot.h"

#include <string.h>

static struct gb_slot *slot_of(const struct gb_slots *s, uint64_t id)
{
	uint32_t index = (uint32_t)id - 1; /* 0 wraps to a number that is out of range */

	if (index >= s->n || s->v[index].generation != (uint32_t)(id >> 32))
		return NULL;
	return s->v[index].object ? &s->v[index] : NULL;
}

uint64_t gb_slots_add(struct gb_slots *s, void *object)
{
	uint32_t index;

	if (s->first_free) {
		index = s->first_free - 1;
		s->first_free = s->v[index].next_free;
	} else {
		if (s->n >= UINT32_MAX - 1 || !gb_grow(&s->v, &s->cap, s->n + 1, sizeof(*s->v)))
			return 0;
		index = (uint32_t)s->n++;
		s->v[index].generation = 0;
	}
	s->v[index].object = object;
	s->used++;
	return (uint64_t)s->v[index].generation << 32 | (index + 1);
}

void *gb_slots_get(const struct gb_slots *s, uint64_t id)
{
	const struct gb_slot *slot = slot_of(s, id);

	return slot ? slot->object : NULL;
}

void gb_slots_del(struct gb_slots *s, uint64_t id)
{
	struct gb_slot *slot = slot_of(s, id);

	if (!slot)
		return;
	slot->object = NULL;
	slot->generation++;
	slot->next_free = s->first_free;
	s->first_free = (uint32_t)(slot - s->v) + 1;
	s->used--;
}

void *gb_slots_next(const struct gb_slots *s, size_t *index)
{
	while (*index < s->n) {
		void *object = s->v[(*index)++].object;

		if (object)
			return object;
	}
	return NULL;
}

void gb_slots_done(struct gb_slots *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}
