/* The client of QEMU's monitor, fed in pieces. Input: one byte that says how the rest is cut,
 * then the stream as QEMU would write it. */
#include "base/fd.h"
#include "vmm/qemu/qmp.h"

#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_event(void *ctx, const char *name, const json_t *data)
{
	size_t *events = ctx;

	/* both are there for as long as the callback runs */
	*events += strlen(name) + json_object_size(data);
}

static int read_answers(struct gb_qmp *q)
{
	struct gb_qmp_message m;
	struct gb_err err;
	int r;

	while ((r = gb_qmp_next(q, &m, &err)) == 1) {
		if (m.kind == GB_QMP_ERROR && (!m.text || !m.name))
			abort();
		if (m.kind == GB_QMP_RETURN && !m.data)
			abort();
		gb_qmp_message_done(&m);
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t events = 0;
	struct gb_qmp q;
	int fds[2];
	size_t piece;
	int r = 0;

	if (size < 1 || gb_socketpair(fds, NULL) < 0)
		return 0;
	piece = (size_t)data[0] * 16 + 1;
	if (gb_qmp_init_consume(&q, fds[0], on_event, &events, NULL) < 0)
		abort();
	data++;
	size--;
	while (size && r == 0) {
		size_t n = GB_MIN(size, piece);

		if (send(fds[1], data, n, 0) != (ssize_t)n)
			abort();
		data += n;
		size -= n;
		r = read_answers(&q);
	}
	close(fds[1]);
	if (r == 0 && read_answers(&q) != GB_E_CLOSED)
		abort();
	gb_qmp_done(&q);
	return 0;
}
