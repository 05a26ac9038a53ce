/* Carrying out one tool call in a machine. */
#ifndef GB_LIB_TOOL_RUN_H
#define GB_LIB_TOOL_RUN_H

#include "lib/core.h"
#include "lib/tool.h"
#include "lib/tool_text.h"
#include "media/media.h"

struct gb_tool_answer {
	bool success; /* false: the tool failed in a way that the model shall see */
	struct gb_buf text; /* what the model reads; UTF-8, may hold NUL */
	size_t output_at;   /* where in text the output begins */
	bool has_head;      /* exec_command and write_stdin, when they succeeded */
	struct gb_tool_head head;
	bool has_picture;
	struct gb_media_result picture;
	char *detail;       /* owned; how the picture was reduced */
	uint64_t spawn_ns;  /* of a command that ended */
};
void gb_tool_answer_done(struct gb_tool_answer *a);
/* The structured result: a new reference; JSON null where there is none; NULL when memory is
 * out. */
struct json_t *gb_tool_answer_json(const struct gb_tool_answer *a);

/* A call under way, to be cancelled from another thread. */
struct gb_tool_run {
	struct gb_link *link; /* borrowed */
	const struct gb_mask *mask; /* borrowed */
	struct glovebox_tool_options options;
	bool owner; /* its requests count as the owner's */
	pthread_mutex_t lock;
	struct gb_call *current; /* what is waited for; NULL: nothing now */
	bool cancelled;
};
void gb_tool_run_init(struct gb_tool_run *run, struct gb_link *link, const struct gb_mask *mask,
	const struct glovebox_tool_options *options, bool owner);
void gb_tool_run_done(struct gb_tool_run *run);
/* Blocks. What the model shall see, failures too, is an answer; an error is for the operator: the
 * machine was lost, GB_E_TIMEOUT, GB_E_CANCELLED (a command that was not answered yet is gone
 * then), GB_E_NOMEM. ret is initialised here, and to be done with after a success only. */
int gb_tool_run(struct gb_tool_run *run, const struct gb_tool_args *args,
	struct gb_tool_answer *ret, struct gb_err *err);
/* From any thread, any time between init and done. */
void gb_tool_run_cancel(struct gb_tool_run *run);

#endif
