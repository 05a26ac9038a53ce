#include "patch/plan.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "patch/match.h"
#include "patch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>

#define LOCK_POLL_MS 20

struct planner {
	struct gb_patch_plan *plan;
	struct gb_patch_report *report;
	struct gb_err *err;
};

const char *gb_patch_file_rest(const struct gb_patch_file *f)
{
	return f->place.path + f->place.rest;
}

bool gb_patch_file_changes(const struct gb_patch_file *f)
{
	if (!f->present)
		return f->place.exists;
	return f->origin != f;
}

static void file_free(struct gb_patch_file *f)
{
	if (!f)
		return;
	gb_patch_place_done(&f->place);
	gb_fd_close(&f->home);
	gb_buf_done(&f->data);
	free(f->shown);
	free(f);
}

struct gb_patch_plan *gb_patch_plan_free(struct gb_patch_plan *plan)
{
	if (!plan)
		return NULL;
	for (size_t i = 0; i < plan->file_count; i++)
		file_free(plan->files[i]);
	free(plan->files);
	free(plan->notes);
	free(plan->cwd);
	gb_fd_close(&plan->root);
	gb_fd_close(&plan->outer);
	free(plan);
	return NULL;
}

static int refuse(struct planner *p, int code, const char *shown, const char *what)
{
	return gb_patch_fail(
		p->report, p->err, GB_PATCH_REFUSED, code, "%s %s", shown, what);
}

/* ------------------------------------------------------------------ files */

static struct gb_patch_file *known(const struct gb_patch_plan *plan, const char *path)
{
	for (size_t i = 0; i < plan->file_count; i++)
		if (strcmp(plan->files[i]->place.path, path) == 0)
			return plan->files[i];
	return NULL;
}

static bool is_gone(void *ctx, const char *path)
{
	const struct gb_patch_file *f = known(ctx, path);

	return f && !f->present;
}

/* Takes over place and shown, on failure too. */
static int add_file_consume(struct planner *p, struct gb_patch_place *place, char **shown,
	struct gb_patch_file **ret)
{
	struct gb_patch_plan *plan = p->plan;
	struct gb_patch_file *f = NULL;

	if (gb_grow(&plan->files, &plan->file_cap, plan->file_count + 1,
		    sizeof(struct gb_patch_file *)))
		f = calloc(1, sizeof(*f));
	if (!f) {
		gb_patch_place_done(place);
		return gb_patch_nomem(p->report, p->err);
	}
	plan->files[plan->file_count++] = f;
	f->place = *place;
	f->shown = gb_take_ptr(*shown);
	f->home = -1;
	f->present = place->exists;
	f->origin = place->exists ? f : NULL;
	f->has_owner = place->exists && !S_ISLNK(place->st.st_mode);
	f->mode = place->st.st_mode & 07777;
	f->uid = place->st.st_uid;
	f->gid = place->st.st_gid;
	*ret = f;
	return 0;
}

/* The file that path leads to; the link itself, if it is one, unless follow is set. */
static int get_file(
	struct planner *p, const char *path, bool follow, struct gb_patch_file **ret)
{
	struct gb_patch_plan *plan = p->plan;
	gb_auto_free char *shown = gb_patch_shown(&plan->space, path);
	struct gb_patch_place place = {.dir = -1};
	struct gb_patch_file *f;
	int r;

	if (!shown)
		return gb_patch_nomem(p->report, p->err);
	for (int end = 0;; end = 1) {
		r = gb_patch_locate(
			&plan->space, path, shown, end, &place, p->report, p->err);
		if (r < 0)
			return r;
		f = known(plan, place.path);
		if (end || !follow || !place.exists || !S_ISLNK(place.st.st_mode) ||
			(f && (!f->present || f->origin != f)))
			break;
		gb_patch_place_done(&place);
	}
	if (f) {
		gb_patch_place_done(&place);
		*ret = f;
		return 0;
	}
	if (place.exists && !S_ISREG(place.st.st_mode) &&
		!(S_ISLNK(place.st.st_mode) && !follow)) {
		r = refuse(p, GB_E_INVALID, shown,
			S_ISDIR(place.st.st_mode) ? "is a folder"
						  : "is not a regular file");
		gb_patch_place_done(&place);
		return r;
	}
	return add_file_consume(p, &place, &shown, ret);
}

