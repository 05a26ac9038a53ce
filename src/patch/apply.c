#include "patch/patch.h"
#include "patch/report.h"

static int apply(const struct gb_patch_where *where, const char *text, size_t len,
	struct gb_buf *out, struct gb_patch_report *report, struct gb_err *err)
{
	gb_auto(gb_patch) *patch = NULL;
	gb_auto(gb_patch_plan) *plan = NULL;
	int r = gb_patch_parse(text, len, &patch, report, err);

	if (r == 0)
		r = gb_patch_plan(patch, where, &plan, report, err);
	if (r == 0)
		r = gb_patch_commit(plan, report, err);
	if (r == 0)
		gb_patch_summary(plan, out);
	return r;
}

int gb_patch_apply(const struct gb_patch_where *where, const char *text, size_t len,
	enum gb_patch_voice voice, struct gb_buf *out, struct gb_err *err)
{
	gb_auto_done(gb_patch_report) report = { 0 };
	int r;

	gb_patch_report_init(&report);
	r = apply(where, text, len, out, &report, err);
	if (r < 0)
		gb_patch_explain(&report, voice, out);
	return r;
}
