#include "machine/boot_impl.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "image/disk/clone.h"
#include "machine/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define RESTORE_DEADLINE_MS UINT64_C(30000)
#define COLD_DEADLINE_MS    UINT64_C(120000)
#define ENTROPY_BYTES       64
#define HOSTNAME_MAX        63
#define CLOCK_TRIES         6
#define CLOCK_TRUSTED_NS    (20 * GB_NS_MS)
#define CLOCK_REQUEST       1000 /* the first request id of setting it */

void gb_boot_done(struct gb_boot *b)
{
	if (b->vm)
		b->driver->free(b->vm);
	gb_fd_close(&b->agent_fd);
	gb_fd_close(&b->share_ctl);
	if (b->share_pid)
		gb_kill_child(b->share_pid);
	gb_fd_close(&b->disk_lock);
	gb_msg_configured_done(&b->guest);
	gb_strv_done(&b->shares);
	gb_strv_done(&b->timings);
	memset(b, 0, sizeof(*b));
	b->agent_fd = b->share_ctl = b->disk_lock = -1;
}

static void note_time(struct gb_boot *b, const char *step, uint64_t *since)
{
	uint64_t now = gb_now_ns();

	gb_strv_addf(&b->timings, "%s=%llu", step, (unsigned long long)(now - *since));
	*since = now;
}

/* A machine's name as a host name: letters, digits and '-'. */
static void make_hostname(const char *name, char *out)
{
	size_t n = 0;

	for (; *name && n < HOSTNAME_MAX; name++)
		out[n++] = strchr("._", *name) ? '-' : *name;
	out[n] = 0;
}

static int add_configure(struct gb_buf *out, const struct gb_machine_spec *spec,
	struct gb_err *err)
{
	uint8_t entropy[ENTROPY_BYTES];
	char hostname[HOSTNAME_MAX + 1];
	struct gb_msg_configure m = {
		.hostname = hostname,
		.machine_id = spec->id,
		.entropy = { entropy, sizeof(entropy) },
		.root_serial = (char *)(uintptr_t)GB_VM_ROOT_SERIAL,
		.flags = GB_CONFIGURE_GROW,
		.user = spec->user,
		.workdir = spec->workdir,
		.env = { spec->env.v, spec->env.n },
	};

	make_hostname(spec->name, hostname);
	if (getrandom(entropy, sizeof(entropy), 0) != (ssize_t)sizeof(entropy))
		return gb_fail_sys(err, errno, "cannot get random bytes");
	m.realtime_ns = gb_realtime_ns();
	gb_msg_add_frame(out, GB_FRAME_CONFIGURE, 1, &gb_msg_configure_desc, &m);
	explicit_bzero(entropy, sizeof(entropy));
	return 0;
}

static void add_shares(struct gb_buf *out, const struct gb_share_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		struct gb_msg_share m = {
			.index = (uint32_t)i,
			.target = plan->list[i].guest,
			.flags = plan->list[i].rdonly ? GB_SHARE_RDONLY : 0,
		};

		gb_msg_add_frame(out, GB_FRAME_SHARE, 2 + (uint32_t)i, &gb_msg_share_desc, &m);
	}
}

/* The next frame, with an ERROR turned into a failure and READY (of a cold boot) skipped. */
static int expect(struct gb_wire *w, uint8_t type, uint64_t deadline, struct gb_frame *ret,
	struct gb_err *err)
{
	int r;

	do {
		r = gb_wire_receive(w, deadline, ret, err);
		if (r < 0)
			return gb_wrap(err, r, "the guest agent does not answer");
	} while (ret->type == GB_FRAME_READY);
	if (ret->type == GB_FRAME_ERROR)
		return gb_wrap(err, gb_msg_take_error(ret->payload, ret->length, err), "guest");
	if (ret->type != type)
		return gb_fail(err, GB_E_PROTOCOL, "the guest agent sent %s instead of %s",
			gb_frame_type_name(ret->type), gb_frame_type_name(type));
	return 0;
}

/* Which user owns what is shared is known only after the agent has read the root's users. */
static int send_owner(const struct gb_boot *b, struct gb_err *err)
{
	struct gb_msg_owner m = { .uid = b->guest.uid, .gid = b->guest.gid };
	gb_auto_done(gb_buf) out = { 0 };
	int r;

	if (b->share_ctl < 0)
		return 0;
	gb_msg_add_frame(&out, GB_FRAME_OWNER, 0, &gb_msg_owner_desc, &m);
	r = gb_buf_check(&out, "owner message", err);
	if (r == 0)
		r = gb_fd_write_full(b->share_ctl, out.data, out.len, err);
	if (r < 0)
		return gb_wrap(err, r, "the share server ended (see supervisor.log)");
	return 0;
}

