"""What becomes of machines: states, changes, crashes, damaged files, full memory and disks."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import lib


def kill(pid):
    os.kill(pid, signal.SIGKILL)


class States(lib.MachineTest):
    machine = None

    def new(self, name, *options):
        self.home.ok("create", name, *options)
        self.addCleanup(self.home.run, "rm", "-f", name)

    def start(self, name, **more):
        return self.home.ok("start", name, timeout=lib.START_S, **more)

    def works(self, name):
        self.assertEqual(self.home.ok("exec", name, "--", "echo", "up"), "up\n")

    def test_states_are_what_is_true(self):
        self.new("a")
        self.assertEqual(self.home.state("a"), "created")
        self.start("a")
        self.assertEqual(self.home.state("a"), "running")
        self.start("a")
        self.works("a")
        self.home.ok("stop", "a")
        self.assertEqual(self.home.state("a"), "stopped")
        self.home.ok("stop", "a")
        self.start("a")
        kill(self.home.inspect("a")["supervisor_pid"])
        lib.wait_for("crashed", lambda: self.home.state("a") == "crashed", 10)
        lib.wait_for("nothing left", lambda: not self.home.pids(), 10)
        self.start("a")
        self.works("a")

    def test_rm_refuses_a_running_machine(self):
        self.new("b")
        self.start("b")
        result = self.home.run("rm", "b")
        self.assertNotEqual(result.code, 0)
        self.assertIn("stop", result.error)
        self.works("b")
        self.home.ok("rm", "-f", "b")
        self.assertIsNone(self.home.state("b"))
        lib.wait_for("its processes to be gone", lambda: not self.home.pids(), 5)

    def test_names(self):
        self.new("taken")
        result = self.home.run("create", "taken")
        self.assertNotEqual(result.code, 0)
        self.assertIn("taken", result.error)
        for bad in ("../x", "a/b", ".hidden", "", "x" * 64, "a\nb"):
            with self.subTest(bad):
                self.assertNotEqual(self.home.run("create", "--", bad).code, 0)
        self.assertEqual(self.home.ok("ls", "-q"), "taken\n")
        result = self.home.run("start", "tken")
        self.assertNotEqual(result.code, 0)
        self.assertIn("taken", result.error)

    def test_exec_in_a_stopped_machine_says_how_to_start_it(self):
        self.new("c")
        result = self.home.run("exec", "c", "--", "true")
        self.assertEqual(result.code, 125)
        self.assertIn("start", result.error)
        self.assertEqual(len(result.error.strip().splitlines()), 1)

    def test_two_starts_at_once(self):
        self.new("d")
        for _ in range(3):
            both = [self.home.popen("start", "d", stdin=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE) for _ in range(3)]
            for p in both:
                _, err = p.communicate(timeout=lib.START_S)
                self.assertEqual(p.returncode, 0, err)
            self.works("d")
            supervisors = [c for c in self.home.pids().values() if "glovebox-supervisor" in c]
            self.assertEqual(len(supervisors), 1, supervisors)
            self.home.ok("stop", "d")

    def test_set(self):
        self.new("e", "--disk", "2G")
        self.start("e")
        result = self.home.run("set", "e", "--disk", "3G")
        self.assertNotEqual(result.code, 0, "a running machine was changed")
        self.assertIn("stop", result.error)
        self.home.ok("exec", "e", "--", "sh", "-c", "echo kept > /root/f; sync")
        self.home.ok("stop", "e")
        result = self.home.run("set", "e", "--disk", "1G")
        self.assertNotEqual(result.code, 0, "a disk was shrunk")
        self.home.ok("set", "e", "--disk", "3G", "--cpus", "1", "--memory", "400M")
        self.start("e")
        size = int(self.home.ok("exec", "e", "--", "df", "--output=size", "-BM", "/")
                   .split()[1].rstrip("M"))
        self.assertGreater(size, 2700)
        self.assertEqual(self.home.ok("exec", "e", "--", "nproc"), "1\n")
        memory = int(self.home.ok("exec", "e", "--", "sh", "-c",
                                  "sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"))
        self.assertTrue(300 << 10 < memory < 401 << 10, memory)
        self.assertEqual(self.home.ok("exec", "e", "--", "cat", "/root/f"), "kept\n")

    # https://github.com/chaitin/agent-compose/pull/163 ,
    # https://github.com/smol-machines/smolvm/issues/155
    def test_what_stays_and_what_does_not(self):
        os.makedirs(os.path.join(self.project, "inner/deep"), exist_ok=True)
        self.new("f", "-v", os.path.join(self.project, "inner") + ":/data")
        self.start("f")
        self.home.ok("exec", "f", "--", "sh", "-c", "echo x > /run/x; echo x > /root/x; "
                     "echo x > /work/from-guest; echo x > /data/from-guest")
        for _ in range(5):
            self.home.ok("stop", "f")
            self.start("f")
        self.assertEqual(self.home.ok("exec", "f", "--", "sh", "-c", "cat /root/x; ls /run/x"
                                      " 2>/dev/null; grep -c ' /work ' /proc/mounts; "
                                      "grep -c ' /data ' /proc/mounts; true"), "x\n1\n1\n")
        self.assertEqual(self.get("from-guest"), b"x\n")
        self.assertEqual(self.get("inner/from-guest"), b"x\n")
        shares = self.home.inspect("f")["shares"]
        self.assertEqual(len(shares), len({s["guest"] for s in shares}), shares)

    # https://github.com/cocoonstack/cocoon/issues/36 , https://github.com/smol-machines/smolvm/pull/532
    def test_machine_whose_socket_is_gone_is_found(self):
        self.new("g")
        self.start("g")
        pid = self.home.inspect("g")["supervisor_pid"]
        run = os.path.join(self.home.path, "run")
        for name in os.listdir(run):
            os.unlink(os.path.join(run, name))
        self.assertEqual(self.home.state("g"), "running")
        self.home.ok("stop", "g", timeout=lib.START_S)
        lib.wait_for("its processes to be gone", lambda: not os.path.exists("/proc/%d" % pid)
                     and not self.home.pids(), 5)
        self.start("g")
        self.works("g")
        for name in os.listdir(run):
            os.unlink(os.path.join(run, name))
        self.home.ok("rm", "-f", "g", timeout=lib.START_S)
        lib.wait_for("its processes to be gone", lambda: not self.home.pids(), 5)

    # https://github.com/multikernel/sandlock/issues/238
    def test_owner_of_a_one_shot_machine_is_killed(self):
        before = lib.snapshot(self.home.path)
        with self.home.popen("run", "--rm", "--", "sh", "-c", "echo up; sleep 100",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as p:
            self.assertEqual(p.stdout.readline(), b"up\n")
            p.kill()
        begin = time.monotonic()
        self.assertEqual(lib.leaks_within(self.home.path, before, 3), [])
        self.assertLess(time.monotonic() - begin, 3.5)

    def test_helpers_die_together(self):
        self.new("h")
        for victim in ("supervisor_pid", "vmm_pid", "share_pid"):
            with self.subTest(victim):
                self.start("h")
                pid = self.home.inspect("h")[victim]
                self.assertGreater(pid, 1)
                kill(pid)
                lib.wait_for("all to end", lambda: not self.home.pids(), 10)
                self.assertEqual(self.home.state("h"), "crashed")
        self.start("h")
        self.works("h")

    # https://github.com/docker/sbx-releases/issues/353 , https://github.com/ejc3/fcvm/issues/870
    def test_call_ends_at_once_when_the_machine_dies(self):
        self.new("i")
        self.start("i")
        with self.home.popen("exec", "i", "--", "sh", "-c", "echo up; sleep 60",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) as p:
            self.assertEqual(p.stdout.readline(), b"up\n")
            kill(self.home.inspect("i")["vmm_pid"])
            begin = time.monotonic()
            _, err = p.communicate(timeout=10)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(p.returncode, 125, err)
        self.assertIn(b"killed by signal 9", err)
        lib.wait_for("crashed", lambda: self.home.state("i") == "crashed", 5)
        self.start("i")
        self.works("i")

    def test_damaged_files(self):
        for file, damage in (("machine.json", "empty"), ("machine.json", "half"),
                             ("machine.json", "garbage"), ("ran", "garbage"), ("lock", "gone"),
                             ("supervisor.log", "gone"), ("machine.json.1.tmp", "garbage")):
            with self.subTest("%s %s" % (file, damage)):
                self.home.ok("create", "j")
                self.start("j")
                self.home.ok("stop", "j")
                path = self.home.machine_file("j", file)
                if damage == "gone":
                    if os.path.exists(path):
                        os.unlink(path)
                else:
                    content = b""
                    if damage == "garbage":
                        content = b"\0{]garbage"
                    elif damage == "half":
                        with open(path, "rb") as f:
                            content = f.read()
                        content = content[:len(content) // 2]
                    with open(path, "wb") as f:
                        f.write(content)
                self.home.ok("ls")
                result = self.home.run("start", "j", timeout=lib.START_S)
                if file != "machine.json":
                    self.assertEqual(result.code, 0, str(result))
                    self.works("j")
                elif result.code != 0:
                    self.assertEqual(len(result.error.strip().splitlines()), 1, result.error)
                    self.assertIn("rm", result.error)
                self.home.ok("rm", "-f", "j")
                self.assertIsNone(self.home.state("j"))
                self.assertFalse(os.path.exists(self.home.machine_file("j", "")))

    # https://github.com/anthropics/claude-code/issues/52747
    def test_working_directory_deleted(self):
        project = os.path.join(self.home.path, "project/gone")
        os.mkdir(project)
        self.new("k")
        self.home.run("rm", "-f", "k")
        self.home.ok("create", "k", cwd=project)
        self.start("k", cwd=project)
        result = self.home.run("exec", "-w", "/no/such/folder", "k", "--", "true")
        self.assertIn(result.code, (125, 126, 127), str(result))
        self.assertIn("/no/such/folder", result.error)
        self.assertEqual(len(result.error.strip().splitlines()), 1)
        self.works("k")
        shutil.rmtree(project)
        self.assertEqual(self.home.run("exec", "-w", "/tmp", "k", "--", "pwd").out, b"/tmp\n")
        os.mkdir(project)
        with open(os.path.join(project, "new"), "w") as f:
            f.write("again")
        result = self.home.run("exec", "k", "--", "cat", "/work/new")
        if result.code == 0:
            self.assertEqual(result.out, b"again")
        else:
            self.assertTrue(result.error.strip())
        self.home.ok("stop", "k")
        self.start("k")
        self.assertEqual(self.home.ok("exec", "k", "--", "cat", "/work/new"), "again")
        self.home.ok("stop", "k")
        shutil.rmtree(project)
        result = self.home.run("start", "k")
        self.assertNotEqual(result.code, 0)
        self.assertIn(project, result.error)

    def test_long_runtime_path(self):
        # the socket's path must fit 107 bytes
        long = os.path.join(self.home.path, "mine", "x" * 90)
        os.mkdir(long)
        self.new("l")
        env = {"GLOVEBOX_HOME": long}
        os.makedirs(os.path.join(long, "data"))
        os.symlink(os.path.join(lib.CACHE, "data/images"), os.path.join(long, "data/images"))
        result = self.home.run("run", "--rm", "--image", lib.IMAGE, "--", "true", env=env)
        shutil.rmtree(long)
        if result.code != 0:
            self.assertIn("GLOVEBOX_HOME", result.error)
            self.assertEqual(result.code, 125)

    def test_inspect_and_ls_as_json(self):
        self.new("n")
        machine = self.home.inspect("n")
        self.assertEqual(machine["state"], "created")
        self.assertEqual(machine["cpus"], 2)
        self.assertIsInstance(json.loads(self.home.ok("ls", "--json")), list)

    def test_logs(self):
        self.new("o")
        self.start("o")
        self.home.ok("stop", "o")
        self.home.ok("logs", "o")
        self.home.ok("logs", "--console", "o")
        self.assertNotEqual(self.home.run("logs", "nobody").code, 0)

    def test_root_in_place_has_one_user(self):
        image = json.loads(self.home.ok("image", "inspect", "--json", lib.IMAGE))
        image = image[0] if isinstance(image, list) else image
        root = os.path.join(self.home.path, "mine/root.ext4")
        subprocess.run(["cp", "--sparse=always", image["path"], root], check=True)
        os.chmod(root, 0o600)
        with self.home.popen("run", "--rm", "--root", root, "--", "sh", "-c",
                             "echo kept > /root/f; echo up; cat",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) as p:
            self.assertEqual(p.stdout.readline(), b"up\n")
            result = self.home.run("run", "--rm", "--root", root, "--", "true",
                                   timeout=lib.START_S)
            self.assertEqual(result.code, 125, str(result))
            self.assertIn(root, result.error)
            _, err = p.communicate(b"", timeout=lib.COMMAND_S)
            self.assertEqual(p.returncode, 0, err)
        self.assertEqual(self.home.ok("run", "--rm", "--root", root, "--", "cat", "/root/f",
                                      timeout=lib.START_S), "kept\n")
        os.unlink(root)


class Exhausted(lib.MachineTest):
    create = ("--memory", "512M", "--disk", "1500M")

    # https://github.com/lima-vm/lima/pull/2249 , https://github.com/kata-containers/kata-containers/issues/1111
    def test_memory(self):
        self.guest_ok("sleep 1000 & echo $!")
        greedy = "b=[bytearray(1<<20) for _ in range(4096)]"
        result = self.home.run("exec", "m", "--", "python3", "-c", greedy, timeout=180)
        self.assertEqual(result.code, 137, str(result))
        self.assertIn("memory", result.error)
        begin = time.monotonic()
        self.assertEqual(self.guest_ok("echo up"), "up\n")
        self.assertLess(time.monotonic() - begin, 5)
        result = self.guest("tail /dev/zero", timeout=180)
        self.assertEqual(result.code, 137, str(result))
        self.assertEqual(self.guest_ok("pgrep -cx sleep"), "1\n")
        self.guest("pkill -x sleep")

    def disk_mib(self):
        return os.stat(self.home.machine_file("m", "disk.qcow2")).st_blocks * 512 >> 20

    # https://github.com/milankinen/airlock/issues/4 , https://github.com/smol-machines/smolvm/issues/992
    def test_guest_disk_full(self):
        self.guest_ok("sync")
        before = self.disk_mib()
        result = self.guest("dd if=/dev/zero of=/fill bs=1M", timeout=300)
        self.assertNotEqual(result.code, 0)
        self.assertIn("No space left", result.error)
        self.guest("echo x > /y")
        self.assertEqual(self.guest_ok("echo up"), "up\n")
        self.home.ok("stop", "m", timeout=lib.START_S)
        self.home.ok("start", "m", timeout=lib.START_S)
        self.guest_ok("rm -f /fill /y; sync")
        for _ in range(3):
            self.guest_ok("head -c 200M /dev/urandom > /f; sync; rm /f; sync", timeout=180)
        self.home.ok("stop", "m", timeout=lib.START_S)
        self.home.ok("start", "m", timeout=lib.START_S)
        self.assertEqual(self.guest_ok("echo up"), "up\n")
        self.home.ok("stop", "m", timeout=lib.START_S)
        after = self.disk_mib()
        self.home.ok("start", "m", timeout=lib.START_S)
        self.assertLessEqual(after, before + 50)


@unittest.skipUnless(os.geteuid() == 0, "needs root: mounts a small file system")
class HostDiskFull(lib.MachineTest):
    machine = None

    # https://github.com/cubic-vm/cubic/pull/545
    def test_host_disk_full(self):
        machines = os.path.join(self.home.path, "data/machines")
        os.makedirs(machines, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=150m,mode=700", "none", machines],
                       check=True)
        try:
            self.home.ok("create", "m")
            self.home.ok("start", "m", timeout=lib.START_S)
            with self.home.popen("exec", "m", "--", "sh", "-c",
                                 "head -c 400M /dev/urandom > /fill; sync",
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE) as p:
                lib.wait_for("somebody to say that the disk is full",
                             lambda: "full" in self.home.ok("inspect", "m")
                             or p.poll() is not None, 120)
                self.assertEqual(self.home.state("m"), "running")
                self.home.ok("stop", "m", timeout=lib.START_S)
                p.communicate(timeout=lib.COMMAND_S)
            self.assertEqual(self.home.pids(), {})
            self.home.ok("rm", "-f", "m")
            self.assertEqual(os.listdir(machines), [])
        finally:
            subprocess.run(["umount", "-l", machines], check=True)


if __name__ == "__main__":
    lib.main()
