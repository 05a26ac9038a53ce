"""libglovebox in real machines, through its shared library. "invariant_N" names the statement of
the requirements that a test is about; those about the link alone are in tests/unit/lib."""
import ctypes
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
import unittest

import ffi
import lib


def use_home(home):
    os.environ.update(lib.environment(home.path))
    os.chdir(home.project)


class LibraryTest(unittest.TestCase):
    broken = False

    @classmethod
    def setUpClass(cls):
        cls.home = lib.Home()
        cls.project = cls.home.project
        use_home(cls.home)
        # what is made once on a host is made before times are measured
        ws = ffi.Workspace()
        ws.shutdown(20000)
        ws.free()
        cls.before = lib.snapshot(cls.home.path)

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        found = lib.leaks_within(cls.home.path, cls.before)
        cls.home.remove()
        if found and not cls.broken:
            raise AssertionError("leaked:\n" + "\n".join(found))

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            type(self).broken = True
            print(self.home.logs()[-4000:], file=sys.stderr)

    def fails(self, code, *arguments):
        with self.assertRaises(ffi.Failure) as caught:
            arguments[0](*arguments[1:])
        self.assertEqual(caught.exception.code, ffi.CODES[code], caught.exception)
        return caught.exception

    def launch(self, **options):
        ws = ffi.Workspace(**options)
        self.addCleanup(ws.free)
        return ws

    def vmms(self):
        return [pid for pid, line in self.home.pids().items() if "qemu-system" in line]

    def supervisors(self):
        return [pid for pid, line in self.home.pids().items() if "glovebox-supervisor" in line]

    def launched(self):
        """A VMM of the one machine that runs."""
        found = self.vmms()
        self.assertEqual(len(found), 1, found)
        return found[0]

    def gone(self, seconds=15):
        lib.wait_for("the machine's end", lambda: not self.vmms() and not self.supervisors(),
                     seconds)


