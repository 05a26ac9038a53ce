/* Tool calls against an agent that the test plays. */
#include "../lib/peer.h"

#include "lib/tool_run.h"

#include <pthread.h>
#include <signal.h>

#define SECRET "tok_live_9f8Kq2ZxP0"

struct scene {
	struct peer peer;
	struct gb_mask mask;
	struct gb_tool_run run;
	struct gb_tool_args args;
	struct gb_tool_answer answer;
	struct gb_err err;
	int result;
	pthread_t thread;
};

static void *run_main(void *data)
{
	struct scene *s = data;

	s->result = gb_tool_run(&s->run, &s->args, &s->answer, &s->err);
	return NULL;
}

static void begin(struct scene *s, const char *tool, const char *json)
{
	memset(&s->err, 0, sizeof(s->err));
	assert_int_equal(
		gb_tool_args_parse(gb_tool_find(tool), json, strlen(json), &s->args, &s->err), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, run_main, s), 0);
}

/* The answer's text, NUL-terminated, or the error's. */
static const char *end(struct scene *s)
{
	pthread_join(s->thread, NULL);
	gb_tool_args_done(&s->args);
	if (s->result < 0)
		return s->err.msg;
	gb_buf_add_byte(&s->answer.text, 0);
	return (const char *)s->answer.text.data;
}

static void forget(struct scene *s)
{
	if (s->result == 0)
		gb_tool_answer_done(&s->answer);
	s->result = -1;
}

static int set_up(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	*state = s;
	if (!s)
		return -1;
	peer_open(&s->peer);
	gb_mask_add(&s->mask, SECRET, strlen(SECRET));
	gb_tool_run_init(&s->run, s->peer.link, &s->mask, NULL, false);
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	forget(s);
	gb_tool_run_done(&s->run);
	peer_close(&s->peer);
	gb_mask_done(&s->mask);
	free(s);
	return 0;
}

static uint32_t expect(struct scene *s, uint8_t type, struct gb_frame *ret)
{
	struct gb_frame f = peer_next(&s->peer);

	assert_int_equal(f.type, type);
	if (ret)
		*ret = f;
	return f.request;
}

static void output(struct scene *s, uint32_t id, const char *data, size_t len, uint64_t session,
	uint32_t flags, uint32_t code)
{
	const struct gb_msg_session_output m = { .session = session, .flags = flags, .code = code,
		.bytes = len, .wall_ns = 250000000 };

	if (len)
		peer_data(&s->peer, id, GB_STREAM_OUT, data, len);
	peer_send(&s->peer, GB_FRAME_SESSION_OUTPUT, id, &gb_msg_session_output_desc, &m);
}
#define TEXT(s) s, sizeof(s) - 1

static const char *behind_head(const char *text)
{
	const char *at = strstr(text, "Output:\n");

	assert_non_null(at);
	return at + 8;
}

static void test_exec(void **state)
{
	struct scene *s = *state;
	struct gb_msg_session_start m;
	struct gb_frame f;
	const char *text;

	begin(s, "exec_command",
		"{\"cmd\":\"make\",\"workdir\":\"sub\",\"shell\":\"sh\",\"yield_time_ms\":1}");
	expect(s, GB_FRAME_SESSION_START, &f);
	assert_int_equal(gb_msg_session_start_decode(f.payload, f.length, &m, NULL), 0);
	assert_string_equal(m.cmd, "make");
	assert_string_equal(m.workdir, "sub");
	assert_string_equal(m.shell, "sh");
	assert_int_equal(m.flags, GB_SESSION_LOGIN);
	assert_int_equal(m.yield_ms, 250);
	gb_msg_session_start_done(&m);
	output(s, f.request, TEXT("hello\n"), 1, GB_SESSION_EXITED, 3);
	text = end(s);
	assert_int_equal(s->result, 0);
	assert_true(s->answer.success);
	assert_memory_equal(text, "Chunk ID: ", 10);
	assert_string_equal(text + 16,
		"\nWall time: 0.2500 seconds\nProcess exited with code 3\nOriginal token count: 2\n"
		"Output:\nhello\n");
}

