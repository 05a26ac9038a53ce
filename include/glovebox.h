/* glovebox: a machine of its own for an agent's commands, as a library.
 *
 * A workspace is a small virtual machine with a folder of the host at /work. Its owner
 * (struct glovebox_workspace) launches or opens it and shuts it down; capabilities
 * (struct glovebox_tools) run commands and tools in it; a request (struct glovebox_request) is
 * one such thing under way.
 *
 *	struct glovebox_launch_options options = { .size = sizeof(options), .directory = "." };
 *	struct glovebox_workspace *ws;
 *	struct glovebox_error err;
 *
 *	if (glovebox_workspace_launch(&options, &ws, &err) < 0)
 *		errx(1, "%s", err.message);
 *
 * Conventions
 *   - A function that can fail returns 0 (or a count) or a negative GLOVEBOX_E_* code, and takes
 *     a struct glovebox_error * last, which may be NULL and is written only on failure. What
 *     is returned through a pointer is untouched on failure, unless its text says otherwise.
 *   - Structs that you fill begin with size, which you set to the struct's size; all other
 *     members may be 0 (in C++: "glovebox_launch_options o = {}; o.size = sizeof(o);"). A
 *     member that is 0 or NULL means its default. So they may grow: what an older program did
 *     not know is 0. Structs that the library returns by pointer begin with size too, and are
 *     released with the function that their text names.
 *   - Strings are NUL-terminated UTF-8 and borrowed for the call, unless "owned" is said.
 *     NULL for a handle in a _free or _unref function is fine.
 *   - Times are milliseconds (_ms) or nanoseconds (_ns), sizes are bytes.
 *   - What a machine sends (output, notes, file contents) is not to be trusted.
 *
 * Threads: all functions may be called from any thread. A capability and a workspace may be
 * used by many threads at once; a request by one thread at a time, save for
 * glovebox_request_cancel and glovebox_request_signal, which are allowed beside a waiting
 * thread. Callbacks run in the thread that made the call, before it returns. The library has
 * one thread of its own for each workspace (and one for each tool call that was started with
 * glovebox_tool_start); they block all signals and never run code of yours.
 *
 * Processes: descriptors are close-on-exec, SIGPIPE is never raised, signal handlers and the
 * environment stay as they are. After fork() without exec the child must not use its parent's
 * handles: calls fail with GLOVEBOX_E_STATE there, and _free releases only memory. As long as
 * such a child lives, a bound machine lives too. Where SIGCHLD is ignored, launching does not
 * work.
 *
 * Environment: GLOVEBOX_HOME or the XDG variables say where machines and images are kept, as for
 * the glovebox command; GLOVEBOX_LIBEXEC where the helper programs are. */
#ifndef GLOVEBOX_H
#define GLOVEBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GLOVEBOX_API __attribute__((visibility("default")))
#else
#define GLOVEBOX_API
#endif

#define GLOVEBOX_VERSION_MAJOR 0
#define GLOVEBOX_VERSION_MINOR 1

/* The version of the library that is loaded, "0.1.0"; static. */
GLOVEBOX_API const char *glovebox_version(void);

/* ---- errors and the log ------------------------------------------------------------------ */

/* By what the caller can do about it. */
enum glovebox_error_code {
	GLOVEBOX_OK = 0,
	GLOVEBOX_E_INVALID = -1,      /* an argument is wrong */
	GLOVEBOX_E_PARSE = -2,        /* malformed input */
	GLOVEBOX_E_NOTFOUND = -3,     /* there is no such thing */
	GLOVEBOX_E_EXISTS = -4,       /* it is there already */
	GLOVEBOX_E_DENIED = -5,       /* not permitted */
	GLOVEBOX_E_LIMIT = -6,        /* over a limit */
	GLOVEBOX_E_BUSY = -7,         /* in use */
	GLOVEBOX_E_TIMEOUT = -8,      /* the time was not enough */
	GLOVEBOX_E_CLOSED = -9,       /* the machine is gone */
	GLOVEBOX_E_NOMEM = -10,       /* out of memory */
	GLOVEBOX_E_NOSPACE = -11,     /* no space left */
	GLOVEBOX_E_IO = -12,          /* a system call failed */
	GLOVEBOX_E_UNSUPPORTED = -13, /* not supported here */
	GLOVEBOX_E_STATE = -14,       /* not possible in this state */
	GLOVEBOX_E_CANCELLED = -15,   /* it was cancelled */
	GLOVEBOX_E_PROTOCOL = -16     /* the machine broke the protocol: it is lost */
};

