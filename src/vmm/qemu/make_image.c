/* Making a template of an image: a copy of the generic one's memory is restored with a
 * fresh disk of the image, the agent mounts and grows the root and makes the tools'
 * world, and runs a few of the image's own programs the way that any command runs. What
 * they read is in memory then. After a last sync memory, devices and disk are saved at
 * one moment.
 *
 * The image's programs are foreign code: what they did to the disk and to memory is what
 * each machine of this image starts with, and no machine of another one. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "vmm/qemu/make_talk.h"
#include "vmm/qemu/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESTORE_DEADLINE_MS 30000
#define COPY_CHUNK	    ((size_t)1 << 20)
#define WARM_ROUNDS	    2 /* the second runs from memory, as every machine's first */

/* What agents start first. An image may lack them: that is its matter. */
static const char *const warm_commands[][4] = {
	{"/bin/true", NULL},
	{"/bin/sh", "-c", "ls -l /; cat /etc/passwd; uname -a; id", NULL},
	{"/bin/bash", "-c", "test -e /work; /bin/true", NULL},
};

static int settle_in(struct gb_talk *t, struct gb_err *err)
{
	struct gb_msg_configure m = {.flags = GB_CONFIGURE_PREPARE | GB_CONFIGURE_GROW};

	return gb_talk_configure(t, &m, err);
}

static int warm_up(struct gb_talk *t, struct gb_err *err)
{
	int r = gb_talk_greet(t, err);

	if (r == 0)
		r = settle_in(t, err);
	for (size_t i = 0; r == 0 && i < WARM_ROUNDS * GB_ARRAY_SIZE(warm_commands); i++)
		r = gb_talk_run(t, warm_commands[i % GB_ARRAY_SIZE(warm_commands)], err);
	return r == 0 ? settle_in(t, err) : r;
}

static int copy_data(
	int from, int to, off_t at, off_t end, void *chunk, struct gb_err *err)
{
	while (at < end) {
		size_t want = GB_MIN((size_t)(end - at), COPY_CHUNK);
		ssize_t n = pread(from, chunk, want, at);

		if (n > 0)
			n = pwrite(to, chunk, (size_t)n, at);
		if (n <= 0)
			return gb_fail_sys(
				err, n < 0 ? errno : EIO, "cannot copy a template");
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
int gb_make_copy(int from, int to, struct gb_err *err)
{
	gb_auto_free void *chunk = malloc(COPY_CHUNK);
	struct stat st;
	off_t at = 0;

	if (!chunk)
		return gb_nomem(err);
	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return gb_fail_sys(err, errno, "cannot copy a template");
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(from, at, SEEK_HOLE);
		int r = end < 0 ? gb_fail_sys(err, errno, "cannot read a template")
				: copy_data(from, to, at, end, chunk, err);

		if (r < 0)
			return r;
		at = end;
	}
	return errno == ENXIO ? 0 : gb_fail_sys(err, errno, "cannot read a template");
}

static int take_base(
	const struct gb_making *m, struct gb_qemu_files *ret, struct gb_err *err)
{
	gb_auto_fd dir = open(m->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	gb_auto_fd from = -1;
	gb_auto_fd to = openat(m->dir, "memory", O_RDWR | O_CLOEXEC);

	if (dir >= 0) {
		from = openat(dir, "memory", O_RDONLY | O_CLOEXEC);
		ret->state = openat(dir, "state", O_RDONLY | O_CLOEXEC);
	}
	if (from < 0 || to < 0 || ret->state < 0)
		return gb_fail_sys(err, errno, "cannot open the generic template");
	return gb_make_copy(from, to, err);
}

static int start(struct gb_making *m, struct gb_make_ports *ports, const char *disk,
	struct gb_vm **ret, struct gb_err *err)
{
	gb_auto_free char *memory = gb_path_join(m->place.path, "memory");
	gb_auto_free char *console = gb_path_join(m->place.path, "console.log");
	struct gb_vm_spec spec = gb_template_spec(m->want, disk);
	struct gb_qemu_plan plan = {.mode = GB_QEMU_REMAKE,
		.vm = &spec,
		.memory = memory,
		.binary = m->key->binary};
	struct gb_qemu_files files = GB_QEMU_FILES_INIT;
	int r = memory && console ? take_base(m, &files, err) : gb_nomem(err);

	spec.disk_format = GB_DISK_QCOW2;
	spec.ctl_fd = ports->ctl[1];
	spec.share_fd = ports->share[1];
	spec.net_fd = ports->net[1];
	spec.console = console;
	if (r == 0)
		r = gb_qemu_vm_start(&plan, &files, ret, err);
	gb_qemu_files_done(&files);
	if (r < 0)
		return r;
	gb_make_ports_given(ports);
	return gb_qemu_restore(
		*ret, m->want->disk_bytes, gb_deadline_ms(RESTORE_DEADLINE_MS), err);
}

int gb_make_prepared(struct gb_making *m, struct gb_make_ports *ports, struct gb_err *err)
{
	gb_auto_free char *disk = gb_path_join(m->place.path, GB_TEMPLATE_DISK);
	struct gb_talk t;
	uint64_t from = gb_now_ns();
	int r = disk ? m->disk->make(m->disk->ctx, disk, err) : gb_nomem(err);

	gb_talk_init(&t, ports->ctl[0]);
	if (r == 0)
		r = start(m, ports, disk, &t.vm, err);
	if (r == 0)
		r = warm_up(&t, err);
	m->boot_ns = gb_now_ns() - from;
	if (r == 0)
		r = gb_make_save(m, t.vm, err);
	if (t.vm)
		snprintf(m->qemu, sizeof(m->qemu), "%s", t.vm->qmp.version);
	gb_talk_done(&t);
	return r == 0 ? gb_make_hot(m, err) : r;
}
