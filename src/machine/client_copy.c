#include "machine/client_impl.h"
#include "base/clock.h"
#include "machine/copy_host.h"
#include "proto/flow.h"
#include "proto/tree.h"

#include <stdio.h>
#include <string.h>

static void send_data(struct gb_client *c, uint32_t id, const void *data, size_t len, bool eof)
{
	struct gb_frame f = { .type = GB_FRAME_DATA, .stream = GB_STREAM_IN, .request = id,
		.flags = eof ? GB_FRAME_EOF : 0, .payload = data, .length = (uint32_t)len };

	gb_frame_add(&c->wire.out, &f);
}

struct copy_in {
	struct gb_client *c;
	uint32_t id;
	struct gb_flow_sender flow;
	uint64_t sent;
	bool over; /* the machine has said its last word */
	gb_copy_progress progress;
	void *ctx;
};

/* A frame while we send: credit, or the machine's last word, which ends the copy early. */
static int take_while_sending(struct copy_in *copy, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_msg_credit m;
	int r;

	if (f->type == GB_FRAME_NOTE || f->request != copy->id)
		return 0;
	if (f->type == GB_FRAME_ERROR) {
		copy->over = true;
		return gb_msg_take_error(f->payload, f->length, err);
	}
	if (f->type != GB_FRAME_CREDIT)
		return gb_client_unexpected(f, err);
	r = gb_msg_credit_decode(f->payload, f->length, &m, err);
	return r < 0 ? r : gb_flow_sender_grant(&copy->flow, m.bytes, err);
}

/* Takes what has arrived; waits for something only when there is no credit left. */
static int pump(struct copy_in *copy, struct gb_err *err)
{
	for (;;) {
		struct gb_frame f;
		int r = gb_wire_next(&copy->c->wire, &f, err);

		if (r == 0 && copy->flow.credit)
			return gb_wire_flush(&copy->c->wire, err);
		if (r == 0) {
			r = gb_wire_receive(&copy->c->wire, GB_NEVER, &f, err);
			r = r < 0 ? r : 1;
		}
		if (r > 0)
			r = take_while_sending(copy, &f, err);
		if (r < 0)
			return r;
	}
}

/* The host side's writer: bytes of the tree go to the machine as credit allows. */
static int copy_in_write(void *ctx, const uint8_t *data, size_t len, const char *path,
	struct gb_err *err)
{
	struct copy_in *copy = ctx;

	while (len) {
		uint32_t n;
		int r = pump(copy, err);

		if (r < 0)
			return r;
		n = gb_flow_sender_take(&copy->flow, (uint32_t)GB_MIN(len, (size_t)65536));
		send_data(copy->c, copy->id, data, n, false);
		r = gb_wire_flush(&copy->c->wire, err);
		if (r < 0)
			return r;
		/* the socket is full: what arrives meanwhile is credit or the end */
		while (copy->c->wire.out.len > GB_FLOW_WINDOW) {
			r = gb_fd_wait(copy->c->wire.fd, gb_wire_events(&copy->c->wire), GB_NEVER, err);
			if (r == 0)
				r = gb_wire_fill(&copy->c->wire, err);
			if (r == 0)
				r = gb_wire_flush(&copy->c->wire, err);
			if (r < 0)
				return r;
		}
		data += n;
		len -= n;
		copy->sent += n;
	}
	if (copy->progress)
		copy->progress(copy->ctx, copy->sent, path);
	return 0;
}

static int await_ok(struct gb_client *c, uint32_t id, struct gb_err *err)
{
	for (;;) {
		struct gb_frame f;
		int r = gb_wire_receive(&c->wire, GB_NEVER, &f, err);

		if (r < 0)
			return r;
		if (f.request != id || f.type == GB_FRAME_NOTE || f.type == GB_FRAME_CREDIT)
			continue;
		if (f.type == GB_FRAME_ERROR)
			return gb_msg_take_error(f.payload, f.length, err);
		return f.type == GB_FRAME_OK ? 0 : gb_client_unexpected(&f, err);
	}
}

static size_t trimmed_length(const char *path)
{
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	return n;
}

/* The last part of a path as a name for the copy; "" for "/" and ".". */
static char *base_name(const char *path)
{
	gb_auto_free char *copy = strndup(path, trimmed_length(path));
	const char *base = copy ? gb_path_base(copy) : NULL;

	if (!base)
		return NULL;
	return strdup(gb_streq(base, ".") || gb_streq(base, "..") ? "" : base);
}

