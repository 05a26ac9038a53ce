/* Which machine a command means, and what it is like when it is created. */
#ifndef GB_FRONT_CLI_TARGET_H
#define GB_FRONT_CLI_TARGET_H

#include "front/cli/cli.h"
#include "front/cli/images.h"
#include "machine/make.h"

/* The name of the machine that belongs to the current directory; owned. */
int gb_target_here(const struct gb_cli *cli, char **ret, struct gb_err *err);

/* Create the machine from the configuration (which has the options on top). */
int gb_target_create(const struct gb_cli *cli, const struct gb_config *c, const char *name,
	bool ephemeral, struct gb_err *err);
/* Load the machine, creating it when it is not there. For an existing one the options of
 * its shape must agree with it: GB_E_STATE names the first that does not. */
int gb_target_ensure(const struct gb_cli *cli, const struct gb_config *c, const char *name,
	struct gb_machine_spec *ret, struct gb_err *err);

/* The pure parts. */

/* What a new machine is like; image may be NULL (spec.root is used then). */
int gb_target_spec(const struct gb_cli *cli, const struct gb_config *c, const char *name,
	const struct gb_image *image, struct gb_machine_spec *ret, struct gb_err *err);
/* 0 when all options of the command agree with the machine. image: the digest that --image
 * means, "" when it is none that exists; NULL when it was not given. */
int gb_target_agree(const struct gb_cli *cli, const struct gb_config *c,
	const struct gb_machine_spec *s, const char *image, struct gb_err *err);

#endif