/* The time that CONFIGURE carries is as old as the guest was slow to read it. It is set again,
 * with half a round trip added, until a round trip was short enough to trust. */
static int set_clock(struct gb_wire *w, uint64_t deadline, struct gb_err *err)
{
	uint64_t trip = 0;

	for (uint32_t i = 0; i < CLOCK_TRIES; i++) {
		uint8_t entropy[ENTROPY_BYTES];
		struct gb_msg_time m = { .entropy = { entropy, sizeof(entropy) } };
		uint64_t sent = gb_now_ns();
		struct gb_frame f;
		int r;

		if (getrandom(entropy, sizeof(entropy), 0) != (ssize_t)sizeof(entropy))
			return gb_fail_sys(err, errno, "cannot get random bytes");
		m.realtime_ns = gb_realtime_ns() + trip / 2;
		gb_msg_add_frame(
			&w->out, GB_FRAME_TIME, CLOCK_REQUEST + i, &gb_msg_time_desc, &m);
		explicit_bzero(entropy, sizeof(entropy));
		r = expect(w, GB_FRAME_OK, deadline, &f, err);
		if (r < 0)
			return r;
		trip = gb_now_ns() - sent;
		if (trip < CLOCK_TRUSTED_NS)
			break;
	}
	return 0;
}

static int handshake(struct gb_boot *b, struct gb_wire *w, const struct gb_machine_spec *spec,
	const struct gb_share_plan *plan, uint64_t deadline, uint64_t *since,
	struct gb_err *err)
{
	struct gb_frame f;
	int r;

	gb_msg_add_hello(&w->out, "supervisor");
	r = add_configure(&w->out, spec, err);
	if (r < 0)
		return r;
	add_shares(&w->out, plan);
	r = expect(w, GB_FRAME_HELLO, deadline, &f, err);
	if (r == 0)
		r = gb_msg_check_hello(f.payload, f.length, "the guest agent", err);
	if (r < 0)
		return r;
	note_time(b, "hello", since);
	r = expect(w, GB_FRAME_CONFIGURED, deadline, &f, err);
	if (r == 0)
		r = gb_msg_configured_decode(f.payload, f.length, &b->guest, err);
	if (r == 0)
		r = send_owner(b, err);
	if (r < 0)
		return r;
	note_time(b, "configure", since);
	gb_strv_addf(&b->timings, "of it mounting the root=%llu",
		(unsigned long long)b->guest.mount_ns);
	for (size_t i = 0; i < plan->count; i++) {
		r = expect(w, GB_FRAME_OK, deadline, &f, err);
		if (r < 0)
			return gb_wrap(err, r, "cannot mount %s", plan->list[i].guest);
		gb_strv_addf(&b->shares, "%s:%s:%s", plan->list[i].host, plan->list[i].guest,
			plan->list[i].rdonly ? "ro" : "rw");
	}
	note_time(b, "shares", since);
	r = set_clock(w, deadline, err);
	note_time(b, "clock", since);
	return r;
}

static int shake_hands(struct gb_boot *b, int fd_consume, const struct gb_machine_spec *spec,
	const struct gb_share_plan *plan, uint64_t deadline, uint64_t *since,
	struct gb_err *err)
{
	struct gb_wire w;
	int r;

	gb_wire_init(&w, fd_consume);
	r = handshake(b, &w, spec, plan, deadline, since, err);
	if (r == 0 && w.in.in.len > w.in.taken)
		r = gb_fail(err, GB_E_PROTOCOL, "the guest agent speaks out of turn");
	if (r == 0)
		b->agent_fd = gb_take_fd(&w.fd);
	gb_wire_done(&w);
	return r;
}

const char *gb_boot_kind_name(enum gb_boot_kind kind)
{
	static const char *const names[] = { "cold", "template", "image template" };

	return names[kind];
}

/* Where one try begins. */
struct origin {
	enum gb_boot_kind kind;
	const char *template_path; /* borrowed; NULL: cold */
	const char *image;         /* borrowed; path of the image, with kind IMAGE */
	int template_disk;         /* borrowed; the disk that belongs to the template */
};

/* The share server, started while the VMM comes up. */
struct sharing {
	struct gb_boot *b;
	const struct gb_share_plan *plan;
	int port; /* borrowed */
};

static int start_sharing(void *ctx, struct gb_err *err)
{
	struct sharing *s = ctx;

	if (!s->plan->count)
		return 0;
	return gb_share_server_start(
		s->plan, s->port, &s->b->share_pid, &s->b->share_ctl, err);
}

