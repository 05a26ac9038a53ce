#include "base/log.h"
#include "lib/core.h"

#include <string.h>

#define SAME(name) _Static_assert((int)GLOVEBOX_E_##name == (int)GB_E_##name, #name)
#define X(name, value, text) SAME(name);
GB_ERROR_MAP(X)
#undef X
_Static_assert(sizeof(((struct glovebox_error *)0)->message) == sizeof(((struct gb_err *)0)->msg),
	"messages are as long");
_Static_assert((int)GLOVEBOX_LOG_ERROR == (int)GB_LOG_ERROR &&
		(int)GLOVEBOX_LOG_DEBUG == (int)GB_LOG_DEBUG,
	"levels");

#define MODEL_LOST "the workspace's machine is not available any more"

const char *glovebox_version(void)
{
	return GB_VERSION;
}

const char *glovebox_code_text(int code)
{
	return code == GLOVEBOX_OK ? "in order" : gb_code_text(code);
}

const char *glovebox_error_for_model(const struct glovebox_error *err)
{
	if (err->code == GLOVEBOX_E_CLOSED || err->code == GLOVEBOX_E_PROTOCOL)
		return MODEL_LOST;
	return err->message;
}

void glovebox_free(void *memory)
{
	free(memory);
}

/* The user's hook; set before the first workspace, as its text demands. */
static struct {
	glovebox_log_fn fn;
	void *ctx;
} hook;

static void pass_on(enum gb_log_level level, const char *line, void *data)
{
	(void)data;
	hook.fn(hook.ctx, (enum glovebox_log_level)level, line);
}

void glovebox_set_log(glovebox_log_fn fn, void *ctx, enum glovebox_log_level max)
{
	hook.fn = fn;
	hook.ctx = ctx;
	gb_log_set_sink(fn ? pass_on : NULL, NULL, (enum gb_log_level)max);
}

int gb_give_error(struct glovebox_error *to, const struct gb_err *from, int code)
{
	if (code < 0 && to) {
		to->code = from->code;
		to->sys = from->sys;
		memcpy(to->message, from->msg, sizeof(to->message));
	}
	return code;
}

static bool all_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

int gb_options_copy(void *ours, size_t size, const void *theirs, struct gb_err *err)
{
	size_t their_size;

	memset(ours, 0, size);
	if (!theirs)
		return 0;
	memcpy(&their_size, theirs, sizeof(their_size));
	if (their_size < sizeof(their_size))
		return gb_fail(err, GB_E_INVALID, "the size of the options is not set");
	if (their_size > size && !all_zero((const uint8_t *)theirs + size, their_size - size))
		return gb_fail(err, GB_E_UNSUPPORTED,
			"an option that version %s of the library does not know", GB_VERSION);
	memcpy(ours, theirs, GB_MIN(size, their_size));
	memcpy(ours, &size, sizeof(size));
	return 0;
}

int gb_result_copy(void *theirs, size_t size, const void *ours, struct gb_err *err)
{
	size_t their_size;

	memcpy(&their_size, theirs, sizeof(their_size));
	if (their_size < sizeof(their_size))
		return gb_fail(err, GB_E_INVALID, "the size of the result is not set");
	memset((uint8_t *)theirs + sizeof(size), 0, their_size - sizeof(size));
	memcpy((uint8_t *)theirs + sizeof(size), (const uint8_t *)ours + sizeof(size),
		GB_MIN(size, their_size) - sizeof(size));
	return 0;
}
