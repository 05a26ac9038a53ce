/* The store of images, with images made by hand. */
#include "../store/scratch.h"
#include "base/fd.h"
#include "image/image.h"

#include <sys/stat.h>
#include <unistd.h>

#define A "aaaaaa1111aaaaaa1111aaaaaa1111aaaaaa1111aaaaaa1111aaaaaa1111aaaa"
#define B "aaaaaa2222aaaaaa2222aaaaaa2222aaaaaa2222aaaaaa2222aaaaaa2222aaaa"

/* A data folder that does not exist. */
static const char *none(void)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/none", scratch);
	return path;
}

static int put(const char *digest, const char *json)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/images/%s", scratch, digest);
	if (gb_mkdir_p(path, 0755, NULL) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/images/%s/root.ext4", scratch, digest);
	if (gb_file_write_atomic(AT_FDCWD, path, "disk", 4, 0444, NULL) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/images/%s/image.json", scratch, digest);
	return gb_file_write_atomic(AT_FDCWD, path, json, strlen(json), 0444, NULL);
}

static int setup(void **state)
{
	if (scratch_setup(state) < 0)
		return -1;
	return put(A, "{\"source\": \"tar:a\", \"user\": \"bob\", \"workdir\": \"/w\", "
		      "\"env\": [\"K=V\"], \"size\": 4, \"created\": 2}") == 0 &&
			       put(B, "{\"source\": \"tar:b\", \"user\": \"\", "
				      "\"workdir\": \"\", "
				      "\"env\": [], \"size\": 4, \"created\": 1}") == 0 &&
			       gb_image_set_name(scratch, "deb", A, NULL) == 0 &&
			       gb_image_set_name(scratch, "alias", A, NULL) == 0
		       ? 0
		       : -1;
}

/* The row is the state already. */
static int setup_row(void **state)
{
	void *none = NULL;

	(void)state;
	return setup(&none);
}

struct find_row {
	const char *name;
	const char *ref;
	int code;
	const char *expect; /* the digest, or part of the message */
};

static const struct find_row finds[] = {
	{"by name", "deb", 0, A},
	{"by digest", B, 0, B},
	{"by a prefix of seven", "aaaaaa1", 0, A},
	{"by a prefix of two images", "aaaaaa", GB_E_INVALID, "more than one"},
	{"by too short a prefix", "aaaaa", GB_E_NOTFOUND, "no image 'aaaaa'"},
	{"by a slip of a name", "debb", GB_E_NOTFOUND, "did you mean 'deb'"},
	{"by a name that nobody has", "something-else", GB_E_NOTFOUND, "image ls"},
	{"by a digest that nobody has", "bbbbbbbb", GB_E_NOTFOUND, "no image"},
	{"by a path", "../images/" A, GB_E_NOTFOUND, "no image"},
	{"by nothing", "", GB_E_NOTFOUND, "no image"},
};

static void find(void **state)
{
	const struct find_row *row = *state;
	struct gb_image image = {0};
	struct gb_err err;
	int r = gb_image_find(scratch, row->ref, &image, &err);

	assert_int_equal(r, row->code);
	if (r == 0)
		assert_string_equal(image.digest, row->expect);
	else
		assert_non_null(strstr(err.msg, row->expect));
	gb_image_done(&image);
}

static void all_is_told(void **state)
{
	struct gb_image image = {0};

	(void)state;
	assert_int_equal(gb_image_find(scratch, "deb", &image, NULL), 0);
	assert_string_equal(image.source, "tar:a");
	assert_string_equal(image.user, "bob");
	assert_string_equal(image.workdir, "/w");
	assert_int_equal(image.env.n, 1);
	assert_string_equal(image.env.v[0], "K=V");
	assert_int_equal(image.names.n, 2);
	assert_int_equal(image.size, 4);
	assert_int_equal(image.created_s, 2);
	assert_non_null(strstr(image.path, A "/root.ext4"));
	gb_image_done(&image);
}

static int collect(void *ctx, const struct gb_image *i)
{
	char *text = ctx;

	text[strlen(text)] = i->source[4];
	return 0;
}

static int stop_at_first(void *ctx, const struct gb_image *i)
{
	collect(ctx, i);
	return 7;
}

static void the_oldest_is_listed_first(void **state)
{
	char text[10] = {0};

	(void)state;
	assert_int_equal(gb_image_list(scratch, collect, text, NULL), 0);
	assert_string_equal(text, "ba");
	assert_int_equal(gb_image_list(scratch, stop_at_first, text, NULL), 7);
	assert_string_equal(text, "bab");
	assert_int_equal(gb_image_list(none(), collect, text, NULL), 0);
	assert_string_equal(text, "bab");
}

static const char *const damages[] = {"", "{}", "[1]", "{\"source\": 1}", "\377",
	"{\"source\": \"s\", \"user\": \"\", \"workdir\": \"\", \"env\": [3], \"size\": "
	"1, "
	"\"created\": 1}",
	"{\"source\": \"s\", \"user\": \"\", \"workdir\": \"\", \"env\": [], \"size\": "
	"-1, "
	"\"created\": 1}"};

static void a_damaged_one_hides_nothing_and_can_go(void **state)
{
	static const char digest[] =
		"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(damages); i++) {
		struct gb_image image = {0};
		char text[10] = {0};
		struct gb_err err;

		assert_int_equal(put(digest, damages[i]), 0);
		assert_int_equal(
			gb_image_find(scratch, digest, &image, &err), GB_E_PARSE);
		assert_non_null(strstr(err.msg, "image cccccccccccc"));
		assert_int_equal(gb_image_list(scratch, collect, text, NULL), 0);
		assert_string_equal(text, "ba");
		assert_int_equal(gb_image_remove(scratch, digest, &err), 0);
		assert_int_equal(
			gb_image_find(scratch, digest, &image, &err), GB_E_NOTFOUND);
	}
}

