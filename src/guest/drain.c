#include "guest/answer.h"
#include "base/fd.h"

#include <errno.h>
#include <sys/epoll.h>

#define DRAIN_CHUNK (64u << 10)
#define DRAIN_TURNS 16 /* reads of one pipe before others have their turn */

static void on_drain(struct gb_agent *a, struct gb_watch *w, uint32_t events)
{
	(void)a;
	(void)events;
	w->in = true;
}

void gb_drain_keep(struct gb_agent *a, struct gb_watch *w)
{
	struct gb_drain *d = a->drain_count < GB_DRAIN_MAX ? calloc(1, sizeof(*d)) : NULL;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	if (!d)
		return;
	d->w = (struct gb_watch){ .fd = gb_take_fd(&w->fd), .in = true, .fn = on_drain };
	ev.data.ptr = &d->w;
	epoll_ctl(a->epoll, EPOLL_CTL_MOD, d->w.fd, &ev);
	d->next = a->drains;
	a->drains = d;
	a->drain_count++;
}

/* True when it has ended. */
static bool drain_read(struct gb_drain *d)
{
	static uint8_t sink[DRAIN_CHUNK];

	for (int i = 0; d->w.in && i < DRAIN_TURNS; i++) {
		ssize_t n = read(d->w.fd, sink, sizeof(sink));

		if (n < 0 && errno == EAGAIN)
			d->w.in = false;
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n <= 0)
			return true;
	}
	return false;
}

/* Once a turn, after all events were handled: none can point to what is freed here. */
void gb_drain_sweep(struct gb_agent *a)
{
	for (struct gb_drain **p = &a->drains; *p;) {
		struct gb_drain *d = *p;

		if (!drain_read(d)) {
			p = &d->next;
			continue;
		}
		*p = d->next;
		gb_watch_close(&d->w);
		free(d);
		a->drain_count--;
	}
}