/* The file could be written to, which a rename would not ask, and its folder can be. */
static int check_writable(struct planner *p, const struct gb_patch_file *f)
{
	bool there = f->place.exists && !S_ISLNK(f->place.st.st_mode);

	if (faccessat(f->place.dir, ".", W_OK | X_OK, AT_EACCESS) == 0 &&
		(!there || faccessat(f->place.dir, gb_patch_file_rest(f), W_OK,
				   AT_EACCESS) == 0))
		return 0;
	return gb_patch_fail_sys(
		p->report, p->err, errno, "Failed to write file %s", f->shown);
}

static int hold(struct planner *p, const struct gb_patch_file *f, size_t bytes)
{
	if (bytes > GB_PATCH_TOTAL_MAX - p->plan->total)
		return refuse(p, GB_E_LIMIT, f->shown,
			"makes the patch's contents too large: split the patch");
	p->plan->total += bytes;
	return 0;
}

static int read_all(
	struct planner *p, int fd, const struct gb_patch_file *f, struct gb_buf *ret)
{
	size_t size = (size_t)f->place.st.st_size;
	size_t got = 0;
	char *to;
	int r;

	if (f->place.st.st_size > (off_t)GB_PATCH_FILE_MAX)
		return refuse(p, GB_E_LIMIT, f->shown, "is too large");
	gb_buf_init(ret, size + 1);
	to = gb_buf_reserve(ret, size + 1);
	if (!to)
		return gb_patch_nomem(p->report, p->err);
	r = gb_fd_read_full(fd, to, size + 1, &got, p->err);
	if (r < 0)
		return gb_patch_fail_sys(p->report, p->err, errno,
			"Failed to read file to update %s", f->shown);
	if (got != size)
		return refuse(
			p, GB_E_BUSY, f->shown, "is being written to by another program");
	ret->len = got;
	return 0;
}

/* The bytes on the disk of a file that is there and regular. */
static int read_origin(
	struct planner *p, const struct gb_patch_file *f, struct gb_buf *ret)
{
	struct stat st;
	/* whatever took the place of the file that was found must not hold us up */
	gb_auto_fd fd = openat(f->place.dir, gb_patch_file_rest(f),
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return gb_patch_fail_sys(p->report, p->err, errno,
			"Failed to read file to update %s", f->shown);
	if (!S_ISREG(st.st_mode) || st.st_ino != f->place.st.st_ino ||
		st.st_dev != f->place.st.st_dev)
		return refuse(
			p, GB_E_BUSY, f->shown, "is being replaced by another program");
	return read_all(p, fd, f, ret);
}

/* What the file has after the hunks so far: its own buffer, or one that is read into
 * *own. */
static int content(struct planner *p, const struct gb_patch_file *f, struct gb_buf *own,
	struct gb_span *ret)
{
	const struct gb_buf *b = &f->data;

