#include "patch/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gb_patch_report_init(struct gb_patch_report *r)
{
	memset(r, 0, sizeof(*r));
	gb_buf_init(&r->text, GB_PATCH_REPORT_MAX);
}

void gb_patch_report_done(struct gb_patch_report *r)
{
	gb_buf_done(&r->text);
}

static int fail_va(struct gb_patch_report *r, struct gb_err *err,
	enum gb_patch_fault fault, int code, const char *fmt, va_list ap)
{
	gb_auto_free char *text = NULL;

	r->fault = fault;
	r->line = 0;
	gb_buf_reset(&r->text);
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return gb_nomem(err);
	}
	gb_buf_add(&r->text, text, GB_MIN(strlen(text), GB_PATCH_REPORT_MAX));
	return gb_fail(err, code, "%s", text);
}

int gb_patch_fail(struct gb_patch_report *r, struct gb_err *err,
	enum gb_patch_fault fault, int code, const char *fmt, ...)
{
	va_list ap;
	int result;

	va_start(ap, fmt);
	result = fail_va(r, err, fault, code, fmt, ap);
	va_end(ap);
	return result;
}

int gb_patch_fail_sys(
	struct gb_patch_report *r, struct gb_err *err, int errnum, const char *fmt, ...)
{
	int code = gb_code_from_errno(errnum);
	va_list ap;

	va_start(ap, fmt);
	fail_va(r, err, GB_PATCH_IO, code, fmt, ap);
	va_end(ap);
	gb_buf_printf(&r->text, ": %s (os error %d)", strerror(errnum), errnum);
	if (err) {
		gb_fail(err, code, "%s: %s", err->msg, strerror(errnum));
		err->sys = errnum;
	}
	return code;
}

int gb_patch_fail_line(
	struct gb_patch_report *r, struct gb_err *err, size_t line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail_va(r, err, GB_PATCH_BAD_HUNK, GB_E_PARSE, fmt, ap);
	va_end(ap);
	r->line = line;
	return gb_wrap(err, GB_E_PARSE, "patch line %zu", line);
}

int gb_patch_nomem(struct gb_patch_report *r, struct gb_err *err)
{
	return gb_patch_fail(r, err, GB_PATCH_IO, GB_E_NOMEM, "out of memory");
}

void gb_patch_explain(const struct gb_patch_report *report, enum gb_patch_voice voice,
	struct gb_buf *buf)
{
	bool tool = voice == GB_PATCH_AS_TOOL;

	if (tool && report->fault != GB_PATCH_NO_HUNKS && report->fault != GB_PATCH_TORN)
		gb_buf_add_str(buf, "apply_patch verification failed: ");
	if (report->fault == GB_PATCH_BAD_PATCH)
		gb_buf_add_str(buf, tool ? "invalid patch: " : "Invalid patch: ");
	else if (report->fault == GB_PATCH_BAD_HUNK && tool)
		gb_buf_printf(buf, "invalid hunk at line %zu, ", report->line);
	else if (report->fault == GB_PATCH_BAD_HUNK)
		gb_buf_printf(buf, "Invalid patch hunk on line %zu: ", report->line);
	gb_buf_add(buf, report->text.data, report->text.len);
	if (!tool)
		gb_buf_add_byte(buf, '\n');
}
