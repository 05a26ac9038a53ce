/* What the QEMU driver needs to know of this host. */
#ifndef GB_VMM_QEMU_HOST_H
#define GB_VMM_QEMU_HOST_H

#include "base/err.h"
#include "base/mem.h"

/* The path (owned) of the QEMU to use: GLOVEBOX_QEMU, else qemu-system-x86_64 in PATH.
 * GB_E_NOTFOUND says what to install. */
int gb_qemu_binary(char **ret, struct gb_err *err);

/* How fast this host's time stamp counter runs, within about one part in a million; 0 where
 * there is none. Measuring takes 100 ms; with a cache folder the answer is kept in its file
 * "tsc" for this boot of the host. Never fails: a cache that cannot be used is passed by. */
unsigned gb_host_tsc_khz(const char *cache_dir);
/* Whether a guest told one frequency keeps good time on a host with the other. */
bool gb_host_tsc_close(unsigned a_khz, unsigned b_khz);

#endif
