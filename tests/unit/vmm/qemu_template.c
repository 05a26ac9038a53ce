#include "../rows.h"
#include "../tmpdir.h"
#include "base/fd.h"
#include "vmm/qemu/host.h"
#include "vmm/qemu/template_key.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

/* What is done to a good template, and whether it is still found. */
struct damage_row {
	const char *name;
	const char *key_add; /* appended to the key in template.json */
	long memory_add;
	long state_add;
	int tsc_add; /* to the frequency in it, in parts of a million */
	const char *json; /* in place of template.json */
	int want;
};

static const struct damage_row damages[] = {
	{ "a whole template is found", "", 0, 0, 0, NULL, 0 },
	{ "another key under the same name", "x", 0, 0, 0, NULL, GB_E_NOTFOUND },
	{ "memory too long", "", 1, 0, 0, NULL, GB_E_NOTFOUND },
	{ "memory too short", "", -1, 0, 0, NULL, GB_E_NOTFOUND },
	{ "state cut", "", 0, -1, 0, NULL, GB_E_NOTFOUND },
	{ "a counter 10 ppm off", "", 0, 0, 10, NULL, 0 },
	{ "a counter 40 ppm off", "", 0, 0, 40, NULL, GB_E_NOTFOUND },
	{ "a counter 40 ppm slow", "", 0, 0, -40, NULL, GB_E_NOTFOUND },
	{ "a description that is not JSON", "", 0, 0, 0, "{", GB_E_NOTFOUND },
	{ "a description that is a list", "", 0, 0, 0, "[]", GB_E_NOTFOUND },
	{ "an empty description", "", 0, 0, 0, "", GB_E_NOTFOUND },
	{ "a description of other types", "", 0, 0, 0,
		"{\"key\":3,\"memory_size\":\"x\",\"state_size\":[]}", GB_E_NOTFOUND },
};

static const struct gb_template_want wanted = {
	.accel = GB_ACCEL_TCG, .cpus = 2, .memory_bytes = 256 * MIB, .bundle = "/boot/abc"
};

/* A file that stands for QEMU: it is looked at, never run. */
static int setup(struct tmpdir *t)
{
	if (!tmpdir_make(t))
		return -1;
	if (gb_file_write_atomic(t->fd, "qemu", "x", 1, 0755, NULL) < 0)
		return -1;
	return setenv("GLOVEBOX_QEMU", tmpdir_at(t, "qemu"), 1);
}

static int plant_file(int dir, const char *name, off_t size)
{
	gb_auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : ftruncate(fd, size);
}

static int plant_for(const struct tmpdir *t, const struct damage_row *d,
	const struct gb_template_want *want)
{
	struct gb_template_key k;
	char folder[1024];
	gb_auto_fd dir = -1;
	json_t *j;
	char *text;
	int khz = (int)gb_host_tsc_khz(t->path);
	int r;

	if (gb_template_key_init(&k, t->path, want, NULL) < 0)
		return -1;
	snprintf(folder, sizeof(folder), "%s/%s", k.folder, k.name);
	if (gb_mkdir_p(folder, 0700, NULL) < 0)
		return -1;
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(folder, sizeof(folder), "%s", d->key_add);
	j = json_pack("{s:s+, s:i, s:I, s:i, s:i}", "key", k.text, folder, "tsc_khz",
		khz + (int)((int64_t)khz * d->tsc_add / 1000000), "memory_size",
		(json_int_t)(256 * MIB), "state_size", 1000, "disk_size", 2000);
	text = json_dumps(j, 0);
	json_decref(j);
	gb_template_key_done(&k);
	if (!text || dir < 0)
		return -1;
	r = gb_file_write_atomic(dir, "template.json", d->json ? d->json : text,
		strlen(d->json ? d->json : text), 0600, NULL);
	free(text);
	r |= plant_file(dir, "memory", (off_t)(256 * MIB) + d->memory_add);
	r |= plant_file(dir, "state", 1000 + d->state_add);
	if (want->image)
		r |= plant_file(dir, GB_TEMPLATE_DISK, 2000);
	return r;
}

static int plant(const struct tmpdir *t, const struct damage_row *d)
{
	return plant_for(t, d, &wanted);
}

