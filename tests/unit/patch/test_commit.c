/* Failures in the midst of a commit, and what else happens to the workspace meanwhile.
 * System calls fail by the wrappers below, which stand before the C library's. */
#include "rows.h"

#include "everything.h"

#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

enum call { RENAME, LINK, MKDIR, FSYNC, FCHMOD, CALLS };

static struct {
	enum call call;
	int countdown; /* this many calls go well; -1: not armed */
	bool for_good; /* all later ones fail too */
	bool hit;
} fault = { .countdown = -1 };

static bool fails(enum call call)
{
	if (fault.countdown < 0 || fault.call != call || fault.countdown-- > 0)
		return false;
	fault.hit = true;
	fault.countdown = fault.for_good ? 0 : -1;
	errno = ENOSPC;
	return true;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return fails(RENAME) ? -1
			     : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	return fails(LINK) ? -1
			   : (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

static bool mkdir_loses; /* somebody else makes a link of that name just before */

int mkdirat(int dir, const char *path, mode_t mode)
{
	if (mkdir_loses && symlinkat("..", dir, path) == 0) {
		errno = EEXIST;
		return -1;
	}
	return fails(MKDIR) ? -1 : (int)syscall(SYS_mkdirat, dir, path, mode);
}

int fsync(int fd)
{
	return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fchmod(int fd, mode_t mode)
{
	return fails(FCHMOD) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

/* While the clock is ours, each poll without descriptors lets ten seconds pass. */
static bool own_clock;
static time_t clock_ahead;

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec t = { timeout / 1000, timeout % 1000 * 1000000 };

	if (own_clock && !count) {
		clock_ahead += 10;
		return 0;
	}
	return (int)syscall(SYS_ppoll, fds, count, timeout < 0 ? NULL : &t, NULL, 0);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, id, t);

	t->tv_sec += clock_ahead;
	return r;
}

static void arm(enum call call, int after, bool for_good)
{
	fault.call = call;
	fault.countdown = after;
	fault.for_good = for_good;
	fault.hit = false;
}

static void everything(void **state)
{
	struct folder f;

	(void)state;
	folder_make(&f);
	put_all(&f);
	assert_int_equal(folder_apply(&f, all_text), 0);
	check_all(&f, all_after);
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

struct fault_row {
	const char *name;
	enum call call;
	bool harmless; /* there is another way */
};

static const struct fault_row fault_rows[] = {
	{ "fault: any one rename", RENAME, false },
	{ "fault: any one link", LINK, true },
	{ "fault: any one mkdir", MKDIR, false },
	{ "fault: any one fsync, until all are renamed", FSYNC, false },
	{ "fault: any one chmod", FCHMOD, false },
};

/* The n-th call fails, for every n that there is. */
static void one_fault(void **state)
{
	const struct fault_row *row = *state;
	int count = 0;

	for (bool hit = true; hit; count++) {
		struct folder f;
		bool folder_sync;
		int r;

		folder_make(&f);
		put_all(&f);
		arm(row->call, count, false);
		r = folder_apply(&f, all_text);
		hit = fault.hit;
		arm(row->call, -1, false);
		/* contents are synced before, folders after it is done */
		folder_sync = row->call == FSYNC && count >= 4;
		if (hit && !row->harmless && !folder_sync) {
			assert_int_equal(r, GB_E_NOSPACE);
			assert_true(says(&f, "No space left on device (os error "
					     "28)\nNothing was changed."));
			check_all(&f, all_before);
		} else {
			assert_int_equal(r, 0);
			check_all(&f, all_after);
		}
		assert_int_equal(folder_leftovers(&f), 0);
		folder_remove(&f);
	}
	assert_true(count > 2);
}

/* Whether the report names the file as one that is not as before. */
static bool listed(const struct folder *f, const char *name)
{
	char line[700];

	snprintf(line, sizeof(line), "\n%s/%s", f->path, name);
	return strstr((char *)f->out.data, line) != NULL;
}

/* From the n-th rename on all fail, those that take back too: what is not listed is as
 * before. */
static void torn(void **state)
{
	int torn_count = 0;

	(void)state;
	for (int n = 0;; n++) {
		struct folder f;
		int r;

		folder_make(&f);
		put_all(&f);
		arm(RENAME, n, true);
		r = folder_apply(&f, all_text);
		arm(RENAME, -1, false);
		if (r == 0) {
			folder_remove(&f);
			break;
		}
		if (says(&f, "Not as before:")) {
			torn_count++;
			assert_null(strstr((char *)f.out.data, "verification failed"));
			assert_non_null(
				strstr(f.err.msg, "the patch was applied in part"));
		} else {
			assert_true(says(&f, "Nothing was changed."));
		}
		for (size_t i = 0; i + 2 < GB_ARRAY_SIZE(all_before); i++)
			if (!listed(&f, all_before[i].path))
				check_entry(f.root, &all_before[i]);
		folder_remove(&f);
	}
	assert_true(torn_count > 2);
}

/* ------------------------------------------------------------------ plan, then commit */

struct steps {
	struct gb_patch *patch;
	struct gb_patch_plan *plan;
	struct gb_patch_report report;
};

static void steps_plan(struct steps *s, struct folder *f, const char *text)
{
	memset(s, 0, sizeof(*s));
	gb_patch_report_init(&s->report);
	assert_int_equal(
		gb_patch_parse(text, strlen(text), &s->patch, &s->report, &f->err), 0);
	assert_int_equal(
		gb_patch_plan(s->patch, &f->where, &s->plan, &s->report, &f->err), 0);
}

static int steps_commit(struct steps *s, struct folder *f)
{
	int r = gb_patch_commit(s->plan, &s->report, &f->err);

	gb_patch_plan_free(s->plan);
	gb_patch_free(s->patch);
	return r;
}

struct meanwhile_row {
	const char *name;
	const char *path; /* what is written in between; NULL: "replaced" is removed */
	const char *content;
};

static const struct meanwhile_row meanwhile_rows[] = {
	{ "meanwhile: a file that is updated has changed", "replaced", "1\n\n" },
	{ "meanwhile: a file that is deleted has changed", "deleted", "22\n" },
	{ "meanwhile: a file that is renamed has changed", "renamed", "33\n" },
	{ "meanwhile: a file that is replaced has changed", "over", "55\n" },
	{ "meanwhile: a new file has come", "new", "other\n" },
	{ "meanwhile: a new folder's name was taken", "n", "other\n" },
	{ "meanwhile: a file is gone", NULL, NULL },
};

/* So that only its content tells. */
static mode_t mode_before(const char *path)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(all_before); i++)
		if (strcmp(all_before[i].path, path) == 0)
			return all_before[i].mode;
	return 0;
}

static void meanwhile(void **state)
{
	const struct meanwhile_row *row = *state;
	struct folder f;
	struct steps s;

	folder_make(&f);
	put_all(&f);
	steps_plan(&s, &f, all_text);
	if (row->path)
		put_entry(f.root, &(struct entry){ row->path, row->content,
					  mode_before(row->path) });
	else
		assert_int_equal(unlinkat(f.root, "replaced", 0), 0);
	assert_int_equal(steps_commit(&s, &f), GB_E_BUSY);
	assert_int_equal(s.report.fault, GB_PATCH_MISMATCH);
	assert_non_null(strstr(f.err.msg, "was changed by another program"));
	for (size_t i = 0; i < GB_ARRAY_SIZE(all_before); i++) {
		const struct entry *e = &all_before[i];

		if (strcmp(e->path, row->path ? row->path : "replaced") != 0)
			check_entry(f.root, e);
	}
	assert_int_equal(folder_leftovers(&f), 0);
	gb_patch_report_done(&s.report);
	folder_remove(&f);
}

/* The folder that was looked at is exchanged for a link that leads outside. */
static void folder_for_link(void **state)
{
	struct folder f;
	struct steps s;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "d/outside", "in\n", 0 });
	steps_plan(&s, &f,
		"*** Begin Patch\n*** Update File: d/outside\n-in\n+new\n*** Add File: "
		"d/n/x\n+x\n"
		"*** End Patch");
	assert_int_equal(renameat(f.root, "d", f.root, "was"), 0);
	assert_int_equal(symlinkat("..", f.root, "d"), 0);
	assert_int_equal(steps_commit(&s, &f), 0);
	check_entry(f.tmp.fd, &(struct entry){ "outside", "secret\n", 0 });
	check_entry(f.tmp.fd, &(struct entry){ "n", "-", 0 });
	check_entry(f.root, &(struct entry){ "was/outside", "new\n", 0 });
	check_entry(f.root, &(struct entry){ "was/n/x", "x\n", 0 });
	gb_patch_report_done(&s.report);
	folder_remove(&f);
}

