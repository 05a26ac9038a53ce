/* Making a template: a machine is booted with its memory in a shared file and a disk of
 * no size, until the agent says that it waits (make_vm.c). Then it is paused, the state
 * of its devices is written beside the memory, and both are published together. One of an
 * image goes on from there (make_image.c), and has its disk beside them.
 *
 * The agent's READY is the last thing that happens in the guest before the pause, so what
 * it loaded and looked at is in the template, and nothing of any machine is: no disk, no
 * key, no name. The guest is as trustworthy as the bundle that it was booted from. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/flight.h"
#include "vmm/qemu/host.h"
#include "vmm/qemu/make_impl.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WAIT_DEADLINE_MS 240000 /* for another process that makes the same */
/* Those used last stay. One of an image takes some 150 MB. */
#define KEEP_MAX	8
#define KEEP_IMAGES_MAX 4

static void tell(gb_progress progress, void *ctx, const char *line)
{
	if (progress)
		progress(ctx, line);
}

static int file_stat(int dir, const char *name, struct stat *ret, struct gb_err *err)
{
	if (fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return gb_fail_sys(err, errno, "cannot look at the template's %s", name);
	return 0;
}

static int write_description(const struct gb_making *m, struct gb_err *err)
{
	json_auto_t *d = NULL;
	gb_auto_free char *text = NULL;
	struct stat memory;
	struct stat state;
	struct stat disk = {0};
	int r = file_stat(m->dir, "memory", &memory, err);

	if (r == 0)
		r = file_stat(m->dir, "state", &state, err);
	if (r == 0 && m->disk)
		r = file_stat(m->dir, GB_TEMPLATE_DISK, &disk, err);
	if (r < 0)
		return r;
	d = json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "key",
		m->key->text, "qemu", m->qemu, "tsc_khz", (int)m->tsc_khz, "memory_size",
		(json_int_t)memory.st_size, "memory_used",
		(json_int_t)memory.st_blocks * 512, "state_size",
		(json_int_t)state.st_size, "disk_size", (json_int_t)disk.st_size,
		"boot_ns", (json_int_t)m->boot_ns, "made", (json_int_t)time(NULL));
	text = d ? json_dumps(d, JSON_INDENT(1)) : NULL;
	if (!text)
		return gb_nomem(err);
	return gb_file_write_atomic(
		m->dir, "template.json", text, strlen(text), 0600, err);
}

/* Files that the machine finds there; QEMU would make them readable for all. */
static int make_file(int dir, const char *name, struct gb_err *err)
{
	gb_auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? gb_fail_sys(err, errno, "cannot create the template's %s", name)
		      : 0;
}