/* Lives with the caller; nothing to release. For the operator: it may name paths and processes
 * of the host. */
struct glovebox_error {
	int code;          /* GLOVEBOX_E_* */
	int sys;           /* errno behind it, 0 if none */
	char message[512]; /* lower case, no full stop, cut where it is longer */
};

/* What a model may be told: the message, but one fixed sentence where the machine itself was
 * lost. Borrowed from err, or static. */
GLOVEBOX_API const char *glovebox_error_for_model(const struct glovebox_error *err);
/* A short text for a code, never NULL; static. */
GLOVEBOX_API const char *glovebox_code_text(int code);

enum glovebox_log_level {
	GLOVEBOX_LOG_ERROR = 0,
	GLOVEBOX_LOG_WARN = 1,
	GLOVEBOX_LOG_INFO = 2,
	GLOVEBOX_LOG_DEBUG = 3
};
/* One line without newline. Called in threads that are inside of a library call; must not call
 * the library. */
typedef void (*glovebox_log_fn)(void *ctx, enum glovebox_log_level level, const char *line);
/* Where the library's log goes, for the process; NULL (the default): nowhere. Set it before the
 * first workspace. The log holds no command, content or environment value. */
GLOVEBOX_API void glovebox_set_log(glovebox_log_fn fn, void *ctx, enum glovebox_log_level max);

/* Release memory that a function returned as "free with glovebox_free". */
GLOVEBOX_API void glovebox_free(void *memory);

/* ---- workspaces: the owner --------------------------------------------------------------- */

struct glovebox_workspace;
struct glovebox_tools;
struct glovebox_request;

/* A line about a start's progress ("making a template…"); in the calling thread. */
typedef void (*glovebox_progress_fn)(void *ctx, const char *line);

struct glovebox_share {
	const char *host;  /* an existing folder */
	const char *guest; /* absolute path inside */
	bool read_only;
};

enum glovebox_launch_flag {
	/* The machine lives until it is shut down or stopped. Without it the machine is bound:
	 * it ends with the last handle to it (with this process at the latest). */
	GLOVEBOX_LAUNCH_RETAINED = 1 << 0
};

struct glovebox_launch_options {
	size_t size;
	const char *name;      /* of the new machine; NULL: one is made up, and the machine
	                          is removed when it ends (never with RETAINED) */
	const char *image;     /* name or digest of an image that exists
	                          (glovebox image ls); NULL: "default" */
	const char *directory; /* host folder at /work; NULL: none */
	const char *user;      /* default user inside; NULL: the image's, else root */
	const char *workdir;   /* default working directory inside; NULL: /work, or the
	                          image's where there is no directory */
	const char *const *env; /* K=V, NULL-terminated, for every command on top of the
	                          image's. Kept in a file of mode 0600, on no command line */
	const struct glovebox_share *shares; /* beside /work */
	size_t share_count;
	uint32_t cpus;         /* 0: 2 */
	uint64_t memory_bytes; /* 0: 2 GiB */
	uint64_t disk_bytes;   /* 0: 20 GiB; grows with what is written */
	const char *accel;     /* "auto", "kvm", "tcg"; NULL: auto */
	uint32_t flags;        /* enum glovebox_launch_flag */
	uint32_t start_deadline_ms; /* from call to ready, 0: 30,000. Parts that are made once
	                          on a host (a boot template) get extra time, and
	                          progress tells of them */
	glovebox_progress_fn progress; /* may be NULL */
	void *progress_ctx;
	const char *const *secrets; /* values, NULL-terminated: those of 8 bytes or more are
	                          masked in the results of tools. Never sent to the machine */
};