static void test_running(void **state)
{
	struct scene *s = *state;
	struct gb_msg_session_start m;
	struct gb_frame f;

	begin(s, "exec_command", "{\"cmd\":\"top\",\"tty\":true,\"login\":false}");
	expect(s, GB_FRAME_SESSION_START, &f);
	assert_int_equal(gb_msg_session_start_decode(f.payload, f.length, &m, NULL), 0);
	assert_int_equal(m.flags, GB_SESSION_TTY);
	gb_msg_session_start_done(&m);
	output(s, f.request, TEXT("$ "), 12, GB_SESSION_IS_TTY, 0);
	assert_non_null(strstr(end(s), "\nProcess running with session ID 12\n"));
	assert_int_equal(s->answer.head.session, 12);
	assert_false(s->answer.head.exited);
}

/* strands #4156: a character is cut by the time of the answer. */
static void test_half_character_goes_back(void **state)
{
	struct scene *s = *state;
	struct gb_msg_session_hold hold;
	struct gb_frame f;
	uint32_t id;

	begin(s, "exec_command", "{\"cmd\":\"x\"}");
	id = expect(s, GB_FRAME_SESSION_START, NULL);
	output(s, id, TEXT("a\xe2\x82"), 5, 0, 0);
	expect(s, GB_FRAME_SESSION_HOLD, &f);
	assert_int_equal(gb_msg_session_hold_decode(f.payload, f.length, &hold, NULL), 0);
	assert_int_equal(hold.session, 5);
	assert_int_equal(hold.bytes, 2);
	peer_ok(&s->peer, f.request);
	assert_string_equal(behind_head(end(s)), "a");
	assert_int_equal(s->answer.head.tokens, 1);
	forget(s);
	begin(s, "write_stdin", "{\"session_id\":5}");
	id = expect(s, GB_FRAME_SESSION_INPUT, NULL);
	output(s, id, TEXT("\xe2\x82\xac\n"), 5, GB_SESSION_EXITED, 0);
	assert_string_equal(behind_head(end(s)), "\xe2\x82\xac\n");
}

/* fountain #2359 and others: the secret is cut between two polls, at every place. */
static void test_secret_cut_between_polls(void **state)
{
	struct scene *s = *state;

	for (size_t cut = 1; cut < strlen(SECRET); cut++) {
		char rest[64];
		struct gb_frame f;
		uint32_t id;

		begin(s, "exec_command", "{\"cmd\":\"x\"}");
		id = expect(s, GB_FRAME_SESSION_START, NULL);
		output(s, id, SECRET, cut, 5, 0, 0);
		expect(s, GB_FRAME_SESSION_HOLD, &f);
		peer_ok(&s->peer, f.request);
		assert_string_equal(behind_head(end(s)), "");
		forget(s);
		begin(s, "write_stdin", "{\"session_id\":5}");
		id = expect(s, GB_FRAME_SESSION_INPUT, NULL);
		snprintf(rest, sizeof(rest), "%s\n", SECRET);
		output(s, id, rest, strlen(rest), 5, GB_SESSION_EXITED, 0);
		assert_string_equal(behind_head(end(s)), "[REDACTED]\n");
		forget(s);
	}
}

static void test_session_ended_before_the_hold(void **state)
{
	struct scene *s = *state;
	struct gb_frame f;
	uint32_t id;

	begin(s, "exec_command", "{\"cmd\":\"x\"}");
	id = expect(s, GB_FRAME_SESSION_START, NULL);
	output(s, id, TEXT("a\xe2"), 5, 0, 0);
	expect(s, GB_FRAME_SESSION_HOLD, &f);
	peer_error(&s->peer, f.request, GB_E_NOTFOUND, "there is no session 5");
	assert_string_equal(behind_head(end(s)), "a");
}

static void info(struct scene *s, uint32_t id, uint64_t session, uint32_t flags)
{
	const struct gb_msg_session_info m = { .session = session, .flags = flags };

	peer_send(&s->peer, GB_FRAME_SESSION_INFO, id, &gb_msg_session_info_desc, &m);
}

