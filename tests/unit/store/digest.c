#include "scratch.h"
#include "base/fd.h"
#include "base/str.h"
#include "store/digest.h"

static const struct {
	const char *text;
	const char *hex;
} known[] = {
	{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
};

static void known_answers(void **state)
{
	struct gb_sha256 *s = NULL;
	char hex[GB_SHA256_HEX + 1];

	(void)state;
	assert_int_equal(gb_sha256_new(&s, NULL), 0);
	for (size_t i = 0; i < GB_ARRAY_SIZE(known); i++) {
		for (const char *c = known[i].text; *c; c++)
			gb_sha256_add(s, c, 1);
		assert_int_equal(gb_sha256_hex(s, hex, NULL), 0);
		assert_string_equal(hex, known[i].hex);
	}
	gb_sha256_free(s);
}

static int make(uint64_t size, uint64_t data_at, const char *data, bool zeroes)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/d", scratch);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -1;
	if (zeroes) {
		static const char zero[65536];

		for (uint64_t at = 0; at < size; at += sizeof(zero))
			if (pwrite(fd, zero, GB_MIN(sizeof(zero), size - at), (off_t)at) <
				0)
				return -1;
	}
	if (pwrite(fd, data, strlen(data), (off_t)data_at) < 0)
		return -1;
	return fd;
}

static void file_is_hashed_whole(void **state)
{
	char hex[GB_SHA256_HEX + 1];
	int fd = make(3, 0, "abc", false);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(gb_sha256_file(fd, hex, NULL), 0);
	assert_string_equal(hex, known[1].hex);
	close(fd);
}

static void sparse_says_what_the_file_says(void **state)
{
	static const struct {
		uint64_t size, at;
		const char *data;
	} other[] = {
		{(8 << 20) + 1, 5 << 20, "abc"},
		{8 << 20, (5 << 20) + 1, "abc"},
		{8 << 20, 5 << 20, "abd"},
	};
	char hole[GB_SHA256_HEX + 1], zero[GB_SHA256_HEX + 1];
	int fd = make(8 << 20, 5 << 20, "abc", false);

	(void)state;
	assert_int_equal(gb_sha256_sparse(fd, hole, NULL), 0);
	close(fd);
	fd = make(8 << 20, 5 << 20, "abc", true);
	assert_int_equal(gb_sha256_sparse(fd, zero, NULL), 0);
	close(fd);
	assert_string_equal(hole, zero);
	for (size_t i = 0; i < GB_ARRAY_SIZE(other); i++) {
		fd = make(other[i].size, other[i].at, other[i].data, false);
		assert_int_equal(gb_sha256_sparse(fd, zero, NULL), 0);
		assert_string_not_equal(hole, zero);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(file_is_hashed_whole),
		cmocka_unit_test(sparse_says_what_the_file_says),
	};

	return cmocka_run_group_tests_name(
		"digest", tests, scratch_setup, scratch_teardown);
}
