"""The leak check of these tests, shown to fail on one planted process, socket, mount, lock and
file each. Needs no machine."""
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import lib


class LeakCheck(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="gbt.", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.home, True)
        os.mkdir(os.path.join(self.home, "run"))
        os.mkdir(os.path.join(self.home, "mnt"))
        with open(os.path.join(self.home, "run/file"), "w") as f:
            f.write("x")
        self.before = lib.snapshot(self.home)

    def kinds(self):
        return {line.split(":")[0] for line in lib.leaks(self.before, lib.snapshot(self.home))}

    def child(self, command, **more):
        """A child that has said "ready"; ended at the end of the test."""
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.stdin.close)
        self.assertEqual(child.stdout.readline(), b"ready\n")
        return child

    def test_nothing_planted(self):
        self.assertEqual(lib.leaks(self.before, lib.snapshot(self.home)), [])

    def test_process_by_environment(self):
        self.child(["sh", "-c", "echo ready; read x"], env={"GLOVEBOX_HOME": self.home,
                                                            "PATH": "/usr/bin:/bin"})
        self.assertEqual(self.kinds(), {"process"})

    def test_process_by_command_line(self):
        self.child(["sh", "-c", "echo ready; read x", self.home + "/data/x"])
        self.assertEqual(self.kinds(), {"process"})

    def test_process_by_open_file(self):
        with open(os.path.join(self.home, "run/file")) as f:
            self.child(["sh", "-c", "echo ready; read x"], pass_fds=[f.fileno()])
        self.assertEqual(self.kinds(), {"process"})

    def test_socket(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.join(self.home, "run/m.sock"))
            self.assertEqual(self.kinds(), {"socket"})
        # its file is left
        self.assertEqual(self.kinds(), {"socket"})

    def test_socket_whose_file_is_gone(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.join(self.home, "run/m.sock"))
            os.unlink(os.path.join(self.home, "run/m.sock"))
            self.assertEqual(self.kinds(), {"socket"})
        self.assertEqual(self.kinds(), set())

    def test_lock(self):
        program = ("import fcntl, os, sys\n"
                   "fd = os.open('run/file', os.O_RDWR)\n"
                   "fcntl.lockf(fd, fcntl.LOCK_EX)\n"
                   "print('ready', flush=True)\nsys.stdin.read()")
        self.child([sys.executable, "-c", program], cwd=self.home)
        self.assertIn("lock", self.kinds())

    def test_flock(self):
        with open(os.path.join(self.home, "run/file")) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.assertEqual(self.kinds(), {"lock"})
        self.assertEqual(self.kinds(), set())

    def test_file(self):
        with open(os.path.join(self.home, "run/state.json.123.tmp"), "w") as f:
            f.write("half")
        self.assertEqual(self.kinds(), {"file"})

    def test_mount(self):
        program = ("import sys; sys.path.insert(0, %r); import lib\n"
                   "print(lib.leaks(%r, lib.snapshot(%r)))" % (
                       os.path.dirname(os.path.abspath(__file__)), {k: set() for k in self.before},
                       self.home))
        script = 'mount -t tmpfs none "$1/mnt" && exec "$2" -c "$3"'
        # in a mount namespace of its own, so that nothing is left whatever happens
        wrap = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
        done = subprocess.run(wrap + ["sh", "-c", script, "sh", self.home, sys.executable, program],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            self.skipTest("no mounts here: %s" % done.stderr.decode().strip()[:200])
        self.assertIn("mount: %s/mnt" % self.home, done.stdout.decode())


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, resultclass=lib.Report, verbosity=0)
    program = unittest.main(testRunner=runner, exit=False)
    sys.exit(0 if program.result.wasSuccessful() else 1)
