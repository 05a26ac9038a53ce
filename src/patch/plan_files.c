#include "patch/plan.h"
#include "base/fd.h"
#include "patch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

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

void gb_patch_file_free(struct gb_patch_file *f)
{
	if (!f)
		return;
	gb_patch_place_done(&f->place);
	gb_fd_close(&f->home);
	gb_buf_done(&f->data);
	free(f->shown);
	free(f);
}

static int refuse(struct gb_planner *p, int code, const char *shown, const char *what)
{
	return gb_patch_fail(
		p->report, p->err, GB_PATCH_REFUSED, code, "%s %s", shown, what);
}

static struct gb_patch_file *known(const struct gb_patch_plan *plan, const char *path)
{
	for (size_t i = 0; i < plan->file_count; i++)
		if (strcmp(plan->files[i]->place.path, path) == 0)
			return plan->files[i];
	return NULL;
}

bool gb_patch_plan_removes(const struct gb_patch_plan *plan, const char *path)
{
	const struct gb_patch_file *f = known(plan, path);

	return f && !f->present;
}

bool gb_plan_is_gone(void *ctx, const char *path)
{
	return gb_patch_plan_removes(ctx, path);
}

/* Takes over place and shown, on failure too. */
static int add_file_consume(struct gb_planner *p, struct gb_patch_place *place,
	char **shown, struct gb_patch_file **ret)
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

int gb_plan_file(
	struct gb_planner *p, const char *path, bool follow, struct gb_patch_file **ret)
{
	struct gb_patch_plan *plan = p->plan;
	gb_auto_free char *shown = gb_patch_shown(&plan->space, path);
	struct gb_patch_place place = { .dir = -1 };
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

/* Whether names in the file's folder may be made and, if it is there, taken from the
 * file. */
bool gb_plan_folder_allows(const struct gb_patch_file *f)
{
	struct stat st;

	if (faccessat(f->place.dir, ".", W_OK | X_OK, AT_EACCESS) < 0 ||
		fstat(f->place.dir, &st) < 0)
		return false;
	/* in a sticky folder a link could be made to another's file, and never be removed
	 */
	errno = EPERM;
	return !f->place.exists || !(st.st_mode & S_ISVTX) || geteuid() == 0 ||
	       st.st_uid == geteuid() || f->place.st.st_uid == geteuid();
}

int gb_plan_check_writable(struct gb_planner *p, const struct gb_patch_file *f)
{
	bool there = f->place.exists && !S_ISLNK(f->place.st.st_mode);

	if (gb_plan_folder_allows(f) &&
		(!there || faccessat(f->place.dir, gb_patch_file_rest(f), W_OK,
				   AT_EACCESS) == 0))
		return 0;
	return gb_patch_fail_sys(
		p->report, p->err, errno, "Failed to write file %s", f->shown);
}

int gb_plan_hold(struct gb_planner *p, const struct gb_patch_file *f, size_t bytes)
{
	if (bytes > GB_PATCH_TOTAL_MAX - p->plan->total)
		return refuse(p, GB_E_LIMIT, f->shown,
			"makes the patch's contents too large: split the patch");
	p->plan->total += bytes;
	return 0;
}

static int read_all(
	struct gb_planner *p, int fd, const struct gb_patch_file *f, struct gb_buf *ret)
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
	struct gb_planner *p, const struct gb_patch_file *f, struct gb_buf *ret)
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
int gb_plan_content(struct gb_planner *p, const struct gb_patch_file *f,
	struct gb_buf *own, struct gb_span *ret)
{
	const struct gb_buf *b = &f->data;

	if (f->origin) {
		int r = read_origin(p, f->origin, own);

		if (r < 0)
			return r;
		b = own;
	}
	*ret = (struct gb_span){ b->data ? (const char *)b->data : "", b->len };
	return 0;
}
