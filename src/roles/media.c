/* glovebox-media: makes one picture fit for a model.
 *
 *   glovebox-media --detail high|original < picture > answer
 *   glovebox-media --self-test
 *
 * Started for each picture by media/view.c. Everything is given up before the first byte
 * is read (media/sandbox.h). The answer (media/answer.h) tells of failures too; the exit
 * code is 0 when one could be written. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "media/answer.h"
#include "media/picture.h"
#include "media/sandbox.h"

#include <fcntl.h>
#include <getopt.h>
#include <string.h>

#define READ_STEP ((size_t)65536)

struct options {
	enum gb_media_detail detail;
	bool self_test;
};

static int parse_options(int argc, char **argv, struct options *o, struct gb_err *err)
{
	static const struct option known[] = {
		{"detail", required_argument, NULL, 'd'},
		{"self-test", no_argument, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (c == 'd')
			r = gb_media_detail_parse(optarg, &o->detail, err);
		else if (c == 't')
			o->self_test = true;
		else
			r = gb_fail(
				err, GB_E_INVALID, "cannot use '%s'", argv[optind - 1]);
	}
	if (r == 0 && optind < argc)
		r = gb_fail(err, GB_E_INVALID, "cannot use '%s'", argv[optind]);
	return r;
}

static int read_picture(struct gb_buf *to, struct gb_err *err)
{
	for (;;) {
		uint8_t *room = gb_buf_reserve(to, READ_STEP);
		size_t n;
		int r;

		if (!room)
			return to->error == GB_E_LIMIT ? gb_media_too_long(err)
						       : gb_nomem(err);
		r = gb_fd_read_full(STDIN_FILENO, room, READ_STEP, &n, err);
		if (r < 0)
			return r;
		to->len += n;
		if (to->len > GB_MEDIA_BYTES_MAX)
			return gb_media_too_long(err);
		if (n < READ_STEP)
			return 0;
	}
}

static int render(
	enum gb_media_detail detail, struct gb_media_result *ret, struct gb_err *err)
{
	gb_auto_done(gb_buf) in;
	int r;

	gb_buf_init(&in, GB_MEDIA_BYTES_MAX + READ_STEP);
	r = read_picture(&in, err);
	if (r < 0)
		return r;
	r = gb_media_render(in.data, in.len, detail, GB_MEDIA_PIXELS_MAX, ret, err);
	if (r == GB_E_NOMEM)
		return gb_fail(err, GB_E_LIMIT,
			"the picture takes more than %zu MiB of memory to decode: make it smaller",
			GB_MEDIA_MEMORY_MAX >> 20);
	return r;
}

static int answer(
	int code, const struct gb_err *why, const struct gb_media_result *result)
{
	struct gb_media_answer a = {.magic = GB_MEDIA_ANSWER_MAGIC, .code = code};
	const void *payload = result->data;

	if (code < 0) {
		payload = why->msg;
		a.len = strlen(why->msg);
	} else {
		a.format = result->format;
		a.width = result->width;
		a.height = result->height;
		a.source_width = result->source_width;
		a.source_height = result->source_height;
		a.unchanged = result->unchanged;
		a.len = result->len;
	}
	if (gb_fd_write_full(STDOUT_FILENO, &a, sizeof(a), NULL) < 0 ||
		gb_fd_write_full(STDOUT_FILENO, payload, (size_t)a.len, NULL) < 0)
		return 1;
	return 0;
}

static int self_test(struct gb_err *err)
{
	int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	unsigned int stages;
	int r = gb_media_jail(status, &stages, err);

	return r < 0 ? r : gb_media_selftest(status, stages, err);
}

int main(int argc, char **argv)
{
	static int log_fd = 2;
	struct options o = {0};
	struct gb_media_result result = {0};
	struct gb_err err = {0};
	unsigned int stages;
	int r = parse_options(argc, argv, &o, &err);

	gb_log_set_sink(gb_log_to_fd, &log_fd, GB_LOG_INFO);
	if (r == 0 && o.self_test)
		r = self_test(&err);
	if (r < 0 || o.self_test) {
		if (r < 0)
			gb_log(GB_LOG_ERROR, "picture decoder: %s", err.msg);
		return r < 0;
	}
	r = gb_media_jail(-1, &stages, &err);
	if (r == 0)
		r = render(o.detail, &result, &err);
	return answer(r, &err, &result);
}
