/* Failures in the midst of a commit, and what else happens to the workspace meanwhile.
 * System calls fail by the wrappers below, which stand before the C library's. */
#include "rows.h"

#include "folder.h"

#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
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

/* ------------------------------------------------------------------ one of everything */

static const struct entry all_before[] = {
	{ "replaced", "1\n", 0640 },
	{ "deleted", "2\n", 0600 },
	{ "renamed", "3\n", 0755 },
	{ "moved", "4\n", 0644 },
	{ "over", "5\n", 0751 },
	{ "left", "l\n", 0644 },
	{ "right", "r\n", 0644 },
	{ "new", "-", 0 },
	{ "n", "-", 0 },
};

static const struct entry all_after[] = {
	{ "replaced", "1+\n", 0640 },
	{ "deleted", "-", 0 },
	{ "renamed", "-", 0 },
	{ "n/renamed", "3\n", 0755 },
	{ "moved", "-", 0 },
	{ "over", "4+\n", 0751 },
	{ "left", "r\n", 0644 },
	{ "right", "l\n", 0644 },
	{ "new", "6\n", 0644 },
	{ "n/e/w", "7\n", 0644 },
	{ "swap", "-", 0 },
};

static const char all_text[] = "*** Begin Patch\n"
			       "*** Update File: replaced\n-1\n+1+\n"
			       "*** Delete File: deleted\n"
			       "*** Update File: renamed\n*** Move to: n/renamed\n"
			       "*** Update File: moved\n*** Move to: over\n-4\n+4+\n"
			       "*** Update File: left\n*** Move to: swap\n"
			       "*** Update File: right\n*** Move to: left\n"
			       "*** Update File: swap\n*** Move to: right\n"
			       "*** Add File: new\n+6\n"
			       "*** Add File: n/e/w\n+7\n"
			       "*** End Patch\n";

static void put_all(const struct folder *f)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(all_before); i++)
		if (*all_before[i].content != '-')
			put_entry(f->root, &all_before[i]);
}

static void check(const struct folder *f, const struct entry *e, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_entry(f->root, &e[i]);
}
#define check_all(f, entries) check(f, entries, GB_ARRAY_SIZE(entries))

static bool says(const struct folder *f, const char *text)
{
	return strstr((char *)f->out.data, text) != NULL;
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
	int done = 0;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "d/outside", "secret\n", 0 });
	put_entry(f.root, &(struct entry){ "link", "@..", 0 });
	put_entry(f.root, &(struct entry){ "e/outside", "secret\n", 0 });
	put_entry(f.root, &(struct entry){ "e/link", "@../../outside", 0 });
	swap_stop = false;
	assert_int_equal(pthread_create(&thread, NULL, swapper, &f), 0);
	for (int i = 0; i < 100; i++) {
		done += folder_apply(&f, "*** Begin Patch\n*** Update File: "
					 "d/outside\n-secret\n+new\n"
					 "*** End Patch") == 0;
		done += folder_apply(&f, "*** Begin Patch\n*** Update File: "
					 "e/outside\n-secret\n+new\n"
					 "*** End Patch") == 0;
		folder_apply(
			&f, "*** Begin Patch\n*** Add File: d/n/x\n+x\n*** End Patch");
		folder_apply(&f, "*** Begin Patch\n*** Delete File: d/outside\n"
				 "*** Add File: d/outside\n+secret\n*** End Patch");
	}
	swap_stop = true;
	pthread_join(thread, NULL);
	check_entry(f.tmp.fd, &(struct entry){ "outside", "secret\n", 0 });
	check_entry(f.tmp.fd, &(struct entry){ "n", "-", 0 });
	assert_true(done > 0);
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

/* ------------------------------------------------------------------ users, limits */

/* fn in a child, as nobody if we are root; it ends by _exit(0) if all is well. */
static void in_child(struct folder *f, bool nobody, void (*fn)(struct folder *))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (nobody && geteuid() == 0 &&
			(setgroups(0, NULL) < 0 || setgid(65534) < 0 ||
				setuid(65534) < 0))
			_exit(99);
		fn(f);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define require(condition)                                                               \
	do {                                                                             \
		if (!(condition)) {                                                      \
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition,      \
				(char *)f->out.data);                                    \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

static void refused_by_modes(struct folder *f)
{
	require(folder_apply(f, "*** Begin Patch\n*** Add File: new\n+x\n"
				"*** Update File: d/file\n-1\n+2\n*** End Patch") < 0);
	require(says(f, "d/file: Permission denied (os error 13)"));
	require(folder_apply(f, "*** Begin Patch\n*** Add File: new\n+x\n"
				"*** Update File: readonly\n-1\n+2\n*** End Patch") < 0);
	require(says(f, "readonly: Permission denied (os error 13)"));
	require(folder_apply(f, "*** Begin Patch\n*** Add File: new\n+x\n"
				"*** Delete File: d/file\n*** End Patch") < 0);
	require(says(f, "Failed to delete file"));
	require(folder_apply(f, "*** Begin Patch\n*** Add File: new\n+x\n"
				"*** Update File: secret\n-1\n+2\n*** End Patch") < 0);
	require(says(f, "Failed to read file to update"));
}

static void modes(void **state)
{
	struct folder f;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "d/file", "1\n", 0666 });
	put_entry(f.root, &(struct entry){ "readonly", "1\n", 0444 });
	put_entry(f.root, &(struct entry){ "secret", "1\n", 0222 });
	assert_int_equal(fchmodat(f.root, "d", 0555, 0), 0);
	assert_int_equal(fchmod(f.root, 0777), 0);
	in_child(&f, true, refused_by_modes);
	check_entry(f.root, &(struct entry){ "d/file", "1\n", 0666 });
	check_entry(f.root, &(struct entry){ "readonly", "1\n", 0444 });
	check_entry(f.root, &(struct entry){ "new", "-", 0 });
	assert_int_equal(fchmodat(f.root, "d", 0755, 0), 0);
	folder_remove(&f);
}

