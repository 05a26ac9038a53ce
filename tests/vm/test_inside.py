"""What root inside may not: reach the agent's ports, the kernel, a network; and what it keeps."""
import json

import lib

PROBE = r"""
import ctypes, errno, json, os, socket, stat
libc = ctypes.CDLL(None, use_errno=True)
found = {}
def attempt(name, fn):
    try:
        fn()
        found[name] = "worked"
    except OSError as e:
        found[name] = errno.errorcode.get(e.errno, str(e.errno))
def call(fn, *args):
    if fn(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
def mount(source, target, kind, flags=0):
    call(libc.mount, source, target, kind, flags, None)
def device(name, mode, major, minor):
    path = "/tmp/node-" + name
    try:
        os.mknod(path, mode | 0o600, os.makedev(major, minor))
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    finally:
        if os.path.lexists(path):
            os.unlink(path)
os.makedirs("/tmp/mnt", exist_ok=True)
majors = {}
for line in open("/proc/devices"):
    parts = line.split()
    if len(parts) == 2 and parts[0].isdigit():
        majors.setdefault(parts[1], int(parts[0]))
attempt("mknod of a port", lambda: device("port", stat.S_IFCHR, majors.get("virtio-portsdev", 243), 1))
attempt("mknod of the disk", lambda: device("disk", stat.S_IFBLK, majors.get("virtblk", 254), 0))
attempt("mknod of memory", lambda: device("mem", stat.S_IFCHR, 1, 1))
attempt("mknod of null", lambda: device("null", stat.S_IFCHR, 1, 3))
attempt("fresh devtmpfs", lambda: mount(b"none", b"/tmp/mnt", b"devtmpfs"))
attempt("fresh sysfs", lambda: mount(b"none", b"/tmp/mnt", b"sysfs"))
attempt("/dev/mem", lambda: os.open("/dev/mem", os.O_RDONLY))
def masked(path):
    # fails as the kernel would when nothing is behind the name but a /dev/null laid over it
    if os.stat(path).st_rdev == os.makedev(1, 3):
        raise OSError(errno.ENXIO, "masked")
attempt("/proc/kcore", lambda: (masked("/proc/kcore"), os.open("/proc/kcore", os.O_RDONLY)))
attempt("/dev/kmsg write", lambda: os.write(os.open("/dev/kmsg", os.O_WRONLY), b"x"))
attempt("sysrq", lambda: masked("/proc/sysrq-trigger") or os.write(os.open("/proc/sysrq-trigger", os.O_WRONLY), b"h"))
attempt("init_module", lambda: call(libc.syscall, 175, b"x", 1, b""))
attempt("finit_module", lambda: call(libc.syscall, 313, os.open("/proc/self/exe", os.O_RDONLY), b"", 0))
attempt("kexec_load", lambda: call(libc.syscall, 246, 0, 0, None, 0))
attempt("iopl", lambda: call(libc.syscall, 172, 3))
attempt("reboot", lambda: call(libc.syscall, 169, 0xfee1dead, 672274793, 0, None))
attempt("ptrace of process 1", lambda: call(libc.ptrace, 16, 1, None, None))
attempt("setns into process 1", lambda: call(libc.setns, os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))
attempt("core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
attempt("modprobe path", lambda: os.open("/proc/sys/kernel/modprobe", os.O_WRONLY))
attempt("uevent helper", lambda: os.open("/sys/kernel/uevent_helper", os.O_WRONLY))
attempt("release_agent", lambda: os.open("/sys/fs/cgroup/release_agent", os.O_WRONLY))
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).bind(("eth0", 0)))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1)))
attempt("tcp out", lambda: socket.create_connection(("1.1.1.1", 80), 3))
# a fresh proc may be mounted (containers do): it must show no more than ours does
try:
    mount(b"none", b"/tmp/mnt", b"proc")
    found["fresh proc"] = open("/tmp/mnt/1/comm").read().strip()
    libc.umount2(b"/tmp/mnt", 2)
except OSError as e:
    found["fresh proc"] = errno.errorcode[e.errno]
try:
    found["files of process 1"] = [os.readlink("/proc/1/fd/" + f) for f in os.listdir("/proc/1/fd")]
except OSError as e:
    found["files of process 1"] = []
found["process 1"] = open("/proc/1/comm").read().strip()
found["processes"] = sorted({open("/proc/%s/comm" % p).read().strip()
                             for p in os.listdir("/proc") if p.isdigit()})
found["interfaces"] = sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else []
found["interfaces in proc"] = sorted(l.split(":")[0].strip() for l in open("/proc/net/dev") if ":" in l)
found["dev"] = sorted(os.listdir("/dev"))
found["caps"] = [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0]
found["mounts"] = open("/proc/mounts").read()
print(json.dumps(found))
"""

