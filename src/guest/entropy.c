#include "guest/agent.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "base/fd.h"

#define ENTROPY_MAX 256

int gb_set_time(uint64_t realtime_ns, struct gb_err *err)
{
	struct timespec ts = { .tv_sec = (time_t)(realtime_ns / GB_NS_SEC),
		.tv_nsec = (long)(realtime_ns % GB_NS_SEC) };

	if (clock_settime(CLOCK_REALTIME, &ts) < 0)
		return gb_fail_sys(err, errno, "cannot set the clock");
	return 0;
}

/* Machines that were restored from one template have the same pool: what is added here
 * makes them differ, so it is mixed in and used at once. */
int gb_add_entropy(int dev, const uint8_t *data, size_t len, struct gb_err *err)
{
	uint32_t space[(sizeof(struct rand_pool_info) + ENTROPY_MAX) / sizeof(uint32_t)];
	struct rand_pool_info *pool = (void *)space; /* it ends in an array without a size */
	gb_auto_fd fd = -1;
	int r = 0;

	if (len == 0 || len > ENTROPY_MAX)
		return gb_fail(err, GB_E_INVALID, "%zu bytes of entropy, 1 to %d are allowed", len,
			ENTROPY_MAX);
	fd = openat(dev, "urandom", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open the random device");
	pool->entropy_count = (int)len * 8;
	pool->buf_size = (int)len;
	memcpy(pool->buf, data, len);
	if (ioctl(fd, RNDADDENTROPY, pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
		r = gb_fail_sys(err, errno, "cannot add entropy");
	explicit_bzero(space, sizeof(space));
	return r;
}
