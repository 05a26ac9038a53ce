#include "vmm/qemu/args.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#define MIB (UINT64_C(1) << 20)

/* Translated guest code that QEMU keeps. It is cut into eight pieces a processor, each with a
 * guard page at its end that keeps its last 2 MiB from being a huge page: pieces that are too
 * small are faulted in page by page (half of them, with 64 MiB for two processors; that cost
 * 1,900 faults a start). The default of 1 GiB grows to 370 MB resident. */
#define TCG_CACHE_MIB 256

uint64_t gb_qemu_memory(uint64_t bytes)
{
	return (bytes + MIB - 1) / MIB * MIB;
}

static bool is_incoming(const struct gb_qemu_plan *p)
{
	return p->mode == GB_QEMU_RESTORE || p->mode == GB_QEMU_REMAKE;
}

static int check_plan(const struct gb_qemu_plan *p, struct gb_err *err)
{
	const struct gb_vm_spec *vm = p->vm;

	if (vm->accel != GB_ACCEL_KVM && vm->accel != GB_ACCEL_TCG)
		return gb_fail(err, GB_E_UNSUPPORTED,
			"qemu is run with kvm or tcg, not with %s",
			gb_accel_name(vm->accel));
	if (vm->cpus < 1 || vm->cpus > GB_QEMU_CPUS_MAX)
		return gb_fail(err, GB_E_INVALID, "%u processors, 1 to %u are possible",
			vm->cpus, GB_QEMU_CPUS_MAX);
	if (vm->memory_bytes < GB_QEMU_MEMORY_MIN ||
		vm->memory_bytes > GB_QEMU_MEMORY_MAX)
		return gb_fail(err, GB_E_INVALID,
			"memory of %" PRIu64 " bytes, 64M to 1T are possible",
			vm->memory_bytes);
	if (!vm->disk)
		return gb_fail(err, GB_E_INVALID, "no disk was given");
	if (p->mode != GB_QEMU_COLD && !p->memory)
		return gb_fail(err, GB_E_INVALID, "no memory file was given");
	if (!is_incoming(p) && !vm->bundle)
		return gb_fail(err, GB_E_INVALID, "no boot bundle was given");
	return 0;
}

/* Paths travel as JSON, where a comma or an equals sign means nothing. Takes object over;
 * NULL (memory is out) leaves the failure in l. */
static void add_json(struct gb_strv *l, const char *option, json_t *object)
{
	gb_auto_free char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	json_decref(object);
	gb_strv_add(l, option);
	if (text)
		gb_strv_add(l, text);
	else if (!l->error)
		l->error = GB_E_NOMEM;
}

static void add_all(struct gb_strv *l, const char *const *words)
{
	for (; *words; words++)
		gb_strv_add(l, *words);
}

static void add_machine(struct gb_strv *l, const struct gb_qemu_plan *p)
{
	const struct gb_vm_spec *vm = p->vm;
	uint64_t memory = gb_qemu_memory(vm->memory_bytes);

	gb_strv_add(l, "-M");
	gb_strv_addf(l,
		"microvm,acpi=on,pit=on,pic=on,rtc=off,isa-serial=on,mem-merge=off,"
		"dump-guest-core=off%s",
		p->mode == GB_QEMU_COLD ? "" : ",memory-backend=mem");
	if (p->mode != GB_QEMU_COLD)
		add_json(l, "-object",
			json_pack("{s:s, s:s, s:s, s:I, s:b}", "qom-type",
				"memory-backend-file", "id", "mem", "mem-path", p->memory,
				"size", (json_int_t)memory, "share",
				p->mode != GB_QEMU_RESTORE));
	gb_strv_add(l, "-m");
	gb_strv_addf(l, "%" PRIu64 "M", memory / MIB);
	gb_strv_add(l, "-smp");
	gb_strv_addf(l, "%u", vm->cpus);
	gb_strv_add(l, "-accel");
	if (vm->accel == GB_ACCEL_KVM) {
		add_all(l, (const char *const[]){"kvm", "-cpu", "host", NULL});
	} else {
		gb_strv_addf(l, "tcg,thread=multi,tb-size=%d", TCG_CACHE_MIB);
		/* five levels of page tables only make the emulated walk longer */
		/* erms=off: told that "rep movsb" is fast, a kernel copies with it, and TCG runs
		 * it byte by byte: clearing memory took twice the time, a pipe three times */
		add_all(l, (const char *const[]){"-cpu", "max,la57=off,erms=off", NULL});
	}
}

