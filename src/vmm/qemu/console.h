/* The guest's console, copied from a socket to a file. The guest decides what comes and how
 * much, so the file is cut when it grows past a cap: the newest output is what is kept. */
#ifndef GB_VMM_QEMU_CONSOLE_H
#define GB_VMM_QEMU_CONSOLE_H

#include "base/err.h"
#include "base/mem.h"

#define GB_CONSOLE_FILE_MAX (UINT64_C(1) << 20)

struct gb_console {
	int fd;   /* owned; our end of the socket, non-blocking */
	int file; /* owned; -1: what comes is thrown away */
	uint64_t size;
};
#define GB_CONSOLE_INIT { .fd = -1, .file = -1 }

/* path may be NULL. The file is appended to. *ret_peer is the end for the child. */
int gb_console_open(const char *path, struct gb_console *ret, int *ret_peer, struct gb_err *err);
/* Copy what is there, a bounded amount. False at end of file. */
bool gb_console_pump(struct gb_console *c);
void gb_console_done(struct gb_console *c);

#endif
