/* What a user, a limit, a disk or a size does not allow; modes and owners; links. */
#include "rows.h"

#include "everything.h"

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ------------------------------------------------------------------ users */

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
	struct rlimit enough;
	int r = -1;

	require(getrlimit(RLIMIT_NOFILE, &enough) == 0);
	for (rlim_t n = 4; n < 60 && r < 0; n++) {
		struct rlimit limit = { n, enough.rlim_max };

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
	if (getenv("GB_UNDER_VALGRIND")) {
		print_message(
			"valgrind makes the file, then says there is no descriptor\n");
		skip();
	}
	folder_make(&f);
	put_all(&f);
	in_child(&f, false, few_descriptors);
	check_all(&f, all_after);
	assert_int_equal(folder_leftovers(&f), 0);
	folder_remove(&f);
}

static bool write_map(const char *path, const char *text)
{
	gb_auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Mounts of our own, where need be as root of a user namespace. */
static bool own_mounts(void)
{
	char users[40];
	char groups[40];

	if (unshare(CLONE_NEWNS) == 0)
		return true;
	snprintf(users, sizeof(users), "0 %u 1", (unsigned)geteuid());
	snprintf(groups, sizeof(groups), "0 %u 1", (unsigned)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_map("/proc/self/setgroups", "deny") &&
	       write_map("/proc/self/uid_map", users) &&
	       write_map("/proc/self/gid_map", groups);
}

/* A disk of 64 KiB. */
static void fill_disk(struct folder *f)
{
	static char text[200000] =
		"*** Begin Patch\n*** Update File: a\n-1\n+2\n*** Add File: large\n+";
	struct stat st;

	if (!own_mounts() || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
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
	return rows_run("patch-limits", &l);
}
