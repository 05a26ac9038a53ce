/* The configuration: reading values, files with positions, layers and who may set what. */
#include "config/config.h"

#include "base/fd.h"
#include "base/path.h"
#include "config/toml.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const struct gb_config_base base = { "/base/dir", "/home/me" };

/* One value read for a key: its text, or a piece of the message. */
static const struct value_row {
	const char *name;
	enum gb_config_id id;
	const char *text;
	const char *want; /* NULL: must fail */
	const char *message;
} value_rows[] = {
	{ "the least number", GB_CONFIG_CPUS, "1", "1", NULL },
	{ "below the least number", GB_CONFIG_CPUS, "0", NULL, "a whole number from 1 to 64" },
	{ "the largest number", GB_CONFIG_CPUS, "64", "64", NULL },
	{ "over the largest number", GB_CONFIG_CPUS, "65", NULL, "'65' is not a whole number" },
	{ "a negative number", GB_CONFIG_CPUS, "-1", NULL, "whole number" },
	{ "a number with a unit", GB_CONFIG_CPUS, "2x", NULL, "whole number" },
	{ "a size with a letter", GB_CONFIG_MEMORY, "512M", "512M", NULL },
	{ "a bare memory size is MiB", GB_CONFIG_MEMORY, "1024", "1G", NULL },
	{ "a bare disk size is GiB", GB_CONFIG_DISK, "30", "30G", NULL },
	{ "the least memory", GB_CONFIG_MEMORY, "128M", "128M", NULL },
	{ "below the least memory", GB_CONFIG_MEMORY, "127M", NULL, "from 128M to 1T" },
	{ "the largest disk", GB_CONFIG_DISK, "16T", "16T", NULL },
	{ "over the largest disk", GB_CONFIG_DISK, "17T", NULL, "from 64M to 16T" },
	{ "a word of an enum", GB_CONFIG_ACCEL, "tcg", "tcg", NULL },
	{ "a slip in an enum", GB_CONFIG_ACCEL, "kwm", NULL, "did you mean kvm?" },
	{ "nothing near in an enum", GB_CONFIG_ACCEL, "hyperdrive", NULL,
		"one of auto, kvm, hvf, tcg" },
	{ "any text as user", GB_CONFIG_USER, "1000:1000", "1000:1000", NULL },
	{ "a control character", GB_CONFIG_USER, "a\nb", NULL, "control characters" },
	{ "an absolute guest path", GB_CONFIG_WORKDIR, "/srv/x", "/srv/x", NULL },
	{ "a relative guest path", GB_CONFIG_WORKDIR, "srv", NULL, "absolute path in the guest" },
	{ "a guest path with ..", GB_CONFIG_WORKDIR, "/srv/../etc", NULL, "absolute path" },
	{ "a guest name that begins with dots", GB_CONFIG_WORKDIR, "/srv/..x", "/srv/..x", NULL },
	{ "a host path below home", GB_CONFIG_KERNEL, "~/k", "/home/me/k", NULL },
	{ "home itself", GB_CONFIG_KERNEL, "~", "/home/me", NULL },
	{ "a host path beside the file", GB_CONFIG_KERNEL, "k", "/base/dir/k", NULL },
	{ "an absolute host path", GB_CONFIG_KERNEL, "/k", "/k", NULL },
	{ "an assignment", GB_CONFIG_ENVIRONMENT, "A_1=x=y", "A_1=x=y", NULL },
	{ "a name to pass through", GB_CONFIG_ENVIRONMENT, "PATH", "PATH", NULL },
	{ "an assignment without a name", GB_CONFIG_ENVIRONMENT, "=x", NULL, "K=V" },
	{ "a name with a digit first", GB_CONFIG_ENVIRONMENT, "1A=x", NULL, "K=V" },
	{ "a name with a dash", GB_CONFIG_ENVIRONMENT, "A-B=x", NULL, "K=V" },
	{ "a share", GB_CONFIG_SHARE_LIST, "/a:/b", "/a:/b", NULL },
	{ "a read-only share", GB_CONFIG_SHARE_LIST, "/a:/b:ro", "/a:/b:ro", NULL },
	{ "a share that says rw", GB_CONFIG_SHARE_LIST, "/a:/b:rw", "/a:/b", NULL },
	{ "a relative share", GB_CONFIG_SHARE_LIST, "x:/b", "/base/dir/x:/b", NULL },
	{ "this folder as a share", GB_CONFIG_SHARE_LIST, ".:/b", "/base/dir:/b", NULL },
	{ "a host path with a colon", GB_CONFIG_SHARE_LIST, "/a:1:/b", "/a:1:/b", NULL },
	{ "a share without a guest path", GB_CONFIG_SHARE_LIST, "/a", NULL, "HOST:GUEST" },
	{ "a share with a relative guest", GB_CONFIG_SHARE_LIST, "/a:b", NULL, "absolute GUEST" },
	{ "a share over the guest's root", GB_CONFIG_SHARE_LIST, "/a:/", NULL, "absolute GUEST" },
	{ "a share without a host path", GB_CONFIG_SHARE_LIST, ":/b", NULL, "HOST:GUEST" },
	{ "a share of nothing", GB_CONFIG_SHARE_LIST, "", NULL, "HOST:GUEST" },
	{ "a share of only a mode", GB_CONFIG_SHARE_LIST, ":ro", NULL, "HOST:GUEST" },
};

