#include "base/fd.h"
#include "base/path.h"
#include "vmm/qemu/host.h"
#include "vmm/qemu/qmp.h"
#include "vmm/qemu/template_key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Counts up when templates of the same parts come out differently. */
#define TEMPLATE_FORMAT "glovebox-template 3"
#define CPUINFO_MAX	16384

void gb_template_key_done(struct gb_template_key *k)
{
	free(k->folder);
	free(k->name);
	free(k->text);
	free(k->binary);
	memset(k, 0, sizeof(*k));
}

struct gb_vm_spec gb_template_spec(const struct gb_template_want *w, const char *disk)
{
	return (struct gb_vm_spec){
		.accel = w->accel,
		.cpus = w->cpus,
		.memory_bytes = w->memory_bytes,
		.disk = disk,
		.disk_format = GB_DISK_RAW,
		.bundle = w->bundle,
		.ctl_fd = -1,
		.share_fd = -1,
		.net_fd = w->network ? 0 : -1,
	};
}

/* With KVM the guest sees the host's processor, so a template made on another one (a home
 * folder on the network) must not be used. The first processor's lines stand for all. */
static void add_host_cpu(struct gb_buf *text)
{
	gb_auto_fd fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	char info[CPUINFO_MAX];
	ssize_t n = fd < 0 ? -1 : read(fd, info, sizeof(info) - 1);

	if (n <= 0)
		return;
	info[n] = '\0';
	for (char *line = info; line && *line && *line != '\n';) {
		size_t len = strcspn(line, "\n");

		if (strncmp(line, "flags", 5) == 0 ||
			strncmp(line, "model name", 10) == 0)
			gb_buf_printf(text, "cpu %016" PRIx64 "\n",
				gb_fnv1a(line, len, GB_FNV1A_SEED));
		line += len + (line[len] == '\n');
	}
}

/* The whole command line with stand-ins for what differs between runs, so that any change
 * of the device set changes the key. */
static int add_args(struct gb_buf *text, const char *binary,
	const struct gb_template_want *w, struct gb_err *err)
{
	struct gb_vm_spec spec = gb_template_spec(w, "DISK");
	struct gb_qemu_plan plan = {
		.mode = GB_QEMU_MAKE, .binary = binary, .memory = "MEMORY"};
	gb_auto_done(gb_strv) argv = {0};
	int r;

	spec.bundle = "BUNDLE";
	plan.vm = &spec;
	r = gb_qemu_args(&plan, &argv, err);
	if (r < 0)
		return r;
	for (size_t i = 1; i < argv.n; i++)
		gb_buf_printf(text, "arg %s\n", argv.v[i]);
	return 0;
}

static int make_text(const char *binary, const struct gb_template_want *w, char **ret,
	struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	struct stat st;
	int r;

	if (stat(binary, &st) < 0)
		return gb_fail_sys(err, errno, "cannot look at '%s'", binary);
	gb_buf_init(&text, GB_TEMPLATE_JSON_MAX / 4);
	/* the executable stands for its version, so that it need not be run to be asked
	 */
	gb_buf_printf(&text, TEMPLATE_FORMAT "\nqemu %s %" PRIu64 " %" PRIu64 ".%09ld\n",
		binary, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec);
	gb_buf_printf(&text, "bundle %s\n", gb_path_base(w->bundle));
	if (w->accel == GB_ACCEL_KVM)
		add_host_cpu(&text);
	if (w->image)
		gb_buf_printf(
			&text, "image %s\ndisk %" PRIu64 "\n", w->image, w->disk_bytes);
	r = add_args(&text, binary, w, err);
	if (r < 0)
		return r;
	r = gb_buf_check(&text, "a template's key", err);
	if (r < 0)
		return r;
	*ret = gb_buf_take_str(&text);
	return *ret ? 0 : gb_nomem(err);
}

int gb_template_key_init(struct gb_template_key *k, const char *cache_dir,
	const struct gb_template_want *w, struct gb_err *err)
{
	uint64_t hash;
	int r;

	memset(k, 0, sizeof(*k));
	if (!w->bundle)
		return gb_fail(err, GB_E_INVALID, "no boot bundle was given");
	r = gb_qemu_binary(&k->binary, err);
	if (r == 0)
		r = make_text(k->binary, w, &k->text, err);
	if (r < 0) {
		gb_template_key_done(k);
		return r;
	}
	hash = gb_fnv1a(k->text, strlen(k->text), GB_FNV1A_SEED);
	k->folder = gb_path_join(cache_dir, w->image ? "image-templates" : "templates");
	if (asprintf(&k->name, "%016" PRIx64, hash) < 0)
		k->name = NULL;
	if (k->folder && k->name)
		return 0;
	gb_template_key_done(k);
	return gb_nomem(err);
}