static int start_vmm(struct gb_boot *b, const struct gb_machine_spec *spec,
	const struct gb_parts *parts, const struct origin *o, const char *disk,
	const char *console, int ctl, int share, struct sharing *sharing, uint64_t deadline,
	struct gb_err *err)
{
	struct gb_vm_spec v = {
		.accel = parts->accel.accel,
		.cpus = spec->cpus,
		.memory_bytes = spec->memory_bytes,
		.disk = *spec->root ? spec->root : disk,
		.disk_format = *spec->root ? GB_DISK_RAW : GB_DISK_QCOW2,
		.bundle = parts->bundle,
		.template_path = o->template_path,
		.template_root = o->kind == GB_BOOT_IMAGE,
		.ctl_fd = ctl,
		.share_fd = share,
		.net_fd = -1,
		.console = console,
		.meanwhile = start_sharing,
		.ctx = sharing,
	};
	int r;

	/* as late as can be: what fails before leaves the disk as it was */
	if (o->kind == GB_BOOT_IMAGE) {
		r = gb_disk_replace(o->template_disk, o->image, disk, spec->disk_bytes,
			!spec->ephemeral, err);
		if (r < 0)
			return r;
	}
	b->driver = &gb_driver_qemu;
	return b->driver->start(&v, deadline, &b->vm, err);
}

/* One try to bring it up. */
static int attempt(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	const struct gb_parts *parts, const struct origin *o, struct gb_boot *b,
	struct gb_err *err)
{
	gb_auto_free char *disk = gb_machine_path(d, spec->name, "disk.qcow2");
	gb_auto_free char *console = gb_machine_path(d, spec->name, "console.log");
	gb_auto_fd ctl = -1, ctl_vm = -1, share = -1, share_vm = -1;
	uint64_t deadline = gb_deadline_ms(
		o->template_path ? RESTORE_DEADLINE_MS : COLD_DEADLINE_MS);
	uint64_t since = gb_now_ns();
	struct gb_share_plan plan;
	struct sharing sharing;
	int pair[2];
	int r;

	if (!disk || !console)
		return gb_nomem(err);
	gb_share_plan_make(spec, &plan);
	/* a folder that is gone is told before the disk is touched */
	r = gb_share_plan_check(&plan, err);
	if (r == 0)
		r = gb_socketpair(pair, err);
	if (r < 0)
		return r;
	ctl = pair[0];
	ctl_vm = pair[1];
	r = gb_socketpair(pair, err);
	if (r < 0)
		return r;
	share = pair[0];
	share_vm = pair[1];
	sharing = (struct sharing){ b, &plan, share };
	r = start_vmm(b, spec, parts, o, disk, console, ctl_vm, share_vm, &sharing, deadline,
		err);
	if (r < 0)
		return r;
	note_time(b, "vmm", &since);
	gb_fd_close(&ctl_vm);
	return shake_hands(b, gb_take_fd(&ctl), spec, &plan, deadline, &since, err);
}

/* What a template has no part in fails again in the same way. */
static bool is_final(int r)
{
	return r == GB_E_NOTFOUND || r == GB_E_DENIED || r == GB_E_BUSY;
}

static int attempt_cold(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	const struct gb_parts *parts, struct gb_boot *b, struct gb_err *err)
{
	struct origin o = { .kind = GB_BOOT_COLD };

	b->kind = o.kind;
	return attempt(d, spec, parts, &o, b, err);
}

static int attempt_generic(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	const struct gb_parts *parts, struct gb_boot *b, struct gb_err *err)
{
	struct origin o = { .kind = GB_BOOT_TEMPLATE, .template_path = parts->template_path };

	b->kind = o.kind;
	return attempt(d, spec, parts, &o, b, err);
}

/* The template's folder is held open, and all is taken from there: if another process makes
 * it again meanwhile, disk and memory are still of one making. */
static int attempt_image(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	const char *image, const struct gb_parts *parts, struct gb_boot *b,
	struct gb_err *err)
{
	gb_auto_fd dir = open(parts->image_template, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	gb_auto_fd disk = -1;
	struct origin o = { .kind = GB_BOOT_IMAGE, .image = image };
	char path[64];

	if (dir >= 0)
		disk = openat(dir, GB_TEMPLATE_DISK, O_RDONLY | O_CLOEXEC);
	if (disk < 0)
		return gb_fail(err, GB_E_STATE, "the template has no disk");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	o.template_path = path;
	o.template_disk = disk;
	b->kind = o.kind;
	return attempt(d, spec, parts, &o, b, err);
}

/* Everything but the disk's lock, so that another try can follow. */
static void forget_attempt(struct gb_boot *b)
{
	int lock = gb_take_fd(&b->disk_lock);

	gb_boot_done(b);
	b->disk_lock = lock;
}

/* A template that cannot be restored is made once more, then a cold boot is used. */
static int boot_generic(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	gb_boot_progress progress, void *ctx, struct gb_parts *parts, struct gb_boot *b,
	struct gb_err *err)
{
	struct gb_err first = { 0 };
	int r;

