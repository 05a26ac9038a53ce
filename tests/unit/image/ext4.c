/* What the ext4 writer writes, read back by e2fsprogs: e2fsck must find nothing at all to
 * say, debugfs must find what was put. Needs no privilege. */
#include "../store/scratch.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/disk/ext4.h"
#include "store/digest.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A source that is a list. Content: size bytes of a pattern, in pieces, with holes. */
#define ITEMS_MAX 6000
struct item {
	struct gb_tree_entry e;
	uint32_t piece; /* bytes of data… */
	uint64_t gap;	/* …then so many of hole; 0: none */
};
struct list_source {
	struct gb_tree_source base;
	struct item *items; /* borrowed */
	size_t count, at;
	uint64_t offset;
	uint8_t data[8192];
};

static int list_next(
	struct gb_tree_source *base, struct gb_tree_entry *ret, struct gb_err *err)
{
	struct list_source *s = (struct list_source *)base;

	(void)err;
	if (s->at == s->count)
		return 0;
	*ret = s->items[s->at++].e;
	s->offset = 0;
	return 1;
}

static int list_data(struct gb_tree_source *base, const void **ret_data, size_t *ret_len,
	uint64_t *ret_offset, struct gb_err *err)
{
	struct list_source *s = (struct list_source *)base;
	const struct item *i = &s->items[s->at - 1];

	(void)err;
	if (s->offset >= i->e.size)
		return 0;
	*ret_offset = s->offset;
	*ret_len = (size_t)GB_MIN(
		(uint64_t)(i->piece ? i->piece : 7000), i->e.size - s->offset);
	for (size_t k = 0; k < *ret_len; k++)
		s->data[k] = (uint8_t)('a' + (s->offset + k) % 23);
	*ret_data = s->data;
	s->offset += *ret_len + i->gap;
	return 1;
}

static void list_free(struct gb_tree_source *base)
{
	(void)base;
}

static const struct gb_tree_ops list_ops = {list_next, list_data, list_free};

static char disk[300];

static int no_disk(void **state)
{
	(void)state;
	snprintf(disk, sizeof(disk), "%s/root.ext4", scratch);
	unlink(disk);
	return 0;
}

static int write_disk(
	struct item *items, size_t count, uint64_t *ret_size, struct gb_err *err)
{
	gb_auto(gb_ext4) *e = NULL;
	struct list_source s = {.base = {&list_ops}, .items = items, .count = count};
	int r = gb_ext4_new(disk, &e, err);

	if (r == 0)
		r = gb_ext4_add(e, &s.base, NULL, NULL, err);
	return r < 0 ? r : gb_ext4_finish(e, ret_size, err);
}

/* Output of a shell command in the scratch folder, "%s" being the disk; NULL: it failed.
 */
static char *output(const char *format, ...) GB_PRINTF(1, 2);
static char *output(const char *format, ...)
{
	static char text[65536];
	char command[2048];
	va_list ap;
	size_t n;
	FILE *f;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	f = popen(command, "re");
	if (!f)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	return pclose(f) == 0 ? text : NULL;
}

static bool have_tools(void)
{
	if (output("PATH=$PATH:/sbin:/usr/sbin; command -v e2fsck && command -v debugfs"))
		return true;
	print_message("no e2fsprogs: nothing is checked\n");
	return false;
}

static void assert_clean(void)
{
	char *text = output("PATH=$PATH:/sbin:/usr/sbin; e2fsck -fn '%s' 2>&1", disk);

	if (!text || strstr(text, "non-contiguous") == NULL || strstr(text, "?"))
		fail_msg(
			"e2fsck is not content: %s", output("PATH=$PATH:/sbin:/usr/sbin; "
							    "e2fsck -fn '%s' 2>&1; true",
							     disk));
}

static char *debugfs(const char *request)
{
	return output("PATH=$PATH:/sbin:/usr/sbin; debugfs -R '%s' '%s' 2>/dev/null",
		request, disk);
}

static void assert_stat(const char *path, const char *part)
{
	char request[6000];
	char *text;

	snprintf(request, sizeof(request), "stat \"%s\"", path);
	text = debugfs(request);
	assert_non_null(text);
	if (!strstr(text, part))
		fail_msg("'%s' is not in the stat of %s: %s", part, path, text);
}

