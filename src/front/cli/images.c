#include "front/cli/images.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "front/cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* A stable suite that has what agents' commands expect to find. */
#define DEFAULT_SOURCE                                                                   \
	"debootstrap:bookworm?include=bash,git,python3,ca-certificates,procps"           \
	"&variant=minbase"
#define DIGEST_MAX 256

bool gb_image_ref_is_source(const char *ref)
{
	return strchr(ref, ':') != NULL;
}

int gb_image_source_name(const char *source, char **ret, struct gb_err *err)
{
	uint64_t hash = gb_fnv1a(source, strlen(source), GB_FNV1A_SEED);

	if (asprintf(ret, "auto-%016llx", (unsigned long long)hash) < 0)
		return gb_nomem(err);
	return 0;
}

static void finish_line(struct gb_line_feed *f)
{
	f->now[f->len] = 0;
	f->len = 0;
	if (!f->now[0])
		return;
	memcpy(f->last, f->now, sizeof(f->last));
	if (f->line)
		f->line(f->ctx, f->now);
}

void gb_line_feed(struct gb_line_feed *f, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		/* a carriage return is how programs write progress over itself */
		if (data[i] == '\n' || data[i] == '\r')
			finish_line(f);
		else if (f->len < sizeof(f->now) - 1)
			f->now[f->len++] = data[i];
	}
}

void gb_line_feed_end(struct gb_line_feed *f)
{
	if (f->len)
		finish_line(f);
}

/* The import that runs: its two pipes, open until they end. */
struct import {
	pid_t pid;
	int out, err; /* owned */
	struct gb_line_feed lines;
	char digest[DIGEST_MAX];
	size_t digest_len;
};

static void import_done(struct import *i)
{
	gb_fd_close(&i->out);
	gb_fd_close(&i->err);
	if (i->pid > 0)
		gb_kill_child(i->pid);
}

