#include "guest/user.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FIELD_MAX 7

void gb_user_done(struct gb_user *u)
{
	free(u->groups);
	free(u->name);
	free(u->home);
	free(u->shell);
	memset(u, 0, sizeof(*u));
}

struct field {
	const char *s; /* borrowed from the text */
	size_t len;
};

/* Cuts the next line at colons: the number of fields found, at most FIELD_MAX; -1: no line. */
static int next_line(const char **text, struct field *f)
{
	const char *p = *text;
	size_t line = strcspn(p, "\n");
	const char *end = p + line;
	int n = 0;

	if (!*p)
		return -1;
	*text = *end ? end + 1 : end;
	while (n < FIELD_MAX) {
		size_t len = strcspn(p, ":\n");

		f[n].s = p;
		f[n++].len = len;
		p += len;
		if (p >= end)
			break;
		p++;
	}
	return n;
}

static bool field_is(const struct field *f, const char *s, size_t len)
{
	return f->len == len && memcmp(f->s, s, len) == 0;
}

static bool number(const char *s, size_t len, uint32_t *ret)
{
	uint64_t v = 0;

	if (len == 0 || len > 10)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	if (v > GB_USER_ID_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool set_field(char **to, const struct field *f)
{
	free(*to);
	*to = strndup(f->s, f->len);
	return *to != NULL;
}

/* 1: found, 0: not there. */
static int find_passwd(
	const char *text, const char *who, size_t len, struct gb_user *u, struct gb_err *err)
{
	struct field f[FIELD_MAX];
	uint32_t want = 0, uid, gid;
	bool by_number = number(who, len, &want);
	int n;

	while (text && (n = next_line(&text, f)) >= 0) {
		if (n < 4 || !f[0].len || !number(f[2].s, f[2].len, &uid) ||
			!number(f[3].s, f[3].len, &gid))
			continue;
		if (by_number ? uid != want : !field_is(&f[0], who, len))
			continue;
		u->uid = uid;
		u->gid = gid;
		if (!set_field(&u->name, &f[0]) || (n > 5 && !set_field(&u->home, &f[5])) ||
			(n > 6 && !set_field(&u->shell, &f[6])))
			return gb_nomem(err);
		return 1;
	}
	return 0;
}

static int find_user(
	const char *passwd, const char *who, size_t len, struct gb_user *u, struct gb_err *err)
{
	uint32_t uid;
	int r = find_passwd(passwd, who, len, u, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (number(who, len, &uid))
		u->uid = uid;
	else if (len != 4 || memcmp(who, "root", 4) != 0)
		return gb_fail(err, GB_E_NOTFOUND, "user '%.*s' is not in the guest's /etc/passwd",
			(int)GB_MIN(len, (size_t)64), who);
	u->name = strndup(who, len);
	return u->name ? 0 : gb_nomem(err);
}

static int find_group(const char *group, const char *who, gid_t *ret, struct gb_err *err)
{
	struct field f[FIELD_MAX];
	size_t len = strlen(who);
	uint32_t gid;
	int n;

	while (group && (n = next_line(&group, f)) >= 0) {
		if (n < 3 || !field_is(&f[0], who, len) || !number(f[2].s, f[2].len, &gid))
			continue;
		*ret = gid;
		return 0;
	}
	if (number(who, len, &gid)) {
		*ret = gid;
		return 0;
	}
	if (len == 4 && memcmp(who, "root", 4) == 0) {
		*ret = 0;
		return 0;
	}
	return gb_fail(
		err, GB_E_NOTFOUND, "group '%.64s' is not in the guest's /etc/group", who);
}

static bool is_member(const struct field *members, const char *name)
{
	const char *p = members->s, *end = members->s + members->len;
	size_t len = strlen(name);

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t n = (size_t)((comma ? comma : end) - p);

		if (n == len && memcmp(p, name, len) == 0)
			return true;
		p += n + 1;
	}
	return false;
}

static int add_groups(const char *group, struct gb_user *u, struct gb_err *err)
{
	struct field f[FIELD_MAX];
	size_t cap = 0;
	uint32_t gid;
	int n;

	while (group && (n = next_line(&group, f)) >= 0) {
		if (n < 4 || !number(f[2].s, f[2].len, &gid) || !is_member(&f[3], u->name))
			continue;
		if (u->group_count >= GB_USER_GROUPS_MAX)
			return gb_fail(err, GB_E_LIMIT, "user '%s' is in over %d groups", u->name,
				GB_USER_GROUPS_MAX);
		if (!gb_grow(&u->groups, &cap, u->group_count + 1, sizeof(*u->groups)))
			return gb_nomem(err);
		u->groups[u->group_count++] = gid;
	}
	return 0;
}

static int set_default(char **s, const char *value)
{
	if (*s && **s)
		return 0;
	free(*s);
	*s = strdup(value);
	return *s ? 0 : GB_E_NOMEM;
}

int gb_user_parse(const char *passwd, const char *group, const char *spec, struct gb_user *ret,
	struct gb_err *err)
{
	gb_auto_done(gb_user) u = { 0 };
	const char *colon = strchr(spec, ':');
	size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
	int r;

	if (colon && !colon[1])
		return gb_fail(err, GB_E_INVALID, "user '%.64s' has an empty group", spec);
	r = len ? find_user(passwd, spec, len, &u, err) : find_user(passwd, "root", 4, &u, err);
	if (r == 0 && colon)
		r = find_group(group, colon + 1, &u.gid, err);
	else if (r == 0)
		r = add_groups(group, &u, err);
	if (r < 0)
		return r;
	if (set_default(&u.home, u.uid ? "/" : "/root") < 0 ||
		set_default(&u.shell, "/bin/sh") < 0)
		return gb_nomem(err);
	*ret = u;
	memset(&u, 0, sizeof(u));
	return 0;
}

/* NULL in *ret when there is no such file. */
static int read_text(int root, const char *path, char **ret, struct gb_err *err)
{
	gb_auto_done(gb_buf) text = { 0 };
	gb_auto_fd fd = -1;
	struct gb_err cause;
	struct stat st;
	ssize_t n;

	/* non-blocking: it may be a FIFO */
	if (gb_open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, &fd, &cause) < 0) {
		if (cause.sys == ENOENT || cause.sys == ENOTDIR)
			return 0;
		return gb_fail_sys(err, cause.sys, "cannot open the guest's /%s", path);
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > GB_PASSWD_MAX)
		return gb_fail(err, GB_E_LIMIT,
			"the guest's /%s is not a regular file of at most %u bytes", path,
			GB_PASSWD_MAX);
	gb_buf_init(&text, (size_t)st.st_size + 2);
	if (!gb_buf_reserve(&text, (size_t)st.st_size + 1))
		return gb_nomem(err);
	while (text.len < (size_t)st.st_size) {
		n = read(fd, text.data + text.len, (size_t)st.st_size - text.len);
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read the guest's /%s", path);
		if (n == 0)
			break;
		text.len += (size_t)n;
	}
	*ret = gb_buf_take_str(&text);
	return *ret ? 0 : gb_nomem(err);
}

int gb_user_find(int root, const char *spec, struct gb_user *ret, struct gb_err *err)
{
	gb_auto_free char *passwd = NULL;
	gb_auto_free char *group = NULL;
	int r = read_text(root, "etc/passwd", &passwd, err);

	if (r == 0)
		r = read_text(root, "etc/group", &group, err);
	if (r < 0)
		return r;
	return gb_user_parse(passwd, group, spec, ret, err);
}

/* A link that leads out of the root finds nothing in the agent's own: the files are then read
 * each time. */
static void identify(int root, const char *path, uint64_t settled_ns, struct gb_user_file *ret)
{
	struct stat st;
	uint64_t changed;

	memset(ret, 0, sizeof(*ret));
	if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	changed = (uint64_t)st.st_ctim.tv_sec * GB_NS_SEC + (uint64_t)st.st_ctim.tv_nsec;
	ret->known = changed + settled_ns < gb_realtime_ns();
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->size = st.st_size;
	ret->ctime = st.st_ctim;
}

static bool same_file(const struct gb_user_file *a, const struct gb_user_file *b)
{
	return a->known && b->known && a->dev == b->dev && a->ino == b->ino &&
		a->size == b->size && a->ctime.tv_sec == b->ctime.tv_sec &&
		a->ctime.tv_nsec == b->ctime.tv_nsec;
}

void gb_user_cache_done(struct gb_user_cache *c)
{
	free(c->spec);
	gb_user_done(&c->user);
	memset(c, 0, sizeof(*c));
}

int gb_user_cached(struct gb_user_cache *c, int root, const char *spec, uint64_t settled_ns,
	const struct gb_user **ret, struct gb_err *err)
{
	struct gb_user_file passwd, group;
	int r;

	/* before they are read: a change meanwhile makes the next call read them again */
	identify(root, "etc/passwd", settled_ns, &passwd);
	identify(root, "etc/group", settled_ns, &group);
	if (!c->spec || strcmp(c->spec, spec) != 0 || !same_file(&c->passwd, &passwd) ||
		!same_file(&c->group, &group)) {
		gb_user_cache_done(c);
		r = gb_user_find(root, spec, &c->user, err);
		if (r < 0)
			return r;
		c->spec = strdup(spec);
		c->passwd = passwd;
		c->group = group;
	}
	*ret = &c->user;
	return 0;
}
