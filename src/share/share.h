/* One share: a folder of the host, answered to a guest as a FUSE session.
 *
 * The other side is the kernel of a guest, which may be hostile: raw messages are taken
 * apart by fusemsg.c, numbers of files and handles are looked up in our tables, and every
 * call to the host names one component below a descriptor that is held, never following a
 * link. Symlinks are given to the guest as text. On a read-only share everything that would
 * change something is refused here, before its code is reached.
 *
 * Who owns what: the guest sees the owner that it was told at the start on everything; what
 * it creates belongs to the user who runs this process. chown in the guest is remembered in
 * the attribute user.glovebox.owner ("uid:gid"), which the guest does not see, or refused.
 *
 * Nothing is cached on trust: names and attributes carry no lifetime, so that edits on the
 * host are seen by the next system call in the guest. Locks are the guest kernel's own: they
 * hold among its processes, not against processes of the host. */
#ifndef GB_SHARE_SHARE_H
#define GB_SHARE_SHARE_H

#include "share/fusemsg.h"
#include "share/node.h"

#define GB_SHARE_MAX         64u        /* shares of one server */
#define GB_SHARE_NODES_MAX   (1u << 20) /* files that a guest is told of at a time */
#define GB_SHARE_HANDLES_MAX 65536u
#define GB_SHARE_DIRS_MAX    4096u      /* descriptors kept for folders */
/* Room for the longest reply, without fuse_out_header. */
#define GB_SHARE_REPLY_MAX   GB_FUSE_IO_MAX

struct gb_share;

struct gb_share_config {
	bool read_only;
	uint32_t uid, gid;              /* as the guest sees them */
	struct gb_share_budget *budget; /* borrowed; outlives the share */
};

/* Budget for a process that may have so many descriptors open. */
void gb_share_budget_init(struct gb_share_budget *b, size_t max_fds);

/* The working directory must be /proc/self/fd (of whatever procfs is at hand): descriptors
 * are turned into paths by it, as Linux has no other way to open what an O_PATH descriptor
 * stands for. root_fd (a folder) is taken over also on failure. */
int gb_share_new(int root_fd_consume, const struct gb_share_config *config,
	struct gb_share **ret, struct gb_err *err);
struct gb_share *gb_share_free(struct gb_share *s);
GB_DEFINE_CLEANUP(gb_share)

/* Answer one raw message. reply has room for a fuse_out_header and GB_SHARE_REPLY_MAX bytes
 * and is aligned to 8; *ret_len is the length of the answer, 0 when there is none. Fails
 * only with GB_E_PROTOCOL, after which the guest must not be listened to any more. */
int gb_share_handle(struct gb_share *s, const uint8_t *msg, size_t len, uint8_t *reply,
	size_t *ret_len, struct gb_err *err);
/* To be called about once a second: closes files that were kept open for a moment. */
void gb_share_rest(struct gb_share *s);
/* The guest unmounted it: forget all nodes and handles, and wait for a new INIT. */
int gb_share_reset(struct gb_share *s, struct gb_err *err);

#endif
