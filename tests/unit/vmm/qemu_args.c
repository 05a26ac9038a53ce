#include "../rows.h"
#include "vmm/qemu/args.h"

#include <string.h>

#define GIB (UINT64_C(1) << 30)

#define SANDBOX "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
#define MACHINE "microvm,acpi=on,pit=on,pic=on,rtc=off,isa-serial=on,mem-merge=off,dump-guest-core=off"

struct args_row {
	const char *name;
	enum gb_qemu_mode mode;
	struct gb_vm_spec vm;
	const char *memory;
	unsigned tsc_khz;
	int want;
	const char *with[6];    /* whole arguments, in this order */
	const char *without[6]; /* parts of no argument */
};

/* later fields override the usual ones */
#pragma GCC diagnostic ignored "-Woverride-init"
#define VM(...)                                                                          \
	{                                                                                \
		.accel = GB_ACCEL_TCG, .cpus = 2, .memory_bytes = GIB, .disk = "/d",     \
		.bundle = "/b", .ctl_fd = 10, .share_fd = 11, .net_fd = -1, __VA_ARGS__  \
	}

static const struct args_row rows[] = {
	{ "a cold boot under tcg", GB_QEMU_COLD, VM(), NULL, 2096013, 0,
		{ "-M", MACHINE, "tcg,thread=multi,tb-size=256", "/b/kernel", "/b/initramfs",
			"console=ttyS0 quiet reboot=t panic=-1 pci=off random.trust_cpu=on"
			" mitigations=off tsc_early_khz=2096013 tsc=reliable" },
		{ "memory-backend", "-incoming", "fd=8", "netdev" } },
	{ "tcg on a host without a counter", GB_QEMU_COLD, VM(), NULL, 0, 0,
		{ "console=ttyS0 quiet reboot=t panic=-1 pci=off random.trust_cpu=on mitigations=off" },
		{ "tsc" } },
	{ "kvm keeps the guest's mitigations and its own clock", GB_QEMU_COLD,
		VM(.accel = GB_ACCEL_KVM), NULL, 2096013, 0,
		{ "-accel", "kvm", "-cpu", "host",
			"console=ttyS0 quiet reboot=t panic=-1 pci=off random.trust_cpu=on" },
		{ "tsc", "mitigations", "tcg" } },
	{ "a template's memory is shared", GB_QEMU_MAKE, VM(), "/t/memory", 5, 0,
		{ MACHINE ",memory-backend=mem", "-object",
			"{\"qom-type\":\"memory-backend-file\",\"id\":\"mem\",\"mem-path\":\"/t/memory\","
			"\"size\":1073741824,\"share\":true}",
			"/b/kernel" },
		{ "-incoming" } },
	{ "a copy of a template's memory is shared again", GB_QEMU_REMAKE, VM(.bundle = NULL),
		"/t/memory", 5, 0,
		{ MACHINE ",memory-backend=mem", "-object",
			"{\"qom-type\":\"memory-backend-file\",\"id\":\"mem\",\"mem-path\":\"/t/memory\","
			"\"size\":1073741824,\"share\":true}",
			"-incoming", "defer" },
		{ "kernel", "initrd", "append", "tsc" } },
	{ "a restored machine's memory is private", GB_QEMU_RESTORE, VM(), "/t/memory", 5, 0,
		{ MACHINE ",memory-backend=mem", "-object",
			"{\"qom-type\":\"memory-backend-file\",\"id\":\"mem\",\"mem-path\":\"/t/memory\","
			"\"size\":1073741824,\"share\":false}",
			"-incoming", "defer" },
		{ "kernel", "initrd", "append", "tsc" } },
	{ "a raw disk", GB_QEMU_COLD, VM(), NULL, 0, 0,
		{ "-blockdev",
			"{\"driver\":\"raw\",\"node-name\":\"root\",\"read-only\":false,\"discard\":\"unmap\","
			"\"file\":{\"driver\":\"file\",\"filename\":\"/d\",\"discard\":\"unmap\"}}",
			"virtio-blk-device,drive=root,serial=gbroot,werror=enospc,rerror=report" },
		{ "locking", "qcow2" } },
	{ "a qcow2 disk with a path of special characters", GB_QEMU_COLD,
		VM(.disk = "/a,b=c \"d\"\n/\xc3\xbc", .disk_format = GB_DISK_QCOW2, .disk_readonly = true),
		NULL, 0, 0,
		{ "{\"driver\":\"qcow2\",\"node-name\":\"root\",\"read-only\":true,\"discard\":\"unmap\","
		  "\"file\":{\"driver\":\"file\",\"filename\":\"/a,b=c \\\"d\\\"\\n/\xc3\xbc\","
		  "\"discard\":\"unmap\"}}" },
		{ NULL } },
	{ "no network device without a descriptor", GB_QEMU_COLD, VM(), NULL, 0, 0,
		{ "-nodefaults", "-nic", "none" }, { "netdev", "virtio-net", "slirp" } },
	{ "a network device on a descriptor", GB_QEMU_COLD, VM(.net_fd = 12), NULL, 0, 0,
		{ "-netdev", "stream,id=net,addr.type=fd,addr.str=7", "-device",
			"virtio-net-device,netdev=net,host_mtu=65520" },
		{ "-nic" } },
	{ "two ports, on inherited descriptors", GB_QEMU_COLD, VM(), NULL, 0, 0,
		{ "socket,id=ctl,fd=4", "virtserialport,chardev=ctl,name=glovebox.ctl",
			"socket,id=share,fd=5", "virtserialport,chardev=share,name=glovebox.share",
			"socket,id=console,fd=6" },
		{ "unix", "path=" } },
	{ "the sandbox and the monitor", GB_QEMU_RESTORE, VM(), "/m", 0, 0,
		{ "-no-user-config", "-no-reboot", "-sandbox", SANDBOX, "socket,id=qmp,fd=3",
			"chardev=qmp,mode=control" },
		{ "server", "vnc", "usb" } },
	{ "memory is rounded up to a MiB", GB_QEMU_COLD, VM(.memory_bytes = GIB + 1), NULL, 0, 0,
		{ "-m", "1025M" }, { NULL } },
	{ "one processor", GB_QEMU_COLD, VM(.cpus = 1), NULL, 0, 0, { "-smp", "1" }, { NULL } },
	{ "64 processors", GB_QEMU_COLD, VM(.cpus = 64), NULL, 0, 0, { "-smp", "64" }, { NULL } },
	{ "no processor", GB_QEMU_COLD, VM(.cpus = 0), NULL, 0, GB_E_INVALID, { NULL }, { NULL } },
	{ "65 processors", GB_QEMU_COLD, VM(.cpus = 65), NULL, 0, GB_E_INVALID, { NULL }, { NULL } },
	{ "64 MiB", GB_QEMU_COLD, VM(.memory_bytes = 64 << 20), NULL, 0, 0, { "-m", "64M" }, { NULL } },
	{ "under 64 MiB", GB_QEMU_COLD, VM(.memory_bytes = (64 << 20) - 1), NULL, 0, GB_E_INVALID,
		{ NULL }, { NULL } },
	{ "1 TiB", GB_QEMU_COLD, VM(.memory_bytes = GIB * 1024), NULL, 0, 0, { "1048576M" }, { NULL } },
	{ "over 1 TiB", GB_QEMU_COLD, VM(.memory_bytes = GIB * 1024 + 1), NULL, 0, GB_E_INVALID,
		{ NULL }, { NULL } },
	{ "no disk", GB_QEMU_COLD, VM(.disk = NULL), NULL, 0, GB_E_INVALID, { NULL }, { NULL } },
	{ "no bundle", GB_QEMU_COLD, VM(.bundle = NULL), NULL, 0, GB_E_INVALID, { NULL }, { NULL } },
	{ "a restored machine needs none", GB_QEMU_RESTORE, VM(.bundle = NULL), "/m", 0, 0, { "defer" },
		{ NULL } },
	{ "no memory file", GB_QEMU_RESTORE, VM(), NULL, 0, GB_E_INVALID, { NULL }, { NULL } },
	{ "hvf is not qemu's here", GB_QEMU_COLD, VM(.accel = GB_ACCEL_HVF), NULL, 0,
		GB_E_UNSUPPORTED, { NULL }, { NULL } },
	{ "an accelerator that was not resolved", GB_QEMU_COLD, VM(.accel = GB_ACCEL_AUTO), NULL, 0,
		GB_E_UNSUPPORTED, { NULL }, { NULL } },
};

