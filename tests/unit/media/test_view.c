/* The decoder as its own process: what it answers, and what becomes of one that hangs, dies or
 * lies. The folder of the role executable is argv[1]. */
#include "pictures.h"
#include "rows.h"
#include "tmpdir.h"

#include "base/clock.h"
#include "base/fd.h"
#include "media/answer.h"
#include "media/media.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEADLINE gb_deadline_ms(60000)

static const char *roles;

struct row {
	const char *name;
	picture_maker *make;
	struct wish wish;
	enum gb_media_detail detail;
	enum gb_media_format becomes;
	uint32_t width, height;
};

static const struct row rows[] = {
	{ "png", make_png, { 30, 20, ALPHA, 0 }, GB_MEDIA_HIGH, GB_MEDIA_PNG, 30, 20 },
	{ "png reduced", make_png, { 2500, 90, 0, 0 }, GB_MEDIA_HIGH, GB_MEDIA_PNG, 2048, 74 },
	{ "png original", make_png, { 2500, 90, 0, 0 }, GB_MEDIA_ORIGINAL, GB_MEDIA_PNG, 2500,
		90 },
	{ "png interlaced", make_png, { 2500, 90, INTERLACED, 0 }, GB_MEDIA_HIGH, GB_MEDIA_PNG,
		2048, 74 },
	{ "jpeg", make_jpeg, { 30, 20, 0, 0 }, GB_MEDIA_HIGH, GB_MEDIA_JPEG, 30, 20 },
	{ "jpeg turned", make_jpeg, { 30, 20, 0, 8 }, GB_MEDIA_HIGH, GB_MEDIA_JPEG, 20, 30 },
	{ "jpeg cmyk", make_jpeg, { 2500, 90, CMYK, 0 }, GB_MEDIA_HIGH, GB_MEDIA_JPEG, 2048,
		74 },
	{ "jpeg progressive", make_jpeg, { 2500, 90, INTERLACED, 0 }, GB_MEDIA_HIGH,
		GB_MEDIA_JPEG, 2048, 74 },
	{ "webp", make_webp, { 30, 20, LOSSY, 0 }, GB_MEDIA_HIGH, GB_MEDIA_WEBP, 30, 20 },
	{ "webp reduced", make_webp, { 2500, 90, ICC, 3 }, GB_MEDIA_HIGH, GB_MEDIA_WEBP, 2048,
		74 },
	{ "webp animated", make_webp, { 30, 20, ANIMATED, 0 }, GB_MEDIA_HIGH, GB_MEDIA_WEBP, 30,
		20 },
	{ "gif", make_gif, { 30, 20, ANIMATED, 0 }, GB_MEDIA_HIGH, GB_MEDIA_PNG, 30, 20 },
	{ "bmp", make_bmp, { 30, 20, RLE, 0 }, GB_MEDIA_HIGH, GB_MEDIA_PNG, 30, 20 },
	{ "pnm", make_pnm, { 30, 20, TEXT, 0 }, GB_MEDIA_HIGH, GB_MEDIA_PNG, 30, 20 },
};

