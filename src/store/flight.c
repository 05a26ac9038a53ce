/* A lock by flock() on a file that is removed at the end, so a lock may be won on a file
 * that no longer has its name. Whoever wins it looks: only when the name still leads to
 * the locked inode does it hold the flight, else it starts over. The holder removes the
 * name before it lets go; nobody else does, but for a sweep that holds the lock itself.
 *
 * flock() has no time limit. Waiters sleep on inotify instead: the holder's unlink
 * changes the inode (IN_ATTRIB) and its last close, by death too, is IN_CLOSE. The watch
 * is placed before the lock is tried again, so no event is lost. */
#include "store/flight.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define LOCK_PREFIX ".lock-"

/* A file system that does not report events (a network one) is asked this often. */
#define FLIGHT_RECHECK_NS (250 * GB_NS_MS)
/* Without inotify (its instances are limited per user). */
#define FLIGHT_POLL_NS (10 * GB_NS_MS)

static bool key_valid(const char *key)
{
	size_t len = strlen(key);

	if (len == 0 || len > GB_FLIGHT_KEY_MAX)
		return false;
	return strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			   "0123456789_.-") == len;
}

static bool name_is_ours(const char *path, int fd)
{
	struct stat by_name, by_fd;

	return stat(path, &by_name) == 0 && fstat(fd, &by_fd) == 0 &&
	       by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

/* 1: held; 0: somebody else has it. */
static int try_lock(int fd, const char *path, struct gb_err *err)
{
	int r;

	do {
		r = flock(fd, LOCK_EX | LOCK_NB);
	} while (r < 0 && errno == EINTR);
	if (r == 0)
		return 1;
	if (errno == EWOULDBLOCK)
		return 0;
	return gb_fail_sys(err, errno, "cannot lock '%s'", path);
}

static void wait_for_event(int notify, uint64_t deadline_ns)
{
	char events[4096];
	uint64_t until = gb_now_ns() + (notify >= 0 ? FLIGHT_RECHECK_NS : FLIGHT_POLL_NS);
	struct pollfd p = {.fd = notify, .events = POLLIN};

	if (poll(&p, 1, gb_deadline_poll_ms(GB_MIN(until, deadline_ns))) > 0 &&
		read(notify, events, sizeof(events)) < 0)
		return; /* it was only a hint */
}

/* 1: locked fd, whose name may be gone. */
static int lock_before(int fd, const char *path, uint64_t deadline_ns, struct gb_err *err)
{
	gb_auto_fd notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char self[64]; /* by descriptor: the name may lead to a newer file already */

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (notify >= 0 && inotify_add_watch(notify, self, IN_CLOSE | IN_ATTRIB) < 0)
		gb_fd_close(&notify);
	for (;;) {
		int r = try_lock(fd, path, err);

		if (r != 0)
			return r;
		if (gb_deadline_passed(deadline_ns))
			return gb_fail(err, GB_E_TIMEOUT,
				"another process still works on it and holds '%s'", path);
		wait_for_event(notify, deadline_ns);
	}
}

int gb_flight_begin(const char *folder, const char *key, uint64_t deadline_ns,
	void (*waiting)(void *ctx), void *ctx, struct gb_flight *ret, struct gb_err *err)
{
	gb_auto_free char *path = NULL;

	if (!key_valid(key))
		return gb_fail(err, GB_E_INVALID, "bad lock name '%s'", key);
	if (asprintf(&path, "%s/" LOCK_PREFIX "%s", folder, key) < 0)
		return gb_nomem(err);
	for (;;) {
		gb_auto_fd fd =
			open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		int r;

		if (fd < 0)
			return gb_fail_sys(
				err, errno, "cannot open lock file '%s'", path);
		r = try_lock(fd, path, err);
		if (r == 0 && waiting) {
			waiting(ctx);
			waiting = NULL;
		}
		if (r == 0)
			r = lock_before(fd, path, deadline_ns, err);
		if (r < 0)
			return r;
		if (name_is_ours(path, fd)) {
			ret->path = gb_take_ptr(path);
			ret->fd = gb_take_fd(&fd);
			return 0;
		}
	}
}

void gb_flight_end(struct gb_flight *f)
{
	if (f->fd >= 0 && name_is_ours(f->path, f->fd))
		unlink(f->path);
	gb_fd_close(&f->fd);
	free(f->path);
	f->path = NULL;
}

void gb_flight_done(struct gb_flight *f)
{
	gb_flight_end(f);
}

static void sweep_one(const char *folder, const char *name)
{
	gb_auto_done(gb_flight) f = GB_FLIGHT_INIT;

	f.path = gb_path_join(folder, name);
	if (!f.path)
		return;
	f.fd = open(f.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (f.fd >= 0 && try_lock(f.fd, f.path, NULL) != 1)
		gb_fd_close(&f.fd);
}

void gb_flight_sweep(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (gb_starts_with(e->d_name, LOCK_PREFIX))
			sweep_one(folder, e->d_name);
	if (d)
		closedir(d);
}
