#include "scratch.h"
#include "base/clock.h"
#include "base/fd.h"
#include "store/flight.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static void count_call(void *ctx)
{
	(*(int *)ctx)++;
}

static void alone_it_is_held_and_leaves_nothing(void **state)
{
	struct gb_flight f = GB_FLIGHT_INIT;
	int calls = 0;
	struct gb_err err;

	(void)state;
	assert_int_equal(
		gb_flight_begin(scratch, "k", GB_NEVER, count_call, &calls, &f, &err), 0);
	assert_int_equal(calls, 0);
	assert_int_equal(scratch_entries(), 1);
	gb_flight_end(&f);
	assert_int_equal(scratch_entries(), 0);
	gb_flight_end(&f);
}

static void a_held_one_times_out_after_saying_so_once(void **state)
{
	struct gb_flight f = GB_FLIGHT_INIT;
	struct gb_flight g = GB_FLIGHT_INIT;
	int calls = 0;
	struct gb_err err;

	(void)state;
	assert_int_equal(
		gb_flight_begin(scratch, "k", GB_NEVER, NULL, NULL, &f, &err), 0);
	assert_int_equal(gb_flight_begin(scratch, "k", gb_deadline_ms(60), count_call,
				 &calls, &g, &err),
		GB_E_TIMEOUT);
	assert_int_equal(calls, 1);
	assert_non_null(strstr(err.msg, ".lock-k"));
	assert_int_equal(gb_flight_begin(scratch, "other", 0, NULL, NULL, &g, &err), 0);
	gb_flight_end(&g);
	gb_flight_end(&f);
	assert_int_equal(scratch_entries(), 0);
}

static void keys_are_file_names_only(void **state)
{
	static const char *const bad[] = {"", "a/b", "..\n", "a b"};
	char lengthy[GB_FLIGHT_KEY_MAX + 2];
	struct gb_flight f = GB_FLIGHT_INIT;

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(bad); i++)
		assert_int_equal(
			gb_flight_begin(scratch, bad[i], 0, NULL, NULL, &f, NULL),
			GB_E_INVALID);
	memset(lengthy, 'a', sizeof(lengthy));
	lengthy[GB_FLIGHT_KEY_MAX + 1] = 0;
	assert_int_equal(
		gb_flight_begin(scratch, lengthy, 0, NULL, NULL, &f, NULL), GB_E_INVALID);
	lengthy[GB_FLIGHT_KEY_MAX] = 0;
	assert_int_equal(gb_flight_begin(scratch, lengthy, 0, NULL, NULL, &f, NULL), 0);
	gb_flight_end(&f);
}

/* Each takes the flight many times and counts without any other lock. */
#define ROUNDS 100
struct race {
	volatile int inside;
	volatile int done;
	volatile int failures;
};

static void *race_thread(void *arg)
{
	struct race *r = arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct gb_flight f = GB_FLIGHT_INIT;

		if (gb_flight_begin(scratch, "race", gb_deadline_ms(60000), NULL, NULL,
			    &f, NULL) < 0) {
			__atomic_add_fetch(&r->failures, 1, __ATOMIC_SEQ_CST);
			continue;
		}
		if (__atomic_add_fetch(&r->inside, 1, __ATOMIC_SEQ_CST) != 1)
			__atomic_add_fetch(&r->failures, 1, __ATOMIC_SEQ_CST);
		r->done++;
		__atomic_sub_fetch(&r->inside, 1, __ATOMIC_SEQ_CST);
		gb_flight_end(&f);
	}
	return NULL;
}

static void threads_never_meet_inside(void **state)
{
	struct race r = {0};
	pthread_t t[4];

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, race_thread, &r), 0);
	for (size_t i = 0; i < GB_ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(r.failures, 0);
	assert_int_equal(r.done, ROUNDS * (int)GB_ARRAY_SIZE(t));
	assert_int_equal(scratch_entries(), 0);
}

/* A child that holds the flight until it is killed; returns once it does. */
static pid_t holder(void)
{
	int p[2];
	char c = 0;
	pid_t pid;

	if (pipe(p) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		struct gb_flight f = GB_FLIGHT_INIT;

		if (gb_flight_begin(scratch, "k", GB_NEVER, NULL, NULL, &f, NULL) == 0 &&
			write(p[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(p[1]);
	if (read(p[0], &c, 1) != 1)
		pid = -1;
	close(p[0]);
	return pid;
}

static void kill_it(void *ctx)
{
	kill(*(pid_t *)ctx, SIGKILL);
}

static void a_killed_holder_lets_go(void **state)
{
	struct gb_flight f = GB_FLIGHT_INIT;
	pid_t pid = holder();
	struct gb_err err;

	(void)state;
	assert_true(pid > 0);
	assert_int_equal(gb_flight_begin(scratch, "k", gb_deadline_ms(30000), kill_it,
				 &pid, &f, &err),
		0);
	waitpid(pid, NULL, 0);
	gb_flight_end(&f);
	assert_int_equal(scratch_entries(), 0);
}

static void sweep_takes_what_nobody_holds(void **state)
{
	struct gb_flight f = GB_FLIGHT_INIT;
	pid_t pid = holder();

	(void)state;
	assert_true(pid > 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(gb_flight_begin(scratch, "held", 0, NULL, NULL, &f, NULL), 0);
	assert_int_equal(scratch_entries(), 2);
	gb_flight_sweep(scratch);
	assert_int_equal(scratch_entries(), 1);
	gb_flight_end(&f);
	assert_int_equal(scratch_entries(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_it_is_held_and_leaves_nothing),
		cmocka_unit_test(a_held_one_times_out_after_saying_so_once),
		cmocka_unit_test(keys_are_file_names_only),
		cmocka_unit_test(threads_never_meet_inside),
		cmocka_unit_test(a_killed_holder_lets_go),
		cmocka_unit_test(sweep_takes_what_nobody_holds),
	};

	return cmocka_run_group_tests_name(
		"flight", tests, scratch_setup, scratch_teardown);
}
