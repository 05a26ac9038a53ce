#include "guest/memory.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/agent.h"
#include "guest/cgroup.h"
#include "guest/session.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SAMPLE_MS 200
#define TEXT_MAX  16384 /* /proc/vmstat is the longer one: about 4 KiB */

/* 0 where the kernel says nothing of it. */
static uint64_t look(const struct gb_agent *a, const char *file, const char *key)
{
	static char text[TEXT_MAX];
	gb_auto_fd fd = openat(a->proc, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (n <= 0)
		return 0;
	text[n] = 0;
	return gb_flat_key(text, key);
}

static void sample(struct gb_agent *a)
{
	struct gb_memory *m = &a->memory;
	uint64_t available = look(a, "meminfo", "MemAvailable:");

	if (!m->sampled_at)
		m->oom_before = look(a, "vmstat", "oom_kill");
	if (available && (!m->available_min_kib || available < m->available_min_kib))
		m->available_min_kib = available;
	m->sampled_at = gb_now_ns();
}

void gb_memory_sample(struct gb_agent *a)
{
	if (a->state == GB_AGENT_CONFIGURED && (a->live || gb_sessions_live(a)) &&
		gb_deadline_passed(a->memory.sampled_at + SAMPLE_MS * GB_NS_MS))
		sample(a);
}

uint64_t gb_memory_deadline(const struct gb_agent *a)
{
	return a->live || gb_sessions_live(a) ? a->memory.sampled_at + SAMPLE_MS * GB_NS_MS : GB_NEVER;
}

int gb_memory_reply(struct gb_agent *a, const struct gb_frame *f, struct gb_err *err)
{
	struct gb_msg_memory_reply m = { 0 };

	(void)err;
	sample(a);
	m.total_kib = look(a, "meminfo", "MemTotal:");
	m.available_min_kib = a->memory.available_min_kib;
	m.oom_kills = look(a, "vmstat", "oom_kill") - a->memory.oom_before;
	gb_msg_add_frame(
		&a->ctl.out, GB_FRAME_MEMORY_REPLY, f->request, &gb_msg_memory_reply_desc, &m);
	return 0;
}
