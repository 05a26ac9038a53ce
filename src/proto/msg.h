/* Messages: every payload as a struct and one table of its fields, encoded and decoded by
 * that table in host and guest alike.
 *
 * On the wire fields follow each other in table order: integers little-endian; strings and
 * bytes as u32 length and content (strings: no NUL inside); lists as u32 count and strings.
 * A decoder takes the whole payload or fails: nothing may be missing or left over. */
#ifndef GB_PROTO_MSG_H
#define GB_PROTO_MSG_H

#include "base/buf.h"

#define GB_MSG_LIST_MAX   65536u /* entries of one list */
#define GB_MSG_STR_MAX    (256u << 10) /* bytes of one string */

struct gb_bytes {
	uint8_t *data; /* owned */
	size_t len;
};
struct gb_list { /* owned strings, NULL-terminated vector; v is never NULL after decoding */
	char **v;
	size_t n;
};

/* X-macro a message: kind, field. Kinds: u32, u64, i64, str (char *, owned), bytes, list. */
#define GB_MSG_HELLO(F) /* role: "client", "supervisor", "agent" */                      \
	F(u32, version) F(u32, features) F(str, role) F(str, software)
#define GB_MSG_ERROR(F) /* code: GB_E_*, as two's complement; sys: errno or 0 */         \
	F(u32, code) F(u32, sys) F(str, text)
#define GB_MSG_CREDIT(F) F(u32, bytes)
#define GB_MSG_CONFIGURE(F)                                                              \
	F(str, hostname)    /* 1..63 letters, digits, '-' */                             \
	F(str, machine_id)  /* 32 hex digits, written to /etc/machine-id when it is empty or absent */ \
	F(u64, realtime_ns) /* host CLOCK_REALTIME when it was sent */                   \
	F(bytes, entropy)   /* 32..256 bytes for the kernel's pool, before anything runs */ \
	F(str, root_serial) /* serial of the root block device */                        \
	F(u32, flags)       /* enum gb_configure_flag */                                 \
	F(str, user)        /* default user: "", "name", "uid", "uid:gid", "name:group" */ \
	F(str, workdir)     /* default working directory; "" is "/" */                   \
	F(list, env)        /* K=V that every command gets (the image's) */
#define GB_MSG_CONFIGURED(F)                                                             \
	F(u32, uid) F(u32, gid)           /* of the default user */                      \
	F(str, kernel)                    /* uname -r */                                 \
	F(u64, boot_ns)                   /* CLOCK_BOOTTIME now */                       \
	F(u64, mount_ns)                  /* how long mounting the root took */          \
	F(u64, disk_bytes)                /* size of the root device */                  \
	F(u32, fsck)                      /* 1: the root's journal was replayed */
#define GB_MSG_TIME(F) F(u64, realtime_ns) F(bytes, entropy)
#define GB_MSG_SHARE(F)                                                                  \
	F(u32, index)  /* stream number on the share port, 0..63 */                      \
	F(str, target) /* absolute path in the guest, created when missing */            \
	F(u32, flags)  /* enum gb_share_flag */
#define GB_MSG_SHUTDOWN(F) F(u32, deadline_ms)
#define GB_MSG_EXEC(F)                                                                   \
	F(list, argv)                                                                    \
	F(list, env)        /* K=V on top of the configured ones; later wins */          \
	F(str, cwd)         /* "": the configured workdir */                             \
	F(str, user)        /* "": the configured user; forms as in configure */         \
	F(u32, flags)       /* enum gb_exec_flag */                                      \
	F(u32, rows) F(u32, cols)                                                        \
	F(u64, timeout_ms)  /* 0: none. TERM to the group, then KILL to all of it */     \
	F(u64, grace_ms)    /* between the two */
#define GB_MSG_STARTED(F) F(u32, pid) /* in the tools' pid namespace */
#define GB_MSG_EXIT(F)                                                                   \
	F(u32, code)     /* 0..255 as a shell: 128+n for signals, 124 timed out,         \
	                    126 not executable, 127 not found */                         \
	F(u32, signal)   /* that ended it, 0 if none */                                  \
	F(u32, flags)    /* enum gb_exit_flag */                                         \
	F(u64, spawn_ns) /* from before fork to the child's end, by the agent's clock */ \
	F(str, note)     /* for people: why it could not run, that memory ran out; "" */
#define GB_MSG_SIGNAL(F) F(u32, signo)
#define GB_MSG_WINSIZE(F) F(u32, rows) F(u32, cols)
#define GB_MSG_COPY(F)                                                                   \
	F(str, path)   /* absolute or relative to the workdir */                         \
	F(str, name)   /* COPY_IN: where path is an existing folder, the thing goes into \
	                  it under this name; "" for COPY_OUT */                          \
	F(str, user)   /* who owns what is written; "": the configured user */           \
	F(u32, flags)  /* enum gb_copy_flag */
