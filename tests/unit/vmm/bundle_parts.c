#include "vmm/bundle_parts.h"
#include "base/fd.h"
#include "base/path.h"
#include "samples.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- kernels ---- */

struct kernel_row {
	const char *name;
	enum sample_packing packing;
	bool pvh_note;
	int patch_at; /* -1: nothing; else four bytes are set there */
	uint32_t patch;
	int result;
	bool pvh; /* when it is 0 */
	const char *says;
};

#define WHOLE -1, 0
static const struct kernel_row kernel_rows[] = {
	{"bzImage: gzip", PACK_GZIP, true, WHOLE, 0, true, ""},
	{"bzImage: bzip2", PACK_BZIP2, true, WHOLE, 0, true, ""},
	{"bzImage: xz", PACK_XZ, true, WHOLE, 0, true, ""},
	{"bzImage: lzma", PACK_LZMA, true, WHOLE, 0, true, ""},
	{"bzImage: zstd", PACK_ZSTD, true, WHOLE, 0, true, ""},
	{"bzImage: lz4", PACK_LZ4, true, WHOLE, 0, true, ""},
	{"bzImage: without a PVH entry", PACK_GZIP, false, WHOLE, 0, false, ""},
	{"bzImage: of an old protocol", PACK_GZIP, true, 0x206, 0x0207, 0, false, ""},
	{"bzImage: packed in an unknown way", PACK_GZIP, true, SAMPLE_PAYLOAD_AT, 0, 0,
		false, ""},
	{"bzImage: payload beyond the end", PACK_GZIP, true, 0x24c, 0x7fffffff,
		GB_E_PARSE, false, "payload is not within the file"},
	{"bzImage: payload starts beyond the end", PACK_GZIP, true, 0x248, 0xffffffff,
		GB_E_PARSE, false, "payload is not within the file"},
	{"bzImage: empty payload", PACK_GZIP, true, 0x24c, 0, GB_E_PARSE, false,
		"payload is not within the file"},
	{"bzImage: says no version", PACK_GZIP, true, 0x300, 0, GB_E_PARSE, false,
		"does not say its version"},
	{"bzImage: version beyond the end", PACK_GZIP, true, 0x20e, 0xffff, GB_E_PARSE,
		false, "does not say its version"},
};

static void test_kernel(void **state)
{
	const struct kernel_row *row = *state;
	struct gb_buf vmlinux = {0};
	struct gb_buf file = {0};
	struct gb_kernel k;
	struct gb_err err = {0};
	size_t size;
	int r;

	sample_vmlinux(&vmlinux, row->pvh_note);
	assert_true(sample_bzimage(&file, &vmlinux, row->packing));
	if (row->patch_at >= 0)
		memcpy(file.data + row->patch_at, &row->patch, 4);
	size = file.len;
	r = gb_kernel_read_consume(&file, &k, &err);
	assert_int_equal(r, row->result);
	assert_null(file.data);
	if (r < 0) {
		assert_non_null(strstr(err.msg, row->says));
	} else {
		assert_string_equal(k.release, SAMPLE_RELEASE);
		assert_int_equal(k.pvh, row->pvh);
		assert_int_equal(k.image.len, row->pvh ? vmlinux.len : size);
		if (row->pvh)
			assert_memory_equal(k.image.data, vmlinux.data, vmlinux.len);
	}
	gb_kernel_done(&k);
	gb_buf_done(&vmlinux);
}