static void expect_input(struct scene *s, const char *chars, uint32_t signo)
{
	struct gb_msg_session_input m;
	struct gb_frame f;

	expect(s, GB_FRAME_SESSION_INPUT, &f);
	assert_int_equal(gb_msg_session_input_decode(f.payload, f.length, &m, NULL), 0);
	assert_int_equal(m.chars.len, strlen(chars));
	if (m.chars.len)
		assert_memory_equal(m.chars.data, chars, m.chars.len);
	assert_int_equal(m.signo, signo);
	assert_int_equal(m.yield_ms, 250);
	gb_msg_session_input_done(&m);
	output(s, f.request, TEXT("^C"), 3, GB_SESSION_EXITED, 130);
}

static void test_interrupt(void **state)
{
	struct scene *s = *state;

	for (int tty = 0; tty < 2; tty++) {
		uint32_t id;

		begin(s, "write_stdin", "{\"session_id\":3,\"chars\":\"\\u0003\"}");
		id = expect(s, GB_FRAME_SESSIONS, NULL);
		info(s, id, 2, GB_SESSION_IS_TTY);
		info(s, id, 3, tty ? GB_SESSION_IS_TTY : 0);
		peer_ok(&s->peer, id);
		expect_input(s, tty ? "\003" : "", tty ? 0 : SIGINT);
		assert_non_null(strstr(end(s), "Process exited with code 130\n"));
		forget(s);
	}
}

static void test_unknown_session(void **state)
{
	struct scene *s = *state;
	uint32_t id;

	begin(s, "write_stdin", "{\"session_id\":9,\"chars\":\"y\"}");
	id = expect(s, GB_FRAME_SESSION_INPUT, NULL);
	peer_error(&s->peer, id, GB_E_NOTFOUND, "there is no session 9");
	id = expect(s, GB_FRAME_SESSIONS, NULL);
	peer_ok(&s->peer, id);
	assert_string_equal(end(s), "write_stdin failed: unknown session ID 9");
	assert_int_equal(s->result, 0);
	assert_false(s->answer.success);
}

static void test_session_without_input(void **state)
{
	struct scene *s = *state;
	uint32_t id;

	begin(s, "write_stdin", "{\"session_id\":9,\"chars\":\"y\"}");
	id = expect(s, GB_FRAME_SESSION_INPUT, NULL);
	peer_error(&s->peer, id, GB_E_CLOSED, "it takes no input");
	id = expect(s, GB_FRAME_SESSIONS, NULL);
	info(s, id, 9, 0);
	peer_ok(&s->peer, id);
	assert_non_null(strstr(end(s), "tty=true"));
	assert_false(s->answer.success);
}

static void test_spawn_fails(void **state)
{
	struct scene *s = *state;
	uint32_t id;

	begin(s, "exec_command", "{\"cmd\":\"ls " SECRET "\"}");
	id = expect(s, GB_FRAME_SESSION_START, NULL);
	peer_error(&s->peer, id, GB_E_LIMIT, "64 sessions live already");
	assert_string_equal(
		end(s), "exec_command failed for `ls [REDACTED]`: 64 sessions live already");
	assert_int_equal(s->result, 0);
	assert_false(s->answer.success);
}

static void read_patch(struct scene *s, const char *want)
{
	struct gb_buf got = { 0 };
	struct gb_frame f;

	gb_buf_init(&got, 0);
	do {
		expect(s, GB_FRAME_DATA, &f);
		gb_buf_add(&got, f.payload, f.length);
	} while (!(f.flags & GB_FRAME_EOF));
	assert_int_equal(got.len, strlen(want));
	assert_memory_equal(got.data, want, got.len);
	gb_buf_done(&got);
}

static void test_patch(void **state)
{
	struct scene *s = *state;

	for (uint32_t code = 0; code < 2; code++) {
		uint32_t id;

		begin(s, "apply_patch", "*** Begin Patch");
		id = expect(s, GB_FRAME_PATCH, NULL);
		read_patch(s, "*** Begin Patch");
		peer_data(&s->peer, id, GB_STREAM_OUT, TEXT("M a.txt\n"));
		peer_exit(&s->peer, id, code, 0);
		assert_string_equal(end(s), "M a.txt\n");
		assert_int_equal(s->result, 0);
		assert_int_equal(s->answer.success, code == 0);
		forget(s);
	}
}