#define GB_MSG_STATUS(F) /* request has no payload; this is the reply */                 \
	F(str, name) F(str, state) F(u32, supervisor_pid) F(u32, vmm_pid) F(u32, share_pid) \
	F(str, accel) F(str, start_kind) /* "image template", "template" or "cold" */    \
	F(str, kernel) F(u64, started_realtime_ns) F(u32, requests) F(list, shares)      \
	F(str, note) /* why it is as it is: "host disk full", fallback reasons */        \
	F(list, timings) /* "name=nanoseconds" of the start, in order */
#define GB_MSG_STOP(F) F(u32, deadline_ms) F(u32, flags) /* enum gb_stop_flag */
#define GB_MSG_NOTE(F) F(str, text)
#define GB_MSG_OWNER(F) F(u32, uid) F(u32, gid) /* as the guest shall see them */
#define GB_MSG_SESSION_START(F)                                                          \
	F(str, cmd)        /* text for the shell */                                      \
	F(str, shell)      /* name or path; "": the user's */                            \
	F(str, workdir)    /* "" the configured one; a relative one is below that */     \
	F(str, user)       /* "": the configured user */                                 \
	F(list, env)       /* K=V on top of the configured ones; the fixed ones win */   \
	F(u32, flags)      /* enum gb_session_flag */                                    \
	F(u32, rows) F(u32, cols) /* 0: 24 and 80 */                                     \
	F(u64, yield_ms)   /* answer when it has ended, or after this time */
#define GB_MSG_SESSION_INPUT(F)                                                          \
	F(u64, session)                                                                  \
	F(bytes, chars)    /* written whole before the wait begins; none: only wait */   \
	F(u32, flags)      /* enum gb_session_input_flag */                              \
	F(u32, signo)      /* to its foreground process group; 0: none */                \
	F(u32, rows) F(u32, cols) /* its terminal's new size; 0: as it is */             \
	F(u64, yield_ms)
/* Output since the last result, both streams in order of arrival, was sent as DATA on stream
 * OUT before it: at most GB_SESSION_CAPTURE bytes, the middle left out. */
#define GB_MSG_SESSION_OUTPUT(F)                                                         \
	F(u64, session)                                                                  \
	F(u32, flags)      /* enum gb_session_state_flag */                              \
	F(u32, code) F(u32, signal) /* as in exit; meaningless while it runs */          \
	F(u64, bytes)      /* that were written, with those left out */                  \
	F(u64, omitted)    /* left out of the DATA */                                    \
	F(u64, head)       /* DATA bytes before the gap */                               \
	F(u64, wall_ns)    /* from the request's arrival */                              \
	F(u64, spawn_ns)   /* as in exit; 0 while it runs */                             \
	F(str, note)       /* as in exit */
#define GB_MSG_SESSION_HOLD(F) /* the last bytes of its latest result are output again */ \
	F(u64, session) F(u32, bytes)
#define GB_MSG_SESSION_INFO(F)                                                           \
	F(u64, session) F(u32, flags) F(u32, code) F(u32, signal)                        \
	F(u32, pid)        /* in the tools' pid namespace */                             \
	F(str, cmd) F(str, workdir)                                                      \
	F(u64, started_realtime_ns) F(u64, bytes) F(u32, attached)
#define GB_MSG_ATTACH(F)                                                                 \
	F(u64, session) F(u32, rows) F(u32, cols)                                        \
	F(u64, scrollback) /* bytes of earlier output that are sent first, at most */
#define GB_MSG_TERMINATE(F)                                                              \
	F(u64, session)    /* 0: every session and every running command */              \
	F(u32, flags)
#define GB_MSG_FILE_READ(F)                                                              \
	F(str, path) F(str, user)                                                        \
	F(u64, limit)      /* GB_E_LIMIT for a larger file, before anything is sent */
#define GB_MSG_FILE_INFO(F) F(u64, size) F(u32, mode) F(i64, mtime_s) F(u32, mtime_ns)
#define GB_MSG_FILE_WRITE(F)                                                             \
	F(str, path) F(str, user)                                                        \
	F(u32, mode)       /* permission bits, exact */                                  \
	F(u32, flags)      /* enum gb_file_flag */                                       \
	F(i64, mtime_s) F(u32, mtime_ns)
