/* cmocka from tables: every row becomes a test with its own name. A row is a struct whose first
 * member is its name; the test function gets the row in *state. */
#ifndef GB_TESTS_ROWS_H
#define GB_TESTS_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROWS_MAX 512

struct rows_list {
	struct CMUnitTest tests[ROWS_MAX];
	size_t n;
};

static inline void rows_add_raw(struct rows_list *l, const void *rows, size_t count, size_t size,
	CMUnitTestFunction fn)
{
	for (size_t i = 0; i < count; i++) {
		void *row = (char *)(uintptr_t)rows + i * size;

		if (l->n == ROWS_MAX) {
			print_error("over %d rows\n", ROWS_MAX);
			exit(1);
		}
		l->tests[l->n++] = (struct CMUnitTest){
			.name = *(const char *const *)row,
			.test_func = fn,
			.initial_state = row,
		};
	}
}
#define rows_add(l, rows, fn)                                                            \
	rows_add_raw(l, rows, sizeof(rows) / sizeof((rows)[0]), sizeof((rows)[0]), fn)

static inline void rows_add_one(struct rows_list *l, const char *name, CMUnitTestFunction fn)
{
	l->tests[l->n++] = (struct CMUnitTest){ .name = name, .test_func = fn };
}

/* Debian 12's valgrind does not know every system call: a test whose subject is such a call
 * skips itself, aloud. arguments are those of a call that fails for another reason. */
#define skip_without_syscall(name, ...)                                                  \
	do {                                                                             \
		if (syscall(SYS_##name, __VA_ARGS__) < 0 && errno == ENOSYS) {           \
			print_message("no system call " #name " here (valgrind?)\n");    \
			skip();                                                          \
		}                                                                        \
	} while (0)

static inline int rows_run(const char *group, struct rows_list *l)
{
	return _cmocka_run_group_tests(group, l->tests, l->n, NULL, NULL);
}

#endif
