"""Machines from one template differ, know the time, and survive a damaged template."""
import concurrent.futures
import os
import shutil
import signal
import subprocess
import time

import lib

MACHINES = int(os.environ.get("GB_TEMPLATE_MACHINES", "50"))
IDENTITY = ("head -c 16 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/boot_id; "
            "cat /etc/machine-id; cat /proc/sys/kernel/hostname")
CLOCK_MS = 50


class Template(lib.MachineTest):
    machine = None

    def identity(self, number):
        out = self.home.ok("run", "--rm", "--", "sh", "-c", IDENTITY, timeout=lib.START_S * 2)
        lines = out.strip().split("\n")
        self.assertEqual(len(lines), 4, out)
        return lines

    def test_machines_differ(self):
        self.home.ok("run", "--rm", "--", "true", timeout=lib.START_S)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(self.identity, range(MACHINES)))
        for column, what in enumerate(("urandom", "boot_id", "machine-id", "hostname")):
            values = [row[column].strip() for row in found]
            self.assertEqual(len(set(values)), MACHINES, what)
            self.assertTrue(all(values), what)

    def clock_offset_ms(self, name):
        """The guest's clock less ours: asked often, the quickest answer is the surest."""
        best = None
        with self.home.popen("exec", name, "--", "bash", "-c",
                             'while read x; do echo $EPOCHREALTIME; done', stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE) as p:
            for _ in range(20):
                before = time.time()
                p.stdin.write(b"\n")
                p.stdin.flush()
                answer = float(p.stdout.readline())
                after = time.time()
                if best is None or after - before < best[1]:
                    best = (answer - (before + after) / 2, after - before)
            p.stdin.close()
            p.wait(timeout=lib.COMMAND_S)
        return best[0] * 1000, best[1] * 1000

    def test_clock(self):
        for number in range(3):
            name = "c%d" % number
            self.home.ok("create", name)
            self.home.ok("start", name, timeout=lib.START_S)
            offset, doubt = self.clock_offset_ms(name)
            self.assertLessEqual(abs(offset), CLOCK_MS + doubt / 2, name)
            self.home.ok("rm", "-f", name)

    def test_start_says_it_came_from_a_template(self):
        self.home.ok("create", "t")
        self.home.ok("start", "t", timeout=lib.START_S)
        self.home.ok("stop", "t")
        self.home.ok("start", "t", timeout=lib.START_S)
        self.assertEqual(self.home.inspect("t")["start_kind"], "template")
        self.home.ok("rm", "-f", "t")

    def test_memory_is_private(self):
        self.home.ok("create", "p1")
        self.home.ok("create", "p2")
        for name in ("p1", "p2"):
            self.home.ok("start", name, timeout=lib.START_S)
        self.home.ok("exec", "p1", "--", "sh", "-c", "echo secret > /dev/shm/f; echo x > /run/f")
        self.assertNotEqual(self.home.run("exec", "p2", "--", "cat", "/dev/shm/f").code, 0)
        self.home.ok("rm", "-f", "p1", "p2")


def kinds(home):
    """The folders of the templates of images."""
    base = os.path.join(home.path, "cache/image-templates")
    return [os.path.join(base, d) for d in sorted(os.listdir(base)) if d[0] != "."] \
        if os.path.isdir(base) else []


