"""Commands in a machine: exit codes, streams, terminals, timeouts, signals."""
import hashlib
import os
import pty
import select
import signal
import struct
import subprocess
import fcntl
import termios
import time
import unittest

import lib


class Pty:
    """The command on a terminal of ours."""

    def __init__(self, home, args, rows=40, cols=100):
        master, slave = pty.openpty()
        self.fd = master
        self.output = b""
        self.resize(rows, cols)
        self.mode = termios.tcgetattr(master)

        def controlling():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [lib.GLOVEBOX] + args, stdin=slave, stdout=slave, stderr=slave, cwd=home.project,
            env=lib.environment(home.path), preexec_fn=controlling)
        os.close(slave)

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def write(self, data):
        os.write(self.fd, data)

    def expect(self, text, seconds=lib.COMMAND_S):
        """Read until text has come; it and what was before are taken."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise lib.Timeout("%r did not come within %d s: %r" % (text, seconds, self.output))
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError("ended before %r: %r" % (text, self.output))
            self.output += data
        head, self.output = self.output.split(text, 1)
        return head

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def wait(self, seconds=lib.COMMAND_S):
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            # a terminal that nobody reads would hold the command up
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.output += os.read(self.fd, 65536)
                except OSError:
                    pass
            if time.monotonic() > deadline:
                raise lib.Timeout("the command did not end: %r" % self.output)
        return self.process.returncode


class Run(lib.MachineTest):
    # https://github.com/earendil-works/pi/issues/8992 ,
    # https://github.com/smol-machines/smolvm/pull/324
    def test_exit_code_of_a_killed_command_is_not_success(self):
        self.put("plain", "x", 0o644)
        for script, code in (("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139),
                             ("exit 255", 255), ("exit 256", 0), ("exit 42", 42), ("true", 0)):
            with self.subTest(script):
                self.assertEqual(self.guest(script).code, code)

    def test_exit_code_of_what_cannot_run(self):
        self.put("plain", "x", 0o644)
        for command, code in ((["/no/such/program"], 127), (["no-such-program"], 127),
                              (["/work/plain"], 126), (["/work"], 126)):
            with self.subTest(command):
                result = self.home.run("exec", "m", "--", *command)
                self.assertEqual(result.code, code, str(result))
                self.assertIn(command[0], result.error)
                self.assertEqual(len(result.error.strip().splitlines()), 1, result.error)

    def test_own_failures_are_125(self):
        for args in (["exec", "nobody", "--", "true"], ["run", "--image", "no-such-image-here",
                     "--name", "x", "--", "true"], ["exec", "--no-such-option", "m", "true"]):
            with self.subTest(args):
                result = self.home.run(*args)
                self.assertEqual(result.code, 125, str(result))
                self.assertTrue(result.error.strip())
        self.assertIsNone(self.home.state("x"))

    def test_streams_are_separate(self):
        result = self.guest("echo out; echo err >&2; echo out2")
        self.assertEqual((result.out, result.err), (b"out\nout2\n", b"err\n"), str(result))

    def test_output_comes_as_it_is_written(self):
        script = "echo first; while [ ! -e /work/go ]; do sleep 0.05; done; echo second"
        with self.home.popen("exec", "m", "--", "sh", "-c", script, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            self.assertTrue(select.select([p.stdout], [], [], lib.COMMAND_S)[0])
            self.assertEqual(p.stdout.readline(), b"first\n")
            self.assertIsNone(p.poll())
            self.put("go", "")
            out, _ = p.communicate(timeout=lib.COMMAND_S)
        self.assertEqual((out, p.returncode), (b"second\n", 0))

    # https://github.com/UKGovernmentBEIS/inspect_k8s_sandbox/pull/209
    def test_bytes_that_are_not_text(self):
        result = self.home.run("exec", "m", "--", "printf", r"a\0b\377c")
        self.assertEqual(result.out.hex(), "610062ff63", str(result))
        result = self.guest(r'printf "a\0b\377c\n" >&2; echo end')
        self.assertEqual((result.out, result.err), (b"end\n", b"a\0b\xffc\n"))

    def test_large_random_output(self):
        result = self.guest("head -c 3000000 /dev/urandom | tee /tmp/r; sha256sum /tmp/r >&2")
        self.assertEqual(len(result.out), 3000000)
        self.assertEqual(hashlib.sha256(result.out).hexdigest(), result.error.split()[0])

    def test_input_is_streamed_with_its_end(self):
        data = os.urandom(3000000)
        result = self.home.run("exec", "m", "--", "sha256sum", input=data)
        self.assertEqual(result.text.split()[0], hashlib.sha256(data).hexdigest())
        result = self.home.run("exec", "m", "--", "cat", input=data)
        self.assertEqual(result.out, data)
        self.assertEqual(self.home.run("exec", "m", "--", "cat", input=b"").out, b"")

    def test_without_input_the_command_reads_the_end(self):
        self.assertEqual(self.home.run("exec", "m", "--", "cat").out, b"")

    def test_command_that_does_not_read_its_input(self):
        result = self.home.run("exec", "m", "--", "true", input=bytes(5000000))
        self.assertEqual(result.code, 0, str(result))

    def test_reader_that_goes_away(self):
        with self.home.popen("exec", "m", "--", "yes", stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            p.stdout.read(100)
            p.stdout.close()
            self.assertNotEqual(p.wait(timeout=lib.COMMAND_S), 0)
        lib.wait_for("yes to end", lambda: self.guest("pgrep -x yes").code == 1)

    def test_environment_folder_user(self):
        self.assertEqual(self.guest_ok("echo $A-$B", "-e", "A=1", "-e", "B=x y"), "1-x y\n")
        self.assertEqual(self.guest_ok("pwd", "-w", "/tmp"), "/tmp\n")
        self.assertEqual(self.guest_ok("pwd"), "/work\n")
        self.assertEqual(self.guest_ok("id -un", "-u", "nobody"), "nobody\n")
        self.assertEqual(self.guest_ok("id -u; id -g", "-u", "1234:5678"), "1234\n5678\n")
        result = self.guest("true", "-u", "no-such-user")
        self.assertNotEqual(result.code, 0)
        self.assertIn("no-such-user", result.error)

    def test_arguments_pass_unchanged(self):
        args = ["", "a b", "'\"$HOME`", "\n", "*", "-x", "é", "--"]
        out = self.home.ok("exec", "m", "--", "printf", "[%s]", *args)
        self.assertEqual(out, "".join("[%s]" % a for a in args))

    # https://github.com/openai/codex/pull/6575 , https://github.com/openai/codex/issues/7846
    def test_background_children_hold_nobody_up(self):
        self.guest("pkill -x sleep")
        for script in ("(sleep 60 &) ; echo hi", "sleep 60 & echo hi",
                       "exec > >(tee /tmp/l) 2>&1; echo hi", 'setsid sh -c "sleep 60" & echo hi'):
            with self.subTest(script):
                result = self.guest(script)
                self.assertEqual((result.code, result.out), (0, b"hi\n"), str(result))
                self.assertLess(result.seconds, 3)
        self.assertGreaterEqual(int(self.guest_ok("pgrep -cx sleep")), 3)
        self.guest("pkill -x sleep")

    def test_timeout(self):
        result = self.guest("echo begun; sleep 1000", "--timeout", "1")
        self.assertEqual((result.code, result.out), (124, b"begun\n"), str(result))
        self.assertLess(result.seconds, 8)
        result = self.guest("exit 3", "--timeout", "50")
        self.assertEqual(result.code, 3)

    def test_timeout_ends_what_will_not_hear(self):
        script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 777' & sleep 777; sleep 777"
        result = self.guest(script, "--timeout", "500ms")
        self.assertEqual(result.code, 124, str(result))
        self.assertLess(result.seconds, 20)
        self.assertEqual(self.guest("pgrep -f 'sleep [7]77'").code, 1)

    def interrupt(self, signo, script, wanted):
        with self.home.popen("exec", "m", "--", "bash", "-c", script, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            self.assertEqual(p.stdout.readline(), b"ready\n")
            p.send_signal(signo)
            out, err = p.communicate(timeout=lib.COMMAND_S)
        self.assertEqual((p.returncode, out), wanted, err)

    def test_signals_reach_the_process_group(self):
        script = "trap 'echo got %s; exit 7' %s; echo ready; while :; do sleep 0.1; done"
        for name, signo in (("INT", signal.SIGINT), ("TERM", signal.SIGTERM),
                            ("HUP", signal.SIGHUP)):
            with self.subTest(name):
                self.interrupt(signo, script % (name, name), (7, b"got %s\n" % name.encode()))
        self.interrupt(signal.SIGTERM, "echo ready; sleep 1000", (143, b""))
        self.assertEqual(self.guest("pgrep -x sleep").code, 1)

    def test_killed_client_takes_its_command_along(self):
        with self.home.popen("exec", "m", "--", "bash", "-c", "echo ready; sleep 4321",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as p:
            self.assertEqual(p.stdout.readline(), b"ready\n")
            p.kill()
        lib.wait_for("the command to end", lambda: self.guest("pgrep -f 'sleep [4]321'").code == 1)

    def test_detached_command_lives_on(self):
        result = self.guest("sleep 0.3; echo done > /work/detached; sleep 1234", "-d")
        self.assertEqual(result.code, 0, str(result))
        self.assertLess(result.seconds, 5)
        lib.wait_for("its file", lambda: os.path.exists(os.path.join(self.project, "detached")))
        self.assertEqual(self.guest_ok("pgrep -cf 'sleep [1]234'"), "1\n")
        self.guest("pkill -f 'sleep [1]234'")

    def test_63_at_once_and_the_64th_waits(self):
        def begin():
            return self.home.popen("exec", "m", "--", "sh", "-c", "echo up; cat",
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        running = [begin() for _ in range(63)]
        try:
            for number, p in enumerate(running):
                self.assertTrue(select.select([p.stdout], [], [], lib.COMMAND_S)[0],
                                "number %d did not start" % number)
                self.assertEqual(p.stdout.readline(), b"up\n", p.poll())
            late = begin()
            running.append(late)
            self.assertEqual(select.select([late.stdout], [], [], 1.5)[0], [], "no limit of 63")
            self.assertIsNone(late.poll())
            out, err = running[0].communicate(b"first ends\n", timeout=lib.COMMAND_S)
            self.assertEqual((out, running[0].returncode), (b"first ends\n", 0), err)
            self.assertTrue(select.select([late.stdout], [], [], lib.COMMAND_S)[0])
            self.assertEqual(late.stdout.readline(), b"up\n")
            for number, p in enumerate(running[1:], 1):
                text = b"number %d\n" % number * 1000
                out, err = p.communicate(text, timeout=lib.COMMAND_S)
                self.assertEqual((out, p.returncode), (text, 0), err)
        finally:
            for p in running:
                p.kill()
                p.communicate()

    def test_slow_reader_does_not_stall_its_siblings(self):
        with self.home.popen("exec", "m", "--", "head", "-c", "20000000", "/dev/zero",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as slow:
            slow.stdout.read(1)
            for _ in range(3):
                result = self.guest("head -c 1000000 /dev/zero | wc -c; echo ok")
                self.assertEqual(result.text.split(), ["1000000", "ok"])
            rest = sum(len(d) for d in iter(lambda: slow.stdout.read(65536), b""))
            self.assertEqual((rest, slow.wait(timeout=lib.COMMAND_S)), (19999999, 0))

    # https://github.com/earendil-works/pi/issues/9936 ,
    # https://github.com/OpenHands/software-agent-sdk/issues/3660
    def test_editors_pagers_and_prompts_do_not_hang(self):
        self.guest_ok("rm -rf /tmp/repo; git init -q /tmp/repo; cd /tmp/repo; "
                      "git config user.email a@b; git config user.name a; "
                      "for i in $(seq 30); do git commit -q --allow-empty -m \"commit $i\"; done; "
                      "echo x > f; git add f", timeout=120)
        head = self.guest_ok("git -C /tmp/repo rev-parse HEAD")
        for script, code in (("git commit", None), ("git rebase -i HEAD~2", None),
                             ("git fetch https://127.0.0.1:1/x", None),
                             ('sh -c "read x < /dev/tty"', None), ("git log", 0)):
            with self.subTest(script):
                result = self.guest("cd /tmp/repo; " + script, timeout=30)
                if code is None:
                    self.assertNotEqual(result.code, 0, str(result))
                else:
                    self.assertEqual(result.code, 0)
                    self.assertEqual(result.text.count("    commit "), 30)
                self.assertLess(result.seconds, 10)
        self.assertEqual(self.guest_ok("git -C /tmp/repo rev-parse HEAD"), head)


SIZES = """
import os, signal
def show(*ignored):
    size = os.get_terminal_size(0)
    print("%dx%d" % (size.lines, size.columns), flush=True)
