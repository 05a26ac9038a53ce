#include "base/mem.h"

#include <string.h>

bool gb_grow(void *p, size_t *cap, size_t need, size_t elem)
{
	void *old;
	void *grown;
	size_t want = *cap ? *cap : 8;

	if (need <= *cap)
		return true;
	while (want < need) {
		if (want > SIZE_MAX / 2)
			return false;
		want *= 2;
	}
	if (want > SIZE_MAX / elem)
		return false;
	memcpy(&old, p, sizeof(old));
	grown = realloc(old, want * elem);
	if (!grown)
		return false;
	memcpy(p, &grown, sizeof(grown));
	*cap = want;
	return true;
}
