/* Reaching a machine: starting its supervisor, and requests over its socket. Blocking, one
 * client is used from one thread. */
#ifndef GB_MACHINE_CLIENT_H
#define GB_MACHINE_CLIENT_H

#include "machine/store.h"
#include "proto/msg.h"

struct gb_client;

/* One line a step ("making a template…"), for a person. */
typedef void (*gb_client_progress)(void *ctx, const char *line);

/* Start the machine if it does not run. Two at once: one starts it, both succeed. One that is
 * just ending (stopped, or killed a moment ago) is waited for, then started anew.
 * bound: the supervisor ends with its last client (run --rm). *ret (may be NULL) is a
 * connection that was made before the supervisor could end. */
int gb_client_start(const struct gb_dirs *d, const char *name, bool bound,
	gb_client_progress progress, void *ctx, struct gb_client **ret, struct gb_err *err);
/* The same with a deadline: a start that is not over then is killed, GB_E_TIMEOUT. What is made
 * once on a host (progress tells) has time of its own. */
struct gb_client_start_options {
	bool bound;
	uint64_t deadline_ms; /* 0: some minutes */
	gb_client_progress progress; /* may be NULL */
	void *ctx;
};
int gb_client_start_with(const struct gb_dirs *d, const char *name,
	const struct gb_client_start_options *options, struct gb_client **ret,
	struct gb_err *err);
/* GB_E_STATE when it does not run: the message says how to start it. */
int gb_client_connect(const struct gb_dirs *d, const char *name, struct gb_client **ret,
	struct gb_err *err);
struct gb_client *gb_client_free(struct gb_client *c); /* NULL is fine; returns NULL */
GB_DEFINE_CLEANUP(gb_client)

/* For who uses the connection in another way: its wire, and the first request id that was not
 * used. Answers to earlier ones may still come. */
struct gb_wire;
void gb_client_release(struct gb_client *c_consume, struct gb_wire *ret, uint32_t *ret_next);
/* The machine's supervisor as a descriptor (pidfd, owned): readable when it has ended. -1 when
 * there is none. */
int gb_client_watch(const struct gb_dirs *d, const char *name);
/* SIGKILL to the machine's supervisor, with which its VM ends; waits until it is gone. Not running
 * is fine. */
int gb_client_kill(const struct gb_dirs *d, const char *name, uint64_t deadline_ns,
	struct gb_err *err);

/* Decoded reply owned by the caller (gb_msg_status_done). */
int gb_client_status(struct gb_client *c, struct gb_msg_status *ret, struct gb_err *err);
/* Stop and wait until the supervisor is gone, found by its lock even when its socket was
 * deleted. Not running is fine. force: do not ask the guest. */
int gb_client_stop(const struct gb_dirs *d, const char *name, uint64_t deadline_ms, bool force,
	struct gb_err *err);

/* One command with its streams. in/out/err are borrowed descriptors, -1: not used. With
 * GB_EXEC_TTY in msg->flags the caller has put the terminal in raw mode; winch_fd (or -1) is
 * a descriptor that becomes readable when the terminal's size changed (the byte is drained),
 * size is then read from out. signal_fd (or -1): each byte read is a signal number that is
 * sent to the command's process group. Returns 0 when the command ended or was started
 * detached: *ret is its exit (owned strings: gb_msg_exit_done). */
struct gb_exec_io {
	int in, out, err;
	int winch_fd;
	int signal_fd;
	gb_client_progress note; /* lines for people that come meanwhile; may be NULL */
	void *note_ctx;
};
int gb_client_exec(struct gb_client *c, const struct gb_msg_exec *msg, const struct gb_exec_io *io,
	struct gb_msg_exit *ret, struct gb_err *err);

/* Trees in and out; progress gets (done bytes) now and then. host paths are the caller's. */
typedef void (*gb_copy_progress)(void *ctx, uint64_t bytes, const char *path);
int gb_client_copy_in(struct gb_client *c, const char *host, const char *guest, const char *user,
	gb_copy_progress progress, void *ctx, struct gb_err *err);
int gb_client_copy_out(struct gb_client *c, const char *guest, const char *host,
	gb_copy_progress progress, void *ctx, struct gb_err *err);
/* amount as in gb_msg_bench; *ret_ns by the agent's clock. */
int gb_client_bench(struct gb_client *c, enum gb_bench_kind kind, uint64_t amount,
	uint64_t *ret_amount, uint64_t *ret_ns, struct gb_err *err);

#endif