class Life(LibraryTest):
    """How workspaces begin and end."""

    def test_invariant_01_a_vmm_that_never_answers(self):
        stopped = []

        def stop_it():
            for pid in lib.wait_for("the VMM", self.vmms, 20, step=0.001):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(time.monotonic())

        t = threading.Thread(target=stop_it)
        t.start()
        begin = time.monotonic()
        self.fails("TIMEOUT", self.launch_with_deadline, 3000)
        took = time.monotonic() - begin
        t.join()
        self.assertTrue(stopped)
        self.assertGreaterEqual(took, 2.9)
        self.assertLess(took, 6)
        lib.wait_for("its processes' end", lambda: not self.home.pids(), 5)
        self.assertEqual(os.listdir(os.path.join(self.home.path, "data/machines")), [])

    def launch_with_deadline(self, ms):
        self.launch(start_deadline_ms=ms).shutdown()

    def test_invariant_02_the_record_is_private_and_on_no_command_line(self):
        secret = "s3cr3t-value-4711"
        ws = self.launch(env=["TOKEN=" + secret], directory=self.project)
        record = self.home.machine_file(ws.machine, "machine.json")
        self.assertEqual(stat.S_IMODE(os.stat(record).st_mode), 0o600)
        with open(record) as f:
            self.assertIn(secret, f.read())
        self.assertEqual(ws.own.sh("printf %s $TOKEN"), secret)
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                self.assertNotIn(secret.encode(), lib.read_bytes("/proc/%s/cmdline" % pid))
        ws.shutdown()

    def test_invariant_03_capabilities_keep_the_machine(self):
        ws = ffi.Workspace(directory=self.project)
        a, b = ws.tools(), ws.tools()
        with open(os.path.join(self.project, "kept"), "w") as f:
            f.write("shared")
        ws.free()
        self.assertEqual(a.sh("cat /work/kept"), "shared")
        a.unref()
        self.assertEqual(b.sh("cat /work/kept"), "shared")
        self.assertTrue(self.vmms())
        b.unref()
        self.gone()

    def test_invariant_03_a_request_keeps_its_capability(self):
        ws = ffi.Workspace()
        tools = ws.tools()
        q = tools.start("sh", "-c", "read x; echo $x", flags=ffi.STDIN)
        tools.unref()
        e = self.fails("BUSY", ws.shutdown)
        self.assertIn("1 capability", str(e))
        ws.free()
        self.assertEqual(q.write(b"still\n"), 6)
        q.wait()
        self.assertEqual(q.out[1], b"still\n")
        q.free()
        self.gone()

    def test_invariant_04_shutdown_refuses_while_capabilities_live(self):
        ws = self.launch()
        some = [ws.tools() for _ in range(3)]
        # another reference is not another capability
        ffi.dll.glovebox_tools_ref(some[0].p)
        e = self.fails("BUSY", ws.shutdown)
        self.assertIn("3 capabilities", str(e))
        self.assertEqual(some[2].sh("echo works"), "works\n")
        self.assertEqual(ws.own.sh("echo works"), "works\n")
        for tools in some + [some[0]]:
            tools.unref()
        ws.shutdown()
        self.gone(5)

    def test_invariant_05_shutdown_refuses_while_the_owner_waits(self):
        ws = self.launch()
        q = [ws.own.start("sleep", "1000") for _ in range(2)]
        e = self.fails("BUSY", ws.shutdown)
        self.assertIn("2 requests", str(e))
        for one in q:
            one.free()
        ws.shutdown()
        self.gone(5)

    def test_invariant_06_a_shutdown_that_is_broken_off(self):
        script = ("import sys; sys.path.insert(0, %r); import ffi, os, signal\n"
                  "ws = ffi.Workspace()\n"
                  "print(ws.machine, flush=True); sys.stdin.readline()\n"
                  "print('ending', flush=True); ws.shutdown(3000)" % os.path.dirname(__file__))
        p = subprocess.Popen([sys.executable, "-B", "-c", script], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=dict(os.environ, GB_BUILD=lib.BUILD))
        try:
            p.stdout.readline()
            vmm = self.launched()
            os.kill(vmm, signal.SIGSTOP)
            p.stdin.write(b"\n")
            p.stdin.flush()
            p.stdout.readline()
        finally:
            p.kill()
            p.communicate()
        self.gone(10)

    def test_invariant_07_a_guest_that_does_not_acknowledge(self):
        ws = self.launch()
        os.kill(self.launched(), signal.SIGSTOP)
        begin = time.monotonic()
        self.fails("TIMEOUT", ws.shutdown, 2000)
        took = time.monotonic() - begin
        self.assertGreaterEqual(took, 2)
        self.assertLess(took, 4)
        self.assertFalse(self.vmms())

    def test_invariant_07_a_supervisor_that_hangs(self):
        ws = self.launch()
        os.kill(self.supervisors()[0], signal.SIGSTOP)
        begin = time.monotonic()
        self.fails("TIMEOUT", ws.shutdown, 2000)
        self.assertLess(time.monotonic() - begin, 4)
        self.gone(5)
        self.assertFalse(os.path.exists(self.home.machine_file(ws.machine, "machine.json")))

    def test_invariant_08_nothing_is_admitted_once_it_began(self):
        ws = self.launch()
        os.kill(self.launched(), signal.SIGSTOP)
        failed = []

        def shut_down():
            try:
                ws.shutdown(3000)
            except ffi.Failure as f:
                failed.append(f.code)

        t = threading.Thread(target=shut_down)
        t.start()

        def refused():
            try:
                q = ws.own.start("true")
            except ffi.Failure as f:
                return f.code
            q.free()
            return None

        code = lib.wait_for("the begin of the end", refused, 3, step=0.005)
        self.assertEqual(code, ffi.CODES["CLOSED"])
        t.join()
        self.assertEqual(failed, [ffi.CODES["TIMEOUT"]])

    def test_invariant_09_a_second_shutdown(self):
        ws = self.launch()
        ws.shutdown()
        e = self.fails("CLOSED", ws.shutdown)
        self.assertIn("was shut down", str(e))
        self.fails("CLOSED", ws.own.start, "true")

    def test_invariant_10_without_what_it_needs(self):
        os.environ["GLOVEBOX_LIBEXEC"] = "/nonexistent"
        try:
            self.fails("NOTFOUND", self.launch_with_deadline, 0)
        finally:
            del os.environ["GLOVEBOX_LIBEXEC"]
        with self.assertRaises(ffi.Failure) as caught:
            ffi.Workspace(image="no-such-image")
        self.assertEqual(caught.exception.code, ffi.CODES["NOTFOUND"])
        with self.assertRaises(ffi.Failure) as caught:
            ffi.Workspace("no-such-machine")
        self.assertEqual(caught.exception.code, ffi.CODES["NOTFOUND"])
        self.assertEqual(os.listdir(os.path.join(self.home.path, "data/machines")), [])

    def test_invariant_18_a_machine_that_dies_in_the_middle(self):
        ws = self.launch()
        q = ws.own.start("sh", "-c", "echo half; exec sleep 1000")
        lib.wait_for("its output", lambda: list(q.events()) and q.out[1] == b"half\n" or
                     q.out[1] == b"half\n")
        os.kill(self.launched(), signal.SIGKILL)
        self.assertTrue(q.poll(10))
        self.fails("CLOSED", ffi.call, "request_wait", q.p, ctypes.c_int64(0), None)
        self.fails("STATE", q.exit)
        q.free()

    def test_invariant_19_one_diagnostic_for_all(self):
        ws = self.launch()
        pending = [ws.own.start("sleep", "1000") for _ in range(3)]
        ws.own.ping()
        os.kill(self.launched(), signal.SIGKILL)
        said = set()
        for q in pending:
            self.assertTrue(q.poll(10))
            e = self.fails("CLOSED", ffi.call, "request_wait", q.p, ctypes.c_int64(0), None)
            said.add((str(e), e.for_model))
            q.free()
        for _ in range(3):
            e = self.fails("CLOSED", ws.own.start, "true")
            said.add((str(e), e.for_model))
        self.assertEqual(len(said), 1, said)
        message, for_model = said.pop()
        self.assertIn("killed by signal 9", message)
        self.assertEqual(for_model, "the workspace's machine is not available any more")
        self.assertIn(b"killed by signal 9", ws.logs())
        self.assertLessEqual(len(ws.logs()), 65 << 10)
        self.gone(5)

    def test_invariant_19_an_idle_workspace_hears_it_too(self):
        ws = self.launch()
        os.kill(self.launched(), signal.SIGKILL)
        self.gone(5)

        def failed():
            try:
                ws.own.start("true").free()
            except ffi.Failure as f:
                return f

        e = lib.wait_for("the news", failed, 5)
        self.assertIn("killed by signal 9", str(e))

    def test_invariant_21_shutdown_does_not_wait_for_commands(self):
        ws = self.launch()
        for _ in range(3):
            ws.own.run("sh", "-c", "trap '' TERM; sleep 1000", flags=ffi.DETACH)
        begin = time.monotonic()
        ws.shutdown(30000)
        self.assertLess(time.monotonic() - begin, 15)

    def test_retained_and_opened_again(self):
        p = ctypes.c_void_p()
        o = ffi.Launch(name="kept", image=lib.IMAGE, memory_bytes=512 << 20, flags=ffi.RETAINED)
        ffi.call("workspace_launch", ctypes.byref(o), ctypes.byref(p))
        ffi.dll.glovebox_workspace_free(p)
        self.assertEqual(self.home.state("kept"), "running")
        again = ffi.Workspace("kept")
        self.assertEqual(again.own.sh("echo here"), "here\n")
        # the same name is taken
        with self.assertRaises(ffi.Failure) as caught:
            ffi.call("workspace_launch", ctypes.byref(o), ctypes.byref(p))
        self.assertEqual(caught.exception.code, ffi.CODES["EXISTS"])
        again.shutdown()
        again.free()
        self.assertEqual(self.home.state("kept"), "stopped")
        bound = ffi.Workspace("kept")
        bound.free()
        lib.wait_for("its end", lambda: self.home.state("kept") == "stopped", 20)
        self.home.ok("rm", "kept")

    def test_options(self):
        for options in ({"env": ["=x"]}, {"env": ["NAME"]}, {"directory": "/nonexistent"},
                        {"cpus": 1000}, {"memory_bytes": 1}, {"accel": "steam"},
                        {"flags": ffi.RETAINED}, {"flags": 64}, {"directory": self.home.path},
                        {"size": 0}):
            with self.subTest(**{k: str(v) for k, v in options.items()}):
                p = ctypes.c_void_p()
                o = ffi.Launch(image=lib.IMAGE, **{k: v for k, v in options.items()
                                                   if k != "size"})
                if "size" in options:
                    o.size = 0
                with self.assertRaises(ffi.Failure):
                    ffi.call("workspace_launch", ctypes.byref(o), ctypes.byref(p))
        self.assertEqual(os.listdir(os.path.join(self.home.path, "data/machines")), [])

    def test_options_of_another_version(self):
        class Later(ctypes.Structure):
            _fields_ = [("known", ffi.Exec), ("more", ctypes.c_uint64)]

        ws = self.launch()
        later = Later(known=ffi.Exec(argv=["true"]))
        later.known.size = ctypes.sizeof(Later)
        q = ffi.Request("exec_start", ws.own.p, ctypes.byref(later)).wait()
        self.assertEqual(q.exit().code, 0)
        q.free()
        later.more = 1
        p = ctypes.c_void_p()
        self.fails("UNSUPPORTED", ffi.call, "exec_start", ws.own.p, ctypes.byref(later),
                   ctypes.byref(p))
        # an earlier one knew argv alone
        early = ffi.Exec(argv=["true"], timeout_ms=1)
        early.size = 16
        q = ffi.Request("exec_start", ws.own.p, ctypes.byref(early)).wait()
        self.assertEqual(q.exit().code, 0)
        q.free()
        ws.shutdown()

    def test_fork(self):
        ws = self.launch()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                ws.own.start("true")
            except ffi.Failure as f:
                code = 0 if f.code == ffi.CODES["STATE"] else 2
            ws.free()
            os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(ws.own.sh("echo on"), "on\n")
        ws.shutdown()