/* At the last moment a link takes the name of a folder that is to be made. */
static void link_for_folder(void **state)
{
	struct folder f;
	int r;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "a", "1\n", 0 });
	mkdir_loses = true;
	r = folder_apply(&f, "*** Begin Patch\n*** Delete File: a\n*** Add File: "
			     "n/x\n+x\n*** End Patch");
	mkdir_loses = false;
	assert_true(r < 0);
	assert_true(says(&f, "Nothing was changed."));
	check_entry(f.root, &(struct entry){ "a", "1\n", 0 });
	check_entry(f.tmp.fd, &(struct entry){ "x", "-", 0 });
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

static volatile bool swap_stop;

/* "d" is now a folder, now a link that leads outside; "outside" in it now a file, now a
 * link. */
static void *swapper(void *data)
{
	const struct folder *f = data;

	while (!swap_stop) {
		/* valgrind runs one thread at a time, until it blocks */
		nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
		syscall(SYS_renameat2, f->root, "d", f->root, "link",
			2 /* RENAME_EXCHANGE */);
		syscall(SYS_renameat2, f->root, "e/outside", f->root, "e/link", 2);
	}
	return NULL;
}

static void swaps(void **state)
{
	struct folder f;
	pthread_t thread;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "d/outside", "secret\n", 0 });
	put_entry(f.root, &(struct entry){ "link", "@..", 0 });
	put_entry(f.root, &(struct entry){ "e/outside", "secret\n", 0 });
	put_entry(f.root, &(struct entry){ "e/link", "@../../outside", 0 });
	swap_stop = false;
	assert_int_equal(pthread_create(&thread, NULL, swapper, &f), 0);
	for (int i = 0; i < 100; i++) {
		/* some are applied and some refused, as it happens */
		folder_apply(&f, "*** Begin Patch\n*** Update File: d/outside\n"
				 "-secret\n+new\n*** End Patch");
		folder_apply(&f, "*** Begin Patch\n*** Update File: e/outside\n"
				 "-secret\n+new\n*** End Patch");
		folder_apply(
			&f, "*** Begin Patch\n*** Add File: d/n/x\n+x\n*** End Patch");
		folder_apply(&f, "*** Begin Patch\n*** Delete File: d/outside\n"
				 "*** Add File: d/outside\n+secret\n*** End Patch");
	}
	swap_stop = true;
	pthread_join(thread, NULL);
	check_entry(f.tmp.fd, &(struct entry){ "outside", "secret\n", 0 });
	check_entry(f.tmp.fd, &(struct entry){ "n", "-", 0 });
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