/* Create a machine and start it. On failure nothing is left of it. Blocks. Fails with NOTFOUND
 * (no such image, or the helper programs are missing), EXISTS (the name is taken), INVALID,
 * DENIED (a folder that must not be shared), TIMEOUT. The caller owns *ret. */
GLOVEBOX_API int glovebox_workspace_launch(const struct glovebox_launch_options *options,
	struct glovebox_workspace **ret, struct glovebox_error *err);

struct glovebox_open_options {
	size_t size;
	uint32_t flags; /* enum glovebox_launch_flag, where it has to be started */
	uint32_t start_deadline_ms;
	glovebox_progress_fn progress;
	void *progress_ctx;
	const char *const *secrets;
};

/* A machine that exists, started when it does not run. options may be NULL. Blocks. Fails with
 * NOTFOUND, TIMEOUT. The caller owns *ret. */
GLOVEBOX_API int glovebox_workspace_open(const char *machine,
	const struct glovebox_open_options *options, struct glovebox_workspace **ret,
	struct glovebox_error *err);

/* Its name; borrowed from ws. */
GLOVEBOX_API const char *glovebox_workspace_machine(const struct glovebox_workspace *ws);

/* A capability of its own: it keeps the machine alive, and is counted at shutdown. The caller
 * owns one reference. NULL when memory is out or after fork. */
GLOVEBOX_API struct glovebox_tools *glovebox_workspace_tools(struct glovebox_workspace *ws);
/* The owner's own capability, not counted; borrowed from ws. */
GLOVEBOX_API struct glovebox_tools *glovebox_workspace_own_tools(struct glovebox_workspace *ws);

/* End the machine in order: commands are ended, disks are synced. deadline_ms (0: 10,000) is the
 * guest's time; a guest that does not answer is killed then; the call takes twice that at most.
 * Fails with BUSY, naming the count, while counted capabilities live or requests of the owner's
 * own capability are pending: nothing has changed then, and it can be tried again. From its start
 * on no new request is admitted. TIMEOUT: the machine had to be killed; it is gone all the same.
 * A second one fails with CLOSED. The handle stays; free it. Blocks. */
GLOVEBOX_API int glovebox_workspace_shutdown(struct glovebox_workspace *ws, uint32_t deadline_ms,
	struct glovebox_error *err);
/* For the operator: what the machine's console and its supervisor said last, 64 KiB at most, also
 * after its end. Free *text with glovebox_free. */
GLOVEBOX_API int glovebox_workspace_logs(struct glovebox_workspace *ws, char **text,
	struct glovebox_error *err);
/* Drop the owner. Capabilities that live keep machine and shares alive; with none left a bound
 * machine is killed (soon after, not waited for), a retained one runs on. */
GLOVEBOX_API void glovebox_workspace_free(struct glovebox_workspace *ws);

/* ---- capabilities ------------------------------------------------------------------------ */

/* Returns tools. The owner's own counts with the owner, not here. */
GLOVEBOX_API struct glovebox_tools *glovebox_tools_ref(struct glovebox_tools *tools);
GLOVEBOX_API void glovebox_tools_unref(struct glovebox_tools *tools);
/* The machine's name; borrowed from tools. */
GLOVEBOX_API const char *glovebox_tools_machine(const struct glovebox_tools *tools);

/* ---- requests ---------------------------------------------------------------------------- */

/* Functions that end in _start (and those for sessions that return a request) queue a request
 * and return at once; the caller owns the request. At most GLOVEBOX_REQUESTS_MAX of a workspace
 * are in flight, further ones wait in the library in order, at most GLOVEBOX_WAITING_MAX
 * (LIMIT then). Their events are taken with _next (never blocks) or _wait (runs callbacks). What
 * is not taken is bounded: the machine's side stops when a window is full. */
#define GLOVEBOX_REQUESTS_MAX 63
#define GLOVEBOX_WAITING_MAX  1024
/* A request whose message is larger is refused with LIMIT: the workspace stays usable. */
#define GLOVEBOX_MESSAGE_MAX  1048576

