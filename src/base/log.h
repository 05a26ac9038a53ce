/* Logging: levels, one sink a process (the only mutable global). Off by default. */
#ifndef GB_BASE_LOG_H
#define GB_BASE_LOG_H

#include "base/err.h"

enum gb_log_level { GB_LOG_ERROR, GB_LOG_WARN, GB_LOG_INFO, GB_LOG_DEBUG };

/* Called with a whole line without newline; must not log itself. */
typedef void (*gb_log_sink)(enum gb_log_level level, const char *line, void *data);

void gb_log_set_sink(gb_log_sink sink, void *data, enum gb_log_level max);
/* A sink that writes "LEVEL: line" with a time to the descriptor in data (int *). */
void gb_log_to_fd(enum gb_log_level level, const char *line, void *data);
void gb_log(enum gb_log_level level, const char *fmt, ...) GB_PRINTF(2, 3);

#endif
