/* What the supervisor's files share. */
#ifndef GB_MACHINE_SUPERVISOR_IMPL_H
#define GB_MACHINE_SUPERVISOR_IMPL_H

#include "machine/boot.h"
#include "machine/supervisor/conn.h"
#include "proto/flow.h"

#define GB_SUP_SLOTS       63 /* ordinary requests in flight; the 64th waits */
#define GB_SUP_WAITING_MAX 1024
/* Frames of a waiting request that are kept: its start and one window of input. */
#define GB_SUP_WAITING_BYTES (GB_FRAME_MAX + GB_FLOW_WINDOW + ((size_t)64 << 10))

struct gb_sup;

struct gb_sup_client {
	struct gb_conn conn;
	struct gb_sup *sup;
	bool greeted;
	struct gb_sup_client *next;
};

/* A request that the agent works on. */
struct gb_sup_slot {
	bool used;
	bool cancelled;
	struct gb_sup_client *client; /* NULL once it is gone */
	uint32_t client_id;
	uint32_t agent_id;
	struct gb_flow_sender granted[GB_STREAM_COUNT]; /* what the agent may still send */
};

/* A request that waits for a slot, with the frames that came for it. */
struct gb_sup_waiting {
	struct gb_sup_client *client;
	uint32_t client_id;
	struct gb_buf frames;
	struct gb_sup_waiting *next;
};

struct gb_sup_stopper {
	struct gb_sup_client *client;
	uint32_t client_id;
	struct gb_sup_stopper *next;
};

struct gb_sup {
	struct gb_dirs dirs;
	struct gb_machine_spec spec;
	bool bound;
	struct gb_boot boot;
	uint64_t started_ns; /* CLOCK_REALTIME */

	uv_loop_t loop;
	struct gb_flusher flusher;
	int listen_fd;
	uv_poll_t listener;
	uv_poll_t vm_poll;
	uv_poll_t share_poll;
	int share_pidfd;
	uv_signal_t sigterm, sigint;
	uv_timer_t stop_timer;  /* the guest had its time */
	uv_timer_t lost_timer;  /* the agent hung up: wait for word of the VM's end */
	uv_timer_t clock_timer; /* host time and entropy to the guest */
	uv_timer_t space_timer; /* the host's disk was full */

	struct gb_conn agent;
	struct gb_sup_client *clients;
	struct gb_sup_slot slots[GB_SUP_SLOTS];
	uint32_t sequence; /* of agent request ids */
	struct gb_sup_waiting *waiting;
	size_t waiting_count;
	uint32_t control_sequence;

	bool stopping;
	bool ended;
	struct gb_sup_stopper *stoppers;
	char note[256]; /* what is wrong just now, "" if nothing */
	char end_text[512]; /* how it ended, for the file "last" */
};

/* relay.c: requests between clients and agent */
int gb_sup_client_frame(struct gb_sup_client *c, const struct gb_frame *f, struct gb_err *err);
int gb_sup_agent_frame(struct gb_sup *s, const struct gb_frame *f, struct gb_err *err);
/* Cancels what it asked for, drops what waits. */
void gb_sup_client_forget(struct gb_sup_client *c);
/* Tells every request that is open or waits. */
void gb_sup_fail_requests(struct gb_sup *s, const struct gb_err *reason);
unsigned gb_sup_requests(const struct gb_sup *s);

/* control.c: status, the guest's clock, notes */
void gb_sup_send_status(struct gb_sup_client *c, uint32_t id);
void gb_sup_send_time(struct gb_sup *s);
void gb_sup_send_error(struct gb_sup_client *c, uint32_t id, const struct gb_err *e);
void gb_sup_send_note(struct gb_sup *s, const char *text);
/* An id for a request of our own to the agent: never that of a slot. */
uint32_t gb_sup_control_id(struct gb_sup *s);
bool gb_sup_is_control_id(uint32_t id);

/* end.c: stopping and what else ends the machine */
int gb_sup_watch(struct gb_sup *s, struct gb_err *err);
void gb_sup_stop(struct gb_sup *s, uint32_t deadline_ms, bool force);
/* The machine is lost: tell everybody, end. */
void gb_sup_fail(struct gb_sup *s, const struct gb_err *reason);
/* The agent hung up or broke the protocol. */
void gb_sup_agent_ended(struct gb_sup *s, const struct gb_err *reason);

#endif
