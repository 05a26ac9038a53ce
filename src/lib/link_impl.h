/* What the files of the link share. Functions here are called with the lock held. */
#ifndef GB_LIB_LINK_IMPL_H
#define GB_LIB_LINK_IMPL_H

#include "base/clock.h"
#include "lib/link.h"
#include "proto/flow.h"

#include <pthread.h>

/* An event that waits to be taken. */
struct gb_piece {
	struct gb_piece *next;
	int type; /* enum glovebox_event_type */
	int stream;
	int64_t value;
	size_t len;
	size_t cap;
	uint8_t data[];
};

enum gb_call_state { GB_CALL_IS_WAITING, GB_CALL_IS_FLYING, GB_CALL_IS_ANSWERED };

struct gb_call {
	struct gb_link *link; /* borrowed */
	struct gb_call *next; /* in the link's list */
	enum gb_call_kind kind;
	enum gb_call_state state;
	uint32_t id;
	bool owner;
	bool held_by_user;
	bool held_by_link; /* while it waits or flies; by its worker if it is local */
	bool ended;        /* for the user: what comes now is thrown away */
	bool done_taken;   /* DONE was given out */
	bool cancelled;    /* CANCEL was queued */
	bool cancel_asked; /* by the user */
	bool started;
	bool in_open;
	bool eof_wanted;   /* while it waited */
	bool want_writable, writable;
	struct gb_err error; /* code 0: in order */
	uint64_t deadline_ns;
	struct gb_buf frame; /* what waits to be sent */
	struct gb_flow_sender to_guest;
	struct gb_flow_receiver from[GB_STREAM_COUNT];
	struct gb_piece *first, *last;
	struct gb_piece *current; /* the one given out */
	unsigned notes;
	uint64_t received; /* bytes of DATA */
	pthread_cond_t changed;
	int event_fd; /* -1 until somebody asks for it */
	bool event_set;

	struct gb_msg_exit exit; /* owned, all below too */
	bool has_exit;
	struct gb_msg_session_output session;
	bool has_session;
	struct gb_msg_file_info file;
	bool has_file;
	struct gb_msg_memory_reply memory;
	bool has_memory;
	struct gb_msg_session_info *infos;
	size_t info_count, info_cap;
};

struct gb_link {
	pthread_mutex_t lock;
	pthread_cond_t over; /* failed was set */
	pthread_t thread;
	struct gb_wire wire; /* in: the thread's alone; out and fd: under the lock */
	int wake;            /* eventfd for the thread */
	uint64_t next_deadline; /* of the calls; may be too early, never too late */
	bool thread_polls_out;
	bool quit;
	bool closing; /* STOP was sent */
	bool failed;
	struct gb_err error; /* why */
	uint32_t first_id; /* lower ones are of who used the connection before us */
	uint32_t last_id;
	uint32_t stop_id; /* 0: none */
	unsigned owner_open; /* owner's calls that have not ended */
	struct gb_call *flying;
	size_t flying_count;
	struct gb_call *waiting, **waiting_end;
	size_t waiting_count, waiting_bytes;
};

/* link.c */
void gb_link_wake(struct gb_link *l);
void gb_link_flush(struct gb_link *l);
void gb_link_admit(struct gb_link *l);
void gb_link_fail(struct gb_link *l, const struct gb_err *why);
/* Its last frame came: the slot is free. May release c. */
void gb_link_answered(struct gb_call *c);
/* It waits or flies and must not run on: unqueued, or CANCEL. May release c. */
void gb_link_abandon(struct gb_call *c);

/* frames.c: one frame from the peer. A negative code is fatal for the link. */
int gb_link_frame(struct gb_link *l, const struct gb_frame *f, struct gb_err *err);

/* call.c */
/* The user's view of the end; failure NULL: in order. Nothing when it has ended. */
void gb_call_end(struct gb_call *c, const struct gb_err *failure);
/* Tell who waits for it that something changed. */
void gb_call_notify(struct gb_call *c);
/* An event with bytes. False when memory is out. */
bool gb_call_push(struct gb_call *c, int type, int stream, const void *data, size_t len);
void gb_call_grant(struct gb_call *c, unsigned stream, size_t consumed);
void gb_call_may_write(struct gb_call *c);
/* Releases it when nobody holds it any more. */
void gb_call_unhold(struct gb_call *c);
bool gb_call_takes_input(enum gb_call_kind kind);

#endif