enum glovebox_stream {
	GLOVEBOX_STREAM_IN = 0,
	GLOVEBOX_STREAM_OUT = 1,
	GLOVEBOX_STREAM_ERR = 2
};

enum glovebox_event_type {
	GLOVEBOX_EVENT_STARTED = 1,  /* a command runs: value is its process id inside */
	GLOVEBOX_EVENT_OUTPUT = 2,   /* data, len, stream */
	GLOVEBOX_EVENT_NOTE = 3,     /* data, len: a line for people (the host's disk is full) */
	GLOVEBOX_EVENT_WRITABLE = 4, /* after a short write: there is room again */
	GLOVEBOX_EVENT_DONE = 5      /* it ended; the last event. value is 0 or the code with
	                                which it failed (glovebox_request_wait gives its error) */
};

struct glovebox_event {
	size_t size;
	int type;         /* enum glovebox_event_type */
	int stream;       /* enum glovebox_stream */
	int64_t value;
	const void *data; /* borrowed until the next call with this request; NUL-terminated for
	                     a NOTE */
	size_t len;
};

/* Becomes readable (poll, POLLIN) while events wait, and stays so after the last one was
 * taken. Borrowed from the request: do not read from or close it. Negative on failure. */
GLOVEBOX_API int glovebox_request_fd(struct glovebox_request *request, struct glovebox_error *err);
/* 1 and an event in *event (its size set by you); 0 when there is none now, or none any more.
 * Never blocks. */
GLOVEBOX_API int glovebox_request_next(struct glovebox_request *request,
	struct glovebox_event *event, struct glovebox_error *err);
/* Whether its last frame came (events may still be waiting to be taken). */
GLOVEBOX_API bool glovebox_request_ended(struct glovebox_request *request);

struct glovebox_callbacks {
	size_t size;
	void *ctx;
	void (*started)(void *ctx, uint32_t pid);
	/* A value that is not 0 cancels the request; no further call follows. */
	int (*output)(void *ctx, int stream, const void *data, size_t len);
	void (*note)(void *ctx, const char *line);
};
/* Take events until the end, for timeout_ms at most (-1: for ever), calling callbacks (which,
 * and each of which, may be NULL: output is thrown away then). 1: it ended in order; 0: the time
 * passed, it still runs; negative: it failed, and is over: TIMEOUT by its deadline_ms, CANCELLED,
 * CLOSED or PROTOCOL when the machine was lost, else what the machine said. Can be called again
 * after the end, with the same answer. */
GLOVEBOX_API int glovebox_request_wait(struct glovebox_request *request, int64_t timeout_ms,
	const struct glovebox_callbacks *callbacks, struct glovebox_error *err);

/* Give bytes to its input (an exec with GLOVEBOX_EXEC_STDIN, an attached session, a file that is
 * written). Takes what there is room for and returns how much; a short count is followed by an
 * event WRITABLE. Never blocks. CLOSED when it has ended or its input was closed. */
GLOVEBOX_API int64_t glovebox_request_write(struct glovebox_request *request, const void *data,
	size_t len, struct glovebox_error *err);
/* End of its input. */
GLOVEBOX_API int glovebox_request_write_eof(struct glovebox_request *request,
	struct glovebox_error *err);
/* A Linux signal number to its process group, or its terminal's new size. Nothing for what has
 * ended. */
GLOVEBOX_API int glovebox_request_signal(struct glovebox_request *request, int signo,
	struct glovebox_error *err);
GLOVEBOX_API int glovebox_request_resize(struct glovebox_request *request, uint32_t rows,
	uint32_t cols, struct glovebox_error *err);
/* End it with all its processes; its last event comes when they are gone. A session that was
 * answered once lives on. Nothing for what has ended. */
GLOVEBOX_API void glovebox_request_cancel(struct glovebox_request *request);
/* Release it. What still runs is cancelled, and not waited for. */
GLOVEBOX_API void glovebox_request_free(struct glovebox_request *request);

/* ---- commands ---------------------------------------------------------------------------- */

