/* debootstrap:SUITE[?include=a,b&variant=minbase] by mmdebstrap, whose tar stream we
 * read. The texts come from the command line and go into an argument vector: they are
 * held to what such names can be, so that none can pass for an option. */
#include "image/import_feed.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define SUITE_MAX	64		    /* bytes of a suite or a variant */
#define INCLUDE_MAX	8192		    /* bytes of the list of packages */
#define SOURCES_MAX	((size_t)256 << 10) /* of one file of apt's */
#define SOURCES_FILES	64
#define APT_LIST	"/etc/apt/sources.list"
#define APT_LIST_FOLDER "/etc/apt/sources.list.d"

struct recipe {
	char suite[SUITE_MAX + 1];
	char variant[SUITE_MAX + 1];
	char include[INCLUDE_MAX + 1];
};

static const char *const variants[] = {"minbase", "apt", "essential", "buildd",
	"important", "debootstrap", "standard", NULL};

static int copy_word(char *to, size_t max, const char *from, size_t len,
	const char *allowed, const char *what, struct gb_err *err)
{
	if (len == 0 || len > max || *from == '-' || strspn(from, allowed) < len)
		return gb_fail(err, GB_E_INVALID, "debootstrap: bad %s '%.*s'", what,
			(int)GB_MIN(len, (size_t)100), from);
	memcpy(to, from, len);
	to[len] = 0;
	return 0;
}

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"

static int parse_option(
	struct recipe *r, const char *text, size_t len, struct gb_err *err)
{
	const char *value = memchr(text, '=', len);
	size_t key = value ? (size_t)(value - text) : len;
	size_t rest = value ? len - key - 1 : 0;

	value = value ? value + 1 : "";
	if (key == 7 && memcmp(text, "include", 7) == 0)
		return copy_word(r->include, INCLUDE_MAX, value, rest, WORD "+,:~_",
			"include", err);
	if (key == 7 && memcmp(text, "variant", 7) == 0) {
		int e = copy_word(
			r->variant, SUITE_MAX, value, rest, WORD, "variant", err);

		for (size_t i = 0; e == 0 && variants[i]; i++)
			if (gb_streq(r->variant, variants[i]))
				return 0;
		return e < 0 ? e
			     : gb_fail(err, GB_E_INVALID,
				       "debootstrap: no variant '%s': minbase, apt, "
				       "essential, "
				       "buildd, important and standard are known",
				       r->variant);
	}
	return gb_fail(err, GB_E_INVALID,
		"debootstrap: no option '%.*s': 'include' and 'variant' are known",
		(int)GB_MIN(key, (size_t)100), text);
}

static int parse_recipe(const char *what, struct recipe *r, struct gb_err *err)
{
	size_t suite = strcspn(what, "?");
	const char *p = what + suite;
	int e = copy_word(r->suite, SUITE_MAX, what, suite, WORD, "suite", err);

	memcpy(r->variant, "minbase", sizeof("minbase"));
	r->include[0] = 0;
	while (e == 0 && *p) {
		size_t len = strcspn(++p, "&");

		e = parse_option(r, p, len, err);
		p += len;
	}
	return e;
}

/* Whether a file of apt's names the suite as a word of a line that counts. */
static bool mentions(const char *path, const char *suite)
{
	gb_auto_done(gb_buf) text = {0};
	char *line;
	char *next;

	if (gb_file_read(AT_FDCWD, path, SOURCES_MAX, &text, NULL) < 0)
		return false;
	for (line = (char *)text.data; *line; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		line[len] = 0;
		if (*line == '#')
			continue;
		for (char *w = line; *w;) {
			size_t word = strcspn(w, " \t");

			if (word == strlen(suite) && memcmp(w, suite, word) == 0)
				return true;
			w += word + strspn(w + word, " \t");
		}
	}
	return false;
}

static bool is_sources(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (gb_streq(dot, ".list") || gb_streq(dot, ".sources"));
}

/* The host's own sources for the suite and what belongs to it (SUITE-updates,
 * SUITE-security), as files; none: mmdebstrap knows Debian's. */
static int add_sources(struct gb_strv *argv, const char *suite, struct gb_err *err)
{
	static const char *const parts[] = {"", "-updates", "-security"};
	DIR *d = opendir(APT_LIST_FOLDER);
	struct dirent *e;
	gb_auto_done(gb_strv) files = {0};
	bool found = false;

	gb_strv_add(&files, APT_LIST);
	while (d && (e = readdir(d)) && files.n < SOURCES_FILES)
		if (is_sources(e->d_name))
			gb_strv_addf(&files, APT_LIST_FOLDER "/%s", e->d_name);
	if (d)
		closedir(d);
	if (gb_strv_check(&files, "sources", err) < 0)
		return GB_E_NOMEM;
	for (size_t i = 0; i < files.n && !found; i++)
		found = mentions(files.v[i], suite);
	for (size_t i = 0; i < files.n && found; i++)
		for (size_t k = 0; k < GB_ARRAY_SIZE(parts); k++) {
			char name[SUITE_MAX + 16];

			snprintf(name, sizeof(name), "%s%s", suite, parts[k]);
			if (mentions(files.v[i], name)) {
				gb_strv_add(argv, files.v[i]);
				break;
			}
		}
	return 0;
}

static int make_argv(const struct recipe *r, struct gb_strv *argv, struct gb_err *err)
{
	int e;

	gb_strv_add(argv, "mmdebstrap");
	gb_strv_add(argv, "--format=tar");
	gb_strv_addf(argv, "--variant=%s", r->variant);
	if (r->include[0])
		gb_strv_addf(argv, "--include=%s", r->include);
	gb_strv_add(argv, r->suite);
	gb_strv_add(argv, "-");
	e = add_sources(argv, r->suite, err);
	return e < 0 ? e : gb_strv_check(argv, "mmdebstrap's arguments", err);
}

/* In a session of its own: Ctrl-C reaches us, and we end it in order. It is not killed
 * when we die: it then fails at writing to us and cleans up, which SIGKILL would prevent.
 */
static int start(struct gb_feed *f, char *const *argv, struct gb_err *err)
{
	int out[2];
	int msg[2];
	struct gb_fd_map fds[2];
	struct gb_spawn s = {
		.argv = argv, .fds = fds, .fd_count = 2, .new_session = true};
	int r;

	if (pipe2(out, O_CLOEXEC) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	f->data = out[0];
	if (pipe2(msg, O_CLOEXEC) < 0) {
		close(out[1]);
		return gb_fail_sys(err, errno, "cannot make a pipe");
	}
	f->messages = msg[0];
	fds[0] = (struct gb_fd_map){.from = out[1], .to = 1};
	fds[1] = (struct gb_fd_map){.from = msg[1], .to = 2};
	r = gb_spawn(&s, &f->child, err);
	close(out[1]);
	close(msg[1]);
	return r;
}

int gb_feed_debootstrap(struct gb_feed *f, const char *what, struct gb_err *err)
{
	gb_auto_done(gb_strv) argv = {0};
	struct gb_err why = {0};
	struct recipe recipe;
	int r = parse_recipe(what, &recipe, err);

	if (r == 0)
		r = make_argv(&recipe, &argv, err);
	if (r < 0)
		return r;
	r = start(f, argv.v, &why);
	if (r == GB_E_NOTFOUND)
		return gb_fail(err, r,
			"mmdebstrap is not installed: install the package 'mmdebstrap', "
			"or import "
			"a root file system with 'tar:FILE' or 'rootfs:DIR'");
	if (r < 0 && err)
		*err = why;
	return r;
}