static void test_picture_too_large(void **state)
{
	struct scene *s = *state;
	struct gb_msg_file_read m;
	struct gb_frame f;

	begin(s, "view_image", "{\"path\":\"big.png\"}");
	expect(s, GB_FRAME_FILE_READ, &f);
	assert_int_equal(gb_msg_file_read_decode(f.payload, f.length, &m, NULL), 0);
	assert_int_equal(m.limit, 25164258);
	gb_msg_file_read_done(&m);
	peer_error(&s->peer, f.request, GB_E_LIMIT, "48262737 bytes");
	assert_non_null(strstr(end(s), "48262737 bytes; at most 25164258 bytes can be shown"));
	assert_false(s->answer.success);
}

static void test_no_picture(void **state)
{
	struct scene *s = *state;
	const struct gb_msg_file_info m = { .size = 5 };
	uint32_t id;

	begin(s, "view_image", "{\"path\":\"a.txt\"}");
	id = expect(s, GB_FRAME_FILE_READ, NULL);
	peer_send(&s->peer, GB_FRAME_FILE_INFO, id, &gb_msg_file_info_desc, &m);
	peer_data(&s->peer, id, GB_STREAM_OUT, TEXT("hello"));
	peer_ok(&s->peer, id);
	assert_non_null(strstr(end(s), "unable to process image at `a.txt`: "));
	assert_int_equal(s->result, 0);
	assert_false(s->answer.success);
}

static void test_cancel(void **state)
{
	struct scene *s = *state;
	struct gb_frame f;
	uint32_t id;

	begin(s, "exec_command", "{\"cmd\":\"sleep 100\"}");
	id = expect(s, GB_FRAME_SESSION_START, NULL);
	gb_tool_run_cancel(&s->run);
	expect(s, GB_FRAME_CANCEL, &f);
	assert_int_equal(f.request, id);
	peer_error(&s->peer, id, GB_E_CANCELLED, "cancelled");
	end(s);
	assert_int_equal(s->result, GB_E_CANCELLED);
	/* and whatever is begun later */
	begin(s, "exec_command", "{\"cmd\":\"true\"}");
	end(s);
	assert_int_equal(s->result, GB_E_CANCELLED);
}

static void test_machine_lost(void **state)
{
	struct scene *s = *state;

	begin(s, "exec_command", "{\"cmd\":\"true\"}");
	expect(s, GB_FRAME_SESSION_START, NULL);
	shutdown(s->peer.wire.fd, SHUT_RDWR);
	end(s);
	assert_int_equal(s->result, GB_E_CLOSED);
}

static void test_impossible_session(void **state)
{
	struct scene *s = *state;
	uint32_t id;

	begin(s, "exec_command", "{\"cmd\":\"true\"}");
	id = expect(s, GB_FRAME_SESSION_START, NULL);
	output(s, id, TEXT("x"), UINT64_MAX, 0, 0);
	end(s);
	assert_int_equal(s->result, GB_E_PROTOCOL);
}

#define ONE(name, fn) { name, fn, set_up, tear_down, NULL }

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ONE("exec_command that ends", test_exec),
		ONE("exec_command that goes on", test_running),
		ONE("half a character goes back", test_half_character_goes_back),
		ONE("a secret that is cut between polls", test_secret_cut_between_polls),
		ONE("a session that ended before its end was given back",
			test_session_ended_before_the_hold),
		ONE("Ctrl-C with and without a terminal", test_interrupt),
		ONE("an unknown session", test_unknown_session),
		ONE("a session without input", test_session_without_input),
		ONE("a command that cannot be started", test_spawn_fails),
		ONE("a patch that is applied, and one that is not", test_patch),
		ONE("a picture that is too large", test_picture_too_large),
		ONE("a file that is no picture", test_no_picture),
		ONE("a call is cancelled", test_cancel),
		ONE("the machine is lost", test_machine_lost),
		ONE("an agent that names an impossible session", test_impossible_session),
	};

	return cmocka_run_group_tests_name("lib tool run", tests, NULL, NULL);
}
