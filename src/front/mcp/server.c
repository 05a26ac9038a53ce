#include "front/mcp/server.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define NO_MACHINE                                                                       \
	"The virtual machine could not be started. This is not about your call; the user's " \
	"log of this server says why."
#define LOST_MACHINE                                                                     \
	"The virtual machine ended while this ran. What the call did so far may or may not " \
	"have happened; the next call starts the machine again."
#define INTERNAL                                                                         \
	"This could not be carried out, for a reason that is not about your call; the user's " \
	"log of this server says why."
#define LEAVING "The call was ended, because the client closed its side."

/* The answers to a list of messages are sent together. */
struct gb_mcp_batch {
	size_t open; /* answers that are still to come, and 1 while it is read */
	json_t *answers;
};

int gb_mcp_init(struct gb_mcp *m, const struct gb_mcp_ops *ops, void *ctx, const char *folder,
	struct gb_err *err)
{
	memset(m, 0, sizeof(*m));
	m->ops = ops;
	m->ctx = ctx;
	m->agreed = GB_MCP_LEGACY_LATEST;
	gb_buf_init(&m->out, GB_MCP_OUT_MAX);
	m->instructions = gb_mcp_instructions(folder);
	return m->instructions ? 0 : gb_nomem(err);
}

static void call_free(struct gb_mcp_call *c)
{
	json_decref(c->id);
	json_decref(c->token);
	gb_tool_args_done(&c->args);
	free(c);
}

void gb_mcp_close(struct gb_mcp *m)
{
	while (m->first) {
		struct gb_mcp_call *c = m->first;

		m->first = c->next;
		call_free(c);
	}
	gb_buf_done(&m->out);
	free(gb_take_ptr(m->instructions));
}

/* ---- out ---- */

static void batch_unref(struct gb_mcp *m, struct gb_mcp_batch *b)
{
	if (--b->open)
		return;
	if (json_array_size(b->answers))
		gb_rpc_write(json_incref(b->answers), &m->out);
	json_decref(b->answers);
	free(b);
}

static void send(struct gb_mcp *m, struct gb_mcp_batch *b, json_t *message_consume)
{
	if (b)
		json_array_append_new(b->answers, message_consume);
	else
		gb_rpc_write(message_consume, &m->out);
}

static void send_fault(struct gb_mcp *m, struct gb_mcp_batch *b, json_t *id,
	const struct gb_rpc_fault *fault, json_t *data_consume)
{
	send(m, b, gb_rpc_error(id, fault->code, fault->text, data_consume));
}

static void refuse(struct gb_mcp *m, struct gb_mcp_batch *b, json_t *id, int code,
	const char *text)
{
	send(m, b, gb_rpc_error(id, code, text, NULL));
}

/* ---- calls ---- */

static void take_out(struct gb_mcp *m, struct gb_mcp_call *c)
{
	struct gb_mcp_call *before = NULL;

	for (struct gb_mcp_call *p = m->first; p != c; p = p->next)
		before = p;
	if (before)
		before->next = c->next;
	else
		m->first = c->next;
	if (m->last == c)
		m->last = before;
	if (c->running)
		m->running--;
	else
		m->waiting--;
}

/* It is answered (result NULL: it was cancelled, and gets no answer), and gone. */
static void settle(struct gb_mcp *m, struct gb_mcp_call *c, json_t *result_consume)
{
	take_out(m, c);
	if (c->mute)
		json_decref(result_consume);
	else if (result_consume)
		send(m, c->batch, gb_rpc_result(c->id, result_consume));
	else
		refuse(m, c->batch, c->id, GB_RPC_INTERNAL, "Internal error: out of memory");
	if (c->batch)
		batch_unref(m, c->batch);
	call_free(c);
}

static bool is_blocked(const struct gb_mcp *m, const struct gb_mcp_call *c)
{
	if (gb_tools[c->tool].parallel)
		return false;
	for (const struct gb_mcp_call *p = m->first; p != c; p = p->next)
		if (p->tool == c->tool)
			return true;
	return false;
}

static void start_call(struct gb_mcp *m, struct gb_mcp_call *c)
{
	struct gb_err err = { 0 };

	m->waiting--;
	m->running++;
	c->running = true;
	c->generation = m->generation;
	if (m->ops->start(m->ctx, c, &err) < 0)
		gb_mcp_done(m, c, NULL, &err);
}

/* Whatever may run now does. */
static void dispatch(struct gb_mcp *m)
{
	struct gb_mcp_call *next;

	if (m->waiting && m->machine == GB_MCP_NONE) {
		m->machine = GB_MCP_STARTING;
		m->ops->start_machine(m->ctx);
	}
	for (struct gb_mcp_call *c = m->first; c && m->machine == GB_MCP_UP; c = next) {
		next = c->next;
		if (m->running >= GB_MCP_RUNNING_MAX)
			return;
		if (!c->running && !is_blocked(m, c))
			start_call(m, c);
	}
}

