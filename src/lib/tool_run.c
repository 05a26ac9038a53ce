/* The agent's words for what went wrong with one request become text for the model; what went
 * wrong with the machine does not (lost()). Output that the agent sent is foreign: it is bounded
 * by GB_SESSION_CAPTURE, numbers about it are only ever printed or compared. */
#include "lib/tool_run.h"

#include "base/clock.h"
#include "lib/link_impl.h"
#include "lib/request.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define INTERRUPT       "\003"
#define PATCH_REPLY_MAX ((size_t)256 << 10) /* bytes of what a patch answers */

void gb_tool_answer_done(struct gb_tool_answer *a)
{
	gb_buf_done(&a->text);
	gb_media_result_done(&a->picture);
	free(gb_take_ptr(a->detail));
}

void gb_tool_run_init(struct gb_tool_run *run, struct gb_link *link, const struct gb_mask *mask,
	const struct glovebox_tool_options *options, bool owner)
{
	memset(run, 0, sizeof(*run));
	run->link = link;
	run->mask = mask;
	run->owner = owner;
	if (options)
		run->options = *options;
	pthread_mutex_init(&run->lock, NULL);
}

void gb_tool_run_done(struct gb_tool_run *run)
{
	pthread_mutex_destroy(&run->lock);
}

void gb_tool_run_cancel(struct gb_tool_run *run)
{
	pthread_mutex_lock(&run->lock);
	run->cancelled = true;
	if (run->current)
		gb_call_cancel(run->current);
	pthread_mutex_unlock(&run->lock);
}

/* ---- one request ---- */

/* Starts a request unless the call was cancelled; it can be cancelled from here on. */
static int begin(struct gb_tool_run *run, enum gb_call_kind kind, uint8_t type,
	const struct gb_msg_desc *d, const void *msg, struct gb_call **ret, struct gb_err *err)
{
	const struct gb_call_options o = { .owner = run->owner,
		.deadline_ms = run->options.deadline_ms };
	int r;

	pthread_mutex_lock(&run->lock);
	r = run->cancelled ? gb_fail(err, GB_E_CANCELLED, "the call was cancelled")
			   : gb_call_start(run->link, kind, type, d, msg, &o, ret, err);
	if (r == 0)
		run->current = *ret;
	pthread_mutex_unlock(&run->lock);
	return r;
}

static void end(struct gb_tool_run *run, struct gb_call *c)
{
	pthread_mutex_lock(&run->lock);
	run->current = NULL;
	pthread_mutex_unlock(&run->lock);
	gb_call_drop(c);
}

/* Feeds and drains until the last event; out may be NULL. */
static int finish(struct gb_call *c, const struct gb_tool_value *input, struct gb_buf *out,
	struct gb_err *err)
{
	size_t sent = 0;
	bool open = input;

	for (;;) {
		struct glovebox_event e;

		if (open && sent < input->len) {
			int64_t n = gb_call_write(c, input->text + sent, input->len - sent, NULL);

			/* it ended early: its outcome says why */
			open = n >= 0;
			sent += open ? (size_t)n : 0;
		}
		if (open && sent == input->len) {
			gb_call_write_eof(c, NULL);
			open = false;
		}
		if (!gb_call_next(c, &e)) {
			gb_call_await(c, GB_NEVER);
			continue;
		}
		if (e.type == GLOVEBOX_EVENT_OUTPUT && out)
			gb_buf_add(out, e.data, e.len);
		if (e.type == GLOVEBOX_EVENT_DONE)
			break;
	}
	if (out && out->error == GB_E_LIMIT)
		return gb_fail(err, GB_E_PROTOCOL, "the agent sent more output than it may");
	if (out && out->error)
		return gb_nomem(err);
	return gb_call_outcome(c, err);
}

