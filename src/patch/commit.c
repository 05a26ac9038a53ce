/* Putting a plan on the disk.
 *
 *   check     every file is still as it was read, and what was missing still is
 *   prepare   new contents, as files with names of ours in folders that are there
 * already; synced. Disks that are full and folders that cannot be written to show here
 *   clear     what goes away or moves is renamed to a name of ours in its folder
 *   place     missing folders are made; what is replaced gets a second name of ours by
 * link (a rename where links are not to be had, which leaves its name free for a moment);
 *             the new content is renamed over it
 *   finish    what we set aside is removed
 *
 * Each step before the last leaves an entry in a journal. When one fails, the entries are
 * undone from the end, so names, contents, modes and even inodes are as before. If
 * undoing fails, the report lists what is changed. Being killed by SIGKILL in between can
 * leave names of ours
 * (".apply_patch-…") behind, and a patch done in part; other signals wait for the end. */
#include "base/fd.h"
#include "patch/plan.h"
#include "patch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NAME_TRIES 100 /* names tried for a new file beside another */

enum deed { MADE_FILE, MADE_FOLDER, LINKED, RENAMED };

struct entry {
	enum deed deed;
	int from_dir; /* borrowed from files; MADE_FOLDER: owned */
	int to_dir;
	char *name;	  /* MADE_FOLDER: owned */
	const char *from; /* borrowed from files */
	const char *to;
	struct gb_patch_file *file; /* LINKED, RENAMED: whose place it is about */
};

struct commit {
	struct gb_patch_plan *plan;
	struct gb_patch_report *report;
	struct gb_err *err;
	struct entry *journal; /* owned */
	size_t count, cap;
	unsigned serial;
};

/* Room is made before the deed, so that whatever was done is in the journal. */
static int make_room(struct commit *c)
{
	if (!gb_grow(&c->journal, &c->cap, c->count + 1, sizeof(*c->journal)))
		return gb_patch_nomem(c->report, c->err);
	return 0;
}

static void record(struct commit *c, struct entry e)
{
	c->journal[c->count++] = e;
}

static int failed_write(struct commit *c, const struct gb_patch_file *f)
{
	return gb_patch_fail_sys(c->report, c->err, errno, "Failed to %s file %s",
		f->present ? "write" : "delete", f->shown);
}

static const char *last_name(const struct gb_patch_file *f)
{
	const char *slash = strrchr(f->place.path, '/');

	return slash ? slash + 1 : f->place.path;
}

static void own_name(struct commit *c, char *name)
{
	snprintf(name, GB_PATCH_NAME_BYTES, ".apply_patch-%d-%u", (int)getpid(),
		c->serial++);
}

/* ------------------------------------------------------------------ check */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_mode == b->st_mode && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Nothing has come to the first name of a path that was missing, except what the plan
 * takes away: "a" is removed and "a/b" added. */
static bool still_missing(const struct commit *c, const struct gb_patch_file *f)
{
	size_t len = f->place.rest + strcspn(gb_patch_file_rest(f), "/");
	char first[GB_PATCH_PATH_MAX + 1];
	struct stat st;

	memcpy(first, f->place.path, len);
	first[len] = 0;
	return fstatat(f->place.dir, first + f->place.rest, &st, AT_SYMLINK_NOFOLLOW) <
		       0 ||
	       gb_patch_plan_removes(c->plan, first);
}

static int check(struct commit *c, const struct gb_patch_file *f)
{
	struct stat st;

	if (!f->place.exists && still_missing(c, f))
		return 0;
	if (f->place.exists &&
		fstatat(f->place.dir, gb_patch_file_rest(f), &st, AT_SYMLINK_NOFOLLOW) ==
			0 &&
		same_file(&st, &f->place.st))
		return 0;
	return gb_patch_fail(c->report, c->err, GB_PATCH_MISMATCH, GB_E_BUSY,
		"%s was changed by another program: read it again", f->shown);
}

/* ------------------------------------------------------------------ prepare */

