/* Cleanup attributes, take macros, checked growth. */
#ifndef GB_BASE_MEM_H
#define GB_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define GB_UNUSED         __attribute__((unused))
#define GB_ARRAY_SIZE(a)  (sizeof(a) / sizeof((a)[0]))
#define GB_MIN(a, b)      ((a) < (b) ? (a) : (b))
#define GB_MAX(a, b)      ((a) > (b) ? (a) : (b))

/* For "struct T" with T *T_free(T *): afterwards "gb_auto(T) *x = NULL;" frees itself. */
#define GB_DEFINE_CLEANUP(type)                                                          \
	static inline void type##_cleanup(struct type **p)                               \
	{                                                                                \
		if (*p)                                                                  \
			type##_free(*p);                                                 \
	}
#define gb_auto(type) __attribute__((cleanup(type##_cleanup))) struct type

/* For "struct T" with void T_done(T *): "gb_auto_done(T) x = {0};" empties itself. */
#define gb_auto_done(type) __attribute__((cleanup(type##_done))) struct type

static inline void gb_free_cleanup(void *p)
{
	free(*(void **)p);
}
#define gb_auto_free __attribute__((cleanup(gb_free_cleanup)))

/* Give away what a variable owns: its value is returned, the variable becomes NULL. */
#define gb_take_ptr(p)                                                                   \
	__extension__({                                                                  \
		__typeof__(p) taken_ = (p);                                              \
		(p) = NULL;                                                              \
		taken_;                                                                  \
	})

/* Grow *p (elements of elem bytes, *cap of them) so that need fit, by doubling.
 * False on overflow or when memory is out; *p and *cap are untouched then. */
bool gb_grow(void *p, size_t *cap, size_t need, size_t elem);

#endif
