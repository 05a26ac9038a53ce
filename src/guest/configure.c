/* CONFIGURE: the machine learns who it is, mounts its root and makes the tools' world.
 *
 * A template of an image has the second and the third behind it: it was sent CONFIGURE with
 * PREPARE, ran a few commands, and was sent it again. It must hold nothing in which machines
 * differ: no identity is set, no user's environment is known, and boot_id is not read, since
 * the kernel makes that up when it is read first. */
#include "guest/agent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "guest/mnt.h"
#include "guest/world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define DISK_DEADLINE_MS 15000
#define POLL_STEP_US     1000
#define HOSTNAME_MAX     63

/* Of ext4's superblock: where, and what we look at. */
#define SB_OFFSET        1024
#define SB_SIZE          1024
#define SB_BLOCKS_LO     0x04
#define SB_LOG_BLOCK     0x18
#define SB_MAGIC         0x38
#define SB_INCOMPAT      0x60
#define SB_BLOCKS_HI     0x150
#define SB_MAGIC_VALUE   0xef53u
#define INCOMPAT_RECOVER 0x4u
#define INCOMPAT_64BIT   0x80u
#define LOG_BLOCK_MAX    6u
/* Not in the kernel's exported headers before 6.2. */
#define RESIZE_FS _IOW('f', 16, uint64_t)

struct root_disk {
	char name[64];
	int fd; /* owned */
	uint64_t bytes;
	bool replay; /* its journal will be replayed */
};

static uint32_t le(const uint8_t *p, int bytes)
{
	uint32_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint32_t)p[i] << (8 * i);
	return v;
}

static bool has_serial(int block, const char *disk, const char *serial)
{
	char path[300], text[64];
	gb_auto_fd fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/serial", disk);
	fd = openat(block, path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n < 0)
		return false;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return strcmp(text, serial) == 0;
}

/* By serial, never by letter: false when it is not there (yet). */
static bool find_disk(const struct gb_agent *a, const char *serial, char *name, size_t size)
{
	int block = openat(a->sys, "block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = block >= 0 ? fdopendir(block) : NULL;
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		if (e->d_name[0] == '.' || strlen(e->d_name) >= size)
			continue;
		found = has_serial(block, e->d_name, serial);
		if (found)
			memcpy(name, e->d_name, strlen(e->d_name) + 1);
	}
	if (d)
		closedir(d);
	else if (block >= 0)
		close(block);
	return found;
}

/* 1: whole, 0: the device is still smaller than its file system (a restored template learns
 * of its new disk's size a moment later), or a negative code. */
static int look_at_disk(struct root_disk *d, struct gb_err *err)
{
	uint8_t sb[SB_SIZE];
	uint64_t blocks;
	ssize_t n;

	/* pages that were read of the template's placeholder */
	ioctl(d->fd, BLKFLSBUF, 0);
	if (ioctl(d->fd, BLKGETSIZE64, &d->bytes) < 0)
		return gb_fail_sys(err, errno, "cannot read the disk's size");
	n = pread(d->fd, sb, sizeof(sb), SB_OFFSET);
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read the root disk");
	if (n != SB_SIZE || le(sb + SB_MAGIC, 2) != SB_MAGIC_VALUE)
		return gb_fail(err, GB_E_PARSE, "the root disk holds no ext4 file system");
	if (le(sb + SB_LOG_BLOCK, 4) > LOG_BLOCK_MAX)
		return gb_fail(err, GB_E_PARSE, "the root disk's file system is damaged");
	blocks = le(sb + SB_BLOCKS_LO, 4);
	if (le(sb + SB_INCOMPAT, 4) & INCOMPAT_64BIT)
		blocks |= (uint64_t)le(sb + SB_BLOCKS_HI, 4) << 32;
	d->replay = le(sb + SB_INCOMPAT, 4) & INCOMPAT_RECOVER;
	return blocks <= d->bytes >> (10 + le(sb + SB_LOG_BLOCK, 4));
}