static int read_description(int dir, json_t **ret, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	json_error_t why;
	int r;

	gb_buf_init(&text, GB_TEMPLATE_JSON_MAX);
	r = gb_file_read(dir, "template.json", GB_TEMPLATE_JSON_MAX, &text, err);
	if (r < 0)
		return r;
	*ret = json_loadb(
		(const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &why);
	return *ret ? 0 : gb_fail(err, GB_E_PARSE, "template.json: %s", why.text);
}

static bool file_is_whole(int dir, const char *name, const json_t *size)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       json_is_integer(size) && st.st_size == json_integer_value(size);
}

/* Whether what lies in dir is the template for k. */
static bool fits(int dir, const struct gb_template_key *k, const char *cache_dir,
	const struct gb_template_want *w)
{
	json_auto_t *d = NULL;
	json_int_t khz;

	if (read_description(dir, &d, NULL) < 0)
		return false;
	if (!gb_streq(json_string_value(json_object_get(d, "key")), k->text) ||
		!file_is_whole(dir, "memory", json_object_get(d, "memory_size")) ||
		!file_is_whole(dir, "state", json_object_get(d, "state_size")))
		return false;
	if (w->image && !file_is_whole(dir, GB_TEMPLATE_DISK, json_object_get(d, "disk_size")))
		return false;
	if (w->accel != GB_ACCEL_TCG)
		return true;
	khz = json_integer_value(json_object_get(d, "tsc_khz"));
	return khz >= 0 && khz <= UINT32_MAX &&
	       gb_host_tsc_close((unsigned)khz, gb_host_tsc_khz(cache_dir));
}

int gb_template_find(const struct gb_template_key *k, const char *cache_dir,
	const struct gb_template_want *w, char **ret_dir, struct gb_err *err)
{
	gb_auto_free char *path = gb_path_join(k->folder, k->name);
	gb_auto_fd dir = -1;

	if (!path)
		return gb_nomem(err);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0 || !fits(dir, k, cache_dir, w))
		return gb_fail(
			err, GB_E_NOTFOUND, "no template for this kind of machine yet");
	/* says when it was used last, for who clears up */
	utimensat(dir, "template.json", NULL, 0);
	*ret_dir = gb_take_ptr(path);
	return 0;
}

int gb_template_lookup(const char *cache_dir, const struct gb_template_want *w,
	char **ret_dir, struct gb_err *err)
{
	struct gb_template_key k;
	int r = gb_template_key_init(&k, cache_dir, w, err);

	if (r < 0)
		return r;
	r = gb_template_find(&k, cache_dir, w, ret_dir, err);
	gb_template_key_done(&k);
	return r;
}

/* Renamed first: whoever looks it up from now on finds none, and who maps its memory
 * keeps it. The new name is one that gb_publish_sweep removes if this process is killed
 * here. */
static int remove_template(const struct gb_template_key *k, struct gb_err *err)
{
	gb_auto_fd folder = open(k->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char away[64];
	struct timespec now;

	if (folder < 0)
		return errno == ENOENT
			       ? 0
			       : gb_fail_sys(err, errno, "cannot open '%s'", k->folder);
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(away, sizeof(away), ".tmp-%d-%ld", (int)getpid(), now.tv_nsec);
	if (renameat(folder, k->name, folder, away) < 0)
		return errno == ENOENT ? 0
				       : gb_fail_sys(err, errno,
						 "cannot discard template '%s'", k->name);
	return gb_rm_tree(folder, away, err);
}

int gb_template_discard(
	const char *cache_dir, const struct gb_template_want *w, struct gb_err *err)
{
	struct gb_template_key k;
	int r = gb_template_key_init(&k, cache_dir, w, err);

	if (r < 0)
		return r;
	r = remove_template(&k, err);
	gb_template_key_done(&k);
	return r;
}

/* FOLDER/.failed-KEY: a byte a failure. */
static char *failures_path(const char *cache_dir, const struct gb_template_want *w)
{
	struct gb_template_key k;
	char *path = NULL;

	if (gb_template_key_init(&k, cache_dir, w, NULL) < 0)
		return NULL;
	if (asprintf(&path, "%s/.failed-%s", k.folder, k.name) < 0)
		path = NULL;
	gb_template_key_done(&k);
	return path;
}

bool gb_template_allowed(const char *cache_dir, const struct gb_template_want *w)
{
	gb_auto_free char *path = failures_path(cache_dir, w);
	struct stat st;

	if (!path || stat(path, &st) < 0 || st.st_size < GB_TEMPLATE_FAILURES)
		return path;
	if (time(NULL) - st.st_mtim.tv_sec < GB_TEMPLATE_REST_S)
		return false;
	unlink(path);
	return true;
}

void gb_template_failed(const char *cache_dir, const struct gb_template_want *w)
{
	gb_auto_free char *path = failures_path(cache_dir, w);
	gb_auto_fd fd =
		path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	if (fd >= 0)
		(void)!write(fd, "x", 1);
}