/* An emulated processor runs no guest instruction speculatively, and what the host's
 * processor speculates on is code that QEMU wrote: the guest's thunks and barriers would
 * protect nothing and cost much. Its TSC is the host's, at a frequency that the guest
 * cannot calibrate against emulated timers; told the true one, it is a good clock. */
static void add_kernel(struct gb_strv *l, const struct gb_qemu_plan *p)
{
	bool tcg = p->vm->accel == GB_ACCEL_TCG;
	char tsc[64] = "";

	if (tcg && p->tsc_khz)
		snprintf(tsc, sizeof(tsc), " tsc_early_khz=%u tsc=reliable", p->tsc_khz);
	gb_strv_add(l, "-kernel");
	gb_strv_addf(l, "%s/kernel", p->vm->bundle);
	gb_strv_add(l, "-initrd");
	gb_strv_addf(l, "%s/initramfs", p->vm->bundle);
	gb_strv_add(l, "-append");
	gb_strv_addf(l,
		"console=ttyS0 quiet reboot=t panic=-1 pci=off random.trust_cpu=on%s%s",
		tcg ? " mitigations=off" : "", tsc);
}

static void add_disk(struct gb_strv *l, const struct gb_vm_spec *vm)
{
	add_json(l, "-blockdev",
		json_pack("{s:s, s:s, s:b, s:s, s:{s:s, s:s, s:s}}", "driver",
			vm->disk_format == GB_DISK_QCOW2 ? "qcow2" : "raw", "node-name",
			"root", "read-only", vm->disk_readonly, "discard", "unmap",
			"file", "driver", "file", "filename", vm->disk, "discard",
			"unmap"));
	/* A full host pauses the guest (room can be made); any other failed write is the
	 * guest's to see, as from a real disk. */
	gb_strv_add(l, "-device");
	gb_strv_add(l, "virtio-blk-device,drive=root,serial=" GB_VM_ROOT_SERIAL
		       ",werror=enospc,rerror=report");
}

static void add_port(struct gb_strv *l, const char *id, int fd, const char *name)
{
	gb_strv_add(l, "-chardev");
	gb_strv_addf(l, "socket,id=%s,fd=%d", id, fd);
	gb_strv_add(l, "-device");
	gb_strv_addf(l, "virtserialport,chardev=%s,name=%s", id, name);
}

/* A template and what is restored from it must list the same devices in the same order.
 */
static void add_devices(struct gb_strv *l, const struct gb_vm_spec *vm)
{
	add_all(l, (const char *const[]){"-global", "virtio-mmio.force-legacy=false",
			   "-device", "virtio-serial-device,max_ports=3", NULL});
	add_port(l, "ctl", GB_QEMU_FD_CTL, GB_VM_PORT_CTL);
	add_port(l, "share", GB_QEMU_FD_SHARE, GB_VM_PORT_SHARE);
	add_disk(l, vm);
	if (vm->net_fd >= 0) {
		gb_strv_add(l, "-netdev");
		gb_strv_addf(l, "stream,id=net,addr.type=fd,addr.str=%d", GB_QEMU_FD_NET);
		add_all(l, (const char *const[]){"-device",
				   "virtio-net-device,netdev=net,host_mtu=65520", NULL});
	} else {
		add_all(l, (const char *const[]){"-nic", "none", NULL});
	}
	gb_strv_add(l, "-chardev");
	gb_strv_addf(l, "socket,id=console,fd=%d", GB_QEMU_FD_CONSOLE);
	add_all(l, (const char *const[]){"-serial", "chardev:console", NULL});
}

int gb_qemu_args(const struct gb_qemu_plan *p, struct gb_strv *ret, struct gb_err *err)
{
	int r = check_plan(p, err);

	if (r < 0)
		return r;
	gb_strv_add(ret, p->binary);
	add_all(ret, (const char *const[]){"-nodefaults", "-no-user-config", "-display",
			     "none", "-no-reboot", "-sandbox",
			     "on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
			     "resourcecontrol=deny",
			     NULL});
	add_machine(ret, p);
	if (is_incoming(p))
		add_all(ret, (const char *const[]){"-incoming", "defer", NULL});
	else
		add_kernel(ret, p);
	gb_strv_add(ret, "-chardev");
	gb_strv_addf(ret, "socket,id=qmp,fd=%d", GB_QEMU_FD_QMP);
	add_all(ret, (const char *const[]){"-mon", "chardev=qmp,mode=control", NULL});
	add_devices(ret, p->vm);
	return gb_strv_check(ret, "qemu's command line", err);
}
