/* The caller's side of glovebox-media: start it, take its answer, believe none of it. */
#include "media/media.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "media/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SHOWN_SIDE_MAX 6000u /* of what any detail shows */

struct role {
	pid_t pid;
	int out; /* owned */
};

static int start(
	int fd, enum gb_media_detail detail, struct role *ret, struct gb_err *err)
{
	gb_auto_free char *path = NULL;
	gb_auto_done(gb_strv) argv = {0};
	gb_auto_fd out_read = -1, out_write = -1;
	struct gb_fd_map fds[2];
	struct gb_spawn s = {.fds = fds, .fd_count = 2, .die_with_parent = true};
	int pair[2];
	int r = gb_role_path("media", &path, err);

	if (r < 0)
		return r;
	gb_strv_add(&argv, path);
	gb_strv_addf(&argv, "--detail=%s", detail == GB_MEDIA_HIGH ? "high" : "original");
	r = gb_strv_check(&argv, "arguments", err);
	if (r < 0)
		return r;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	out_read = pair[0];
	out_write = pair[1];
	fds[0] = (struct gb_fd_map){fd, STDIN_FILENO};
	fds[1] = (struct gb_fd_map){out_write, STDOUT_FILENO};
	r = gb_fd_nonblock(out_read, true, err);
	s.argv = argv.v;
	if (r == 0)
		r = gb_spawn(&s, &ret->pid, err);
	if (r == 0)
		ret->out = gb_take_fd(&out_read);
	return r;
}

/* What a decoder that ended without an answer died of. */
static int no_answer(struct role *role, uint64_t deadline, struct gb_err *err)
{
	char text[64];
	int status;
	int r = gb_wait_child(role->pid, deadline, &status, err);

	if (r < 0)
		return r;
	role->pid = 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return gb_fail(err, GB_E_LIMIT, "the picture takes too long to decode");
	gb_describe_status(status, text, sizeof(text));
	return gb_fail(
		err, GB_E_IO, "the picture decoder ended without an answer: %s", text);
}

/* len bytes, or the failure that explains why not. */
static int take(
	struct role *role, void *to, size_t len, uint64_t deadline, struct gb_err *err)
{
	size_t done = 0;

	while (done < len) {
		int r = gb_fd_wait(role->out, POLLIN, deadline, err);
		ssize_t n = r < 0 ? 0 : read(role->out, (uint8_t *)to + done, len - done);

		if (r < 0)
			return gb_wrap(err, r, "decoding the picture");
		if (n == 0)
			return no_answer(role, deadline, err);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return gb_fail_sys(
				err, errno, "cannot read from the picture decoder");
		done += (size_t)GB_MAX(n, 0);
	}
	return 0;
}

static int nonsense(struct gb_err *err)
{
	return gb_fail(err, GB_E_PROTOCOL, "the picture decoder's answer makes no sense");
}

/* A message could carry what the picture's author wanted to be shown. */
static int take_message(struct role *role, const struct gb_media_answer *a,
	uint64_t deadline, struct gb_err *err)
{
	char text[GB_MEDIA_MESSAGE_MAX + 1] = {0};
	int r;

	if (a->len == 0 || a->len > GB_MEDIA_MESSAGE_MAX || a->code < GB_E_PROTOCOL)
		return nonsense(err);
	r = take(role, text, (size_t)a->len, deadline, err);
	if (r < 0)
		return r;
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return gb_fail(err, a->code, "%s", text);
}

static bool sizes_make_sense(const struct gb_media_answer *a)
{
	return a->source_width && a->source_width <= GB_MEDIA_SIDE_MAX &&
	       a->source_height && a->source_height <= GB_MEDIA_SIDE_MAX && a->width &&
	       a->width <= SHOWN_SIDE_MAX && a->height && a->height <= SHOWN_SIDE_MAX &&
	       a->len && a->len <= GB_MEDIA_OUTPUT_MAX;
}

static int take_picture(struct role *role, const struct gb_media_answer *a,
	uint64_t deadline, struct gb_media_result *ret, struct gb_err *err)
{
	gb_auto_free uint8_t *data = NULL;
	int r;

	if (!sizes_make_sense(a) ||
		(a->format != GB_MEDIA_PNG && a->format != GB_MEDIA_JPEG &&
			a->format != GB_MEDIA_WEBP))
		return nonsense(err);
	data = malloc((size_t)a->len);
	if (!data)
		return gb_nomem(err);
	r = take(role, data, (size_t)a->len, deadline, err);
	if (r < 0)
		return r;
	if (gb_media_sniff(data, (size_t)a->len) != (enum gb_media_format)a->format)
		return nonsense(err);
	*ret = (struct gb_media_result){.data = gb_take_ptr(data),
		.len = (size_t)a->len,
		.format = (enum gb_media_format)a->format,
		.width = a->width,
		.height = a->height,
		.source_width = a->source_width,
		.source_height = a->source_height,
		.unchanged = a->unchanged};
	return 0;
}

int gb_media_view_fd(int fd, enum gb_media_detail detail, uint64_t deadline_ns,
	struct gb_media_result *ret, struct gb_err *err)
{
	struct gb_media_answer a;
	struct role role;
	int r = start(fd, detail, &role, err);

	if (r < 0)
		return r;
	r = take(&role, &a, sizeof(a), deadline_ns, err);
	if (r == 0 && (a.magic != GB_MEDIA_ANSWER_MAGIC || a.code > 0))
		r = nonsense(err);
	else if (r == 0 && a.code < 0)
		r = take_message(&role, &a, deadline_ns, err);
	else if (r == 0)
		r = take_picture(&role, &a, deadline_ns, ret, err);
	gb_fd_close(&role.out);
	gb_kill_child(role.pid);
	return r;
}

int gb_media_view(const void *bytes, size_t len, enum gb_media_detail detail,
	uint64_t deadline_ns, struct gb_media_result *ret, struct gb_err *err)
{
	gb_auto_fd fd = -1;
	int r;

	if (len > GB_MEDIA_BYTES_MAX)
		return gb_media_too_long(err);
	if (gb_media_sniff(bytes, len) == GB_MEDIA_NONE)
		return gb_media_unknown(len, err);
	fd = memfd_create("picture", MFD_CLOEXEC);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot make a memory file");
	r = gb_fd_write_full(fd, bytes, len, err);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return gb_fail_sys(err, errno, "cannot rewind a memory file");
	return gb_media_view_fd(fd, detail, deadline_ns, ret, err);
}