	if (f->origin) {
		int r = read_origin(p, f->origin, own);

		if (r < 0)
			return r;
		b = own;
	}
	*ret = (struct gb_span){b->data ? (const char *)b->data : "", b->len};
	return 0;
}

/* ------------------------------------------------------------------ hunks */

static int note(struct planner *p, char letter, const char *path)
{
	struct gb_patch_plan *plan = p->plan;

	for (size_t i = 0; i < plan->note_count; i++)
		if (plan->notes[i].letter == letter &&
			strcmp(plan->notes[i].path, path) == 0)
			return 0;
	if (!gb_grow(&plan->notes, &plan->note_cap, plan->note_count + 1,
		    sizeof(*plan->notes)))
		return gb_patch_nomem(p->report, p->err);
	plan->notes[plan->note_count++] = (struct gb_patch_note){letter, path};
	return 0;
}

/* data is taken over. */
static int set_content(struct planner *p, struct gb_patch_file *f, struct gb_buf *data)
{
	int r = check_writable(p, f);

	if (r == 0)
		r = hold(p, f, data->len);
	if (r < 0)
		return r;
	p->plan->total -= f->data.len;
	gb_buf_done(&f->data);
	f->data = *data;
	memset(data, 0, sizeof(*data));
	f->origin = NULL;
	f->present = true;
	return 0;
}

static int plan_add(struct planner *p, const struct gb_patch_hunk *h)
{
	const struct gb_patch_line *lines = p->plan->patch->lines + h->first;
	gb_auto_done(gb_buf) data = {0};
	struct gb_patch_file *f;
	int r = get_file(p, h->path, true, &f);

	if (r < 0)
		return r;
	gb_buf_init(&data, GB_PATCH_FILE_MAX);
	for (size_t i = 0; i < h->count; i++) {
		gb_buf_add(&data, lines[i].text.at, lines[i].text.len);
		gb_buf_add_byte(&data, '\n');
	}
	if (data.error)
		return gb_patch_nomem(p->report, p->err);
	r = note(p, f->present ? 'M' : 'A', h->path);
	return r < 0 ? r : set_content(p, f, &data);
}

static void set_absent(struct gb_patch_plan *plan, struct gb_patch_file *f)
{
	plan->total -= f->data.len;
	gb_buf_done(&f->data);
	f->present = false;
	f->origin = NULL;
}

static int plan_delete(struct planner *p, const struct gb_patch_hunk *h)
{
	struct gb_patch_file *f;
	int r = get_file(p, h->path, false, &f);

	if (r < 0)
		return r;
	if (!f->present) {
		gb_auto_free char *shown = gb_patch_shown(&p->plan->space, h->path);

		return gb_patch_fail_sys(p->report, p->err, ENOENT,
			"Failed to delete file %s", shown ? shown : h->path);
	}
	if (faccessat(f->place.dir, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return gb_patch_fail_sys(
			p->report, p->err, errno, "Failed to delete file %s", f->shown);
	set_absent(p->plan, f);
	return note(p, 'D', h->path);
}

static int same_content(struct planner *p, struct gb_patch_file *f, struct gb_span old,
	struct gb_buf *data)
{
	if (gb_span_eq(old, (struct gb_span){(const char *)data->data, data->len}))
		return check_writable(p, f);
	return set_content(p, f, data);
}

/* Whether a rename of what origin has on the disk gives what to shall be. */
static bool is_renamable(
	const struct gb_patch_file *origin, const struct gb_patch_file *to)
{
	struct stat st;

	return origin && fstat(to->place.dir, &st) == 0 &&
	       st.st_dev == origin->place.st.st_dev &&
	       to->mode == (origin->place.st.st_mode & 07777) &&
	       to->uid == origin->place.st.st_uid && to->gid == origin->place.st.st_gid;
}

/* from's content, which is as it shall be, becomes to's; the name that led to from goes
 * away. */
static int move_file(struct planner *p, struct gb_patch_file *from,
	struct gb_patch_file *name, struct gb_patch_file *to)
{
	gb_auto_done(gb_buf) data = {0};
	struct gb_span bytes;
	int r = 0;

	if (!to->has_owner && from->has_owner) {
		to->has_owner = true;
		to->mode = from->mode;
		to->uid = from->uid;
		to->gid = from->gid;
	}
	if (from == name && is_renamable(from->origin, to)) {
		/* whatever its size */
		r = check_writable(p, to);
		p->plan->total -= to->data.len;
		gb_buf_done(&to->data);
		to->origin = from->origin;
		to->present = true;
	} else if (from == name && !from->origin) {
		p->plan->total -= from->data.len;
		r = set_content(p, to, &from->data);
	} else {
		r = content(p, from, &data, &bytes);
		if (r == 0 && !from->origin)
			gb_buf_init(&data, GB_PATCH_FILE_MAX);
		if (r == 0 && !from->origin)
			gb_buf_add(&data, bytes.at, bytes.len);
		if (r == 0)
			r = data.error ? gb_patch_nomem(p->report, p->err)
				       : set_content(p, to, &data);
	}
	if (r == 0)
		set_absent(p->plan, name);
	return r;
}

static int rewrite_file(struct planner *p, const struct gb_patch_hunk *h,
	struct gb_patch_file *f, const char *shown)
{
	gb_auto_done(gb_buf) own = {0};
	gb_auto_done(gb_buf) data = {0};
	struct gb_span old;
	int r;

	if (!h->count)
		return 0;
	r = content(p, f, &own, &old);
	if (r == 0)
		r = gb_patch_rewrite(
			p->plan->patch, h, shown, old, &data, p->report, p->err);
	if (r < 0)
		return r;
	return same_content(p, f, old, &data);
}

static int plan_update(struct planner *p, const struct gb_patch_hunk *h)
{
	gb_auto_free char *shown = gb_patch_shown(&p->plan->space, h->path);
	struct gb_patch_file *f;
	struct gb_patch_file *name = NULL;
	struct gb_patch_file *to = NULL;
	struct gb_patch_file *to_name = NULL;
	int r = shown ? get_file(p, h->path, true, &f)
		      : gb_patch_nomem(p->report, p->err);

	if (r == 0 && !f->present)
		r = gb_patch_fail_sys(p->report, p->err, ENOENT,
			"Failed to read file to update %s", shown);
	if (r == 0)
		r = rewrite_file(p, h, f, shown);
	if (r == 0 && h->move)
		r = get_file(p, h->path, false, &name);
	if (r == 0 && h->move)
		r = get_file(p, h->move, false, &to_name);
	if (r == 0 && h->move && to_name != name)
		r = get_file(p, h->move, true, &to);
	if (r == 0 && to && to != f)
		r = move_file(p, f, name, to);
	else if (r == 0 && to)
		set_absent(p->plan, name); /* a link was moved onto what it leads to */
	return r < 0 ? r : note(p, 'M', h->move ? h->move : h->path);
}

/* No file may be where another needs a folder. */
static int check_tree(struct planner *p)
{
	const struct gb_patch_plan *plan = p->plan;

	for (size_t i = 0; i < plan->file_count; i++) {
		const struct gb_patch_file *f = plan->files[i];
		size_t len = strlen(f->place.path);

		for (size_t k = 0; f->present && k < plan->file_count; k++) {
			const struct gb_patch_file *g = plan->files[k];

			if (g->present &&
				strncmp(g->place.path, f->place.path, len) == 0 &&
				g->place.path[len] == '/')
				return gb_patch_fail_sys(p->report, p->err, ENOTDIR,
					"Failed to write file %s", g->shown);
		}
	}
	return 0;
}

static int plan_hunks(struct planner *p)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->plan->patch->hunk_count; i++) {
		const struct gb_patch_hunk *h = &p->plan->patch->hunks[i];

		r = h->kind == GB_PATCH_ADD	 ? plan_add(p, h)
		    : h->kind == GB_PATCH_DELETE ? plan_delete(p, h)
						 : plan_update(p, h);
	}
	return r < 0 ? r : check_tree(p);
}

/* ------------------------------------------------------------------ the lock */

/* flock has no deadline; what else may hold it (a person's flock(1)) is no patch and may
 * hold it for hours, so it is asked for again and again. */
static int lock_root(struct planner *p, const struct gb_patch_where *where)
{
	uint64_t deadline = gb_deadline_ms(GB_PATCH_LOCK_MAX_MS);

	p->plan->root = openat(where->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->plan->root < 0)
		return gb_patch_fail_sys(p->report, p->err, errno,
			"Failed to open the workspace %s", where->root_path);
	while (flock(p->plan->root, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return gb_patch_fail_sys(p->report, p->err, errno,
				"Failed to lock the workspace %s", where->root_path);
		if (gb_deadline_passed(deadline))
			return gb_patch_fail(p->report, p->err, GB_PATCH_IO, GB_E_TIMEOUT,
				"another program holds the lock of the workspace %s",
				where->root_path);
		poll(NULL, 0, LOCK_POLL_MS);
	}
	return 0;
}

/* Outside, the same rules hold with "/" as the workspace. */
static int make_space(struct planner *p, const struct gb_patch_where *where)
{
	struct gb_patch_plan *plan = p->plan;

	plan->space = (struct gb_patch_space){.root = plan->root,
		.root_path = where->root_path,
		.cwd = where->cwd ? where->cwd : "",
		.gone = is_gone,
		.ctx = plan};
	if (!where->allow_outside)
		return 0;
	plan->cwd = gb_patch_shown(&plan->space, ".");
	plan->outer = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!plan->cwd)
		return gb_patch_nomem(p->report, p->err);
	if (plan->outer < 0)
		return gb_patch_fail_sys(p->report, p->err, errno, "Failed to open /");
	plan->space.root = plan->outer;
	plan->space.root_path = "/";
	plan->space.cwd = plan->cwd;
	return 0;
}

int gb_patch_plan(const struct gb_patch *patch, const struct gb_patch_where *where,
	struct gb_patch_plan **ret, struct gb_patch_report *report, struct gb_err *err)
{
	gb_auto(gb_patch_plan) *plan = calloc(1, sizeof(*plan));
	struct planner p = {plan, report, err};
	int r;

	if (!plan)
		return gb_patch_nomem(report, err);
	plan->patch = patch;
	plan->root = plan->outer = -1;
	r = lock_root(&p, where);
	if (r == 0)
		r = make_space(&p, where);
	if (r == 0)
		r = plan_hunks(&p);
	if (r < 0)
		return r;
	*ret = gb_take_ptr(plan);
	return 0;
}

void gb_patch_summary(const struct gb_patch_plan *plan, struct gb_buf *buf)
{
	gb_buf_add_str(buf, "Success. Updated the following files:\n");
	for (const char *letter = "AMD"; *letter; letter++)
		for (size_t i = 0; i < plan->note_count; i++)
			if (plan->notes[i].letter == *letter)
				gb_buf_printf(
					buf, "%c %s\n", *letter, plan->notes[i].path);
}
