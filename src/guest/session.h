/* Retained sessions: commands that outlive the request that started them.
 *
 *   STARTING --executed--> LIVE --shell ended, or killed--> ENDING --group empty--> ENDED
 *
 * A session has one pipe (or terminal) for both streams, so that they come in order. What it
 * writes is read at once, whoever waits: kept are the first and the last half of what came
 * since the last answer, and the end of all for who attaches. So a program is never held up,
 * and never fills the memory.
 *
 * When the shell ends its whole group is killed: nothing of a finished command is left. A
 * session that has ended is kept until its end was told to somebody.
 *
 * Requests wait for a session as jobs: START and INPUT until it ends or their time is over,
 * one at a time; ATTACH until it ends, any number. A START that is cancelled before it was
 * answered takes the session with it, and is answered when that is gone. */
#ifndef GB_GUEST_SESSION_H
#define GB_GUEST_SESSION_H

#include "guest/agent.h"
#include "guest/capture.h"
#include "proto/msg.h"

#define GB_SESSIONS_LIVE_MAX  64u /* running at once */
#define GB_SESSIONS_ENDED_MAX 64u /* whose end nobody has asked for; the oldest goes first */
#define GB_SESSION_SCROLLBACK ((size_t)256 << 10) /* bytes that who attaches can see again */
#define GB_SESSION_HOLD_MAX   ((size_t)64 << 10)  /* bytes that can be given back */
#define GB_SESSION_INPUT_MAX  ((size_t)4 << 20)   /* bytes that wait for it to read them */
#define GB_SESSION_YIELD_MAX  UINT64_C(300000)    /* ms that a request waits at most */
#define GB_ATTACH_QUEUE       ((size_t)1 << 20)   /* bytes that wait for a slow follower */

enum gb_session_state {
	GB_SESSION_STARTING,
	GB_SESSION_LIVE,
	GB_SESSION_ENDING, /* its group was killed */
	GB_SESSION_ENDED,
};

struct gb_session {
	struct gb_session *next;
	uint64_t id;
	enum gb_session_state state;
	pid_t pid;
	int status; /* as of waitpid */
	bool reaped;
	bool tty;
	bool has_stdin;
	bool doomed; /* killed, not ended by itself */
	bool input_eof; /* close its input after what is pending */
	bool oom;
	uint32_t shown_pid; /* as the tools see it */
	struct gb_cgroup *cgroup;
	struct gb_watch started, out, in;
	bool started_end;
	struct gb_buf pending; /* input */
	size_t written;
	struct gb_capture capture;
	struct gb_ring scrollback;
	struct gb_buf last; /* the end of the last answer, for HOLD */
	char *cmd, *workdir; /* owned */
	struct gb_err failure; /* it could not be started */
	uint64_t bytes;
	uint64_t begun, spawn_ns, started_realtime;
	uint64_t drain_at;
	struct gb_job *waiter;
};

/* Requests; on failure nothing is left and the caller answers. */
int gb_session_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_session_input(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_session_hold(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_session_list(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_session_attach(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_session_terminate(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);

/* Once a turn of the loop, before the jobs. */
void gb_sessions_turn(struct gb_agent *a);
/* Whether one runs. */
bool gb_sessions_live(const struct gb_agent *a);
bool gb_sessions_pending(const struct gb_agent *a);
uint64_t gb_sessions_deadline(const struct gb_agent *a);
/* False: none of them has this process. */
bool gb_session_reaped(struct gb_agent *a, pid_t pid, int status);

/* session.c to session_job.c */
struct gb_session *gb_session_find(const struct gb_agent *a, uint64_t id);
int gb_session_new(struct gb_agent *a, struct gb_job *j, const struct gb_msg_session_start *m,
	struct gb_err *err);
/* Bytes to its input; GB_E_STATE where it has none, GB_E_BUSY when it does not read. */
int gb_session_feed(struct gb_session *s, const void *data, size_t len, struct gb_err *err);
void gb_session_signal(const struct gb_session *s, int signo);
void gb_session_kill(struct gb_agent *a, struct gb_session *s);
void gb_session_forget(struct gb_agent *a, struct gb_session *s);

/* session_job.c: jobs of the kinds SESSION, ATTACH, TERMINATE. */
void gb_session_job_turn(struct gb_agent *a, struct gb_job *j);
bool gb_session_job_pending(const struct gb_agent *a, const struct gb_job *j);
void gb_session_job_answer(struct gb_agent *a, struct gb_job *j);
void gb_session_job_free(struct gb_agent *a, struct gb_job *j);
void gb_session_job_signal(struct gb_agent *a, struct gb_job *j, int signo);
void gb_session_job_resize(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f);
uint64_t gb_session_job_deadline(const struct gb_job *j);
/* What a session has just written goes to those who follow it. */
void gb_attached_add(struct gb_agent *a, const struct gb_session *s, const void *data, size_t len);
/* It has ended. */
void gb_attached_end(struct gb_agent *a, const struct gb_session *s);

#endif