static void an_empty_one_is_clean_and_grows(void **state)
{
	struct gb_err err = {0};
	uint64_t size = 0;
	struct stat st;
	char *text;

	(void)state;
	if (!have_tools())
		skip();
	assert_int_equal(write_disk(NULL, 0, &size, &err), 0);
	assert_int_equal(stat(disk, &st), 0);
	assert_true((uint64_t)st.st_size == size);
	assert_true(size % (128 << 20) == 0);
	assert_true(st.st_blocks * 512 < 4 << 20);
	assert_clean();
	assert_stat("/", "Mode:  0755");
	assert_stat("/lost+found", "Inode: 11 ");
	/* descriptors and what is reserved for them reach to 1 TiB */
	text = debugfs("show_super_stats -h");
	assert_non_null(strstr(text, "Reserved GDT blocks:      127"));
	assert_non_null(strstr(text, "metadata_csum"));
}

static char *repeat(char c, size_t n)
{
	char *s = malloc(n + 1);

	if (s) {
		memset(s, c, n);
		s[n] = 0;
	}
	return s;
}

static const size_t link_lengths[] = {1, 59, 60, 61, 300, 4095};

static void links_of_every_length(void **state)
{
	struct item items[GB_ARRAY_SIZE(link_lengths)] = {0};
	char *targets[GB_ARRAY_SIZE(link_lengths)];
	char paths[GB_ARRAY_SIZE(link_lengths)][16];
	uint64_t size;

	(void)state;
	if (!have_tools())
		skip();
	for (size_t i = 0; i < GB_ARRAY_SIZE(link_lengths); i++) {
		targets[i] = repeat((char)('a' + i), link_lengths[i]);
		snprintf(paths[i], sizeof(paths[i]), "l%zu", link_lengths[i]);
		items[i].e = (struct gb_tree_entry){.path = paths[i],
			.type = GB_TREE_SYMLINK,
			.mode = 0777,
			.target = targets[i]};
	}
	assert_int_equal(write_disk(items, GB_ARRAY_SIZE(items), &size, NULL), 0);
	assert_clean();
	for (size_t i = 0; i < GB_ARRAY_SIZE(link_lengths); i++) {
		char expect[64];

		snprintf(expect, sizeof(expect), "Size: %zu\n", link_lengths[i]);
		assert_stat(paths[i], expect);
		assert_stat(
			paths[i], link_lengths[i] < 60 ? "Fast link dest" : "EXTENTS:");
		if (link_lengths[i] >= 60) {
			char request[64];
			char *text;

			snprintf(request, sizeof(request), "cat %s", paths[i]);
			text = debugfs(request);
			assert_string_equal(text, targets[i]);
		}
		free(targets[i]);
	}
}

static void attributes_are_kept(void **state)
{
	static uint8_t capability[20] = {1, 0, 0, 2, 0, 0x20};
	static char big[2001];
	struct gb_tree_xattr attrs[] = {
		{(char *)"security.capability", capability, sizeof(capability)},
		{(char *)"user.empty", (void *)"", 0},
	};
	struct gb_tree_xattr large[] = {{(char *)"user.big", big, sizeof(big) - 1}};
	struct item items[] = {
		{.e = {.path = "ping",
			 .type = GB_TREE_FILE,
			 .mode = 04755,
			 .uid = 1000,
			 .gid = 1001,
			 .size = 10,
			 .xattrs = {attrs, 2, 0}}},
		{.e = {.path = "big",
			 .type = GB_TREE_DIR,
			 .mode = 01777,
			 .uid = 3000000,
			 .gid = 4294967294,
			 .xattrs = {large, 1, 0}}},
		{.e = {.path = "old",
			 .type = GB_TREE_FILE,
			 .mode = 0,
			 .mtime_s = -5,
			 .mtime_ns = 750000000}},
		{.e = {.path = "new",
			 .type = GB_TREE_FILE,
			 .mtime_s = INT64_C(1) << 33,
			 .mtime_ns = 1}},
		{.e = {.path = "null",
			 .type = GB_TREE_CHAR,
			 .dev_major = 1,
			 .dev_minor = 3}},
		{.e = {.path = "nvme",
			 .type = GB_TREE_BLOCK,
			 .dev_major = 259,
			 .dev_minor = 70000}},
		{.e = {.path = "pipe", .type = GB_TREE_FIFO, .mode = 0600}},
		{.e = {.path = "deep/er/ping",
			 .type = GB_TREE_HARDLINK,
			 .target = "ping"}},
	};
	uint64_t size;
	char *text;

	(void)state;
	if (!have_tools())
		skip();
	memset(big, 'x', sizeof(big) - 1);
	assert_int_equal(write_disk(items, GB_ARRAY_SIZE(items), &size, NULL), 0);
	assert_clean();
	assert_stat("/ping", "Mode:  04755");
	assert_stat("/ping", "User:  1000   Group:  1001");
	assert_stat("/ping", "Links: 2");
	assert_stat("/deep/er/ping", "Links: 2");
	assert_stat("/deep", "Mode:  0755");
	text = debugfs("ea_get -x /ping security.capability");
	assert_non_null(text);
	assert_non_null(strstr(text, "(20) = 01 00 00 02 00 20 00"));
	assert_stat("/big", "Mode:  01777");
	assert_stat("/big", "User: 3000000   Group:    -2");
	text = debugfs("ea_get /big user.big");
	assert_non_null(text);
	assert_non_null(strstr(text, big));
	assert_stat("/old", "mtime: 0xfffffffb:b2d05e00");
	assert_stat("/new", "mtime: 0x00000000:00000006");
	assert_stat("/null", "Device major/minor number: 01:03");
	assert_stat("/nvme", "Device major/minor number: 259:70000");
	assert_stat("/pipe", "Type: FIFO");
}

