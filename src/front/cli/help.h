/* Help texts and completion scripts, made from the tables. */
#ifndef GB_FRONT_CLI_HELP_H
#define GB_FRONT_CLI_HELP_H

#include "base/buf.h"
#include "front/cli/table.h"

/* All commands, or those of a group. */
void gb_cli_help_all(struct gb_buf *out);
void gb_cli_help_group(const char *group, struct gb_buf *out);
/* One command: usage, what it does, options with defaults and examples, examples. */
void gb_cli_help_command(const struct gb_cli_command *c, struct gb_buf *out);

/* "bash", "zsh" or "fish"; false for another shell. */
bool gb_cli_completion(const char *shell, struct gb_buf *out);

#endif
