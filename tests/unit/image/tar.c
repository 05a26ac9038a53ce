/* The archives of tests/data/tar: what each becomes, or why it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "render.h"
#include "base/fd.h"
#include "base/path.h"

#include <fcntl.h>
#include <stdio.h>

#define ROOT "d0755 0:0 0\n"

struct row {
	const char *file;
	int code;
	const char *message; /* part of it */
	const char *tree; /* without the root's line, which is ". " ROOT unless given */
};

static const struct row rows[] = {
	{"absolute.tar", 0, NULL,
		"etc d0755 0:0 0\n"
		"etc/one -0644 0:0 1\n"
		"etc/two -0644 0:0 2\n"},
	{"bad-checksum.tar", GB_E_PARSE, "bad archive", NULL},
	{"below-file.tar", GB_E_PARSE, "'f' is not a folder", NULL},
	{"capability.tar", 0, NULL,
		"bin d0755 0:0 0\n"
		"bin/ping -4755 1000:1000 1\n"},
	{"cut-in-content.tar", GB_E_PARSE, "bad archive", NULL},
	{"cut-in-header.tar", GB_E_PARSE, "bad archive", NULL},
	{"device.tar", 0, NULL,
		"null c0666 0:0 0 1,3\n"
		"big b0660 0:0 0 259,70000\n"
		"pipe p0600 0:0 0\n"},
	{"dir-becomes-file.tar", 0, NULL, "d -0644 0:0 10\n"},
	{"dir-twice.tar", 0, NULL,
		"d d0750 7:0 0\n"
		"d/x -0644 0:0 1\n"},
	{"dotdot-hardlink.tar", GB_E_DENIED,
		"hard link to '../a': a path must not hold '..'", NULL},
	{"dotdot-only.tar", GB_E_DENIED, "a path must not hold '..'", NULL},
	{"dotdot.tar", GB_E_DENIED, "a path must not hold '..'", NULL},
	{"duplicate.tar", 0, NULL,
		"f -0644 0:0 10\n"
		"f2 -0644 0:0 5\n"},
	{"empty.tar", 0, NULL, ""},
	{"file-becomes-dir.tar", 0, NULL,
		"d d0755 0:0 0\n"
		"d/x -0644 0:0 1\n"},
	{"hardlink-absolute.tar", 0, NULL,
		"a -0644 0:0 1 x2\n"
		"b -0644 0:0 1 x2\n"},
	{"hardlink-again.tar", 0, NULL,
		"abc -0644 0:0 3\n"
		"def -0644 0:0 3 x2\n"
		"link -0644 0:0 3 x2\n"},
	{"hardlink-dir.tar", GB_E_PARSE, "hard link to 'd': it is a folder", NULL},
	{"hardlink-into-replaced.tar", 0, NULL, "d -0644 0:0 1\n"},
	{"hardlink-later.tar", GB_E_NOTFOUND, "hard link to 'b': it does not exist",
		NULL},
	{"hardlink-missing.tar", GB_E_NOTFOUND,
		"hard link to 'nothing': it does not exist", NULL},
	{"hardlink-self.tar", 0, NULL, "a -0644 0:0 1\n"},
	{"hardlink-symlink.tar", 0, NULL,
		"s l0777 0:0 7 x2 -> nowhere\n"
		"t l0777 0:0 7 x2 -> nowhere\n"},
	{"hardlink-through-link.tar", 0, NULL,
		"usr d0755 0:0 0\n"
		"usr/bin d0755 0:0 0\n"
		"usr/bin/a -0644 0:0 1 x2\n"
		"bin l0777 0:0 7 -> usr/bin\n"
		"b -0644 0:0 1 x2\n"},
	{"hardlink.tar", 0, NULL,
		"bin d0755 0:0 0\n"
		"bin/app -4755 0:0 1 x2\n"
		"deep d0755 0:0 0\n"
		"deep/er d0755 0:0 0\n"
		"deep/er/app -4755 0:0 1 x2\n"},
	{"link-4096.tar", GB_E_LIMIT,
		"a symbolic link's target must have 1 to 4095 bytes", NULL},
	{"link-absolute.tar", 0, NULL,
		"abs l0777 0:0 8 -> /usr/bin\n"
		"usr d0755 0:0 0\n"
		"usr/bin d0755 0:0 0\n"
		"usr/bin/t -0644 0:0 1\n"},
	{"link-circle.tar", GB_E_PARSE, "symbolic links run in a circle at 'a'", NULL},
	{"link-empty.tar", GB_E_PARSE, "link 'l' has no readable target", NULL},
	{"link-out.tar", 0, NULL,
		"out l0777 0:0 15 -> ../../../../tmp\n"
		"tmp d0755 0:0 0\n"
		"tmp/t -0644 0:0 1\n"},
	{"link-self.tar", GB_E_PARSE, "symbolic links run in a circle at 'a'", NULL},
	{"link-to-file.tar", GB_E_PARSE, "'f' is not a folder", NULL},
	{"link-usr-merge.tar", 0, NULL,
		"usr d0755 0:0 0\n"
		"usr/bin d0755 0:0 0\n"
		"usr/bin/t1 -0644 0:0 1\n"
		"usr/bin/t2 -0644 0:0 1\n"
		"bin l0777 0:0 7 -> usr/bin\n"},
	{"links.tar", 0, NULL,
		"l59 l0777 0:0 59\n"
		"l60 l0777 0:0 60\n"
		"l61 l0777 0:0 61\n"
		"l300 l0777 0:0 300\n"
		"l4095 l0777 0:0 4095\n"},
	{"name-255.tar", 0, NULL,
		"d d0755 0:0 0\n"
		"d/nnnn*255 -0644 0:0 1\n"},
	{"name-256.tar", GB_E_LIMIT, "a name is over 255 bytes", NULL},
	{"name-control.tar", 0, NULL, "a\nb\033[31m -0644 0:0 1\n"},
	{"name-gnu.tar", 0, NULL,
		"d d0755 0:0 0\n"
		"d/gggg*255 -0644 0:0 1\n"},
	{"name-latin1.tar", 0, NULL, "caf\351 -0644 0:0 1\n"},
	{"name-pax-binary.tar", 0, NULL, "caf\351 -0644 0:0 1\n"},
	{"name-pax-utf8.tar", 0, NULL,
		"caf\303\251 \346\227\245\346\234\254 -0644 0:0 1\n"},
	{"name-ustar.tar", 0, NULL,
		"nnnn*100 -0644 0:0 1\n"
		"pppp*155 d0755 0:0 0\n"
		"pppp*155/mmmm*99 -0644 0:0 1\n"},
	{"nothing.tar", GB_E_PARSE, "bad archive", NULL},
	{"owner-too-big.tar", GB_E_LIMIT, "'p' has an impossible owner", NULL},
	{"owners.tar", 0, NULL,
		"g -0644 3000000:3000001 1\n"
		"p -0644 4294967294:4294967294 1\n"
		"n -0644 0:0 1\n"},
	{"parents.tar", 0, NULL,
		"deep d0755 0:0 0\n"
		"deep/er d0755 0:0 0\n"
		"deep/er/file -0644 0:0 1\n"},
	{"path-4097.tar", GB_E_LIMIT, "a path is over 4096 bytes", NULL},
	{"pax-endless.tar", GB_E_PARSE, "bad archive", NULL},
	{"pax-lies.tar", GB_E_PARSE, "bad archive", NULL},
	{"root-attributes.tar", 0, NULL, ". d1711 5:6 0\n"},
	{"root-file.tar", 0, NULL, ". d0644 0:0 0\n"},
	{"size-16-tib.tar", GB_E_LIMIT, "'f' is larger than a file can be", NULL},
	{"size-2-63.tar", GB_E_PARSE, "bad archive", NULL},
	{"size-2-64.tar", GB_E_PARSE, "bad archive", NULL},
	{"size-letters.tar", GB_E_PARSE, "bad archive", NULL},
	{"size-max.tar", GB_E_PARSE, "bad archive", NULL},
	{"sparse-backwards.tar", GB_E_PARSE, "bad archive", NULL},
	{"sparse-beyond.tar", GB_E_PARSE, "more content than its size says", NULL},
	{"sparse.tar", 0, NULL, "s -0644 0:0 1048576\n"},
	{"text.tar", GB_E_PARSE, "bad archive", NULL},
	{"xattr-too-big.tar", GB_E_LIMIT, "extended attributes over 128 or 65536 bytes",
		NULL},
	{"cut.tar.gz", GB_E_PARSE, "bad archive", NULL},
	{"whole.tar.gz", 0, NULL, "a -0644 0:0 10240\n"},
};

