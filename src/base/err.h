/* The error object and its codes.
 *
 * Every fallible function takes a struct gb_err as its last argument and returns 0 or a
 * negative code. The error lives on the caller's stack: nothing to release, safe after fork
 * and when memory is out. It is written only on failure; NULL means "not interested".
 * Messages are lower case, without a full stop; causes are joined outward-in by ": ". */
#ifndef GB_BASE_ERR_H
#define GB_BASE_ERR_H

#include <stdarg.h>

/* Sorted by what the caller can do about it: name, value, text. */
#define GB_ERROR_MAP(X)                                                                  \
	X(INVALID, -1, "invalid argument or usage")                                      \
	X(PARSE, -2, "malformed input")                                                  \
	X(NOTFOUND, -3, "not found")                                                     \
	X(EXISTS, -4, "already exists")                                                  \
	X(DENIED, -5, "not permitted")                                                   \
	X(LIMIT, -6, "over a limit")                                                     \
	X(BUSY, -7, "in use")                                                            \
	X(TIMEOUT, -8, "timed out")                                                      \
	X(CLOSED, -9, "the other side is gone")                                          \
	X(NOMEM, -10, "out of memory")                                                   \
	X(NOSPACE, -11, "no space left")                                                 \
	X(IO, -12, "system call failed")                                                 \
	X(UNSUPPORTED, -13, "not supported here")                                        \
	X(STATE, -14, "not possible in this state")                                      \
	X(CANCELLED, -15, "cancelled")                                                   \
	X(PROTOCOL, -16, "the peer broke the protocol")

enum gb_error_code {
#define X(name, value, text) GB_E_##name = value,
	GB_ERROR_MAP(X)
#undef X
};

struct gb_err {
	int code;      /* 0 or GB_E_* */
	int sys;       /* errno behind it, 0 if none */
	char msg[512]; /* always NUL-terminated, cut if longer */
};

#define GB_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Fill err with code and message; returns code. */
int gb_fail(struct gb_err *err, int code, const char *fmt, ...) GB_PRINTF(3, 4);
/* As gb_fail with the code that errnum maps to, and ": strerror" added. */
int gb_fail_sys(struct gb_err *err, int errnum, const char *fmt, ...) GB_PRINTF(3, 4);
/* Put context in front of the message that is there; returns code. */
int gb_wrap(struct gb_err *err, int code, const char *fmt, ...) GB_PRINTF(3, 4);
/* GB_E_NOMEM. */
int gb_nomem(struct gb_err *err);
/* The code for an errno value; GB_E_IO where there is none better. */
int gb_code_from_errno(int errnum);
/* A short text for a code; never NULL. */
const char *gb_code_text(int code);

#endif
