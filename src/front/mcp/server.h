/* The server's state, without machine, descriptors or clock: lines go in, lines come out, and
 * what is to be done with the machine is asked of the ops.
 *
 *                tools/call          machine is up            answer
 *   (request) ------------> WAITING ------------> RUNNING -------------> answered
 *                              | cancelled            | cancelled: its answer is thrown away
 *                              v                      v
 *                           (gone)                 RUNNING, mute
 *
 *   machine:  NONE --first call--> STARTING --up--> UP --lost--> NONE
 *                                     '--failed: all that wait are told--> NONE
 *
 * Calls run side by side as far as their tool allows it; calls of a tool that does not
 * (apply_patch) run one after the other, in the order in which they came. */
#ifndef GB_FRONT_MCP_SERVER_H
#define GB_FRONT_MCP_SERVER_H

#include "front/mcp/proto.h"

#define GB_MCP_RUNNING_MAX 48  /* calls that run */
#define GB_MCP_WAITING_MAX 256 /* calls that wait for a place or for the machine */
#define GB_MCP_OUT_MAX     ((size_t)256 << 20) /* bytes that a client has not read yet */
#define GB_MCP_BEAT_MS     5000 /* between two signs of life of a call, where they are wanted */

struct gb_mcp_batch;

struct gb_mcp_call {
	struct gb_mcp_call *next;
	json_t *id;                 /* owned */
	json_t *token;              /* owned; NULL: no progress is wanted */
	struct gb_mcp_batch *batch; /* NULL: it came alone */
	enum gb_mcp_revision revision;
	struct gb_tool_args args;   /* until it runs */
	enum gb_tool_id tool;
	bool running;
	unsigned generation;        /* of the machine on which it runs */
	bool mute;                  /* cancelled: no answer */
	double progress;
	uint64_t beat_ns;           /* when the next sign of life is due */
	void *job;                  /* the ops' own */
};

enum gb_mcp_machine { GB_MCP_NONE, GB_MCP_STARTING, GB_MCP_UP };

struct gb_mcp_ops {
	/* gb_mcp_up or gb_mcp_failed follows, later. */
	void (*start_machine)(void *ctx);
	/* Run call->args (taken over). gb_mcp_done follows, later, with this call. */
	int (*start)(void *ctx, struct gb_mcp_call *call, struct gb_err *err);
	/* gb_mcp_done follows all the same. */
	void (*cancel)(void *ctx, struct gb_mcp_call *call);
	/* The machine is lost: the next call gets another one. */
	void (*drop_machine)(void *ctx);
	/* Something that the operator should know. */
	void (*complain)(void *ctx, const char *text);
};

struct gb_mcp {
	const struct gb_mcp_ops *ops;
	void *ctx;
	char *instructions; /* owned */
	enum gb_mcp_revision agreed;
	enum gb_mcp_machine machine;
	unsigned generation; /* counts machines that came up */
	struct gb_mcp_call *first, *last; /* in order of arrival */
	size_t waiting, running;
	struct gb_buf out; /* what is to be written */
	uint64_t now_ns;   /* as of the last tick */
};

int gb_mcp_init(struct gb_mcp *m, const struct gb_mcp_ops *ops, void *ctx, const char *folder,
	struct gb_err *err);
/* Nothing may run any more. */
void gb_mcp_close(struct gb_mcp *m);

/* One line of the client. */
void gb_mcp_line(struct gb_mcp *m, const char *line, size_t len);
/* A line that was too long. */
void gb_mcp_too_long(struct gb_mcp *m);

void gb_mcp_up(struct gb_mcp *m);
/* why is for the operator. */
void gb_mcp_failed(struct gb_mcp *m, const struct gb_err *why);
/* A line about the machine's start, for those who wait. */
void gb_mcp_note(struct gb_mcp *m, const char *text);
/* answer is borrowed; NULL: it failed, why says it. The call is gone afterwards. */
void gb_mcp_done(struct gb_mcp *m, struct gb_mcp_call *call, const struct gb_tool_answer *answer,
	const struct gb_err *why);
/* Time passes: signs of life are sent. Returns when the next is due, UINT64_MAX: never. */
uint64_t gb_mcp_tick(struct gb_mcp *m, uint64_t now_ns);
/* The client is leaving: cancel all. Those that wait are told; those that run are told when they
 * have ended. */
void gb_mcp_leave(struct gb_mcp *m);

#endif
