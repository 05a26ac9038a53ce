#include "machine/supervisor/impl.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define ENTROPY_BYTES 64

void gb_sup_send_error(struct gb_sup_client *c, uint32_t id, const struct gb_err *e)
{
	gb_msg_add_error(gb_conn_out(&c->conn, &c->sup->flusher), id, e);
}

void gb_sup_send_note(struct gb_sup *s, const char *text)
{
	struct gb_msg_note m = { .text = (char *)(uintptr_t)text };

	for (struct gb_sup_client *c = s->clients; c; c = c->next)
		gb_msg_add_frame(gb_conn_out(&c->conn, &s->flusher), GB_FRAME_NOTE, 0,
			&gb_msg_note_desc, &m);
}

void gb_sup_send_status(struct gb_sup_client *c, uint32_t id)
{
	struct gb_sup *s = c->sup;
	struct gb_boot *b = &s->boot;
	struct gb_msg_status m = {
		.name = s->spec.name,
		.state = (char *)(uintptr_t)(s->stopping ? "stopping" : "running"),
		.supervisor_pid = (uint32_t)getpid(),
		.vmm_pid = (uint32_t)b->driver->pid(b->vm),
		.share_pid = (uint32_t)b->share_pid,
		.accel = (char *)(uintptr_t)gb_accel_name(b->accel),
		.start_kind = (char *)(uintptr_t)gb_boot_kind_name(b->kind),
		.kernel = b->guest.kernel,
		.started_realtime_ns = s->started_ns,
		.requests = gb_sup_requests(s),
		.shares = { b->shares.v, b->shares.n },
		.note = *s->note ? s->note : b->note,
		.timings = { b->timings.v, b->timings.n },
	};

	gb_msg_add_frame(gb_conn_out(&c->conn, &s->flusher), GB_FRAME_STATUS_REPLY, id,
		&gb_msg_status_desc, &m);
}

void gb_sup_send_time(struct gb_sup *s)
{
	uint8_t entropy[ENTROPY_BYTES];
	struct gb_msg_time m = { .realtime_ns = gb_realtime_ns(),
		.entropy = { entropy, sizeof(entropy) } };

	if (getrandom(entropy, sizeof(entropy), 0) != (ssize_t)sizeof(entropy))
		return;
	gb_msg_add_frame(gb_conn_out(&s->agent, &s->flusher), GB_FRAME_TIME,
		gb_sup_control_id(s), &gb_msg_time_desc, &m);
	explicit_bzero(entropy, sizeof(entropy));
}