static uint8_t expected_at(const struct item *i, uint64_t offset)
{
	uint64_t piece = i->piece ? i->piece : 7000;

	if (offset % (piece + i->gap) >= piece)
		return 0;
	return (uint8_t)('a' + offset % 23);
}

static bool content_matches(const struct item *i)
{
	char command[1000];
	uint64_t offset = 0;
	bool same = true;
	int c;
	FILE *f;

	snprintf(command, sizeof(command),
		"PATH=$PATH:/sbin:/usr/sbin; debugfs -R 'cat /%s' '%s' 2>/dev/null",
		i->e.path, disk);
	f = popen(command, "re");
	while (f && (c = getc_unlocked(f)) != EOF)
		same &= (uint8_t)c == expected_at(i, offset++);
	return f && pclose(f) == 0 && same && offset == i->e.size;
}

/* Content: whole, over several pieces, with holes, with more extents than an inode holds.
 */
static void content_is_kept(void **state)
{
	struct item items[] = {
		{.e = {.path = "empty", .type = GB_TREE_FILE}},
		{.e = {.path = "block", .type = GB_TREE_FILE, .size = 4096},
			.piece = 100},
		{.e = {.path = "odd", .type = GB_TREE_FILE, .size = 3000001}},
		{.e = {.path = "holes", .type = GB_TREE_FILE, .size = 900000},
			.piece = 5000,
			.gap = 20000},
		{.e = {.path = "many", .type = GB_TREE_FILE, .size = UINT64_C(40) << 20},
			.piece = 1,
			.gap = 8191},
		{.e = {.path = "hole", .type = GB_TREE_FILE, .size = UINT64_C(5) << 40},
			.piece = 1,
			.gap = UINT64_C(6) << 40},
	};
	struct stat st;
	uint64_t size;

	(void)state;
	if (!have_tools())
		skip();
	assert_int_equal(write_disk(items, GB_ARRAY_SIZE(items), &size, NULL), 0);
	assert_clean();
	assert_int_equal(stat(disk, &st), 0);
	assert_true(size < UINT64_C(1) << 30);
	for (size_t i = 0; i < GB_ARRAY_SIZE(items) - 1; i++) {
		if (!content_matches(&items[i]))
			fail_msg("content of %s is not what was put", items[i].e.path);
	}
	assert_stat("/many", "(ETB");
	assert_stat("/hole", "Size: 5497558138880");
	assert_stat("/hole", "Blockcount: 8\n");
}

static struct item *many_items(size_t count, size_t name_len, char (*paths)[300])
{
	struct item *items = calloc(count, sizeof(*items));

	for (size_t i = 0; items && i < count; i++) {
		snprintf(paths[i], sizeof(paths[i]), "d/%0*zu", (int)name_len, i);
		items[i].e =
			(struct gb_tree_entry){.path = paths[i], .type = GB_TREE_FILE};
	}
	return items;
}

static const struct {
	size_t count, name_len;
} dirs[] = {{100, 5}, {5000, 12}, {6000, 255}};

