#include "rows.h"

#include "proto/flow.h"

static void sender_spends_what_it_has(void **state)
{
	struct gb_flow_sender s;

	(void)state;
	gb_flow_sender_init(&s);
	assert_int_equal(gb_flow_sender_take(&s, 0), 0);
	assert_int_equal(gb_flow_sender_take(&s, GB_FLOW_WINDOW - 1), GB_FLOW_WINDOW - 1);
	assert_int_equal(gb_flow_sender_take(&s, 100), 1);
	assert_int_equal(gb_flow_sender_take(&s, 100), 0);
	assert_int_equal(gb_flow_sender_grant(&s, 5, NULL), 0);
	assert_int_equal(gb_flow_sender_take(&s, 100), 5);
}

struct grant_row {
	const char *name;
	uint32_t bytes;
	int code;
};

static const struct grant_row grant_rows[] = {
	{ "grant: nothing", 0, 0 },
	{ "grant: up to the most", GB_FLOW_MAX - GB_FLOW_WINDOW, 0 },
	{ "grant: one over", GB_FLOW_MAX - GB_FLOW_WINDOW + 1, GB_E_PROTOCOL },
	{ "grant: what would wrap", UINT32_MAX, GB_E_PROTOCOL },
};

static void grant(void **state)
{
	const struct grant_row *row = *state;
	struct gb_flow_sender s;
	struct gb_err err = { 0 };

	gb_flow_sender_init(&s);
	assert_int_equal(gb_flow_sender_grant(&s, row->bytes, &err), row->code);
	assert_int_equal(s.credit, GB_FLOW_WINDOW + (row->code ? 0 : row->bytes));
}

static void receiver_holds_the_peer_to_it(void **state)
{
	struct gb_flow_receiver r;
	struct gb_err err = { 0 };

	(void)state;
	gb_flow_receiver_init(&r);
	assert_int_equal(gb_flow_receiver_arrived(&r, 0, NULL), 0);
	assert_int_equal(gb_flow_receiver_arrived(&r, GB_FLOW_WINDOW, NULL), 0);
	assert_int_equal(gb_flow_receiver_arrived(&r, 1, &err), GB_E_PROTOCOL);
	assert_string_equal(err.msg, "1 bytes sent, 0 were granted");
}

static void grants_come_in_worthwhile_pieces(void **state)
{
	struct gb_flow_receiver r;
	uint32_t quarter = GB_FLOW_WINDOW / 4;

	(void)state;
	gb_flow_receiver_init(&r);
	assert_int_equal(gb_flow_receiver_arrived(&r, GB_FLOW_WINDOW, NULL), 0);
	assert_int_equal(gb_flow_receiver_consumed(&r, quarter - 1), 0);
	assert_int_equal(gb_flow_receiver_consumed(&r, 1), quarter);
	assert_int_equal(gb_flow_receiver_consumed(&r, 3 * quarter), 3 * quarter);
	assert_int_equal(r.open, GB_FLOW_WINDOW);
}

/* Whatever the pieces: the sender never stalls for good, and never holds more than the window. */
static void both_ends_together(void **state)
{
	struct gb_flow_sender s;
	struct gb_flow_receiver r;
	uint64_t sent = 0;
	uint64_t waiting = 0;
	uint32_t piece = 1;

	(void)state;
	gb_flow_sender_init(&s);
	gb_flow_receiver_init(&r);
	while (sent < (64u << 20)) {
		uint32_t n = gb_flow_sender_take(&s, piece);
		uint32_t eat;
		uint32_t back;

		assert_int_equal(gb_flow_receiver_arrived(&r, n, NULL), 0);
		sent += n;
		waiting += n;
		assert_true(waiting <= GB_FLOW_WINDOW);
		/* a reader that takes other pieces than the writer gives */
		eat = (uint32_t)GB_MIN(waiting, (uint64_t)(piece * 3 % 100000 + 1));
		if (n == 0)
			eat = (uint32_t)waiting;
		waiting -= eat;
		back = gb_flow_receiver_consumed(&r, eat);
		assert_int_equal(gb_flow_sender_grant(&s, back, NULL), 0);
		assert_true(n || back);
		piece = piece * 5 % 131071 + 1;
	}
}

int main(void)
{
	static struct rows_list l;

	rows_add_one(&l, "sender spends what it has", sender_spends_what_it_has);
	rows_add(&l, grant_rows, grant);
	rows_add_one(&l, "receiver holds the peer to it", receiver_holds_the_peer_to_it);
	rows_add_one(&l, "grants come in worthwhile pieces", grants_come_in_worthwhile_pieces);
	rows_add_one(&l, "both ends together", both_ends_together);
	return rows_run("flow", &l);
}
