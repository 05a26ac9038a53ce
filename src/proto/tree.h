/* Trees in a stream (copies in and out): a run of records, each a u32 LE length, an encoded
 * gb_msg_entry of that length, and for files entry.size bytes of content.
 *
 * The first record is the thing itself with an empty path; below a folder, paths are relative
 * to it ("a", "a/b"), parents before children; below anything else nothing follows. Who writes them checks every path with
 * gb_tree_path_ok and resolves it below the destination without following links. A record of
 * kind END closes the stream; anything else at its end means that it was cut. */
#ifndef GB_PROTO_TREE_H
#define GB_PROTO_TREE_H

#include "proto/msg.h"

enum gb_tree_kind { GB_TREE_END = 0, GB_TREE_FILE = 1, GB_TREE_DIR = 2, GB_TREE_LINK = 3, GB_TREE_FIFO = 4 };

#define GB_TREE_RECORD_MAX (64u << 10) /* bytes of one encoded entry */

/* Append one record (without content). */
void gb_tree_add(struct gb_buf *b, const struct gb_msg_entry *e);
/* "" or relative, no empty, "." or ".." part, at most 4095 bytes. */
bool gb_tree_path_ok(const char *path);

/* Splits a stream into records and content, fed with pieces of any size. */
struct gb_tree_reader {
	struct gb_buf in;        /* owned: an unfinished record */
	struct gb_msg_entry now; /* owned: the record whose content is being read */
	uint64_t content_left;
	bool ended;              /* END was read */
	bool failed;             /* an error ended the reading */
	uint32_t root_kind;      /* of the first record */
	uint64_t records;
};
/* Callbacks return 0 or a negative code with err filled, which ends the reading. */
struct gb_tree_ops {
	int (*entry)(void *ctx, const struct gb_msg_entry *e, struct gb_err *err);
	/* content of the last entry, in order */
	int (*content)(void *ctx, const uint8_t *data, size_t len, struct gb_err *err);
	/* its content is complete (files only) */
	int (*end)(void *ctx, const struct gb_msg_entry *e, struct gb_err *err);
};
void gb_tree_reader_init(struct gb_tree_reader *r);
void gb_tree_reader_done(struct gb_tree_reader *r);
int gb_tree_reader_feed(struct gb_tree_reader *r, const uint8_t *data, size_t len,
	const struct gb_tree_ops *ops, void *ctx, struct gb_err *err);

#endif
