/* What each kind of job does when it has started and when it is done. */
#ifndef GB_GUEST_ANSWER_H
#define GB_GUEST_ANSWER_H

#include "guest/agent.h"

/* The child has executed, or has ended before it could. */
void gb_job_on_started(struct gb_agent *a, struct gb_job *j);
/* The last frame of the request; the slot is free afterwards (a measurement may go on). */
void gb_job_answer(struct gb_agent *a, struct gb_job *j);
/* To the process group; on a terminal to its foreground group. */
void gb_job_signal(struct gb_job *j, int signo);
/* Ends of the streams; what is still held by the background is kept and drained. */
void gb_job_close_streams(struct gb_agent *a, struct gb_job *j);
/* drain.c: take over a descriptor from w. */
void gb_drain_keep(struct gb_agent *a, struct gb_watch *w);
void gb_drain_sweep(struct gb_agent *a);

/* Starting them, from their frames. On failure nothing is left, and the caller answers. */
int gb_exec_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_own_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_share_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);
int gb_bench_start(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err);

/* A terminal whose slave belongs to the user; both ends owned by the caller. */
int gb_terminal_open(struct gb_agent *a, const struct gb_user *u, int *ret_master, int *ret_slave,
	struct gb_err *err);
void gb_terminal_resize(int fd, uint32_t rows, uint32_t cols);
/* To the foreground group of a terminal (-1: none), else to the group of pid. */
void gb_signal_group(int terminal, pid_t pid, bool reaped, int signo);
/* As a shell tells it, from what waitpid said. */
void gb_exit_of(int status, uint32_t *code, uint32_t *signo);
/* ours: the index of the end that does not block; bulk: it is made larger. */
int gb_exec_make_pipe(int p[2], int ours, bool bulk, struct gb_err *err);
/* Pipes for a command's output, with our ends non-blocking. On failure none is left. */
int gb_exec_make_pipes(struct gb_pipes *ret, struct gb_err *err);

/* Their parts of the two at the top. */
void gb_exec_started(struct gb_agent *a, struct gb_job *j, struct gb_report *r);
void gb_own_turn(struct gb_agent *a, struct gb_job *j);
void gb_own_answer(struct gb_agent *a, struct gb_job *j);
void gb_bench_answer(struct gb_agent *a, struct gb_job *j);
void gb_exec_answer(struct gb_agent *a, struct gb_job *j);
void gb_exec_resize(struct gb_job *j, const struct gb_frame *f);
void gb_share_answer(struct gb_agent *a, struct gb_job *j);
void gb_bench_turn(struct gb_agent *a, struct gb_job *j);
bool gb_bench_pending(const struct gb_agent *a, const struct gb_job *j);
void gb_bench_reaped(struct gb_agent *a, struct gb_job *j);

#endif