static void test_damage(void **state)
{
	const struct damage_row *row = *state;
	struct tmpdir t;
	char *path = NULL;

	assert_int_equal(setup(&t), 0);
	assert_int_equal(plant(&t, row), 0);
	assert_int_equal(gb_template_lookup(t.path, &wanted, &path, NULL), row->want);
	assert_int_equal(path != NULL, row->want == 0);
	free(path);
	assert_int_equal(tmpdir_remove(&t), 0);
}

struct want_row {
	const char *name;
	struct gb_template_want want;
	int found;
};

static const struct want_row wants[] = {
	{ "the same", { GB_ACCEL_TCG, 2, 256 * MIB, "/boot/abc", false, NULL, 0 }, 0 },
	{ "the same bundle in another folder", { GB_ACCEL_TCG, 2, 256 * MIB, "/x/abc", false, NULL, 0 }, 0 },
	{ "memory that is rounded to the same", { GB_ACCEL_TCG, 2, 256 * MIB - 1, "/boot/abc", false, NULL, 0 },
		0 },
	{ "another accelerator", { GB_ACCEL_KVM, 2, 256 * MIB, "/boot/abc", false, NULL, 0 }, GB_E_NOTFOUND },
	{ "other processors", { GB_ACCEL_TCG, 3, 256 * MIB, "/boot/abc", false, NULL, 0 }, GB_E_NOTFOUND },
	{ "other memory", { GB_ACCEL_TCG, 2, 257 * MIB, "/boot/abc", false, NULL, 0 }, GB_E_NOTFOUND },
	{ "another bundle", { GB_ACCEL_TCG, 2, 256 * MIB, "/boot/abd", false, NULL, 0 }, GB_E_NOTFOUND },
	{ "a network device", { GB_ACCEL_TCG, 2, 256 * MIB, "/boot/abc", true, NULL, 0 }, GB_E_NOTFOUND },
	{ "no bundle at all", { GB_ACCEL_TCG, 2, 256 * MIB, NULL, false, NULL, 0 }, GB_E_INVALID },
	{ "one of an image", { GB_ACCEL_TCG, 2, 256 * MIB, "/boot/abc", false, "abc", MIB },
		GB_E_NOTFOUND },
	{ "impossible processors", { GB_ACCEL_TCG, 0, 256 * MIB, "/boot/abc", false, NULL, 0 }, GB_E_INVALID },
};

static void test_want(void **state)
{
	const struct want_row *row = *state;
	struct tmpdir t;
	char *path = NULL;

	assert_int_equal(setup(&t), 0);
	assert_int_equal(plant(&t, &damages[0]), 0);
	assert_int_equal(gb_template_lookup(t.path, &row->want, &path, NULL), row->found);
	free(path);
	assert_int_equal(tmpdir_remove(&t), 0);
}

/* One of an image is found only with its disk, and by its image and the disk's size only. */
static void test_image(void **state)
{
	struct gb_template_want want = wanted;
	struct gb_template_want other;
	char folder[1024];
	char *path = NULL;
	struct tmpdir t;

	(void)state;
	want.image = "abc";
	want.disk_bytes = MIB;
	assert_int_equal(setup(&t), 0);
	assert_int_equal(plant_for(&t, &damages[0], &want), 0);
	assert_int_equal(gb_template_lookup(t.path, &want, &path, NULL), 0);
	assert_non_null(strstr(path, "/image-templates/"));
	for (int i = 0; i < 3; i++) {
		char *none = NULL;

		other = want;
		if (i == 0)
			other.image = "abd";
		else if (i == 1)
			other.disk_bytes++;
		else
			other.image = NULL;
		assert_int_equal(gb_template_lookup(t.path, &other, &none, NULL), GB_E_NOTFOUND);
	}
	snprintf(folder, sizeof(folder), "%s/" GB_TEMPLATE_DISK, path);
	free(path);
	path = NULL;
	assert_int_equal(truncate(folder, 10), 0);
	assert_int_equal(gb_template_lookup(t.path, &want, &path, NULL), GB_E_NOTFOUND);
	assert_int_equal(tmpdir_remove(&t), 0);
}