static struct gb_mcp_call *call_new(json_t *id, const json_t *params, struct gb_tool_args *args_consume)
{
	struct gb_mcp_call *c = calloc(1, sizeof(*c));
	json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");

	if (!c) {
		gb_tool_args_done(args_consume);
		return NULL;
	}
	c->id = json_incref(id);
	if (json_is_string(token) || json_is_number(token))
		c->token = json_incref(token);
	c->args = *args_consume;
	c->tool = args_consume->tool->id;
	return c;
}

static void enqueue(struct gb_mcp *m, struct gb_mcp_call *c)
{
	c->beat_ns = m->now_ns + GB_MCP_BEAT_MS * GB_NS_MS;
	if (c->batch)
		c->batch->open++;
	if (m->last)
		m->last->next = c;
	else
		m->first = c;
	m->last = c;
	m->waiting++;
}

static struct gb_mcp_call *find_call(const struct gb_mcp *m, const json_t *id)
{
	struct gb_mcp_call *c = m->first;

	while (c && (c->mute || !json_equal(c->id, id)))
		c = c->next;
	return c;
}

static void tools_call(struct gb_mcp *m, struct gb_mcp_batch *b, const struct gb_rpc_message *q,
	enum gb_mcp_revision revision)
{
	json_t *name = json_object_get(q->params, "name");
	const struct gb_tool *t = gb_tool_find(json_string_value(name));
	struct gb_tool_args args;
	struct gb_mcp_call *c;
	struct gb_err err = { 0 };

	if (!t) {
		refuse(m, b, q->id, GB_RPC_PARAMS,
			json_is_string(name) ? "Unknown tool" : "Invalid params: there is no name");
		return;
	}
	if (find_call(m, q->id)) {
		refuse(m, b, q->id, GB_RPC_REQUEST, "Invalid request: a call with this id runs");
		return;
	}
	if (m->waiting >= GB_MCP_WAITING_MAX) {
		send(m, b, gb_rpc_result(q->id, gb_mcp_failure("Too many calls wait already; "
			"try again when some have ended.", revision)));
		return;
	}
	if (gb_tool_args_check(t, json_object_get(q->params, "arguments"), &args, &err) < 0) {
		send(m, b, gb_rpc_result(q->id, gb_mcp_failure(err.msg, revision)));
		return;
	}
	c = call_new(q->id, q->params, &args);
	if (!c) {
		refuse(m, b, q->id, GB_RPC_INTERNAL, "Internal error: out of memory");
		return;
	}
	c->revision = revision;
	c->batch = b;
	enqueue(m, c);
	dispatch(m);
}

/* ---- in ---- */

static void on_call(struct gb_mcp *m, struct gb_mcp_batch *b, const struct gb_rpc_message *q)
{
	enum gb_mcp_revision revision;
	struct gb_rpc_fault fault;
	json_t *data;
	bool modern;

	/* the probe of a client that does not know us yet: never refused */
	if (strcmp(q->method, "server/discover") == 0 &&
		!json_object_get(json_object_get(q->params, "_meta"),
			"io.modelcontextprotocol/protocolVersion")) {
		send(m, b, gb_rpc_result(q->id, gb_mcp_discovered(m->instructions)));
		return;
	}
	if (gb_mcp_revision_of(q->params, m->agreed, &revision, &modern, &fault, &data) < 0) {
		send_fault(m, b, q->id, &fault, data);
		return;
	}
	if (strcmp(q->method, "tools/call") == 0)
		tools_call(m, b, q, revision);
	else if (strcmp(q->method, "tools/list") == 0)
		send(m, b, gb_rpc_result(q->id, gb_mcp_tools(revision)));
	else if (strcmp(q->method, "server/discover") == 0)
		send(m, b, gb_rpc_result(q->id, gb_mcp_discovered(m->instructions)));
	else if (strcmp(q->method, "initialize") == 0 && !modern)
		send(m, b, gb_rpc_result(q->id,
			gb_mcp_initialized(q->params, m->instructions, &m->agreed)));
	else if (strcmp(q->method, "ping") == 0 && !modern)
		send(m, b, gb_rpc_result(q->id, json_object()));
	else
		refuse(m, b, q->id, GB_RPC_METHOD, "Method not found");
}

static void on_notice(struct gb_mcp *m, const struct gb_rpc_message *q)
{
	struct gb_mcp_call *c;

	if (strcmp(q->method, "notifications/cancelled") != 0)
		return;
	c = find_call(m, json_object_get(q->params, "requestId"));
	if (!c)
		return;
	c->mute = true;
	if (c->running)
		m->ops->cancel(m->ctx, c);
	else
		settle(m, c, NULL);
}

