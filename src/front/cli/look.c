#include "front/cli/look.h"

#include <string.h>

void gb_look_done(struct gb_look *l)
{
	gb_machine_spec_done(&l->spec);
	gb_machine_info_done(&l->info);
}

int gb_look_at(const struct gb_cli *cli, const char *name, struct gb_look *ret,
	struct gb_err *err)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	r = gb_machine_inspect(&cli->dirs, name, &ret->info, err);
	if (r < 0)
		return r;
	r = gb_machine_load(&cli->dirs, name, &ret->spec, &ret->why);
	if (r == GB_E_NOTFOUND) {
		gb_look_done(ret);
		return gb_fail(err, r, "%s", ret->why.msg);
	}
	ret->damaged = r < 0;
	return 0;
}

const char *gb_look_state(const struct gb_look *l)
{
	return l->damaged && l->info.state != GB_MACHINE_RUNNING
		       ? "damaged"
		       : gb_machine_state_name(l->info.state);
}

/* What it is made of: an image by the name that was asked for, or a file. */
const char *gb_look_image(const struct gb_machine_spec *s)
{
	if (*s->root)
		return s->root;
	return *s->image_ref ? s->image_ref : s->image;
}

json_t *gb_look_json(const char *name, const struct gb_look *l)
{
	json_t *o = json_pack("{s:o, s:s, s:I, s:I, s:o}", "name", gb_json_text(name),
		"state", gb_look_state(l), "supervisor_pid",
		(json_int_t)l->info.supervisor, "disk_used_bytes",
		(json_int_t)l->info.disk_used, "last_error",
		gb_json_text(l->info.last_error));
	gb_auto_free char *text = NULL;
	json_t *spec;

	if (l->damaged) {
		json_object_set_new(o, "damage", gb_json_text(l->why.msg));
		return o;
	}
	if (gb_machine_spec_to_json(&l->spec, &text, NULL) < 0)
		return o;
	spec = json_loads(text, 0, NULL);
	json_object_del(spec, "version");
	json_object_update_missing(o, spec);
	json_decref(spec);
	return o;
}