static const char *missing(const struct gb_strv *l, const char *const *with)
{
	size_t at = 0;

	for (; *with; with++) {
		while (at < l->n && strcmp(l->v[at], *with) != 0)
			at++;
		if (at == l->n)
			return *with;
	}
	return NULL;
}

static const char *intruder(const struct gb_strv *l, const char *const *without)
{
	for (; *without; without++)
		for (size_t i = 0; i < l->n; i++)
			if (strstr(l->v[i], *without))
				return l->v[i];
	return NULL;
}

static void test_row(void **state)
{
	const struct args_row *row = *state;
	const char *with[7] = { 0 };
	const char *without[7] = { 0 };
	struct gb_qemu_plan plan = { .mode = row->mode, .vm = &row->vm, .binary = "qemu",
		.memory = row->memory, .tsc_khz = row->tsc_khz };
	struct gb_strv argv = { 0 };
	struct gb_err err = { 0 };
	int r = gb_qemu_args(&plan, &argv, &err);
	const char *lost = NULL;
	const char *extra = NULL;

	memcpy(with, row->with, sizeof(row->with));
	memcpy(without, row->without, sizeof(row->without));
	if (r == 0) {
		lost = missing(&argv, with);
		extra = intruder(&argv, without);
		if (lost || extra)
			for (size_t i = 0; i < argv.n; i++)
				print_error("  %s\n", argv.v[i]);
	}
	if (lost)
		fail_msg("not there, or not in order: %s", lost);
	if (extra)
		fail_msg("must not be there: %s", extra);
	gb_strv_done(&argv);
	assert_int_equal(r, row->want);
	assert_int_equal(err.code, row->want);
}

