#include "rows.h"
#include "tmpdir.h"

#include "base/buf.h"
#include "guest/user.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
			     "# a comment\n"
			     "\n"
			     "broken:x:two:2::/:/bin/sh\n"
			     "huge:x:4294967295:4294967295::/:/bin/sh\n"
			     "short:x\n"
			     ":x:0:0:no name:/:/bin/sh\n"
			     "node:x:1000:1001::/home/node:/bin/zsh:extra:fields\n"
			     "bare:x:1002:1002\n"
			     "empty:x:1003:1003:::\n"
			     "node:x:7:7::/second:/bin/sh\n"
			     "last:x:1004:1004::/home/last:/bin/last";
static const char group[] = "root:x:0:\n"
			    "node:x:1001:\n"
			    "docker:x:998:node,other\n"
			    "almost:x:997:nodes,anode\n"
			    "wheel:x:10:other,node\n"
			    "broken:x:ten:node\n"
			    "short:x\n"
			    "video:x:44:node";

struct user_row {
	const char *name;
	const char *spec;
	int code;
	uint32_t uid, gid;
	const char *user, *home, *shell;
	const char *groups; /* "10 44" in file order */
};

static const struct user_row rows[] = {
	{ "none is root", "", 0, 0, 0, "root", "/root", "/bin/bash", "" },
	{ "a name", "node", 0, 1000, 1001, "node", "/home/node", "/bin/zsh", "998 10 44" },
	{ "a number with a line", "1000", 0, 1000, 1001, "node", "/home/node", "/bin/zsh",
		"998 10 44" },
	{ "a number without one", "1234", 0, 1234, 0, "1234", "/", "/bin/sh", "" },
	{ "number and number", "1234:4321", 0, 1234, 4321, "1234", "/", "/bin/sh", "" },
	{ "name and group", "node:docker", 0, 1000, 998, "node", "/home/node", "/bin/zsh", "" },
	{ "name and number", "node:5", 0, 1000, 5, "node", "/home/node", "/bin/zsh", "" },
	{ "only a group", ":wheel", 0, 0, 10, "root", "/root", "/bin/bash", "" },
	{ "the last line without an end", "last", 0, 1004, 1004, "last", "/home/last",
		"/bin/last", "" },
	{ "fields missing", "bare", 0, 1002, 1002, "bare", "/", "/bin/sh", "" },
	{ "fields empty", "empty", 0, 1003, 1003, "empty", "/", "/bin/sh", "" },
	{ "largest id", "4294967294", 0, 4294967294u, 0, "4294967294", "/", "/bin/sh", "" },
	{ "the id that means none", "4294967295", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "a number over 32 bits", "4294967296", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "negative", "-1", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "a line with a bad number", "broken", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "a line with the id that means none", "huge", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL,
		NULL },
	{ "a short line", "short", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "not there", "nobody", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "part of a name", "nod", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "group not there", "node:nogroup", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "group with a bad number", "node:broken", GB_E_NOTFOUND, 0, 0, NULL, NULL, NULL, NULL },
	{ "group empty", "node:", GB_E_INVALID, 0, 0, NULL, NULL, NULL, NULL },
};

static void check(const struct gb_user *u, const struct user_row *row)
{
	char text[256] = "";

	assert_int_equal(u->uid, row->uid);
	assert_int_equal(u->gid, row->gid);
	assert_string_equal(u->name, row->user);
	assert_string_equal(u->home, row->home);
	assert_string_equal(u->shell, row->shell);
	for (size_t i = 0; i < u->group_count; i++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%u", used ? " " : "", u->groups[i]);
	}
	assert_string_equal(text, row->groups);
}

static void parse(void **state)
{
	const struct user_row *row = *state;
	struct gb_user u = { 0 };
	struct gb_err err = { 0 };

	assert_int_equal(gb_user_parse(passwd, group, row->spec, &u, &err), row->code);
	assert_int_equal(err.code, row->code);
	if (row->code == 0)
		check(&u, row);
	else
		assert_null(u.name);
	gb_user_done(&u);
}

static void no_files(void **state)
{
	static const struct user_row root = { "", "", 0, 0, 0, "root", "/root", "/bin/sh", "" };
	struct gb_user u = { 0 };

	(void)state;
	assert_int_equal(gb_user_parse(NULL, NULL, "root:root", &u, NULL), 0);
	check(&u, &root);
	gb_user_done(&u);
	assert_int_equal(gb_user_parse(NULL, NULL, "node", &u, NULL), GB_E_NOTFOUND);
}

static void too_many_groups(void **state)
{
	struct gb_buf text = { 0 };
	struct gb_user u = { 0 };
	char *groups;

	(void)state;
	for (int i = 0; i < GB_USER_GROUPS_MAX; i++)
		gb_buf_printf(&text, "g%d:x:%d:node\n", i, i);
	groups = gb_buf_take_str(&text);
	assert_non_null(groups);
	assert_int_equal(gb_user_parse(passwd, groups, "node", &u, NULL), 0);
	assert_int_equal(u.group_count, GB_USER_GROUPS_MAX);
	gb_user_done(&u);
	gb_buf_printf(&text, "%sone:x:1:node\n", groups);
	free(groups);
	groups = gb_buf_take_str(&text);
	assert_int_equal(gb_user_parse(passwd, groups, "node", &u, NULL), GB_E_LIMIT);
	free(groups);
}