/* Two failures, then a day of rest. */
static void test_failures(void **state)
{
	struct timespec old[2] = { { .tv_sec = time(NULL) - GB_TEMPLATE_REST_S - 1 }, { 0 } };
	struct gb_template_want want = wanted;
	struct gb_template_key k;
	char path[1024];
	struct tmpdir t;

	(void)state;
	old[1] = old[0];
	want.image = "abc";
	want.disk_bytes = MIB;
	assert_int_equal(setup(&t), 0);
	assert_int_equal(gb_template_key_init(&k, t.path, &want, NULL), 0);
	assert_int_equal(gb_mkdir_p(k.folder, 0700, NULL), 0);
	snprintf(path, sizeof(path), "%s/.failed-%s", k.folder, k.name);
	gb_template_key_done(&k);
	for (int i = 0; i < GB_TEMPLATE_FAILURES; i++) {
		assert_true(gb_template_allowed(t.path, &want));
		gb_template_failed(t.path, &want);
	}
	assert_false(gb_template_allowed(t.path, &want));
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_true(gb_template_allowed(t.path, &want));
	gb_template_failed(t.path, &want);
	assert_true(gb_template_allowed(t.path, &want));
	assert_int_equal(tmpdir_remove(&t), 0);
}

static void test_other_qemu(void **state)
{
	struct tmpdir t;
	char *path = NULL;

	(void)state;
	assert_int_equal(setup(&t), 0);
	assert_int_equal(plant(&t, &damages[0]), 0);
	assert_int_equal(gb_file_write_atomic(t.fd, "qemu", "newer", 5, 0755, NULL), 0);
	assert_int_equal(gb_template_lookup(t.path, &wanted, &path, NULL), GB_E_NOTFOUND);
	assert_int_equal(unlinkat(t.fd, "qemu", 0), 0);
	assert_int_equal(gb_template_lookup(t.path, &wanted, &path, NULL), GB_E_NOTFOUND);
	assert_int_equal(tmpdir_remove(&t), 0);
}

static void test_discard(void **state)
{
	struct tmpdir t;
	char *path = NULL;

	(void)state;
	assert_int_equal(setup(&t), 0);
	assert_int_equal(gb_template_discard(t.path, &wanted, NULL), 0);
	assert_int_equal(plant(&t, &damages[0]), 0);
	assert_int_equal(gb_template_lookup(t.path, &wanted, &path, NULL), 0);
	assert_int_equal(gb_template_discard(t.path, &wanted, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
	free(path);
	path = NULL;
	assert_int_equal(gb_template_lookup(t.path, &wanted, &path, NULL), GB_E_NOTFOUND);
	assert_int_equal(gb_template_discard(t.path, &wanted, NULL), 0);
	/* nothing is left behind: the folder is empty */
	assert_int_equal(unlinkat(t.fd, "templates", AT_REMOVEDIR), 0);
	assert_int_equal(tmpdir_remove(&t), 0);
}

/* The measured frequency is kept for this boot only. */
static void test_counter(void **state)
{
	static const char stale[] = "00000000-0000-0000-0000-000000000000 12345\n";
	static const char *const broken[] = { "", "x", "12345", " 1", "\n\n" };
	struct tmpdir t;
	unsigned khz;

	(void)state;
	assert_true(tmpdir_make(&t));
	khz = gb_host_tsc_khz(t.path);
	if (khz == 0) {
		print_message("no time stamp counter here\n");
		tmpdir_remove(&t);
		skip();
	}
	assert_int_equal(gb_host_tsc_khz(t.path), khz);
	assert_int_equal(gb_file_write_atomic(t.fd, "tsc", stale, strlen(stale), 0600, NULL), 0);
	assert_int_not_equal(gb_host_tsc_khz(t.path), 12345);
	for (size_t i = 0; i < GB_ARRAY_SIZE(broken); i++) {
		assert_int_equal(gb_file_write_atomic(t.fd, "tsc", broken[i], strlen(broken[i]), 0600,
					 NULL), 0);
		assert_true(gb_host_tsc_khz(t.path) > 1000);
	}
	assert_true(gb_host_tsc_close(2000000, 2000040));
	assert_false(gb_host_tsc_close(2000000, 2000041));
	assert_true(gb_host_tsc_close(0, 0));
	assert_false(gb_host_tsc_close(0, 2000000));
	assert_int_equal(tmpdir_remove(&t), 0);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, damages, test_damage);
	rows_add(&l, wants, test_want);
	rows_add_one(&l, "one of an image", test_image);
	rows_add_one(&l, "failures", test_failures);
	rows_add_one(&l, "another qemu", test_other_qemu);
	rows_add_one(&l, "discarding", test_discard);
	rows_add_one(&l, "the counter's frequency", test_counter);
	return rows_run("vmm qemu template", &l);
}
