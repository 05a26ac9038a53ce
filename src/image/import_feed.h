/* What an import reads from: a file or a child's output, with the child's messages passed on
 * as progress meanwhile, and a descriptor that cancels. Internal to the floor. */
#ifndef GB_IMAGE_IMPORT_FEED_H
#define GB_IMAGE_IMPORT_FEED_H

#include "image/import.h"
#include "image/tree.h"

#include <sys/types.h>

struct gb_feed {
	const struct gb_import *import; /* borrowed */
	int data;                       /* owned */
	int messages;                   /* owned; -1: none */
	pid_t child;                    /* 0: none */
	size_t line_len;
	char line[512];      /* of messages, in the making */
	char complaint[512]; /* the last message that looks like an error */
};

bool gb_feed_cancelled(const struct gb_feed *f);
void gb_feed_say(const struct gb_feed *f, const char *fmt, ...) GB_PRINTF(2, 3);
struct gb_tree_reader gb_feed_reader(struct gb_feed *f);
int gb_feed_open_file(struct gb_feed *f, const char *path, struct gb_err *err);
/* Run mmdebstrap for what follows "debootstrap:". */
int gb_feed_debootstrap(struct gb_feed *f, const char *what, struct gb_err *err);
/* Read what is left and wait for the child: its failure is the error. */
int gb_feed_end(struct gb_feed *f, struct gb_err *err);
/* Ends a child that still runs. */
void gb_feed_done(struct gb_feed *f);

#endif