static void test_value(void **state)
{
	const struct value_row *row = *state;
	const struct gb_config_key *k = gb_config_key(row->id);
	struct gb_config_value v = { 0 };
	struct gb_err err = { 0 };
	char *text;

	if (!row->want) {
		assert_true(gb_config_value_read(k, row->text, &base, &v, &err) < 0);
		assert_non_null(strstr(err.msg, row->message));
		gb_config_value_done(&v);
		return;
	}
	assert_int_equal(gb_config_value_read(k, row->text, &base, &v, &err), 0);
	text = gb_config_value_text(k, &v);
	assert_string_equal(text, row->want);
	free(text);
	gb_config_value_done(&v);
}

/* A file's text: what a key is afterwards, and the only note (or the failure) it makes. */
static const struct file_row {
	const char *name;
	enum gb_config_source source;
	const char *text;
	enum gb_config_id id;
	const char *want;
	bool error;
	const char *note; /* NULL: no note at all */
	const char *failure;
} file_rows[] = {
	{ "empty file", GB_CONFIG_FROM_USER, "", GB_CONFIG_CPUS, "2", false, NULL, NULL },
	{ "a number", GB_CONFIG_FROM_USER, "[machine]\ncpus = 4\n", GB_CONFIG_CPUS, "4", false,
		NULL, NULL },
	{ "a size as string", GB_CONFIG_FROM_USER, "[machine]\nmemory = \"3G\"\n",
		GB_CONFIG_MEMORY, "3G", false, NULL, NULL },
	{ "a size as number", GB_CONFIG_FROM_USER, "[machine]\ndisk = 7\n", GB_CONFIG_DISK, "7G",
		false, NULL, NULL },
	{ "a list", GB_CONFIG_FROM_USER, "[machine]\nenv = [\"A=1\", \"B\"]\n",
		GB_CONFIG_ENVIRONMENT, "A=1,B", false, NULL, NULL },
	{ "an inline table", GB_CONFIG_FROM_USER, "machine = { cpus = 3 }", GB_CONFIG_CPUS, "3",
		false, NULL, NULL },
	{ "a dotted key", GB_CONFIG_FROM_USER, "machine.cpus = 3", GB_CONFIG_CPUS, "3", false,
		NULL, NULL },
	{ "an image", GB_CONFIG_FROM_USER, "[image]\ndefault = \"tar:/x.tar\"\n",
		GB_CONFIG_IMAGE_DEFAULT, "tar:/x.tar", false, NULL, NULL },

	{ "a wrong type falls back", GB_CONFIG_FROM_USER, "[machine]\ncpus = \"4\"\n",
		GB_CONFIG_CPUS, "2", true,
		"F:2:8: machine.cpus: expected a whole number from 1 to 64, found a string", NULL },
	{ "a number out of range falls back", GB_CONFIG_FROM_USER, "[machine]\n  cpus = 65\n",
		GB_CONFIG_CPUS, "2", true, "F:2:10: machine.cpus: '65' is not a whole number", NULL },
	{ "a negative number", GB_CONFIG_FROM_USER, "[machine]\ncpus = -1\n", GB_CONFIG_CPUS, "2",
		true, "F:2:8: ", NULL },
	{ "a float", GB_CONFIG_FROM_USER, "[machine]\ncpus = 2.5\n", GB_CONFIG_CPUS, "2", true,
		"found a float", NULL },
	{ "infinity", GB_CONFIG_FROM_USER, "[machine]\ncpus = inf\n", GB_CONFIG_CPUS, "2", true,
		"found a float", NULL },
	{ "a date", GB_CONFIG_FROM_USER, "[machine]\nuser = 2020-01-01\n", GB_CONFIG_USER, "",
		true, "found a date", NULL },
	{ "a list for a string", GB_CONFIG_FROM_USER, "[machine]\nuser = [\"a\"]\n",
		GB_CONFIG_USER, "", true, "F:2:8: machine.user: expected a string, found an array",
		NULL },
	{ "a string for a list", GB_CONFIG_FROM_USER, "[machine]\nenv = \"A=1\"\n",
		GB_CONFIG_ENVIRONMENT, "", true, "F:2:7: machine.env: expected a list", NULL },
	{ "one bad entry of a list", GB_CONFIG_FROM_USER,
		"[machine]\nenv = [\"A=1\",\n  7, \"B=2\"]\n", GB_CONFIG_ENVIRONMENT, "A=1,B=2",
		true, "F:3:3: machine.env: expected a list of strings", NULL },
	{ "a NUL in a string", GB_CONFIG_FROM_USER, "[machine]\nuser = \"a\\u0000b\"\n",
		GB_CONFIG_USER, "", true, "machine.user", NULL },
	{ "an unknown key", GB_CONFIG_FROM_USER, "[machine]\n cpu = 4\n", GB_CONFIG_CPUS, "2",
		false, "F:2:2: unknown key 'machine.cpu' (did you mean 'cpus'?)", NULL },
	{ "an unknown key like no other", GB_CONFIG_FROM_USER, "[machine]\nturbocharger = 4\n",
		GB_CONFIG_CPUS, "2", false, "F:2:1: unknown key 'machine.turbocharger'", NULL },
	{ "a key that holds a NUL", GB_CONFIG_FROM_USER, "[machine]\n\"cpus\\u0000\" = 4\n",
		GB_CONFIG_CPUS, "2", false, "unknown key", NULL },
	{ "an unknown table", GB_CONFIG_FROM_USER, "[machin]\ncpus = 4\n", GB_CONFIG_CPUS, "2",
		false, "unknown table 'machin' (did you mean 'machine'?)", NULL },
	{ "a key without its table", GB_CONFIG_FROM_USER, "cpus = 4\n", GB_CONFIG_CPUS, "2", false,
		"F:1:1: key 'cpus' belongs below [machine]", NULL },
	{ "a table as a number", GB_CONFIG_FROM_USER, "machine = 4\n", GB_CONFIG_CPUS, "2", true,
		"F:1:11: 'machine': expected a table", NULL },
	{ "a table as an array of tables", GB_CONFIG_FROM_USER, "[[machine]]\ncpus = 4\n",
		GB_CONFIG_CPUS, "2", true, "expected a table", NULL },
	{ "a broken file", GB_CONFIG_FROM_USER, "[machine]\ncpus = = 4\n", GB_CONFIG_CPUS, "2",
		false, NULL, "F:2:8: " },
	{ "a string without an end", GB_CONFIG_FROM_USER, "[machine]\nuser = \"a\n",
		GB_CONFIG_CPUS, "2", false, NULL, "F:2:" },
	{ "a key given twice", GB_CONFIG_FROM_USER, "[machine]\ncpus=1\ncpus=2\n", GB_CONFIG_CPUS,
		"2", false, NULL, "F:3:" },
	{ "text that is not UTF-8", GB_CONFIG_FROM_USER, "[machine]\nuser = \"\xff\"\n",
		GB_CONFIG_CPUS, "2", false, NULL, "F:2:" },

	{ "a project may set resources", GB_CONFIG_FROM_PROJECT, "[machine]\ncpus = 4\n",
		GB_CONFIG_CPUS, "4", false, NULL, NULL },
	{ "a project may set variables", GB_CONFIG_FROM_PROJECT, "[machine]\nenv = [\"A=1\"]\n",
		GB_CONFIG_ENVIRONMENT, "A=1", false, NULL, NULL },
	{ "a project may not take the host's variables", GB_CONFIG_FROM_PROJECT,
		"[machine]\nenv = [\"AWS_SECRET_ACCESS_KEY\"]\n", GB_CONFIG_ENVIRONMENT, "", false,
		"F:2:8: 'AWS_SECRET_ACCESS_KEY' would take the host's value", NULL },
	{ "a project may not share host folders", GB_CONFIG_FROM_PROJECT,
		"[machine]\nshares = [\"~/.ssh:/x\"]\n", GB_CONFIG_SHARE_LIST, "", false,
		"F:2:1: machine.shares is not taken from a project file", NULL },
	{ "a project may not choose the kernel", GB_CONFIG_FROM_PROJECT,
		"[machine]\nkernel = \"/k\"\n", GB_CONFIG_KERNEL, "", false,
		"machine.kernel is not taken", NULL },
	{ "a project may not choose the accelerator", GB_CONFIG_FROM_PROJECT,
		"[machine]\naccel = \"tcg\"\n", GB_CONFIG_ACCEL, "auto", false,
		"machine.accel is not taken", NULL },
	{ "a project may name an image", GB_CONFIG_FROM_PROJECT, "[image]\ndefault = \"dev\"\n",
		GB_CONFIG_IMAGE_DEFAULT, "dev", false, NULL, NULL },
	{ "a project may name a suite", GB_CONFIG_FROM_PROJECT,
		"[image]\ndefault = \"debootstrap:bookworm\"\n", GB_CONFIG_IMAGE_DEFAULT,
		"debootstrap:bookworm", false, NULL, NULL },
	{ "a project may not make an image of a host folder", GB_CONFIG_FROM_PROJECT,
		"[image]\ndefault = \"rootfs:/home\"\n", GB_CONFIG_IMAGE_DEFAULT, "", false,
		"a project file may name an image", NULL },
};