int gb_client_copy_in(struct gb_client *c, const char *host, const char *guest, const char *user,
	gb_copy_progress progress, void *ctx, struct gb_err *err)
{
	struct copy_in copy = { .c = c, .id = c->next_request++, .progress = progress, .ctx = ctx };
	gb_auto_free char *name = base_name(host);
	gb_auto_free char *target = strndup(guest, trimmed_length(guest));
	struct gb_msg_copy m = {
		.path = target,
		.name = name,
		.user = (char *)(uintptr_t)user,
		.flags = guest[strlen(guest) - 1] == '/' ? GB_COPY_INTO_DIR : 0,
	};
	struct gb_err cancel = { 0 };
	int r;

	if (!name || !target)
		return gb_nomem(err);
	r = gb_copy_host_check(host, err);
	if (r < 0)
		return r;
	gb_flow_sender_init(&copy.flow);
	gb_msg_add_frame(&c->wire.out, GB_FRAME_COPY_IN, copy.id, &gb_msg_copy_desc, &m);
	r = gb_copy_host_read(host, copy_in_write, &copy, err);
	if (r < 0 && copy.over)
		return r;
	if (r < 0) {
		/* our own failure: the half that was sent must not stay */
		gb_msg_add_frame(&c->wire.out, GB_FRAME_CANCEL, copy.id, NULL, NULL);
		await_ok(c, copy.id, &cancel);
		return r;
	}
	send_data(c, copy.id, NULL, 0, true);
	return await_ok(c, copy.id, err);
}

struct copy_out {
	struct gb_client *c;
	uint32_t id;
	struct gb_flow_receiver flow;
	struct gb_tree_reader reader;
	struct gb_host_writer *writer;
	uint64_t got;
	gb_copy_progress progress;
	void *ctx;
};

static int copy_out_data(struct copy_out *copy, const struct gb_frame *f, struct gb_err *err)
{
	uint32_t grant;
	int r = gb_flow_receiver_arrived(&copy->flow, f->length, err);

	if (r == 0)
		r = gb_tree_reader_feed(&copy->reader, f->payload, f->length,
			&gb_host_writer_ops, copy->writer, err);
	if (r < 0)
		return r;
	copy->got += f->length;
	if (copy->progress)
		copy->progress(copy->ctx, copy->got, "");
	grant = gb_flow_receiver_consumed(&copy->flow, f->length);
	if (grant) {
		uint8_t payload[4] = { (uint8_t)grant, (uint8_t)(grant >> 8),
			(uint8_t)(grant >> 16), (uint8_t)(grant >> 24) };
		struct gb_frame credit = { .type = GB_FRAME_CREDIT, .stream = GB_STREAM_OUT,
			.request = copy->id, .payload = payload, .length = sizeof(payload) };

		gb_frame_add(&copy->c->wire.out, &credit);
	}
	return 0;
}

static int copy_out_loop(struct copy_out *copy, struct gb_err *err)
{
	for (;;) {
		struct gb_frame f;
		int r = gb_wire_receive(&copy->c->wire, GB_NEVER, &f, err);

		if (r < 0)
			return r;
		if (f.type == GB_FRAME_NOTE || f.request != copy->id)
			continue;
		if (f.type == GB_FRAME_ERROR)
			return gb_msg_take_error(f.payload, f.length, err);
		if (f.type == GB_FRAME_OK && !copy->reader.ended)
			return gb_fail(err, GB_E_PROTOCOL, "the copy was cut short");
		if (f.type == GB_FRAME_OK)
			return gb_host_writer_finish(copy->writer, err);
		if (f.type != GB_FRAME_DATA || f.stream != GB_STREAM_OUT)
			return gb_client_unexpected(&f, err);
		r = copy_out_data(copy, &f, err);
		if (r < 0)
			return r;
	}
}

int gb_client_copy_out(struct gb_client *c, const char *guest, const char *host,
	gb_copy_progress progress, void *ctx, struct gb_err *err)
{
	struct copy_out copy = { .c = c, .id = c->next_request++, .progress = progress, .ctx = ctx };
	struct gb_msg_copy m = { .path = (char *)(uintptr_t)guest };
	gb_auto_free char *name = base_name(guest);
	int r = name ? gb_host_writer_new(host, name, &copy.writer, err) : gb_nomem(err);

	if (r < 0)
		return r;
	gb_flow_receiver_init(&copy.flow);
	gb_tree_reader_init(&copy.reader);
	gb_msg_add_frame(&c->wire.out, GB_FRAME_COPY_OUT, copy.id, &gb_msg_copy_desc, &m);
	r = copy_out_loop(&copy, err);
	gb_tree_reader_done(&copy.reader);
	gb_host_writer_free(copy.writer);
	return r;
}
