#include "machine/store.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/disk/clone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SPEC_FILE_MAX ((size_t)1 << 20)
#define LAST_FILE_MAX ((size_t)4096)

const char *gb_machine_state_name(enum gb_machine_state s)
{
	static const char *const names[] = { "created", "running", "stopped", "crashed" };

	return names[s];
}

void gb_machine_info_done(struct gb_machine_info *i)
{
	free(gb_take_ptr(i->last_error));
}

char *gb_machine_path(const struct gb_dirs *d, const char *name, const char *file)
{
	char *s = NULL;

	if (asprintf(&s, "%s/machines/%s%s%s", d->data, name, *file ? "/" : "", file) < 0)
		return NULL;
	return s;
}

char *gb_machine_socket(const struct gb_dirs *d, const char *name)
{
	char *s = NULL;

	if (asprintf(&s, "%s/%s.sock", d->runtime, name) < 0)
		return NULL;
	return s;
}

int gb_machine_name_for(const char *directory, char **ret, struct gb_err *err)
{
	const char *base = gb_path_base(directory);
	uint64_t hash = gb_fnv1a(directory, strlen(directory), GB_FNV1A_SEED);
	char clean[41];
	size_t n = 0;

	for (; *base && n < sizeof(clean) - 1; base++) {
		char one[2] = { *base, 0 };

		/* a name starts with a letter or digit; other characters become '-' */
		if (gb_name_valid(one))
			clean[n++] = *base;
		else if (n)
			clean[n++] = '-';
	}
	clean[n] = 0;
	if (asprintf(ret, "%s-%08x", n ? clean : "dir", (unsigned)(hash ^ hash >> 32)) < 0)
		return gb_nomem(err);
	return 0;
}

/* Removes a half-made folder unless it was given away. */
struct new_folder {
	int parent;  /* borrowed */
	char *name;  /* owned; NULL once published */
};

static void new_folder_done(struct new_folder *f)
{
	if (f->name)
		gb_rm_tree(f->parent, f->name, NULL);
	free(f->name);
}

/* Folders ".new-PID-name" and ".gone-PID-name" whose maker is no more. */
void gb_machine_sweep(const struct gb_dirs *d)
{
	gb_auto_free char *path = gb_path_join(d->data, "machines");
	DIR *dir = path ? opendir(path) : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		int pid;

		if ((sscanf(e->d_name, ".new-%d-", &pid) == 1 ||
			    sscanf(e->d_name, ".gone-%d-", &pid) == 1) &&
			kill(pid, 0) < 0 && errno == ESRCH)
			gb_rm_tree(dirfd(dir), e->d_name, NULL);
	}
	if (dir)
		closedir(dir);
}