static void big_folders_are_indexed(void **state)
{
	static char paths[ITEMS_MAX][300];
	uint64_t size;

	(void)state;
	if (!have_tools())
		skip();
	for (size_t i = 0; i < GB_ARRAY_SIZE(dirs); i++) {
		struct item *items = many_items(dirs[i].count, dirs[i].name_len, paths);
		char expect[32];
		char *text;

		unlink(disk);
		assert_int_equal(write_disk(items, dirs[i].count, &size, NULL), 0);
		free(items);
		assert_clean();
		text = debugfs("ls -p /d");
		assert_non_null(text);
		if (dirs[i].count > 100)
			assert_stat("/d", "Flags: 0x81000");
		text = output("PATH=$PATH:/sbin:/usr/sbin; debugfs -R 'ls -p /d' '%s' "
			      "2>/dev/null | grep -c /00",
			disk);
		snprintf(expect, sizeof(expect), "%zu\n", dirs[i].count);
		assert_string_equal(text, expect);
	}
}

static int digest_of_disk(
	struct item *items, size_t count, char digest[GB_SHA256_HEX + 1])
{
	gb_auto_fd fd = -1;
	uint64_t size;

	unlink(disk);
	if (write_disk(items, count, &size, NULL) < 0)
		return -1;
	fd = open(disk, O_RDONLY | O_CLOEXEC);
	return gb_sha256_sparse(fd, digest, NULL);
}

static void same_entries_same_bytes(void **state)
{
	static char paths[ITEMS_MAX][300];
	struct item *items = many_items(2000, 20, paths);
	char first[GB_SHA256_HEX + 1];
	char again[GB_SHA256_HEX + 1];

	(void)state;
	for (size_t i = 0; i < 2000; i++)
		items[i].e.size = i * 7;
	assert_int_equal(digest_of_disk(items, 2000, first), 0);
	assert_int_equal(digest_of_disk(items, 2000, again), 0);
	assert_string_equal(first, again);
	items[7].e.mtime_ns = 1;
	assert_int_equal(digest_of_disk(items, 2000, again), 0);
	assert_string_not_equal(first, again);
	free(items);
}

static void what_was_replaced_takes_no_room(void **state)
{
	struct item items[] = {
		{.e = {.path = "f", .type = GB_TREE_FILE, .size = 60 << 20}},
		{.e = {.path = "f", .type = GB_TREE_FILE, .size = 5}},
	};
	struct stat st;
	uint64_t size;

	(void)state;
	if (!have_tools())
		skip();
	assert_int_equal(write_disk(items, 2, &size, NULL), 0);
	assert_clean();
	assert_stat("/f", "Size: 5\n");
	assert_int_equal(stat(disk, &st), 0);
	assert_true(st.st_blocks * 512 < 8 << 20);
}

static void failures_leave_nothing(void **state)
{
	static char huge[5000];
	struct gb_tree_xattr attr[] = {{(char *)"user.big", huge, sizeof(huge)}};
	struct item too_big[] = {
		{.e = {.path = "f", .type = GB_TREE_FILE, .xattrs = {attr, 1, 0}}}};
	struct item bad_device[] = {
		{.e = {.path = "f", .type = GB_TREE_CHAR, .dev_major = 5000}}};
	struct gb_err err;
	uint64_t size;

	(void)state;
	assert_int_equal(write_disk(too_big, 1, &size, &err), GB_E_LIMIT);
	assert_non_null(strstr(err.msg, "'f': extended attributes of "));
	assert_int_equal(write_disk(bad_device, 1, &size, &err), GB_E_LIMIT);
	assert_int_equal(scratch_entries(), 0);
	assert_int_equal(write_disk(NULL, 0, &size, &err), 0);
	assert_int_equal(write_disk(NULL, 0, &size, &err), GB_E_EXISTS);
	assert_int_equal(access(disk, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(failures_leave_nothing, no_disk),
		cmocka_unit_test_setup(an_empty_one_is_clean_and_grows, no_disk),
		cmocka_unit_test_setup(links_of_every_length, no_disk),
		cmocka_unit_test_setup(attributes_are_kept, no_disk),
		cmocka_unit_test_setup(content_is_kept, no_disk),
		cmocka_unit_test_setup(big_folders_are_indexed, no_disk),
		cmocka_unit_test_setup(same_entries_same_bytes, no_disk),
		cmocka_unit_test_setup(what_was_replaced_takes_no_room, no_disk),
	};

	return cmocka_run_group_tests_name(
		"ext4", tests, scratch_setup, scratch_teardown);
}