enum glovebox_exec_flag {
	GLOVEBOX_EXEC_TTY = 1 << 0,    /* a terminal; all output comes on stream OUT */
	GLOVEBOX_EXEC_STDIN = 1 << 1,  /* its input is written with glovebox_request_write */
	GLOVEBOX_EXEC_DETACH = 1 << 2  /* no streams; done once it runs, and lives on */
};

struct glovebox_exec_options {
	size_t size;
	const char *const *argv; /* NULL-terminated, at least one; argv[0] searched in PATH */
	const char *const *env;  /* K=V, NULL-terminated, on top of the machine's */
	const char *cwd;         /* NULL: the machine's workdir */
	const char *user;        /* NULL: the machine's; "name", "uid", "uid:gid" */
	uint32_t flags;          /* enum glovebox_exec_flag */
	uint32_t rows, cols;     /* of the terminal, 0: 24 and 80 */
	uint64_t timeout_ms;     /* the command's, kept by the machine: TERM, then KILL to all of
	                            its processes; 0: none. Ends with EXIT_TIMED_OUT */
	uint64_t grace_ms;       /* between the two */
	uint64_t deadline_ms;    /* the request's, kept by the library from now on: it is
	                            cancelled and fails with TIMEOUT; 0: none */
};

enum glovebox_exit_flag {
	GLOVEBOX_EXIT_TIMED_OUT = 1 << 0,
	GLOVEBOX_EXIT_OOM = 1 << 1,       /* memory ran out among its processes */
	GLOVEBOX_EXIT_CANCELLED = 1 << 2,
	GLOVEBOX_EXIT_NOT_RUN = 1 << 3    /* code 126 or 127, note says why */
};
struct glovebox_exit {
	size_t size;
	int code;          /* 0..255 as a shell: 128+n for signals, 124 timed out */
	int signal;        /* that ended it, 0 if none */
	uint32_t flags;    /* enum glovebox_exit_flag */
	uint64_t spawn_ns; /* from before its fork to its end, by the machine's clock */
	char note[256];    /* for people: why it could not run, that memory ran out; "" */
};

GLOVEBOX_API int glovebox_exec_start(struct glovebox_tools *tools,
	const struct glovebox_exec_options *options, struct glovebox_request **ret,
	struct glovebox_error *err);
/* How it ended: for exec and attach, after the end. STATE before, or for other requests. */
GLOVEBOX_API int glovebox_request_exit(struct glovebox_request *request, struct glovebox_exit *ret,
	struct glovebox_error *err);
/* Start, wait with callbacks, and give its exit. GLOVEBOX_EXEC_STDIN is INVALID here. Blocks. */
GLOVEBOX_API int glovebox_exec(struct glovebox_tools *tools,
	const struct glovebox_exec_options *options, const struct glovebox_callbacks *callbacks,
	struct glovebox_exit *ret, struct glovebox_error *err);

enum glovebox_execute_flag {
	GLOVEBOX_EXECUTE_MIRROR_OUT = 1 << 0, /* out_fd is written too */
	GLOVEBOX_EXECUTE_MIRROR_ERR = 1 << 1  /* err_fd is written too */
};
struct glovebox_execute_options {
	size_t size;
	const char *const *argv;
	const char *const *env;
	const char *cwd;
	const char *user;
	uint32_t flags;      /* enum glovebox_execute_flag */
	uint64_t timeout_ms; /* 0: 60,000 */
	uint64_t max_output; /* of both streams together, 0: 8 MiB */
	int out_fd, err_fd;  /* get the bytes as they come; written in full, so a reader that
	                        stops stops the call. A reader that is gone is no failure */
};
struct glovebox_execution {
	size_t size;
	struct glovebox_exit exit;
	char *out_data;  /* NUL-terminated beyond out_len */
	size_t out_len;
	char *err_data;
	size_t err_len;
};
/* A command with its whole output in memory. *ret is released with glovebox_execution_free. On
 * TIMEOUT *ret is set too, with what was written until then, and no process of the command is
 * left, one second after its time at the latest. LIMIT: more than max_output was written; the
 * command was ended and there is no result. Blocks. */
