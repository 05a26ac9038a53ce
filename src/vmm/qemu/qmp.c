#include "vmm/qemu/qmp.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define READ_CHUNK 4096u
/* Reads in one gb_qmp_next, so that a flood of events cannot keep the caller. What is
 * left is in the socket, which stays readable: no whole line is ever left behind in the
 * buffer. */
#define READS_MAX 16

void gb_qmp_message_done(struct gb_qmp_message *m)
{
	json_decref(m->root);
	memset(m, 0, sizeof(*m));
}

static int broken(struct gb_err *err, const char *what)
{
	return gb_fail(err, GB_E_PROTOCOL, "qemu's monitor: %s", what);
}

/* m->root is the line's object: find out what it is. */
static int classify(struct gb_qmp_message *m, struct gb_err *err)
{
	json_t *part;

	if (!json_is_object(m->root))
		return broken(err, "not an object");
	if ((part = json_object_get(m->root, "return"))) {
		m->kind = GB_QMP_RETURN;
		m->data = part;
		return 0;
	}
	if ((part = json_object_get(m->root, "error"))) {
		m->kind = GB_QMP_ERROR;
		m->name = json_string_value(json_object_get(part, "class"));
		m->text = json_string_value(json_object_get(part, "desc"));
		return m->name && m->text ? 0 : broken(err, "an error without a text");
	}
	if ((part = json_object_get(m->root, "event"))) {
		m->kind = GB_QMP_EVENT;
		m->name = json_string_value(part);
		m->data = json_object_get(m->root, "data");
		return m->name ? 0 : broken(err, "an event without a name");
	}
	if ((part = json_object_get(m->root, "QMP"))) {
		m->kind = GB_QMP_GREETING;
		m->data = json_object_get(json_object_get(part, "version"), "qemu");
		return 0;
	}
	return broken(err, "neither greeting nor answer nor event");
}

int gb_qmp_parse(
	const char *line, size_t len, struct gb_qmp_message *ret, struct gb_err *err)
{
	struct gb_qmp_message m = {0};
	json_error_t why;
	int r;

	m.root = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
	if (!m.root && json_error_code(&why) == json_error_out_of_memory)
		return gb_nomem(err);
	if (!m.root)
		return gb_fail(err, GB_E_PROTOCOL, "qemu's monitor: %s", why.text);
	r = classify(&m, err);
	if (r < 0) {
		gb_qmp_message_done(&m);
		return r;
	}
	*ret = m;
	return 0;
}

int gb_qmp_init_consume(
	struct gb_qmp *q, int fd, gb_qmp_event_fn on_event, void *ctx, struct gb_err *err)
{
	memset(q, 0, sizeof(*q));
	gb_buf_init(&q->in, GB_QMP_LINE_MAX);
	q->fd = fd;
	q->on_event = on_event;
	q->ctx = ctx;
	return gb_fd_nonblock(fd, true, err);
}

void gb_qmp_done(struct gb_qmp *q)
{
	gb_fd_close(&q->fd);
	gb_buf_done(&q->in);
	q->taken = 0;
}

int gb_qmp_send(
	struct gb_qmp *q, const char *text, uint64_t deadline_ns, struct gb_err *err)
{
	size_t len = strlen(text);
	int r;

	while (len) {
		ssize_t n = send(q->fd, text, len, MSG_NOSIGNAL);

		if (n > 0) {
			text += n;
			len -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			r = gb_fd_wait(q->fd, POLLOUT, deadline_ns, err);
			if (r < 0)
				return gb_wrap(err, r, "qemu's monitor does not listen");
		} else if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			return gb_fail(err, GB_E_CLOSED, "qemu's monitor is gone");
		} else if (n < 0 && errno != EINTR) {
			return gb_fail_sys(err, errno, "cannot write to qemu's monitor");
		}
	}
	return 0;
}

int gb_qmp_send_fd(struct gb_qmp *q, const char *text, int fd, uint64_t deadline_ns,
	struct gb_err *err)
{
	int r = gb_fd_send(q->fd, (uint8_t)text[0], &fd, 1, err);

	return r < 0 ? r : gb_qmp_send(q, text + 1, deadline_ns, err);
}

