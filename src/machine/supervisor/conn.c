#include "machine/supervisor/conn.h"

#include <string.h>

#define CONN_OUT_MAX ((size_t)256 << 20)

struct write_request {
	uv_write_t req;
	struct gb_conn *c;
	struct gb_buf data; /* owned */
};

static void end(struct gb_conn *c, const struct gb_err *reason)
{
	if (!c->closing)
		c->ops->ended(c, reason);
}

static void end_with(struct gb_conn *c, int uv_error)
{
	struct gb_err e = { 0 };

	gb_fail(&e, GB_E_CLOSED, "connection lost: %s", uv_strerror(uv_error));
	end(c, &e);
}

static void check_drained(struct gb_conn *c)
{
	if (!c->over_high || gb_conn_queued(c) > GB_CONN_LOW)
		return;
	c->over_high = false;
	if (!c->closing && c->ops->drained)
		c->ops->drained(c);
}

static void flush(struct gb_conn *c);

static void written(uv_write_t *req, int status)
{
	struct write_request *w = req->data;
	struct gb_conn *c = w->c;

	c->in_flight = 0;
	gb_buf_done(&w->data);
	free(w);
	if (status < 0 && status != UV_ECANCELED) {
		end_with(c, status);
		return;
	}
	if (!c->closing)
		flush(c);
	check_drained(c);
}

/* What cannot be written now goes to libuv as a whole; what is queued meanwhile waits. */
static void write_rest(struct gb_conn *c)
{
	struct write_request *w = calloc(1, sizeof(*w));
	uv_buf_t buf;

	if (!w) {
		end_with(c, UV_ENOMEM);
		return;
	}
	w->c = c;
	w->req.data = w;
	w->data = c->out;
	gb_buf_init(&c->out, CONN_OUT_MAX);
	c->in_flight = w->data.len;
	buf = uv_buf_init((char *)w->data.data, (unsigned)w->data.len);
	if (uv_write(&w->req, (uv_stream_t *)&c->pipe, &buf, 1, written) < 0) {
		c->in_flight = 0;
		gb_buf_done(&w->data);
		free(w);
		end_with(c, UV_EPIPE);
	}
}

static void flush(struct gb_conn *c)
{
	uv_buf_t buf;
	int n;

	if (c->in_flight || !c->out.len)
		return;
	if (c->out.error) {
		end_with(c, UV_ENOBUFS);
		return;
	}
	buf = uv_buf_init((char *)c->out.data, (unsigned)c->out.len);
	n = uv_try_write((uv_stream_t *)&c->pipe, &buf, 1);
	if (n < 0 && n != UV_EAGAIN) {
		end_with(c, n);
		return;
	}
	if (n > 0)
		gb_buf_consume(&c->out, (size_t)n);
	if (c->out.len)
		write_rest(c);
}

static void flush_dirty(uv_prepare_t *prepare)
{
	struct gb_flusher *f = prepare->data;

	while (f->dirty) {
		struct gb_conn *c = f->dirty;

		f->dirty = c->next_dirty;
		c->dirty = false;
		if (!c->closing)
			flush(c);
		check_drained(c);
	}
}

int gb_flusher_init(struct gb_flusher *f, uv_loop_t *loop)
{
	f->dirty = NULL;
	uv_prepare_init(loop, &f->prepare);
	f->prepare.data = f;
	return uv_prepare_start(&f->prepare, flush_dirty);
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
	struct gb_conn *c = handle->data;
	size_t room;
	uint8_t *to = gb_frame_reader_room(&c->in, &room);

	(void)suggested;
	*ret = uv_buf_init((char *)to, (unsigned)room);
}

static void received(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct gb_conn *c = stream->data;
	struct gb_err e = { 0 };
	int r = 1;

	(void)buf;
	if (n < 0) {
		end_with(c, (int)n);
		return;
	}
	gb_frame_reader_filled(&c->in, (size_t)n);
	while (r > 0 && !c->closing) {
		struct gb_frame f;

		r = gb_frame_reader_next(&c->in, &f, &e);
		if (r <= 0)
			break;
		r = c->ops->frame(c, &f, &e);
		r = r < 0 ? r : 1;
	}
	if (r < 0)
		end(c, &e);
}

int gb_conn_init(struct gb_conn *c, uv_loop_t *loop, int fd_consume,
	const struct gb_conn_ops *ops, void *owner, struct gb_err *err)
{
	int r;

	memset(c, 0, sizeof(*c));
	c->ops = ops;
	c->owner = owner;
	gb_frame_reader_init(&c->in);
	gb_buf_init(&c->out, CONN_OUT_MAX);
	uv_pipe_init(loop, &c->pipe, 0);
	c->pipe.data = c;
	r = uv_pipe_open(&c->pipe, fd_consume);
	if (r == 0)
		r = uv_read_start((uv_stream_t *)&c->pipe, allocate, received);
	if (r < 0)
		return gb_fail(err, GB_E_IO, "cannot serve a connection: %s", uv_strerror(r));
	return 0;
}

size_t gb_conn_queued(const struct gb_conn *c)
{
	return c->out.len + c->in_flight;
}

struct gb_buf *gb_conn_out(struct gb_conn *c, struct gb_flusher *f)
{
	if (!c->dirty) {
		c->dirty = true;
		c->next_dirty = f->dirty;
		f->dirty = c;
	}
	return &c->out;
}

void gb_conn_send(struct gb_conn *c, struct gb_flusher *f, const struct gb_frame *frame)
{
	gb_frame_add(gb_conn_out(c, f), frame);
	if (gb_conn_queued(c) > GB_CONN_HIGH)
		c->over_high = true;
}

void gb_conn_pause(struct gb_conn *c, bool pause)
{
	if (c->closing)
		return;
	if (pause)
		uv_read_stop((uv_stream_t *)&c->pipe);
	else
		uv_read_start((uv_stream_t *)&c->pipe, allocate, received);
}

static void handle_closed(uv_handle_t *handle)
{
	struct gb_conn *c = handle->data;

	gb_frame_reader_done(&c->in);
	gb_buf_done(&c->out);
	c->ops->closed(c);
}

static void forget_dirty(struct gb_conn *c, struct gb_flusher *f)
{
	struct gb_conn **at = &f->dirty;

	if (!c->dirty)
		return;
	while (*at != c)
		at = &(*at)->next_dirty;
	*at = c->next_dirty;
	c->dirty = false;
}

void gb_conn_close(struct gb_conn *c, struct gb_flusher *f)
{
	if (c->closing)
		return;
	c->closing = true;
	if (!c->in_flight && c->out.len && !c->out.error) {
		uv_buf_t buf = uv_buf_init((char *)c->out.data, (unsigned)c->out.len);

		uv_try_write((uv_stream_t *)&c->pipe, &buf, 1);
	}
	forget_dirty(c, f);
	uv_close((uv_handle_t *)&c->pipe, handle_closed);
}
