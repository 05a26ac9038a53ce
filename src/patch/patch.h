/* apply_patch: the file-oriented patch format that Codex-family models were trained on.
 *
 *   *** Begin Patch
 *   *** Add File: PATH            then lines that start with +
 *   *** Delete File: PATH
 *   *** Update File: PATH         then, when it is renamed: *** Move to: PATH
 *   @@ a line to go to first      (optional in the first chunk; several are gone to in
 * turn) kept, -removed, +added
 *   *** End of File               (the chunk's lines are the file's last)
 *   *** End Patch
 *
 * Four steps. Parsing is pure. Planning takes the workspace's lock, reads every file and
 * works out every new content in memory, as if the hunks were carried out in turn;
 * nothing has been written when it fails. Committing writes each content beside its
 * place, moves what goes away aside, renames everything into place, and takes all of it
 * back when one step fails.
 *
 * What the patch's text may try: name files outside of the workspace (absolute, by "..",
 * by links in the tree, also such as are swapped in meanwhile), FIFOs and devices,
 * contents without end, and searches that take for ever. Each is refused
 * (src/patch/place.h; the caps below).
 *
 * Two planners of one workspace wait for each other, in whatever processes they are: the
 * lock is an flock on the root folder. A failure is told twice: in err, cut to its size,
 * and in full in the report, in the words that models know. */
#ifndef GB_PATCH_PATCH_H
#define GB_PATCH_PATCH_H

#include "base/buf.h"

#define GB_PATCH_TEXT_MAX    ((size_t)8 << 20)	 /* bytes of a patch */
#define GB_PATCH_LINES_MAX   ((size_t)1 << 20)	 /* lines of a patch, and of an updated file */
#define GB_PATCH_HUNKS_MAX   ((size_t)256)	 /* files that a patch speaks of */
#define GB_PATCH_FILE_MAX    ((size_t)32 << 20)	 /* bytes of an updated file, old and new */
#define GB_PATCH_TOTAL_MAX   ((size_t)128 << 20) /* bytes of all contents that are held */
#define GB_PATCH_LOCK_MAX_MS UINT64_C(30000)	 /* waited for another patch */

enum gb_patch_fault {
	GB_PATCH_FINE,
	GB_PATCH_BAD_PATCH, /* malformed as a whole: markers, size */
	GB_PATCH_BAD_HUNK,  /* malformed at report.line */
	GB_PATCH_NO_HUNKS,
	GB_PATCH_MISMATCH, /* a file is not as the patch says */
	GB_PATCH_REFUSED,  /* leads outside, is no regular file, or is over a cap */
	GB_PATCH_IO,	   /* the system refused; nothing has changed */
	GB_PATCH_TORN,	   /* it refused taking back too: the text says what changed */
};

/* Why it failed, without prefix or line number; see gb_patch_explain. */
struct gb_patch_report {
	enum gb_patch_fault fault;
	size_t line; /* of the patch; the begin marker's is 1; 0 where there is none */
	struct gb_buf text;
};
void gb_patch_report_init(struct gb_patch_report *r);
void gb_patch_report_done(struct gb_patch_report *r);

struct gb_patch;

/* text is borrowed for the patch's life. GB_E_PARSE (faults BAD_PATCH, BAD_HUNK,
 * NO_HUNKS), GB_E_LIMIT, GB_E_NOMEM. */
int gb_patch_parse(const char *text, size_t len, struct gb_patch **ret,
	struct gb_patch_report *report, struct gb_err *err);
struct gb_patch *gb_patch_free(struct gb_patch *p);
GB_DEFINE_CLEANUP(gb_patch)

struct gb_patch_where {
	int root;	       /* the workspace's folder; borrowed for the plan's life */
	const char *root_path; /* its absolute path, for messages and paths below it */
	const char *cwd;       /* relative paths start there; itself relative or below root_path */
	bool allow_outside;    /* paths may leave the workspace */
};

struct gb_patch_plan;

/* Lock, read, match. The patch must outlive the plan, and the plan holds the lock until
 * it is freed. GB_E_STATE (MISMATCH), GB_E_DENIED, GB_E_INVALID, GB_E_LIMIT (REFUSED),
 * GB_E_TIMEOUT when the lock is held by another for too long, others for what the system
 * refuses. */
int gb_patch_plan(const struct gb_patch *patch, const struct gb_patch_where *where,
	struct gb_patch_plan **ret, struct gb_patch_report *report, struct gb_err *err);
/* Once for a plan. Signals that end a process are held back meanwhile. */
int gb_patch_commit(
	struct gb_patch_plan *plan, struct gb_patch_report *report, struct gb_err *err);
/* "Success. Updated the following files:" and a line for each; ends with a line end. */
void gb_patch_summary(const struct gb_patch_plan *plan, struct gb_buf *buf);
struct gb_patch_plan *gb_patch_plan_free(struct gb_patch_plan *plan);
GB_DEFINE_CLEANUP(gb_patch_plan)

enum gb_patch_voice {
	GB_PATCH_AS_TOOL,    /* what the tool answers to a model */
	GB_PATCH_AS_COMMAND, /* what the program apply_patch prints */
};
/* The failure in full, ending with a line end as command, without one as tool. */
void gb_patch_explain(const struct gb_patch_report *report, enum gb_patch_voice voice,
	struct gb_buf *buf);

/* All steps. out gets what is to be answered, whether it worked or not. */
int gb_patch_apply(const struct gb_patch_where *where, const char *text, size_t len,
	enum gb_patch_voice voice, struct gb_buf *out, struct gb_err *err);

#endif