/* The size at the payload's end bounds what is unpacked, and must be exact. */
static void test_kernel_size_lies(void **state GB_UNUSED)
{
	static const struct {
		int64_t delta;
		int result;
	} rows[] = {{-1, GB_E_LIMIT}, {1, GB_E_PARSE}, {0, 0},
		{INT64_C(0x7fffffff), GB_E_LIMIT}};

	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++) {
		struct gb_buf vmlinux = {0};
		struct gb_buf file = {0};
		struct gb_kernel k;
		uint32_t size;

		sample_vmlinux(&vmlinux, true);
		assert_true(sample_bzimage(&file, &vmlinux, PACK_XZ));
		size = (uint32_t)((int64_t)vmlinux.len + rows[i].delta);
		memcpy(file.data + file.len - 4, &size, 4);
		assert_int_equal(gb_kernel_read_consume(&file, &k, NULL), rows[i].result);
		if (rows[i].result == 0)
			assert_true(k.pvh);
		gb_kernel_done(&k);
		gb_buf_done(&vmlinux);
	}
}

static void test_vmlinux(void **state GB_UNUSED)
{
	struct gb_buf file = {0};
	struct gb_kernel k;
	struct gb_err err;

	sample_vmlinux(&file, true);
	assert_int_equal(gb_kernel_read_consume(&file, &k, &err), 0);
	assert_true(k.pvh);
	assert_string_equal(k.release, SAMPLE_RELEASE);
	gb_kernel_done(&k);
	sample_vmlinux(&file, false);
	assert_int_equal(gb_kernel_read_consume(&file, &k, &err), GB_E_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "CONFIG_PVH"));
	gb_buf_add_str(&file, "#!/bin/sh\n");
	assert_int_equal(gb_kernel_read_consume(&file, &k, &err), GB_E_UNSUPPORTED);
	assert_int_equal(gb_kernel_read_consume(&file, &k, &err), GB_E_UNSUPPORTED);
}

/* No prefix of a kernel and no changed byte of its headers leads astray. */
static void test_kernel_damage(void **state GB_UNUSED)
{
	struct gb_buf vmlinux = {0};
	struct gb_buf whole = {0};

	sample_vmlinux(&vmlinux, true);
	assert_true(sample_bzimage(&whole, &vmlinux, PACK_GZIP));
	for (size_t cut = 0; cut < whole.len + 512;
		cut += cut < 1100 || cut > whole.len ? 1 : 13) {
		struct gb_buf file = {0};
		struct gb_kernel k;

		gb_buf_add(&file, whole.data, cut < whole.len ? cut : whole.len);
		if (cut >= whole.len)
			file.data[0x1f0 + (cut - whole.len) / 2] ^= cut % 2 ? 0xff : 0x01;
		gb_kernel_read_consume(&file, &k, NULL);
		gb_kernel_done(&k);
	}
	gb_buf_done(&whole);
	gb_buf_done(&vmlinux);
}

/* ---- ELF ---- */

static void test_elf(void **state GB_UNUSED)
{
	struct gb_buf m = {0};
	const uint8_t *at = NULL;
	size_t len = 0;

	sample_module(&m, "a=b|");
	assert_int_equal(gb_elf_section(m.data, m.len, ".modinfo", &at, &len, NULL), 0);
	assert_int_equal(len, 4);
	assert_memory_equal(at, "a=b", 4);
	assert_int_equal(
		gb_elf_section(m.data, m.len, ".text", &at, &len, NULL), GB_E_NOTFOUND);
	for (size_t cut = 0; cut < m.len; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1);

		assert_non_null(copy);
		memcpy(copy, m.data, cut);
		assert_int_equal(gb_elf_section(copy, cut, ".modinfo", &at, &len, NULL),
			GB_E_PARSE);
		free(copy);
	}
	for (size_t bit = 0; bit < m.len * 8; bit++) {
		m.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (gb_elf_section(m.data, m.len, ".modinfo", &at, &len, NULL) == 0)
			assert_true(at >= m.data && len <= m.len &&
				    at + len <= m.data + m.len);
		m.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	gb_buf_done(&m);
}

/* ---- unpacking ---- */