static bool is_there(const char *ref)
{
	struct gb_image image = {0};
	bool found = gb_image_find(scratch, ref, &image, NULL) == 0;

	gb_image_done(&image);
	return found;
}

static void it_goes_with_its_last_name_or_whole(void **state)
{
	struct gb_err err;

	(void)state;
	assert_int_equal(gb_image_set_name(scratch, "b1", B, &err), 0);
	assert_int_equal(gb_image_set_name(scratch, "b2", B, &err), 0);
	assert_int_equal(gb_image_remove(scratch, "b1", &err), 0);
	assert_false(is_there("b1"));
	assert_true(is_there(B));
	assert_int_equal(gb_image_remove(scratch, "b2", &err), 0);
	assert_false(is_there(B));
	assert_int_equal(gb_image_remove(scratch, "aaaaaa1", &err), 0);
	assert_false(is_there("deb"));
	assert_false(is_there("alias"));
	assert_int_equal(gb_image_remove(scratch, "deb", &err), GB_E_NOTFOUND);
	assert_int_equal(gb_image_remove(none(), "deb", &err), GB_E_NOTFOUND);
}

static void a_name_moves_and_never_dangles(void **state)
{
	struct gb_image image = {0};
	struct gb_err err;

	(void)state;
	assert_int_equal(gb_image_set_name(scratch, "moves", A, &err), 0);
	assert_int_equal(gb_image_set_name(scratch, "moves", B, &err), 0);
	assert_int_equal(gb_image_find(scratch, "moves", &image, &err), 0);
	assert_string_equal(image.digest, B);
	gb_image_done(&image);
	assert_int_equal(gb_image_set_name(scratch, "a/b", A, &err), GB_E_INVALID);
	assert_int_equal(
		gb_image_set_name(scratch, "x",
			"dddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
			"dddddddd",
			&err),
		GB_E_NOTFOUND);
	assert_int_equal(gb_image_remove(scratch, "moves", &err), 0);
}

#define FIXED 5
int main(void)
{
	static struct CMUnitTest tests[GB_ARRAY_SIZE(finds) + FIXED];
	const struct CMUnitTest fixed[FIXED] = {
		cmocka_unit_test_setup_teardown(all_is_told, setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(
			the_oldest_is_listed_first, setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(
			a_damaged_one_hides_nothing_and_can_go, setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(
			a_name_moves_and_never_dangles, setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(
			it_goes_with_its_last_name_or_whole, setup, scratch_teardown),
	};

	for (size_t i = 0; i < GB_ARRAY_SIZE(finds); i++)
		tests[i] = (struct CMUnitTest){.name = finds[i].name,
			.test_func = find,
			.setup_func = setup_row,
			.teardown_func = scratch_teardown,
			.initial_state = (void *)&finds[i]};
	memcpy(tests + GB_ARRAY_SIZE(finds), fixed, sizeof(fixed));
	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