static void test_file(void **state)
{
	const struct file_row *row = *state;
	struct gb_config c;
	struct gb_err err = { 0 };
	char *text;
	int r;

	assert_int_equal(gb_config_defaults(&c, &err), 0);
	r = gb_config_read_text(
		&c, "F", row->text, strlen(row->text), row->source, &base, &err);
	assert_int_equal(r < 0, row->failure != NULL);
	if (row->failure)
		assert_true(strncmp(err.msg, row->failure, strlen(row->failure)) == 0);
	text = gb_config_value_text(gb_config_key(row->id), &c.settings[row->id].value);
	assert_string_equal(text, row->want);
	free(text);
	assert_int_equal(c.note_total, row->note ? 1 : 0);
	if (row->note) {
		assert_non_null(strstr(c.notes[0].text, row->note));
		assert_int_equal(c.notes[0].error, row->error);
	}
	gb_config_done(&c);
}

static void test_dots_are_bounded(void **state)
{
	char text[600] = "\"a.b.c\" = 1 # . . .\nx = [1.0, 2.0, 3.5]\ny = '''\n.\n'''\n";
	struct gb_err err = { 0 };
	json_t *root = NULL;

	(void)state;
	assert_int_equal(gb_toml_parse("F", text, strlen(text), &root, &err), 0);
	json_decref(root);
	for (size_t dots = GB_TOML_DOTS_MAX; dots <= GB_TOML_DOTS_MAX + 1; dots++) {
		size_t n = 0;

		text[n++] = 'a';
		for (size_t i = 0; i < dots; i++) {
			text[n++] = '.';
			text[n++] = 'a';
		}
		memcpy(text + n, "=1", 3);
		root = NULL;
		assert_int_equal(gb_toml_parse("F", text, strlen(text), &root, &err),
			dots > GB_TOML_DOTS_MAX ? GB_E_LIMIT : 0);
		json_decref(root);
	}
	assert_string_equal(err.msg, "F:1:66: a key with more than 32 dots");
}