CAP_NAMES = ("chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap "
             "linux_immutable net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner "
             "sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice "
             "sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap "
             "mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf "
             "checkpoint_restore").split()


class Inside(lib.MachineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.found = json.loads(cls.home.ok("exec", "m", "--", "python3", "-c", PROBE))
        except BaseException:
            cls.broken = True
            cls.tearDownClass()
            raise
        for name in sorted(cls.found):
            if name != "mounts":
                print("# %s: %s" % (name, cls.found[name]))
        caps = int(cls.found["caps"], 16)
        print("# root keeps: " + " ".join(n for i, n in enumerate(CAP_NAMES) if caps >> i & 1))

    def test_no_network_device(self):
        self.assertIn(self.found["interfaces"], ([], ["lo"]))
        self.assertIn(self.found["interfaces in proc"], ([], ["lo"]))
        self.assertNotEqual(self.found["tcp out"], "worked")
        self.assertNotEqual(self.found["packet socket"], "worked")
        self.assertNotEqual(self.found["vsock"], "worked")

    def test_ports_and_devices_cannot_be_reached(self):
        for name in ("mknod of a port", "mknod of the disk", "mknod of memory", "fresh devtmpfs",
                     "/dev/mem", "/proc/kcore"):
            with self.subTest(name):
                self.assertNotEqual(self.found[name], "worked")
        self.assertEqual([d for d in self.found["dev"] if d.startswith(("vport", "vd", "hvc", "mem",
                                                                          "kmem", "port"))], [])

    def test_kernel_cannot_be_reached(self):
        for name in ("init_module", "finit_module", "kexec_load", "iopl", "reboot", "sysrq",
                     "core_pattern", "modprobe path", "uevent helper", "release_agent"):
            with self.subTest(name):
                self.assertNotEqual(self.found[name], "worked")

    def test_agent_is_not_to_be_seen(self):
        # process 1 in there is the reaper of the tools' own namespace, which holds no port
        self.assertEqual([p for p in self.found["processes"] if p not in (
            self.found["process 1"], "python3")], [])
        self.assertEqual([f for f in self.found["files of process 1"] if "port" in f], [])
        if self.found["fresh proc"] != "EPERM":
            self.assertEqual(self.found["fresh proc"], self.found["process 1"])
        # whatever process 1 is in there, it leads nowhere: killing it does not end the machine
        self.home.run("exec", "m", "--", "sh", "-c", "kill -9 1; kill -9 -1")
        self.assertEqual(self.guest_ok("echo up"), "up\n")
        self.assertNotEqual(self.found["ptrace of process 1"], "worked")

    def test_another_kernel_than_the_hosts(self):
        with open("/proc/sys/kernel/random/boot_id") as f:
            self.assertNotEqual(self.guest_ok("cat /proc/sys/kernel/random/boot_id"), f.read())

    def test_capabilities_that_root_lacks(self):
        caps = int(self.found["caps"], 16)
        kept = {n for i, n in enumerate(CAP_NAMES) if caps >> i & 1}
        self.assertFalse(kept & {"sys_module", "sys_rawio", "mknod", "sys_boot", "sys_time"}, kept)
        # what package managers and services need
        self.assertFalse({"chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid",
                          "setfcap", "net_bind_service", "sys_chroot"} - kept, kept)

    def test_out_of_the_cgroup_is_no_way_to_live_on(self):
        result = self.guest("setsid sh -c 'exec sleep 3333' & "
                            "for d in $(find /sys/fs/cgroup -name cgroup.procs); do "
                            "echo $! > $d 2>/dev/null; done; sleep 3333", "--timeout", "1")
        self.assertEqual(result.code, 124, str(result))
        self.assertEqual(self.guest("pgrep -f 'sleep [3]333'").code, 1)

    def test_fork_bomb_is_survived(self):
        result = self.guest("f() { f | f & }; f; sleep 1000", "--timeout", "5", timeout=120)
        self.assertNotEqual(result.code, 0)
        self.assertEqual(self.guest_ok("echo up", timeout=60), "up\n")


if __name__ == "__main__":
    lib.main()