/* Why a guest did not come up is on its console, if anywhere. */
static int add_console(const struct gb_making *m, int r, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = {0};
	struct gb_err reason;
	const char *line;
	size_t len;

	gb_buf_init(&text, 0);
	if (!err || gb_file_read(m->dir, "console.log", (size_t)GB_CONSOLE_FILE_MAX,
			    &text, NULL) < 0)
		return r;
	for (len = text.len; len > 0 && text.data[len - 1] <= ' ';)
		len--;
	if (len == 0)
		return r;
	text.data[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if (text.data[i] < ' ' && text.data[i] != '\n')
			text.data[i] = ' ';
	line = memrchr(text.data, '\n', len);
	line = line ? line + 1 : (const char *)text.data;
	reason = *err;
	return gb_fail(err, r, "%.300s (the guest's console ends with: %.160s)",
		reason.msg, line);
}

static int boot_generic(
	struct gb_making *m, struct gb_make_ports *ports, struct gb_err *err)
{
	int r = make_file(m->dir, "disk", err);

	if (r == 0)
		r = gb_make_boot(m, ports, err);
	unlinkat(m->dir, "disk", 0);
	return r;
}

static int fill_place(struct gb_making *m, struct gb_err *err)
{
	struct gb_make_ports ports = GB_MAKE_PORTS_INIT;
	int r = gb_make_ports_open(&ports, m->want->network, err);

	if (r == 0)
		r = make_file(m->dir, "memory", err);
	if (r == 0 && m->disk)
		r = gb_make_prepared(m, &ports, err);
	else if (r == 0)
		r = boot_generic(m, &ports, err);
	gb_make_ports_done(&ports);
	if (r < 0)
		return add_console(m, r, err);
	return write_description(m, err);
}

struct kept {
	char name[32];
	struct timespec used;
};

/* Of the templates that are there, the one not used for the longest; how many there are.
 */
static size_t find_oldest(DIR *folder, struct kept *oldest)
{
	size_t count = 0;
	struct dirent *e;

	rewinddir(folder);
	while ((e = readdir(folder))) {
		char path[64];
		struct stat st;

		if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof(oldest->name))
			continue;
		snprintf(path, sizeof(path), "%s/template.json", e->d_name);
		if (fstatat(dirfd(folder), path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			memset(&st, 0, sizeof(st));
		if (count++ == 0 || st.st_mtim.tv_sec < oldest->used.tv_sec) {
			snprintf(oldest->name, sizeof(oldest->name), "%s", e->d_name);
			oldest->used = st.st_mtim;
		}
	}
	return count;
}

/* Templates are large; running machines keep what they have mapped of a removed one. */
static void clear_up(const char *path, size_t keep)
{
	DIR *folder = opendir(path);
	struct kept oldest;

	if (!folder)
		return;
	for (int i = 0; i < 64 && find_oldest(folder, &oldest) >= keep; i++)
		if (gb_rm_tree(dirfd(folder), oldest.name, NULL) < 0)
			break;
	closedir(folder);
}

static int make_now(struct gb_making *m, struct gb_err *err)
{
	char line[160];
	int r;

	gb_publish_sweep(m->key->folder);
	clear_up(m->key->folder, m->disk ? KEEP_IMAGES_MAX : KEEP_MAX);
	if (m->want->accel == GB_ACCEL_TCG)
		m->tsc_khz = gb_host_tsc_khz(m->cache_dir);
	snprintf(line, sizeof(line), "%s (once for %u cpus, %" PRIu64 " MiB, %s)",
		m->disk ? "preparing a machine with this image to start others from"
			: "booting a machine to start others from",
		m->want->cpus, gb_qemu_memory(m->want->memory_bytes) >> 20,
		gb_accel_name(m->want->accel));
	tell(m->progress, m->ctx, line);
	r = gb_publish_begin(m->key->folder, &m->place, err);
	if (r < 0)
		return r;
	m->dir = open(m->place.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->dir < 0)
		r = gb_fail_sys(err, errno, "cannot open '%s'", m->place.path);
	if (r == 0)
		r = fill_place(m, err);
	gb_fd_close(&m->dir);
	if (r == 0)
		r = gb_publish_commit(&m->place, m->key->name, 0700, err);
	gb_publish_done(&m->place);
	return r < 0 ? gb_wrap(err, r, "cannot make a template") : 0;
}

/* What is in the way of a new one under its name does not fit any more. */
static int make_in_flight(struct gb_making *m, char **ret_dir, struct gb_err *err)
{
	int r = gb_template_find(m->key, m->cache_dir, m->want, ret_dir, NULL);

	if (r == 0)
		return 0;
	r = gb_template_discard(m->cache_dir, m->want, err);
	if (r == 0)
		r = make_now(m, err);
	if (r < 0)
		return r;
	*ret_dir = gb_path_join(m->key->folder, m->key->name);
	return *ret_dir ? 0 : gb_nomem(err);
}

static void say_waiting(void *ctx)
{
	struct gb_making *m = ctx;

	tell(m->progress, m->ctx,
		"waiting for another process that makes the same template");
}

static int make_of_kind(struct gb_making *m, char **ret_dir, struct gb_err *err)
{
	gb_auto_done(gb_flight) flight = GB_FLIGHT_INIT;
	int r = gb_mkdir_p(m->key->folder, 0700, err);

	if (r == 0)
		r = gb_flight_begin(m->key->folder, m->key->name,
			gb_deadline_ms(WAIT_DEADLINE_MS), say_waiting, m, &flight, err);
	return r == 0 ? make_in_flight(m, ret_dir, err) : r;
}

int gb_template_make(const char *cache_dir, const struct gb_template_want *w,
	const struct gb_template_disk *disk, gb_progress progress, void *ctx,
	char **ret_dir, struct gb_err *err)
{
	struct gb_template_want generic = *w;
	gb_auto_free char *base = NULL;
	struct gb_template_key key;
	struct gb_making m = {.key = &key,
		.want = w,
		.disk = disk,
		.cache_dir = cache_dir,
		.progress = progress,
		.ctx = ctx,
		.place = GB_PUBLISH_INIT,
		.dir = -1};
	int r;

	if (!disk != !w->image)
		return gb_fail(err, GB_E_INVALID,
			"an image's template needs its disk, no other");
	generic.image = NULL;
	r = disk ? gb_template_make(cache_dir, &generic, NULL, progress, ctx, &base, err)
		 : 0;
	if (r < 0)
		return r;
	m.base = base;
	r = gb_template_key_init(&key, cache_dir, w, err);
	if (r < 0)
		return r;
	r = make_of_kind(&m, ret_dir, err);
	gb_template_key_done(&key);
	return r;
}
