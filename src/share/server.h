/* The share server's loop: frames from the guest's agent in, frames out, until an end closes.
 *
 * port: a byte stream to the guest, of frames FUSE (one raw message each; the stream number
 * is the share's index) and FUSE_GONE. control: a stream socket to the supervisor: we say
 * READY once, it says OWNER once, before which nothing is read from the port. The end of
 * either is the end of the server. Requests are answered one by one, in order; while the
 * other side does not read, nothing is read either, so memory stays bounded. */
#ifndef GB_SHARE_SERVER_H
#define GB_SHARE_SERVER_H

#include "share/sandbox.h"
#include "share/share.h"

struct gb_share_server_config {
	int port;    /* borrowed */
	int control; /* borrowed */
	size_t max_fds; /* how many descriptors may be open */
	struct {
		bool used;
		bool read_only;
		int root_fd; /* taken over */
	} shares[GB_SHARE_MAX];
};

/* 0 at the end of port or control. GB_E_PROTOCOL: the guest (or the supervisor) broke the
 * rules. */
int gb_share_serve(const struct gb_share_server_config *config, struct gb_err *err);

#endif
