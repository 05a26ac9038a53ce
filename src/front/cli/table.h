/* Every command and every option of `glovebox`, one row each. Parsing, help and the shells'
 * completion are made from these rows, so they cannot disagree. Pure data: no machine is
 * needed to look at it. */
#ifndef GB_FRONT_CLI_TABLE_H
#define GB_FRONT_CLI_TABLE_H

#include "config/keys.h"

enum gb_cli_option_id {
	OPT_HELP,
	OPT_NAME,
	OPT_MACHINE,
	OPT_RM,
	OPT_IMAGE,
	OPT_ROOT,
	OPT_CPUS,
	OPT_MEMORY,
	OPT_DISK,
	OPT_ACCEL,
	OPT_VOLUME,
	OPT_KERNEL,
	OPT_MODULES,
	OPT_WORKDIR,
	OPT_ENV,
	OPT_USER,
	OPT_TTY,
	OPT_INTERACTIVE,
	OPT_DETACH,
	OPT_TIMEOUT,
	OPT_FORCE,
	OPT_STOP_TIME,
	OPT_CONSOLE,
	OPT_SUPERVISOR,
	OPT_FOLLOW,
	OPT_OWNER,
	OPT_IMPORT_NAME,
	OPT_QUIET,
	OPT_JSON,
	OPT_COUNT,
};
_Static_assert(OPT_COUNT <= 64, "a command's options are bits of one word");

/* What a word on the command line stands for, so that the shell can complete it. */
enum gb_cli_word {
	WORD_TEXT,
	WORD_FILE,
	WORD_FOLDER,
	WORD_MACHINE,
	WORD_IMAGE,
	WORD_COMMAND, /* a program */
	WORD_ACCEL,
	WORD_SHELL,
	WORD_OWN, /* one of our commands */
	WORD_COPY, /* a file or MACHINE: */
	WORD_TOOL, /* one of the model's tools */
};

struct gb_cli_option {
	enum gb_cli_option_id id;
	char letter; /* 0: only the long form */
	const char *name;
	const char *arg; /* what it takes, for people; NULL: a flag */
	enum gb_cli_word word;
	int key; /* enum gb_config_id that it sets, or GB_CLI_NO_KEY */
	const char *help;
	const char *example; /* as typed behind the command */
};
#define GB_CLI_NO_KEY (-1)

enum gb_cli_command_id {
	CMD_RUN,
	CMD_EXEC,
	CMD_SHELL,
	CMD_CREATE,
	CMD_START,
	CMD_STOP,
	CMD_RM,
	CMD_LS,
	CMD_INSPECT,
	CMD_SET,
	CMD_LOGS,
	CMD_CP,
	CMD_MCP,
	CMD_TOOL,
	CMD_SESSIONS,
	CMD_ATTACH,
	CMD_IMAGE_IMPORT,
	CMD_IMAGE_LS,
	CMD_IMAGE_RM,
	CMD_IMAGE_INSPECT,
	CMD_CONFIG_SHOW,
	CMD_CONFIG_CHECK,
	CMD_CONFIG_PATH,
	CMD_DOCTOR,
	CMD_COMPLETION,
	CMD_VERSION,
	CMD_HELP,
	CMD_COUNT,
};

#define GB_CLI_MANY (-1)

struct gb_cli_command {
	enum gb_cli_command_id id;
	const char *group; /* "image" of "image ls", or NULL */
	const char *name;
	const char *operands;
	const char *summary;
	const char *text; /* more help, or NULL */
	const char *const *examples; /* NULL-terminated, at least one */
	uint64_t options; /* bits: 1 << OPT_x */
	int min;
	int max; /* GB_CLI_MANY: no limit */
	enum gb_cli_word word; /* of its operands */
	bool stops; /* options end at the first operand: the rest is a command line */
	int failure; /* exit code when we, not a command inside, failed */
};

extern const struct gb_cli_option gb_cli_options[OPT_COUNT];
extern const struct gb_cli_command gb_cli_commands[CMD_COUNT];

/* Groups in order of appearance: NULL-terminated. */
extern const char *const gb_cli_groups[];

/* By name within a group (NULL: none); NULL when there is none. */
const struct gb_cli_command *gb_cli_command_find(const char *group, const char *name);
bool gb_cli_is_group(const char *name);
bool gb_cli_takes(const struct gb_cli_command *c, enum gb_cli_option_id id);

#endif
