/* What root keeps among the tools, and what it lacks.
 *
 * The border: a tool that is root must not reach the agent (its memory, descriptors, ports)
 * nor the kernel by the side. Everything that package managers, build tools, debuggers and
 * ordinary services use stays. The bounding set is cut once, in the agent, before it starts
 * any of them; what the agent itself holds is given up in each child before it executes, and
 * the agent is not dumpable, so that a child cannot be traced before it has executed. */
#include "guest/world.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct cap_rule {
	unsigned cap;
	bool keep;
};

/* One row a capability: number, kept or not, why. */
#define CAPS(X)                                                                          \
	X(CHOWN, true, "package managers give files away")                               \
	X(DAC_OVERRIDE, true, "root reads and writes every file of the image")           \
	X(DAC_READ_SEARCH, false, "open_by_handle_at would open files outside our mounts") \
	X(FOWNER, true, "chmod, utimes on others' files: dpkg, tar")                     \
	X(FSETID, true, "setgid bits survive chown: dpkg, tar")                          \
	X(KILL, true, "only what is in the tools' pid namespace can be named")           \
	X(SETGID, true, "su, sudo, services that drop root")                             \
	X(SETUID, true, "as setgid")                                                     \
	X(SETPCAP, true, "dropping more; cannot add to the bounding set")                \
	X(LINUX_IMMUTABLE, true, "chattr on files of the image")                         \
	X(NET_BIND_SERVICE, true, "services on ports below 1024")                        \
	X(NET_BROADCAST, false, "unused by the kernel")                                  \
	X(NET_ADMIN, true, "the guest's own network stack; the policy is the host's")    \
	X(NET_RAW, true, "ping; the policy is the host's")                               \
	X(IPC_LOCK, true, "mlock: databases, gpg")                                       \
	X(IPC_OWNER, true, "System V IPC of other users")                                \
	X(SYS_MODULE, false, "kernel code; loading is off for good as well")             \
	X(SYS_RAWIO, false, "/dev/mem, I/O ports: the agent's memory")                   \
	X(SYS_CHROOT, true, "chroot: builds, debootstrap, sshd")                         \
	X(SYS_PTRACE, false, "traces processes that have more capabilities than the "    \
			     "tracer: a child of ours before it gave up its own; "        \
			     "debugging one's own processes needs no capability")        \
	X(SYS_PACCT, false, "writes an accounting file on the kernel's behalf")          \
	X(SYS_ADMIN, false, "mount, setns, and much else of the kernel")                 \
	X(SYS_BOOT, false, "reboot, kexec")                                              \
	X(SYS_NICE, true, "nice below 0, affinity of other users")                       \
	X(SYS_RESOURCE, false, "would let oom_score_adj go down to the agent's; limits are " \
			       "high already")                                           \
	X(SYS_TIME, false, "the clock is the host's")                                    \
	X(SYS_TTY_CONFIG, false, "vhangup, virtual consoles: there are none")            \
	X(MKNOD, false, "device nodes: our ports, the disk, /dev/mem")                   \
	X(LEASE, true, "file leases: Samba")                                             \
	X(AUDIT_WRITE, true, "login, sshd, su write records")                            \
	X(AUDIT_CONTROL, false, "the audit rules of the kernel")                         \
	X(SETFCAP, true, "packages with file capabilities, user namespaces with root")   \
	X(MAC_OVERRIDE, false, "no security module is configured")                       \
	X(MAC_ADMIN, false, "as above")                                                  \
	X(SYSLOG, false, "the kernel's log, kernel addresses")                           \
	X(WAKE_ALARM, false, "wakes a machine that sleeps; it never does")               \
	X(BLOCK_SUSPEND, false, "as above")                                              \
	X(AUDIT_READ, false, "the audit log of the kernel")                              \
	X(PERFMON, false, "kernel profiling reads what others do")                       \
	X(BPF, false, "programs in the kernel")                                          \
	X(CHECKPOINT_RESTORE, false, "choosing pids, other processes' memory maps")

static const struct cap_rule cap_rules[] = {
#define X(name, keep, why) { CAP_##name, keep },
	CAPS(X)
#undef X
};
_Static_assert(GB_ARRAY_SIZE(cap_rules) == CAP_LAST_CAP + 1, "a row for each capability");

uint64_t gb_caps_kept(void)
{
	uint64_t kept = 0;

	for (size_t i = 0; i < GB_ARRAY_SIZE(cap_rules); i++)
		if (cap_rules[i].keep)
			kept |= UINT64_C(1) << cap_rules[i].cap;
	return kept;
}

int gb_caps_bound(struct gb_err *err)
{
	uint64_t kept = gb_caps_kept();

	/* a kernel newer than this table may have more of them: up to the first that it
	 * does not know */
	for (unsigned long cap = 0; cap < 64; cap++) {
		if (kept & (UINT64_C(1) << cap))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL)
			return 0;
		return gb_fail_sys(err, errno, "cannot drop capability %lu", cap);
	}
	return 0;
}

int gb_caps_set(uint64_t keep, struct gb_err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
		{ .effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32) },
	};

	if (syscall(SYS_capset, &head, data) < 0)
		return gb_fail_sys(err, errno, "cannot give up capabilities");
	return 0;
}