class ImageTemplate(lib.MachineTest):
    """A template whose root is mounted is for new disks only: with any other one the file system
    would be lost."""
    machine = None
    share_cache = False

    def setUp(self):
        self.home.ok("create", "m")

    def tearDown(self):
        self.home.run("rm", "-f", "m")

    def start(self, kind, **more):
        self.home.ok("start", "m", timeout=lib.START_S, **more)
        self.assertEqual(self.home.inspect("m")["start_kind"], kind)

    def check_disk(self):
        """The file system as it is on the disk, in order."""
        raw = os.path.join(self.home.path, "tmp/raw")
        subprocess.run(["qemu-img", "convert", "-O", "raw",
                        self.home.machine_file("m", "disk.qcow2"), raw], check=True)
        found = subprocess.run(["e2fsck", "-fn", raw], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, check=False)
        os.unlink(raw)
        self.assertEqual(found.returncode, 0, found.stdout)

    def write(self):
        self.home.ok("exec", "m", "--", "sh", "-c",
                     "for i in 1 2 3 4 5 6 7 8; do head -c 300000 /dev/urandom > /var/f$i; done; "
                     "cat /var/f? | md5sum > /var/sum; sync")

    def assert_written(self):
        self.home.ok("exec", "m", "--", "sh", "-c", "cat /var/f? | md5sum -c /var/sum")

    def test_only_the_first_start(self):
        self.start("image template")
        self.write()
        self.home.ok("stop", "m")
        self.check_disk()
        self.start("template")
        self.assert_written()
        self.home.ok("stop", "m")
        self.check_disk()

    def test_after_a_crash(self):
        for victim in ("supervisor_pid", "vmm_pid"):
            with self.subTest(victim):
                self.start("image template")
                self.write()
                os.kill(self.home.inspect("m")[victim], signal.SIGKILL)
                lib.wait_for("the end", lambda: self.home.state("m") == "crashed")
                self.start("template")
                self.assert_written()
                self.home.ok("stop", "m")
                self.check_disk()
                self.home.ok("rm", "m")
                self.home.ok("create", "m")

    def test_crash_between_the_copy_and_the_start(self):
        qemu = os.path.join(self.home.path, "tmp/qemu-system-x86_64")
        # stands in front of QEMU; templates are made with it too, since its path is in their key
        real = shutil.which("qemu-system-x86_64")
        with open(qemu, "w") as f:
            f.write("#!/bin/sh\n[ ! -e %s/tmp/kill ] || kill -9 $PPID\nexec %s \"$@\"\n"
                    % (self.home.path, real))
        os.chmod(qemu, 0o755)
        self.addCleanup(os.unlink, qemu)
        env = {"GLOVEBOX_QEMU": qemu}
        self.home.ok("run", "--rm", "--", "true", timeout=lib.START_S, env=env)
        with open(os.path.join(self.home.path, "tmp/kill"), "w"):
            pass
        self.assertNotEqual(self.home.run("start", "m", timeout=lib.START_S, env=env).code, 0)
        os.unlink(os.path.join(self.home.path, "tmp/kill"))
        self.assertGreater(os.stat(self.home.machine_file("m", "disk.qcow2")).st_blocks, 1000)
        self.start("template", env=env)
        self.write()
        self.home.ok("stop", "m")
        self.start("template")
        self.assert_written()
        self.home.ok("stop", "m")
        self.check_disk()

    def test_each_proof_is_enough(self):
        self.start("image template")
        self.write()
        self.home.ok("stop", "m")
        # the note is gone, the disk still says it
        os.unlink(self.home.machine_file("m", "last"))
        self.start("template")
        self.assert_written()
        self.home.ok("rm", "-f", "m")
        # the disk is new, the note says it
        self.home.ok("create", "m")
        with open(self.home.machine_file("m", "last"), "w") as f:
            f.write("ok")
        self.start("template")

    def test_damage_is_passed_by_and_repaired_once(self):
        def damage():
            for folder in kinds(self.home):
                with open(folder + "/state", "r+b") as f:
                    f.write(os.urandom(4096))

        # the note of two failures would keep other tests from theirs
        self.addCleanup(shutil.rmtree, os.path.join(self.home.path, "cache/image-templates"),
                        ignore_errors=True)
        # those of other tests have other keys
        for folder in kinds(self.home):
            shutil.rmtree(folder)
        self.home.ok("run", "--rm", "--", "true", timeout=lib.START_S)
        for expected in ("image template", "template"):
            damage()
            self.start("template")
            self.assertIn("image's template failed", self.home.inspect("m")["note"])
            self.write()
            self.assert_written()
            self.home.ok("stop", "m")
            self.check_disk()
            self.home.ok("rm", "m")
            self.home.ok("create", "m")
            # made again once; after a second failure left alone for a day
            self.start(expected)
            self.home.ok("rm", "-f", "m")
            self.home.ok("create", "m")
        self.assertEqual(kinds(self.home), [])

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(os.path.join(cls.home.path, "cache"), ignore_errors=True)
        super().tearDownClass()


class Damage(lib.MachineTest):
    machine = None
    share_cache = False

    def templates(self):
        base = os.path.join(self.home.path, "cache/templates")
        return [os.path.join(base, d) for d in os.listdir(base)
                if os.path.isdir(os.path.join(base, d))] if os.path.isdir(base) else []

    def test_damaged_templates_are_made_again(self):
        self.home.ok("create", "d")
        self.home.ok("start", "d", timeout=lib.START_S)
        self.home.ok("stop", "d")
        self.assertEqual(len(self.templates()), 1)
        folder = self.templates()[0]

        def cut(name, size):
            os.chmod(os.path.join(folder, name), 0o600)
            os.truncate(os.path.join(folder, name), size)

        def garbage(name):
            os.chmod(os.path.join(folder, name), 0o600)
            with open(os.path.join(folder, name), "r+b") as f:
                f.write(os.urandom(4096))

        for what, damage in (("state cut to nothing", lambda: cut("state", 0)),
                             ("state cut in half",
                              lambda: cut("state", os.stat(folder + "/state").st_size // 2)),
                             ("state of garbage", lambda: garbage("state")),
                             ("memory cut", lambda: cut("memory", 1 << 20)),
                             ("memory gone", lambda: os.unlink(folder + "/memory")),
                             ("all gone", lambda: shutil.rmtree(folder))):
            with self.subTest(what):
                damage()
                self.home.ok("start", "d", timeout=lib.START_S)
                self.assertEqual(self.home.ok("exec", "d", "--", "echo", "up"), "up\n")
                self.home.ok("stop", "d")
                self.home.ok("start", "d", timeout=lib.START_S)
                self.assertEqual(self.home.inspect("d")["start_kind"], "template")
                self.home.ok("stop", "d")
                self.assertEqual(len(self.templates()), 1)
                folder = self.templates()[0]
        self.home.ok("rm", "d")

    def test_made_once_for_many_at_once(self):
        shutil.rmtree(os.path.join(self.home.path, "cache"), ignore_errors=True)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for result in pool.map(lambda n: self.home.run("run", "--rm", "--", "echo", str(n),
                                                           timeout=lib.START_S * 2), range(4)):
                self.assertEqual(result.code, 0, str(result))
        self.assertEqual(len(self.templates()), 1)

    @classmethod
    def tearDownClass(cls):
        # the cache is this home's own here, and stays: it is no leak
        shutil.rmtree(os.path.join(cls.home.path, "cache"), ignore_errors=True)
        super().tearDownClass()


if __name__ == "__main__":
    lib.main()
