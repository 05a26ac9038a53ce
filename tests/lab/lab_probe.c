/* /init of the lab's outer guest: loads kvm, asks the accelerator probe, says what came
 * of it on the console ("lab: ..."), and powers off. Static. */
#include "vmm/accel.h"
#include "vmm/accel_probe.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>

static void load_modules(void)
{
	FILE *list = fopen("/modules.list", "re");
	char path[256];
	int loaded = 0;

	while (list && fgets(path, sizeof(path), list)) {
		gb_auto_fd fd = -1;

		path[strcspn(path, "\n")] = 0;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (syscall(SYS_finit_module, fd, "", 0) == 0)
			loaded++;
		else
			printf("lab: cannot load %s: %s\n", path, strerror(errno));
	}
	printf("lab: loaded %d modules\n", loaded);
	if (list)
		fclose(list);
}

static void show_resolve(const char *what, const char *cache)
{
	struct gb_accel_result got;
	struct gb_err err = {0};
	uint64_t start = gb_now_ns();
	int r = gb_accel_resolve(GB_ACCEL_AUTO, cache, &got, &err);

	printf("lab: %s: %s (%s), cached %d, %llu us\n", what,
		r < 0 ? "failed" : gb_accel_name(got.accel), r < 0 ? err.msg : got.why,
		r == 0 && got.cached, (unsigned long long)((gb_now_ns() - start) / 1000));
}

int main(void)
{
	struct gb_kvm_verdict v;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mount("proc", "/proc", "proc", 0, NULL);
	load_modules();
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	/* a processor that is itself emulated is slow, not broken */
	gb_kvm_probe(&gb_kvm_ops_real, GB_KVM_DEVICE, 10000, &v);
	printf("lab: bare guest: %s\n", v.why);
	show_resolve("first", "/cache");
	show_resolve("again", "/cache");
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
