/* Which modules a guest needs, in the order in which they can be loaded.
 *
 * modules.dep (or modules.order, when depmod never ran) says where each module is; what a
 * module depends on is read from the module itself ("depends=", "softdep=pre:" in its
 * .modinfo), so that both kinds of folder give the same answer. */
#include "vmm/bundle_parts.h"
#include "vmm/boot_key.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define INDEX_MAX	((size_t)16 << 20) /* modules.dep, modules.builtin */
#define MODULE_NAME_MAX 128		   /* of a module */
#define DEPTH_MAX	32		   /* a loop among dependencies ends here */
#define SOFTDEP		"softdep="
#define DEPENDS		"depends="
#define VERMAGIC	"vermagic="

/* A file with a path a line; "path:" and what follows is cut. */
struct index {
	struct gb_buf text;
};

struct collector {
	const char *folder;
	const char *release;
	struct index files;
	struct index builtin;
	struct gb_module_list list;
};

static void index_done(struct index *i)
{
	gb_buf_done(&i->text);
}

static void collector_done(struct collector *c)
{
	index_done(&c->files);
	index_done(&c->builtin);
	gb_module_list_done(&c->list);
}

void gb_module_list_done(struct gb_module_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		gb_buf_done(&l->v[i].data);
	}
	free(l->v);
	memset(l, 0, sizeof(*l));
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_';
}

/* The module's name of a path such as "kernel/fs/ext4/ext4.ko.xz". */
static bool name_of_path(const char *path, size_t len, char ret[MODULE_NAME_MAX])
{
	size_t start = len;
	size_t n = 0;

	while (start > 0 && path[start - 1] != '/')
		start--;
	for (size_t i = start; i < len && path[i] != '.'; i++) {
		char c = path[i] == '-' ? '_' : path[i];

		if (!is_name_char(c) || n + 1 >= MODULE_NAME_MAX)
			return false;
		ret[n++] = c;
	}
	ret[n] = 0;
	return n > 0 && start + n + 3 <= len && memcmp(path + start + n, ".ko", 3) == 0;
}

/* The path (not terminated) of that module in an index; NULL when it is not there. */
static const char *find_path(const struct index *index, const char *name, size_t *ret_len)
{
	const char *at = (const char *)index->text.data;
	const char *end = at + index->text.len;
	char found[MODULE_NAME_MAX];

	while (at && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t line = (size_t)((newline ? newline : end) - at);
		const char *colon = memchr(at, ':', line);
		size_t len = colon ? (size_t)(colon - at) : line;

		if (name_of_path(at, len, found) && gb_streq(found, name)) {
			*ret_len = len;
			return at;
		}
		at += line + 1;
	}
	return NULL;
}

static bool collected(const struct collector *c, const char *name)
{
	for (size_t i = 0; i < c->list.n; i++)
		if (gb_streq(c->list.v[i].name, name))
			return true;
	return false;
}

/* An index made for a package names "x.ko" where the file is "x.ko.xz". */
static int read_module_file(const char *folder, const char *path, size_t len,
	struct gb_buf *ret, struct gb_err *err)
{
	static const char *const endings[] = {"", ".xz", ".zst", ".gz"};

	for (size_t i = 0; i < GB_ARRAY_SIZE(endings); i++) {
		gb_auto_free char *full = NULL;

		if (asprintf(&full, "%s/%.*s%s", folder, (int)len, path, endings[i]) <
			0) {
			full = NULL;
			return gb_nomem(err);
		}
		if (access(full, F_OK) == 0)
			return gb_file_read(AT_FDCWD, full, GB_MODULE_MAX, ret, err);
	}
	return gb_fail(
		err, GB_E_NOTFOUND, "'%s/%.*s' does not exist", folder, (int)len, path);
}

static int read_module(const char *folder, const char *path, size_t len,
	struct gb_buf *ret, struct gb_err *err)
{
	gb_auto_done(gb_buf) packed = {0};
	int r = read_module_file(folder, path, len, &packed, err);

	if (r < 0)
		return r;
	if (!gb_elf_valid(packed.data, packed.len))
		return gb_unpack(packed.data, packed.len, GB_MODULE_MAX, ret, err);
	*ret = packed;
	memset(&packed, 0, sizeof(packed));
	return 0;
}

static int add_module(struct collector *c, const char *name, int depth, bool optional,
	struct gb_err *err);

/* Every name in a list that is parted by commas or spaces. */
static int add_names(struct collector *c, const char *list, size_t len, int depth,
	bool optional, struct gb_err *err)
{
	size_t at = 0;
	int r = 0;

	while (r == 0 && at < len) {
		char name[MODULE_NAME_MAX];
		size_t n = 0;

		while (at < len && (list[at] == ',' || list[at] == ' '))
			at++;
		while (at < len && list[at] != ',' && list[at] != ' ' &&
			n + 1 < sizeof(name)) {
			name[n++] = list[at] == '-' ? '_' : list[at];
			at++;
		}
		name[n] = 0;
		if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_") != n)
			return gb_fail(
				err, GB_E_PARSE, "odd name among its dependencies");
		if (n)
			r = add_module(c, name, depth, optional, err);
	}
	return r;
}

