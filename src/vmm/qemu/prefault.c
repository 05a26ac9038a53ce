/* glovebox-prefault.so: loaded into QEMU, takes page faults out of its start.
 *
 * QEMU and the fifty libraries that come with it touch some 7,000 pages until a restored
 * guest has run its first command: relocations, its heap, translated code, the guest's
 * memory. On bare metal that is nothing. On a host that is itself a virtual machine with
 * shadowed page tables a fault takes 20 to 40 microseconds and a copy on write of a page
 * that was read before 140, and most of a start was that. One madvise() for a range costs
 * a twentieth for each page.
 *
 * It is loaded twice. As an auditor (LD_AUDIT) the dynamic loader calls it for each
 * object that it has mapped and not yet relocated; as a preloaded library (LD_PRELOAD) it
 * stands in front of two functions of the C library. It is no part of any protection, and
 * whatever fails in it is passed by: QEMU then takes its faults.
 *
 * An auditor with a library below it gets a second copy of that, which costs what is to
 * be saved. So there is none here, and system calls are made by hand. */
#include "vmm/qemu/prefault.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE	   UINT64_C(4096)
#define HEAP_BYTES (UINT64_C(8) << 20)
#define GUEST_MIN  (UINT64_C(64) << 20)

#define GB_ARRAY(a) (sizeof(a) / sizeof((a)[0]))

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define EXPORT __attribute__((visibility("default")))

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}

static void populate(uint64_t from, uint64_t to, long how)
{
	from &= ~(PAGE - 1);
	to = (to + PAGE - 1) & ~(PAGE - 1);
	if (to > from)
		call(SYS_madvise, (long)from, (long)(to - from), how, 0, 0, 0);
}

/* The auditor's part. */

EXPORT unsigned int la_version(unsigned int version)
{
	return version;
}

/* Code is mapped around each fault anyway; data that is relocated is copied page by page.
 */
EXPORT unsigned int la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie)
{
	const Elf64_Ehdr *head = (const void *)map->l_addr;
	const Elf64_Phdr *part;

	(void)id;
	(void)cookie;
	/* 0: an executable at a fixed address, whose header is elsewhere */
	if (!head || head->e_ident[0] != ELFMAG0 || head->e_ident[1] != ELFMAG1)
		return 0;
	part = (const void *)(map->l_addr + head->e_phoff);
	for (unsigned i = 0; i < head->e_phnum; i++) {
		uint64_t at = map->l_addr + part[i].p_vaddr;

		if (part[i].p_type != PT_LOAD)
			continue;
		populate(at, at + part[i].p_memsz,
			part[i].p_flags & PF_W ? MADV_POPULATE_WRITE
					       : MADV_POPULATE_READ);
	}
	return 0;
}

/* The preloaded part. */

/* QEMU calls it whenever its RCU thread has nothing to do: what it gives back is faulted
 * in again a moment later, and huge pages are broken up for it. */
EXPORT int malloc_trim(size_t pad)
{
	(void)pad;
	return 0;
}

#pragma weak malloc
#pragma weak __errno_location

static int hot_fd = -1;

static int small_number(const char *text)
{
	int n = 0;

	for (; *text >= '0' && *text <= '9' && n < 1000; text++)
		n = n * 10 + (*text - '0');
	return *text ? -1 : n;
}

static int find_hot_fd(char *const *env)
{
	static const char name[] = GB_HOT_VARIABLE "=";

	for (; env && *env; env++) {
		size_t n = 0;

		while (n < sizeof(name) - 1 && (*env)[n] == name[n])
			n++;
		if (n == sizeof(name) - 1)
			return small_number(*env + n);
	}
	return -1;
}

/* The heap: the tunables of vm.c make its first piece large. */
__attribute__((constructor)) static void prepare(int argc, char **argv, char **env)
{
	uint64_t from = malloc ? (uint64_t)(uintptr_t)malloc(1) : 0;
	uint64_t to = (uint64_t)call(SYS_brk, 0, 0, 0, 0, 0, 0);

	(void)argc;
	(void)argv;
	hot_fd = find_hot_fd(env);
	if (from && from < to)
		populate(from, from + HEAP_BYTES < to ? from + HEAP_BYTES : to,
			MADV_POPULATE_WRITE);
}

static void populate_hot(uint64_t base, uint64_t length)
{
	struct gb_hot_range ranges[64];
	long n;

	for (unsigned done = 0; done < GB_HOT_RANGES_MAX; done += GB_ARRAY(ranges)) {
		n = call(SYS_pread64, hot_fd, (long)ranges, sizeof(ranges),
			(long)(done * sizeof(ranges[0])), 0, 0);
		for (long i = 0; i < n / (long)sizeof(ranges[0]); i++) {
			uint64_t first = (uint64_t)ranges[i].first * GB_HOT_PAGE;
			uint64_t bytes = (uint64_t)ranges[i].count * GB_HOT_PAGE;

			if (first >= length || bytes > length - first)
				continue;
			populate(base + first, base + first + bytes,
				ranges[i].write ? MADV_POPULATE_WRITE
						: MADV_POPULATE_READ);
		}
		if (n < (long)sizeof(ranges))
			return;
	}
}

/* QEMU maps the guest's memory once, over a place that it has reserved. */
EXPORT void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	long r = call(SYS_mmap, (long)addr, (long)length, prot, flags, fd, offset);

	if (r < 0 && r > -4096) {
		if (__errno_location)
			*__errno_location() = (int)-r;
		return MAP_FAILED;
	}
	if (hot_fd >= 0 && fd >= 0 && length >= GUEST_MIN && (flags & MAP_FIXED) &&
		(prot & PROT_WRITE)) {
		populate_hot((uint64_t)r, length);
		hot_fd = -1;
	}
	return (void *)r;
}