#define GB_MSG_PATCH(F)                                                                  \
	F(str, workdir)    /* as in session_start; the patch stays below it */           \
	F(str, user)                                                                     \
	F(u32, flags)      /* enum gb_patch_flag */
#define GB_MSG_MEMORY_REPLY(F) /* since the machine's start */                           \
	F(u64, total_kib) F(u64, available_min_kib) F(u64, oom_kills)
#define GB_MSG_BENCH(F)                                                                  \
	F(u32, kind)   /* enum gb_bench_kind */                                          \
	F(u64, amount) /* bytes or rounds */
#define GB_MSG_BENCH_RESULT(F) F(u64, amount) F(u64, ns)

#define GB_MESSAGES(M)                                                                   \
	M(hello, GB_MSG_HELLO) M(error, GB_MSG_ERROR) M(credit, GB_MSG_CREDIT)           \
	M(configure, GB_MSG_CONFIGURE) M(configured, GB_MSG_CONFIGURED)                  \
	M(time, GB_MSG_TIME) M(share, GB_MSG_SHARE) M(shutdown, GB_MSG_SHUTDOWN)         \
	M(exec, GB_MSG_EXEC) M(started, GB_MSG_STARTED) M(exit, GB_MSG_EXIT)             \
	M(signal, GB_MSG_SIGNAL) M(winsize, GB_MSG_WINSIZE) M(copy, GB_MSG_COPY)         \
	M(status, GB_MSG_STATUS) M(stop, GB_MSG_STOP) M(bench, GB_MSG_BENCH)             \
	M(bench_result, GB_MSG_BENCH_RESULT) M(owner, GB_MSG_OWNER) M(note, GB_MSG_NOTE) M(entry, GB_MSG_ENTRY) \
	M(session_start, GB_MSG_SESSION_START) M(session_input, GB_MSG_SESSION_INPUT)    \
	M(session_output, GB_MSG_SESSION_OUTPUT) M(session_hold, GB_MSG_SESSION_HOLD)    \
	M(session_info, GB_MSG_SESSION_INFO) M(attach, GB_MSG_ATTACH)                    \
	M(terminate, GB_MSG_TERMINATE) M(file_read, GB_MSG_FILE_READ)                    \
	M(file_info, GB_MSG_FILE_INFO) M(file_write, GB_MSG_FILE_WRITE)                  \
	M(patch, GB_MSG_PATCH) M(memory_reply, GB_MSG_MEMORY_REPLY)

/* proto/tree.h explains it. */
#define GB_MSG_ENTRY(F)                                                                  \
	F(u32, kind) F(u32, mode) F(u64, size) F(i64, mtime_s) F(u32, mtime_ns)          \
	F(str, path) F(str, link)

enum gb_configure_flag {
	GB_CONFIGURE_GROW = 1 << 0,   /* grow the root file system to its device */
	GB_CONFIGURE_RDONLY = 1 << 1, /* mount the root read-only */
	GB_CONFIGURE_PREPARE = 1 << 2, /* for a template: the root and the tools' world, but no
					  identity; again: what was warmed up is settled */
};
enum gb_share_flag {
	GB_SHARE_RDONLY = 1 << 0,
};
enum gb_exec_flag {
	GB_EXEC_TTY = 1 << 0,    /* a PTY; stdout and stderr are one stream (OUT) */
	GB_EXEC_STDIN = 1 << 1,  /* stream IN is used; else /dev/null (or the PTY) */
	GB_EXEC_DETACH = 1 << 2, /* no streams; EXIT with code 0 follows STARTED at once and the command lives on */
};
enum gb_exit_flag {
	GB_EXIT_TIMED_OUT = 1 << 0,
	GB_EXIT_OOM = 1 << 1,       /* the kernel's OOM killer took something in its cgroup */
	GB_EXIT_CANCELLED = 1 << 2, /* by CANCEL; its processes are gone */
	GB_EXIT_NOT_RUN = 1 << 3,   /* exec failed: code 126 or 127, note says why */
};
#define GB_SESSION_CAPTURE (1u << 20) /* bytes of one result: half from its begin, half from its end */
enum gb_session_flag {
	GB_SESSION_LOGIN = 1 << 0, /* a login shell */
	GB_SESSION_TTY = 1 << 1,   /* a PTY */
	GB_SESSION_STDIN = 1 << 2, /* a pipe that input goes to; else (without a PTY) /dev/null */
};
enum gb_session_input_flag {
	GB_SESSION_INPUT_EOF = 1 << 0, /* close its pipe after chars */
};
enum gb_session_state_flag {
	GB_SESSION_EXITED = 1 << 0, /* this was its end: the session is gone (in info: it waits for its last reader) */
	GB_SESSION_OOM = 1 << 1,
	GB_SESSION_IS_TTY = 1 << 2,
	GB_SESSION_HAS_STDIN = 1 << 3,
};
enum gb_file_flag {
	GB_FILE_MTIME = 1 << 0, /* set the time too */
};
enum gb_patch_flag {
	GB_PATCH_OUTSIDE = 1 << 0, /* it may name files outside of workdir */
};
enum gb_copy_flag {
	GB_COPY_INTO_DIR = 1 << 0, /* the path was written with a trailing slash: must be an existing folder */
};
enum gb_stop_flag {
	GB_STOP_FORCE = 1 << 0, /* do not ask the guest */
};
enum gb_bench_kind {
	GB_BENCH_SPAWN = 1, /* amount times: fork, exec the agent's own no-op, wait */
	GB_BENCH_SEND = 2,  /* amount bytes of DATA on stream OUT from memory, within credit */
	GB_BENCH_RECV = 3,  /* amount bytes arrive on stream IN and are thrown away */
};