static int wait_disk(const struct gb_agent *a, const char *serial, struct root_disk *d,
	struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(DISK_DEADLINE_MS);
	struct gb_err last = { 0 };

	gb_fail(&last, GB_E_NOTFOUND, "there is no disk with the serial '%s'", serial);
	for (;; usleep(POLL_STEP_US)) {
		if (d->fd < 0 && find_disk(a, serial, d->name, sizeof(d->name)))
			d->fd = openat(a->dev, d->name, O_RDONLY | O_CLOEXEC);
		if (d->fd >= 0) {
			int r = look_at_disk(d, &last);

			if (r > 0)
				return 0;
			if (r == 0)
				gb_fail(&last, GB_E_STATE,
					"the root disk is smaller than its file system");
		}
		if (gb_deadline_passed(deadline)) {
			if (err)
				*err = last;
			return last.code;
		}
	}
}

static int mount_root(struct gb_agent *a, const struct root_disk *d, bool rdonly,
	struct gb_err *err)
{
	const char *options[] = { "discard", "errors=remount-ro", rdonly ? "ro" : NULL, NULL };
	gb_auto_fd mnt = -1;
	gb_auto_fd at = -1;
	char node[80]; /* in the initramfs, while it is being mounted */
	struct stat st;
	int r;

	snprintf(node, sizeof(node), "/dev/%s", d->name);
	mkdir("/dev", 0755);
	if (fstat(d->fd, &st) < 0 || mknod(node, S_IFBLK | 0600, st.st_rdev) < 0)
		return gb_fail_sys(err, errno, "cannot make the root's device node");
	/* nodev: an image may bring nodes of our ports */
	r = gb_mnt_new("ext4", node, options,
		GB_MNT_NODEV | (rdonly ? GB_MNT_RDONLY : 0), &mnt, err);
	unlink(node);
	if (r < 0)
		return r;
	if (mkdir(GB_ROOT_PATH, 0755) < 0 && errno != EEXIST)
		return gb_fail_sys(err, errno, "cannot make '%s'", GB_ROOT_PATH);
	at = open(GB_ROOT_PATH, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = gb_mnt_attach(mnt, at, err);
	if (r < 0)
		return r;
	a->root = open(GB_ROOT_PATH, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->root < 0)
		return gb_fail_sys(err, errno, "cannot open the root");
	memcpy(a->root_dev, d->name, sizeof(a->root_dev));
	return 0;
}

/* An image may lack everything; what is there may be a link. */
static int make_mount_points(struct gb_agent *a, struct gb_err *err)
{
	static const struct {
		const char *path;
		mode_t mode;
	} points[] = { { "proc", 0555 }, { "sys", 0555 }, { "dev", 0755 }, { "run", 0755 },
		{ "tmp", 01777 }, { "etc", 0755 } };

	for (size_t i = 0; i < GB_ARRAY_SIZE(points); i++) {
		if (mkdirat(a->root, points[i].path, points[i].mode) == 0)
			fchmodat(a->root, points[i].path, points[i].mode, 0);
		else if (errno != EEXIST && errno != EROFS)
			return gb_fail_sys(err, errno, "cannot make '/%s'", points[i].path);
	}
	return 0;
}

#define MACHINE_ID_LEN 32

static bool is_machine_id(const char *s)
{
	return strlen(s) == MACHINE_ID_LEN && strspn(s, "0123456789abcdef") == MACHINE_ID_LEN;
}

/* Only when it is empty or absent, as systemd has it; a read-only or odd root is left. */
static int write_machine_id(struct gb_agent *a, const char *id, struct gb_err *err)
{
	gb_auto_fd fd = -1;
	char text[MACHINE_ID_LEN + 2];
	struct stat st;
	int n;

	if (!*id)
		return 0;
	if (!is_machine_id(id))
		return gb_fail(err, GB_E_INVALID, "the machine id is not 32 hex digits");
	n = snprintf(text, sizeof(text), "%s\n", id);
	if (gb_open_in_root(a->root, "etc/machine-id", O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY,
		    0444, &fd, NULL) < 0 ||
		fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 1)
		return 0;
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		return gb_fail_sys(err, errno, "cannot write /etc/machine-id");
	return 0;
}

static int set_hostname(const char *name, struct gb_err *err)
{
	if (!*name || strlen(name) > HOSTNAME_MAX)
		return gb_fail(err, GB_E_INVALID, "the host name is empty or too long");
	if (sethostname(name, strlen(name)) < 0)
		return gb_fail_sys(err, errno, "cannot set the host name");
	return 0;
}

static void loopback_up(void)
{
	struct ifreq req = { .ifr_name = "lo" };
	gb_auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &req) < 0)
		return;
	req.ifr_flags = (short)(req.ifr_flags | IFF_UP);
	if (ioctl(fd, SIOCSIFFLAGS, &req) < 0)
		gb_log(GB_LOG_WARN, "cannot start the loopback device");
}