/* Of a machine that does not outlive its run nothing has to outlive a crash of the host. */
static int write_passing(int folder, const char *name, const char *text, struct gb_err *err)
{
	gb_auto_fd fd = openat(
		folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot create '%s'", name);
	return gb_fd_write_full(fd, text, strlen(text), err);
}

static int write_spec(int folder, const struct gb_machine_spec *s, struct gb_err *err)
{
	gb_auto_free char *text = NULL;
	int r = gb_machine_spec_to_json(s, &text, err);

	if (r < 0)
		return r;
	if (s->ephemeral)
		return write_passing(folder, "machine.json", text, err);
	return gb_file_write_atomic(folder, "machine.json", text, strlen(text), 0600, err);
}

static int fill_folder(int machines, const char *tmp, const struct gb_machine_spec *s,
	const char *image_path, const char *machines_path, struct gb_err *err)
{
	gb_auto_fd folder = -1;
	gb_auto_fd lock = -1;
	gb_auto_free char *disk = NULL;
	int r;

	folder = openat(machines, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return gb_fail_sys(err, errno, "cannot open the new machine's folder");
	r = write_spec(folder, s, err);
	if (r < 0)
		return r;
	lock = openat(folder, "lock", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0)
		return gb_fail_sys(err, errno, "cannot create a lock file");
	if (!image_path)
		return 0;
	if (asprintf(&disk, "%s/%s/disk.qcow2", machines_path, tmp) < 0)
		return gb_nomem(err);
	return gb_disk_clone(image_path, disk, s->disk_bytes, err);
}

int gb_machine_create(const struct gb_dirs *d, const struct gb_machine_spec *s,
	const char *image_path, struct gb_err *err)
{
	gb_auto_free char *machines = gb_path_join(d->data, "machines");
	gb_auto_free char *tmp = NULL;
	gb_auto_fd fd = -1;
	/* after fd: cleanups run in reverse order, and this one needs it */
	__attribute__((cleanup(new_folder_done))) struct new_folder made = { -1, NULL };
	int r = gb_machine_spec_check(s, err);

	if (r < 0)
		return r;
	if (!machines || asprintf(&tmp, ".new-%d-%s", (int)getpid(), s->name) < 0)
		return gb_nomem(err);
	r = gb_mkdir_p(machines, 0700, err);
	if (r < 0)
		return r;
	gb_machine_sweep(d);
	fd = open(machines, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", machines);
	if (faccessat(fd, s->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return gb_fail(err, GB_E_EXISTS, "machine '%s' exists", s->name);
	if (mkdirat(fd, tmp, 0700) < 0)
		return gb_fail_sys(err, errno, "cannot create a folder in '%s'", machines);
	made.parent = fd;
	made.name = gb_take_ptr(tmp);
	r = fill_folder(fd, made.name, s, image_path, machines, err);
	if (r < 0)
		return gb_wrap(err, r, "cannot create machine '%s'", s->name);
	if (renameat2(fd, made.name, fd, s->name, RENAME_NOREPLACE) < 0) {
		if (errno == EEXIST)
			return gb_fail(err, GB_E_EXISTS, "machine '%s' exists", s->name);
		return gb_fail_sys(err, errno, "cannot create machine '%s'", s->name);
	}
	free(gb_take_ptr(made.name));
	return 0;
}

static int no_such_machine(const struct gb_dirs *d, const char *name, struct gb_err *err)
{
	struct gb_strv names = { 0 };
	const char *near = NULL;

	if (gb_machine_names(d, &names, NULL) == 0 && names.n)
		near = gb_nearest(name, (const char *const *)names.v);
	if (near)
		gb_fail(err, GB_E_NOTFOUND, "no machine '%s', did you mean '%s'?", name, near);
	else
		gb_fail(err, GB_E_NOTFOUND, "no machine '%s' (glovebox ls lists them)", name);
	gb_strv_done(&names);
	return GB_E_NOTFOUND;
}

/* Opens the machine's folder; a missing one gets the friendly error. */
static int open_folder(const struct gb_dirs *d, const char *name, int *ret, struct gb_err *err)
{
	gb_auto_free char *path = NULL;
	int fd;

	if (!gb_name_valid(name))
		return gb_fail(err, GB_E_INVALID, "'%s' is no name for a machine", name);
	path = gb_machine_path(d, name, "");
	if (!path)
		return gb_nomem(err);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return no_such_machine(d, name, err);
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	*ret = fd;
	return 0;
}

int gb_machine_load(const struct gb_dirs *d, const char *name, struct gb_machine_spec *ret,
	struct gb_err *err)
{
	gb_auto_done(gb_buf) text = { 0 };
	gb_auto_fd folder = -1;
	int r = open_folder(d, name, &folder, err);

	if (r < 0)
		return r;
	r = gb_file_read(folder, "machine.json", SPEC_FILE_MAX, &text, err);
	if (r == 0)
		r = gb_machine_spec_from_json((char *)text.data, text.len, ret, err);
	if (r == 0 && !gb_streq(ret->name, name)) {
		gb_machine_spec_done(ret);
		r = gb_fail(err, GB_E_PARSE, "it describes another machine");
	}
	if (r < 0)
		return gb_wrap(err, GB_E_PARSE,
			"machine '%s' is damaged (glovebox rm %s removes it): machine.json", name,
			name);
	return 0;
}

/* The supervisor locks both, so that it is found when one of them was deleted by hand. */
static const char *const locked_files[] = { "lock", "machine.json" };

static pid_t lock_holder(int folder)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(locked_files); i++) {
		struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
		gb_auto_fd fd = openat(folder, locked_files[i], O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK)
			return l.l_pid;
	}
	return 0;
}

static int machine_is_running(const char *name, struct gb_err *err)
{
	return gb_fail(err, GB_E_STATE,
		"machine '%s' is running: stop it first (glovebox stop %s)", name, name);
}

void gb_machine_lock_done(struct gb_machine_lock *l)
{
	for (size_t i = 0; i < GB_MACHINE_LOCKS; i++)
		gb_fd_close(&l->fds[i]);
}

int gb_machine_lock(const struct gb_dirs *d, const char *name, struct gb_machine_lock *ret,
	struct gb_err *err)
{
	struct gb_machine_lock l = { { -1, -1 } };
	gb_auto_fd folder = -1;
	int r = open_folder(d, name, &folder, err);

	_Static_assert(GB_ARRAY_SIZE(locked_files) == GB_MACHINE_LOCKS, "one fd a file");
	for (size_t i = 0; r == 0 && i < GB_MACHINE_LOCKS; i++) {
		struct flock want = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

		l.fds[i] = openat(folder, locked_files[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (l.fds[i] < 0)
			r = gb_fail_sys(err, errno, "cannot open '%s'", locked_files[i]);
		else if (fcntl(l.fds[i], F_SETLK, &want) < 0 && (errno == EAGAIN || errno == EACCES))
			r = gb_fail(err, GB_E_BUSY, "machine '%s' is running or being changed",
				name);
	}
	if (r < 0) {
		gb_machine_lock_done(&l);
		return r;
	}
	*ret = l;
	return 0;
}

int gb_machine_set_last(const struct gb_dirs *d, const char *name, const char *text,
	bool durable, struct gb_err *err)
{
	gb_auto_fd folder = -1;
	int r = open_folder(d, name, &folder, err);

	if (r < 0)
		return r;
	if (!durable)
		return write_passing(folder, "last", text, err);
	return gb_file_write_atomic(folder, "last", text, strlen(text), 0600, err);
}

/* True also when it cannot be told. */
bool gb_machine_was_started(const struct gb_dirs *d, const char *name)
{
	gb_auto_free char *path = gb_machine_path(d, name, "last");
	struct stat st;

	return !path || lstat(path, &st) == 0 || errno != ENOENT;
}

/* How the last run ended: the text of the file, NULL when there is none. */
static char *read_last(int folder)
{
	gb_auto_done(gb_buf) text = { 0 };

	if (gb_file_read(folder, "last", LAST_FILE_MAX, &text, NULL) < 0)
		return NULL;
	while (text.len && text.data[text.len - 1] == '\n')
		text.len--;
	return gb_buf_take_str(&text);
}

int gb_machine_inspect(const struct gb_dirs *d, const char *name, struct gb_machine_info *ret,
	struct gb_err *err)
{
	gb_auto_fd folder = -1;
	gb_auto_free char *last = NULL;
	struct stat st;
	int r = open_folder(d, name, &folder, err);

	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	ret->supervisor = lock_holder(folder);
	last = read_last(folder);
	if (ret->supervisor)
		ret->state = GB_MACHINE_RUNNING;
	else if (!last)
		ret->state = GB_MACHINE_CREATED;
	else if (gb_streq(last, "ok"))
		ret->state = GB_MACHINE_STOPPED;
	else
		ret->state = GB_MACHINE_CRASHED;
	if (ret->state != GB_MACHINE_CRASHED)
		ret->last_error = strdup("");
	else if (!*last || gb_streq(last, "running"))
		ret->last_error = strdup("its supervisor was killed");
	else
		ret->last_error = gb_take_ptr(last);
	if (fstatat(folder, "disk.qcow2", &st, 0) == 0)
		ret->disk_used = (uint64_t)st.st_blocks * 512;
	return ret->last_error ? 0 : gb_nomem(err);
}

int gb_machine_update(const struct gb_dirs *d, const struct gb_machine_spec *s, struct gb_err *err)
{
	gb_auto_done(gb_machine_lock) lock = { { -1, -1 } };
	gb_auto_fd folder = -1;
	gb_auto_free char *disk = gb_machine_path(d, s->name, "disk.qcow2");
	uint64_t size;
	int r = gb_machine_spec_check(s, err);

	if (r == 0)
		r = open_folder(d, s->name, &folder, err);
	if (r < 0)
		return r;
	if (!disk)
		return gb_nomem(err);
	r = lock_holder(folder) ? GB_E_BUSY : gb_machine_lock(d, s->name, &lock, err);
	if (r == GB_E_BUSY)
		return machine_is_running(s->name, err);
	if (r < 0)
		return r;
	if (!*s->root) {
		r = gb_disk_size(disk, &size, err);
		if (r == 0 && size != s->disk_bytes)
			r = gb_disk_grow(disk, s->disk_bytes, err);
		if (r < 0)
			return r;
	}
	return write_spec(folder, s, err);
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int gb_machine_names(const struct gb_dirs *d, struct gb_strv *ret, struct gb_err *err)
{
	gb_auto_free char *path = gb_path_join(d->data, "machines");
	DIR *dir;
	struct dirent *e;

	if (!path)
		return gb_nomem(err);
	dir = opendir(path);
	if (!dir && errno == ENOENT)
		return 0;
	if (!dir)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	while ((e = readdir(dir)))
		if (gb_name_valid(e->d_name))
			gb_strv_add(ret, e->d_name);
	closedir(dir);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), compare_strings);
	return gb_strv_check(ret, "machines", err);
}

int gb_machine_remove(const struct gb_dirs *d, const char *name, struct gb_err *err)
{
	gb_auto_done(gb_machine_lock) lock = { { -1, -1 } };
	gb_auto_free char *machines = gb_path_join(d->data, "machines");
	gb_auto_free char *socket_path = gb_machine_socket(d, name);
	gb_auto_free char *gone = NULL;
	gb_auto_fd folder = -1;
	gb_auto_fd parent = -1;
	int r = open_folder(d, name, &folder, err);

	if (r < 0)
		return r;
	if (!machines || !socket_path || asprintf(&gone, ".gone-%d-%s", (int)getpid(), name) < 0)
		return gb_nomem(err);
	r = lock_holder(folder) ? GB_E_BUSY : gb_machine_lock(d, name, &lock, err);
	if (r == GB_E_BUSY)
		return machine_is_running(name, err);
	if (r < 0)
		return r;
	parent = open(machines, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0 || renameat(parent, name, parent, gone) < 0)
		return gb_fail_sys(err, errno, "cannot remove machine '%s'", name);
	unlink(socket_path);
	return gb_rm_tree(parent, gone, err);
}
