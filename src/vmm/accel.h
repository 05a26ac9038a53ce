/* Which accelerator this host can really use, found by trying (never by looking at
 * /dev/kvm alone). */
#ifndef GB_VMM_ACCEL_H
#define GB_VMM_ACCEL_H

#include "base/err.h"
#include "base/mem.h"

enum gb_accel { GB_ACCEL_AUTO, GB_ACCEL_KVM, GB_ACCEL_HVF, GB_ACCEL_TCG };

struct gb_accel_result {
	enum gb_accel accel; /* KVM, HVF or TCG */
	bool cached;         /* from this boot's cache file */
	char why[256];       /* one line for people: what was tried and what came of it */
};

/* "auto", "kvm", "hvf", "tcg"; GB_E_INVALID names the words. */
int gb_accel_parse(const char *word, enum gb_accel *ret, struct gb_err *err);
const char *gb_accel_name(enum gb_accel a);

/* Resolve want. AUTO tries KVM (a bare guest, within 250 ms) and falls back to TCG; the
 * answer is kept in cache_dir/accel keyed by the host's boot id and the device node (NULL: no
 * cache). An explicit choice that does not work here is GB_E_UNSUPPORTED with the reason; it
 * is tried again even if it was found broken before. Never hangs. */
int gb_accel_resolve(enum gb_accel want, const char *cache_dir, struct gb_accel_result *ret,
	struct gb_err *err);
/* The next AUTO tries again. */
void gb_accel_forget(const char *cache_dir);

#endif