static int grow_root(void *ctx, struct gb_err *err)
{
	const struct gb_agent *a = ctx;
	gb_auto_fd disk = openat(a->dev, a->root_dev, O_RDONLY | O_CLOEXEC);
	struct statfs st;
	uint64_t bytes, blocks;

	if (disk < 0 || ioctl(disk, BLKGETSIZE64, &bytes) < 0 || fstatfs(a->root, &st) < 0)
		return gb_fail_sys(err, errno, "cannot read the disk's size");
	blocks = bytes / (uint64_t)st.f_bsize;
	if (ioctl(a->root, RESIZE_FS, &blocks) < 0)
		return gb_fail_sys(err, errno, "cannot grow the root");
	return 0;
}

/* In a helper, so that the first command does not wait for it. */
static void start_growing(struct gb_agent *a)
{
	struct gb_err err;

	if (gb_helper_start(a, grow_root, a, &a->reports[GB_JOB_MAX], &a->grower, &err) < 0)
		gb_log(GB_LOG_WARN, "%s", err.msg);
}

static int keep_defaults(struct gb_agent *a, const struct gb_msg_configure *m, struct gb_user *u,
	struct gb_err *err)
{
	for (size_t i = 0; i < m->env.n; i++)
		gb_strv_set_env(&a->env, m->env.v[i]);
	a->user = strdup(m->user);
	a->workdir = strdup(*m->workdir ? m->workdir : "/");
	if (!a->user || !a->workdir || a->env.error)
		return gb_nomem(err);
	return gb_user_find(a->root, a->user, u, err);
}

static int open_terminals(struct gb_agent *a, struct gb_err *err)
{
	static const char *const options[] = { "ptmxmode=0666", "mode=0620", "gid=5", NULL };

	return gb_mnt_new(
		"devpts", "devpts", options, GB_MNT_NOSUID | GB_MNT_NOEXEC, &a->pts, err);
}

static int set_identity(struct gb_agent *a, const struct gb_msg_configure *m, struct gb_err *err)
{
	int r = gb_set_time(m->realtime_ns, err);

	if (r == 0)
		r = gb_add_entropy(a->dev, m->entropy.data, m->entropy.len, err);
	return r == 0 ? set_hostname(m->hostname, err) : r;
}

/* What needs the disk, and nothing of who the machine is. */
static int make_world(struct gb_agent *a, const struct gb_msg_configure *m,
	struct gb_msg_configured *reply, struct gb_err *err)
{
	struct root_disk disk = { .fd = -1 };
	uint64_t begun;
	int r;

	/* nothing that a template could have lacked is loaded after this */
	if (gb_write_knob(a->proc, "sys/kernel/modules_disabled", "1", NULL) < 0)
		gb_log(GB_LOG_DEBUG, "this kernel loads no modules");
	r = wait_disk(a, m->root_serial, &disk, err);
	begun = gb_now_ns();
	if (r == 0)
		r = mount_root(a, &disk, m->flags & GB_CONFIGURE_RDONLY, err);
	reply->mount_ns = gb_now_ns() - begun;
	reply->fsck = disk.replay;
	a->disk_bytes = disk.bytes;
	gb_fd_close(&disk.fd);
	if (r == 0)
		r = make_mount_points(a, err);
	if (r == 0)
		r = open_terminals(a, err);
	if (r == 0)
		r = gb_world_start(a, err);
	if (r == 0)
		loopback_up();
	return r;
}

