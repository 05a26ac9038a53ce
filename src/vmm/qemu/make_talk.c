#include "vmm/qemu/make_talk.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proto/ports.h"

#include <string.h>

#define WARM_TIMEOUT_MS 10000
#define WARM_GRACE_MS	1000

static int send_frame(struct gb_talk *t, uint8_t type, const struct gb_msg_desc *d,
	const void *msg, struct gb_err *err)
{
	gb_auto_done(gb_buf) out = {0};
	int r;

	gb_buf_init(&out, GB_FRAME_MAX + GB_FRAME_HEADER);
	gb_msg_add_frame(&out, type, t->request, d, msg);
	r = gb_buf_check(&out, "a frame", err);
	/* far less than the port's socket holds: never waits */
	return r == 0 ? gb_fd_write_full(t->ctl, out.data, out.len, err) : r;
}

void gb_talk_init(struct gb_talk *t, int ctl)
{
	memset(t, 0, sizeof(*t));
	t->ctl = ctl;
	gb_frame_reader_init(&t->reader);
}

void gb_talk_done(struct gb_talk *t)
{
	gb_frame_reader_done(&t->reader);
	gb_qemu_vm_free(t->vm);
	t->vm = NULL;
}

int gb_talk_greet(struct gb_talk *t, struct gb_err *err)
{
	gb_auto_done(gb_buf) out = {0};
	struct gb_frame f;
	int r;

	gb_msg_add_hello(&out, "supervisor");
	r = gb_buf_check(&out, "a frame", err);
	if (r == 0)
		r = gb_fd_write_full(t->ctl, out.data, out.len, err);
	if (r == 0)
		r = gb_make_expect(t->vm, t->ctl, &t->reader, GB_FRAME_HELLO, &f, err);
	return r == 0 ? gb_msg_check_hello(f.payload, f.length, "the guest agent", err)
		      : r;
}

int gb_talk_configure(struct gb_talk *t, struct gb_msg_configure *m, struct gb_err *err)
{
	struct gb_frame f;
	int r;

	m->realtime_ns = gb_realtime_ns();
	m->root_serial = (char *)(uintptr_t)GB_VM_ROOT_SERIAL;
	t->request++;
	r = send_frame(t, GB_FRAME_CONFIGURE, &gb_msg_configure_desc, m, err);
	return r == 0 ? gb_make_expect(
				t->vm, t->ctl, &t->reader, GB_FRAME_CONFIGURED, &f, err)
		      : r;
}

static size_t count(const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	return n;
}

/* Its output is dropped: it is far less than one window, so no credit is given. */
int gb_talk_run(struct gb_talk *t, const char *const *argv, struct gb_err *err)
{
	struct gb_msg_exec m = {
		.argv = {(char **)(uintptr_t)argv, count(argv)},
		.timeout_ms = WARM_TIMEOUT_MS,
		.grace_ms = WARM_GRACE_MS,
	};
	struct gb_frame f;
	int r;

	t->request++;
	r = send_frame(t, GB_FRAME_EXEC, &gb_msg_exec_desc, &m, err);
	while (r == 0) {
		r = gb_make_next(t->vm, t->ctl, &t->reader, &f, err);
		if (r == 0 && f.request == t->request &&
			(f.type == GB_FRAME_EXIT || f.type == GB_FRAME_ERROR))
			break;
	}
	return r;
}
