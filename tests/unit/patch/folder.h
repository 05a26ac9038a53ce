/* A workspace in a temporary folder, filled from and compared with tables. */
#ifndef GB_TESTS_PATCH_FOLDER_H
#define GB_TESTS_PATCH_FOLDER_H

#include "base/fd.h"
#include "base/path.h"
#include "patch/patch.h"
#include "tmpdir.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER_FILES 8

/* content: "@x" is a link to x, "|" a FIFO, "/" a folder; of what is expected "-" is: not
 * there */
struct entry {
	const char *path;
	const char *content;
	mode_t mode; /* 0: 0644, or not looked at */
};

struct folder {
	struct tmpdir tmp; /* holds "outside" and the workspace "w" */
	int root;
	char path[600];
	struct gb_patch_where where;
	struct gb_buf out;
	struct gb_err err;
};

static inline void put_entry(int dir, const struct entry *e)
{
	char parent[256];
	char *slash;
	int fd;

	snprintf(parent, sizeof(parent), "%s", e->path);
	for (slash = parent; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdirat(dir, parent, 0755);
		*slash = '/';
	}
	if (*e->content == '@') {
		assert_int_equal(symlinkat(e->content + 1, dir, e->path), 0);
	} else if (*e->content == '|') {
		assert_int_equal(mknodat(dir, e->path, S_IFIFO | 0644, 0), 0);
	} else if (*e->content == '/') {
		assert_int_equal(mkdirat(dir, e->path, 0755), 0);
	} else {
		fd = openat(dir, e->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(
			gb_fd_write_full(fd, e->content, strlen(e->content), NULL), 0);
		assert_int_equal(fchmod(fd, e->mode ? e->mode : 0644), 0);
		close(fd);
	}
}

static inline void check_entry(int dir, const struct entry *e)
{
	struct gb_buf got = { 0 };
	char link[256] = "";
	struct stat st;
	int r = fstatat(dir, e->path, &st, AT_SYMLINK_NOFOLLOW);

	if (*e->content == '-' || r < 0) {
		if ((*e->content == '-') != (r < 0))
			print_error(
				"%s: %s\n", e->path, r < 0 ? "is missing" : "is there");
		assert_int_equal(*e->content == '-', r < 0);
		return;
	}
	if (e->mode)
		assert_int_equal(st.st_mode & 07777, e->mode);
	if (*e->content == '@') {
		assert_true(readlinkat(dir, e->path, link, sizeof(link) - 1) > 0);
		assert_string_equal(link, e->content + 1);
	} else if (*e->content == '|') {
		assert_true(S_ISFIFO(st.st_mode));
	} else if (*e->content == '/') {
		assert_true(S_ISDIR(st.st_mode));
	} else {
		assert_int_equal(gb_file_read(dir, e->path, 1 << 20, &got, NULL), 0);
		assert_string_equal((char *)got.data, e->content);
		gb_buf_done(&got);
	}
}

static inline void folder_make(struct folder *f)
{
	memset(f, 0, sizeof(*f));
	assert_true(tmpdir_make(&f->tmp));
	assert_int_equal(fchmod(f->tmp.fd, 0755), 0);
	assert_int_equal(mkdirat(f->tmp.fd, "w", 0755), 0);
	put_entry(f->tmp.fd, &(struct entry){ "outside", "secret\n", 0 });
	snprintf(f->path, sizeof(f->path), "%s/w", f->tmp.path);
	f->root = openat(f->tmp.fd, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->where = (struct gb_patch_where){
		.root = f->root, .root_path = f->path, .cwd = ""
	};
}

static inline int folder_apply(struct folder *f, const char *text)
{
	int r;

	gb_buf_done(&f->out);
	memset(&f->err, 0, sizeof(f->err));
	r = gb_patch_apply(
		&f->where, text, strlen(text), GB_PATCH_AS_TOOL, &f->out, &f->err);
	gb_buf_add_byte(&f->out, 0);
	return r;
}

/* s with every "$W" replaced by the workspace's path and "$O" by the folder above it. */
static inline void folder_expand(const struct folder *f, const char *s, struct gb_buf *to)
{
	for (; *s; s++) {
		if (s[0] == '$' && s[1] == 'W')
			gb_buf_add_str(to, f->path);
		else if (s[0] == '$' && s[1] == 'O')
			gb_buf_add_str(to, f->tmp.path);
		else
			gb_buf_add_byte(to, (uint8_t)*s);
		s += s[0] == '$' && (s[1] == 'W' || s[1] == 'O');
	}
	gb_buf_add_byte(to, 0);
}

/* Names that a commit uses and must not leave behind. */
static inline size_t folder_leftovers(const struct folder *f)
{
	char command[700];
	size_t count = 0;
	FILE *p;
	int c;

	snprintf(
		command, sizeof(command), "find '%s' -name '.apply_patch*'", f->tmp.path);
	p = popen(command, "r");
	assert_non_null(p);
	while ((c = fgetc(p)) != EOF)
		count += c == '\n';
	pclose(p);
	return count;
}

static inline void folder_remove(struct folder *f)
{
	gb_buf_done(&f->out);
	close(f->root);
	assert_int_equal(tmpdir_remove(&f->tmp), 0);
}

#endif
