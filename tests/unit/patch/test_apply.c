#include "rows.h"

#include "folder.h"
#include "patch/place.h"

#define OK	    "Success. Updated the following files:\n"
#define NO	    "apply_patch verification failed: "
#define ADD(p, c)   "*** Add File: " p "\n" c
#define DEL(p)	    "*** Delete File: " p "\n"
#define UPD(p, c)   "*** Update File: " p "\n" c
#define MOVE(p)	    "*** Move to: " p "\n"
#define ENOENT_TEXT ": No such file or directory (os error 2)"
#define OUTSIDE	    " leads outside of the workspace $W"

/* body: between the markers. In all texts $W is the workspace, $O the folder it is in.
 * out: what is answered; where it begins with NO all files must be as before, and after
 * need not say so. */
struct row {
	const char *name;
	struct entry before[FOLDER_FILES];
	const char *cwd;
	bool outside;
	const char *body;
	const char *out;
	struct entry after[FOLDER_FILES];
};

static const struct row rows[] = {
	{ "add", { { "x", "", 0 } }, "", false, ADD("a", "+1\n+\n"), OK "A a\n",
		{ { "a", "1\n\n", 0 } } },
	{ "add: empty", { { "x", "", 0 } }, "", false, ADD("a", ""), OK "A a\n",
		{ { "a", "", 0 } } },
	{ "add: folders are made", { { "x", "", 0 } }, "", false, ADD("n/e/w/a", "+1\n"),
		OK "A n/e/w/a\n", { { "n/e/w/a", "1\n", 0 } } },
	{ "add: two in one new folder", { { "x", "", 0 } }, "", false,
		ADD("n/a", "+1\n") ADD("n/b", "+2\n"), OK "A n/a\nA n/b\n",
		{ { "n/a", "1\n", 0 }, { "n/b", "2\n", 0 } } },
	/* https://github.com/openai/openai-agents-python/issues/4919 */
	{ "add: over a file, mode kept", { { "t", "keep\n", 0751 } }, "", false,
		ADD("t", "+new\n"), OK "M t\n", { { "t", "new\n", 0751 } } },
	{ "add: over a folder", { { "t", "/", 0 } }, "", false, ADD("t", "+new\n"),
		NO "$W/t is a folder", { { "t", "/", 0 } } },
	{ "add: the workspace", { { "x", "", 0 } }, "", false, ADD(".", "+x\n"),
		NO "$W/. is a folder", { { "x", "", 0 } } },
	{ "add: below a file", { { "t", "x", 0 } }, "", false, ADD("t/a", "+new\n"),
		NO "Failed to look up $W/t/a: Not a directory (os error 20)",
		{ { "t", "x", 0 } } },
	{ "add: below a file that is added", { { "x", "", 0 } }, "", false,
		ADD("t", "+x\n") ADD("t/a", "+y\n"),
		NO "Failed to write file $W/t/a: Not a directory (os error 20)",
		{ { "t", "-", 0 } } },
	{ "add: over a FIFO", { { "p", "|", 0 } }, "", false, ADD("p", "+x\n"),
		NO "$W/p is not a regular file", { { "p", "|", 0 } } },
	{ "add: where a link leads", { { "l", "@n", 0 } }, "", false, ADD("l", "+x\n"),
		OK "A l\n", { { "l", "@n", 0 }, { "n", "x\n", 0 } } },

	{ "delete", { { "a", "x", 0 }, { "b", "y", 0 } }, "", false, DEL("a"), OK "D a\n",
		{ { "a", "-", 0 }, { "b", "y", 0 } } },
	{ "delete: missing", { { "b", "y", 0 } }, "", false, DEL("a"),
		NO "Failed to delete file $W/a" ENOENT_TEXT, { { "b", "y", 0 } } },
	{ "delete: folder", { { "d/a", "y", 0 } }, "", false, DEL("d"),
		NO "$W/d is a folder", { { "d/a", "y", 0 } } },
	{ "delete: twice", { { "a", "y", 0 } }, "", false, DEL("a") DEL("a"),
		NO "Failed to delete file $W/a" ENOENT_TEXT, { { "a", "y", 0 } } },
	{ "delete: a link, not where it leads", { { "a", "y", 0 }, { "l", "@a", 0 } }, "",
		false, DEL("l"), OK "D l\n", { { "a", "y", 0 }, { "l", "-", 0 } } },
	{ "delete: a link that leads outside", { { "l", "@../outside", 0 } }, "", false,
		DEL("l"), OK "D l\n", { { "l", "-", 0 } } },
	{ "delete: FIFO", { { "p", "|", 0 } }, "", false, DEL("p"),
		NO "$W/p is not a regular file", { { "p", "|", 0 } } },
	{ "delete, then add", { { "a", "x", 0700 } }, "", false,
		DEL("a") ADD("a", "+y\n"), OK "A a\nD a\n", { { "a", "y\n", 0 } } },
	{ "delete, then a folder of its name", { { "a", "x", 0 } }, "", false,
		DEL("a") ADD("a/b", "+y\n"), OK "A a/b\nD a\n", { { "a/b", "y\n", 0 } } },
	{ "delete a link, then a file of its name", { { "t", "x", 0 }, { "l", "@t", 0 } },
		"", false, DEL("l") ADD("l", "+y\n"), OK "A l\nD l\n",
		{ { "t", "x", 0 }, { "l", "y\n", 0644 } } },
	{ "delete a link, add and change a file of its name",
		{ { "t", "x", 0 }, { "l", "@t", 0 } }, "", false,
		DEL("l") ADD("l", "+y\n") UPD("l", "-y\n+z\n"), OK "A l\nM l\nD l\n",
		{ { "t", "x", 0 }, { "l", "z\n", 0644 } } },
	{ "delete a link to a folder, then a folder of its name",
		{ { "t/x", "x", 0 }, { "l", "@t", 0 } }, "", false,
		DEL("l") ADD("l/x", "+y\n"), OK "A l/x\nD l\n",
		{ { "t/x", "x", 0 }, { "l/x", "y\n", 0 } } },

	{ "update: mode kept", { { "a", "1\n2\n", 0755 } }, "", false,
		UPD("a", "@@\n-2\n+3\n"), OK "M a\n", { { "a", "1\n3\n", 0755 } } },
	{ "update: missing", { { "x", "", 0 } }, "", false, UPD("a", "@@\n-2\n+3\n"),
		NO "Failed to read file to update $W/a" ENOENT_TEXT, { { "x", "", 0 } } },
	{ "update: folder", { { "a", "/", 0 } }, "", false, UPD("a", "@@\n-2\n+3\n"),
		NO "$W/a is a folder", { { "a", "/", 0 } } },
	{ "update: FIFO", { { "p", "|", 0 } }, "", false, UPD("p", "@@\n-2\n+3\n"),
		NO "$W/p is not a regular file", { { "p", "|", 0 } } },
	{ "update: mismatch", { { "a", "1\n", 0 } }, "", false, UPD("a", "@@\n-2\n+3\n"),
		NO "Failed to find expected lines in $W/a:\n2", { { "a", "1\n", 0 } } },
	{ "update: twice, the second sees the first", { { "a", "1\n", 0 } }, "", false,
		UPD("a", "-1\n+2\n") UPD("a", "-2\n+3\n"), OK "M a\n",
		{ { "a", "3\n", 0 } } },
	{ "update: what was added", { { "x", "", 0 } }, "", false,
		ADD("a", "+1\n") UPD("a", "-1\n+2\n"), OK "A a\nM a\n",
		{ { "a", "2\n", 0 } } },
	{ "update: what was deleted", { { "a", "1\n", 0 } }, "", false,
		DEL("a") UPD("a", "-1\n+2\n"),
		NO "Failed to read file to update $W/a" ENOENT_TEXT,
		{ { "a", "1\n", 0 } } },
	{ "update: where a link leads", { { "a", "1\n", 0 }, { "l", "@a", 0 } }, "",
		false, UPD("l", "-1\n+2\n"), OK "M l\n",
		{ { "a", "2\n", 0 }, { "l", "@a", 0 } } },
	{ "update: through a link to a folder", { { "d/a", "1\n", 0 }, { "l", "@d", 0 } },
		"", false, UPD("l/a", "-1\n+2\n") UPD("d/a", "-2\n+3\n"),
		OK "M l/a\nM d/a\n", { { "d/a", "3\n", 0 } } },
	{ "update: Latin-1", { { "a", "caf\xe9\n1\n", 0 } }, "", false,
		UPD("a", "-1\n+2\n"), OK "M a\n", { { "a", "caf\xe9\n2\n", 0 } } },
	{ "update: becomes empty", { { "a", "1\n", 0 } }, "", false, UPD("a", "-1\n"),
		OK "M a\n", { { "a", "", 0 } } },

	{ "move", { { "a", "1\n", 0755 } }, "", false, UPD("a", MOVE("n/b") "-1\n+2\n"),
		OK "M n/b\n", { { "a", "-", 0 }, { "n/b", "2\n", 0755 } } },
	{ "move: rename only", { { "a", "1", 0755 } }, "", false, UPD("a", MOVE("n/b")),
		OK "M n/b\n", { { "a", "-", 0 }, { "n/b", "1", 0755 } } },
	{ "move: over a file, its mode kept",
		{ { "s", "alpha\n", 0600 }, { "t", "keep\n", 0751 } }, "", false,
		UPD("s", MOVE("t") "-alpha\n+beta\n"), OK "M t\n",
		{ { "s", "-", 0 }, { "t", "beta\n", 0751 } } },
	{ "move: rename only over a file, its mode kept",
		{ { "s", "a\n", 0600 }, { "t", "k\n", 0751 } }, "", false,
		UPD("s", MOVE("t")), OK "M t\n",
		{ { "s", "-", 0 }, { "t", "a\n", 0751 } } },
	{ "move: rename only over a file of the same mode",
		{ { "s", "a\n", 0 }, { "t", "k\n", 0 } }, "", false, UPD("s", MOVE("t")),
		OK "M t\n", { { "s", "-", 0 }, { "t", "a\n", 0 } } },
	{ "move: onto itself", { { "a", "1\n", 0 } }, "", false,
		UPD("a", MOVE("a") "-1\n+2\n"), OK "M a\n", { { "a", "2\n", 0 } } },
	{ "move: onto itself by another name", { { "a", "1\n", 0 }, { "d", "/", 0 } }, "",
		false, UPD("a", MOVE("d/../a") "-1\n+2\n"), OK "M d/../a\n",
		{ { "a", "2\n", 0 } } },
	{ "move: onto itself, nothing else", { { "a", "1\n", 0 } }, "", false,
		UPD("a", MOVE("./a")), OK "M ./a\n", { { "a", "1\n", 0 } } },
	{ "move: a link onto itself", { { "a", "1\n", 0 }, { "l", "@a", 0 } }, "", false,
		UPD("l", MOVE("l") "-1\n+2\n"), OK "M l\n",
		{ { "a", "2\n", 0 }, { "l", "@a", 0 } } },
	{ "move: a link onto what it leads to", { { "a", "1\n", 0 }, { "l", "@a", 0 } },
		"", false, UPD("l", MOVE("a") "-1\n+2\n"), OK "M a\n",
		{ { "a", "2\n", 0 }, { "l", "-", 0 } } },
	{ "move: a link to a new place", { { "a", "1\n", 0 }, { "l", "@a", 0 } }, "",
		false, UPD("l", MOVE("b")), OK "M b\n",
		{ { "a", "1\n", 0 }, { "l", "-", 0 }, { "b", "1\n", 0 } } },
	{ "move: a link to what was changed before",
		{ { "a", "1\n", 0600 }, { "l", "@a", 0 } }, "", false,
		UPD("a", "-1\n+2\n") UPD("l", MOVE("b") "-2\n+3\n") UPD("b", "-3\n+4\n"),
		OK "M a\nM b\n",
		{ { "a", "2\n", 0600 }, { "l", "-", 0 }, { "b", "4\n", 0600 } } },
	{ "move: onto a link back", { { "a", "1\n", 0 }, { "l", "@a", 0 } }, "", false,
		UPD("a", MOVE("l") "-1\n+2\n"), OK "M l\n",
		{ { "a", "2\n", 0 }, { "l", "@a", 0 } } },
	{ "move: missing", { { "x", "", 0 } }, "", false, UPD("a", MOVE("b")),
		NO "Failed to read file to update $W/a" ENOENT_TEXT,
		{ { "b", "-", 0 } } },
	{ "move: to a folder", { { "a", "1\n", 0 }, { "d", "/", 0 } }, "", false,
		UPD("a", MOVE("d")), NO "$W/d is a folder", { { "a", "1\n", 0 } } },
	{ "move: swap", { { "a", "1\n", 0600 }, { "b", "2\n", 0600 } }, "", false,
		UPD("a", MOVE("t")) UPD("b", MOVE("a")) UPD("t", MOVE("b")),
		OK "M t\nM a\nM b\n",
		{ { "a", "2\n", 0600 }, { "b", "1\n", 0600 }, { "t", "-", 0 } } },
	{ "move: then change it there", { { "a", "1\n", 0700 } }, "", false,
		UPD("a", MOVE("b")) UPD("b", "-1\n+2\n"), OK "M b\n",
		{ { "a", "-", 0 }, { "b", "2\n", 0700 } } },
	{ "move: then a new one in its place", { { "a", "1\n", 0700 } }, "", false,
		UPD("a", MOVE("b")) ADD("a", "+3\n"), OK "A a\nM b\n",
		{ { "a", "3\n", 0 }, { "b", "1\n", 0700 } } },
	{ "move: then delete it", { { "a", "1\n", 0 } }, "", false,
		UPD("a", MOVE("b")) DEL("b"), OK "M b\nD b\n",
		{ { "a", "-", 0 }, { "b", "-", 0 } } },

	/* https://github.com/openclaw/openclaw/issues/117742 */
	{ "whole: a later hunk fails", { { "a", "1\n", 0 }, { "c", "3\n", 0 } }, "",
		false, DEL("a") ADD("b", "+2\n") UPD("c", "-4\n+5\n"),
		NO "Failed to find expected lines in $W/c:\n4",
		{ { "a", "1\n", 0 }, { "b", "-", 0 }, { "c", "3\n", 0 } } },
	{ "whole: no folder is made", { { "c", "3\n", 0 } }, "", false,
		ADD("n/b", "+2\n") DEL("zz"),
		NO "Failed to delete file $W/zz" ENOENT_TEXT, { { "n", "-", 0 } } },
	{ "summary: by letter, in order, each once",
		{ { "m", "1\n", 0 }, { "d", "", 0 } }, "", false,
		DEL("d") UPD("m", "-1\n+2\n") ADD("z", "+1\n") ADD("y", "+1\n")
			UPD("m", "-2\n+3\n"),
		OK "A z\nA y\nM m\nD d\n", { { "m", "3\n", 0 } } },
	{ "no hunks", { { "x", "", 0 } }, "", false, "", "No files were modified.",
		{ { "x", "", 0 } } },

	{ "cwd", { { "s/a", "1\n", 0 } }, "s", false,
		UPD("a", "-1\n+2\n") ADD("b", "+x\n"), OK "A b\nM a\n",
		{ { "s/a", "2\n", 0 }, { "s/b", "x\n", 0 } } },
	{ "cwd: absolute", { { "s/a", "1\n", 0 } }, "$W/s", false, UPD("a", "-1\n+2\n"),
		OK "M a\n", { { "s/a", "2\n", 0 } } },
	{ "cwd: up within the workspace", { { "s/t/x", "", 0 }, { "a", "1\n", 0 } },
		"s/t", false, UPD("../../a", "-1\n+2\n"), OK "M ../../a\n",
		{ { "a", "2\n", 0 } } },
	{ "cwd: shown in messages", { { "s/x", "", 0 } }, "s", false,
		UPD("a", "-1\n+2\n"),
		NO "Failed to read file to update $W/s/a" ENOENT_TEXT,
		{ { "s/x", "", 0 } } },
	{ "cwd: missing", { { "x", "", 0 } }, "gone", false, ADD("a", "+x\n"), OK "A a\n",
		{ { "gone/a", "x\n", 0 } } },
	{ "cwd: outside", { { "x", "", 0 } }, "$O", false, ADD("a", "+x\n"),
		NO "$O/a" OUTSIDE, { { "x", "", 0 } } },

	{ "inside: absolute", { { "a", "1\n", 0 } }, "", false, UPD("$W/a", "-1\n+2\n"),
		OK "M $W/a\n", { { "a", "2\n", 0 } } },
	{ "inside: absolute, odd slashes", { { "a", "1\n", 0 } }, "", false,
		UPD("/$W//a", "-1\n+2\n"), OK "M /$W//a\n", { { "a", "2\n", 0 } } },
	{ "inside: absolute link", { { "d/a", "1\n", 0 }, { "l", "@$W/d", 0 } }, "",
		false, UPD("l/a", "-1\n+2\n"), OK "M l/a\n", { { "d/a", "2\n", 0 } } },
	{ "inside: up again", { { "d/x", "", 0 }, { "a", "1\n", 0 } }, "", false,
		UPD("d/../a", "-1\n+2\n"), OK "M d/../a\n", { { "a", "2\n", 0 } } },
	{ "inside: up through a link goes where it leads",
		{ { "d/e/x", "", 0 }, { "d/a", "1\n", 0 }, { "l", "@d/e", 0 } }, "",
		false, UPD("l/../a", "-1\n+2\n"), OK "M l/../a\n",
		{ { "d/a", "2\n", 0 } } },
	{ "inside: up from what is missing", { { "a", "1\n", 0 } }, "", false,
		UPD("n/../a", "-1\n+2\n"), NO "Failed to look up $W/n/../a" ENOENT_TEXT,
		{ { "a", "1\n", 0 } } },
	{ "outside: up", { { "x", "", 0 } }, "", false,
		UPD("../outside", "-secret\n+x\n"), NO "$W/../outside" OUTSIDE,
		{ { "x", "", 0 } } },
	{ "outside: up and back", { { "a", "1\n", 0 } }, "", false,
		UPD("../w/a", "-1\n+2\n"), NO "$W/../w/a" OUTSIDE,
		{ { "a", "1\n", 0 } } },
	{ "outside: up far", { { "x", "", 0 } }, "", false,
		ADD("d/../../../../etc/gb", "+x\n"),
		NO "Failed to look up $W/d/../../../../etc/gb" ENOENT_TEXT,
		{ { "x", "", 0 } } },
	{ "outside: absolute", { { "x", "", 0 } }, "", false, ADD("/etc/gb-test", "+x\n"),
		NO "/etc/gb-test" OUTSIDE, { { "x", "", 0 } } },
	{ "outside: the workspace's path and more", { { "x", "", 0 } }, "", false,
		ADD("$Wx/a", "+x\n"), NO "$Wx/a" OUTSIDE, { { "x", "", 0 } } },
	{ "outside: link to a file", { { "l", "@../outside", 0 } }, "", false,
		UPD("l", "-secret\n+x\n"), NO "$W/l" OUTSIDE,
		{ { "l", "@../outside", 0 } } },
	{ "outside: link, add", { { "l", "@../new", 0 } }, "", false, ADD("l", "+x\n"),
		NO "$W/l" OUTSIDE, { { "l", "@../new", 0 } } },
	{ "outside: absolute link", { { "l", "@$O/outside", 0 } }, "", false,
		UPD("l", "-secret\n+x\n"), NO "$W/l" OUTSIDE,
		{ { "l", "@$O/outside", 0 } } },
	{ "outside: link to a folder", { { "l", "@..", 0 } }, "", false,
		ADD("l/new", "+x\n"), NO "$W/l/new" OUTSIDE, { { "l", "@..", 0 } } },
	{ "outside: two links", { { "k", "@.", 0 }, { "l", "@k/..", 0 } }, "", false,
		DEL("l/outside"), NO "$W/l/outside" OUTSIDE, { { "k", "@.", 0 } } },
	{ "outside: move", { { "a", "1\n", 0 } }, "", false, UPD("a", MOVE("../a")),
		NO "$W/../a" OUTSIDE, { { "a", "1\n", 0 } } },
	{ "outside: links in a circle", { { "k", "@l", 0 }, { "l", "@k", 0 } }, "", false,
		UPD("l", "-1\n+2\n"),
		NO
		"Failed to look up $W/l: Too many levels of symbolic links (os error 40)",
		{ { "k", "@l", 0 } } },
	{ "outside: allowed, up", { { "x", "", 0 } }, "", true,
		UPD("../outside", "-secret\n+x\n"), OK "M ../outside\n",
		{ { "../outside", "x\n", 0 } } },
	{ "outside: allowed, absolute", { { "x", "", 0 } }, "", true,
		ADD("$O/new", "+x\n"), OK "A $O/new\n", { { "../new", "x\n", 0 } } },
	{ "outside: allowed, link", { { "l", "@../outside", 0 } }, "", true,
		UPD("l", "-secret\n+x\n"), OK "M l\n",
		{ { "../outside", "x\n", 0 }, { "l", "@../outside", 0 } } },
	{ "outside: allowed, relative", { { "s/a", "1\n", 0 } }, "s", true,
		UPD("a", "-1\n+2\n"), OK "M a\n", { { "s/a", "2\n", 0 } } },
	{ "outside: allowed, not above the root", { { "x", "", 0 } }, "", true,
		UPD("../../../../../../../../../../../..$W/x", "+2\n"),
		OK "M ../../../../../../../../../../../..$W/x\n", { { "x", "2\n", 0 } } },
};