static int start_import(struct import *i, const struct gb_cli *cli, const char *name,
	const char *source, struct gb_err *err)
{
	gb_auto_free char *role = NULL;
	gb_auto_fd out = -1;
	gb_auto_fd error = -1;
	const char *argv[8] = {NULL, "import", "--data", cli->dirs.data};
	size_t n = 4;
	int out_pipe[2];
	int err_pipe[2];
	int r = gb_role_path("image", &role, err);

	if (r < 0)
		return r;
	argv[0] = role;
	if (name) {
		argv[n++] = "--name";
		argv[n++] = name;
	}
	argv[n] = source;
	if (pipe2(out_pipe, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	i->out = out_pipe[0];
	out = out_pipe[1];
	if (pipe2(err_pipe, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	i->err = err_pipe[0];
	error = err_pipe[1];
	return gb_spawn(&(struct gb_spawn){.argv = (char *const *)argv,
				.fds = (struct gb_fd_map[]){{out, 1}, {error, 2}},
				.fd_count = 2,
				.die_with_parent = true},
		&i->pid, err);
}

/* Reads what is there; closes at the end. */
static void read_pipe(struct import *i, int *fd)
{
	char chunk[4096];
	ssize_t n = read(*fd, chunk, sizeof(chunk));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		gb_fd_close(fd);
		return;
	}
	if (fd == &i->err) {
		gb_line_feed(&i->lines, chunk, (size_t)n);
		return;
	}
	for (ssize_t at = 0; at < n && i->digest_len < DIGEST_MAX - 1; at++)
		i->digest[i->digest_len++] = chunk[at];
}

/* It ends in order then, and leaves nothing half-made. */
static void pass_signal(const struct import *i)
{
	uint8_t signo;

	if (read(gb_signals_fd(), &signo, 1) == 1)
		kill(i->pid, SIGTERM);
}

static int follow_import(struct import *i, struct gb_err *err)
{
	while (i->out >= 0 || i->err >= 0) {
		struct pollfd p[3] = {{i->out, POLLIN, 0}, {i->err, POLLIN, 0},
			{gb_signals_fd(), POLLIN, 0}};

		if (poll(p, 3, -1) < 0) {
			if (errno == EINTR)
				continue;
			return gb_fail_sys(err, errno, "cannot poll");
		}
		if (p[2].revents)
			pass_signal(i);
		if (i->out >= 0 && p[0].revents)
			read_pipe(i, &i->out);
		if (i->err >= 0 && p[1].revents)
			read_pipe(i, &i->err);
	}
	gb_line_feed_end(&i->lines);
	return 0;
}

/* "glovebox-image: why" without the name of the program. */
static const char *last_reason(const struct import *i)
{
	static const char prefix[] = "glovebox-image: ";

	if (gb_starts_with(i->lines.last, prefix))
		return i->lines.last + sizeof(prefix) - 1;
	return i->lines.last;
}

static int end_import(struct import *i, const char *source, struct gb_err *err)
{
	char how[64];
	int status;
	int r = gb_wait_child(i->pid, GB_NEVER, &status, err);

	i->pid = 0;
	gb_progress_end();
	if (r < 0)
		return r;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (gb_signals_seen())
		return gb_fail(
			err, GB_E_CANCELLED, "import of '%s' was interrupted", source);
	/* it has said what it could not import, and why */
	if (*i->lines.last && WIFEXITED(status))
		return gb_fail(err, GB_E_IO, "%s", last_reason(i));
	gb_describe_status(status, how, sizeof(how));
	return gb_fail(err, GB_E_IO, "cannot import '%s': the helper %s", source, how);
}

/* On a pipe or file the last line is printed once: as the error, if it fails. */
struct held_line {
	char text[512];
};

static void show_line(void *ctx, const char *line)
{
	struct held_line *held = ctx;

	if (!isatty(STDERR_FILENO) && *held->text)
		gb_progress_show(NULL, held->text);
	snprintf(held->text, sizeof(held->text), "%s", line);
	if (isatty(STDERR_FILENO))
		gb_progress_show(NULL, line);
}

int gb_cli_image_import(const struct gb_cli *cli, const char *name, const char *source,
	char **ret_digest, struct gb_err *err)
{
	struct held_line held = {""};
	__attribute__((cleanup(import_done))) struct import i = {
		.out = -1, .err = -1, .lines = {.line = show_line, .ctx = &held}};
	int r = start_import(&i, cli, name, source, err);

	if (r == 0)
		r = follow_import(&i, err);
	if (r == 0)
		r = end_import(&i, source, err);
	if (r < 0)
		return r;
	if (!isatty(STDERR_FILENO) && *held.text)
		gb_progress_show(NULL, held.text);
	i.digest[strcspn(i.digest, "\n")] = 0;
	if (!ret_digest)
		return 0;
	*ret_digest = strdup(i.digest);
	return *ret_digest ? 0 : gb_nomem(err);
}

/* Find by name; where there is none, import and find again. */
static int find_or_make(const struct gb_cli *cli, const char *name, const char *source,
	const char *saying, struct gb_image *ret, struct gb_err *err)
{
	int r = gb_image_find(cli->dirs.data, name, ret, err);

	if (r != GB_E_NOTFOUND)
		return r;
	gb_say("%s", saying);
	r = gb_cli_image_import(cli, name, source, NULL, err);
	if (r < 0)
		return r;
	return gb_image_find(cli->dirs.data, name, ret, err);
}

int gb_cli_image(const struct gb_cli *cli, const char *ref, struct gb_image *ret,
	struct gb_err *err)
{
	gb_auto_free char *name = NULL;
	gb_auto_free char *saying = NULL;
	int r;

	if (!*ref)
		return find_or_make(cli, GB_DEFAULT_IMAGE, DEFAULT_SOURCE,
			"no image is configured: making the default one, a small Debian, "
			"once "
			"(this takes a minute)",
			ret, err);
	if (!gb_image_ref_is_source(ref))
		return gb_image_find(cli->dirs.data, ref, ret, err);
	r = gb_image_source_name(ref, &name, err);
	if (r < 0)
		return r;
	if (asprintf(&saying, "making image '%s' from %s once", name, ref) < 0)
		return gb_nomem(err);
	return find_or_make(cli, name, ref, saying, ret, err);
}