/* The first of two: the time only so that files get a sane one. The root is grown here, so
 * that no machine has to. */
static int prepare(struct gb_agent *a, const struct gb_msg_configure *m,
	struct gb_msg_configured *reply, struct gb_err *err)
{
	struct gb_err cause;
	int r = gb_set_time(m->realtime_ns, err);

	if (r == 0)
		r = make_world(a, m, reply, err);
	if (r < 0)
		return r;
	if ((m->flags & GB_CONFIGURE_GROW) && grow_root(a, &cause) < 0)
		gb_log(GB_LOG_WARN, "%s", cause.msg);
	a->user = strdup("");
	a->workdir = strdup("/");
	if (!a->user || !a->workdir)
		return gb_nomem(err);
	a->state = GB_AGENT_WARMING;
	return 0;
}

/* The second: disk and memory agree in any case, since they are saved together; but what is
 * not written yet would be written by every machine again. */
static int settle(struct gb_agent *a, struct gb_err *err)
{
	for (size_t i = 0; i < GB_JOB_MAX; i++)
		if (a->jobs[i].kind != GB_JOB_NONE)
			return gb_fail(err, GB_E_STATE, "a request is still being served");
	if (syncfs(a->root) < 0)
		return gb_fail_sys(err, errno, "cannot sync the root");
	free(gb_take_ptr(a->user));
	free(gb_take_ptr(a->workdir));
	a->prepared = true;
	a->state = GB_AGENT_BOOTED;
	return 0;
}

static int personalise(struct gb_agent *a, const struct gb_msg_configure *m,
	struct gb_msg_configured *reply, struct gb_err *err)
{
	gb_auto_done(gb_user) user = { 0 };
	int r = set_identity(a, m, err);

	if (r == 0 && !a->prepared)
		r = make_world(a, m, reply, err);
	if (r == 0)
		r = write_machine_id(a, m->machine_id, err);
	if (r == 0)
		r = keep_defaults(a, m, &user, err);
	if (r < 0)
		return r;
	if (!a->prepared && (m->flags & GB_CONFIGURE_GROW) && !(m->flags & GB_CONFIGURE_RDONLY))
		start_growing(a);
	reply->uid = user.uid;
	reply->gid = user.gid;
	a->state = GB_AGENT_CONFIGURED;
	return 0;
}

static int configure(struct gb_agent *a, const struct gb_msg_configure *m,
	struct gb_msg_configured *reply, struct gb_err *err)
{
	bool prepares = m->flags & GB_CONFIGURE_PREPARE;

	if (a->state == GB_AGENT_WARMING && prepares)
		return settle(a, err);
	if (a->state == GB_AGENT_WARMING || (prepares && a->prepared))
		return gb_fail(err, GB_E_PROTOCOL, "unexpected CONFIGURE frame from the host");
	return prepares ? prepare(a, m, reply, err) : personalise(a, m, reply, err);
}

int gb_configure(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	gb_auto_done(gb_msg_configure) m = { 0 };
	struct gb_msg_configured reply = { 0 };
	struct utsname uts;
	struct timespec ts;
	int r = gb_msg_configure_decode(f->payload, f->length, &m, err);

	if (r < 0)
		return r;
	r = configure(a, &m, &reply, err);
	explicit_bzero(m.entropy.data, m.entropy.len);
	if (r < 0)
		return r;
	uname(&uts);
	clock_gettime(CLOCK_BOOTTIME, &ts);
	reply.kernel = uts.release;
	reply.disk_bytes = a->disk_bytes;
	reply.boot_ns = (uint64_t)ts.tv_sec * GB_NS_SEC + (uint64_t)ts.tv_nsec;
	gb_msg_add_frame(&a->ctl.out, GB_FRAME_CONFIGURED, f->request, &gb_msg_configured_desc,
		&reply);
	return 0;
}