#define GB_MSG_C_u32(n)   uint32_t n;
#define GB_MSG_C_u64(n)   uint64_t n;
#define GB_MSG_C_i64(n)   int64_t n;
#define GB_MSG_C_str(n)   char *n;
#define GB_MSG_C_bytes(n) struct gb_bytes n;
#define GB_MSG_C_list(n)  struct gb_list n;
#define GB_MSG_C_FIELD(kind, n) GB_MSG_C_##kind(n)

enum gb_msg_kind { GB_KIND_u32, GB_KIND_u64, GB_KIND_i64, GB_KIND_str, GB_KIND_bytes, GB_KIND_list };
struct gb_msg_field {
	const char *name;
	enum gb_msg_kind kind;
	size_t offset;
};
struct gb_msg_desc {
	const char *name;
	size_t size;
	const struct gb_msg_field *fields;
	size_t count;
};

/* For each message m: struct gb_msg_m, its table gb_msg_m_desc, and
 *   void gb_msg_m_done(struct gb_msg_m *)            release what a decoded one owns
 *   int  gb_msg_m_decode(payload, len, *ret, err)    *ret is untouched on failure
 *   void gb_msg_m_encode(const *, struct gb_buf *)   NULL strings and lists count as empty
 * An encoded struct may borrow its strings; then do not call _done on it. */
#define GB_MSG_DECLARE(m, FIELDS)                                                        \
	struct gb_msg_##m {                                                              \
		FIELDS(GB_MSG_C_FIELD)                                                   \
	};                                                                               \
	extern const struct gb_msg_desc gb_msg_##m##_desc;                               \
	static inline void gb_msg_##m##_done(struct gb_msg_##m *p)                       \
	{                                                                                \
		gb_msg_done(&gb_msg_##m##_desc, p);                                      \
	}                                                                                \
	static inline int gb_msg_##m##_decode(const uint8_t *payload, size_t len,        \
		struct gb_msg_##m *ret, struct gb_err *err)                              \
	{                                                                                \
		return gb_msg_decode(&gb_msg_##m##_desc, payload, len, ret, err);        \
	}                                                                                \
	static inline void gb_msg_##m##_encode(const struct gb_msg_##m *p, struct gb_buf *b) \
	{                                                                                \
		gb_msg_encode(&gb_msg_##m##_desc, p, b);                                 \
	}

void gb_msg_done(const struct gb_msg_desc *d, void *msg);
int gb_msg_decode(const struct gb_msg_desc *d, const uint8_t *payload, size_t len, void *ret,
	struct gb_err *err);
void gb_msg_encode(const struct gb_msg_desc *d, const void *msg, struct gb_buf *b);

GB_MESSAGES(GB_MSG_DECLARE)

/* Append a whole frame with an encoded message (or with no payload when msg is NULL). */
void gb_msg_add_frame(struct gb_buf *b, uint8_t type, uint32_t request,
	const struct gb_msg_desc *d, const void *msg);
/* Append an ERROR frame for err. */
void gb_msg_add_error(struct gb_buf *b, uint32_t request, const struct gb_err *err);
/* Fill err from an ERROR payload; returns its code (GB_E_PROTOCOL if it is malformed). */
int gb_msg_take_error(const uint8_t *payload, size_t len, struct gb_err *err);
/* HELLO of this build. check: GB_E_PROTOCOL when the peer's version differs, naming both. */
void gb_msg_add_hello(struct gb_buf *b, const char *role);
int gb_msg_check_hello(const uint8_t *payload, size_t len, const char *peer, struct gb_err *err);

#endif