static void put_all(const struct folder *f, const struct entry *e)
{
	for (size_t i = 0; i < FOLDER_FILES && e[i].path; i++) {
		struct gb_buf content = { 0 };
		struct entry one = e[i];

		folder_expand(f, e[i].content, &content);
		one.content = (char *)content.data;
		put_entry(f->root, &one);
		gb_buf_done(&content);
	}
}

static void check_all(const struct folder *f, const struct entry *e)
{
	for (size_t i = 0; i < FOLDER_FILES && e[i].path; i++) {
		struct gb_buf content = { 0 };
		struct entry one = e[i];

		folder_expand(f, e[i].content, &content);
		one.content = (char *)content.data;
		check_entry(f->root, &one);
		gb_buf_done(&content);
	}
}

static void one(void **state)
{
	const struct row *row = *state;
	struct folder f;
	struct gb_buf body = { 0 }, text = { 0 }, cwd = { 0 }, out = { 0 };
	bool fails = strncmp(row->out, OK, strlen(OK)) != 0;

	folder_make(&f);
	put_all(&f, row->before);
	folder_expand(&f, row->body, &body);
	folder_expand(&f, row->cwd, &cwd);
	folder_expand(&f, row->out, &out);
	gb_buf_printf(&text, "*** Begin Patch\n%s*** End Patch\n", (char *)body.data);
	gb_buf_add_byte(&text, 0);
	f.where.cwd = (char *)cwd.data;
	f.where.allow_outside = row->outside;
	assert_int_equal(folder_apply(&f, (char *)text.data) < 0, fails);
	assert_string_equal((char *)f.out.data, (char *)out.data);
	check_all(&f, row->after);
	if (fails) {
		check_all(&f, row->before);
		check_entry(f.tmp.fd, &(struct entry){ "outside", "secret\n", 0 });
		check_entry(f.tmp.fd, &(struct entry){ "new", "-", 0 });
	}
	assert_int_equal(folder_leftovers(&f), 0);
	gb_buf_done(&body);
	gb_buf_done(&text);
	gb_buf_done(&cwd);
	gb_buf_done(&out);
	folder_remove(&f);
}