/* ------------------------------------------------------------------ the lock */

#define WRITERS 4
#define WRITES	20

static void write_lines(struct folder *f, int who)
{
	for (int i = 0; i < WRITES; i++) {
		char text[200];

		snprintf(text, sizeof(text),
			"*** Begin Patch\n*** Update File: log\n@@\n+%d %d\n*** End "
			"Patch",
			who, i);
		if (folder_apply(f, text) < 0)
			_exit(1);
	}
	_exit(0);
}

/* Without the lock lines would be lost, or patches refused. */
static void side_by_side(void **state)
{
	struct folder f;
	struct gb_buf got = { 0 };
	size_t lines = 0;
	int status;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "log", "begin\n", 0 });
	for (int i = 0; i < WRITERS; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0)
			write_lines(&f, i);
	}
	for (int i = 0; i < WRITERS; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(gb_file_read(f.root, "log", 1 << 20, &got, NULL), 0);
	for (size_t i = 0; i < got.len; i++)
		lines += got.data[i] == '\n';
	assert_int_equal(lines, 1 + WRITERS * WRITES);
	gb_buf_done(&got);
	folder_remove(&f);
}

/* A plan holds the lock until it is freed. */
static void plan_holds_lock(void **state)
{
	struct folder f;
	struct steps s;
	int other;

	(void)state;
	folder_make(&f);
	put_all(&f);
	other = openat(f.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	steps_plan(&s, &f, all_text);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(errno, EWOULDBLOCK);
	assert_int_equal(steps_commit(&s, &f), 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	close(other);
	gb_patch_report_done(&s.report);
	folder_remove(&f);
}

static void lock_not_for_ever(void **state)
{
	struct folder f;
	int other;

	(void)state;
	folder_make(&f);
	put_all(&f);
	other = openat(f.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	own_clock = true;
	assert_int_equal(folder_apply(&f, all_text), GB_E_TIMEOUT);
	own_clock = false;
	assert_in_range(clock_ahead, GB_PATCH_LOCK_MAX_MS / 1000, 100);
	assert_true(says(&f, "another program holds the lock of the workspace"));
	check_all(&f, all_before);
	close(other);
	folder_remove(&f);
}

int main(void)
{
	static struct rows_list l;

	umask(022);
	rows_add_one(&l, "one of everything", everything);
	rows_add(&l, fault_rows, one_fault);
	rows_add_one(&l, "fault: taking back fails too", torn);
	rows_add(&l, meanwhile_rows, meanwhile);
	rows_add_one(&l, "meanwhile: a folder becomes a link that leads outside",
		folder_for_link);
	rows_add_one(&l, "meanwhile: a link takes a new folder's name", link_for_folder);
	rows_add_one(&l, "meanwhile: swaps without end", swaps);
	rows_add_one(&l, "lock: patches side by side", side_by_side);
	rows_add_one(&l, "lock: held by a plan", plan_holds_lock);
	rows_add_one(&l, "lock: not waited for without end", lock_not_for_ever);
	return rows_run("patch-commit", &l);
}
