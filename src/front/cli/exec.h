/* One command in a machine, from its options to its exit code. */
#ifndef GB_FRONT_CLI_EXEC_H
#define GB_FRONT_CLI_EXEC_H

#include "front/cli/cli.h"
#include "machine/client.h"

#define GB_EXEC_GRACE_MS UINT64_C(5000) /* between TERM and KILL after --timeout */

/* The request that the options make. Strings of argv are borrowed, env is owned. */
struct gb_cli_exec {
	struct gb_msg_exec msg;
	struct gb_strv env;
};
void gb_cli_exec_done(struct gb_cli_exec *e);

/* What standard input is, as far as passing it on goes. */
enum gb_stdin_kind { GB_STDIN_TERMINAL, GB_STDIN_STREAM, GB_STDIN_NOTHING };
enum gb_stdin_kind gb_stdin_kind(int fd);
/* -i and -t ask for it; a pipe, file or socket is always passed on. */
bool gb_stdin_is_passed(enum gb_stdin_kind kind, bool interactive, bool tty);

/* From the options; argv (NULL-terminated) is borrowed for as long as ret lives. passed: the
 * "K" entries of the configuration, taken from our environment. tty as decided. */
int gb_cli_exec_init(const struct gb_cli_args *a, char **argv, size_t argc, bool tty,
	const struct gb_strv *passed, struct gb_cli_exec *ret, struct gb_err *err);
/* Run it with our streams, terminal and signals: the exit code. Signals must have been
 * caught (gb_signals_catch). */
int gb_cli_exec_run(struct gb_client *c, const struct gb_cli_exec *e, struct gb_err *err);

#endif
