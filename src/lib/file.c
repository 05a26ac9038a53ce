/* Files and folders of the machine. */
#include "base/clock.h"
#include "lib/request.h"
#include "machine/client.h"

#define READ_LIMIT  (UINT64_C(32) << 20)
#define READ_MAX    (UINT64_C(1) << 30) /* of a file in memory */
#define FILE_MODE   0644u
#define FOLDER_MODE 0755u

static int read_start(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *o, struct glovebox_request **ret, struct gb_err *err)
{
	struct gb_msg_file_read m = {
		.path = gb_text_of(path),
		.user = gb_text_of(o->user),
		.limit = o->limit ? o->limit : READ_LIMIT,
	};

	if (!path || !*path)
		return gb_fail(err, GB_E_INVALID, "a file needs a path");
	return gb_request_start(tools, GB_CALL_READ, GB_FRAME_FILE_READ, &gb_msg_file_read_desc,
		&m, o->deadline_ms, ret, err);
}

int glovebox_read_start(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, struct glovebox_request **ret,
	struct glovebox_error *err)
{
	struct glovebox_file_options o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = read_start(tools, path, &o, ret, &e);
	return gb_give_error(err, &e, r);
}

int glovebox_request_file_info(struct glovebox_request *request, struct glovebox_file_info *ret,
	struct glovebox_error *err)
{
	struct glovebox_file_info ours = { .size = sizeof(ours) };
	struct gb_msg_file_info m;
	struct gb_err e = { 0 };
	int r = gb_core_check(request->core, &e);

	if (r == 0 && !gb_call_file_info(request->call, &m))
		r = gb_fail(&e, GB_E_STATE, "the request has no file (yet)");
	if (r == 0) {
		ours.bytes = m.size;
		ours.mode = m.mode;
		ours.mtime_s = m.mtime_s;
		ours.mtime_ns = m.mtime_ns;
		r = gb_result_copy(ret, sizeof(ours), &ours, &e);
	}
	return gb_give_error(err, &e, r);
}

static int add_content(void *ctx, int stream, const void *data, size_t len)
{
	struct gb_buf *content = ctx;

	(void)stream;
	gb_buf_add(content, data, len);
	return content->error;
}

static int read_file(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *o, struct gb_buf *content, struct gb_err *err)
{
	struct glovebox_callbacks cb = { .size = sizeof(cb), .ctx = content,
		.output = add_content };
	struct glovebox_request *q;
	int r;

	if (o->limit > READ_MAX)
		return gb_fail(err, GB_E_INVALID, "a limit of over %llu bytes: read in pieces",
			(unsigned long long)READ_MAX);
	gb_buf_init(content, (o->limit ? o->limit : READ_LIMIT) + 1);
	r = read_start(tools, path, o, &q, err);
	if (r < 0)
		return r;
	r = gb_scope_wait(NULL, q, &cb, err);
	glovebox_request_free(q);
	return content->error ? gb_buf_check(content, "a file", err) : r;
}

int glovebox_read_file(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, void **data, size_t *len,
	struct glovebox_error *err)
{
	gb_auto_done(gb_buf) content = { 0 };
	struct glovebox_file_options o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);
	size_t n;
	char *text;

	if (r == 0)
		r = read_file(tools, path, &o, &content, &e);
	if (r == 0) {
		n = content.len;
		text = gb_buf_take_str(&content);
		if (text) {
			*data = text;
			*len = n;
		} else {
			r = gb_nomem(&e);
		}
	}
	return gb_give_error(err, &e, r);
}

static int file_message(const char *path, const struct glovebox_file_options *o, uint32_t mode,
	struct gb_msg_file_write *ret, struct gb_err *err)
{
	if (!path || !*path)
		return gb_fail(err, GB_E_INVALID, "a file needs a path");
	*ret = (struct gb_msg_file_write){
		.path = gb_text_of(path),
		.user = gb_text_of(o->user),
		.mode = o->mode ? o->mode : mode,
		.flags = o->set_mtime ? GB_FILE_MTIME : 0,
		.mtime_s = o->mtime_s,
		.mtime_ns = o->mtime_ns,
	};
	return 0;
}

static int write_start(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *o, struct glovebox_request **ret, struct gb_err *err)
{
	struct gb_msg_file_write m;
	int r = file_message(path, o, FILE_MODE, &m, err);

	return r < 0 ? r
		     : gb_request_start(tools, GB_CALL_WRITE, GB_FRAME_FILE_WRITE,
			       &gb_msg_file_write_desc, &m, o->deadline_ms, ret, err);
}

int glovebox_write_start(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, struct glovebox_request **ret,
	struct glovebox_error *err)
{
	struct glovebox_file_options o;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = write_start(tools, path, &o, ret, &e);
	return gb_give_error(err, &e, r);
}

int gb_request_feed(struct gb_scope *scope, struct glovebox_request *q, const void *data,
	size_t len, const struct glovebox_callbacks *callbacks, struct gb_err *err)
{
	const uint8_t *at = data;

	while (len) {
		int64_t n = gb_call_write(q->call, at, len, NULL);

		/* it has ended: waiting tells how */
		if (n < 0)
			break;
		at += n;
		len -= (size_t)n;
		if (len && !gb_scope_wait_writable(scope, q, callbacks))
			break;
	}
	if (!len)
		gb_call_write_eof(q->call, NULL);
	return gb_scope_wait(scope, q, callbacks, err);
}

int glovebox_write_file(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, const void *data, size_t len,
	struct glovebox_error *err)
{
	struct glovebox_file_options o;
	struct glovebox_request *q;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = write_start(tools, path, &o, &q, &e);
	if (r == 0) {
		r = gb_request_feed(NULL, q, data, len, NULL, &e);
		glovebox_request_free(q);
	}
	return gb_give_error(err, &e, r);
}

int glovebox_create_directory(struct glovebox_tools *tools, const char *path,
	const struct glovebox_file_options *options, struct glovebox_error *err)
{
	struct glovebox_file_options o;
	struct gb_msg_file_write m;
	struct gb_err e = { 0 };
	int r = gb_options_copy(&o, sizeof(o), options, &e);

	if (r == 0)
		r = file_message(path, &o, FOLDER_MODE, &m, &e);
	if (r == 0)
		r = gb_request_plain(tools, GB_FRAME_MKDIR, &gb_msg_file_write_desc, &m,
			o.deadline_ms, &e);
	return gb_give_error(err, &e, r);
}

/* Copies have a connection of their own: the client does them. */
static int connect_client(
	struct glovebox_tools *tools, struct gb_client **ret, struct gb_err *err)
{
	int r = gb_core_check(tools->core, err);

	return r < 0 ? r : gb_client_connect(&tools->core->dirs, tools->core->machine, ret, err);
}

int glovebox_copy_in(struct glovebox_tools *tools, const char *host, const char *guest,
	const char *user, struct glovebox_error *err)
{
	gb_auto(gb_client) *c = NULL;
	struct gb_err e = { 0 };
	int r = connect_client(tools, &c, &e);

	if (r == 0)
		r = gb_client_copy_in(c, host, guest, gb_text_of(user), NULL, NULL, &e);
	return gb_give_error(err, &e, r);
}

int glovebox_copy_out(struct glovebox_tools *tools, const char *guest, const char *host,
	struct glovebox_error *err)
{
	gb_auto(gb_client) *c = NULL;
	struct gb_err e = { 0 };
	int r = connect_client(tools, &c, &e);

	if (r == 0)
		r = gb_client_copy_out(c, guest, host, NULL, NULL, &e);
	return gb_give_error(err, &e, r);
}
