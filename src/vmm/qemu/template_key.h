/* Internal: how looking up and making a template agree on its name and its description. */
#ifndef GB_VMM_QEMU_TEMPLATE_KEY_H
#define GB_VMM_QEMU_TEMPLATE_KEY_H

#include "vmm/qemu/args.h"
#include "vmm/template.h"

#define GB_TEMPLATE_JSON_MAX 65536u

struct gb_template_key {
	char *folder; /* owned; CACHE/templates */
	char *name;   /* owned; 16 hex digits: of text, a clash is seen by comparing it */
	char *text;   /* owned; everything that the template depends on, a line each */
	char *binary; /* owned; the QEMU that is used */
};
int gb_template_key_init(struct gb_template_key *k, const char *cache_dir,
	const struct gb_template_want *w, struct gb_err *err);
void gb_template_key_done(struct gb_template_key *k);
/* As gb_template_lookup. */
int gb_template_find(const struct gb_template_key *k, const char *cache_dir,
	const struct gb_template_want *w, char **ret_dir, struct gb_err *err);
/* The spec of the machine that becomes the template; its descriptors are -1. */
struct gb_vm_spec gb_template_spec(const struct gb_template_want *w, const char *disk);

#endif
