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

struct gb_patch_plan *gb_patch_plan_free(struct gb_patch_plan *plan)
{
	if (!plan)
		return NULL;
	for (size_t i = 0; i < plan->file_count; i++)
		gb_patch_file_free(plan->files[i]);
	free(plan->files);
	free(plan->notes);
	free(plan->cwd);
	gb_fd_close(&plan->root);
	gb_fd_close(&plan->outer);
	free(plan);
	return NULL;
}

/* ------------------------------------------------------------------ hunks */

static int note(struct gb_planner *p, char letter, const char *path)
{
	struct gb_patch_plan *plan = p->plan;

	for (size_t i = 0; i < plan->note_count; i++)
		if (plan->notes[i].letter == letter &&
			strcmp(plan->notes[i].path, path) == 0)
			return 0;
	if (!gb_grow(&plan->notes, &plan->note_cap, plan->note_count + 1,
		    sizeof(*plan->notes)))
		return gb_patch_nomem(p->report, p->err);
	plan->notes[plan->note_count++] = (struct gb_patch_note){ letter, path };
	return 0;
}

/* data is taken over. */
static int set_content(struct gb_planner *p, struct gb_patch_file *f, struct gb_buf *data)
{
	int r = gb_plan_check_writable(p, f);

	if (r == 0)
		r = gb_plan_hold(p, f, data->len);
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

static int plan_add(struct gb_planner *p, const struct gb_patch_hunk *h)
{
	const struct gb_patch_line *lines = p->plan->patch->lines + h->first;
	gb_auto_done(gb_buf) data = { 0 };
	struct gb_patch_file *f;
	int r = gb_plan_file(p, h->path, true, &f);

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

static int plan_delete(struct gb_planner *p, const struct gb_patch_hunk *h)
{
	struct gb_patch_file *f;
	int r = gb_plan_file(p, h->path, false, &f);

	if (r < 0)
		return r;
	if (!f->present) {
		gb_auto_free char *shown = gb_patch_shown(&p->plan->space, h->path);

		return gb_patch_fail_sys(p->report, p->err, ENOENT,
			"Failed to delete file %s", shown ? shown : h->path);
	}
	if (!gb_plan_folder_allows(f))
		return gb_patch_fail_sys(
			p->report, p->err, errno, "Failed to delete file %s", f->shown);
	set_absent(p->plan, f);
	return note(p, 'D', h->path);
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

/* What f's content becomes by the hunk's chunks; *changed is whether that is something
 * else. */
static int new_content(struct gb_planner *p, const struct gb_patch_hunk *h,
	const struct gb_patch_file *f, const char *shown, struct gb_buf *ret,
	bool *changed)
{
	gb_auto_done(gb_buf) own = { 0 };
	struct gb_span old;
	int r = gb_plan_content(p, f, &own, &old);

	if (r == 0)
		r = gb_patch_rewrite(
			p->plan->patch, h, shown, old, ret, p->report, p->err);
	if (r == 0)
		*changed = !gb_span_eq(
			old, (struct gb_span){ (const char *)ret->data, ret->len });
	return r;
}

static int update_in_place(struct gb_planner *p, const struct gb_patch_hunk *h,
	struct gb_patch_file *f, const char *shown)
{
	gb_auto_done(gb_buf) data = { 0 };
	bool changed;
	int r = h->count ? new_content(p, h, f, shown, &data, &changed) : 0;

	if (r < 0 || !h->count)
		return r;
	return changed ? set_content(p, f, &data) : gb_plan_check_writable(p, f);
}

static void set_renamed(
	struct gb_patch_plan *plan, struct gb_patch_file *from, struct gb_patch_file *to)
{
	plan->total -= to->data.len;
	gb_buf_done(&to->data);
	to->origin = from->origin;
	to->present = true;
}

/* The new content of from becomes that of to; name, which led to from, goes away. */
static int move_file(struct gb_planner *p, const struct gb_patch_hunk *h,
	struct gb_patch_file *from, struct gb_patch_file *name, struct gb_patch_file *to,
	const char *shown)
{
	gb_auto_done(gb_buf) data = { 0 };
	bool changed;
	int r;

	if (!to->has_owner && from->has_owner) {
		to->has_owner = true;
		to->mode = from->mode;
		to->uid = from->uid;
		to->gid = from->gid;
	}
	if (!h->count && from == name && is_renamable(from->origin, to)) {
		/* whatever its size */
		r = gb_plan_check_writable(p, to);
		if (r == 0)
			set_renamed(p->plan, from, to);
	} else {
		r = new_content(p, h, from, shown, &data, &changed);
		if (r == 0)
			r = set_content(p, to, &data);
	}
	if (r == 0)
		set_absent(p->plan, name);
	return r;
}

/* to and name as for move_file; to is NULL when the file stays where it is. */
static int find_move(struct gb_planner *p, const struct gb_patch_hunk *h,
	struct gb_patch_file **name, struct gb_patch_file **to)
{
	struct gb_patch_file *to_name = NULL;
	int r;

	*to = NULL;
	if (!h->move)
		return 0;
	r = gb_plan_file(p, h->path, false, name);
	if (r == 0)
		r = gb_plan_file(p, h->move, false, &to_name);
	if (r == 0 && to_name != *name)
		r = gb_plan_file(p, h->move, true, to);
	return r;
}

static int plan_update(struct gb_planner *p, const struct gb_patch_hunk *h)
{
	gb_auto_free char *shown = gb_patch_shown(&p->plan->space, h->path);
	struct gb_patch_file *f;
	struct gb_patch_file *name;
	struct gb_patch_file *to;
	int r = shown ? gb_plan_file(p, h->path, true, &f)
		      : gb_patch_nomem(p->report, p->err);

	if (r == 0 && !f->present)
		r = gb_patch_fail_sys(p->report, p->err, ENOENT,
			"Failed to read file to update %s", shown);
	if (r == 0)
		r = find_move(p, h, &name, &to);
	if (r == 0)
		r = to && to != f ? move_file(p, h, f, name, to, shown)
				  : update_in_place(p, h, f, shown);
	/* a link was moved onto what it leads to */
	if (r == 0 && to == f && name != f)
		set_absent(p->plan, name);
	return r < 0 ? r : note(p, 'M', h->move ? h->move : h->path);
}

/* No file may be where another needs a folder. */
static int check_tree(struct gb_planner *p)
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

static int plan_hunks(struct gb_planner *p)
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
static int lock_root(struct gb_planner *p, const struct gb_patch_where *where)
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
static int make_space(struct gb_planner *p, const struct gb_patch_where *where)
{
	struct gb_patch_plan *plan = p->plan;

	plan->space = (struct gb_patch_space){ .root = plan->root,
		.root_path = where->root_path,
		.cwd = where->cwd ? where->cwd : "",
		.gone = gb_plan_is_gone,
		.ctx = plan };
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
	struct gb_planner p = { plan, report, err };
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
