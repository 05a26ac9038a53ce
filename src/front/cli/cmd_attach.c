/* attach: our terminal joined to a session that runs, whoever started it. Ctrl-P Ctrl-Q leaves it
 * alone again; a Ctrl-P that nothing of the kind follows is passed on. */
#include "front/cli/space.h"
#include "front/cli/term.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SCROLLBACK ((uint64_t)1 << 20)
#define KEY_FIRST  0x10 /* Ctrl-P */
#define KEY_SECOND 0x11 /* Ctrl-Q */

struct attach {
	struct glovebox_request *request;
	bool raw;         /* our input is a terminal: its keys are looked at */
	bool first_seen;  /* Ctrl-P was typed and is not passed on yet */
	bool in_open;
	bool detached;
	struct gb_buf typed; /* not taken yet */
};

/* Bytes that were typed, without what is for us. */
static void take_keys(struct attach *a, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len && !a->detached; i++) {
		bool first = a->first_seen;

		a->first_seen = a->raw && !first && data[i] == KEY_FIRST;
		if (a->first_seen)
			continue;
		if (first && data[i] == KEY_SECOND) {
			a->detached = true;
			return;
		}
		if (first)
			gb_buf_add_byte(&a->typed, KEY_FIRST);
		gb_buf_add_byte(&a->typed, data[i]);
	}
}

static void read_keys(struct attach *a)
{
	uint8_t data[4096];
	ssize_t n = read(STDIN_FILENO, data, sizeof(data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		take_keys(a, data, (size_t)n);
		return;
	}
	/* a terminal's end means that nobody is there any more; a file's is the session's */
	a->in_open = false;
	if (a->raw)
		a->detached = true;
}

static void send_keys(struct attach *a)
{
	int64_t n;

	if (a->typed.len) {
		n = glovebox_request_write(a->request, a->typed.data, a->typed.len, NULL);
		/* it takes no input, or has ended: what is typed goes nowhere */
		gb_buf_consume(&a->typed, n < 0 ? a->typed.len : (size_t)n);
	}
	if (!a->in_open && !a->typed.len)
		glovebox_request_write_eof(a->request, NULL);
}

static int take_events(struct attach *a, bool *over, struct gb_err *err)
{
	struct glovebox_event e = { .size = sizeof(e) };
	struct glovebox_error why = { 0 };
	int r;

	while ((r = glovebox_request_next(a->request, &e, &why)) > 0) {
		if (e.type == GLOVEBOX_EVENT_OUTPUT &&
			gb_fd_write_full(STDOUT_FILENO, e.data, e.len, err) < 0)
			return GB_E_CLOSED;
		if (e.type == GLOVEBOX_EVENT_WRITABLE)
			send_keys(a);
		*over = *over || e.type == GLOVEBOX_EVENT_DONE;
	}
	return r < 0 ? gb_space_error(&why, err) : 0;
}

static void resize(struct attach *a)
{
	char drained[64];
	unsigned rows;
	unsigned cols;

	if (read(gb_signals_winch_fd(), drained, sizeof(drained)) <= 0)
		return;
	gb_term_size(&rows, &cols);
	glovebox_request_resize(a->request, rows, cols, NULL);
}

/* A signal for us is the session's when we are no terminal, and the end of attaching else. */
static void on_signal(struct attach *a)
{
	char signo;

	if (read(gb_signals_fd(), &signo, 1) <= 0)
		return;
	if (signo == 2 && !a->raw)
		glovebox_request_signal(a->request, signo, NULL);
	else
		a->detached = true;
}

static int follow(struct attach *a, struct gb_err *err)
{
	bool over = false;
	int r = take_events(a, &over, err);

	while (r == 0 && !over && !a->detached) {
		struct pollfd p[] = {
			{ glovebox_request_fd(a->request, NULL), POLLIN, 0 },
			{ a->in_open && !a->typed.len ? STDIN_FILENO : -1, POLLIN, 0 },
			{ gb_signals_winch_fd(), POLLIN, 0 },
			{ gb_signals_fd(), POLLIN, 0 },
		};

		if (poll(p, GB_ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot wait");
		if (p[2].revents)
			resize(a);
		if (p[3].revents)
			on_signal(a);
		if (p[1].revents) {
			read_keys(a);
			send_keys(a);
		}
		if (p[0].revents)
			r = take_events(a, &over, err);
	}
	return r;
}

static int result(struct attach *a, struct gb_err *err)
{
	struct glovebox_error why = { 0 };
	struct glovebox_exit e = { .size = sizeof(e) };

	if (a->detached) {
		gb_say("left the session; it goes on");
		return 0;
	}
	if (glovebox_request_wait(a->request, -1, NULL, &why) < 0 ||
		glovebox_request_exit(a->request, &e, &why) < 0)
		return gb_space_error(&why, err);
	if (*e.note)
		gb_say("note: %s", e.note);
	return e.code & 255;
}

static int attach(struct glovebox_workspace *ws, uint64_t session, struct gb_err *err)
{
	struct glovebox_attach_options o = { .size = sizeof(o), .scrollback = SCROLLBACK };
	struct attach a = { .raw = isatty(STDIN_FILENO), .in_open = true };
	struct glovebox_error why = { 0 };
	unsigned rows;
	unsigned cols;
	int r;

	gb_buf_init(&a.typed, 0);
	if (a.raw) {
		gb_term_size(&rows, &cols);
		o.rows = rows;
		o.cols = cols;
	}
	r = glovebox_session_attach(glovebox_workspace_own_tools(ws), session, &o, &a.request, &why);
	if (r < 0)
		return gb_space_error(&why, err);
	r = a.raw ? gb_term_raw(err) : 0;
	if (r == 0)
		r = follow(&a, err);
	gb_term_restore();
	if (r == 0)
		r = result(&a, err);
	glovebox_request_free(a.request);
	gb_buf_done(&a.typed);
	return r;
}

int gb_cmd_attach(struct gb_cli *cli, struct gb_err *err)
{
	__attribute__((cleanup(gb_space_done))) struct gb_space space = { 0 };
	struct glovebox_workspace *ws = NULL;
	uint64_t session;
	int r = gb_parse_u64(cli->args.operands[1], UINT64_MAX, &session, err);

	if (r < 0)
		return gb_wrap(err, r, "'%s' is no session's number", cli->args.operands[1]);
	r = gb_space_init(&space, cli, cli->args.operands[0], err);
	if (r == 0)
		r = gb_space_connect(&space, &ws, err);
	if (r == 0)
		r = gb_signals_catch(err);
	if (r == 0)
		r = attach(ws, session, err);
	glovebox_workspace_free(ws);
	return r;
}
