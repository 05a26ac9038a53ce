#include "machine/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void fill(struct gb_machine_spec *s)
{
	gb_machine_spec_init(s);
	gb_spec_set(&s->name, "m-1");
	gb_spec_set(&s->id, "0123456789abcdef0123456789abcdef");
	gb_spec_set(&s->image, "aa");
	gb_spec_set(&s->directory, "/home/u/p");
	gb_spec_set(&s->accel, "auto");
	gb_strv_add(&s->env, "A=b=c");
	s->cpus = 2;
	s->memory_bytes = UINT64_C(2) << 30;
	s->disk_bytes = UINT64_C(20) << 30;
	s->ephemeral = true;
}

static void round_trip(void **state)
{
	struct gb_machine_spec s;
	struct gb_machine_spec back;
	struct gb_err err = { 0 };
	char *text = NULL;

	(void)state;
	fill(&s);
	assert_int_equal(gb_machine_spec_add_share(&s, "/srv", "/data", true, &err), 0);
	assert_int_equal(gb_machine_spec_to_json(&s, &text, &err), 0);
	assert_int_equal(gb_machine_spec_from_json(text, strlen(text), &back, &err), 0);
	assert_string_equal(back.name, "m-1");
	assert_string_equal(back.directory, "/home/u/p");
	assert_int_equal(back.env.n, 1);
	assert_string_equal(back.env.v[0], "A=b=c");
	assert_int_equal(back.share_count, 1);
	assert_string_equal(back.shares[0].guest, "/data");
	assert_true(back.shares[0].rdonly);
	assert_int_equal(back.cpus, 2);
	assert_true(back.memory_bytes == UINT64_C(2) << 30);
	assert_true(back.disk_bytes == UINT64_C(20) << 30);
	assert_true(back.ephemeral);
	gb_machine_spec_done(&back);
	gb_machine_spec_done(&s);
	free(text);
}

struct border {
	const char *name;
	uint32_t cpus;
	uint64_t memory_mib;
	uint64_t disk_mib;
	const char *machine;
	const char *directory;
	int code;
};

static const struct border borders[] = {
	{ "one processor", 1, 2048, 20480, "m", "/w", 0 },
	{ "no processor", 0, 2048, 20480, "m", "/w", GB_E_INVALID },
	{ "64 processors", 64, 2048, 20480, "m", "/w", 0 },
	{ "65 processors", 65, 2048, 20480, "m", "/w", GB_E_INVALID },
	{ "least memory", 1, 128, 20480, "m", "/w", 0 },
	{ "too little memory", 1, 127, 20480, "m", "/w", GB_E_INVALID },
	{ "most memory", 1, 1 << 20, 20480, "m", "/w", 0 },
	{ "too much memory", 1, (1 << 20) + 1, 20480, "m", "/w", GB_E_INVALID },
	{ "least disk", 1, 2048, 64, "m", "/w", 0 },
	{ "too little disk", 1, 2048, 63, "m", "/w", GB_E_INVALID },
	{ "most disk", 1, 2048, 16 << 20, "m", "/w", 0 },
	{ "too much disk", 1, 2048, (16 << 20) + 1, "m", "/w", GB_E_INVALID },
	{ "name with a slash", 1, 2048, 20480, "a/b", "/w", GB_E_INVALID },
	{ "name with a dot first", 1, 2048, 20480, ".a", "/w", GB_E_INVALID },
	{ "relative directory", 1, 2048, 20480, "m", "w", GB_E_INVALID },
	{ "no directory", 1, 2048, 20480, "m", "", 0 },
};

static void check_border(void **state)
{
	const struct border *b = *state;
	struct gb_machine_spec s;
	struct gb_err err = { 0 };
	int r;

	fill(&s);
	s.cpus = b->cpus;
	s.memory_bytes = b->memory_mib << 20;
	s.disk_bytes = b->disk_mib << 20;
	gb_spec_set(&s.name, b->machine);
	gb_spec_set(&s.directory, b->directory);
	r = gb_machine_spec_check(&s, &err);
	gb_machine_spec_done(&s);
	assert_int_equal(r, b->code);
}

static const struct {
	const char *name;
	const char *text;
} damaged[] = {
	{ "an empty file", "" },
	{ "half a file", "{\"version\": 1, \"name\": \"m" },
	{ "a list", "[]" },
	{ "another version", "{\"version\": 2}" },
	{ "nothing but a version", "{\"version\": 1}" },
	{ "a name twice", "{\"version\": 1, \"name\": \"a\", \"name\": \"b\"}" },
};

static void refuse_damaged(void **state)
{
	struct gb_err err = { 0 };
	struct gb_machine_spec s;

	(void)state;
	for (size_t i = 0; i < GB_ARRAY_SIZE(damaged); i++) {
		const char *t = damaged[i].text;

		if (gb_machine_spec_from_json(t, strlen(t), &s, &err) != GB_E_PARSE)
			fail_msg("%s was taken", damaged[i].name);
		assert_true(*err.msg);
	}
}

int main(void)
{
	struct CMUnitTest tests[GB_ARRAY_SIZE(borders) + 2] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(refuse_damaged),
	};

	for (size_t i = 0; i < GB_ARRAY_SIZE(borders); i++)
		tests[2 + i] = (struct CMUnitTest){ .name = borders[i].name,
			.test_func = check_border,
			.initial_state = (void *)(uintptr_t)&borders[i] };
	return cmocka_run_group_tests_name("machine spec", tests, NULL, NULL);
}
