/* From a source to a published image. */
#include "../store/scratch.h"
#include "base/fd.h"
#include "image/image.h"
#include "image/import.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TAR "tar:" GB_TEST_DATA "/tar/"

static int import(const char *source, const char *name,
	char digest[GB_IMPORT_DIGEST_LEN + 1], struct gb_err *err)
{
	struct gb_import i = {
		.data_dir = scratch, .source = source, .name = name, .cancel_fd = -1};

	return gb_image_import(&i, digest, err);
}

/* Nothing but whole images and names. */
static bool nothing_left(void)
{
	char path[300];
	DIR *d;
	struct dirent *e;
	bool clean = true;

	snprintf(path, sizeof(path), "%s/images", scratch);
	d = opendir(path);
	while (d && (e = readdir(d)))
		clean &= strncmp(e->d_name, ".tmp", 4) != 0 &&
			 strncmp(e->d_name, ".lock", 5) != 0;
	if (d)
		closedir(d);
	return clean;
}

static void same_content_is_the_same_image(void **state)
{
	char first[GB_IMPORT_DIGEST_LEN + 1];
	char again[GB_IMPORT_DIGEST_LEN + 1];
	struct gb_image image = {0};
	struct gb_err err = {0};
	struct stat st;

	(void)state;
	assert_int_equal(import(TAR "hardlink.tar", "one", first, &err), 0);
	assert_int_equal(import(TAR "hardlink.tar", "two", again, &err), 0);
	assert_string_equal(first, again);
	assert_int_equal(gb_image_find(scratch, "two", &image, &err), 0);
	assert_int_equal(image.names.n, 2);
	assert_string_equal(image.digest, first);
	assert_string_equal(image.source, TAR "hardlink.tar");
	assert_string_equal(image.user, "");
	assert_int_equal(image.env.n, 0);
	assert_int_equal(stat(image.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_true((uint64_t)st.st_size == image.size);
	gb_image_done(&image);
	assert_true(nothing_left());
}

static void a_name_moves_to_what_was_imported_last(void **state)
{
	char first[GB_IMPORT_DIGEST_LEN + 1];
	char second[GB_IMPORT_DIGEST_LEN + 1];
	struct gb_image image = {0};

	(void)state;
	assert_int_equal(import(TAR "hardlink.tar", "n", first, NULL), 0);
	assert_int_equal(import(TAR "whole.tar.gz", "n", second, NULL), 0);
	assert_string_not_equal(first, second);
	assert_int_equal(gb_image_find(scratch, "n", &image, NULL), 0);
	assert_string_equal(image.digest, second);
	gb_image_done(&image);
	assert_int_equal(gb_image_find(scratch, first, &image, NULL), 0);
	gb_image_done(&image);
}

struct failure {
	const char *name;
	const char *source;
	int code;
	const char *message;
};

static const struct failure failures[] = {
	{"an empty archive", TAR "empty.tar", GB_E_PARSE, "the archive is empty"},
	{"an archive cut in its content", TAR "cut-in-content.tar", GB_E_PARSE,
		"entry 'f'"},
	{"an archive with dot dot", TAR "dotdot.tar", GB_E_DENIED, "'..'"},
	{"a missing archive", TAR "none.tar", GB_E_NOTFOUND, "none.tar"},
	{"a folder as an archive", "tar:/", GB_E_INVALID, "use 'rootfs:/'"},
	{"a file as a folder", "rootfs:" GB_TEST_DATA "/tar/empty.tar", GB_E_IO,
		"empty.tar"},
	{"no such kind of source", "oci:x", GB_E_INVALID, "rootfs:DIR"},
	{"no source", "", GB_E_INVALID, "rootfs:DIR"},
	{"a suite that is an option", "debootstrap:--help", GB_E_INVALID, "bad suite"},
	{"an include that is an option", "debootstrap:x?include=-o", GB_E_INVALID,
		"bad include"},
	{"an include with a space", "debootstrap:x?include=a b", GB_E_INVALID,
		"bad include"},
	{"an option nobody knows", "debootstrap:x?mirror=y", GB_E_INVALID, "no option"},
	{"a variant nobody knows", "debootstrap:x?variant=y", GB_E_INVALID, "no variant"},
};

static void failure(void **state)
{
	const struct failure *row = *state;
	char digest[GB_IMPORT_DIGEST_LEN + 1];
	struct gb_image none = {0};
	struct gb_err err = {0};
	int r = import(row->source, "name", digest, &err);

	if (row->code == GB_E_IO) /* whichever code ENOTDIR has */
		assert_true(r < 0);
	else
		assert_int_equal(r, row->code);
	assert_non_null(strstr(err.msg, row->message));
	assert_int_equal(gb_image_find(scratch, "name", &none, NULL), GB_E_NOTFOUND);
	assert_true(nothing_left());
}

static void a_cancel_leaves_nothing(void **state)
{
	int p[2];
	char digest[GB_IMPORT_DIGEST_LEN + 1];
	struct gb_import i = {.data_dir = scratch, .source = TAR "hardlink.tar"};
	struct gb_err err;

	(void)state;
	assert_int_equal(pipe(p), 0);
	i.cancel_fd = p[0];
	assert_int_equal(write(p[1], "x", 1), 1);
	assert_int_equal(gb_image_import(&i, digest, &err), GB_E_CANCELLED);
	assert_true(nothing_left());
	close(p[0]);
	close(p[1]);
}

struct worker {
	pthread_t thread;
	char digest[GB_IMPORT_DIGEST_LEN + 1];
	int result;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	w->result = import(TAR "capability.tar", "same", w->digest, NULL);
	return NULL;
}

static void four_at_once_make_one(void **state)
{
	struct worker w[4] = {0};

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(w); i++)
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	for (size_t i = 0; i < GB_ARRAY_SIZE(w); i++)
		pthread_join(w[i].thread, NULL);
	for (size_t i = 0; i < GB_ARRAY_SIZE(w); i++) {
		assert_int_equal(w[i].result, 0);
		assert_string_equal(w[i].digest, w[0].digest);
	}
	assert_true(nothing_left());
}

static int touch(const char *folder, const char *name, const char *text, mode_t mode)
{
	gb_auto_free char *path = gb_path_join(folder, name);

	return path ? gb_file_write_atomic(AT_FDCWD, path, text, strlen(text), mode, NULL)
		    : -1;
}

static int make_folder(const char *root)
{
	char a[400], b[400];
	struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 5, .tv_nsec = 7}};

	snprintf(a, sizeof(a), "%s/sub/deeper", root);
	if (gb_mkdir_p(a, 0755, NULL) < 0 || touch(root, "file", "hello", 0640) < 0 ||
		touch(a, "tool", "#!/bin/sh\n", 04755) < 0)
		return -1;
	snprintf(a, sizeof(a), "%s/file", root);
	snprintf(b, sizeof(b), "%s/sub/linked", root);
	if (link(a, b) < 0 || utimensat(AT_FDCWD, a, times, 0) < 0)
		return -1;
	if (setxattr(a, "user.note", "x", 1, 0) < 0 && errno != ENOTSUP)
		return -1;
	snprintf(b, sizeof(b), "%s/sub/sym", root);
	if (symlink("../file", b) < 0)
		return -1;
	snprintf(b, sizeof(b), "%s/sub/fifo", root);
	return mkfifo(b, 0600);
}