static void test_unpack(void **state GB_UNUSED)
{
	struct gb_buf packed = {0};
	struct gb_buf out = {0};
	static const uint8_t zeros[1000];

	assert_true(sample_pack(&packed, PACK_ZSTD, zeros, sizeof(zeros)));
	assert_int_equal(gb_unpack(packed.data, packed.len, 1000, &out, NULL), 0);
	assert_int_equal(out.len, 1000);
	assert_int_equal(gb_unpack(packed.data, packed.len, 999, &out, NULL), GB_E_LIMIT);
	assert_int_equal(
		gb_unpack(packed.data, packed.len - 1, 1000, &out, NULL), GB_E_PARSE);
	assert_int_equal(gb_unpack("plain text", 10, 1000, &out, NULL), GB_E_UNSUPPORTED);
	assert_int_equal(gb_unpack("", 0, 1000, &out, NULL), GB_E_PARSE);
	gb_buf_done(&out);
	gb_buf_done(&packed);
}

/* ---- modules ---- */

static const struct {
	const char *path;
	const char *info; /* without vermagic */
	enum sample_packing packing;
	const char *ending;
} module_files[] = {
	{"kernel/a/alone.ko", "license=GPL|depends=|", PACK_NONE, ""},
	{"kernel/a/top-one.ko", "depends=mid_a,mid-b|", PACK_NONE, ""},
	{"kernel/b/mid-a.ko", "depends=base|", PACK_XZ, ".xz"},
	{"kernel/b/mid_b.ko", "depends=base,inside|", PACK_ZSTD, ".zst"},
	{"kernel/c/base.ko", "depends=|", PACK_GZIP, ".gz"},
	{"kernel/d/soft.ko", "depends=|softdep=pre: alone crc32c-alias post: top-one|",
		PACK_NONE, ""},
	{"kernel/e/lacks.ko", "depends=nowhere|", PACK_NONE, ""},
	{"kernel/e/loop1.ko", "depends=loop2|", PACK_NONE, ""},
	{"kernel/e/loop2.ko", "depends=loop1|", PACK_NONE, ""},
	{"kernel/e/odd.ko", "depends=../../x|", PACK_NONE, ""},
	{"kernel/e/cut.ko", "depends=", PACK_NONE, ""},
	{"kernel/e/foreign.ko", "vermagic=5.10.0 SMP|depends=|", PACK_NONE, ""},
	{"kernel/e/similar.ko", "vermagic=" SAMPLE_RELEASE "2 SMP|depends=|", PACK_NONE,
		""},
};

struct modules_row {
	const char *name;
	struct gb_module_want want[3];
	const char *order; /* what comes out, or NULL: */
	int result;
	const char *says;
};

static const struct modules_row modules_rows[] = {
	{"modules: one", {{"alone", false}}, "alone", 0, ""},
	{"modules: dependencies first", {{"top_one", false}}, "base mid_a mid_b top_one",
		0, ""},
	{"modules: each once", {{"mid_b", false}, {"base", false}, {"mid_a", false}},
		"base mid_b mid_a", 0, ""},
	{"modules: soft dependencies before it", {{"soft", false}}, "alone soft", 0, ""},
	{"modules: built in", {{"inside", false}, {"in_side2", false}}, "", 0, ""},
	{"modules: optional and missing", {{"nothing", true}, {"alone", true}}, "alone",
		0, ""},
	{"modules: required and missing", {{"alone", false}, {"nothing", false}}, NULL,
		GB_E_NOTFOUND, "no module 'nothing', and it is not built in"},
	{"modules: a dependency is missing", {{"lacks", false}}, NULL, GB_E_NOTFOUND,
		"module 'lacks': the kernel has no module 'nowhere'"},
	{"modules: a circle", {{"loop1", false}}, NULL, GB_E_LIMIT, "circle"},
	{"modules: a path for a name", {{"odd", false}}, NULL, GB_E_PARSE, "odd name"},
	{"modules: .modinfo without an end", {{"cut", false}}, NULL, GB_E_PARSE,
		"damaged .modinfo"},
	{"modules: of another kernel", {{"foreign", false}}, NULL, GB_E_INVALID,
		"built for kernel '5.10.0', not '" SAMPLE_RELEASE "'"},
	{"modules: of a kernel with a similar name", {{"similar", false}}, NULL,
		GB_E_INVALID, "built for kernel '" SAMPLE_RELEASE "2'"},
	{"modules: listed, but no file", {{"ghost", false}}, NULL, GB_E_NOTFOUND,
		"does not exist"},
};

