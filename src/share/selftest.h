/* The sandbox, tried from inside: what must be refused is attempted and must fail, what must
 * work is done. One line each on stdout: "ok" or "FAILED", and what was tried. */
#ifndef GB_SHARE_SELFTEST_H
#define GB_SHARE_SELFTEST_H

#include "share/server.h"

/* To be opened before the sandbox is entered, as it cannot be afterwards. */
int gb_selftest_open_status(void);
/* GB_E_STATE when anything failed. Leaves a file for a moment in read-write shares. */
int gb_selftest_run(const struct gb_share_server_config *config, int status_fd,
	unsigned int stages, struct gb_err *err);

#endif
