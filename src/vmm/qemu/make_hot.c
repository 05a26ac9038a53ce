/* Which pages of a template's memory a machine touches first: one is restored from it
 * with a copy of its disk, is configured, runs a command, and is looked at
 * (/proc/PID/pagemap) before it is thrown away. So a template that cannot be restored is
 * never published, either.
 *
 * The pages are mapped in one go when a machine is started (prefault.c). */
#include "base/fd.h"
#include "base/path.h"
#include "base/clock.h"
#include "vmm/qemu/make_talk.h"
#include "vmm/qemu/prefault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIAL_DISK	  "trial.qcow2"
#define TRIAL_DEADLINE_MS 30000
#define PM_PRESENT	  (UINT64_C(1) << 63)
#define PM_FILE		  (UINT64_C(1) << 61) /* of the file itself: only read so far */
#define GAP_MAX		  16 /* pages that are mapped along, where it costs no memory */

static const char *const trial_command[] = {"/bin/true", NULL};

struct hot {
	struct gb_hot_range v[GB_HOT_RANGES_MAX];
	size_t n;
};

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text);
	size_t m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static void add_page(struct hot *h, uint32_t page, bool write)
{
	struct gb_hot_range *last = h->n ? &h->v[h->n - 1] : NULL;
	uint32_t gap = write ? 0 : GAP_MAX;

	if (last && last->write == write && page >= last->first + last->count &&
		page - (last->first + last->count) <= gap) {
		last->count = page - last->first + 1;
		return;
	}
	if (h->n < GB_HOT_RANGES_MAX)
		h->v[h->n++] = (struct gb_hot_range){page, 1, write};
}

/* Where the memory file is mapped. */
static int find_mapping(pid_t pid, const char *memory, uint64_t *ret, uint64_t *ret_pages,
	struct gb_err *err)
{
	char path[64], line[4096];
	uint64_t from, to;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	*ret_pages = 0;
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (ends_with(line, memory) &&
			sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2) {
			*ret = from;
			*ret_pages = (to - from) / GB_HOT_PAGE;
		}
	}
	if (f)
		fclose(f);
	return *ret_pages ? 0 : gb_fail(err, GB_E_STATE, "qemu did not map '%s'", memory);
}

/* Those that are written come first: a page that is mapped for reading before it is
 * written costs more than one that is not mapped at all. */
static int note_pages(int pagemap, uint64_t from, uint64_t pages, bool write,
	struct hot *h, struct gb_err *err)
{
	uint64_t chunk[8192];

	for (uint64_t done = 0; done < pages;) {
		size_t want = (size_t)GB_MIN(pages - done, GB_ARRAY_SIZE(chunk)) * 8;
		ssize_t n = pread(
			pagemap, chunk, want, (off_t)((from / GB_HOT_PAGE + done) * 8));

		if (n < 8)
			return gb_fail_sys(
				err, n < 0 ? errno : EIO, "cannot read a pagemap");
		for (size_t i = 0; i < (size_t)n / 8; i++)
			if ((chunk[i] & PM_PRESENT) && (!write || !(chunk[i] & PM_FILE)))
				add_page(h, (uint32_t)(done + i), write);
		done += (uint64_t)n / 8;
	}
	return 0;
}

static int look(const struct gb_making *m, pid_t pid, struct hot *h, struct gb_err *err)
{
	gb_auto_free char *given = gb_path_join(m->place.path, "memory");
	/* the kernel names files without the links that led to them */
	gb_auto_free char *memory = given ? realpath(given, NULL) : NULL;
	gb_auto_fd pagemap = -1;
	uint64_t from, pages;
	char path[64];
	int r = memory ? find_mapping(pid, memory, &from, &pages, err)
		       : gb_fail_sys(err, errno, "cannot find the template's memory");

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	r = note_pages(pagemap, from, pages, true, h, err);
	return r == 0 ? note_pages(pagemap, from, pages, false, h, err) : r;
}

/* As a supervisor does it; who this machine is does not matter. */
static int lead(struct gb_talk *t, struct gb_err *err)
{
	uint8_t entropy[32] = {0};
	struct gb_msg_configure m = {
		.hostname = (char *)(uintptr_t) "trial",
		.machine_id = (char *)(uintptr_t) "00000000000000000000000000000000",
		.entropy = {entropy, sizeof(entropy)},
		.flags = GB_CONFIGURE_GROW,
	};
	int r = gb_talk_greet(t, err);

	if (r == 0)
		r = gb_talk_configure(t, &m, err);
	return r == 0 ? gb_talk_run(t, trial_command, err) : r;
}

static int start(const struct gb_making *m, struct gb_make_ports *ports, const char *disk,
	struct gb_vm **ret, struct gb_err *err)
{
	struct gb_vm_spec spec = gb_template_spec(m->want, disk);
	int r;

	spec.disk_format = GB_DISK_QCOW2;
	spec.template_path = m->place.path;
	spec.template_root = true;
	spec.ctl_fd = ports->ctl[1];
	spec.share_fd = ports->share[1];
	spec.net_fd = ports->net[1];
	r = gb_driver_qemu.start(&spec, gb_deadline_ms(TRIAL_DEADLINE_MS), ret, err);
	gb_make_ports_given(ports);
	return r;
}

static int copy_disk(const struct gb_making *m, struct gb_err *err)
{
	gb_auto_fd from = openat(m->dir, GB_TEMPLATE_DISK, O_RDONLY | O_CLOEXEC);
	gb_auto_fd to =
		openat(m->dir, TRIAL_DISK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (from < 0 || to < 0)
		return gb_fail_sys(err, errno, "cannot copy a template's disk");
	return gb_make_copy(from, to, err);
}

static int try_out(const struct gb_making *m, struct hot *h, struct gb_err *err)
{
	gb_auto_free char *disk = gb_path_join(m->place.path, TRIAL_DISK);
	struct gb_make_ports ports = GB_MAKE_PORTS_INIT;
	struct gb_talk t;
	int r = disk ? gb_make_ports_open(&ports, m->want->network, err) : gb_nomem(err);

	gb_talk_init(&t, ports.ctl[0]);
	if (r == 0)
		r = start(m, &ports, disk, &t.vm, err);
	if (r == 0)
		r = lead(&t, err);
	if (r == 0)
		r = look(m, t.vm->pid, h, err);
	gb_talk_done(&t);
	gb_make_ports_done(&ports);
	return r;
}

int gb_make_hot(struct gb_making *m, struct gb_err *err)
{
	gb_auto_free struct hot *h = calloc(1, sizeof(*h));
	int r = h ? copy_disk(m, err) : gb_nomem(err);

	if (r == 0)
		r = try_out(m, h, err);
	unlinkat(m->dir, TRIAL_DISK, 0);
	if (r == 0)
		r = gb_file_write_atomic(
			m->dir, GB_HOT_FILE, h->v, h->n * sizeof(h->v[0]), 0600, err);
	return r < 0 ? gb_wrap(err, r, "the template does not work") : 0;
}