/* The file of another user in a sticky folder may be written to, but not be replaced. */
static void refused_by_sticky(struct folder *f)
{
	require(folder_apply(f, "*** Begin Patch\n*** Update File: own\n-1\n+2\n*** Add "
				"File: new\n+x\n"
				"*** Update File: t/file\n-1\n+2\n*** End Patch") < 0);
	require(says(f, "t/file: Operation not permitted (os error 1)"));
	require(folder_apply(f,
			"*** Begin Patch\n*** Delete File: t/file\n*** End Patch") < 0);
	require(says(f, "t/file: Operation not permitted (os error 1)"));
	require(folder_apply(f,
			"*** Begin Patch\n*** Add File: t/own\n+x\n*** End Patch") == 0);
	require(folder_apply(f, "*** Begin Patch\n*** Update File: t/own\n-x\n+y\n*** "
				"End Patch") == 0);
}

static void sticky(void **state)
{
	struct folder f;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root for a file of another user\n");
		skip();
	}
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "own", "1\n", 0666 });
	put_entry(f.root, &(struct entry){ "t/file", "1\n", 0666 });
	assert_int_equal(fchmodat(f.root, "t", 01777, 0), 0);
	assert_int_equal(fchmod(f.root, 0777), 0);
	in_child(&f, true, refused_by_sticky);
	check_entry(f.root, &(struct entry){ "own", "1\n", 0666 });
	check_entry(f.root, &(struct entry){ "t/file", "1\n", 0666 });
	check_entry(f.root, &(struct entry){ "new", "-", 0 });
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

static void owner_kept(void **state)
{
	struct folder f;
	struct stat st;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root to make a file of another user\n");
		skip();
	}
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "a", "1\n", 0644 });
	assert_int_equal(fchownat(f.root, "a", 1234, 2345, 0), 0);
	assert_int_equal(fchmodat(f.root, "a", 04751, 0), 0);
	assert_int_equal(
		folder_apply(
			&f, "*** Begin Patch\n*** Update File: a\n-1\n+2\n*** End Patch"),
		0);
	assert_int_equal(fstatat(f.root, "a", &st, 0), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(st.st_gid, 2345);
	assert_int_equal(st.st_mode & 07777, 04751);
	folder_remove(&f);
}