/* Whether a failure is about the machine or the call as a whole, and not for the model. */
static bool lost(struct gb_tool_run *run, int code)
{
	bool gone;

	pthread_mutex_lock(&run->link->lock);
	gone = run->link->failed || run->link->closing;
	pthread_mutex_unlock(&run->link->lock);
	return gone || code == GB_E_CANCELLED || code == GB_E_NOMEM || code == GB_E_PROTOCOL ||
		(code == GB_E_TIMEOUT && run->options.deadline_ms);
}

/* An answer in words; without success until somebody says otherwise. */
static int say(struct gb_tool_run *run, const char *text, struct gb_tool_answer *ret,
	struct gb_err *err)
{
	gb_auto_done(gb_buf) masked = { 0 };

	gb_buf_init(&masked, 0);
	gb_mask_apply(run->mask, (const uint8_t *)text, strlen(text), &masked);
	gb_utf8_lossy(masked.data, masked.len, &ret->text);
	return masked.error ? gb_nomem(err) : gb_buf_check(&ret->text, "an answer", err);
}

static int refuse(struct gb_tool_run *run, struct gb_tool_answer *ret, struct gb_err *err,
	const char *fmt, ...) GB_PRINTF(4, 5);
static int refuse(struct gb_tool_run *run, struct gb_tool_answer *ret, struct gb_err *err,
	const char *fmt, ...)
{
	gb_auto_free char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		return gb_nomem(err);
	}
	return say(run, text, ret, err);
}

