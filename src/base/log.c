#include "base/log.h"
#include "base/clock.h"
#include "base/fd.h"

#include <stdio.h>
#include <time.h>

static struct {
	gb_log_sink sink;
	void *data;
	enum gb_log_level max;
} log_state;

void gb_log_set_sink(gb_log_sink sink, void *data, enum gb_log_level max)
{
	log_state.sink = sink;
	log_state.data = data;
	log_state.max = max;
}

void gb_log_to_fd(enum gb_log_level level, const char *line, void *data)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	time_t now = (time_t)(gb_realtime_ns() / GB_NS_SEC);
	struct tm tm;
	char stamp[32] = "";
	char text[1200];
	int n;

	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &tm);
	n = snprintf(text, sizeof(text), "%s %s: %s\n", stamp, names[level], line);
	if (n > (int)sizeof(text) - 1)
		n = (int)sizeof(text) - 1;
	gb_fd_write_full(*(int *)data, text, (size_t)n, NULL);
}

/* What a guest or peer sent may be in the line: it must not forge lines or drive a terminal. */
static void blank_controls(char *line)
{
	for (; *line; line++)
		if ((unsigned char)*line < 0x20 || *line == 0x7f)
			*line = *line == '\t' ? '\t' : '?';
}

void gb_log(enum gb_log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	if (!log_state.sink || level > log_state.max)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	blank_controls(line);
	log_state.sink(level, line, log_state.data);
}