signal.signal(signal.SIGWINCH, show)
signal.signal(signal.SIGINT, lambda *ignored: os._exit(7))
show()
print("ready", flush=True)
while True:
    signal.pause()
"""


class Terminal(lib.MachineTest):
    def terminal(self, *args, **more):
        t = Pty(self.home, ["exec", "-t", "m", "--"] + list(args), **more)
        self.addCleanup(t.close)
        return t

    # https://github.com/docker/sbx-releases/issues/63 ,
    # https://github.com/superradcompany/microsandbox/pull/1190
    def test_size_and_resizes(self):
        # not bash's trap: it loses a signal that comes while the last one's trap runs
        t = self.terminal("python3", "-c", SIZES)
        self.assertIn(b"40x100", t.expect(b"ready"))
        t.resize(50, 120)
        t.expect(b"50x120")
        t.resize(1, 1)
        t.expect(b"1x1")
        t.resize(0, 0)
        t.resize(30, 90)
        t.expect(b"30x90")
        t.write(b"\x03")
        self.assertEqual(t.wait(), 7)

    def test_resize_while_output_is_pending(self):
        t = self.terminal("bash", "-c", "stty size; head -c 300000 /dev/zero | tr '\\0' x; "
                          "read y; stty size")
        t.expect(b"40 100")
        t.resize(60, 140)
        t.expect(b"x" * 1000)
        t.write(b"\n")
        t.expect(b"60 140")
        self.assertEqual(t.wait(), 0)

    def test_it_is_a_terminal(self):
        t = self.terminal("bash", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all; tty; "
                          "echo x > /dev/tty; exit 5")
        t.expect(b"all")
        t.expect(b"x")
        self.assertEqual(t.wait(), 5)

    def test_interactive_shell(self):
        t = self.terminal("bash", "--norc", "-i")
        t.write(b"echo $((6*7))\n")
        t.expect(b"42")
        t.write(b"sleep 2345\n")
        lib.wait_for("sleep", lambda: self.guest("pgrep -f '^sleep 2345'").code == 0)
        t.write(b"\x03")
        t.expect(b"^C")
        t.expect(b"# ")
        t.write(b"echo ag''ain\n")
        t.expect(b"again")
        t.write(b"exit 9\n")
        self.assertEqual(t.wait(), 9)

    def test_end_of_input_from_the_keyboard(self):
        t = self.terminal("sh", "-c", "echo ready; exec cat")
        t.expect(b"ready")
        t.write(b"line\n")
        t.expect(b"line\r\nline")
        t.write(b"\x04")
        self.assertEqual(t.wait(), 0)

    def test_our_terminal_is_as_before(self):
        t = Pty(self.home, ["exec", "-t", "m", "--", "true"])
        self.addCleanup(t.close)
        t.wait()
        self.assertEqual(termios.tcgetattr(t.fd), t.mode)


class OneShot(lib.MachineTest):
    machine = None

    def test_run_with_rm_leaves_nothing(self):
        before = lib.snapshot(self.home.path)
        result = self.home.run("run", "--rm", "--", "sh", "-c", "echo hi; cat /etc/hostname; exit 3",
                               timeout=lib.START_S)
        self.assertEqual((result.code, result.out[:3]), (3, b"hi\n"), str(result))
        self.assertEqual(lib.leaks_within(self.home.path, before), [])

    def test_run_of_a_folder_reuses_its_machine(self):
        self.assertEqual(self.home.run("run", "--", "sh", "-c", "echo kept > /root/f; exit 4",
                                       timeout=lib.START_S).code, 4)
        self.assertEqual(self.home.ok("run", "--", "cat", "/root/f"), "kept\n")
        names = self.home.ok("ls", "-q").split()
        self.assertEqual(len(names), 1)
        other = os.path.join(self.home.path, "project/other")
        os.mkdir(other)
        self.assertEqual(self.home.run("run", "--", "cat", "/root/f", cwd=other,
                                       timeout=lib.START_S).code, 1)
        self.assertEqual(len(self.home.ok("ls", "-q").split()), 2)
        self.home.ok("rm", "-f", *self.home.ok("ls", "-q").split())

    def test_interrupted_run_with_rm_leaves_nothing(self):
        before = lib.snapshot(self.home.path)
        with self.home.popen("run", "--rm", "--", "sh", "-c", "echo up; sleep 1000",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as p:
            self.assertEqual(p.stdout.readline(), b"up\n")
            p.kill()
        self.assertEqual(lib.leaks_within(self.home.path, before, 10), [])


if __name__ == "__main__":
    lib.main()
