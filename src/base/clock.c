#include "base/clock.h"

#include <limits.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * GB_NS_SEC + (uint64_t)t.tv_nsec;
}

uint64_t gb_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t gb_realtime_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t gb_deadline_ms(uint64_t ms)
{
	uint64_t now = gb_now_ns();

	if (ms > (GB_NEVER - 1 - now) / GB_NS_MS)
		return GB_NEVER;
	return now + ms * GB_NS_MS;
}

bool gb_deadline_passed(uint64_t deadline_ns)
{
	return deadline_ns != GB_NEVER && gb_now_ns() >= deadline_ns;
}

int gb_deadline_poll_ms(uint64_t deadline_ns)
{
	uint64_t now = gb_now_ns();
	uint64_t ms;

	if (deadline_ns == GB_NEVER)
		return -1;
	if (now >= deadline_ns)
		return 0;
	ms = (deadline_ns - now + GB_NS_MS - 1) / GB_NS_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}