GLOVEBOX_API int glovebox_execute(struct glovebox_tools *tools,
	const struct glovebox_execute_options *options, struct glovebox_execution **ret,
	struct glovebox_error *err);
GLOVEBOX_API void glovebox_execution_free(struct glovebox_execution *execution);

/* ---- retained sessions ------------------------------------------------------------------- */

/* A command whose processes outlive the request: its request is answered when the command has
 * ended, or after yield_ms, with the output since the last answer (events OUTPUT, stream OUT, at
 * most 1 MiB: the middle is left out) and a glovebox_session_output. A request that is cancelled
 * before it was answered takes the command with it. */
enum glovebox_session_flag {
	GLOVEBOX_SESSION_LOGIN = 1 << 0, /* a login shell */
	GLOVEBOX_SESSION_TTY = 1 << 1,
	GLOVEBOX_SESSION_STDIN = 1 << 2  /* a pipe for input; without it and TTY /dev/null */
};
struct glovebox_session_options {
	size_t size;
	const char *cmd;        /* text for the shell */
	const char *shell;      /* name or path; NULL: the user's */
	const char *workdir;    /* NULL: the machine's; a relative one is below that */
	const char *user;
	const char *const *env; /* K=V, NULL-terminated */
	uint32_t flags;         /* enum glovebox_session_flag */
	uint32_t rows, cols;
	uint64_t yield_ms;
	uint64_t deadline_ms;   /* as in glovebox_exec_options */
};
GLOVEBOX_API int glovebox_session_start(struct glovebox_tools *tools,
	const struct glovebox_session_options *options, struct glovebox_request **ret,
	struct glovebox_error *err);

struct glovebox_session_input {
	size_t size;
	const void *chars;   /* written whole before the wait begins; NULL: only wait */
	size_t len;
	bool eof;            /* close its input afterwards */
	int signo;           /* to its foreground process group; 0: none */
	uint32_t rows, cols; /* its terminal's new size; 0: as it is */
	uint64_t yield_ms;
	uint64_t deadline_ms;
};
/* NOTFOUND by the request when there is no such session. */
GLOVEBOX_API int glovebox_session_input(struct glovebox_tools *tools, uint64_t session,
	const struct glovebox_session_input *input, struct glovebox_request **ret,
	struct glovebox_error *err);

enum glovebox_session_state_flag {
	GLOVEBOX_SESSION_EXITED = 1 << 0, /* this was its end: the session is gone */
	GLOVEBOX_SESSION_OOM = 1 << 1,
	GLOVEBOX_SESSION_IS_TTY = 1 << 2,
	GLOVEBOX_SESSION_HAS_STDIN = 1 << 3
};
struct glovebox_session_output {
	size_t size;
	uint64_t session;
	uint32_t flags;    /* enum glovebox_session_state_flag */
	int code, signal;  /* as in glovebox_exit, once it has ended */
	uint64_t bytes;    /* written, with those left out */
	uint64_t omitted;  /* left out of the output */
	uint64_t head;     /* bytes of the output before the gap */
	uint64_t wall_ns;  /* from the request's arrival */
	uint64_t spawn_ns; /* as in glovebox_exit; 0 while it runs */
	char note[256];
};
/* For the requests of glovebox_session_start and _input, after the end. */
GLOVEBOX_API int glovebox_request_session_output(struct glovebox_request *request,
	struct glovebox_session_output *ret, struct glovebox_error *err);
/* The last bytes of its latest answer become output again (a character or secret that was cut
 * there). Blocks shortly. */
GLOVEBOX_API int glovebox_session_hold(struct glovebox_tools *tools, uint64_t session,
	uint32_t bytes, struct glovebox_error *err);

struct glovebox_attach_options {
	size_t size;
	uint32_t rows, cols; /* 0: as it is */
	uint64_t scrollback; /* bytes of earlier output that come first, at most */
	uint64_t deadline_ms;
};
/* Follow a session live: OUTPUT events, input by glovebox_request_write, an exit at its end.
 * Cancelling detaches and leaves the session alone. options may be NULL. */