static int open_temp(struct commit *c, struct gb_patch_file *f, int *ret)
{
	int fd = -1;

	for (int i = 0; fd < 0 && i < NAME_TRIES; i++) {
		own_name(c, f->temp);
		fd = openat(f->place.dir, f->temp,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			f->has_owner ? 0600 : 0666);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		return failed_write(c, f);
	record(c, (struct entry){
			  .deed = MADE_FILE, .from_dir = f->place.dir, .from = f->temp });
	*ret = fd;
	return 0;
}

/* The owner is kept where we may; set-id bits only with him. */
static int set_owner(struct commit *c, const struct gb_patch_file *f, int fd)
{
	mode_t mode = f->mode;
	struct stat st;

	if (!f->has_owner)
		return 0;
	if (fstat(fd, &st) < 0)
		return failed_write(c, f);
	if ((st.st_uid != f->uid || st.st_gid != f->gid) &&
		fchown(fd, f->uid, f->gid) < 0)
		mode &= 01777;
	if ((st.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
		return failed_write(c, f);
	return 0;
}

static int prepare(struct commit *c, struct gb_patch_file *f)
{
	gb_auto_fd fd = -1;
	int r = make_room(c);

	if (r == 0)
		r = open_temp(c, f, &fd);
	if (r < 0)
		return r;
	if (f->data.len && gb_fd_write_full(fd, f->data.data, f->data.len, NULL) < 0)
		return failed_write(c, f);
	r = set_owner(c, f, fd);
	if (r < 0)
		return r;
	return fsync(fd) < 0 ? failed_write(c, f) : 0;
}

/* ------------------------------------------------------------------ clear, place */

static int do_rename(struct commit *c, int from_dir, const char *from, int to_dir,
	const char *to, struct gb_patch_file *f)
{
	int r = make_room(c);

	if (r < 0)
		return r;
	if (renameat(from_dir, from, to_dir, to) < 0)
		return failed_write(c, f);
	f->changed = true;
	record(c, (struct entry){ .deed = RENAMED,
			  .from_dir = from_dir,
			  .from = from,
			  .to_dir = to_dir,
			  .to = to,
			  .file = f });
	return 0;
}

static int set_aside(struct commit *c, struct gb_patch_file *f)
{
	struct stat st;

	do {
		own_name(c, f->aside);
	} while (fstatat(f->place.dir, f->aside, &st, AT_SYMLINK_NOFOLLOW) == 0);
	return do_rename(
		c, f->place.dir, gb_patch_file_rest(f), f->place.dir, f->aside, f);
}

/* A second name for what is about to be replaced. */
static int keep(struct commit *c, struct gb_patch_file *f)
{
	int r = make_room(c);

	if (r < 0)
		return r;
	own_name(c, f->aside);
	if (linkat(f->place.dir, gb_patch_file_rest(f), f->place.dir, f->aside, 0) < 0)
		return set_aside(c, f);
	record(c, (struct entry){ .deed = LINKED,
			  .from_dir = f->place.dir,
			  .from = gb_patch_file_rest(f),
			  .to_dir = f->place.dir,
			  .to = f->aside,
			  .file = f });
	return 0;
}

/* One folder; *dir goes from its parent to it. */
static int make_folder(
	struct commit *c, struct gb_patch_file *f, const char *name, int *dir)
{
	gb_auto_free char *copy = strdup(name);
	int parent = -1;
	int r = make_room(c);

	if (r < 0 || !copy)
		return r < 0 ? r : gb_patch_nomem(c->report, c->err);
	parent = fcntl(*dir, F_DUPFD_CLOEXEC, 0);
	if (parent < 0)
		return failed_write(c, f);
	if (mkdirat(*dir, name, 0777) == 0) {
		record(c, (struct entry){ .deed = MADE_FOLDER,
				  .from_dir = parent,
				  .name = gb_take_ptr(copy) });
	} else {
		int why = errno;

		close(parent);
		errno = why;
		if (why != EEXIST)
			return failed_write(c, f);
	}
	parent = openat(*dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (parent < 0)
		return failed_write(c, f);
	close(*dir);
	*dir = parent;
	return 0;
}

static int open_home(struct commit *c, struct gb_patch_file *f)
{
	const char *rest = gb_patch_file_rest(f);
	const char *slash;

	f->home = fcntl(f->place.dir, F_DUPFD_CLOEXEC, 0);
	if (f->home < 0)
		return failed_write(c, f);
	while ((slash = strchr(rest, '/'))) {
		gb_auto_free char *name = strndup(rest, (size_t)(slash - rest));
		int r = name ? make_folder(c, f, name, &f->home)
			     : gb_patch_nomem(c->report, c->err);

		if (r < 0)
			return r;
		rest = slash + 1;
	}
	return 0;
}

static int place(struct commit *c, struct gb_patch_file *f)
{
	const struct gb_patch_file *o = f->origin;
	int r = open_home(c, f);

	if (r < 0)
		return r;
	if (f->place.exists && !f->moved_on) {
		/* renaming one of two names of a file onto the other does nothing */
		r = o ? set_aside(c, f) : keep(c, f);
		if (r < 0)
			return r;
	}
	if (o)
		return do_rename(c, o->place.dir, o->aside, f->home, last_name(f), f);
	return do_rename(c, f->place.dir, f->temp, f->home, last_name(f), f);
}

/* ------------------------------------------------------------------ undo, finish */

static bool undo(struct entry *e)
{
	bool fine = true;

	switch (e->deed) {
	case MADE_FILE:
		unlinkat(e->from_dir, e->from, 0);
		break;
	case MADE_FOLDER:
		unlinkat(e->from_dir, e->name, AT_REMOVEDIR);
		break;
	case LINKED:
		/* back over the new file, or, if that is not there yet, nothing and one
		 * name less */
		fine = renameat(e->to_dir, e->to, e->from_dir, e->from) == 0;
		if (fine)
			unlinkat(e->to_dir, e->to, 0);
		break;
	case RENAMED:
		fine = renameat(e->to_dir, e->to, e->from_dir, e->from) == 0;
		break;
	}
	return fine;
}

static void roll_back(struct commit *c)
{
	for (size_t i = 0; i < c->plan->file_count; i++)
		c->plan->files[i]->changed = false;
	for (size_t i = c->count; i-- > 0;)
		if (!undo(&c->journal[i]) && c->journal[i].file)
			c->journal[i].file->changed = true;
}

/* The report had the cause; now it says what came of it. */
static int tell(struct commit *c, int code)
{
	struct gb_buf *text = &c->report->text;
	bool torn = false;

	for (size_t i = 0; i < c->plan->file_count; i++)
		torn |= c->plan->files[i]->changed;
	if (!torn) {
		gb_buf_add_str(text, "\nNothing was changed.");
		return code;
	}
	c->report->fault = GB_PATCH_TORN;
	gb_buf_add_str(
		text, "\nTaking the other changes back failed too. Not as before:");
	for (size_t i = 0; i < c->plan->file_count; i++) {
		const struct gb_patch_file *f = c->plan->files[i];

		if (f->changed)
			gb_buf_printf(text, "\n%s%s%s%s", f->shown,
				*f->aside ? " (its old content may be in " : "", f->aside,
				*f->aside ? " beside it)" : "");
	}
	return gb_wrap(c->err, code, "the patch was applied in part");
}

static void sync_folder(int dir)
{
	gb_auto_fd fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		fsync(fd);
}

/* Nothing here can make it undone; a name of ours that stays is no reason to fail. */
static void finish(struct commit *c)
{
	for (size_t i = 0; i < c->plan->file_count; i++) {
		struct gb_patch_file *f = c->plan->files[i];

		if (!gb_patch_file_changes(f))
			continue;
		if (*f->aside && !f->moved_on)
			unlinkat(f->place.dir, f->aside, 0);
		sync_folder(f->place.dir);
		if (f->home >= 0 && strchr(gb_patch_file_rest(f), '/'))
			sync_folder(f->home);
	}
}

static int each(struct commit *c, int (*step)(struct commit *, struct gb_patch_file *),
	bool (*wanted)(const struct gb_patch_file *))
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->plan->file_count; i++)
		if (gb_patch_file_changes(c->plan->files[i]) && wanted(c->plan->files[i]))
			r = step(c, c->plan->files[i]);
	return r;
}

static bool has_data(const struct gb_patch_file *f)
{
	return f->present && !f->origin;
}

static bool goes_away(const struct gb_patch_file *f)
{
	return f->place.exists && (!f->present || f->moved_on);
}

static bool stays(const struct gb_patch_file *f)
{
	return f->present;
}

static int do_all(struct commit *c)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->plan->file_count; i++)
		r = check(c, c->plan->files[i]);
	if (r == 0)
		r = each(c, prepare, has_data);
	if (r == 0)
		r = each(c, set_aside, goes_away);
	return r < 0 ? r : each(c, place, stays);
}

int gb_patch_commit(
	struct gb_patch_plan *plan, struct gb_patch_report *report, struct gb_err *err)
{
	struct commit c = { .plan = plan, .report = report, .err = err };
	sigset_t all;
	sigset_t before;
	int r;

	for (size_t i = 0; i < plan->file_count; i++) {
		struct gb_patch_file *f = plan->files[i];

		if (f->present && f->origin && f->origin != f)
			f->origin->moved_on = true;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	r = do_all(&c);
	if (r < 0) {
		roll_back(&c);
		r = tell(&c, r);
	} else {
		finish(&c);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < c.count; i++) {
		if (c.journal[i].deed != MADE_FOLDER)
			continue;
		close(c.journal[i].from_dir);
		free(c.journal[i].name);
	}
	free(c.journal);
	return r;
}
