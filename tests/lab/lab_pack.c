/* lab-pack FOLDER INIT MODULE...: finds a kernel as glovebox does and writes
 * FOLDER/kernel and FOLDER/initramfs, whose /init is INIT and whose modules are those
 * named. */
#include "vmm/boot.h"
#include "vmm/bundle_parts.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define WANT_MAX 64

static void add_modules(struct gb_cpio *c, const struct gb_module_list *l)
{
	gb_auto_done(gb_buf) list = {0};
	char path[256];

	gb_cpio_folder(c, "modules");
	for (size_t i = 0; i < l->n; i++) {
		snprintf(path, sizeof(path), "modules/%02zu-%s.ko", i, l->v[i].name);
		gb_cpio_file(c, path, 0644, l->v[i].data.data, l->v[i].data.len);
		gb_buf_printf(&list, "/%s\n", path);
	}
	gb_cpio_file(c, "modules.list", 0644, list.data, list.len);
}

static int write_initramfs(
	const char *init, const struct gb_module_list *l, struct gb_err *err)
{
	gb_auto_done(gb_buf) program = {0};
	gb_auto_done(gb_buf) out = {.max = (size_t)256 << 20};
	struct gb_cpio c = {.b = &out, .next_inode = 1};
	int r = gb_file_read(AT_FDCWD, init, GB_AGENT_MAX, &program, err);

	if (r < 0)
		return r;
	gb_cpio_folder(&c, "dev");
	gb_cpio_char_device(&c, "dev/console", 0600, 5, 1);
	gb_cpio_folder(&c, "proc");
	gb_cpio_file(&c, "init", 0755, program.data, program.len);
	add_modules(&c, l);
	gb_cpio_end(&c);
	r = gb_buf_check(&out, "the initramfs", err);
	return r < 0 ? r
		     : gb_file_write_atomic(
			       AT_FDCWD, "initramfs", out.data, out.len, 0644, err);
}

static int pack(const char *init, const struct gb_module_want *want, size_t count,
	struct gb_err *err)
{
	struct gb_boot_source source = {.agent = init};
	gb_auto_done(gb_boot_paths) paths = {0};
	gb_auto_done(gb_buf) file = {0};
	gb_auto_done(gb_kernel) kernel = {0};
	gb_auto_done(gb_module_list) modules = {0};
	int r = gb_boot_locate(&source, &paths, err);

	if (r == 0)
		r = gb_file_read(AT_FDCWD, paths.kernel, GB_KERNEL_MAX, &file, err);
	if (r == 0)
		r = gb_kernel_read_consume(&file, &kernel, err);
	if (r == 0)
		r = gb_modules_collect(
			paths.modules, kernel.release, want, count, &modules, err);
	if (r == 0)
		r = gb_file_write_atomic(AT_FDCWD, "kernel", kernel.image.data,
			kernel.image.len, 0644, err);
	return r < 0 ? r : write_initramfs(init, &modules, err);
}

int main(int argc, char **argv)
{
	struct gb_module_want want[WANT_MAX] = {0};
	struct gb_err err = {0};
	gb_auto_free char *init = argc > 2 ? realpath(argv[2], NULL) : NULL;

	if (!init || argc - 3 > WANT_MAX || chdir(argv[1]) < 0) {
		fprintf(stderr, "usage: lab-pack FOLDER INIT MODULE...\n");
		return 2;
	}
	for (int i = 3; i < argc; i++)
		want[i - 3].name = argv[i];
	if (pack(init, want, (size_t)argc - 3, &err) == 0)
		return 0;
	fprintf(stderr, "lab-pack: %s\n", err.msg);
	return 1;
}