static void no_children(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void test_kinds(void **state)
{
	const struct row *row = *state;
	struct gb_buf file = { 0 };
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	bool same;
	int r;

	row->make(&row->wish, &file);
	r = gb_media_view(file.data, file.len, row->detail, DEADLINE, &result, &err);
	same = result.len == file.len && memcmp(result.data, file.data, file.len) == 0;
	gb_buf_done(&file);
	free(gb_take_ptr(result.data));
	if (r < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(result.format, row->becomes);
	assert_int_equal(result.width, row->width);
	assert_int_equal(result.height, row->height);
	assert_int_equal(result.source_width, row->wish.width);
	assert_int_equal(result.source_height, row->wish.height);
	assert_int_equal(result.unchanged, same);
	no_children();
}

/* A pipe that is filled while the decoder reads, as a guest's answer comes in. */
static void test_streamed(void **state)
{
	struct wish w = { 400, 400, 0, 0 };
	struct gb_buf file = { 0 };
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	int pair[2], r;
	pid_t feeder;

	(void)state;
	make_bmp(&w, &file); /* more than a pipe holds */
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	feeder = fork();
	if (feeder == 0) {
		close(pair[0]);
		_exit(gb_fd_write_full(pair[1], file.data, file.len, NULL) < 0);
	}
	close(pair[1]);
	r = gb_media_view_fd(pair[0], GB_MEDIA_HIGH, DEADLINE, &result, &err);
	close(pair[0]);
	gb_buf_done(&file);
	waitpid(feeder, NULL, 0);
	free(gb_take_ptr(result.data));
	if (r < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(result.width, 400);
	no_children();
}

/* A guest that never ends its answer. */
static void test_deadline(void **state)
{
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	int pair[2], r;

	(void)state;
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	r = gb_media_view_fd(pair[0], GB_MEDIA_HIGH, gb_deadline_ms(300), &result, &err);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(r, GB_E_TIMEOUT);
	assert_string_equal(err.msg, "decoding the picture: timed out");
	assert_null(result.data);
	no_children();
}

struct fail_row {
	const char *name;
	const char *bytes;
	size_t len;
	int code;
	const char *says;
};
#define B(text) text, sizeof(text) - 1

static const struct fail_row fail_rows[] = {
	{ "text is refused", B("hello"), GB_E_UNSUPPORTED, "not a picture: PNG, JPEG, GIF" },
	{ "no bytes are refused", B(""), GB_E_UNSUPPORTED, "an empty file is not a picture" },
	{ "a broken png", B("\x89PNG\r\n\x1a\n...."), GB_E_PARSE, "cannot decode this PNG: " },
	{ "a png cut off", B("\x89PNG\r\n\x1a\n\0\0\0\15IHDR\0\0\0\1"), GB_E_PARSE,
		"cannot decode this PNG: it ends too early" },
	{ "a large ppm", B("P6 60000 60000 255\n"), GB_E_LIMIT, "60000 x 60000 pixels" },
};

static void test_failures(void **state)
{
	const struct fail_row *row = *state;
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	int r = gb_media_view(row->bytes, row->len, GB_MEDIA_HIGH, DEADLINE, &result, &err);

	if (r != row->code || !strstr(err.msg, row->says))
		fail_msg("%d '%s'", r, err.msg);
	assert_null(result.data);
	no_children();
}

/* The last length that is read, and the first that is not; in both ways. */
static void test_too_long(void **state)
{
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	uint8_t *bytes = calloc(1, GB_MEDIA_BYTES_MAX + 1);
	int fd = memfd_create("picture", MFD_CLOEXEC);
	int whole, over, over_fd;

	(void)state;
	assert_non_null(bytes);
	memcpy(bytes, "P6 1 1 255\nabc", 14);
	whole = gb_media_view(bytes, GB_MEDIA_BYTES_MAX, GB_MEDIA_HIGH, DEADLINE, &result, &err);
	free(gb_take_ptr(result.data));
	over = gb_media_view(
		bytes, GB_MEDIA_BYTES_MAX + 1, GB_MEDIA_HIGH, DEADLINE, &result, NULL);
	gb_fd_write_full(fd, bytes, GB_MEDIA_BYTES_MAX + 1, NULL);
	lseek(fd, 0, SEEK_SET);
	over_fd = gb_media_view_fd(fd, GB_MEDIA_HIGH, DEADLINE, &result, &err);
	free(bytes);
	close(fd);
	assert_int_equal(whole, 0);
	assert_int_equal(over, GB_E_LIMIT);
	assert_int_equal(over_fd, GB_E_LIMIT);
	assert_non_null(strstr(err.msg, "more than 25164258 bytes"));
	no_children();
}

/* Every beginning of a small file ends in one line, in the real process. */
static void test_cut_off(void **state)
{
	static picture_maker *const makers[] = { make_png, make_jpeg, make_gif, make_webp, make_bmp,
		make_pnm };
	struct wish w = { 4, 4, 0, 0 };

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(makers); i++) {
		struct gb_buf file = { 0 };

		makers[i](&w, &file);
		for (size_t n = 1; n < file.len; n += 1 + file.len / 24) {
			struct gb_media_result result = { 0 };
			struct gb_err err = { 0 };
			int r = gb_media_view(
				file.data, n, GB_MEDIA_HIGH, DEADLINE, &result, &err);

			gb_media_result_done(&result);
			if (r == 0 && makers[i] == make_gif)
				continue;
			if (r != GB_E_PARSE && r != GB_E_UNSUPPORTED)
				fail_msg("maker %zu, %zu bytes: %d '%s'", i, n, r, err.msg);
		}
		gb_buf_done(&file);
	}
	no_children();
}

struct liar_row {
	const char *name;
	const char *script; /* of a decoder that was taken over */
	int code;
	const char *says;
};

/* header: magic, code, format, width, height, source width, source height, unchanged, length */
#define HEAD  "printf 'MBI1"
#define ZERO4 "\\0\\0\\0\\0"
#define ONE4  "\\1\\0\\0\\0"
#define PNG1  ZERO4 ONE4 ONE4 ONE4 ONE4 ONE4 ONE4

static const struct liar_row liar_rows[] = {
	{ "says nothing", "exit 0", GB_E_IO, "ended without an answer: exited with 0" },
	{ "fails", "exit 3", GB_E_IO, "exited with 3" },
	{ "is killed", "kill -9 $$", GB_E_IO, "killed by signal 9" },
	{ "takes too much time", "kill -XCPU $$", GB_E_LIMIT, "takes too long to decode" },
	{ "has another magic", "printf 'XXXX'; head -c 36 /dev/zero", GB_E_PROTOCOL, "no sense" },
	{ "says half a header", HEAD "'", GB_E_IO, "without an answer" },
	{ "has no length", HEAD PNG1 ZERO4 ZERO4 "'", GB_E_PROTOCOL, "no sense" },
	{ "has a length of 2^63", HEAD PNG1 "\\0\\0\\0\\0\\0\\0\\0\\200'", GB_E_PROTOCOL,
		"no sense" },
	{ "sends less than it says", HEAD PNG1 "\\10\\0\\0\\0" ZERO4 "abc'", GB_E_IO,
		"without an answer" },
	{ "calls text a png", HEAD PNG1 "\\3\\0\\0\\0" ZERO4 "abc'", GB_E_PROTOCOL, "no sense" },
	{ "sends a gif",
		HEAD ZERO4 "\\3\\0\\0\\0" ONE4 ONE4 ONE4 ONE4 ONE4 "\\6\\0\\0\\0" ZERO4 "GIF89a'",
		GB_E_PROTOCOL, "no sense" },
	{ "shows what is too large",
		HEAD ZERO4 ONE4 "\\0\\0\\1\\0" ONE4 ONE4 ONE4 ONE4 "\\10\\0\\0\\0" ZERO4
		     "\\211PNG\\r\\n\\032\\n'",
		GB_E_PROTOCOL, "no sense" },
	{ "has a message that drives the terminal",
		HEAD "\\376\\377\\377\\377" ZERO4 ZERO4 ZERO4 ZERO4 ZERO4 ZERO4 "\\4\\0\\0\\0" ZERO4
		     "a\\033\\nb'",
		GB_E_PARSE, "a??b" },
	{ "has a long message",
		HEAD "\\376\\377\\377\\377" ZERO4 ZERO4 ZERO4 ZERO4 ZERO4 ZERO4 "\\0\\2\\0\\0" ZERO4
		     "'; head -c 512 /dev/zero",
		GB_E_PROTOCOL, "no sense" },
	{ "has an unknown code",
		HEAD "\\0\\377\\377\\377" ZERO4 ZERO4 ZERO4 ZERO4 ZERO4 ZERO4 "\\1\\0\\0\\0" ZERO4
		     "a'",
		GB_E_PROTOCOL, "no sense" },
};

static void test_liar(void **state)
{
	const struct liar_row *row = *state;
	struct gb_media_result result = { 0 };
	struct gb_err err = { 0 };
	struct tmpdir t;
	char script[1000];
	int fd, r;

	assert_true(tmpdir_make(&t));
	snprintf(script, sizeof(script), "#!/bin/sh\n%s\n", row->script);
	fd = openat(t.fd, "glovebox-media", O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	gb_fd_write_full(fd, script, strlen(script), NULL);
	close(fd);
	setenv("GLOVEBOX_LIBEXEC", t.path, 1);
	r = gb_media_view("P6 1 1 255\nabc", 14, GB_MEDIA_HIGH, DEADLINE, &result, &err);
	setenv("GLOVEBOX_LIBEXEC", roles, 1);
	tmpdir_remove(&t);
	if (r != row->code || !strstr(err.msg, row->says))
		fail_msg("%d '%s'", r, err.msg);
	assert_null(result.data);
	no_children();
}

/* Descriptors are as many as before. */
static void test_leaks_nothing(void **state)
{
	struct gb_media_result result = { 0 };
	int before = dup(0), after;

	(void)state;
	close(before);
	for (int i = 0; i < 20; i++) {
		gb_media_view(i % 2 ? "P6 1 1 255\nabc" : "P6 1 1 255\nab", i % 2 ? 14 : 13,
			GB_MEDIA_HIGH, DEADLINE, &result, NULL);
		gb_media_result_done(&result);
	}
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	no_children();
}

int main(int argc, char **argv)
{
	static struct rows_list l;

	if (argc < 2)
		return 2;
	roles = argv[1];
	setenv("GLOVEBOX_LIBEXEC", roles, 1);
	rows_add(&l, rows, test_kinds);
	rows_add_one(&l, "through a pipe", test_streamed);
	rows_add_one(&l, "the deadline", test_deadline);
	rows_add(&l, fail_rows, test_failures);
	rows_add_one(&l, "too many bytes", test_too_long);
	rows_add_one(&l, "cut off", test_cut_off);
	rows_add(&l, liar_rows, test_liar);
	rows_add_one(&l, "leaks nothing", test_leaks_nothing);
	return rows_run("media-view", &l);
}
