/* Making a boot bundle: everything is put together in memory, named by its digest, and
 * published whole. Whoever makes one holds the flight of its sources meanwhile. */
#include "vmm/prepare.h"
#include "vmm/boot_key.h"
#include "vmm/bundle_parts.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/digest.h"
#include "store/flight.h"
#include "store/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAKE_WAIT_MS  120000
#define INITRAMFS_MAX ((size_t)256 << 20) /* agent and modules */

/* What the guest needs to find its console ports, its disk and its shares, in this order;
 * the network device's driver is there for machines that get one. */
static const struct gb_module_want wanted[] = {
	{"virtio_mmio", false},
	{"virtio_console", false},
	{"virtio_blk", false},
	{"crc32c_generic", true}, /* ext4 asks for it by an alias */
	{"ext4", false},
	{"fuse", false},
	{"overlay", true},
	{"virtio_net", true},
};

struct bundle {
	struct gb_kernel kernel;
	struct gb_module_list modules;
	struct gb_buf initramfs;
	char id[GB_SHA256_HEX + 1];
};

static void bundle_done(struct bundle *b)
{
	gb_kernel_done(&b->kernel);
	gb_module_list_done(&b->modules);
	gb_buf_done(&b->initramfs);
}

struct reporter {
	gb_progress progress; /* may be NULL */
	void *ctx;
};

static void GB_PRINTF(2, 3) say(const struct reporter *to, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (!to->progress)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	to->progress(to->ctx, line);
}

static int read_kernel(const char *path, struct gb_kernel *ret, struct gb_err *err)
{
	gb_auto_done(gb_buf) file = {0};
	int r = gb_file_read(AT_FDCWD, path, GB_KERNEL_MAX, &file, err);

	if (r < 0)
		return r;
	r = gb_kernel_read_consume(&file, ret, err);
	return r < 0 ? gb_wrap(err, r, "kernel '%s'", path) : 0;
}

static int module_path(size_t i, const struct gb_module *m, char *ret, size_t size)
{
	return snprintf(ret, size, "modules/%02zu-%s.ko", i, m->name);
}

static void add_modules(struct gb_cpio *c, const struct gb_module_list *l)
{
	gb_auto_done(gb_buf) list = {0};
	char path[256];

	for (size_t i = 0; i < l->n; i++) {
		module_path(i, &l->v[i], path, sizeof(path));
		gb_cpio_file(c, path, 0644, l->v[i].data.data, l->v[i].data.len);
		gb_buf_printf(&list, "/%s\n", path);
	}
	if (list.error)
		c->b->error = list.error;
	gb_cpio_file(c, "modules.list", 0644, list.data, list.len);
}

static int make_initramfs(struct bundle *b, const char *agent_path, struct gb_err *err)
{
	gb_auto_done(gb_buf) agent = {0};
	struct gb_cpio c = {.b = &b->initramfs, .next_inode = 1};
	int r = gb_file_read(AT_FDCWD, agent_path, GB_AGENT_MAX, &agent, err);

	if (r < 0)
		return r;
	b->initramfs.max = INITRAMFS_MAX;
	gb_cpio_folder(&c, "dev");
	gb_cpio_char_device(&c, "dev/console", 0600, 5, 1);
	gb_cpio_file(&c, "init", 0755, agent.data, agent.len);
	gb_cpio_folder(&c, "modules");
	add_modules(&c, &b->modules);
	gb_cpio_folder(&c, "newroot");
	gb_cpio_folder(&c, "proc");
	gb_cpio_folder(&c, "sys");
	gb_cpio_end(&c);
	return gb_buf_check(&b->initramfs, "the initramfs", err);
}

static int name_bundle(struct bundle *b, struct gb_err *err)
{
	gb_auto(gb_sha256) *sha = NULL;
	int r = gb_sha256_new(&sha, err);

	if (r < 0)
		return r;
	gb_sha256_add(sha, GB_BUNDLE_FORMAT, sizeof(GB_BUNDLE_FORMAT));
	gb_sha256_add(sha, b->kernel.release, sizeof(b->kernel.release));
	gb_sha256_add_u64(sha, b->kernel.pvh);
	gb_sha256_add_u64(sha, b->kernel.image.len);
	gb_sha256_add(sha, b->kernel.image.data, b->kernel.image.len);
	gb_sha256_add_u64(sha, b->initramfs.len);
	gb_sha256_add(sha, b->initramfs.data, b->initramfs.len);
	return gb_sha256_hex(sha, b->id, err);
}

static int build(const struct gb_boot_paths *p, const struct reporter *to,
	struct bundle *b, struct gb_err *err)
{
	int r;

	say(to, "reading kernel %s", p->kernel);
	r = read_kernel(p->kernel, &b->kernel, err);
	if (r < 0)
		return r;
	say(to, "kernel %s boots %s", b->kernel.release,
		b->kernel.pvh ? "directly (PVH)" : "as bzImage");
	r = gb_modules_collect(p->modules, b->kernel.release, wanted,
		GB_ARRAY_SIZE(wanted), &b->modules, err);
	if (r < 0)
		return gb_wrap(err, r, "modules in '%s'", p->modules);
	say(to, "%zu modules", b->modules.n);
	r = make_initramfs(b, p->agent, err);
	return r < 0 ? r : name_bundle(b, err);
}

