/* Making machines from an image of 2 GiB, and listing a thousand of them. No VM is started. */
#include "bench.h"
#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define IMAGE_BYTES (INT64_C(2) << 30)
#define MACHINES    1000

static double disk_used(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (double)st.st_blocks * 512 : -1;
}

static void make_spec(struct gb_machine_spec *s, unsigned number)
{
	char name[32];

	snprintf(name, sizeof(name), "bench-%04u", number);
	gb_machine_spec_init(s);
	gb_spec_set(&s->name, name);
	gb_spec_set(&s->accel, "auto");
	s->cpus = 2;
	s->memory_bytes = UINT64_C(2) << 30;
	s->disk_bytes = UINT64_C(20) << 30;
}

int main(int argc, char **argv)
{
	char home[] = "/tmp/gb-bench-XXXXXX";
	struct gb_bench_args a;
	struct gb_samples create = { 0 }, space = { 0 }, ls = { 0 };
	struct gb_err err = { 0 };
	char image[64];
	int fd;

	gb_bench_init(&a, argc, argv, 20);
	if (!mkdtemp(home))
		gb_bench_fail("temporary folder", NULL);
	setenv("GLOVEBOX_HOME", home, 1);
	gb_dirs_done(&a.dirs);
	if (gb_dirs_init(&a.dirs, &err) < 0)
		gb_bench_fail("folders", &err);
	snprintf(image, sizeof(image), "%s/image.ext4", home);
	fd = open(image, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, IMAGE_BYTES) < 0)
		gb_bench_fail("image", NULL);
	close(fd);
	for (unsigned i = 0; i < MACHINES; i++) {
		struct gb_machine_spec s;
		uint64_t begin = gb_now_ns();
		char *disk;

		make_spec(&s, i);
		if (gb_machine_create(&a.dirs, &s, image, &err) < 0)
			gb_bench_fail("create", &err);
		gb_samples_add(&create, (double)(gb_now_ns() - begin) / 1e6);
		disk = gb_machine_path(&a.dirs, s.name, "disk.qcow2");
		gb_samples_add(&space, disk_used(disk) / 1024);
		free(disk);
		gb_machine_spec_done(&s);
	}
	for (unsigned i = 0; i < a.rounds; i++) {
		char *line[] = { (char *)(uintptr_t)a.glovebox, (char *)(uintptr_t) "ls", NULL };

		gb_samples_add(&ls, (double)gb_bench_run(line) / 1e6);
	}
	gb_samples_print(&create, "create from a 2 GiB image", "ms");
	gb_samples_print(&space, "disk of a new machine", "KiB");
	gb_samples_print(&ls, "ls with 1000 machines: process begin to exit", "ms");
	return gb_rm_tree(AT_FDCWD, home, NULL) < 0;
}