/* 1 when bytes came, 0 when none are there now. */
static int fill(struct gb_qmp *q, struct gb_err *err)
{
	uint8_t *to;
	ssize_t n;

	gb_buf_consume(&q->in, q->taken);
	q->taken = 0;
	to = gb_buf_reserve(&q->in, READ_CHUNK);
	if (!to && q->in.error == GB_E_LIMIT)
		return broken(err, "a line is too long");
	if (!to)
		return gb_nomem(err);
	do
		n = recv(q->fd, to, READ_CHUNK, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return gb_fail(err, GB_E_CLOSED, "qemu's monitor is gone");
	if (n < 0)
		return gb_fail_sys(err, errno, "cannot read from qemu's monitor");
	q->in.len += (size_t)n;
	return 1;
}

/* 1 and a line (without its end) that lives until the next fill; 0 when none is whole. */
static int take_line(struct gb_qmp *q, const char **ret, size_t *ret_len)
{
	size_t have = q->in.len - q->taken;
	const char *from;
	const char *end;

	if (!have)
		return 0;
	from = (const char *)q->in.data + q->taken;
	end = memchr(from, '\n', have);
	if (!end)
		return 0;
	*ret = from;
	*ret_len = (size_t)(end - from);
	q->taken += *ret_len + 1;
	return 1;
}

static void note_version(struct gb_qmp *q, const json_t *v)
{
	snprintf(q->version, sizeof(q->version), "%d.%d.%d",
		(int)json_integer_value(json_object_get(v, "major")),
		(int)json_integer_value(json_object_get(v, "minor")),
		(int)json_integer_value(json_object_get(v, "micro")));
}

/* 1 when the line was an answer, which is in *ret then. */
static int handle_line(struct gb_qmp *q, const char *line, size_t len,
	struct gb_qmp_message *ret, struct gb_err *err)
{
	struct gb_qmp_message m;
	int r = gb_qmp_parse(line, len, &m, err);

	if (r < 0)
		return r;
	if (m.kind == GB_QMP_RETURN || m.kind == GB_QMP_ERROR) {
		*ret = m;
		return 1;
	}
	if (m.kind == GB_QMP_EVENT && q->on_event)
		q->on_event(q->ctx, m.name, m.data);
	if (m.kind == GB_QMP_GREETING)
		note_version(q, m.data);
	gb_qmp_message_done(&m);
	return 0;
}

int gb_qmp_next(struct gb_qmp *q, struct gb_qmp_message *ret, struct gb_err *err)
{
	for (int reads = 0;;) {
		const char *line;
		size_t len;
		int r;

		if (take_line(q, &line, &len))
			r = handle_line(q, line, len, ret, err);
		else if (reads++ == READS_MAX)
			return 0;
		else if ((r = fill(q, err)) == 1)
			continue;
		else
			return r;
		if (r != 0)
			return r;
	}
}

int gb_qmp_wait(struct gb_qmp *q, uint64_t deadline_ns, struct gb_err *err)
{
	int r;

	if (q->in.len > q->taken &&
		memchr(q->in.data + q->taken, '\n', q->in.len - q->taken))
		return 0;
	r = gb_fd_wait(q->fd, POLLIN, deadline_ns, err);
	return r < 0 ? gb_wrap(err, r, "waiting for qemu's monitor") : 0;
}

int gb_qmp_answer(
	struct gb_qmp *q, uint64_t deadline_ns, json_t **ret_value, struct gb_err *err)
{
	struct gb_qmp_message m;
	int r;

	while ((r = gb_qmp_next(q, &m, err)) == 0) {
		r = gb_qmp_wait(q, deadline_ns, err);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	r = 0;
	if (m.kind == GB_QMP_ERROR)
		r = gb_fail(err, GB_E_STATE, "qemu: %s", m.text);
	else if (ret_value)
		*ret_value = json_incref((json_t *)m.data);
	gb_qmp_message_done(&m);
	return r;
}

int gb_qmp_call(struct gb_qmp *q, const char *text, uint64_t deadline_ns,
	json_t **ret_value, struct gb_err *err)
{
	int r = gb_qmp_send(q, text, deadline_ns, err);

	return r < 0 ? r : gb_qmp_answer(q, deadline_ns, ret_value, err);
}
