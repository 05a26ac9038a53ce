/* Frames: the one framing on both hops (client - supervisor - agent) and on the share port.
 *
 *   0        4      5       6        8            12
 *   | length | type | flags | stream | request id | payload: length bytes ...
 *     u32 LE   u8     u8      u16 LE   u32 LE
 *
 * length counts the payload only and is at most GB_FRAME_MAX. Request ids are chosen by the
 * side that asks; 0 means "the connection itself". A reader keeps partial state, so bytes may
 * arrive in any pieces. A frame that breaks these rules is a fatal protocol error. */
#ifndef GB_PROTO_FRAME_H
#define GB_PROTO_FRAME_H

#include "base/buf.h"

#define GB_FRAME_HEADER  12u
#define GB_FRAME_MAX     (1u << 20) /* payload bytes */
#define GB_FRAME_VERSION 2u         /* bumped on any change of a frame or a message */

/* Name, value, one line of meaning. "A>B" says who sends: C client, S supervisor, G guest
 * agent, H host share server. */
#define GB_FRAME_TYPES(X)                                                                \
	X(HELLO, 1, "both: first frame on a connection: gb_msg_hello")                   \
	X(READY, 2, "G>S: the agent booted and waits; no payload")                       \
	X(ERROR, 3, "reply: the request failed, last frame of it: gb_msg_error")         \
	X(OK, 4, "reply: the request is done, last frame of it; no payload")             \
	X(DATA, 5, "both: bytes of a stream; GB_FRAME_EOF ends the stream")              \
	X(CREDIT, 6, "both: the receiver may be sent more bytes: gb_msg_credit")         \
	X(CANCEL, 7, "C>S>G: end the request; answered once by its last frame")          \
	X(CONFIGURE, 8, "S>G: who this machine is: gb_msg_configure")                    \
	X(CONFIGURED, 9, "G>S: its answer: gb_msg_configured")                           \
	X(TIME, 10, "S>G: host time and entropy: gb_msg_time; answered by OK")           \
	X(SHARE, 11, "S>G: mount a share: gb_msg_share; answered by OK or ERROR")        \
	X(SHUTDOWN, 12, "S>G: sync and power off: gb_msg_shutdown; answered by OK")      \
	X(EXEC, 13, "C>S>G: run a command: gb_msg_exec")                                 \
	X(STARTED, 14, "G>S>C: it runs: gb_msg_started")                                 \
	X(EXIT, 15, "G>S>C: it ended, last frame of the request: gb_msg_exit")           \
	X(SIGNAL, 16, "C>S>G: signal its process group: gb_msg_signal; no answer")       \
	X(WINSIZE, 17, "C>S>G: its terminal's size: gb_msg_winsize; no answer")          \
	X(COPY_IN, 18, "C>S>G: write a tree from stream 0 (proto/tree.h): gb_msg_copy")  \
	X(COPY_OUT, 19, "C>S>G: send a tree on stream 1: gb_msg_copy; ends with OK")     \
	X(STATUS, 20, "C>S: ask for gb_msg_status")                                      \
	X(STATUS_REPLY, 21, "S>C: gb_msg_status, last frame of the request")             \
	X(STOP, 22, "C>S: end the machine: gb_msg_stop; answered by OK")                 \
	X(BENCH, 23, "C>S>G: measure: gb_msg_bench; ends with gb_msg_bench_result")      \
	X(BENCH_RESULT, 24, "G>S>C: gb_msg_bench_result, last frame of the request")     \
	X(FUSE, 25, "G<>H on the share port: one raw FUSE message; stream is the share") \
	X(FUSE_GONE, 26, "G>H: the share with this stream number was unmounted")       \
	X(OWNER, 27, "S>H on its control socket: who owns what is shared: gb_msg_owner") \
	X(NOTE, 28, "S>C: a line for people (progress, disk full): gb_msg_note")         \
	X(NOP, 29, "C>S>G: nothing, to measure the way; answered by OK")                 \
	X(SESSION_START, 30, "C>S>G: start a retained session, wait: gb_msg_session_start") \
	X(SESSION_INPUT, 31, "C>S>G: input to one, wait for output: gb_msg_session_input") \
	X(SESSION_OUTPUT, 32, "G>S>C: last frame of both, after its DATA: gb_msg_session_output") \
	X(SESSION_HOLD, 33, "C>S>G: give the end of a result back: gb_msg_session_hold; OK") \
	X(SESSIONS, 34, "C>S>G: list them; SESSION_INFO each, then OK")                  \
	X(SESSION_INFO, 35, "G>S>C: gb_msg_session_info")                                \
	X(ATTACH, 36, "C>S>G: follow a session: gb_msg_attach; ends with EXIT")          \
	X(TERMINATE, 37, "C>S>G: end sessions: gb_msg_terminate; OK when they are gone") \
	X(FILE_READ, 38, "C>S>G: gb_msg_file_read; FILE_INFO, DATA, OK")                 \
	X(FILE_INFO, 39, "G>S>C: gb_msg_file_info")                                      \
	X(FILE_WRITE, 40, "C>S>G: a file's new content on stream 0: gb_msg_file_write; OK") \
	X(MKDIR, 41, "C>S>G: a folder and its parents: gb_msg_file_write; OK")           \
	X(PATCH, 42, "C>S>G: apply a patch from stream 0: gb_msg_patch; DATA, EXIT")     \
	X(MEMORY, 43, "C>S>G: ask for gb_msg_memory_reply")                              \
	X(MEMORY_REPLY, 44, "G>S>C: gb_msg_memory_reply, last frame of the request")

