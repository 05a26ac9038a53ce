/* The machines on disk: one folder a machine, its state always derived from the truth.
 *
 *   DATA/machines/<name>/machine.json  the spec
 *                        disk.qcow2    its root (unless spec.root)
 *                        lock          the supervisor holds a POSIX record lock on it for life
 *                        last          how the last run ended: absent before the first,
 *                                      "ok" after an orderly stop, else what went wrong
 *                        console.log, supervisor.log
 *   RUNTIME/<name>.sock                the supervisor's socket
 */
#ifndef GB_MACHINE_STORE_H
#define GB_MACHINE_STORE_H

#include "base/path.h"
#include "machine/spec.h"

enum gb_machine_state { GB_MACHINE_CREATED, GB_MACHINE_RUNNING, GB_MACHINE_STOPPED, GB_MACHINE_CRASHED };
const char *gb_machine_state_name(enum gb_machine_state s);

struct gb_machine_info {
	enum gb_machine_state state;
	pid_t supervisor; /* 0 when none */
	char *last_error; /* owned; how the last run ended, "" if in order */
	uint64_t disk_used; /* bytes on the host's disk */
};
void gb_machine_info_done(struct gb_machine_info *i); /* the numbers stay */

/* Make the folder with spec and disk; nothing is left on failure. GB_E_EXISTS when the name
 * is taken. image_path: the image's root.ext4; NULL when spec->root is used. */
int gb_machine_create(const struct gb_dirs *d, const struct gb_machine_spec *s,
	const char *image_path, struct gb_err *err);
/* GB_E_NOTFOUND names the nearest machine. A damaged machine.json is GB_E_PARSE (rm works). */
int gb_machine_load(const struct gb_dirs *d, const char *name, struct gb_machine_spec *ret,
	struct gb_err *err);
/* Save a changed spec of a machine that is not running (GB_E_STATE); grows the disk. */
int gb_machine_update(const struct gb_dirs *d, const struct gb_machine_spec *s, struct gb_err *err);
int gb_machine_inspect(const struct gb_dirs *d, const char *name, struct gb_machine_info *ret,
	struct gb_err *err);
/* All names, sorted. */
int gb_machine_names(const struct gb_dirs *d, struct gb_strv *ret, struct gb_err *err);
/* The lock of a machine, held by its supervisor for life and by who changes or removes it.
 * GB_E_BUSY when somebody else has it. Closing any descriptor of these files in the holding
 * process gives it up, so the holder must not read them again. */
#define GB_MACHINE_LOCKS 2
struct gb_machine_lock {
	int fds[GB_MACHINE_LOCKS];
};
int gb_machine_lock(const struct gb_dirs *d, const char *name, struct gb_machine_lock *ret,
	struct gb_err *err);
void gb_machine_lock_done(struct gb_machine_lock *l);
/* Note how the run ended ("ok", or why not), or that it began ("running"). durable: on the disk
 * when this returns. */
int gb_machine_set_last(const struct gb_dirs *d, const char *name, const char *text,
	bool durable, struct gb_err *err);
/* Whether it was ever started: there is a note of it. */
bool gb_machine_was_started(const struct gb_dirs *d, const char *name);
/* Remove what killed creators and removers left. */
void gb_machine_sweep(const struct gb_dirs *d);
/* Remove folder and socket. GB_E_STATE while it runs. Missing is GB_E_NOTFOUND. */
int gb_machine_remove(const struct gb_dirs *d, const char *name, struct gb_err *err);
/* The name of the machine that belongs to a folder: "<base>-<8 hex>", always the same. */
int gb_machine_name_for(const char *directory, char **ret, struct gb_err *err);
char *gb_machine_path(const struct gb_dirs *d, const char *name, const char *file); /* owned */
char *gb_machine_socket(const struct gb_dirs *d, const char *name);                 /* owned */

#endif