static void test_nesting_is_bounded(void **state)
{
	struct gb_err err = { 0 };
	json_t *root = NULL;
	char *text = malloc(200001);

	(void)state;
	memcpy(text, "x=", 2);
	memset(text + 2, '[', 199998);
	text[200000] = 0;
	assert_int_equal(gb_toml_parse("F", text, 200000, &root, &err), GB_E_PARSE);
	free(text);
}

static void test_size_is_bounded(void **state)
{
	struct gb_err err = { 0 };
	json_t *root = NULL;
	char *text = malloc(GB_TOML_MAX + 1);

	(void)state;
	memset(text, '\n', GB_TOML_MAX + 1);
	assert_int_equal(gb_toml_parse("F", text, GB_TOML_MAX, &root, &err), 0);
	json_decref(root);
	assert_int_equal(gb_toml_parse("F", text, GB_TOML_MAX + 1, &root, &err), GB_E_LIMIT);
	free(text);
}

static void test_notes_are_bounded(void **state)
{
	struct gb_config c;
	struct gb_err err;
	char text[2000] = "[machine]\n";
	size_t n = strlen(text);

	(void)state;
	for (unsigned i = 0; i <= GB_CONFIG_NOTES_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "unknown-%u=1\n", i);
	assert_int_equal(gb_config_defaults(&c, &err), 0);
	assert_int_equal(
		gb_config_read_text(&c, "F", text, n, GB_CONFIG_FROM_USER, &base, &err), 0);
	assert_int_equal(c.note_count, GB_CONFIG_NOTES_MAX);
	assert_int_equal(c.note_total, GB_CONFIG_NOTES_MAX + 1);
	gb_config_done(&c);
}

