/* Putting things into the store so that they are there whole or not at all: made under a
 * temporary name beside the target, synced, renamed without ever replacing anything. */
#ifndef GB_STORE_PUBLISH_H
#define GB_STORE_PUBLISH_H

#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

/* A folder in the making: FOLDER/.tmp-PID-N, locked for as long as its maker lives. */
struct gb_publish {
	char *folder; /* owned; where it will be published */
	char *path;   /* owned; of the temporary folder */
	int fd;       /* of the temporary folder, locked; -1: nothing there */
};
#define GB_PUBLISH_INIT { .folder = 0, .path = 0, .fd = -1 }

/* Make a temporary folder (0700) in an existing folder. */
int gb_publish_begin(const char *folder, struct gb_publish *ret, struct gb_err *err);
/* Sync every file and folder in it, give it mode, and rename it to FOLDER/name; then sync
 * FOLDER. GB_E_EXISTS when the name is taken: nothing is replaced, the temporary folder is
 * still there. On success the struct holds nothing more. */
int gb_publish_commit(struct gb_publish *p, const char *name, mode_t mode, struct gb_err *err);
/* Remove the temporary folder if it was not published. A struct that holds nothing is fine. */
void gb_publish_done(struct gb_publish *p);
/* Remove temporary folders and files in folder whose makers are gone. Never waits. */
void gb_publish_sweep(const char *folder);

/* A file in the making: without a name where the file system can, so that nothing is left
 * when its maker is killed, else FOLDER/.tmp-PID-N, locked. */
struct gb_newfile {
	char *path; /* owned; the target */
	char *tmp;  /* owned; NULL when it has no name */
	int fd;     /* open for reading and writing; -1: nothing there */
};
#define GB_NEWFILE_INIT { .path = 0, .tmp = 0, .fd = -1 }

/* The folder of path exists. The file gets mode when it is published. */
int gb_newfile_begin(const char *path, struct gb_newfile *ret, struct gb_err *err);
/* Sync and publish; GB_E_EXISTS when the name is taken. On success the struct holds
 * nothing more. */
int gb_newfile_commit(struct gb_newfile *f, mode_t mode, struct gb_err *err);
void gb_newfile_done(struct gb_newfile *f);

/* fsync of a folder by path. */
int gb_sync_folder(const char *path, struct gb_err *err);

#endif