GLOVEBOX_API int glovebox_session_attach(struct glovebox_tools *tools, uint64_t session,
	const struct glovebox_attach_options *options, struct glovebox_request **ret,
	struct glovebox_error *err);

struct glovebox_session_info {
	uint64_t session;
	uint32_t flags; /* enum glovebox_session_state_flag; EXITED: it waits for its last reader */
	int code, signal;
	uint32_t pid;
	char *cmd;     /* owned by the list */
	char *workdir; /* owned by the list */
	uint64_t started_realtime_ns;
	uint64_t bytes;
	uint32_t attached; /* how many follow it */
};
struct glovebox_session_list {
	size_t size;
	size_t count;
	size_t stride; /* bytes from one entry to the next: read entry i at
	                  (char *)list->sessions + i * list->stride */
	struct glovebox_session_info *sessions;
};
/* All sessions. *ret is released with glovebox_session_list_free. Blocks shortly. */
GLOVEBOX_API int glovebox_sessions(struct glovebox_tools *tools, struct glovebox_session_list **ret,
	struct glovebox_error *err);
GLOVEBOX_API void glovebox_session_list_free(struct glovebox_session_list *list);
/* End a session, or (0) every session and every running command, with all their processes, those
 * that called setsid too. Returns when they are gone; the machine stays usable. */
GLOVEBOX_API int glovebox_terminate(struct glovebox_tools *tools, uint64_t session,
	struct glovebox_error *err);

/* ---- files ------------------------------------------------------------------------------- */

struct glovebox_file_options {
	size_t size;
	const char *user;    /* who reads, or owns what is written; NULL: the machine's */
	uint64_t limit;      /* reading: LIMIT for a larger file, before anything is sent;
	                        0: 32 MiB */
	uint32_t mode;       /* writing: permission bits, exact; 0: 0644, folders 0755 */
	bool set_mtime;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint64_t deadline_ms;
};
struct glovebox_file_info {
	size_t size;
	uint64_t bytes;
	uint32_t mode;
	int64_t mtime_s;
	uint32_t mtime_ns;
};

/* The bytes of a regular file as OUTPUT events; anything else (a FIFO, a device) fails with
 * INVALID at once. Paths are absolute or relative to the machine's workdir. options may be NULL
 * here and below. */
GLOVEBOX_API int glovebox_read_start(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, struct glovebox_request **ret,
	struct glovebox_error *err);
/* For a request of glovebox_read_start, from its first OUTPUT on. */
GLOVEBOX_API int glovebox_request_file_info(struct glovebox_request *request,
	struct glovebox_file_info *ret, struct glovebox_error *err);
/* A whole file in memory, NUL-terminated beyond *len; free *data with glovebox_free. Blocks. */
GLOVEBOX_API int glovebox_read_file(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, void **data, size_t *len,
	struct glovebox_error *err);
/* A file's new content is given with glovebox_request_write and _write_eof; the file at path is
 * replaced as a whole after that, or not at all. Parents are created. */
GLOVEBOX_API int glovebox_write_start(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, struct glovebox_request **ret,
	struct glovebox_error *err);
GLOVEBOX_API int glovebox_write_file(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, const void *data, size_t len,
	struct glovebox_error *err);
/* A folder and its parents; one that exists is fine. Blocks. */
GLOVEBOX_API int glovebox_create_directory(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, struct glovebox_error *err);
/* A file, link or tree of the host into the machine or back, as "glovebox cp". Blocks. */
GLOVEBOX_API int glovebox_copy_in(struct glovebox_tools *tools, const char *host, const char *guest,
	const char *user, struct glovebox_error *err);
GLOVEBOX_API int glovebox_copy_out(struct glovebox_tools *tools, const char *guest,
	const char *host, struct glovebox_error *err);

/* ---- the machine itself ------------------------------------------------------------------ */

