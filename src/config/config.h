/* The configuration: defaults, then the user's file, the project's file, the environment and
 * the options of the command, each over the one before; with where each value comes from.
 *
 *   user file      CONFIG/config.toml, trusted
 *   project file   the nearest .glovebox.toml from the working directory up to HOME or the
 *                  root. It comes with a checkout and is not trusted: keys that reach the
 *                  host are ignored there, with a warning.
 *
 * A value that cannot be used is reported and the layer below stays in force. A file that
 * cannot be read as TOML at all is a failure. */
#ifndef GB_CONFIG_CONFIG_H
#define GB_CONFIG_CONFIG_H

#include "config/value.h"

#define GB_CONFIG_PROJECT_FILE ".glovebox.toml"
#define GB_CONFIG_USER_FILE    "config.toml"
#define GB_CONFIG_NOTES_MAX    64u /* further ones are counted, not kept */

enum gb_config_source {
	GB_CONFIG_FROM_DEFAULT,
	GB_CONFIG_FROM_USER,
	GB_CONFIG_FROM_PROJECT,
	GB_CONFIG_FROM_ENV,
	GB_CONFIG_FROM_OPTION,
};
const char *gb_config_source_name(enum gb_config_source s);

struct gb_config_setting {
	struct gb_config_value value;
	enum gb_config_source source;
	char *where; /* owned: "FILE:LINE:COLUMN", "GLOVEBOX_CPUS", "--cpus"; "" for a default */
};

struct gb_config_note {
	bool error; /* else a warning */
	char *text; /* owned: "FILE:LINE:COLUMN: what, what was expected" */
};

struct gb_config {
	struct gb_config_setting settings[GB_CONFIG_COUNT];
	struct gb_config_note notes[GB_CONFIG_NOTES_MAX];
	size_t note_count;  /* kept */
	size_t note_total;  /* all */
	size_t error_total; /* notes that are errors */
	char *user_file;    /* owned paths; NULL: there is none */
	char *project_file;
};

/* Where to look; all borrowed. cwd must be absolute. */
struct gb_config_where {
	const char *config_dir; /* NULL: no user file */
	const char *cwd;        /* NULL: no project file */
	const char *home;       /* NULL: unknown */
	char *const *env;       /* NULL: no environment layer */
};

/* ret is initialised here; gb_config_done is fine after a failure too. */
int gb_config_load(const struct gb_config_where *w, struct gb_config *ret, struct gb_err *err);
void gb_config_done(struct gb_config *c);
/* Only the defaults. */
int gb_config_defaults(struct gb_config *ret, struct gb_err *err);
/* Read one file into c as the given source. */
int gb_config_read_file(struct gb_config *c, const char *path, enum gb_config_source source,
	const char *home, struct gb_err *err);
/* The same for text that was read already: name is for messages, dir for relative paths. */
int gb_config_read_text(struct gb_config *c, const char *name, const char *text, size_t len,
	enum gb_config_source source, const struct gb_config_base *base, struct gb_err *err);
/* One value or, for a list, one entry: an option adds to the list that is configured, the
 * first entry of another source replaces it. */
int gb_config_set(struct gb_config *c, enum gb_config_id id, enum gb_config_source source,
	const char *where, const char *text, const struct gb_config_base *base,
	struct gb_err *err);

uint64_t gb_config_number(const struct gb_config *c, enum gb_config_id id);
const char *gb_config_text(const struct gb_config *c, enum gb_config_id id);
const struct gb_strv *gb_config_list(const struct gb_config *c, enum gb_config_id id);

/* The nearest project file from cwd up (owned), GB_E_NOTFOUND when there is none. */
int gb_config_find_project(const char *cwd, const char *home, char **ret, struct gb_err *err);

#endif
