/* What the files of boot share. */
#ifndef GB_MACHINE_BOOT_IMPL_H
#define GB_MACHINE_BOOT_IMPL_H

#include "machine/boot.h"
#include "vmm/boot.h"
#include "vmm/template.h"

/* The folders a machine boots from. */
struct gb_parts {
	struct gb_accel_result accel;
	struct gb_boot_paths paths; /* owned */
	char *bundle;               /* owned */
	char *image_template;       /* owned; NULL: none is used */
	char *template_path;        /* owned; the generic one; NULL: cold boot, and why says why;
				       not looked for with image_template */
	char why[512];
	char image_why[512];        /* why image_template could not be made, "" if it was not wanted */
};

void gb_parts_done(struct gb_parts *p);
/* From the caches, or made by the role "prepare" with its progress lines passed on. image: the
 * path of the image when a template of it can be used, else NULL. */
int gb_parts_find(const struct gb_dirs *d, const struct gb_machine_spec *spec, const char *image,
	gb_boot_progress progress, void *ctx, struct gb_parts *ret, struct gb_err *err);
/* The image's template did not restore: forget it, go on with the generic one. */
void gb_parts_drop_image(const struct gb_dirs *d, const struct gb_machine_spec *spec, bool broken,
	gb_boot_progress progress, void *ctx, struct gb_parts *p);
/* After a template failed to restore: forget it and make it once more. */
int gb_parts_rebuild(const struct gb_dirs *d, const struct gb_machine_spec *spec,
	gb_boot_progress progress, void *ctx, struct gb_parts *p, struct gb_err *err);

/* The machine's shares in mounting order (a share inside another comes later); borrowed. */
struct gb_share_plan {
	struct gb_machine_share list[GB_MACHINE_SHARES_MAX + 1];
	size_t count;
};
void gb_share_plan_make(const struct gb_machine_spec *spec, struct gb_share_plan *ret);
/* Whether each folder is there. */
int gb_share_plan_check(const struct gb_share_plan *plan, struct gb_err *err);
/* Start the share server for the plan: *ret_pid, and its control socket. port is the end
 * that it serves; borrowed. */
int gb_share_server_start(const struct gb_share_plan *plan, int port, pid_t *ret_pid,
	int *ret_ctl, struct gb_err *err);

#endif
