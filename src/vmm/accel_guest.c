/* The bare guest that tells a KVM which can run a kernel from one that cannot.
 *
 * Some hosts have a /dev/kvm that opens and creates machines, runs real mode and "hlt",
 * and then fails on the first instruction that it would have to emulate in long mode. So
 * the guest starts in long mode, with tables built here, and does four things that every
 * kernel does; after each it writes the stage's number to a port: lock cmpxchg16b, int3
 * through its own IDT, xsave and xrstor, and a loop of a million steps, which a KVM that
 * emulates everything does not finish within the time limit.
 *
 * Guest memory (identity mapped by one 2 MiB page):
 *   1000 PML4   2000 PDPT   3000 PD   4000 GDT   5000 IDT   6000 xsave area
 *   7000 operand of cmpxchg16b   8000 code   9000..a000 stack */
#include "vmm/accel_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int real_open(const char *path)
{
	return open(path, O_RDWR | O_CLOEXEC);
}

static int real_ioctl(int fd, unsigned long request, unsigned long arg)
{
	/* an int in musl, an unsigned long in glibc: 32 bits are in use */
	return ioctl(fd, (unsigned)request, arg);
}

static void *real_map(size_t len, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

const struct gb_kvm_ops gb_kvm_ops_real = {real_open, real_ioctl, real_map};

static void failed(struct gb_kvm_report *r, enum gb_kvm_outcome outcome, int detail,
	const char *what)
{
	r->outcome = outcome;
	r->detail = detail;
	snprintf(r->what, sizeof(r->what), "%s", what);
}

#if defined(__x86_64__)

#include <linux/kvm.h>

#define GUEST_MEMORY 0x10000
#define GUEST_PML4   0x1000
#define GUEST_PDPT   0x2000
#define GUEST_PD     0x3000
#define GUEST_GDT    0x4000
#define GUEST_IDT    0x5000
#define GUEST_DATA   0x7000
#define GUEST_CODE   0x8000
#define GUEST_STACK  0xa000
#define GUEST_PORT   0x10
#define CPUID_MAX    256

#define SELECTOR_CODE 0x08
#define SELECTOR_DATA 0x10

/* r9: whether the processor has xsave. r8: how often the int3 handler ran. */
extern const char gb_kvm_code[];
extern const char gb_kvm_handler[];
extern const char gb_kvm_code_end[];
__asm__(".pushsection .rodata\n"
	".globl gb_kvm_code, gb_kvm_handler, gb_kvm_code_end\n"
	".hidden gb_kvm_code, gb_kvm_handler, gb_kvm_code_end\n"
	"gb_kvm_code:\n"
	"	mov $1, %eax\n"
	"	mov $2, %edx\n"
	"	mov $3, %ebx\n"
	"	mov $4, %ecx\n"
	"	lock cmpxchg16b 0x7000\n"
	"	jnz 9f\n"
	"	cmpq $3, 0x7000\n"
	"	jne 9f\n"
	"	cmpq $4, 0x7008\n"
	"	jne 9f\n"
	"	mov $1, %al\n"
	"	out %al, $0x10\n"
	"	xor %r8d, %r8d\n"
	"	int3\n"
	"	cmp $1, %r8d\n"
	"	jne 9f\n"
	"	mov $2, %al\n"
	"	out %al, $0x10\n"
	"	test %r9d, %r9d\n"
	"	jz 2f\n"
	"	xor %edx, %edx\n"
	"	mov $3, %eax\n"
	"	mov $0x1234567, %esi\n"
	"	movd %esi, %xmm0\n"
	"	xsave 0x6000\n"
	"	pxor %xmm0, %xmm0\n"
	"	xrstor 0x6000\n"
	"	movd %xmm0, %edi\n"
	"	cmp %esi, %edi\n"
	"	jne 9f\n"
	"2:	mov $3, %al\n"
	"	out %al, $0x10\n"
	"	mov $1000000, %ecx\n"
	"3:	dec %ecx\n"
	"	jnz 3b\n"
	"	mov $4, %al\n"
	"	out %al, $0x10\n"
	"9:	mov $0xff, %al\n"
	"	out %al, $0x10\n"
	"	hlt\n"
	"gb_kvm_handler:\n"
	"	inc %r8d\n"
	"	iretq\n"
	"gb_kvm_code_end:\n"
	".popsection\n");

static void put64(uint8_t *memory, size_t at, uint64_t value)
{
	memcpy(memory + at, &value, sizeof(value));
}

static void fill_memory(uint8_t *memory)
{
	uint64_t handler = GUEST_CODE + (uint64_t)(gb_kvm_handler - gb_kvm_code);
	/* 64-bit interrupt gate, present */
	uint64_t gate = (handler & 0xffff) | SELECTOR_CODE << 16 |
			UINT64_C(0x8e00) << 32 | (handler & 0xffff0000) << 32;

	put64(memory, GUEST_PML4, GUEST_PDPT | 3);
	put64(memory, GUEST_PDPT, GUEST_PD | 3);
	put64(memory, GUEST_PD, 0x83); /* 2 MiB page at 0: present, writable, large */
	put64(memory, GUEST_GDT + SELECTOR_CODE, UINT64_C(0x00af9b000000ffff));
	put64(memory, GUEST_GDT + SELECTOR_DATA, UINT64_C(0x00cf93000000ffff));
	put64(memory, GUEST_IDT + 3 * 16, gate);
	put64(memory, GUEST_DATA, 1);
	put64(memory, GUEST_DATA + 8, 2);
	memcpy(memory + GUEST_CODE, gb_kvm_code, (size_t)(gb_kvm_code_end - gb_kvm_code));
}

struct guest {
	const struct gb_kvm_ops *ops;
	struct gb_kvm_report *report;
	int kvm;
	int vm;
	int vcpu;
	bool xsave;
	size_t run_size;
	struct kvm_run *run;
};

/* The call's result, or -1 after it was noted as the reason. */
static int call(struct guest *g, int fd, const char *name, unsigned long request,
	unsigned long arg)
{
	int r = g->ops->ioctl(fd, request, arg);

	if (r < 0)
		failed(g->report, GB_KVM_CALL_FAILED, errno, name);
	return r;
}
#define CALL(g, fd, request, arg) call(g, fd, #request, request, (unsigned long)(arg))

static int make_vm(struct guest *g)
{
	struct kvm_userspace_memory_region region = {.memory_size = GUEST_MEMORY};
	uint8_t *memory = g->ops->map(GUEST_MEMORY, -1);
	int size;

	if (!memory) {
		failed(g->report, GB_KVM_CALL_FAILED, ENOMEM, "mmap");
		return -1;
	}
	fill_memory(memory);
	region.userspace_addr = (uintptr_t)memory;
	g->vm = CALL(g, g->kvm, KVM_CREATE_VM, 0);
	/* older Intel processors need three pages of guest addresses for real mode */
	if (g->vm < 0 || CALL(g, g->vm, KVM_SET_TSS_ADDR, 0xfffbd000) < 0 ||
		CALL(g, g->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return -1;
	g->vcpu = CALL(g, g->vm, KVM_CREATE_VCPU, 0);
	size = g->vcpu < 0 ? -1 : CALL(g, g->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (size < 0)
		return -1;
	g->run_size = (size_t)size;
	g->run = g->run_size < sizeof(*g->run) ? NULL : g->ops->map(g->run_size, g->vcpu);
	if (g->run)
		return 0;
	failed(g->report, GB_KVM_CALL_FAILED, errno, "mmap of the processor");
	return -1;
}

/* The guest gets the processor that KVM offers: without it, long mode is refused. */
static int set_cpuid(struct guest *g)
{
	uint64_t space[(sizeof(struct kvm_cpuid2) +
			       CPUID_MAX * sizeof(struct kvm_cpuid_entry2)) /
		       sizeof(uint64_t)] = {0};
	struct kvm_cpuid2 *cpuid = (struct kvm_cpuid2 *)space;

	cpuid->nent = CPUID_MAX;
	if (CALL(g, g->kvm, KVM_GET_SUPPORTED_CPUID, cpuid) < 0)
		return -1;
	for (uint32_t i = 0; i < cpuid->nent && i < CPUID_MAX; i++)
		if (cpuid->entries[i].function == 1)
			g->xsave = cpuid->entries[i].ecx & 1U << 26;
	return CALL(g, g->vcpu, KVM_SET_CPUID2, cpuid);
}

/* Set from here because an emulated outer processor may not trap the guest's own xsetbv,
 * and its value is lost at the next exit then. */
static int set_xcr0(struct guest *g)
{
	struct kvm_xcrs xcrs = {.nr_xcrs = 1, .xcrs = {{.xcr = 0, .value = 3}}};

	return g->xsave ? CALL(g, g->vcpu, KVM_SET_XCRS, &xcrs) : 0;
}

static int set_registers(struct guest *g)
{
	struct kvm_sregs s;
	struct kvm_regs regs = {.rip = GUEST_CODE, .rsp = GUEST_STACK, .rflags = 2};
	struct kvm_segment data = {.limit = 0xffffffff,
		.selector = SELECTOR_DATA,
		.type = 3,
		.present = 1,
		.db = 1,
		.s = 1,
		.g = 1};
	struct kvm_segment code = {.limit = 0xffffffff,
		.selector = SELECTOR_CODE,
		.type = 11,
		.present = 1,
		.l = 1,
		.s = 1,
		.g = 1};

	memset(&s, 0, sizeof(s));
	if (CALL(g, g->vcpu, KVM_GET_SREGS, &s) < 0)
		return -1;
	s.cs = code;
	s.ds = s.es = s.fs = s.gs = s.ss = data;
	s.gdt.base = GUEST_GDT;
	s.gdt.limit = 3 * 8 - 1;
	s.idt.base = GUEST_IDT;
	s.idt.limit = 32 * 16 - 1;
	s.cr3 = GUEST_PML4;
	s.cr0 = 0x80010033;			   /* PG, WP, NE, ET, MP, PE */
	s.cr4 = 0x620 | (g->xsave ? 1U << 18 : 0); /* OSXMMEXCPT, OSFXSR, PAE; OSXSAVE */
	s.efer = 0x500;				   /* LMA, LME */
	regs.r9 = g->xsave;
	if (CALL(g, g->vcpu, KVM_SET_SREGS, &s) < 0 || set_xcr0(g) < 0)
		return -1;
	return CALL(g, g->vcpu, KVM_SET_REGS, &regs);
}

/* The byte that the guest wrote to our port; -1 after any other exit was noted. */
static int next_byte(struct guest *g)
{
	int r;

	do {
		r = g->ops->ioctl(g->vcpu, KVM_RUN, 0);
	} while (r < 0 && (errno == EINTR || errno == EAGAIN));
	if (r < 0) {
		failed(g->report, GB_KVM_CALL_FAILED, errno, "KVM_RUN");
		return -1;
	}
	if (g->run->exit_reason != KVM_EXIT_IO || g->run->io.port != GUEST_PORT ||
		g->run->io.data_offset >= g->run_size) {
		failed(g->report, GB_KVM_BAD_EXIT, (int)g->run->exit_reason,
			g->run->exit_reason == KVM_EXIT_INTERNAL_ERROR ? "internal error"
			: g->run->exit_reason == KVM_EXIT_SHUTDOWN     ? "triple fault"
			: g->run->exit_reason == KVM_EXIT_FAIL_ENTRY   ? "entry refused"
								     : "unexpected exit");
		return -1;
	}
	return ((const uint8_t *)g->run)[g->run->io.data_offset];
}

static void run_stages(struct guest *g)
{
	for (int stage = GB_KVM_CMPXCHG16B; stage < GB_KVM_STAGES; stage++) {
		int byte;

		g->report->stage = (enum gb_kvm_stage)stage;
		byte = next_byte(g);
		if (byte < 0)
			return;
		if (byte != stage) {
			failed(g->report, GB_KVM_WRONG, byte, "wrong result");
			return;
		}
	}
	g->report->outcome = GB_KVM_OK;
}

void gb_kvm_run_guest(
	const struct gb_kvm_ops *ops, const char *device, struct gb_kvm_report *ret)
{
	struct guest g = {.ops = ops, .report = ret, .kvm = -1, .vm = -1, .vcpu = -1};
	int version;

	memset(ret, 0, sizeof(*ret));
	g.kvm = ops->open(device);
	if (g.kvm < 0) {
		failed(ret, GB_KVM_CALL_FAILED, errno, "open");
		return;
	}
	version = CALL(&g, g.kvm, KVM_GET_API_VERSION, 0);
	if (version >= 0 && version != KVM_API_VERSION)
		failed(ret, GB_KVM_WRONG, version, "KVM_GET_API_VERSION");
	if (version != KVM_API_VERSION)
		return;
	if (make_vm(&g) == 0 && set_cpuid(&g) >= 0 && set_registers(&g) >= 0)
		run_stages(&g);
	/* the descriptors end with the child */
}

#else

void gb_kvm_run_guest(const struct gb_kvm_ops *ops GB_UNUSED,
	const char *device GB_UNUSED, struct gb_kvm_report *ret)
{
	memset(ret, 0, sizeof(*ret));
	failed(ret, GB_KVM_CALL_FAILED, ENOSYS, "probing kvm on this kind of processor");
}

#endif
