/* The model's four tools: what they are called, what they take, what they answer.
 *
 * One table (gb_tools) holds names, words and properties; the JSON schemas that are offered and
 * the check of what a model sends are both made from it, so that they cannot disagree, and every
 * front end (the library, MCP, `glovebox tool`) shows the same. Everything here is pure, and
 * works on what a model or a machine sent: both are foreign. */
#ifndef GB_LIB_TOOL_H
#define GB_LIB_TOOL_H

#include "base/buf.h"

#include <stdint.h>

enum gb_tool_id {
	GB_TOOL_EXEC_COMMAND,
	GB_TOOL_WRITE_STDIN,
	GB_TOOL_APPLY_PATCH,
	GB_TOOL_VIEW_IMAGE,
	GB_TOOL_COUNT,
};

#define GB_TOOL_CMD_MAX   ((size_t)256 << 10) /* bytes of a command: one string of the wire */
#define GB_TOOL_PATH_MAX  ((size_t)4096)      /* bytes of a path, folder or shell */
#define GB_TOOL_CHARS_MAX ((size_t)512 << 10) /* bytes that are typed by one call */
#define GB_TOOL_PATCH_MAX ((size_t)8 << 20)   /* bytes of a patch */
#define GB_TOOL_LIST_MAX  256u                /* entries of a list in the arguments */
#define GB_TOOL_ARGS_MAX  ((size_t)20 << 20)  /* bytes of all arguments as JSON */
#define GB_TOOL_WORD_MAX  64                  /* bytes of a name that are repeated in a message */

/* Times in ms, as models know them. */
#define GB_TOOL_EXEC_YIELD   10000
#define GB_TOOL_WRITE_YIELD  250
#define GB_TOOL_POLL_YIELD   5000
#define GB_TOOL_YIELD_MIN    250
#define GB_TOOL_YIELD_MAX    30000
#define GB_TOOL_POLL_MIN     5000
#define GB_TOOL_POLL_MAX     300000
#define GB_TOOL_TOKENS       10000
#define GB_TOOL_TOKEN_BYTES  4
#define GB_TOOL_OUTPUT_MAX   ((size_t)1 << 20) /* bytes of output in one answer, without its head */

enum gb_tool_type {
	GB_TOOL_STRING,
	GB_TOOL_BOOLEAN,
	GB_TOOL_NUMBER, /* a whole one, however it is written (1000 or 1000.0) */
	GB_TOOL_WORD,   /* one of words */
	GB_TOOL_STRINGS,
};

/* A value owns what it points to; given is false for what was left out or null. */
struct gb_tool_value {
	bool given;
	bool boolean;
	int64_t number; /* cut to what an int64_t holds */
	char *text;     /* owned; NUL-terminated beyond len */
	size_t len;
};

/* What the call needs, by tool; the table says which index a property has. */
enum gb_tool_arg {
	GB_ARG_CMD,
	GB_ARG_WORKDIR,
	GB_ARG_SHELL,
	GB_ARG_LOGIN,
	GB_ARG_TTY,
	GB_ARG_YIELD,
	GB_ARG_TOKENS,
	GB_ARG_SESSION,
	GB_ARG_CHARS,
	GB_ARG_PATCH,
	GB_ARG_PATH,
	GB_ARG_DETAIL,
	GB_ARG_COUNT,
	GB_ARG_IGNORED = GB_ARG_COUNT, /* checked and thrown away */
};

struct gb_tool_property {
	const char *name; /* NULL ends a list */
	enum gb_tool_type type;
	enum gb_tool_arg arg;
	bool required;
	bool hidden;              /* accepted, not offered */
	bool raw;                 /* a string that may hold NUL */
	size_t max;               /* bytes of a string */
	int64_t least;            /* of a number */
	const char *const *words; /* NULL-terminated */
	const char *text;
};

struct gb_tool {
	enum gb_tool_id id;
	const char *name;
	const char *title;
	const char *text; /* for the model */
	const struct gb_tool_property *inputs;
	const struct gb_tool_property *outputs; /* of the structured result; NULL: none */
	const char *grammar;                    /* Lark; NULL: not freeform */
	bool read_only;   /* changes nothing */
	bool destructive; /* may delete or overwrite */
	bool parallel;    /* calls may run at the same time */
};

extern const struct gb_tool gb_tools[GB_TOOL_COUNT];
const struct gb_tool *gb_tool_find(const char *name); /* NULL: none */

struct gb_tool_args {
	const struct gb_tool *tool;
	struct gb_tool_value v[GB_ARG_COUNT];
};
void gb_tool_args_done(struct gb_tool_args *a);
/* How long to wait for an end, clamped as the tool has it. */
uint64_t gb_tool_yield_ms(const struct gb_tool_args *a);
/* Bytes of output that the answer may have. */
size_t gb_tool_budget(const struct gb_tool_args *a);

/* ---- JSON (tool_json.c) ---- */

struct json_t;

/* New references; NULL when memory is out. definition: name, title, description, inputSchema,
 * outputSchema, annotations. */
struct json_t *gb_tool_input_schema(const struct gb_tool *t);
struct json_t *gb_tool_output_schema(const struct gb_tool *t); /* JSON null: none */
struct json_t *gb_tool_definition(const struct gb_tool *t);
/* As text that the caller owns; NULL for JSON null, and when memory is out. */
char *gb_tool_json_text(struct json_t *consume);

/* Check arguments (any JSON value; NULL counts as {}) and take them. The one line of the error
 * names the property and what was expected, and is meant for the model. GB_E_INVALID, GB_E_LIMIT,
 * GB_E_NOMEM. ret is filled on success only. */
int gb_tool_args_check(const struct gb_tool *t, const struct json_t *arguments,
	struct gb_tool_args *ret, struct gb_err *err);
/* From text: JSON (GB_E_PARSE when it is none; a name that comes twice is refused), or for a
 * freeform tool the bare text. */
int gb_tool_args_parse(const struct gb_tool *t, const char *text, size_t len,
	struct gb_tool_args *ret, struct gb_err *err);

#endif