/* A folder with a user file and a project: ROOT/config, ROOT/home/project/sub. */
struct place {
	char root[64];
	char *config, *home, *project, *sub;
};

static int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	const char *tmp = getenv("TMPDIR");

	snprintf(p->root, sizeof(p->root), "%s/gb-config-XXXXXX",
		tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(p->root))
		return -1;
	p->config = gb_path_join(p->root, "config");
	p->home = gb_path_join(p->root, "home");
	p->project = gb_path_join(p->home, "project");
	p->sub = gb_path_join(p->project, "sub");
	*state = p;
	return gb_mkdir_p(p->config, 0700, NULL) | gb_mkdir_p(p->sub, 0700, NULL);
}

static int remove_place(void **state)
{
	struct place *p = *state;
	int r = gb_rm_tree(AT_FDCWD, p->root, NULL);

	free(p->config);
	free(p->home);
	free(p->project);
	free(p->sub);
	free(p);
	return r;
}

static void put(const char *dir, const char *name, const char *text)
{
	char *path = gb_path_join(dir, name);
	int r = gb_file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600, NULL);

	free(path);
	assert_int_equal(r, 0);
}

static void expect(struct gb_config *c, enum gb_config_id id, enum gb_config_source source,
	const char *want, const char *where_end)
{
	const struct gb_config_setting *s = &c->settings[id];
	char *text = gb_config_value_text(gb_config_key(id), &s->value);

	assert_string_equal(text, want);
	free(text);
	assert_int_equal(s->source, source);
	assert_true(strlen(s->where) >= strlen(where_end));
	assert_string_equal(s->where + strlen(s->where) - strlen(where_end), where_end);
}

static void test_layers(void **state)
{
	struct place *p = *state;
	const char *const env[] = { "GLOVEBOX_DISK=9G", "GLOVEBOX_ACCEL=tcg", "GLOVEBOX_ENV=E=1,F",
		"GLOVEBOX_USER=", "GLOVEBOX_CPUS=none", NULL };
	struct gb_config_where w = { p->config, p->sub, p->home, (char *const *)env };
	struct gb_config_base at = { p->sub, p->home };
	struct gb_config c;
	struct gb_err err = { 0 };

	put(p->config, GB_CONFIG_USER_FILE,
		"[machine]\ncpus = 3\nmemory = \"1G\"\ndisk = \"5G\"\nkernel = \"k\"\n");
	put(p->project, GB_CONFIG_PROJECT_FILE, "[machine]\nmemory = \"3G\"\ndisk = \"6G\"\n");
	assert_int_equal(gb_config_load(&w, &c, &err), 0);
	expect(&c, GB_CONFIG_USER, GB_CONFIG_FROM_DEFAULT, "", "");
	expect(&c, GB_CONFIG_CPUS, GB_CONFIG_FROM_USER, "3", "/config.toml:2:8");
	expect(&c, GB_CONFIG_MEMORY, GB_CONFIG_FROM_PROJECT, "3G", "/.glovebox.toml:2:10");
	expect(&c, GB_CONFIG_DISK, GB_CONFIG_FROM_ENV, "9G", "GLOVEBOX_DISK");
	expect(&c, GB_CONFIG_ENVIRONMENT, GB_CONFIG_FROM_ENV, "E=1,F", "GLOVEBOX_ENV");
	assert_int_equal(c.note_total, 1);
	assert_non_null(strstr(c.notes[0].text, "GLOVEBOX_CPUS: 'none' is not a whole number"));
	assert_string_equal(gb_config_text(&c, GB_CONFIG_KERNEL) + strlen(p->config), "/k");

	assert_int_equal(gb_config_set(&c, GB_CONFIG_DISK, GB_CONFIG_FROM_OPTION, "--disk", "10G",
				 &at, &err),
		0);
	expect(&c, GB_CONFIG_DISK, GB_CONFIG_FROM_OPTION, "10G", "--disk");
	assert_true(gb_config_set(&c, GB_CONFIG_DISK, GB_CONFIG_FROM_OPTION, "--disk", "big", &at,
			    &err) < 0);
	expect(&c, GB_CONFIG_DISK, GB_CONFIG_FROM_OPTION, "10G", "--disk");
	gb_config_done(&c);
}

