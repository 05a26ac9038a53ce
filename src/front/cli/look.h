/* A machine as far as it can be read from the store: no process and no connection. */
#ifndef GB_FRONT_CLI_LOOK_H
#define GB_FRONT_CLI_LOOK_H

#include "front/cli/cli.h"
#include "machine/store.h"

struct gb_look {
	bool damaged; /* it has no spec that can be read: why says why not */
	struct gb_machine_spec spec;
	struct gb_machine_info info;
	struct gb_err why;
};
/* A damaged machine is no failure. */
int gb_look_at(const struct gb_cli *cli, const char *name, struct gb_look *ret,
	struct gb_err *err);
void gb_look_done(struct gb_look *l);

const char *gb_look_state(const struct gb_look *l);
/* What it is made of: an image by the name that was asked for, or a file. */
const char *gb_look_image(const struct gb_machine_spec *s);
/* Everything; NULL when memory is out. */
json_t *gb_look_json(const char *name, const struct gb_look *l);

#endif