static char *borrow(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

/* path below the caller's working folder; owned, NULL when memory is out. */
static char *place(const struct gb_tool_run *run, const char *path)
{
	const char *dir = run->options.workdir ? run->options.workdir : "";

	if (!path || !*path)
		return strdup(dir);
	return *path == '/' ? strdup(path) : gb_path_join(dir, path);
}

/* ---- exec_command, write_stdin ---- */

static int fill_head(const struct gb_msg_session_output *o, const struct gb_tool_output *out,
	size_t hold, struct gb_tool_answer *ret, struct gb_err *err)
{
	struct gb_tool_head *h = &ret->head;
	uint8_t raw[3];

	if (o->session > INT64_MAX)
		return gb_fail(err, GB_E_PROTOCOL, "the agent named an impossible session");
	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return gb_fail_sys(err, errno, "cannot get random bytes");
	gb_hex(raw, sizeof(raw), h->chunk_id);
	h->wall_seconds = (double)o->wall_ns / (double)GB_NS_SEC;
	h->exited = !out->running;
	h->exit_code = (int)(o->code & 255);
	h->session = out->running ? o->session : 0;
	h->tokens = gb_tool_tokens(out->bytes - hold);
	ret->has_head = true;
	ret->spawn_ns = out->running ? 0 : o->spawn_ns;
	return 0;
}

/* The last bytes come again with the next answer. That its session has ended meanwhile, or that
 * another caller took what came since, is no failure of this answer. */
static int give_back(struct gb_tool_run *run, uint64_t session, size_t hold, struct gb_err *err)
{
	const struct gb_msg_session_hold m = { .session = session, .bytes = (uint32_t)hold };
	struct gb_call *c;
	int r = begin(run, GB_CALL_PLAIN, GB_FRAME_SESSION_HOLD, &gb_msg_session_hold_desc, &m, &c,
		err);

	if (r < 0)
		return r;
	r = finish(c, NULL, NULL, err);
	end(run, c);
	return r < 0 && lost(run, r) ? r : 0;
}

/* That memory ran out, say: on a line of its own behind the output. */
static void add_note(const char *note, struct gb_buf *to)
{
	if (to->len && to->data[to->len - 1] != '\n')
		gb_buf_add_byte(to, '\n');
	gb_buf_add_str(to, "[note: ");
	gb_utf8_lossy((const uint8_t *)note, strlen(note), to);
	gb_buf_add_str(to, "]\n");
}

static int show_session(struct gb_tool_run *run, const struct gb_tool_args *args,
	const struct gb_msg_session_output *o, const struct gb_buf *data, struct gb_tool_answer *ret,
	struct gb_err *err)
{
	const struct gb_tool_output out = { .data = data->data, .len = data->len,
		.bytes = GB_MAX(o->bytes, data->len), .omitted = o->omitted,
		.head = (size_t)GB_MIN(o->head, data->len), .running = !(o->flags & GB_SESSION_EXITED) };
	size_t hold = gb_tool_hold(run->mask, &out);
	int r = fill_head(o, &out, hold, ret, err);

	if (r == 0 && hold)
		r = give_back(run, o->session, hold, err);
	if (r < 0)
		return r;
	gb_tool_head_text(&ret->head, &ret->text);
	ret->output_at = ret->text.len;
	gb_tool_show(run->mask, &out, hold, gb_tool_budget(args), &ret->text);
	if (!out.running && o->note && *o->note)
		add_note(o->note, &ret->text);
	ret->success = true;
	return gb_buf_check(&ret->text, "an answer", err);
}

/* A failure that the model shall see is returned in *why, with code 0. */
static int talk(struct gb_tool_run *run, const struct gb_tool_args *args, uint8_t type,
	const struct gb_msg_desc *d, const void *msg, struct gb_tool_answer *ret,
	struct gb_err *why, struct gb_err *err)
{
	gb_auto_done(gb_buf) data = { 0 };
	struct gb_call *c;
	int r = begin(run, GB_CALL_SESSION, type, d, msg, &c, why);

	why->code = r;
	if (r < 0) {
		*err = *why;
		/* a message that is over the frame's limit is the model's */
		return r == GB_E_LIMIT ? 0 : r;
	}
	gb_buf_init(&data, GB_SESSION_CAPTURE);
	r = finish(c, NULL, &data, why);
	why->code = r;
	if (r == 0 && gb_call_session(c))
		r = show_session(run, args, gb_call_session(c), &data, ret, err);
	else if (r == 0)
		r = gb_fail(err, GB_E_PROTOCOL, "the agent's answer is missing");
	else if (lost(run, r))
		*err = *why;
	else
		r = 0;
	end(run, c);
	return r;
}

static int exec_command(struct gb_tool_run *run, const struct gb_tool_args *args,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	const struct gb_tool_value *v = args->v;
	gb_auto_free char *workdir = place(run, v[GB_ARG_WORKDIR].text);
	const char *shell = v[GB_ARG_SHELL].len ? v[GB_ARG_SHELL].text : run->options.shell;
	bool login = !v[GB_ARG_LOGIN].given || v[GB_ARG_LOGIN].boolean;
	const struct gb_msg_session_start m = {
		.cmd = v[GB_ARG_CMD].text,
		.shell = borrow(shell),
		.workdir = borrow(workdir),
		.user = borrow(run->options.user),
		.env = gb_list_of(run->options.env),
		.flags = (login ? GB_SESSION_LOGIN : 0) |
			(v[GB_ARG_TTY].boolean ? GB_SESSION_TTY : 0),
		.yield_ms = gb_tool_yield_ms(args),
	};
	struct gb_err why = { 0 };
	int r;

	if (!workdir)
		return gb_nomem(err);
	r = talk(run, args, GB_FRAME_SESSION_START, &gb_msg_session_start_desc, &m, ret, &why, err);
	if (r == 0 && why.code)
		r = refuse(run, ret, err, "exec_command failed for `%s`: %s", m.cmd, why.msg);
	return r;
}

/* What is known of a session: its flags, or GB_E_NOTFOUND. */
static int session_flags(struct gb_tool_run *run, uint64_t session, uint32_t *ret,
	struct gb_err *err)
{
	const struct gb_msg_session_info *infos;
	struct gb_call *c;
	size_t n = 0;
	int r = begin(run, GB_CALL_LIST, GB_FRAME_SESSIONS, NULL, NULL, &c, err);

	if (r < 0)
		return r;
	r = finish(c, NULL, NULL, err);
	infos = r == 0 ? gb_call_infos(c, &n) : NULL;
	if (r == 0)
		r = gb_fail(err, GB_E_NOTFOUND, "unknown session ID %" PRIu64, session);
	for (size_t i = 0; infos && i < n; i++)
		if (infos[i].session == session) {
			*ret = infos[i].flags;
			r = 0;
		}
	end(run, c);
	return r;
}

static int explain_input(struct gb_tool_run *run, uint64_t session, const struct gb_err *why,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	uint32_t flags = 0;
	int r = session_flags(run, session, &flags, err);

	if (r < 0 && r != GB_E_NOTFOUND && lost(run, r))
		return r;
	if (r == GB_E_NOTFOUND)
		return refuse(run, ret, err, "write_stdin failed: unknown session ID %" PRIu64,
			session);
	if (r == 0 && !(flags & (GB_SESSION_IS_TTY | GB_SESSION_HAS_STDIN)))
		return refuse(run, ret, err,
			"write_stdin failed: session %" PRIu64 " takes no input; rerun exec_command "
			"with tty=true to type into it (\\u0003 alone interrupts it)",
			session);
	return refuse(run, ret, err, "write_stdin failed for session %" PRIu64 ": %s", session,
		why->msg);
}

static int write_stdin(struct gb_tool_run *run, const struct gb_tool_args *args,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	const struct gb_tool_value *chars = &args->v[GB_ARG_CHARS];
	struct gb_msg_session_input m = {
		.session = (uint64_t)args->v[GB_ARG_SESSION].number,
		.chars = { (uint8_t *)chars->text, chars->len },
		.yield_ms = gb_tool_yield_ms(args),
	};
	struct gb_err why = { 0 };
	uint32_t flags;
	int r;

	/* a terminal makes a signal of it, or hands it to a program that wants it raw */
	if (chars->len == 1 && *chars->text == *INTERRUPT &&
		session_flags(run, m.session, &flags, &why) == 0 && !(flags & GB_SESSION_IS_TTY)) {
		m.chars.len = 0;
		m.signo = SIGINT;
	}
	r = talk(run, args, GB_FRAME_SESSION_INPUT, &gb_msg_session_input_desc, &m, ret, &why, err);
	if (r == 0 && why.code)
		r = explain_input(run, m.session, &why, ret, err);
	return r;
}

/* ---- apply_patch ---- */

static int patch_answer(struct gb_tool_run *run, const struct gb_call *c, struct gb_buf *reply,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	const struct gb_msg_exit *e = gb_call_exit(c);
	int r;

	if (!e)
		return gb_fail(err, GB_E_PROTOCOL, "the agent's answer is missing");
	gb_buf_add_byte(reply, 0);
	r = gb_buf_check(reply, "an answer", err);
	if (r == 0 && e->code && reply->len == 1)
		return refuse(run, ret, err, "apply_patch failed: %s",
			e->note && *e->note ? e->note : "the agent did not say why");
	if (r == 0)
		r = say(run, (char *)reply->data, ret, err);
	ret->success = e->code == 0;
	return r;
}

static int apply_patch(struct gb_tool_run *run, const struct gb_tool_args *args,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	const struct gb_msg_patch m = { .workdir = borrow(run->options.workdir),
		.user = borrow(run->options.user),
		.flags = run->options.patch_outside ? GB_PATCH_OUTSIDE : 0 };
	gb_auto_done(gb_buf) reply = { 0 };
	struct gb_call *c;
	int r = begin(run, GB_CALL_PATCH, GB_FRAME_PATCH, &gb_msg_patch_desc, &m, &c, err);

	if (r < 0)
		return r;
	gb_buf_init(&reply, PATCH_REPLY_MAX);
	r = finish(c, &args->v[GB_ARG_PATCH], &reply, err);
	if (r == 0)
		r = patch_answer(run, c, &reply, ret, err);
	else if (!lost(run, r))
		r = refuse(run, ret, err, "apply_patch failed: %s", err->msg);
	end(run, c);
	return r;
}

/* ---- view_image ---- */

static int explain_read(struct gb_tool_run *run, const char *path, const struct gb_err *why,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	switch (why->code) {
	case GB_E_NOTFOUND:
		return refuse(run, ret, err, "unable to locate image at `%s`: %s", path, why->msg);
	case GB_E_INVALID:
		return refuse(run, ret, err, "image path `%s` is not a file", path);
	case GB_E_LIMIT:
		return refuse(run, ret, err,
			"image at `%s` is too large: %s; at most %zu bytes can be shown, so make it "
			"smaller or convert it to PNG, JPEG or WebP",
			path, why->msg, GB_MEDIA_BYTES_MAX);
	default:
		return refuse(run, ret, err, "unable to read image at `%s`: %s", path, why->msg);
	}
}

static int show_picture(struct gb_tool_run *run, const struct gb_tool_args *args,
	const struct gb_buf *file, struct gb_tool_answer *ret, struct gb_err *err)
{
	const char *path = args->v[GB_ARG_PATH].text;
	const char *word = args->v[GB_ARG_DETAIL].given ? args->v[GB_ARG_DETAIL].text : "high";
	uint64_t ms = run->options.deadline_ms ? run->options.deadline_ms : GB_MEDIA_DEADLINE_MS;
	enum gb_media_detail detail;
	struct gb_err why;
	int r = gb_media_detail_parse(word, &detail, err);

	if (r < 0)
		return r;
	r = gb_media_view(file->data, file->len, detail, gb_deadline_ms(ms), &ret->picture, &why);
	if (r == GB_E_NOMEM || r == GB_E_NOTFOUND || r == GB_E_IO) {
		*err = why;
		return r;
	}
	if (r < 0)
		return refuse(run, ret, err, "unable to process image at `%s`: %s", path, why.msg);
	ret->has_picture = true;
	ret->detail = strdup(word);
	gb_buf_printf(&ret->text, "Image `%s`: %s, %u x %u pixels", path,
		gb_media_format_name(ret->picture.format), ret->picture.width, ret->picture.height);
	ret->success = true;
	return ret->detail ? gb_buf_check(&ret->text, "an answer", err) : gb_nomem(err);
}

static int view_image(struct gb_tool_run *run, const struct gb_tool_args *args,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	const char *path = args->v[GB_ARG_PATH].text;
	gb_auto_free char *full = place(run, path);
	const struct gb_msg_file_read m = { .path = borrow(full),
		.user = borrow(run->options.user), .limit = GB_MEDIA_BYTES_MAX };
	gb_auto_done(gb_buf) file = { 0 };
	struct gb_call *c;
	struct gb_err why = { 0 };
	int r;

	if (!full)
		return gb_nomem(err);
	if (!*path)
		return say(run, "view_image failed: 'path' is empty", ret, err);
	r = begin(run, GB_CALL_READ, GB_FRAME_FILE_READ, &gb_msg_file_read_desc, &m, &c, err);
	if (r < 0)
		return r;
	gb_buf_init(&file, GB_MEDIA_BYTES_MAX);
	r = finish(c, NULL, &file, &why);
	end(run, c);
	if (r < 0 && lost(run, r)) {
		*err = why;
		return r;
	}
	return r < 0 ? explain_read(run, path, &why, ret, err)
		     : show_picture(run, args, &file, ret, err);
}

int gb_tool_run(struct gb_tool_run *run, const struct gb_tool_args *args,
	struct gb_tool_answer *ret, struct gb_err *err)
{
	static int (*const tools[GB_TOOL_COUNT])(struct gb_tool_run *, const struct gb_tool_args *,
		struct gb_tool_answer *, struct gb_err *) = {
		[GB_TOOL_EXEC_COMMAND] = exec_command,
		[GB_TOOL_WRITE_STDIN] = write_stdin,
		[GB_TOOL_APPLY_PATCH] = apply_patch,
		[GB_TOOL_VIEW_IMAGE] = view_image,
	};
	struct gb_err ignored;
	int r;

	memset(ret, 0, sizeof(*ret));
	gb_buf_init(&ret->text, 0);
	r = tools[args->tool->id](run, args, ret, err ? err : &ignored);
	if (r < 0)
		gb_tool_answer_done(ret);
	return r;
}
