/* Requests that take their time: a command, a copy, a mount, a measurement.
 *
 *   STARTING --exec done--> RUNNING --main process ended--> DRAINING --> answered
 *       |                      |  cancel, timeout + grace, broken peer      ^
 *       +----------------------+----------------> ENDING --all gone---------+
 *
 * STARTING: the child prepares itself; nothing is sent. RUNNING: streams flow. DRAINING: what
 * the main process wrote is still delivered; what its children in the background hold open
 * delays the answer for a moment only. ENDING: its cgroup was killed and is waited for. */
#ifndef GB_GUEST_JOB_H
#define GB_GUEST_JOB_H

#include "base/buf.h"
#include "guest/watch.h"
#include "proto/flow.h"
#include "proto/frame.h"

#include <sys/types.h>

#define GB_JOB_MAX 64 /* live requests */

enum gb_job_kind {
	GB_JOB_NONE, /* the slot is free */
	GB_JOB_EXEC,
	GB_JOB_OWN,       /* our own code does it in a child: copies, files, patches */
	GB_JOB_SHARE,
	GB_JOB_SESSION,   /* waits for a session */
	GB_JOB_ATTACH,    /* follows one */
	GB_JOB_TERMINATE, /* waits for the end of some */
	GB_JOB_SPAWN, /* BENCH of each kind */
	GB_JOB_SEND,
	GB_JOB_RECV,
};
enum gb_job_state { GB_JOB_STARTING, GB_JOB_RUNNING, GB_JOB_DRAINING, GB_JOB_ENDING };

struct gb_out { /* child to host */
	struct gb_watch w; /* fd -1: ended or not used */
	struct gb_flow_sender flow;
	uint16_t stream;
	uint64_t owed;  /* what the main process left in the pipe and must still be sent */
	bool bulk;      /* much came at once: more is likely to */
	bool used;      /* the host expects an EOF on it */
	bool eof_sent;
};
struct gb_in { /* host to child */
	struct gb_watch w;
	struct gb_flow_receiver flow;
	struct gb_buf pending; /* owned: arrived, not yet written */
	size_t written;        /* bytes at its front that are done */
	bool used;
	bool eof; /* nothing follows pending */
};

/* In memory that is shared with a child until it execs. */
struct gb_report {
	int pid;   /* as the tools see it */
	int stage; /* enum gb_stage: what failed; 0: nothing */
	struct gb_err err;
	bool file_there; /* what follows is filled in */
	uint32_t file_mode;
	uint64_t file_size;
	int64_t file_mtime_s;
	uint32_t file_mtime_ns;
};

struct gb_job {
	enum gb_job_kind kind;
	enum gb_job_state state;
	uint32_t request;
	pid_t pid;
	int status; /* as of waitpid */
	bool reaped;
	bool tty;
	bool detached;
	bool cancelled;
	bool timed_out;
	bool killed;           /* cgroup.kill was written */
	struct gb_err failure; /* code < 0: the peer broke the rules; the answer is this */
	struct gb_cgroup *cgroup; /* borrowed from the pool; NULL: none */
	struct gb_watch started;  /* end of file when the child has executed */
	bool started_end;
	struct gb_out out[2];
	struct gb_in in;
	uint64_t begun;      /* before clone */
	uint64_t spawn_ns;   /* until it was reaped */
	uint64_t timeout_at; /* deadlines; GB_NEVER: none */
	uint64_t kill_at;
	uint64_t idle_at;
	uint64_t drain_at;
	uint64_t grace_ms;
	char *program;       /* owned: argv[0], for messages */
	struct gb_session_job *session; /* owned; sessions */
	uint8_t frame; /* OWN: the type of its request */
	bool told;     /* OWN: what is known of its file was sent */
	/* shares */
	uint32_t index;
	int fuse; /* owned */
	/* measurements */
	uint64_t amount, done;
};

/* Two pipes for a command's output, made before it is asked for: [0] is ours, [1] the child's. */
struct gb_pipes {
	bool there;
	int out[2], err[2]; /* owned */
};

/* A pipe whose command was answered while something in the background holds it: it is read
 * and thrown away, so that nobody gets a SIGPIPE for it. */
struct gb_drain {
	struct gb_watch w;
	struct gb_drain *next;
};
#define GB_DRAIN_MAX 4096

/* A free slot, cleared; NULL: too many. */
struct gb_job *gb_job_new(struct gb_agent *a, enum gb_job_kind kind, uint32_t request);
/* The live request with this id, or NULL. */
struct gb_job *gb_job_find(struct gb_agent *a, uint32_t request);
/* Close and release all that it holds; the slot is free afterwards. */
void gb_job_free(struct gb_agent *a, struct gb_job *j);
/* Answer with an error and free. */
void gb_job_fail(struct gb_agent *a, struct gb_job *j, const struct gb_err *err);
int gb_job_watch_started(struct gb_agent *a, struct gb_job *j, int fd_consume, struct gb_err *err);
/* Take over the agent's ends of its pipes. */
int gb_job_use_out(struct gb_agent *a, struct gb_job *j, int i, int fd_consume, struct gb_err *err);
int gb_job_use_in(struct gb_agent *a, struct gb_job *j, int fd_consume, struct gb_err *err);

/* Frames for a live request: DATA, CREDIT, CANCEL. */
void gb_job_data(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f);
void gb_job_credit(struct gb_agent *a, struct gb_job *j, const struct gb_frame *f);
void gb_job_cancel(struct gb_agent *a, struct gb_job *j);
/* Kill all its processes; its answer follows when they are gone. */
void gb_job_end(struct gb_agent *a, struct gb_job *j);
/* The peer broke the rules of this request: end it, answer with err. */
void gb_job_break(struct gb_agent *a, struct gb_job *j, const struct gb_err *err);

/* A child was reaped. */
void gb_job_reaped(struct gb_agent *a, pid_t pid, int status);
/* Once a turn of the loop: move bytes, fire deadlines, answer what is done. */
void gb_jobs_turn(struct gb_agent *a);
/* Whether bytes could be moved at once, and when to look again otherwise. */
/* When nothing else is to be done: what the next request would have to wait for. */
void gb_jobs_prepare(struct gb_agent *a);
bool gb_jobs_pending(struct gb_agent *a);
uint64_t gb_jobs_deadline(struct gb_agent *a);

#endif
