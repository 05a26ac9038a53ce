/* The command line against the tables. Pure: looks at nothing but argv. */
#ifndef GB_FRONT_CLI_ARGS_H
#define GB_FRONT_CLI_ARGS_H

#include "base/err.h"
#include "front/cli/table.h"

struct gb_cli_seen {
	enum gb_cli_option_id id;
	const char *value; /* borrowed from argv; "" for a flag */
};

struct gb_cli_args {
	const struct gb_cli_command *command; /* NULL: none was named */
	const char *group;                    /* borrowed; a group without its command */
	bool help;
	struct gb_cli_seen *seen; /* owned: options in the order they were given */
	size_t seen_count;
	char **operands; /* owned vector of borrowed words, NULL-terminated */
	size_t operand_count;
};
void gb_cli_args_done(struct gb_cli_args *a);

/* ret is initialised here; gb_cli_args_done is fine after a failure too, and ret->command
 * and ret->group tell then how far it came. GB_E_INVALID says what is wrong, with the
 * nearest name. With help set nothing else is checked. */
int gb_cli_parse(int argc, char **argv, struct gb_cli_args *ret, struct gb_err *err);

bool gb_cli_given(const struct gb_cli_args *a, enum gb_cli_option_id id);
/* The last value given, NULL when there is none. */
const char *gb_cli_value(const struct gb_cli_args *a, enum gb_cli_option_id id);

#endif