static void test_project_search_stops_at_home(void **state)
{
	struct place *p = *state;
	struct gb_err err = { 0 };
	char *found = NULL;
	char *want = gb_path_join(p->home, GB_CONFIG_PROJECT_FILE);

	put(p->root, GB_CONFIG_PROJECT_FILE, "");
	assert_int_equal(gb_config_find_project(p->sub, p->home, &found, &err), GB_E_NOTFOUND);
	put(p->home, GB_CONFIG_PROJECT_FILE, "");
	assert_int_equal(gb_config_find_project(p->sub, p->home, &found, &err), 0);
	assert_string_equal(found, want);
	free(found);
	free(want);
}

static void test_project_search_ends_at_the_root(void **state)
{
	struct gb_err err = { 0 };
	char *found = NULL;

	(void)state;
	assert_int_equal(
		gb_config_find_project("/no/such/place", NULL, &found, &err), GB_E_NOTFOUND);
}

static void test_broken_file_stops(void **state)
{
	struct place *p = *state;
	struct gb_config_where w = { p->config, p->sub, p->home, NULL };
	struct gb_config c;
	struct gb_err err = { 0 };

	put(p->config, GB_CONFIG_USER_FILE, "[machine\n");
	assert_int_equal(gb_config_load(&w, &c, &err), GB_E_PARSE);
	assert_non_null(strstr(err.msg, "/config.toml:1:9: "));
	gb_config_done(&c);
}

static void test_file_that_is_a_folder(void **state)
{
	struct place *p = *state;
	struct gb_config_where w = { p->config, NULL, NULL, NULL };
	char *path = gb_path_join(p->config, GB_CONFIG_USER_FILE);
	struct gb_config c;
	struct gb_err err = { 0 };

	assert_int_equal(mkdir(path, 0700), 0);
	free(path);
	assert_true(gb_config_load(&w, &c, &err) < 0);
	gb_config_done(&c);
}

static void test_keys_are_in_order(void **state)
{
	(void)state;
	for (int i = 0; i < GB_CONFIG_COUNT; i++) {
		const struct gb_config_key *k = gb_config_key((enum gb_config_id)i);
		char expected[160];

		assert_int_equal(k->id, i);
		assert_ptr_equal(gb_config_key_find(k->table, k->key), k);
		assert_true(strncmp(k->env, "GLOVEBOX_", 9) == 0);
		gb_config_expected(k, expected, sizeof(expected));
		assert_true(strlen(expected) > 0 && strlen(expected) < sizeof(expected) - 1);
	}
}

#define PLACE_TEST(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)

static const struct CMUnitTest single_tests[] = {
	cmocka_unit_test(test_dots_are_bounded),
	cmocka_unit_test(test_nesting_is_bounded),
	cmocka_unit_test(test_size_is_bounded),
	cmocka_unit_test(test_notes_are_bounded),
	cmocka_unit_test(test_keys_are_in_order),
	cmocka_unit_test(test_project_search_ends_at_the_root),
	PLACE_TEST(test_layers),
	PLACE_TEST(test_project_search_stops_at_home),
	PLACE_TEST(test_broken_file_stops),
	PLACE_TEST(test_file_that_is_a_folder),
};

#define N_VALUES  GB_ARRAY_SIZE(value_rows)
#define N_FILES   GB_ARRAY_SIZE(file_rows)
#define N_SINGLES GB_ARRAY_SIZE(single_tests)

int main(void)
{
	static struct CMUnitTest tests[N_VALUES + N_FILES + N_SINGLES];
	size_t n = 0;

	for (size_t i = 0; i < N_VALUES; i++, n++)
		tests[n] = (struct CMUnitTest){ .name = value_rows[i].name,
			.test_func = test_value,
			.initial_state = (void *)&value_rows[i] };
	for (size_t i = 0; i < N_FILES; i++, n++)
		tests[n] = (struct CMUnitTest){ .name = file_rows[i].name,
			.test_func = test_file,
			.initial_state = (void *)&file_rows[i] };
	for (size_t i = 0; i < N_SINGLES; i++)
		tests[n++] = single_tests[i];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
