#include "../rows.h"
#include "../tmpdir.h"
#include "base/fd.h"
#include "vmm/qemu/console.h"

#include <string.h>
#include <sys/stat.h>

struct console_row {
	const char *name;
	bool file;
	uint64_t chunks; /* of 1000 bytes, each with its number */
	bool whole;      /* all of it is kept */
};

#define CHUNK 1000u

static const struct console_row rows[] = {
	{ "nothing", true, 0, true },
	{ "a little", true, 3, true },
	{ "the last that fits", true, GB_CONSOLE_FILE_MAX / CHUNK, true },
	{ "one more than fits", true, GB_CONSOLE_FILE_MAX / CHUNK + 1, false },
	{ "many times too much", true, 5 * GB_CONSOLE_FILE_MAX / CHUNK, false },
	{ "without a file", false, 2000, false },
};

static int say(struct gb_console *c, int peer, uint64_t number)
{
	char text[CHUNK + 1];

	memset(text, '.', CHUNK);
	snprintf(text, 16, "%014d", (int)number);
	text[14] = ' ';
	text[CHUNK - 1] = '\n';
	if (gb_fd_write_full(peer, text, CHUNK, NULL) < 0)
		return -1;
	return gb_console_pump(c) ? 0 : -1;
}

static void test_row(void **state)
{
	const struct console_row *row = *state;
	struct gb_console c = GB_CONSOLE_INIT;
	struct gb_buf text = { 0 };
	struct tmpdir t;
	char last[32];
	int peer = -1;

	assert_true(tmpdir_make(&t));
	assert_int_equal(gb_console_open(row->file ? tmpdir_at(&t, "log") : NULL, &c, &peer, NULL), 0);
	for (uint64_t i = 0; i < row->chunks; i++)
		assert_int_equal(say(&c, peer, i), 0);
	gb_fd_close(&peer);
	assert_false(gb_console_pump(&c));
	gb_console_done(&c);
	if (row->file) {
		gb_buf_init(&text, 0);
		/* one byte more than may be there is GB_E_LIMIT */
		assert_int_equal(gb_file_read(t.fd, "log", GB_CONSOLE_FILE_MAX, &text, NULL), 0);
		assert_int_equal(text.len == row->chunks * CHUNK, row->whole);
		snprintf(last, sizeof(last), "%014d ", (int)row->chunks - 1);
		if (row->chunks)
			assert_memory_equal(text.data + text.len - CHUNK, last, 15);
		gb_buf_done(&text);
	}
	assert_int_equal(tmpdir_remove(&t), 0);
}

/* A log is continued, and is not followed to where a link points. */
static void test_append(void **state)
{
	struct gb_console c = GB_CONSOLE_INIT;
	struct gb_buf text = { 0 };
	struct tmpdir t;
	int peer = -1;

	(void)state;
	assert_true(tmpdir_make(&t));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(gb_console_open(tmpdir_at(&t, "log"), &c, &peer, NULL), 0);
		assert_int_equal(write(peer, "x\n", 2), 2);
		assert_true(gb_console_pump(&c));
		gb_fd_close(&peer);
		gb_console_done(&c);
	}
	gb_buf_init(&text, 0);
	assert_int_equal(gb_file_read(t.fd, "log", 100, &text, NULL), 0);
	assert_string_equal((char *)text.data, "x\nx\n");
	gb_buf_done(&text);
	assert_int_equal(symlinkat("log", t.fd, "link"), 0);
	assert_true(gb_console_open(tmpdir_at(&t, "link"), &c, &peer, NULL) < 0);
	assert_int_equal(tmpdir_remove(&t), 0);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, rows, test_row);
	rows_add_one(&l, "a log is continued", test_append);
	return rows_run("vmm qemu console", &l);
}