/* The last name that fits, and the first that does not. */
static void long_names(void **state)
{
	struct folder f;
	char text[600];
	char name[257] = "";

	(void)state;
	folder_make(&f);
	memset(name, 'n', 255);
	snprintf(text, sizeof(text),
		"*** Begin Patch\n*** Add File: %s\n+x\n*** End Patch", name);
	assert_int_equal(folder_apply(&f, text), 0);
	check_entry(f.root, &(struct entry){ name, "x\n", 0 });
	memset(name, 'n', 256);
	snprintf(text, sizeof(text),
		"*** Begin Patch\n*** Add File: %s\n+x\n*** End Patch", name);
	assert_int_equal(folder_apply(&f, text), GB_E_INVALID);
	assert_non_null(strstr((char *)f.out.data, "File name too long (os error 36)"));
	snprintf(text, sizeof(text),
		"*** Begin Patch\n*** Add File: d/%s\n+x\n*** End Patch", name);
	assert_int_equal(folder_apply(&f, text), GB_E_INVALID);
	folder_remove(&f);
}

static size_t put_at(char *at, const char *s)
{
	memcpy(at, s, strlen(s) + 1);
	return strlen(s);
}

static void long_path(void **state)
{
	static char text[GB_PATCH_PATH_MAX + 200];
	struct folder f;
	char *at = text;

	(void)state;
	folder_make(&f);
	at += put_at(at, "*** Begin Patch\n*** Add File: ");
	for (size_t i = 0; i < GB_PATCH_PATH_MAX / 2; i++)
		at += put_at(at, "a/");
	put_at(at, "bb\n+x\n*** End Patch");
	assert_int_equal(folder_apply(&f, text), GB_E_INVALID);
	assert_non_null(strstr((char *)f.out.data, "File name too long (os error 36)"));
	folder_remove(&f);
}

int main(void)
{
	static struct rows_list l;

	umask(022);
	rows_add(&l, rows, one);
	rows_add_one(&l, "long names", long_names);
	rows_add_one(&l, "long path", long_path);
	return rows_run("patch-apply", &l);
}