class Guest(LibraryTest):
    """What is done in one machine that lives through all of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ws = ffi.Workspace(directory=cls.project)
        cls.own = cls.ws.own

    @classmethod
    def tearDownClass(cls):
        try:
            if not cls.broken:
                cls.ws.shutdown(20000)
        finally:
            cls.ws.free()
            super().tearDownClass()

    def processes(self, word):
        """Processes of the guest that carry word; the question itself does not."""
        out, _, _ = self.own.run("pgrep", "-c", "-f", "[%s]%s" % (word[0], word[1:]))
        return int(out or b"0")

    def test_exec(self):
        out, err, e = self.own.run("sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual((out, err, e.code), (b"out\n", b"err\n", 3))
        self.assertGreater(e.spawn_ns, 0)
        _, _, e = self.own.run("no-such-program")
        self.assertEqual((e.code, e.flags & 8), (127, 8))
        _, _, e = self.own.run("sh", "-c", "kill -9 $$")
        self.assertEqual((e.code, e.signal), (137, 9))

    def test_terminal(self):
        q = self.own.start("sh", "-c", "stty size; read x; stty size", flags=ffi.TTY | ffi.STDIN,
                           rows=11, cols=33)
        lib.wait_for("its size", lambda: list(q.events()) is not None and b"11 33" in q.out[1])
        ffi.call("request_resize", q.p, ctypes.c_uint32(22), ctypes.c_uint32(44))
        q.write(b"\n")
        q.wait()
        self.assertIn(b"22 44", q.out[1])
        q.free()

    def test_input_of_more_than_a_window(self):
        data = os.urandom(3 << 20)
        q = self.own.start("sha256sum", flags=ffi.STDIN)
        at = 0
        while at < len(data):
            n = q.write(data[at:])
            at += n
            if at < len(data):
                self.assertTrue(select.select([q.fd()], [], [], lib.COMMAND_S)[0])
                list(q.events())
        ffi.call("request_write_eof", q.p)
        q.wait()
        import hashlib
        self.assertEqual(q.out[1].split()[0].decode(), hashlib.sha256(data).hexdigest())
        q.free()

    def test_signal_and_cancel(self):
        q = self.own.start("sh", "-c", "trap 'echo got it; exit 9' USR1; echo ready; "
                           "while :; do sleep 0.05; done")
        lib.wait_for("it", lambda: list(q.events()) is not None and b"ready" in q.out[1])
        ffi.call("request_signal", q.p, 10)
        q.wait()
        self.assertEqual((q.out[1], q.exit().code), (b"ready\ngot it\n", 9))
        q.free()
        q = self.own.start("sleep", "31337")
        lib.wait_for("it", lambda: list(q.events()) is not None and q.pid)
        q.cancel()
        self.assertTrue(q.poll(10))
        self.fails("CANCELLED", ffi.call, "request_wait", q.p, ctypes.c_int64(0), None)
        q.free()
        self.assertEqual(self.processes("31337"), 0)

    def test_invariant_13_dropped_requests_leave_all_slots_free(self):
        for _ in range(2):
            for q in [self.own.start("sleep", "4242") for _ in range(63)]:
                q.free()
        q = [self.own.start("sh", "-c", "echo %d; cat" % i, flags=ffi.STDIN) for i in range(63)]
        # all of them run at once
        for i, one in enumerate(q):
            lib.wait_for("number %d" % i, lambda one=one, i=i: list(one.events()) is not None and
                         one.out[1] == b"%d\n" % i)
        for one in q:
            one.free()
        lib.wait_for("their end", lambda: self.processes("4242") == 0)

    def test_invariant_14_cancelling_one_leaves_its_siblings(self):
        q = [self.own.start("sh", "-c", "read x; echo $x", flags=ffi.STDIN) for _ in range(8)]
        for one in q[::2]:
            one.cancel()
        for one in q[::2]:
            self.assertTrue(one.poll(10))
            one.free()
        for one in q[1::2]:
            one.write(b"alive\n")
            one.wait()
            self.assertEqual(one.out[1], b"alive\n")
            one.free()

    def test_invariant_15_a_request_over_the_limit(self):
        words = ["true"] + ["x" * 200000] * 6
        self.fails("LIMIT", self.own.start, *words)
        # one string that the machine refuses is an error of that request alone
        with self.assertRaises(ffi.Failure):
            self.own.run("true", "x" * 300000)
        self.own.ping()

    def test_invariant_16_a_request_that_fails_leaves_the_others(self):
        q = self.own.start("sh", "-c", "read x; echo $x", flags=ffi.STDIN)
        for _ in range(5):
            self.fails("NOTFOUND", self.own.read, "/no/such/file")
        q.write(b"on\n")
        q.wait()
        self.assertEqual(q.out[1], b"on\n")
        q.free()

    def test_invariant_20_two_at_the_same_time(self):
        self.own.sh("rm -f /tmp/a /tmp/b")
        q = [self.own.start("sh", "-c", "touch /tmp/%s; until [ -e /tmp/%s ]; do sleep 0.02; done"
                            % tuple(pair)) for pair in ("ab", "ba")]
        for one in q:
            self.assertEqual(one.wait(20).exit().code, 0)
            one.free()

    def test_invariant_22_a_command_that_ignores_its_timeout(self):
        begin = time.monotonic()
        out, err, e, code = self.own.execute(
            "sh", "-c", "trap '' TERM; echo before; sleep 6661 & sleep 6661 & "
            "while :; do sleep 6661; done", timeout_ms=1500)
        took = time.monotonic() - begin
        self.assertEqual(code, ffi.CODES["TIMEOUT"])
        self.assertEqual((out, err), (b"before\n", b""))
        self.assertTrue(e.flags & ffi.EXIT_TIMED_OUT)
        self.assertLess(took, 2.6)
        self.assertEqual(self.processes("6661"), 0)

    def test_invariant_23_output_is_bounded(self):
        script = "head -c 60000 /dev/zero; head -c 40000 /dev/zero >&2"
        out, err, e, code = self.own.execute("sh", "-c", script, max_output=100000)
        self.assertEqual((code, e.code, len(out), len(err)), (0, 0, 60000, 40000))
        out, err, e, code = self.own.execute("sh", "-c", script, max_output=99999)
        self.assertEqual((code, out), (ffi.CODES["LIMIT"], None))
        # what never ends is ended
        self.assertEqual(self.own.execute("yes", max_output=1000000)[3], ffi.CODES["LIMIT"])
        lib.wait_for("its end", lambda: self.own.run("pgrep", "-x", "yes")[2].code == 1)

    def test_invariant_24_mirrors(self):
        r, w = os.pipe()
        got, first = [], threading.Event()

        def read():
            while True:
                data = os.read(r, 65536)
                if not data:
                    return
                got.append((time.monotonic(), data))
                first.set()

        t = threading.Thread(target=read)
        t.start()
        marker = os.path.join(self.project, "go-on")

        def let_go():
            first.wait(lib.COMMAND_S)
            open(marker, "w").close()

        helper = threading.Thread(target=let_go)
        helper.start()
        # it ends only after what it wrote first was seen
        out, _, e, code = self.own.execute(
            "sh", "-c", "echo first; until [ -e /work/go-on ]; do sleep 0.05; done; "
            "head -c 300000 /dev/zero | tr '\\0' x", flags=1, out_fd=w)
        os.close(w)
        t.join()
        helper.join()
        os.close(r)
        os.unlink(marker)
        self.assertEqual((code, e.code), (0, 0))
        self.assertEqual(b"".join(data for _, data in got), out)
        self.assertEqual(len(out), 300006)

    def test_invariant_24_a_mirror_that_nobody_reads_is_no_failure(self):
        r, w = os.pipe()
        os.close(r)
        old = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        try:
            out, _, e, code = self.own.execute("echo", "x", flags=1, out_fd=w)
        finally:
            signal.signal(signal.SIGPIPE, old)
            os.close(w)
        self.assertEqual((out, e.code, code), (b"x\n", 0, 0))

    def test_invariant_25_only_regular_files_are_read(self):
        self.own.sh("rm -f /tmp/fifo; mkfifo /tmp/fifo; ln -sf /dev/zero /tmp/zero")
        for path in ("/dev/zero", "/tmp/fifo", "/tmp/zero", "/tmp", "/proc/self/mem"):
            with self.subTest(path=path):
                begin = time.monotonic()
                with self.assertRaises(ffi.Failure):
                    self.own.read(path)
                self.assertLess(time.monotonic() - begin, 5)
        self.own.sh("truncate -s 33554432 /tmp/most; truncate -s 33554433 /tmp/more")
        self.assertEqual(len(self.own.read("/tmp/most")), 33554432)
        self.fails("LIMIT", self.own.read, "/tmp/more")
        self.assertEqual(len(self.own.read("/tmp/more", limit=1 << 26)), 33554433)
        self.fails("LIMIT", lambda: self.own.read("/tmp/most", limit=1000))
        self.own.sh("rm -f /tmp/most /tmp/more /tmp/fifo /tmp/zero")

    def test_invariant_25_a_file_that_grows_while_it_is_read(self):
        self.own.sh("truncate -s 20000000 /tmp/grows")
        q = ffi.Request("read_start", self.own.p, b"/tmp/grows", None)
        # nothing is taken: the machine stops in the middle, and the file changes
        lib.wait_for("its begin", lambda: select.select([q.fd()], [], [], 0)[0])
        self.own.sh("echo more >> /tmp/grows")
        self.assertTrue(q.poll(lib.COMMAND_S))
        with self.assertRaises(ffi.Failure):
            ffi.call("request_wait", q.p, ctypes.c_int64(0), None)
        q.free()
        self.own.sh("rm -f /tmp/grows")

    def test_invariant_26_files_are_written_exactly_and_whole(self):
        data = os.urandom(1500000)
        self.own.write("/tmp/deep/er/file", data, mode=0o640, set_mtime=True, mtime_s=1234567,
                       mtime_ns=89)
        self.assertEqual(self.own.sh("stat -c '%a %Y' /tmp/deep/er/file"), "640 1234567\n")
        self.assertEqual(self.own.sh("stat -c %y /tmp/deep/er/file").split(".")[1][:9],
                         "000000089")
        self.assertEqual(self.own.read("/tmp/deep/er/file"), data)
        # one that is broken off leaves what was there
        q = ffi.Request("write_start", self.own.p, b"/tmp/deep/er/file", None)
        q.write(b"half")
        q.free()
        self.own.ping()
        self.assertEqual(self.own.read("/tmp/deep/er/file"), data)
        lib.wait_for("no leftover", lambda: self.own.sh("ls -A /tmp/deep/er") == "file\n")
        self.own.write("/tmp/deep/er/file", b"")
        self.assertEqual(self.own.read("/tmp/deep/er/file"), b"")
        self.own.mkdir("/tmp/deep/a/b", mode=0o711)
        self.assertEqual(self.own.sh("stat -c %a /tmp/deep/a/b"), "711\n")
        self.own.mkdir("/tmp/deep/a/b")
        self.own.sh("rm -rf /tmp/deep")

    def test_invariant_27_terminate(self):
        q = self.own.start("sh", "-c", "setsid sleep 7771 & sleep 7771")
        s = self.own.session("setsid sleep 7771 & sleep 7771", yield_ms=250).wait()
        s.free()
        lib.wait_for("them", lambda: self.processes("7771") >= 4)
        self.own.terminate()
        self.assertEqual(self.processes("7771"), 0)
        self.assertTrue(q.poll(10))
        q.free()
        # their ends are still to be told
        for session in self.own.sessions():
            end = self.own.input(session, yield_ms=0).wait()
            self.assertEqual(end.session().flags & 1, 1)
            end.free()
        self.assertEqual(self.own.sessions(), [])
        self.assertEqual(self.own.sh("echo usable"), "usable\n")

    def test_invariant_28_memory(self):
        m = self.own.memory()
        self.assertTrue(m.known)
        self.assertGreater(m.total_kib, 400 << 10)
        self.assertLess(m.total_kib, 512 << 10)
        self.assertLess(m.available_min_kib, m.total_kib)
        kills = m.oom_kills
        _, _, e = self.own.run("python3", "-c", "x = bytearray(2 << 30)\nfor i in range(0, len(x), "
                               "4096): x[i] = 1")
        self.assertNotEqual(e.code, 0)
        self.assertGreaterEqual(self.own.memory().oom_kills, kills)

    def test_invariant_30_a_session_outlives_its_request_and_capability(self):
        tools = self.ws.tools()
        q = tools.session("echo pid $$; while read x; do echo got $x; done",
                          flags=ffi.SESSION_TTY, yield_ms=500).wait()
        o = q.session()
        self.assertEqual(o.flags & ffi.SESSION_EXITED, 0)
        self.assertIn(b"pid", q.out[1])
        q.free()
        tools.unref()
        other = self.ws.tools()
        self.assertIn(o.session, other.sessions())
        q = other.input(o.session, b"hello\n", yield_ms=500).wait()
        self.assertIn(b"got hello", q.out[1])
        q.free()
        q = other.input(o.session, b"\4", yield_ms=5000).wait()
        self.assertTrue(q.session().flags & ffi.SESSION_EXITED)
        q.free()
        self.assertNotIn(o.session, other.sessions())
        other.unref()
        self.fails("NOTFOUND", lambda: self.own.input(o.session).wait())

    def test_a_session_that_was_not_answered_goes_with_its_request(self):
        q = self.own.session("sleep 8881", yield_ms=60000)
        lib.wait_for("it", lambda: self.processes("8881") >= 1)
        q.free()
        lib.wait_for("its end", lambda: self.processes("8881") == 0)

    def test_attach(self):
        q = self.own.session("echo begin; read x; echo end $x; exit 5", flags=ffi.SESSION_STDIN,
                             yield_ms=300).wait()
        session = q.session().session
        q.free()
        q = ffi.Request("session_attach", self.own.p, ctypes.c_uint64(session), None)
        q.write(b"now\n")
        self.assertTrue(q.poll(20))
        self.assertIn(b"end now", q.out[1])
        self.assertEqual(q.exit().code, 5)
        q.free()

    def test_copies(self):
        with open(os.path.join(self.project, "../mine/original"), "wb") as f:
            f.write(b"copied")
        mine = os.path.realpath(os.path.join(self.project, "../mine"))
        ffi.call("copy_in", self.own.p, (mine + "/original").encode(), b"/tmp/in", None)
        ffi.call("copy_out", self.own.p, b"/tmp/in", (mine + "/back").encode())
        with open(mine + "/back", "rb") as f:
            self.assertEqual(f.read(), b"copied")

    def test_a_request_deadline(self):
        q = self.own.start("sleep", "9991", deadline_ms=300)
        self.assertTrue(q.poll(5))
        self.fails("TIMEOUT", ffi.call, "request_wait", q.p, ctypes.c_int64(0), None)
        q.free()
        lib.wait_for("its end", lambda: self.processes("9991") == 0)


if __name__ == "__main__":
    lib.main()
