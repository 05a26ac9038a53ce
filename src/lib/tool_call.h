/* Tool calls as requests: what the public functions and the front ends stand on. */
#ifndef GB_LIB_TOOL_CALL_H
#define GB_LIB_TOOL_CALL_H

#include "lib/tool_run.h"

/* In the calling thread; as gb_tool_run. options may be NULL. */
int gb_tool_call(struct glovebox_tools *tools, const struct gb_tool_args *args,
	const struct glovebox_tool_options *options, struct gb_tool_answer *ret,
	struct gb_err *err);
/* Start a checked call in a thread of its own; args are taken over, whatever happens. The caller
 * owns *ret, whose DONE comes with the answer; options may be NULL. */
int gb_tool_call_start(struct glovebox_tools *tools, struct gb_tool_args *args_consume,
	const struct glovebox_tool_options *options, struct glovebox_request **ret,
	struct gb_err *err);
/* A request that has ended already, with text as the answer of a tool that failed. */
int gb_tool_call_refuse(struct glovebox_tools *tools, const char *text,
	struct glovebox_request **ret, struct gb_err *err);
/* Once, after its end. The caller owns *ret on success; fails as the call did. */
int gb_tool_call_answer(struct glovebox_request *request, struct gb_tool_answer *ret,
	struct gb_err *err);

#endif