static char *manifest(const struct bundle *b, const struct gb_boot_paths *p)
{
	json_t *modules = json_array();
	json_t *root;
	char *text;

	for (size_t i = 0; i < b->modules.n; i++)
		json_array_append_new(modules, json_string(b->modules.v[i].name));
	root = json_pack("{s:s, s:s, s:b, s:s, s:o}", "id", b->id, "kernel_release",
		b->kernel.release, "pvh", b->kernel.pvh, "source", p->kernel, "modules",
		modules);
	text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
	json_decref(root);
	return text;
}

static int write_file(
	int folder, const char *name, const void *data, size_t len, struct gb_err *err)
{
	gb_auto_fd fd =
		openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	int r;

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot create '%s'", name);
	r = gb_fd_write_full(fd, data, len, err);
	return r < 0 ? gb_wrap(err, r, "cannot write '%s'", name) : 0;
}

static int fill_folder(const struct bundle *b, const struct gb_boot_paths *p, int folder,
	struct gb_err *err)
{
	gb_auto_free char *text = manifest(b, p);
	int r;

	if (!text)
		return gb_nomem(err);
	r = write_file(folder, "kernel", b->kernel.image.data, b->kernel.image.len, err);
	if (r == 0)
		r = write_file(
			folder, "initramfs", b->initramfs.data, b->initramfs.len, err);
	if (r == 0)
		r = write_file(folder, "bundle.json", text, strlen(text), err);
	return r;
}

static bool has_size(int folder, const char *name, size_t size)
{
	struct stat st;

	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && (size_t)st.st_size == size;
}

/* The same content from other sources is as good, unless somebody has been at it. */
static bool is_whole(const struct bundle *b, const char *folder)
{
	gb_auto_free char *path = gb_path_join(folder, b->id);
	gb_auto_fd fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	return fd >= 0 && has_size(fd, "kernel", b->kernel.image.len) &&
	       has_size(fd, "initramfs", b->initramfs.len) &&
	       faccessat(fd, "bundle.json", R_OK, 0) == 0;
}

static int publish(const struct bundle *b, const struct gb_boot_paths *p,
	const char *folder, struct gb_err *err)
{
	gb_auto_done(gb_publish) made = GB_PUBLISH_INIT;
	gb_auto_fd fd = -1;
	int r;

	if (is_whole(b, folder))
		return 0;
	r = gb_publish_begin(folder, &made, err);
	if (r == 0)
		r = fill_folder(b, p, made.fd, err);
	if (r < 0)
		return r;
	r = gb_publish_commit(&made, b->id, 0755, err);
	if (r != GB_E_EXISTS || is_whole(b, folder))
		return r == GB_E_EXISTS ? 0 : r;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", folder);
	r = gb_rm_tree(fd, b->id, err);
	return r < 0 ? r : gb_publish_commit(&made, b->id, 0755, err);
}

static int write_index(
	const struct gb_bundle_key *key, const char *id, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	int r;

	gb_buf_printf(&text, "%s\n%s", id, key->text);
	r = gb_buf_check(&text, "the bundle's index", err);
	if (r < 0)
		return r;
	return gb_file_write_atomic(
		AT_FDCWD, key->index_path, text.data, text.len, 0600, err);
}

static void say_waiting(void *ctx)
{
	say(ctx, "another process makes this boot bundle: waiting for it");
}

/* With the flight held. */
static int make_now(const char *folder, const char *cache_dir,
	const struct gb_bundle_key *key, const struct gb_boot_paths *p,
	const struct reporter *to, char **ret_dir, struct gb_err *err)
{
	gb_auto_done(bundle) b = {0};
	int r = gb_bundle_key_lookup(key, cache_dir, ret_dir, NULL);

	if (r != GB_E_NOTFOUND)
		return r;
	gb_publish_sweep(folder);
	r = build(p, to, &b, err);
	if (r == 0)
		r = publish(&b, p, folder, err);
	if (r == 0)
		r = write_index(key, b.id, err);
	if (r < 0)
		return r;
	gb_bundle_clear_up(folder);
	say(to, "boot bundle %.12s: kernel %zu MB, initramfs %zu KB", b.id,
		b.kernel.image.len >> 20, b.initramfs.len >> 10);
	return gb_bundle_key_lookup(key, cache_dir, ret_dir, err);
}

int gb_bundle_make(const char *cache_dir, const struct gb_boot_paths *p,
	gb_progress progress, void *ctx, char **ret_dir, struct gb_err *err)
{
	struct reporter to = {progress, ctx};
	gb_auto_done(gb_bundle_key) key = {0};
	gb_auto_done(gb_flight) flight = GB_FLIGHT_INIT;
	gb_auto_free char *folder = gb_path_join(cache_dir, "boot");
	gb_auto_free char *index = folder ? gb_path_join(folder, "index") : NULL;
	int r;

	if (!index)
		return gb_nomem(err);
	r = gb_bundle_key_init(&key, cache_dir, p, err);
	if (r == 0)
		r = gb_mkdir_p(index, 0700, err);
	if (r == 0)
		r = gb_flight_begin(folder, gb_path_base(key.index_path),
			gb_deadline_ms(MAKE_WAIT_MS), say_waiting, &to, &flight, err);
	if (r == 0)
		r = make_now(folder, cache_dir, &key, p, &to, ret_dir, err);
	return r < 0 ? gb_wrap(err, r, "cannot make a boot bundle") : 0;
}