struct incoming_row {
	const char *name;
	enum gb_qemu_mode mode;
};

static const struct incoming_row incoming[] = {
	{ "make and restore list the same devices", GB_QEMU_RESTORE },
	{ "make and remake list the same devices", GB_QEMU_REMAKE },
};

/* Devices in another order are other devices to a template's state. */
static void test_same_devices(void **state)
{
	struct gb_vm_spec vm = VM(.net_fd = 3);
	struct gb_qemu_plan make = { .mode = GB_QEMU_MAKE, .vm = &vm, .binary = "q", .memory = "/m" };
	struct gb_qemu_plan restore = make;
	struct gb_strv a = { 0 };
	struct gb_strv b = { 0 };
	size_t shared = 0;

	restore.mode = ((const struct incoming_row *)*state)->mode;
	assert_int_equal(gb_qemu_args(&make, &a, NULL), 0);
	assert_int_equal(gb_qemu_args(&restore, &b, NULL), 0);
	while (shared < a.n && shared < b.n &&
		strcmp(a.v[a.n - 1 - shared], b.v[b.n - 1 - shared]) == 0)
		shared++;
	assert_string_equal(a.v[a.n - shared], "-chardev");
	assert_string_equal(a.v[a.n - shared + 1], "socket,id=qmp,fd=3");
	gb_strv_done(&a);
	gb_strv_done(&b);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, rows, test_row);
	rows_add(&l, incoming, test_same_devices);
	return rows_run("vmm qemu args", &l);
}
