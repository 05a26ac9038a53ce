/* Time for deadlines: nanoseconds of CLOCK_MONOTONIC. */
#ifndef GB_BASE_CLOCK_H
#define GB_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define GB_NEVER   UINT64_MAX
#define GB_NS_MS   UINT64_C(1000000)
#define GB_NS_SEC  UINT64_C(1000000000)

uint64_t gb_now_ns(void);      /* CLOCK_MONOTONIC */
uint64_t gb_realtime_ns(void); /* CLOCK_REALTIME since 1970 */
/* A deadline ms from now. */
uint64_t gb_deadline_ms(uint64_t ms);
bool gb_deadline_passed(uint64_t deadline_ns);
/* What poll() wants: milliseconds left, rounded up, 0 when passed, -1 for GB_NEVER. */
int gb_deadline_poll_ms(uint64_t deadline_ns);

#endif
