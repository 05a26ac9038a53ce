/* Making a template: a machine is booted with its memory in a shared file and a disk of
 * no size, until the agent says that it waits. Then it is paused, the state of its
 * devices is written beside the memory, and both are published together.
 *
 * The agent's READY is the last thing that happens in the guest before the pause, so what
 * it loaded and looked at is in the template, and nothing of any machine is: no disk, no
 * key, no name. The guest is as trustworthy as the bundle that it was booted from. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "proto/frame.h"
#include "store/flight.h"
#include "store/publish.h"
#include "vmm/prepare.h"
#include "vmm/qemu/host.h"
#include "vmm/qemu/template_key.h"
#include "vmm/qemu/vm.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BOOT_DEADLINE_MS 120000
#define SAVE_DEADLINE_MS 60000
#define WAIT_DEADLINE_MS 240000 /* for another process that makes the same */
#define KEEP_MAX	 8	/* templates; the ones used last stay */

/* The machine is not paused first: what is written says that it ran, so a restored one
 * goes on at once instead of waiting to be told. QEMU pauses it itself before it writes.
 */
#define SAVE_COMMAND                                                                     \
	"{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":["    \
	"{\"capability\":\"x-ignore-shared\",\"state\":true},"                           \
	"{\"capability\":\"events\",\"state\":true}]}}"
#define GETFD_COMMAND	"{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"state\"}}"
#define MIGRATE_COMMAND "{\"execute\":\"migrate\",\"arguments\":{\"uri\":\"fd:state\"}}"

/* One making. */
struct making {
	const struct gb_template_key *key;
	const struct gb_template_want *want;
	const char *cache_dir;
	gb_progress progress;
	void *ctx;
	struct gb_publish place;
	int dir; /* owned; of the folder in the making */
	unsigned tsc_khz;
	uint64_t boot_ns;
	char qemu[64]; /* version */
};

static void tell(gb_progress progress, void *ctx, const char *line)
{
	if (progress)
		progress(ctx, line);
}

/* Our ends of the ports that a machine has, and the child's. */
struct ports {
	int ctl[2];
	int share[2];
	int net[2];
};
#define PORTS_INIT                                                                       \
	{                                                                                \
		{-1, -1}, {-1, -1},                                                      \
		{                                                                        \
			-1, -1                                                           \
		}                                                                        \
	}

static void ports_done(struct ports *p)
{
	for (int i = 0; i < 2; i++) {
		gb_fd_close(&p->ctl[i]);
		gb_fd_close(&p->share[i]);
		gb_fd_close(&p->net[i]);
	}
}

static int ports_open(struct ports *p, bool network, struct gb_err *err)
{
	int r = gb_socketpair(p->ctl, err);

	if (r == 0)
		r = gb_socketpair(p->share, err);
	if (r == 0 && network)
		r = gb_socketpair(p->net, err);
	return r < 0 ? r : gb_fd_nonblock(p->ctl[0], true, err);
}

/* 1: READY came; 0: not yet. */
static int read_ready(int ctl, struct gb_frame_reader *reader, struct gb_err *err)
{
	struct gb_frame frame;
	size_t room;
	uint8_t *to = gb_frame_reader_room(reader, &room);
	ssize_t n;
	int r;

	if (!to)
		return gb_nomem(err);
	n = read(ctl, to, room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return gb_fail(err, GB_E_CLOSED, "the guest's port is gone");
	gb_frame_reader_filled(reader, (size_t)n);
	r = gb_frame_reader_next(reader, &frame, err);
	if (r <= 0)
		return r;
	if (frame.type != GB_FRAME_READY)
		return gb_fail(err, GB_E_PROTOCOL, "the agent sent %s, not READY",
			gb_frame_type_name(frame.type));
	return 1;
}

static int await_ready(struct gb_vm *vm, int ctl, struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(BOOT_DEADLINE_MS);
	struct gb_frame_reader reader;
	int r = 0;

	gb_frame_reader_init(&reader);
	while (r == 0) {
		struct pollfd p[2] = {{.fd = ctl, .events = POLLIN},
			{.fd = vm->epoll, .events = POLLIN}};

		if (poll(p, 2, gb_deadline_poll_ms(deadline)) < 0 && errno != EINTR)
			r = gb_fail_sys(err, errno, "cannot poll");
		else if (p[0].revents)
			r = read_ready(ctl, &reader, err);
		if (r == 0 && p[1].revents)
			gb_qemu_vm_drain(vm);
		if (r == 0 && (vm->reaped || vm->events & 1u << GB_VM_GUEST_OFF))
			r = gb_qemu_vm_explain(vm, GB_E_STATE, err);
		else if (r == 0 && gb_deadline_passed(deadline))
			r = gb_fail(err, GB_E_TIMEOUT,
				"the agent was not ready in %d seconds",
				BOOT_DEADLINE_MS / 1000);
	}
	gb_frame_reader_done(&reader);
	return r < 0 ? r : 0;
}

static int await_saved(struct gb_vm *vm, uint64_t deadline_ns, struct gb_err *err)
{
	struct gb_qmp_message m;

	while (vm->migration == GB_QEMU_MIGRATION_NONE) {
		int r = gb_qmp_next(&vm->qmp, &m, err);

		if (r == 1)
			gb_qmp_message_done(&m);
		else if (r == 0 && vm->migration == GB_QEMU_MIGRATION_NONE)
			r = gb_qmp_wait(&vm->qmp, deadline_ns, err);
		if (r < 0)
			return r;
	}
	if (vm->migration != GB_QEMU_MIGRATION_DONE)
		return gb_fail(err, GB_E_IO, "qemu could not write the machine's state");
	return 0;
}

/* Write its state, end it. */
static int save(struct making *m, struct gb_vm *vm, struct gb_err *err)
{
	uint64_t deadline = gb_deadline_ms(SAVE_DEADLINE_MS);
	gb_auto_fd state =
		openat(m->dir, "state", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (state < 0)
		return gb_fail_sys(err, errno, "cannot create the state file");
	r = gb_qmp_call(&vm->qmp, SAVE_COMMAND, deadline, NULL, err);
	if (r == 0)
		r = gb_qmp_send_fd(&vm->qmp, GETFD_COMMAND, state, deadline, err);
	if (r == 0)
		r = gb_qmp_answer(&vm->qmp, deadline, NULL, err);
	if (r == 0)
		r = gb_qmp_call(&vm->qmp, MIGRATE_COMMAND, deadline, NULL, err);
	if (r == 0)
		r = await_saved(vm, deadline, err);
	if (r == 0)
		r = gb_qmp_call(&vm->qmp, "{\"execute\":\"quit\"}", deadline, NULL, err);
	if (r == 0)
		r = gb_wait_child(vm->pid, deadline, &vm->status, err);
	if (r < 0)
		return r == GB_E_CLOSED ? gb_qemu_vm_explain(vm, GB_E_IO, err) : r;
	vm->reaped = true;
	return 0;
}

static int run_machine(struct making *m, struct ports *ports, struct gb_err *err)
{
	gb_auto_free char *memory = gb_path_join(m->place.path, "memory");
	gb_auto_free char *disk = gb_path_join(m->place.path, "disk");
	gb_auto_free char *console = gb_path_join(m->place.path, "console.log");
	struct gb_vm_spec spec = gb_template_spec(m->want, disk);
	struct gb_qemu_plan plan = {.mode = GB_QEMU_MAKE,
		.vm = &spec,
		.memory = memory,
		.binary = m->key->binary,
		.tsc_khz = m->tsc_khz};
	struct gb_vm *vm = NULL;
	uint64_t from = gb_now_ns();
	int r;

	if (!memory || !disk || !console)
		return gb_nomem(err);
	spec.ctl_fd = ports->ctl[1];
	spec.share_fd = ports->share[1];
	spec.net_fd = ports->net[1];
	spec.console = console;
	r = gb_qemu_vm_start(&plan, -1, &vm, err);
	if (r < 0)
		return r;
	gb_fd_close(&ports->ctl[1]);
	gb_fd_close(&ports->share[1]);
	gb_fd_close(&ports->net[1]);
	r = gb_qmp_call(&vm->qmp, "{\"execute\":\"qmp_capabilities\"}",
		gb_deadline_ms(SAVE_DEADLINE_MS), NULL, err);
	if (r == GB_E_CLOSED)
		r = gb_qemu_vm_explain(vm, GB_E_IO, err);
	if (r == 0)
		r = await_ready(vm, ports->ctl[0], err);
	/* the ports of a QEMU that ends close before its process is gone */
	if (r == GB_E_CLOSED)
		r = gb_qemu_vm_explain(vm, GB_E_STATE, err);
	m->boot_ns = gb_now_ns() - from;
	if (r == 0)
		r = save(m, vm, err);
	snprintf(m->qemu, sizeof(m->qemu), "%s", vm->qmp.version);
	gb_qemu_vm_free(vm);
	return r;
}

static int file_stat(int dir, const char *name, struct stat *ret, struct gb_err *err)
{
	if (fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return gb_fail_sys(err, errno, "cannot look at the template's %s", name);
	return 0;
}

static int write_description(const struct making *m, struct gb_err *err)
{
	json_auto_t *d = NULL;
	gb_auto_free char *text = NULL;
	struct stat memory;
	struct stat state;
	int r = file_stat(m->dir, "memory", &memory, err);

	if (r == 0)
		r = file_stat(m->dir, "state", &state, err);
	if (r < 0)
		return r;
	d = json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I}", "key", m->key->text,
		"qemu", m->qemu, "tsc_khz", (int)m->tsc_khz, "memory_size",
		(json_int_t)memory.st_size, "memory_used",
		(json_int_t)memory.st_blocks * 512, "state_size",
		(json_int_t)state.st_size, "boot_ns", (json_int_t)m->boot_ns, "made",
		(json_int_t)time(NULL));
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
static int add_console(const struct making *m, int r, struct gb_err *err)
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

static int fill_place(struct making *m, struct gb_err *err)
{
	struct ports ports = PORTS_INIT;
	int r = make_file(m->dir, "disk", err);

	if (r == 0)
		r = make_file(m->dir, "memory", err);
	if (r == 0)
		r = ports_open(&ports, m->want->network, err);
	if (r == 0)
		r = run_machine(m, &ports, err);
	ports_done(&ports);
	if (r < 0)
		return add_console(m, r, err);
	unlinkat(m->dir, "disk", 0);
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
static void clear_up(const char *path)
{
	DIR *folder = opendir(path);
	struct kept oldest;

	if (!folder)
		return;
	for (int i = 0; i < 64 && find_oldest(folder, &oldest) >= KEEP_MAX; i++)
		if (gb_rm_tree(dirfd(folder), oldest.name, NULL) < 0)
			break;
	closedir(folder);
}

static int make_now(struct making *m, struct gb_err *err)
{
	char line[128];
	int r;

	gb_publish_sweep(m->key->folder);
	clear_up(m->key->folder);
	if (m->want->accel == GB_ACCEL_TCG)
		m->tsc_khz = gb_host_tsc_khz(m->cache_dir);
	snprintf(line, sizeof(line),
		"booting a machine to start others from (once for %u cpus, %" PRIu64
		" MiB, %s)",
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
static int make_in_flight(struct making *m, char **ret_dir, struct gb_err *err)
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
	struct making *m = ctx;

	tell(m->progress, m->ctx,
		"waiting for another process that makes the same template");
}

int gb_template_make(const char *cache_dir, const struct gb_template_want *w,
	gb_progress progress, void *ctx, char **ret_dir, struct gb_err *err)
{
	struct gb_template_key key;
	struct making m = {.key = &key,
		.want = w,
		.cache_dir = cache_dir,
		.progress = progress,
		.ctx = ctx,
		.place = GB_PUBLISH_INIT,
		.dir = -1};
	gb_auto_done(gb_flight) flight = GB_FLIGHT_INIT;
	int r = gb_template_key_init(&key, cache_dir, w, err);

	if (r < 0)
		return r;
	r = gb_mkdir_p(key.folder, 0700, err);
	if (r == 0)
		r = gb_flight_begin(key.folder, key.name,
			gb_deadline_ms(WAIT_DEADLINE_MS), say_waiting, &m, &flight, err);
	if (r == 0)
		r = make_in_flight(&m, ret_dir, err);
	gb_template_key_done(&key);
	return r;
}