static int read_fd(void *ctx, void *data, size_t len, size_t *ret_len, struct gb_err *err)
{
	/* little at a time, so that headers and names come in pieces */
	return gb_fd_read_full(*(int *)ctx, data, GB_MIN(len, (size_t)700), ret_len, err);
}

static int read_all(
	struct gb_tree_source *source, struct gb_inode *inode, struct gb_err *err)
{
	const void *data;
	size_t len;
	uint64_t offset;
	int r;

	while ((r = source->ops->data(source, &data, &len, &offset, err)) > 0)
		if (offset + len > inode->size)
			return gb_fail(
				err, GB_E_PARSE, "more content than its size says");
	return r;
}

static int unpack(
	struct gb_tree_source *source, struct gb_names *names, struct gb_err *err)
{
	struct gb_tree_entry e;
	int r;

	while ((r = source->ops->next(source, &e, err)) > 0) {
		struct gb_inode *inode = NULL;

		r = gb_names_put(names, &e, &inode, err);
		if (r == 0 && inode)
			r = read_all(source, inode, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int unpack_file(const char *file, struct gb_names *names, struct gb_err *err)
{
	gb_auto(gb_tree_source) *source = NULL;
	gb_auto_free char *path = gb_path_join(GB_TEST_DATA "/tar", file);
	gb_auto_fd fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	struct gb_tree_reader reader = {.read = read_fd, .ctx = &fd};
	int r = fd < 0 ? gb_fail(err, GB_E_NOTFOUND, "no test file '%s'", file)
		       : gb_tree_tar_open(&reader, &source, err);

	return r < 0 ? r : unpack(source, names, err);
}

static void archive(void **state)
{
	const struct row *row = *state;
	struct gb_names *names = NULL;
	struct gb_err err = {0};
	struct gb_buf b = {0};
	const char *tree;
	int r;

	assert_int_equal(gb_names_new(0, &names, NULL), 0);
	r = unpack_file(row->file, names, &err);
	if (r != row->code || (r < 0 && !strstr(err.msg, row->message)))
		fail_msg("%s: %d %s", row->file, r, err.msg);
	if (r == 0) {
		render_tree(&b, names);
		tree = (char *)b.data;
		if (strncmp(row->tree, ". ", 2) != 0) {
			assert_memory_equal(tree, ". " ROOT, strlen(". " ROOT));
			tree += strlen(". " ROOT);
		}
		assert_string_equal(tree, row->tree);
	}
	gb_buf_done(&b);
	gb_names_free(names);
}

int main(void)
{
	static struct CMUnitTest tests[GB_ARRAY_SIZE(rows)];

	for (size_t i = 0; i < GB_ARRAY_SIZE(rows); i++)
		tests[i] = (struct CMUnitTest){.name = rows[i].file,
			.test_func = archive,
			.initial_state = (void *)&rows[i]};
	return cmocka_run_group_tests_name("tar", tests, NULL, NULL);
}