static char *debugfs(const char *image, const char *request)
{
	static char text[8192];
	char command[1000];
	FILE *f;
	size_t n;

	snprintf(command, sizeof(command),
		"PATH=$PATH:/sbin:/usr/sbin; debugfs -R '%s' '%s' 2>/dev/null", request,
		image);
	f = popen(command, "re");
	if (!f)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	return pclose(f) == 0 ? text : NULL;
}

static void a_folder_is_taken_as_it_is(void **state)
{
	char root[300], source[400], digest[GB_IMPORT_DIGEST_LEN + 1];
	struct gb_image image = {0};
	struct gb_err err = {0};
	char *text;

	(void)state;
	snprintf(root, sizeof(root), "%s/root", scratch);
	snprintf(source, sizeof(source), "rootfs:%s", root);
	assert_int_equal(make_folder(root), 0);
	assert_int_equal(import(source, "folder", digest, &err), 0);
	assert_int_equal(gb_image_find(scratch, "folder", &image, NULL), 0);
	text = debugfs(image.path, "stat /file");
	if (!text)
		print_message("no debugfs: the content is not checked\n");
	if (text) {
		assert_non_null(strstr(text, "Mode:  0640"));
		assert_non_null(strstr(text, "Links: 2"));
		assert_non_null(strstr(text, "mtime: 0x00000005:0000001c"));
		assert_string_equal(debugfs(image.path, "cat /sub/linked"), "hello");
		assert_non_null(
			strstr(debugfs(image.path, "stat /sub/sym"), "\"../file\""));
		assert_non_null(strstr(debugfs(image.path, "stat /sub/fifo"), "FIFO"));
		assert_non_null(strstr(
			debugfs(image.path, "stat /sub/deeper/tool"), "Mode:  04755"));
	}
	gb_image_done(&image);
}

#define FIXED 5
int main(void)
{
	static struct CMUnitTest tests[GB_ARRAY_SIZE(failures) + FIXED];
	const struct CMUnitTest fixed[FIXED] = {
		cmocka_unit_test(same_content_is_the_same_image),
		cmocka_unit_test(a_name_moves_to_what_was_imported_last),
		cmocka_unit_test(a_cancel_leaves_nothing),
		cmocka_unit_test(four_at_once_make_one),
		cmocka_unit_test(a_folder_is_taken_as_it_is),
	};

	for (size_t i = 0; i < GB_ARRAY_SIZE(failures); i++)
		tests[i] = (struct CMUnitTest){.name = failures[i].name,
			.test_func = failure,
			.initial_state = (void *)&failures[i]};
	memcpy(tests + GB_ARRAY_SIZE(failures), fixed, sizeof(fixed));
	return cmocka_run_group_tests_name(
		"import", tests, scratch_setup, scratch_teardown);
}