static void on_message(struct gb_mcp *m, struct gb_mcp_batch *b, json_t *message)
{
	struct gb_rpc_message q;
	struct gb_rpc_fault fault;

	switch (gb_rpc_read(message, &q, &fault)) {
	case GB_RPC_CALL:
		on_call(m, b, &q);
		break;
	case GB_RPC_NOTICE:
		on_notice(m, &q);
		break;
	case GB_RPC_BROKEN:
		send_fault(m, b, q.id, &fault, NULL);
		break;
	case GB_RPC_REPLY: /* nothing was asked */
		break;
	}
}

static void on_batch(struct gb_mcp *m, json_t *list)
{
	struct gb_mcp_batch *b;
	size_t n = json_array_size(list);

	/* 2025-06-18 took them away again */
	if (m->agreed > GB_MCP_2025_03_26 || !n || n > GB_RPC_BATCH_MAX) {
		json_t *id = json_null();

		refuse(m, NULL, id, GB_RPC_REQUEST,
			n && n <= GB_RPC_BATCH_MAX ? "Invalid request: no lists of messages in this "
						     "revision"
						   : "Invalid request: 1 to 256 messages in a list");
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		m->out.error = GB_E_NOMEM;
		return;
	}
	b->answers = json_array();
	b->open = 1;
	for (size_t i = 0; i < n; i++)
		on_message(m, b, json_array_get(list, i));
	batch_unref(m, b);
}

void gb_mcp_line(struct gb_mcp *m, const char *line, size_t len)
{
	struct gb_rpc_fault fault;
	json_t *id;
	json_t *j = gb_rpc_load(line, len, &id, &fault);

	if (!j) {
		send_fault(m, NULL, id, &fault, NULL);
		json_decref(id);
		return;
	}
	if (json_is_array(j))
		on_batch(m, j);
	else
		on_message(m, NULL, j);
	json_decref(j);
}

void gb_mcp_too_long(struct gb_mcp *m)
{
	refuse(m, NULL, json_null(), GB_RPC_REQUEST, "Invalid request: the message is too long");
}

/* ---- the machine ---- */

void gb_mcp_up(struct gb_mcp *m)
{
	m->machine = GB_MCP_UP;
	m->generation++;
	dispatch(m);
}

void gb_mcp_failed(struct gb_mcp *m, const struct gb_err *why)
{
	struct gb_mcp_call *next;

	m->machine = GB_MCP_NONE;
	m->ops->complain(m->ctx, why->msg);
	for (struct gb_mcp_call *c = m->first; c; c = next) {
		next = c->next;
		if (!c->running)
			settle(m, c, gb_mcp_failure(NO_MACHINE, c->revision));
	}
}

static void tell(struct gb_mcp *m, struct gb_mcp_call *c, const char *text)
{
	if (!c->token || c->mute)
		return;
	c->progress += 1;
	gb_rpc_write(gb_mcp_progress(c->token, c->progress, text), &m->out);
	c->beat_ns = m->now_ns + GB_MCP_BEAT_MS * GB_NS_MS;
}

void gb_mcp_note(struct gb_mcp *m, const char *text)
{
	for (struct gb_mcp_call *c = m->first; c; c = c->next)
		if (!c->running)
			tell(m, c, text);
}

static json_t *failure_of(struct gb_mcp *m, const struct gb_mcp_call *c, const struct gb_err *why)
{
	if (why->code == GB_E_CANCELLED)
		return gb_mcp_failure(LEAVING, c->revision);
	m->ops->complain(m->ctx, why->msg);
	if (why->code != GB_E_CLOSED && why->code != GB_E_PROTOCOL && why->code != GB_E_STATE)
		return gb_mcp_failure(INTERNAL, c->revision);
	/* it may be another one already that is up */
	if (m->machine == GB_MCP_UP && c->generation == m->generation) {
		m->machine = GB_MCP_NONE;
		m->ops->drop_machine(m->ctx);
	}
	return gb_mcp_failure(LOST_MACHINE, c->revision);
}

void gb_mcp_done(struct gb_mcp *m, struct gb_mcp_call *call, const struct gb_tool_answer *answer,
	const struct gb_err *why)
{
	settle(m, call, answer ? gb_mcp_answer(answer, call->revision) : failure_of(m, call, why));
	dispatch(m);
}

uint64_t gb_mcp_tick(struct gb_mcp *m, uint64_t now_ns)
{
	uint64_t due = UINT64_MAX;

	m->now_ns = now_ns;
	for (struct gb_mcp_call *c = m->first; c; c = c->next) {
		if (!c->token || c->mute)
			continue;
		if (c->beat_ns <= now_ns)
			tell(m, c, c->running ? "running" : "waiting for the machine");
		due = GB_MIN(due, c->beat_ns);
	}
	return due;
}

void gb_mcp_leave(struct gb_mcp *m)
{
	struct gb_mcp_call *next;

	for (struct gb_mcp_call *c = m->first; c; c = next) {
		next = c->next;
		if (c->running)
			m->ops->cancel(m->ctx, c);
		else
			settle(m, c, gb_mcp_failure(LEAVING, c->revision));
	}
}