static char *modules_dir;

static void write_at(const char *name, const void *data, size_t len)
{
	char *path = gb_path_join(modules_dir, name);
	char *slash;

	assert_non_null(path);
	slash = strrchr(path, '/');
	*slash = 0;
	assert_int_equal(gb_mkdir_p(path, 0700, NULL), 0);
	*slash = '/';
	assert_int_equal(gb_file_write_atomic(AT_FDCWD, path, data, len, 0600, NULL), 0);
	free(path);
}

static void write_module(size_t i)
{
	struct gb_buf module = {0};
	struct gb_buf file = {0};
	struct gb_buf info = {0};
	char name[128];

	if (!strstr(module_files[i].info, "vermagic="))
		gb_buf_add_str(&info, "vermagic=" SAMPLE_RELEASE " SMP|");
	gb_buf_add_str(&info, module_files[i].info);
	gb_buf_add_byte(&info, 0);
	sample_module(&module, (char *)info.data);
	assert_true(sample_pack(&file, module_files[i].packing, module.data, module.len));
	snprintf(
		name, sizeof(name), "%s%s", module_files[i].path, module_files[i].ending);
	write_at(name, file.data, file.len);
	gb_buf_done(&module);
	gb_buf_done(&file);
	gb_buf_done(&info);
}

static int modules_setup(void **state GB_UNUSED)
{
	static const char builtin[] = "kernel/x/inside.ko\nkernel/x/in-side2.ko\n";
	const char *base = getenv("TMPDIR");
	struct gb_buf order = {0};

	modules_dir = gb_path_join(base && *base ? base : "/tmp", "gb-modules-XXXXXX");
	if (!modules_dir || !mkdtemp(modules_dir))
		return -1;
	gb_buf_add_str(
		&order, "\nkernel/odd/README\nkernel/odd/.ko\nkernel/odd/x y.ko\n");
	for (size_t i = 0; i < GB_ARRAY_SIZE(module_files); i++) {
		write_module(i);
		gb_buf_printf(&order, "%s\n", module_files[i].path);
	}
	/* the last line has no newline */
	gb_buf_add_str(&order, "kernel/ghost.ko");
	write_at("modules.order", order.data, order.len);
	write_at("modules.builtin", builtin, strlen(builtin));
	gb_buf_done(&order);
	return 0;
}

static int modules_teardown(void **state GB_UNUSED)
{
	int r = gb_rm_tree(AT_FDCWD, modules_dir, NULL);

	free(modules_dir);
	return r;
}

static void check_modules(const struct modules_row *row)
{
	struct gb_module_list list = {0};
	struct gb_err err = {0};
	size_t count = 0;
	int r;

	while (count < 3 && row->want[count].name)
		count++;
	r = gb_modules_collect(
		modules_dir, SAMPLE_RELEASE, row->want, count, &list, &err);
	if (r != row->result)
		fail_msg("%d: %s", r, err.msg);
	if (r < 0) {
		if (!strstr(err.msg, row->says))
			fail_msg("'%s' does not say '%s'", err.msg, row->says);
	} else {
		char order[512] = "";

		for (size_t i = 0; i < list.n; i++) {
			size_t at = strlen(order);

			snprintf(order + at, sizeof(order) - at, "%s%s", i ? " " : "",
				list.v[i].name);
			assert_true(
				gb_elf_valid(list.v[i].data.data, list.v[i].data.len));
		}
		assert_string_equal(order, row->order);
	}
	gb_module_list_done(&list);
}