static void over_file_limit(struct folder *f)
{
	static char text[5000] =
		"*** Begin Patch\n*** Add File: small\n+x\n*** Add File: large\n+";
	struct rlimit limit = { 1000, 1000 };

	memset(text + strlen(text), 'x', 2000);
	memcpy(text + strlen(text), "\n*** End Patch", 15);
	signal(SIGXFSZ, SIG_IGN);
	require(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	require(folder_apply(f, text) < 0);
	require(says(f, "large: File too large (os error 27)\nNothing was changed."));
}

static void file_limit(void **state)
{
	struct folder f;

	(void)state;
	folder_make(&f);
	in_child(&f, false, over_file_limit);
	check_entry(f.root, &(struct entry){ "small", "-", 0 });
	check_entry(f.root, &(struct entry){ "large", "-", 0 });
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

/* Descriptors run out at any point. */
static void few_descriptors(struct folder *f)
{
	int r = -1;

	for (rlim_t n = 4; n < 60 && r < 0; n++) {
		struct rlimit limit = { n, 1024 };
		struct rlimit enough = { 256, 1024 };

		require(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		r = folder_apply(f, all_text);
		require(setrlimit(RLIMIT_NOFILE, &enough) == 0);
		if (r < 0)
			check_all(f, all_before);
	}
	require(r == 0);
}

static void descriptors(void **state)
{
	struct folder f;

	(void)state;
	folder_make(&f);
	put_all(&f);
	in_child(&f, false, few_descriptors);
	check_all(&f, all_after);
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

/* A disk of 64 KiB. */
static void fill_disk(struct folder *f)
{
	static char text[200000] =
		"*** Begin Patch\n*** Update File: a\n-1\n+2\n*** Add File: large\n+";
	struct stat st;

	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		_exit(77);
	if (mount("none", f->path, "tmpfs", 0, "size=64k,mode=755") < 0)
		_exit(77);
	f->where.root = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put_entry(f->where.root, &(struct entry){ "a", "1\n", 0 });
	memset(text + strlen(text), 'x', 100000);
	memcpy(text + strlen(text), "\n*** End Patch", 15);
	require(folder_apply(f, text) == GB_E_NOSPACE);
	require(says(
		f, "large: No space left on device (os error 28)\nNothing was changed."));
	check_entry(f->where.root, &(struct entry){ "a", "1\n", 0 });
	require(folder_leftovers(f) == 0);
	require(fstatat(f->where.root, "large", &st, 0) < 0);
}

static void disk_full(void **state)
{
	struct folder f;
	int status = 0;
	pid_t pid;

	(void)state;
	folder_make(&f);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fill_disk(&f);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	folder_remove(&f);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("no mount namespace to be had here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* ------------------------------------------------------------------ sizes, links */

static void put_sparse(const struct folder *f, const char *name, size_t size)
{
	int fd = openat(f->root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

static void large_files(void **state)
{
	struct folder f;
	struct stat st;

	(void)state;
	folder_make(&f);
	put_sparse(&f, "fits", GB_PATCH_FILE_MAX - 3);
	put_sparse(&f, "large", GB_PATCH_FILE_MAX + 1);
	assert_int_equal(
		folder_apply(
			&f, "*** Begin Patch\n*** Update File: fits\n+x\n*** End Patch"),
		0);
	assert_int_equal(
		folder_apply(
			&f, "*** Begin Patch\n*** Update File: large\n+x\n*** End Patch"),
		GB_E_LIMIT);
	assert_true(says(&f, "/large is too large"));
	assert_int_equal(folder_apply(&f, "*** Begin Patch\n*** Update File: large\n"
					  "*** Move to: n/moved\n*** End Patch"),
		0);
	assert_int_equal(fstatat(f.root, "n/moved", &st, 0), 0);
	assert_int_equal(st.st_size, GB_PATCH_FILE_MAX + 1);
	folder_remove(&f);
}

/* A little patch must not make us hold gigabytes. */
static void large_in_sum(void **state)
{
	struct gb_buf text = { 0 };
	struct folder f;

	(void)state;
	folder_make(&f);
	gb_buf_add_str(&text, "*** Begin Patch\n");
	for (unsigned i = 0; i < 5; i++) {
		char name[8];

		snprintf(name, sizeof(name), "f%u", i);
		put_sparse(&f, name, 30u << 20);
		gb_buf_printf(&text, "*** Update File: f%u\n+x\n", i);
	}
	gb_buf_add_str(&text, "*** End Patch");
	gb_buf_add_byte(&text, 0);
	assert_int_equal(folder_apply(&f, (char *)text.data), GB_E_LIMIT);
	assert_true(says(&f, "/f4 makes the patch's contents too large"));
	gb_buf_done(&text);
	folder_remove(&f);
}

/* Two names of one file: rename(2) of one onto the other would do nothing. */
static void twins(void **state)
{
	struct folder f;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "a", "1\n", 0 });
	assert_int_equal(linkat(f.root, "a", f.root, "b", 0), 0);
	assert_int_equal(
		folder_apply(&f, "*** Begin Patch\n*** Update File: a\n*** Move to: b\n"
				 "*** End Patch"),
		0);
	check_entry(f.root, &(struct entry){ "a", "-", 0 });
	check_entry(f.root, &(struct entry){ "b", "1\n", 0 });
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

/* What a model's own umask says holds for what it makes. */
static void new_modes(void **state)
{
	struct folder f;

	(void)state;
	folder_make(&f);
	umask(077);
	assert_int_equal(
		folder_apply(&f, "*** Begin Patch\n*** Add File: d/a\n+x\n*** End Patch"),
		0);
	umask(022);
	check_entry(f.root, &(struct entry){ "d/a", "x\n", 0600 });
	check_entry(f.root, &(struct entry){ "d", "/", 0700 });
	folder_remove(&f);
}

/* Nothing is written when nothing changes. */
static void no_change(void **state)
{
	struct folder f;
	struct stat before, after;

	(void)state;
	folder_make(&f);
	put_entry(f.root, &(struct entry){ "a", "1\n", 0 });
	assert_int_equal(fstatat(f.root, "a", &before, 0), 0);
	assert_int_equal(
		folder_apply(
			&f, "*** Begin Patch\n*** Update File: a\n@@\n 1\n*** End Patch"),
		0);
	assert_int_equal(fstatat(f.root, "a", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
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
	rows_add_one(&l, "user: modes are obeyed", modes);
	rows_add_one(&l, "user: sticky folder", sticky);
	rows_add_one(&l, "user: owner kept", owner_kept);
	rows_add_one(&l, "limit: size of files", file_limit);
	rows_add_one(&l, "limit: descriptors", descriptors);
	rows_add_one(&l, "limit: disk", disk_full);
	rows_add_one(&l, "large files", large_files);
	rows_add_one(&l, "large in sum", large_in_sum);
	rows_add_one(&l, "two names of one file", twins);
	rows_add_one(&l, "modes of new files", new_modes);
	rows_add_one(&l, "no change", no_change);
	return rows_run("patch-commit", &l);
}
