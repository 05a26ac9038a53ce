/* What every new machine has, whoever makes it: an identity, what its image says, a check of
 * what it shares; and the names of machines that go when they end. */
#ifndef GB_MACHINE_MAKE_H
#define GB_MACHINE_MAKE_H

#include "image/image.h"
#include "machine/store.h"

/* A spec with name, a new id, the time and what the image says (its environment, user, digest;
 * NULL: none). ref is what the image was asked for by. */
int gb_machine_spec_new(const char *name, const struct gb_image *image, const char *ref,
	struct gb_machine_spec *ret, struct gb_err *err);
/* The disk as large as was wanted, but as the image at least; GB_E_INVALID when exactly that size
 * was asked for and is too small. */
int gb_machine_spec_disk(struct gb_machine_spec *s, const struct gb_image *image, uint64_t wanted,
	bool exact, struct gb_err *err);
/* Directory and shares are folders that exist and may be shared. */
int gb_machine_check_shares(
	const struct gb_dirs *d, const struct gb_machine_spec *s, struct gb_err *err);
/* GB_E_DENIED when sharing the folder would give the guest our own files: it could change
 * what its machine is allowed to see. */
int gb_machine_check_folder(const struct gb_dirs *d, const char *folder, struct gb_err *err);

/* A name for a machine that goes when it ends, with our process id in it; owned. */
int gb_machine_ephemeral_name(char **ret, struct gb_err *err);
/* Remove such machines whose maker was killed before their supervisor ran. */
void gb_machine_sweep_ephemeral(const struct gb_dirs *d);

#endif