static void test_modules(void **state)
{
	check_modules(*state);
}

/* An installed kernel's modules.dep leads to the same answers, and goes first. */
static void test_modules_dep(void **state GB_UNUSED)
{
	struct gb_buf dep = {0};
	char *path = gb_path_join(modules_dir, "modules.dep");

	for (size_t i = 0; i < GB_ARRAY_SIZE(module_files); i++)
		gb_buf_printf(&dep, "%s%s: kernel/c/base.ko.gz\n", module_files[i].path,
			module_files[i].ending);
	gb_buf_add_str(&dep, "kernel/ghost.ko:\n");
	write_at("modules.dep", dep.data, dep.len);
	for (size_t i = 0; i < GB_ARRAY_SIZE(modules_rows); i++)
		check_modules(&modules_rows[i]);
	assert_int_equal(unlink(path), 0);
	gb_buf_done(&dep);
	free(path);
}

/* ---- cpio ---- */

static void test_cpio(void **state GB_UNUSED)
{
	struct gb_buf b = {0};
	struct gb_cpio c = {.b = &b, .next_inode = 1};
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	char text[16] = "";

	gb_cpio_folder(&c, "dev");
	gb_cpio_char_device(&c, "dev/console", 0600, 5, 1);
	gb_cpio_file(&c, "init", 0755, "hello", 5);
	gb_cpio_file(&c, "empty", 0644, NULL, 0);
	gb_cpio_end(&c);
	assert_int_equal(b.error, 0);
	assert_int_equal(b.len % 4, 0);
	archive_read_support_format_cpio(a);
	assert_int_equal(archive_read_open_memory(a, b.data, b.len), ARCHIVE_OK);
	assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_OK);
	assert_string_equal(archive_entry_pathname(e), "dev");
	assert_int_equal(archive_entry_mode(e), S_IFDIR | 0755);
	assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_OK);
	assert_int_equal(archive_entry_mode(e), S_IFCHR | 0600);
	assert_int_equal(archive_entry_rdevmajor(e), 5);
	assert_int_equal(archive_entry_rdevminor(e), 1);
	assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_OK);
	assert_string_equal(archive_entry_pathname(e), "init");
	assert_int_equal(archive_entry_mode(e), S_IFREG | 0755);
	assert_int_equal(archive_entry_mtime(e), 0);
	assert_int_equal(archive_entry_uid(e), 0);
	assert_int_equal(archive_read_data(a, text, sizeof(text)), 5);
	assert_string_equal(text, "hello");
	assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_OK);
	assert_int_equal(archive_entry_size(e), 0);
	assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_EOF);
	archive_read_free(a);
	gb_buf_done(&b);
}

int main(void)
{
	struct CMUnitTest tests[64] = {
		cmocka_unit_test(test_kernel_size_lies),
		cmocka_unit_test(test_vmlinux),
		cmocka_unit_test(test_kernel_damage),
		cmocka_unit_test(test_elf),
		cmocka_unit_test(test_unpack),
		cmocka_unit_test(test_modules_dep),
		cmocka_unit_test(test_cpio),
	};
	size_t n = 7;

	for (size_t i = 0; i < GB_ARRAY_SIZE(kernel_rows); i++)
		tests[n++] = (struct CMUnitTest){.name = kernel_rows[i].name,
			.test_func = test_kernel,
			.initial_state = (void *)&kernel_rows[i]};
	for (size_t i = 0; i < GB_ARRAY_SIZE(modules_rows); i++)
		tests[n++] = (struct CMUnitTest){.name = modules_rows[i].name,
			.test_func = test_modules,
			.initial_state = (void *)&modules_rows[i]};
	return _cmocka_run_group_tests(
		"bundle parts", tests, n, modules_setup, modules_teardown);
}