/* Files in a root: kind of /etc/passwd, and what comes of it. */
struct file_row {
	const char *name;
	char kind;        /* f file, p FIFO, d folder, l link, 0 none */
	const char *link; /* relative to the root's etc, or absolute in the root */
	int code;
};
static const struct file_row file_rows[] = {
	{ "file: regular", 'f', NULL, 0 },
	{ "file: none", 0, NULL, GB_E_NOTFOUND },
	{ "file: a FIFO does not block", 'p', NULL, GB_E_LIMIT },
	{ "file: a folder", 'd', NULL, GB_E_LIMIT },
	{ "file: a link inside", 'l', "real", 0 },
	{ "file: an absolute link stays inside", 'l', "/etc/real", 0 },
	{ "file: a link out stays inside", 'l', "../../../../../../../etc/real", 0 },
	{ "file: a link to what only the host has", 'l', "/proc/self/status", GB_E_NOTFOUND },
	{ "file: a link to itself", 'l', "passwd", GB_E_IO },
};

static bool put(const struct tmpdir *t, const char *name)
{
	int fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	bool ok = fd >= 0 && write(fd, passwd, sizeof(passwd) - 1) == (ssize_t)sizeof(passwd) - 1;

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool lay_out(const struct tmpdir *t, const struct file_row *row)
{
	if (mkdirat(t->fd, "etc", 0755) < 0 || !put(t, "etc/real"))
		return false;
	switch (row->kind) {
	case 'f':
		return put(t, "etc/passwd");
	case 'p':
		return mkfifoat(t->fd, "etc/passwd", 0644) == 0;
	case 'd':
		return mkdirat(t->fd, "etc/passwd", 0755) == 0;
	case 'l':
		return symlinkat(row->link, t->fd, "etc/passwd") == 0;
	default:
		return true;
	}
}

static void files(void **state)
{
	const struct file_row *row = *state;
	struct tmpdir t;
	struct gb_user u = { 0 };
	struct gb_err err = { 0 };
	bool made;
	int r = 0;

	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	assert_true(tmpdir_make(&t));
	made = lay_out(&t, row);
	if (made)
		r = gb_user_find(t.fd, "node", &u, &err);
	assert_int_equal(tmpdir_remove(&t), 0);
	assert_true(made);
	assert_int_equal(r, row->code);
	if (r == 0)
		assert_int_equal(u.uid, 1000);
	gb_user_done(&u);
}

static void too_large(void **state)
{
	struct tmpdir t;
	struct gb_user u = { 0 };
	int at_border, over;

	(void)state;
	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	assert_true(tmpdir_make(&t));
	mkdirat(t.fd, "etc", 0755);
	put(&t, "etc/passwd");
	truncate(tmpdir_at(&t, "etc/passwd"), GB_PASSWD_MAX);
	at_border = gb_user_find(t.fd, "node", &u, NULL);
	gb_user_done(&u);
	truncate(tmpdir_at(&t, "etc/passwd"), GB_PASSWD_MAX + 1);
	over = gb_user_find(t.fd, "node", &u, NULL);
	assert_int_equal(tmpdir_remove(&t), 0);
	assert_int_equal(at_border, 0);
	assert_int_equal(over, GB_E_LIMIT);
}

/* What happened to the files between two look-ups, and what the second must find. */
struct cache_row {
	const char *name;
	uint64_t settled_ns;
	const char *spec;    /* of the second */
	const char *passwd;  /* put in place of the old one; NULL: left alone */
	bool again;          /* the first answer still stands */
	uid_t uid;
};
static const struct cache_row cache_rows[] = {
	{ "cache: nothing changed", 0, "node", NULL, true, 1000 },
	{ "cache: files are too young to be trusted", UINT64_MAX / 2, "node", NULL, false, 1000 },
	{ "cache: another user", 0, "0", NULL, false, 0 },
	{ "cache: another file of the same length", 0, "node", "node:x:2000:1000::/:/bin/sh\n", false,
		2000 },
};
#define CACHE_PASSWD "node:x:1000:1000::/:/bin/sh\n"

static bool put_text(const struct tmpdir *t, const char *name, const char *text)
{
	int fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static void cache(void **state)
{
	const struct cache_row *row = *state;
	struct gb_user_cache c = { 0 };
	const struct gb_user *u = NULL;
	struct tmpdir t;
	char *first = NULL;
	uid_t uid = 0;
	bool made, again;
	int r = -1;

	skip_without_syscall(openat2, -1, NULL, NULL, 0);
	assert_true(tmpdir_make(&t));
	made = mkdirat(t.fd, "etc", 0755) == 0 && put_text(&t, "etc/passwd", CACHE_PASSWD) &&
		put_text(&t, "etc/group", "") &&
		gb_user_cached(&c, t.fd, "node", row->settled_ns, &u, NULL) == 0;
	first = c.user.name;
	if (made && row->passwd)
		made = put_text(&t, "etc/new", row->passwd) &&
			renameat(t.fd, "etc/new", t.fd, "etc/passwd") == 0;
	/* a mark that only the kept answer has */
	if (made) {
		first[0] = 'N';
		r = gb_user_cached(&c, t.fd, row->spec, row->settled_ns, &u, NULL);
	}
	again = r == 0 && u->name[0] == 'N';
	uid = r == 0 ? u->uid : 0;
	gb_user_cache_done(&c);
	assert_int_equal(tmpdir_remove(&t), 0);
	assert_true(made);
	assert_int_equal(r, 0);
	assert_int_equal(again, row->again);
	assert_int_equal(uid, row->uid);
}

int main(void)
{
	static struct rows_list l;

	rows_add(&l, rows, parse);
	rows_add(&l, file_rows, files);
	rows_add(&l, cache_rows, cache);
	rows_add_one(&l, "no files at all", no_files);
	rows_add_one(&l, "groups of one user are limited", too_many_groups);
	rows_add_one(&l, "size of the files is limited", too_large);
	return rows_run("guest user", &l);
}