	if (!parts->template_path) {
		snprintf(b->note, sizeof(b->note), "cold boot, %.480s", parts->why);
		return attempt_cold(d, spec, parts, b, err);
	}
	r = attempt_generic(d, spec, parts, b, &first);
	if (r == 0 || is_final(r)) {
		if (r < 0 && err)
			*err = first;
		return r;
	}
	gb_log(GB_LOG_WARN, "the template did not restore: %s", first.msg);
	forget_attempt(b);
	if (gb_parts_rebuild(d, spec, progress, ctx, parts, NULL) == 0) {
		r = attempt_generic(d, spec, parts, b, err);
		if (r == 0) {
			snprintf(b->note, sizeof(b->note), "template made again: %.480s",
				first.msg);
			return 0;
		}
		forget_attempt(b);
		free(gb_take_ptr(parts->template_path));
	}
	gb_log(GB_LOG_WARN, "starting cold");
	r = attempt_cold(d, spec, parts, b, err);
	snprintf(b->note, sizeof(b->note), "cold boot, template failed: %.470s", first.msg);
	return r;
}

/* Once a try with the image's template has begun, the disk is no longer unused: what follows
 * starts as if its host had crashed, and mounts it anew. */
static int boot_with_parts(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	const char *image, gb_boot_progress progress, void *ctx, struct gb_parts *parts,
	struct gb_boot *b, struct gb_err *err)
{
	struct gb_err first = { 0 };
	bool broken;
	int r;

	if (!parts->image_template) {
		r = boot_generic(d, spec, progress, ctx, parts, b, err);
		if (r == 0 && !*b->note)
			snprintf(b->note, sizeof(b->note), "%s", parts->image_why);
		return r;
	}
	r = attempt_image(d, spec, image, parts, b, &first);
	if (r == 0 || is_final(r)) {
		if (r < 0 && err)
			*err = first;
		return r;
	}
	gb_log(GB_LOG_WARN, "the image's template did not restore: %s", first.msg);
	broken = r != GB_E_NOSPACE && r != GB_E_NOMEM;
	forget_attempt(b);
	gb_parts_drop_image(d, spec, broken, progress, ctx, parts);
	r = boot_generic(d, spec, progress, ctx, parts, b, err);
	if (r == 0 && !*b->note)
		snprintf(b->note, sizeof(b->note), "the image's template failed: %.470s",
			first.msg);
	return r;
}

/* The image lies under every overlay; without it the disk is worth nothing. */
static int find_image(const struct gb_dirs *d, const struct gb_machine_spec *spec, char **ret,
	struct gb_err *err)
{
	gb_auto_free char *path = NULL;

	if (*spec->root)
		return 0;
	if (asprintf(&path, "%s/images/%s/root.ext4", d->data, spec->image) < 0) {
		path = NULL;
		return gb_nomem(err);
	}
	if (access(path, R_OK) < 0)
		return gb_fail(err, GB_E_NOTFOUND,
			"image '%s' (%.12s) is missing: import it again from the same source, "
			"or remove the machine",
			spec->image_ref, spec->image);
	*ret = gb_take_ptr(path);
	return 0;
}

/* The note that it was started and the disk itself must both say that it is new: a template
 * whose root is mounted destroys any other. */
static bool is_new(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	const char *image)
{
	gb_auto_free char *disk = gb_machine_path(d, spec->name, "disk.qcow2");
	gb_auto_free char *half = gb_machine_path(d, spec->name, "disk.qcow2" GB_DISK_REPLACING);

	if (half)
		unlink(half);
	return disk && gb_disk_is_pristine(image, disk, spec->disk_bytes);
}

int gb_boot_machine(const struct gb_dirs *d, const struct gb_machine_spec *spec, bool fresh,
	gb_boot_progress progress, void *ctx, struct gb_boot *ret, struct gb_err *err)
{
	gb_auto_free char *image = NULL;
	struct gb_parts parts = { 0 };
	uint64_t since = gb_now_ns();
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->agent_fd = ret->share_ctl = ret->disk_lock = -1;
	r = find_image(d, spec, &image, err);
	if (r == 0 && *spec->root)
		r = gb_disk_lock(spec->root, &ret->disk_lock, err);
	/* also clears up, so it is asked in any case */
	fresh = image && is_new(d, spec, image) && fresh;
	if (r == 0)
		r = gb_parts_find(
			d, spec, fresh ? image : NULL, progress, ctx, &parts, err);
	if (r == 0) {
		note_time(ret, "prepare", &since);
		r = boot_with_parts(d, spec, image, progress, ctx, &parts, ret, err);
		ret->accel = parts.accel.accel;
	}
	gb_parts_done(&parts);
	if (r < 0)
		gb_boot_done(ret);
	return r;
}
