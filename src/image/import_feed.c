#include "image/import_feed.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FEED_KILL_MS 30000 /* mmdebstrap unmounts and removes its folder meanwhile */
#define FEED_DRAIN   ((size_t)65536)

bool gb_feed_cancelled(const struct gb_feed *f)
{
	struct pollfd p = {.fd = f->import->cancel_fd, .events = POLLIN};

	return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

void gb_feed_say(const struct gb_feed *f, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (!f->import->progress)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	f->import->progress(f->import->ctx, line);
}

static void end_line(struct gb_feed *f)
{
	f->line[f->line_len] = 0;
	f->line_len = 0;
	if (!f->line[0])
		return;
	if (gb_starts_with(f->line, "E:"))
		memcpy(f->complaint, f->line, sizeof(f->line));
	gb_feed_say(f, "%s", f->line);
}

/* What the child says, in lines; what a terminal could act on is left out. */
static void take_messages(struct gb_feed *f)
{
	char text[4096];
	ssize_t n = read(f->messages, text, sizeof(text));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		end_line(f);
		gb_fd_close(&f->messages);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (text[i] == '\n' || text[i] == '\r')
			end_line(f);
		else if ((unsigned char)text[i] >= ' ' &&
			 f->line_len < sizeof(f->line) - 1)
			f->line[f->line_len++] = text[i];
	}
}

/* Until there is data: messages are passed on, a cancel is heard. */
static int wait_for_data(struct gb_feed *f, struct gb_err *err)
{
	for (;;) {
		struct pollfd p[3] = {
			{.fd = f->data, .events = POLLIN},
			{.fd = f->messages, .events = POLLIN},
			{.fd = f->import->cancel_fd, .events = POLLIN},
		};

		if (poll(p, 3, -1) < 0) {
			if (errno == EINTR)
				continue;
			return gb_fail_sys(err, errno, "cannot wait for data");
		}
		if (p[2].revents)
			return gb_fail(err, GB_E_CANCELLED, "cancelled");
		if (p[1].revents)
			take_messages(f);
		else if (p[0].revents)
			return 0;
	}
}

static int feed_read(
	void *ctx, void *data, size_t len, size_t *ret_len, struct gb_err *err)
{
	struct gb_feed *f = ctx;
	ssize_t n;
	int r;

	do {
		r = wait_for_data(f, err);
		if (r < 0)
			return r;
		n = read(f->data, data, len);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read the archive");
	*ret_len = (size_t)n;
	return 0;
}

struct gb_tree_reader gb_feed_reader(struct gb_feed *f)
{
	return (struct gb_tree_reader){.read = feed_read, .ctx = f};
}

int gb_feed_open_file(struct gb_feed *f, const char *path, struct gb_err *err)
{
	struct stat st;

	f->data = open(path, O_RDONLY | O_CLOEXEC);
	if (f->data < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	if (fstat(f->data, &st) == 0 && S_ISDIR(st.st_mode))
		return gb_fail(err, GB_E_INVALID,
			"'%s' is a folder: use 'rootfs:%s' for a folder", path, path);
	return 0;
}

/* Only when all was read does the child end by itself. */
int gb_feed_end(struct gb_feed *f, struct gb_err *err)
{
	gb_auto_free uint8_t *waste = malloc(FEED_DRAIN);
	char how[128];
	size_t n = 1;
	int status;
	int r = 0;

	if (!f->child)
		return 0;
	if (!waste)
		return gb_nomem(err);
	while (r == 0 && n > 0)
		r = feed_read(f, waste, FEED_DRAIN, &n, err);
	while (r == 0 && f->messages >= 0)
		take_messages(f);
	if (r == 0)
		r = gb_wait_child(f->child, gb_deadline_ms(FEED_KILL_MS), &status, err);
	if (r < 0)
		return r;
	f->child = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	gb_describe_status(status, how, sizeof(how));
	return gb_fail(err, GB_E_IO, "mmdebstrap %s%s%.300s", how,
		f->complaint[0] ? ": " : "", f->complaint);
}

/* As Ctrl-C on a terminal would, which mmdebstrap cleans up after; its pipe stays open
 * until then, for a child that dies of SIGPIPE does not. */
static void end_child(struct gb_feed *f)
{
	int status;

	kill(-f->child, SIGINT);
	kill(-f->child, SIGTERM);
	if (gb_wait_child(f->child, gb_deadline_ms(FEED_KILL_MS), &status, NULL) < 0) {
		kill(-f->child, SIGKILL);
		gb_kill_child(f->child);
	}
	f->child = 0;
}

void gb_feed_done(struct gb_feed *f)
{
	if (f->child)
		end_child(f);
	gb_fd_close(&f->data);
	gb_fd_close(&f->messages);
}
