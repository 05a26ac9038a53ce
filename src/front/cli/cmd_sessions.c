/* sessions: what runs in a machine without anybody waiting for it. */
#include "front/cli/space.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CMD_SHOWN 60 /* bytes of a command in the table */

static const struct glovebox_session_info *entry(const struct glovebox_session_list *l, size_t i)
{
	return (const struct glovebox_session_info *)(const void *)((const char *)l->sessions +
		i * l->stride);
}

static const char *state(const struct glovebox_session_info *s, char *text, size_t size)
{
	if (!(s->flags & GLOVEBOX_SESSION_EXITED))
		return "running";
	snprintf(text, size, "exited (%d)", s->code);
	return text;
}

static json_t *session_json(const struct glovebox_session_info *s)
{
	bool ended = s->flags & GLOVEBOX_SESSION_EXITED;
	json_t *j = json_pack("{s:I, s:s, s:b, s:i, s:o, s:o, s:I, s:I, s:i}", "session",
		(json_int_t)s->session, "state", ended ? "exited" : "running", "tty",
		(int)!!(s->flags & GLOVEBOX_SESSION_IS_TTY), "pid", (int)s->pid, "cmd",
		gb_json_text(s->cmd), "workdir", gb_json_text(s->workdir), "started",
		(json_int_t)(s->started_realtime_ns / 1000000000u), "bytes",
		(json_int_t)s->bytes, "attached", (int)s->attached);

	if (j && ended)
		json_object_set_new(j, "exit_code", json_integer(s->code));
	return j;
}

static int print_json(const struct glovebox_session_list *l, struct gb_err *err)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->count; i++)
		json_array_append_new(list, session_json(entry(l, i)));
	return gb_print_json(list, err);
}

static void add_row(struct gb_table *t, const struct glovebox_session_info *s)
{
	gb_auto_free char *cmd = gb_printable(s->cmd, false);
	char id[24];
	char state_text[32];
	char started[32];
	char bytes[32];

	if (cmd && strlen(cmd) > CMD_SHOWN)
		snprintf(cmd + CMD_SHOWN - 3, 4, "...");
	snprintf(id, sizeof(id), "%" PRIu64, s->session);
	gb_time_text((int64_t)(s->started_realtime_ns / 1000000000u), started, sizeof(started));
	gb_amount_text(s->bytes, bytes, sizeof(bytes));
	gb_table_row(t, (const char *const[]){ id, state(s, state_text, sizeof(state_text)),
				s->flags & GLOVEBOX_SESSION_IS_TTY ? "yes" : "no", started, bytes,
				cmd ? cmd : "", NULL });
}

static int print_table(const struct glovebox_session_list *l, struct gb_err *err)
{
	struct gb_table t = { 0 };
	int r;

	gb_table_row(&t, (const char *const[]){ "SESSION", "STATE", "TTY", "STARTED", "OUTPUT",
				"COMMAND", NULL });
	for (size_t i = 0; i < l->count; i++)
		add_row(&t, entry(l, i));
	r = gb_table_print(&t, err);
	gb_table_done(&t);
	return r;
}

int gb_cmd_sessions(struct gb_cli *cli, struct gb_err *err)
{
	__attribute__((cleanup(gb_space_done))) struct gb_space space = { 0 };
	struct glovebox_session_list *list = NULL;
	struct glovebox_workspace *ws = NULL;
	struct glovebox_error e = { 0 };
	int r = gb_space_init(&space, cli, cli->args.operands[0], err);

	if (r == 0)
		r = gb_space_connect(&space, &ws, err);
	if (r < 0)
		return r;
	r = glovebox_sessions(glovebox_workspace_own_tools(ws), &list, &e);
	if (r < 0)
		r = gb_space_error(&e, err);
	else
		r = gb_cli_given(&cli->args, OPT_JSON) ? print_json(list, err)
						       : print_table(list, err);
	glovebox_session_list_free(list);
	glovebox_workspace_free(ws);
	return r;
}