/* "pre: a b post: c": what comes before it. The names may be aliases that no file bears;
 * those are the kernel's to find, and built in as often as not. */
static int add_softdep(
	struct collector *c, const char *text, size_t len, int depth, struct gb_err *err)
{
	const char *pre = memmem(text, len, "pre:", 4);
	const char *post;
	size_t left;

	if (!pre)
		return 0;
	pre += 4;
	left = len - (size_t)(pre - text);
	post = memmem(pre, left, "post:", 5);
	return add_names(c, pre, post ? (size_t)(post - pre) : left, depth, true, err);
}

static int check_release(
	const struct collector *c, const char *magic, size_t len, struct gb_err *err)
{
	size_t n = strlen(c->release);

	if (len >= n && memcmp(magic, c->release, n) == 0 &&
		(len == n || magic[n] == ' '))
		return 0;
	return gb_fail(err, GB_E_INVALID, "it was built for kernel '%.*s', not '%s'",
		(int)strcspn(magic, " "), magic, c->release);
}

static bool cut_prefix(const char **s, size_t *len, const char *prefix)
{
	size_t n = strlen(prefix);

	if (*len < n || memcmp(*s, prefix, n) != 0)
		return false;
	*s += n;
	*len -= n;
	return true;
}

/* .modinfo is "name=value" strings, each with its NUL. */
static int add_dependencies(
	struct collector *c, const struct gb_buf *module, int depth, struct gb_err *err)
{
	const uint8_t *info;
	size_t left;
	int r = gb_elf_section(module->data, module->len, ".modinfo", &info, &left, err);

	while (r == 0 && left > 0) {
		const uint8_t *end = memchr(info, 0, left);
		const char *s = (const char *)info;
		size_t len;

		if (!end)
			return gb_fail(err, GB_E_PARSE, "damaged .modinfo");
		len = (size_t)(end - info);
		info = end + 1;
		left -= len + 1;
		if (cut_prefix(&s, &len, DEPENDS))
			r = add_names(c, s, len, depth, false, err);
		else if (cut_prefix(&s, &len, SOFTDEP))
			r = add_softdep(c, s, len, depth, err);
		else if (cut_prefix(&s, &len, VERMAGIC))
			r = check_release(c, s, len, err);
	}
	return r;
}

static int append(struct collector *c, const char *name, struct gb_buf *data_consume,
	struct gb_err *err)
{
	struct gb_module_list *l = &c->list;
	char *copy;

	if (l->n >= GB_MODULES_MAX)
		return gb_fail(err, GB_E_LIMIT, "over %d modules", GB_MODULES_MAX);
	copy = strdup(name);
	if (!copy || !gb_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v))) {
		free(copy);
		return gb_nomem(err);
	}
	l->v[l->n++] = (struct gb_module){.name = copy, .data = *data_consume};
	memset(data_consume, 0, sizeof(*data_consume));
	return 0;
}

static int add_module(struct collector *c, const char *name, int depth, bool optional,
	struct gb_err *err)
{
	gb_auto_done(gb_buf) data = {0};
	size_t len = 0;
	const char *path;
	int r;

	if (collected(c, name) || find_path(&c->builtin, name, &len))
		return 0;
	if (depth > DEPTH_MAX)
		return gb_fail(err, GB_E_LIMIT,
			"dependencies of module '%s' go in a circle", name);
	path = find_path(&c->files, name, &len);
	if (!path && optional)
		return 0;
	if (!path)
		return gb_fail(err, GB_E_NOTFOUND,
			"the kernel has no module '%s', and it is not built in: use "
			"another "
			"kernel",
			name);
	r = read_module(c->folder, path, len, &data, err);
	if (r == 0)
		r = add_dependencies(c, &data, depth + 1, err);
	if (r == 0)
		r = append(c, name, &data, err);
	/* going round in a circle is said once, not at every turn */
	return r < 0 && r != GB_E_LIMIT ? gb_wrap(err, r, "module '%s'", name) : r;
}

static int read_indexes(struct collector *c, struct gb_err *err)
{
	gb_auto_free char *files = NULL;
	gb_auto_free char *builtin = gb_path_join(c->folder, "modules.builtin");
	int r;

	if (!builtin)
		return gb_nomem(err);
	r = gb_modules_index_path(c->folder, &files, err);
	if (r == 0)
		r = gb_file_read(AT_FDCWD, files, INDEX_MAX, &c->files.text, err);
	if (r == 0)
		r = gb_file_read(AT_FDCWD, builtin, INDEX_MAX, &c->builtin.text, err);
	return r;
}

int gb_modules_collect(const char *folder, const char *release,
	const struct gb_module_want *want, size_t count, struct gb_module_list *ret,
	struct gb_err *err)
{
	gb_auto_done(collector) c = {.folder = folder, .release = release};
	int r = read_indexes(&c, err);

	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_module(&c, want[i].name, 0, want[i].optional, err);
	if (r < 0)
		return r;
	*ret = c.list;
	memset(&c.list, 0, sizeof(c.list));
	return 0;
}
