#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void set_message(struct gb_err *err, const char *fmt, va_list ap)
{
	/* an argument may point into the message that is being replaced */
	char text[sizeof(err->msg)];

	vsnprintf(text, sizeof(text), fmt, ap);
	memcpy(err->msg, text, sizeof(text));
}

int gb_fail(struct gb_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	err->sys = 0;
	va_start(ap, fmt);
	set_message(err, fmt, ap);
	va_end(ap);
	return code;
}

int gb_fail_sys(struct gb_err *err, int errnum, const char *fmt, ...)
{
	int code = gb_code_from_errno(errnum);
	va_list ap;
	size_t used;

	if (!err)
		return code;
	err->code = code;
	err->sys = errnum;
	va_start(ap, fmt);
	set_message(err, fmt, ap);
	va_end(ap);
	used = strlen(err->msg);
	snprintf(err->msg + used, sizeof(err->msg) - used, ": %s", strerror(errnum));
	return code;
}

int gb_wrap(struct gb_err *err, int code, const char *fmt, ...)
{
	char inner[sizeof(err->msg)];
	va_list ap;
	size_t used;

	if (!err)
		return code;
	memcpy(inner, err->msg, sizeof(inner));
	err->code = code;
	va_start(ap, fmt);
	set_message(err, fmt, ap);
	va_end(ap);
	used = strlen(err->msg);
	snprintf(err->msg + used, sizeof(err->msg) - used, ": %s", inner);
	return code;
}

int gb_nomem(struct gb_err *err)
{
	return gb_fail(err, GB_E_NOMEM, "out of memory");
}

int gb_code_from_errno(int errnum)
{
	switch (errnum) {
	case EINVAL:
	case ENAMETOOLONG:
		return GB_E_INVALID;
	case ENOENT:
	case ENOTDIR:
		return GB_E_NOTFOUND;
	case EEXIST:
		return GB_E_EXISTS;
	case EACCES:
	case EPERM:
	case EROFS:
		return GB_E_DENIED;
	case EMFILE:
	case ENFILE:
	case EFBIG:
		return GB_E_LIMIT;
	case EBUSY:
	case EAGAIN:
	case ETXTBSY:
		return GB_E_BUSY;
	case ETIMEDOUT:
		return GB_E_TIMEOUT;
	case EPIPE:
	case ECONNRESET:
	case ECONNREFUSED:
		return GB_E_CLOSED;
	case ENOMEM:
		return GB_E_NOMEM;
	case ENOSPC:
	case EDQUOT:
		return GB_E_NOSPACE;
	case ENOSYS:
	case EOPNOTSUPP:
		return GB_E_UNSUPPORTED;
	default:
		return GB_E_IO;
	}
}

const char *gb_code_text(int code)
{
	switch (code) {
#define X(name, value, text)                                                             \
	case GB_E_##name:                                                                \
		return text;
		GB_ERROR_MAP(X)
#undef X
	default:
		return "unknown error";
	}
}