enum gb_frame_type {
#define X(name, value, text) GB_FRAME_##name = value,
	GB_FRAME_TYPES(X)
#undef X
};

enum gb_frame_flag {
	GB_FRAME_EOF = 1 << 0, /* DATA: nothing follows on this stream */
};

/* Streams of a request. */
enum gb_stream { GB_STREAM_IN = 0, GB_STREAM_OUT = 1, GB_STREAM_ERR = 2, GB_STREAM_COUNT = 3 };

struct gb_frame {
	uint32_t length;
	uint8_t type;
	uint8_t flags;
	uint16_t stream;
	uint32_t request;
	const uint8_t *payload; /* borrowed from the reader until its next call */
};

/* Write a header into out (GB_FRAME_HEADER bytes). */
void gb_frame_put_header(uint8_t *out, const struct gb_frame *f);
/* Append a whole frame. Payload longer than GB_FRAME_MAX sets b->error = GB_E_LIMIT. */
void gb_frame_add(struct gb_buf *b, const struct gb_frame *f);
/* "EXEC"; NULL for a type that does not exist. */
const char *gb_frame_type_name(uint8_t type);

/* Reassembles frames from pieces. Holds at most one frame beyond what was asked for. */
struct gb_frame_reader {
	struct gb_buf in; /* owned */
	size_t taken;     /* bytes at the front that the last frame used */
};
void gb_frame_reader_init(struct gb_frame_reader *r);
void gb_frame_reader_done(struct gb_frame_reader *r);
/* Where the caller reads bytes to, at least one byte of room: *room bytes; NULL when memory
 * is out. Follow with gb_frame_reader_filled(n). Pointers from next() end here. */
uint8_t *gb_frame_reader_room(struct gb_frame_reader *r, size_t *room);
void gb_frame_reader_filled(struct gb_frame_reader *r, size_t n);
/* 1 and *ret filled; 0 when more bytes are needed; GB_E_PROTOCOL when length or type is
 * impossible (the connection must be dropped then; asked again, it says so again). Take all
 * that it has before asking for room. */
int gb_frame_reader_next(struct gb_frame_reader *r, struct gb_frame *ret, struct gb_err *err);

#endif
