/* The host's side of copies: reading a tree of the host into a stream, and writing a stream
 * that a guest sent (which is hostile) below one place of the host and never out of it. */
#ifndef GB_MACHINE_COPY_HOST_H
#define GB_MACHINE_COPY_HOST_H

#include "proto/tree.h"

/* Whether there is something at host to copy. */
int gb_copy_host_check(const char *host, struct gb_err *err);
/* Writes the tree at host (links as links, sockets and devices left out) as a stream with its
 * END record. write is called with pieces in order; path is what they belong to. */
int gb_copy_host_read(const char *host,
	int (*write)(void *ctx, const uint8_t *data, size_t len, const char *path,
		struct gb_err *err),
	void *ctx, struct gb_err *err);

/* Writes what a tree reader hands out to target; where target is an existing folder, into it
 * as name. Files get a temporary name first and are renamed when they are whole; set-id bits
 * are dropped; links inside are never followed. */
struct gb_host_writer;
int gb_host_writer_new(const char *target, const char *name, struct gb_host_writer **ret,
	struct gb_err *err);
extern const struct gb_tree_ops gb_host_writer_ops; /* ctx: the writer */
/* After the last record: folders get their modes and times. */
int gb_host_writer_finish(struct gb_host_writer *w, struct gb_err *err);
struct gb_host_writer *gb_host_writer_free(struct gb_host_writer *w);

#endif