struct glovebox_memory_info {
	size_t size;
	bool known; /* false: the machine did not say within a second; the rest is 0 */
	uint64_t total_kib;
	uint64_t available_min_kib; /* the least that was available since its start */
	uint64_t oom_kills;         /* since its start */
};
/* Fails only where the machine is lost. Blocks for a second at most. */
GLOVEBOX_API int glovebox_memory(struct glovebox_tools *tools, struct glovebox_memory_info *ret,
	struct glovebox_error *err);
/* Nothing, to the machine and back; to measure, or to see that it lives. */
GLOVEBOX_API int glovebox_ping_start(struct glovebox_tools *tools, uint64_t deadline_ms,
	struct glovebox_request **ret, struct glovebox_error *err);
GLOVEBOX_API int glovebox_ping(struct glovebox_tools *tools, uint64_t deadline_ms,
	struct glovebox_error *err);

/* ---- the model's tools ------------------------------------------------------------------- */

/* exec_command, write_stdin, apply_patch and view_image as models know them: what a model sends
 * as arguments goes in as it is, and the text that it gets comes out. */
enum glovebox_tool_flag {
	GLOVEBOX_TOOL_READ_ONLY = 1 << 0,  /* it changes nothing */
	GLOVEBOX_TOOL_PARALLEL = 1 << 1,   /* calls may run at the same time */
	GLOVEBOX_TOOL_FREEFORM = 1 << 2    /* it can be offered as text with grammar too */
};
struct glovebox_tool_definition {
	size_t size;
	const char *name;
	const char *description;
	const char *parameters_json;    /* JSON schema of the arguments */
	const char *output_schema_json; /* of structured_json; NULL: none */
	const char *grammar;            /* Lark, for FREEFORM; else NULL */
	uint32_t flags;                 /* enum glovebox_tool_flag */
};
/* All tools; static. The entry i is at (char *)first + i * first->size. */
GLOVEBOX_API const struct glovebox_tool_definition *glovebox_tool_definitions(size_t *count);

struct glovebox_tool_options {
	size_t size;
	const char *workdir;  /* what relative paths are relative to; NULL: the machine's */
	const char *user;     /* NULL: the machine's */
	const char *shell;    /* where the model names none; NULL: the user's */
	uint64_t deadline_ms; /* 0: none. The call fails with TIMEOUT */
	bool patch_outside;   /* apply_patch may name files outside of workdir */
	const char *const *env; /* K=V, NULL-terminated, for commands, on top of the machine's */
};
/* success false: the tool failed in a way that the model shall see in text. */
struct glovebox_tool_result {
	size_t size;
	bool success;
	char *text;            /* for the model; NUL-terminated beyond text_len, and may hold NUL */
	size_t text_len;
	char *structured_json; /* NULL: none */
	void *image;           /* NULL: none */
	size_t image_len;
	char *image_mime;      /* "image/png" */
	uint64_t spawn_ns;     /* exec_command that ended: as in glovebox_exit */
};
/* arguments_json is an object; for apply_patch also the bare patch. Malformed arguments are a
 * result without success, not a failure; an unknown tool is NOTFOUND. Failure is for the
 * operator: the machine was lost, memory is out, TIMEOUT, CANCELLED. *ret is released with
 * glovebox_tool_result_free. options may be NULL. Blocks. */
GLOVEBOX_API int glovebox_tool_call(struct glovebox_tools *tools, const char *name,
	const char *arguments_json, const struct glovebox_tool_options *options,
	struct glovebox_tool_result **ret, struct glovebox_error *err);
/* The same as a request, for event loops: DONE comes when the result is there. Cancelling ends a
 * command that was not yet answered. */
GLOVEBOX_API int glovebox_tool_start(struct glovebox_tools *tools, const char *name,
	const char *arguments_json, const struct glovebox_tool_options *options,
	struct glovebox_request **ret, struct glovebox_error *err);
/* Its result, once, after the end; the caller owns *ret. Fails as glovebox_tool_call would have. */
GLOVEBOX_API int glovebox_request_tool_result(struct glovebox_request *request,
	struct glovebox_tool_result **ret, struct glovebox_error *err);
GLOVEBOX_API void glovebox_tool_result_free(struct glovebox_tool_result *result);

#ifdef __cplusplus
}
#endif

#endif
