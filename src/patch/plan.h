/* A plan: the files that a patch touches, each with what is there and what shall be. */
#ifndef GB_PATCH_PLAN_H
#define GB_PATCH_PLAN_H

#include "patch/parse.h"
#include "patch/place.h"

/* Names that a commit uses beside a file while it works. */
#define GB_PATCH_NAME_BYTES 48

struct gb_patch_file {
	struct gb_patch_place place; /* owned; a link only if it is to be removed itself */
	char *shown;		     /* owned: absolute, as the patch named it first */
	bool present;		     /* at the end */
	/* Where the bytes come from: unchanged from what a file (this or one that is
	 * renamed) has on the disk, or data if it is NULL. */
	struct gb_patch_file *origin; /* borrowed */
	struct gb_buf data;
	/* What a new file shall be like: of the file that was here, else of the one that
	 * moved here, else as the process makes files. */
	bool has_owner;
	mode_t mode;
	uid_t uid;
	gid_t gid;

	/* for the commit */
	int home;			 /* owned: the folder it is in, made if need be */
	bool moved_on;			 /* its bytes are renamed to another place */
	bool changed;			 /* as seen by others */
	char temp[GB_PATCH_NAME_BYTES];	 /* its new content, until it is renamed */
	char aside[GB_PATCH_NAME_BYTES]; /* what was there */
};

struct gb_patch_note {
	char letter;	  /* A, M, D */
	const char *path; /* borrowed from the patch */
};

struct gb_patch_plan {
	const struct gb_patch *patch; /* borrowed */
	struct gb_patch_space space;
	char *cwd; /* owned; NULL when space.cwd is the caller's */
	int root;  /* owned, holds the lock */
	int outer; /* owned: "/" when paths may leave the workspace, else -1 */
	struct gb_patch_file **files; /* owned, and what they point to */
	size_t file_count, file_cap;
	struct gb_patch_note *notes; /* owned */
	size_t note_count, note_cap;
	size_t total; /* bytes of contents that are held */
};

/* Whether something is to be done for it. */
bool gb_patch_file_changes(const struct gb_patch_file *f);
/* Its name below place.dir, folders that are to be made included. */
const char *gb_patch_file_rest(const struct gb_patch_file *f);
/* Whether what is at that path below the root goes away. */
bool gb_patch_plan_removes(const struct gb_patch_plan *plan, const char *path);

/* plan_files.c, for plan.c */
struct gb_planner {
	struct gb_patch_plan *plan;
	struct gb_patch_report *report;
	struct gb_err *err;
};

void gb_patch_file_free(struct gb_patch_file *f);
/* The file that path leads to; the link itself, if it is one, unless follow is set.
 * Borrowed from the plan. */
int gb_plan_file(
	struct gb_planner *p, const char *path, bool follow, struct gb_patch_file **ret);
/* For gb_patch_space. */
bool gb_plan_is_gone(void *ctx, const char *path);
/* Whether names in the file's folder may be made and, if it is there, taken from the
 * file; else errno says why not. */
bool gb_plan_folder_allows(const struct gb_patch_file *f);
/* The file could be written to, which a rename would not ask, and its folder can be. */
int gb_plan_check_writable(struct gb_planner *p, const struct gb_patch_file *f);
/* Count bytes of content for f that are to be held. */
int gb_plan_hold(struct gb_planner *p, const struct gb_patch_file *f, size_t bytes);
/* What the file has after the hunks so far: its own buffer, or one that is read into
 * *own. */
int gb_plan_content(struct gb_planner *p, const struct gb_patch_file *f,
	struct gb_buf *own, struct gb_span *ret);

#endif
