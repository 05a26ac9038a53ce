"""Retained sessions and the requests for files, patches and memory, frame by frame."""
import hashlib
import os
import signal
import stat
import time
import unittest

import lib
import wire

LOGIN, TTY, STDIN = 1, 2, 4
EXITED, OOM, IS_TTY, HAS_STDIN = 1, 2, 4, 8
E = {"INVALID": -1, "NOTFOUND": -3, "DENIED": -5, "LIMIT": -6, "BUSY": -7, "TIMEOUT": -8,
     "CLOSED": -9, "STATE": -14, "CANCELLED": -15, "PROTOCOL": -16}


class SessionTest(lib.MachineTest):
    def setUp(self):
        self.client = wire.Client(self.home, "m")
        self.addCleanup(self.client.close)
        self.addCleanup(self.end_all)

    def end_all(self):
        other = wire.Client(self.home, "m")
        other.ask("TERMINATE").wait("OK")
        for info in other.sessions():
            other.input(info.session)
        other.close()

    def refused(self, code, request, *names):
        with self.assertRaises(wire.Refused) as caught:
            request.wait(*(names or ("OK", "EXIT", "SESSION_OUTPUT")))
        self.assertEqual(caught.exception.code, E[code], caught.exception)
        return caught.exception.text

    def running(self, marker):
        """How many processes in the machine carry the marker."""
        return int(self.guest_ok("pgrep -fc '[%s]%s' || true" % (marker[0], marker[1:])))

    def gone(self, marker):
        lib.wait_for("%s to end" % marker, lambda: self.running(marker) == 0)


class Sessions(SessionTest):
    def test_a_command_that_ends_is_answered_with_its_end(self):
        for cmd, code, signo in (("echo hi", 0, 0), ("exit 7", 7, 0), ("kill -9 $$", 137, 9),
                                 ("kill -SEGV $$", 139, 11), ("exit 256", 0, 0),
                                 ("no-such-command-here", 127, 0)):
            for flags in (0, TTY):
                with self.subTest(cmd=cmd, flags=flags):
                    m, out = self.client.session(cmd, flags=flags)
                    self.assertEqual((m.flags & EXITED, m.code, m.signal), (EXITED, code, signo))
                    self.assertGreater(m.spawn_ns, 0)
        self.assertEqual(self.client.sessions(), [])

    def test_both_streams_come_in_order(self):
        _, out = self.client.session("for i in 1 2 3; do echo o$i; echo e$i >&2; done")
        self.assertEqual(out, b"o1\ne1\no2\ne2\no3\ne3\n")

    def test_one_that_yields_lives_on_and_is_polled(self):
        m, out = self.client.session("echo begin; sleep 1.5; echo end; exit 5", yield_ms=300)
        self.assertEqual((m.flags & EXITED, out), (0, b"begin\n"))
        m2, out = self.client.input(m.session, yield_ms=20000)
        self.assertEqual((m2.flags & EXITED, m2.code, out), (EXITED, 5, b"end\n"))
        self.refused("NOTFOUND", self.client.ask("SESSION_INPUT", session=m.session))

    def test_invariant_30_a_session_is_reached_by_another_client(self):
        m, _ = self.client.session("cat", yield_ms=200, flags=TTY)
        self.client.close()
        self.client = wire.Client(self.home, "m")
        _, out = self.client.input(m.session, b"hello\n", yield_ms=1000)
        self.assertIn(b"hello\r\nhello\r\n", out)

    def test_invariant_31_background_children_die_with_the_shell(self):
        begun = time.monotonic()
        m, out = self.client.session(
            "sleep 1234 & setsid sleep 1234 & (trap '' TERM HUP; exec sleep 1234) & echo hi")
        self.assertEqual((out, m.code), (b"hi\n", 0))
        self.assertEqual(self.running("sleep 1234"), 0)
        self.assertLess(time.monotonic() - begun, 10)

    def test_cancelled_before_its_answer_it_goes_with_its_processes(self):
        request = self.client.ask("SESSION_START", cmd="setsid sleep 2345 & sleep 2345",
                                  yield_ms=60000)
        lib.wait_for("it runs", lambda: self.running("sleep 2345") >= 2)
        request.cancel()
        self.refused("CANCELLED", request)
        self.assertEqual(self.running("sleep 2345"), 0)
        self.assertEqual(self.client.sessions(), [])

    def test_its_client_dies_before_the_answer(self):
        other = wire.Client(self.home, "m")
        other.ask("SESSION_START", cmd="sleep 3456", yield_ms=60000)
        lib.wait_for("it runs", lambda: self.running("sleep 3456"))
        other.close()
        self.gone("sleep 3456")

    def test_its_client_dies_after_the_answer(self):
        other = wire.Client(self.home, "m")
        m, _ = other.session("sleep 4567; exit 3", yield_ms=200)
        other.close()
        self.assertGreater(self.running("sleep 4567"), 0)
        self.guest_ok("pkill -f '[s]leep 4567'")
        m, _ = self.client.input(m.session, yield_ms=10000)
        self.assertEqual(m.flags & EXITED, EXITED)

    def test_a_cancelled_poll_leaves_session_and_output(self):
        m, _ = self.client.session("sleep 0.7; echo later; sleep 60", yield_ms=200)
        poll = self.client.ask("SESSION_INPUT", session=m.session, yield_ms=60000)
        lib.wait_for("some output", lambda: self.client.sessions()[0].bytes)
        poll.cancel()
        self.refused("CANCELLED", poll)
        _, out = self.client.input(m.session)
        self.assertEqual(out, b"later\n")

    def test_one_waits_at_a_time(self):
        m, _ = self.client.session("sleep 60", yield_ms=200)
        first = self.client.ask("SESSION_INPUT", session=m.session, yield_ms=60000)
        self.refused("BUSY", self.client.ask("SESSION_INPUT", session=m.session, yield_ms=1))
        first.cancel()
        self.refused("CANCELLED", first)

    def test_invariant_20_sessions_are_independent(self):
        slow = self.client.ask("SESSION_START", cmd="sleep 2", yield_ms=20000)
        begun = time.monotonic()
        self.client.session("true")
        self.assertLess(time.monotonic() - begun, 2)
        self.client.answer(slow)

    def test_held_bytes_come_again(self):
        m, out = self.client.session("printf 'abc\\342\\202'; sleep 0.6; printf '\\254d'; sleep 60",
                                     yield_ms=300)
        self.assertEqual(out, b"abc\xe2\x82")
        self.client.ask("SESSION_HOLD", session=m.session, bytes=2).wait("OK")
        lib.wait_for("the rest", lambda: self.client.sessions()[0].bytes == 7)
        _, out = self.client.input(m.session)
        self.assertEqual(out, "€d".encode())
        self.refused("LIMIT", self.client.ask("SESSION_HOLD", session=m.session, bytes=1000000))

    def test_a_working_directory_and_its_absence(self):
        _, out = self.client.session("pwd", workdir="/usr/lib")
        self.assertEqual(out, b"/usr/lib\n")
        os.makedirs(os.path.join(self.project, "sub"), exist_ok=True)
        _, out = self.client.session("pwd", workdir="sub")
        self.assertEqual(out, b"/work/sub\n")
        text = self.refused("NOTFOUND", self.client.ask("SESSION_START", cmd="pwd", workdir="/no"))
        self.assertIn("/no", text)
        self.assertEqual(self.client.sessions(), [])

    def test_the_tools_environment(self):
        _, out = self.client.session("env", flags=LOGIN, env=["MY_TOKEN=given", "PAGER=less"])
        env = dict(line.split("=", 1) for line in out.decode().splitlines() if "=" in line)
        for name, value in (("TERM", "dumb"), ("PAGER", "cat"), ("LC_ALL", "C.UTF-8"),
                            ("CODEX_CI", "1"), ("MY_TOKEN", "given"), ("COLORTERM", "")):
            self.assertEqual(env.get(name), value, name)


class Limits(SessionTest):
    def test_sixty_four_at_once(self):
        for _ in range(64):
            self.client.session("sleep 600", yield_ms=1)
        text = self.refused("LIMIT", self.client.ask("SESSION_START", cmd="true", yield_ms=9000))
        self.assertIn("64 sessions", text)
        begun = time.monotonic()
        self.client.ask("TERMINATE").wait("OK")
        self.assertLess(time.monotonic() - begun, 10)
        self.assertEqual(self.running("sleep 600"), 0)
        # their ends are kept, until somebody asks or newer ones need the room
        ended = self.client.sessions()
        self.assertEqual({(s.flags & EXITED, s.code) for s in ended}, {(EXITED, 137)})
        for _ in range(3):
            self.client.session("true", yield_ms=1)
        lib.wait_for("the oldest to go", lambda: len(self.client.sessions()) <= 64)

    def test_much_output_is_bounded_and_its_end_is_there(self):
        m, out = self.client.session("echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo last")
        self.assertEqual(m.bytes, 100000000 + 11)
        self.assertEqual((len(out), m.omitted), (1 << 20, m.bytes - (1 << 20)))
        self.assertEqual((out[:6], out[-5:], m.head), (b"first\n", b"last\n", 1 << 19))

    def test_yes_does_not_fill_the_memory(self):
        m, _ = self.client.session("yes", yield_ms=3000)
        memory = self.client.ask("MEMORY").wait("MEMORY_REPLY")
        reply = wire.decode("memory_reply", memory.payload)
        self.assertGreater(reply.available_min_kib, reply.total_kib // 2)
        self.client.ask("TERMINATE", session=m.session).wait("OK")
        m, out = self.client.input(m.session)
        self.assertEqual((m.code, m.signal, len(out)), (137, 9, 1 << 20))

    def test_a_long_line_and_noise(self):
        _, out = self.client.session("head -c 1000000 /dev/zero | tr '\\0' y")
        self.assertEqual(out, b"y" * 1000000)
        _, out = self.client.session("printf 'a\\0b\\377c\\n'; echo end")
        self.assertEqual(out, b"a\0b\xffc\nend\n")

    def test_a_fork_bomb_leaves_the_machine_usable(self):
        m, _ = self.client.session("bomb() { bomb | bomb & }; bomb; sleep 5", yield_ms=3000)
        self.client.ask("TERMINATE").wait("OK", seconds=60)
        self.assertEqual(self.client.session("echo fine")[1], b"fine\n")


class Input(SessionTest):
    def test_without_input_a_command_reads_the_end_at_once(self):
        m, out = self.client.session("cat; echo done", yield_ms=5000)
        self.assertEqual((m.flags & EXITED, out), (EXITED, b"done\n"))
        m, _ = self.client.session("sleep 60", yield_ms=100)
        text = self.refused("STATE", self.client.ask("SESSION_INPUT", session=m.session, chars=b"x"))
        self.assertIn("tty", text)

    def test_a_pipe_takes_input_and_its_end(self):
        m, _ = self.client.session("read a; echo got $a; cat; echo over", flags=STDIN, yield_ms=200)
        self.assertEqual(m.flags & HAS_STDIN, HAS_STDIN)
        _, out = self.client.input(m.session, b"one\n", yield_ms=700)
        self.assertEqual(out, b"got one\n")
        m, out = self.client.input(m.session, b"two\n", flags=1, yield_ms=10000)
        self.assertEqual((m.flags & EXITED, out), (EXITED, b"two\nover\n"))

    def test_keys_without_a_terminal_are_signals(self):
        for chars, signo in ((b"\x03", 2), (b"\x1c", 3)):
            m, _ = self.client.session("sleep 60", yield_ms=200)
            m, _ = self.client.input(m.session, chars, yield_ms=10000)
            self.assertEqual((m.flags & EXITED, m.code), (EXITED, 128 + signo))

    def test_a_terminal_takes_keys(self):
        m, out = self.client.session("python3 -c 'print(input(\"q? \"))'", flags=TTY, yield_ms=1500)
        self.assertIn(b"q? ", out)
        m, out = self.client.input(m.session, b"yes\n", yield_ms=10000)
        self.assertEqual((m.flags & EXITED, m.code), (EXITED, 0))
        self.assertIn(b"yes\r\nyes\r\n", out)
        m, _ = self.client.session("sleep 60", flags=TTY, yield_ms=300)
        m, _ = self.client.input(m.session, b"\x03", yield_ms=10000)
        self.assertEqual((m.flags & EXITED, m.code), (EXITED, 130))

    def test_d12_nothing_is_stopped_by_job_control(self):
        m, _ = self.client.session("bash -i -c 'cat'", flags=TTY, yield_ms=1000)
        m2, _ = self.client.session("set -m; sleep 0.2 & fg", flags=TTY, yield_ms=10000)
        self.assertEqual(m2.flags & EXITED, EXITED)
        self.assertEqual(self.guest_ok("ps -eo stat= | grep -c ^T || true").strip(), "0")
        _, out = self.client.input(m.session, b"typed\n", yield_ms=1000)
        self.assertIn(b"typed\r\ntyped\r\n", out)

    def test_the_terminal_has_a_size_and_can_be_resized(self):
        m, out = self.client.session("stty size; trap 'stty size' WINCH; while :; do sleep .2; done",
                                     flags=TTY, rows=40, cols=100, yield_ms=1000)
        self.assertIn(b"40 100", out)
        _, out = self.client.input(m.session, rows=50, cols=120, yield_ms=2000)
        self.assertIn(b"50 120", out)
        _, out = self.client.session("stty size", flags=TTY)
        self.assertIn(b"24 80", out)

    def test_signals(self):
        m, _ = self.client.session("trap 'echo usr1' USR1; while :; do sleep .1; done", yield_ms=500)
        _, out = self.client.input(m.session, signo=signal.SIGUSR1, yield_ms=1500)
        self.assertIn(b"usr1\n", out)
        self.refused("INVALID", self.client.ask("SESSION_INPUT", session=m.session, signo=999))

    def test_terminate_does_not_wait_for_who_will_not_hear(self):
        m, _ = self.client.session("trap '' TERM HUP INT; stty -echo; setsid sleep 5678 & sleep 5678",
                                   flags=TTY, yield_ms=500)
        for _ in range(8):  # nobody reads: the terminal's input is full
            self.client.input(m.session, b"x" * 3000 + b"\n", yield_ms=1)
        begun = time.monotonic()
        self.client.ask("TERMINATE", session=m.session).wait("OK")
        self.assertLess(time.monotonic() - begun, 5)
        self.assertEqual(self.running("sleep 5678"), 0)
        self.assertEqual(self.client.input(m.session)[0].code, 137)
        self.refused("NOTFOUND", self.client.ask("TERMINATE", session=12345))

    def test_terminate_all_ends_commands_too(self):
        command = self.client.ask("EXEC", argv=["sh", "-c", "sleep 6789"])
        command.wait("STARTED")
        self.client.ask("TERMINATE").wait("OK")
        code = wire.decode("exit", command.wait("EXIT").payload).code
        self.assertEqual(code, 137)


class Attach(SessionTest):
    def test_what_was_and_what_comes_until_its_end(self):
        m, _ = self.client.session("echo before; read x; echo got $x; exit 9", flags=TTY,
                                   yield_ms=500)
        follow = self.client.ask("ATTACH", session=m.session, scrollback=1 << 20, rows=30, cols=90)
        follow.until(lambda r: b"before\r\n" in r.out, "the scrollback")
        self.assertEqual(self.client.sessions()[0].attached, 1)
        follow.data(b"key\n")
        code = wire.decode("exit", follow.wait("EXIT").payload).code
        self.assertEqual(code, 9)
        self.assertIn(b"got key\r\n", follow.out)
        # its end is still there for who asks
        self.assertEqual(self.client.input(m.session)[0].code, 9)

    def test_detaching_leaves_it(self):
        m, _ = self.client.session("while :; do echo tick; sleep .1; done", yield_ms=200)
        follow = self.client.ask("ATTACH", session=m.session, scrollback=5)
        follow.until(lambda r: r.out.count(b"tick") > 3, "ticks")
        follow.cancel()
        flags = wire.decode("exit", follow.wait("EXIT").payload).flags
        self.assertEqual(flags & 4, 4)
        other = wire.Client(self.home, "m")
        other.ask("ATTACH", session=m.session).until(lambda r: b"tick" in r.out, "ticks")
        other.close()
        self.assertEqual(self.client.sessions()[0].flags & EXITED, 0)

    def test_a_slow_follower_stalls_nobody(self):
        m, _ = self.client.session("sleep 1; head -c 20000000 /dev/zero; exit 4", yield_ms=200)
        slow = self.client.ask("ATTACH", credit=False, session=m.session)
        m, _ = self.client.input(m.session, yield_ms=60000)
        self.assertEqual((m.flags & EXITED, m.code, m.bytes), (EXITED, 4, 20000000))
        self.assertLess(len(slow.out), 20000000)
        self.client.send("CREDIT", slow.number, wire.encode("credit", bytes=8 << 20), stream=wire.OUT)
        done = wire.decode("exit", slow.wait("EXIT").payload)
        self.assertEqual(done.code, 4)
        self.assertIn("left out", done.note)

    def test_signals_and_sizes_reach_it(self):
        m, _ = self.client.session("trap 'stty size' WINCH; trap 'exit 6' USR1; while :; do sleep .1; done",
                                   flags=TTY, yield_ms=500)
        follow = self.client.ask("ATTACH", session=m.session)
        self.client.send("WINSIZE", follow.number, wire.encode("winsize", rows=33, cols=77))
        follow.until(lambda r: b"33 77" in r.out, "the size")
        self.client.send("SIGNAL", follow.number, wire.encode("signal", signo=signal.SIGUSR1))
        self.assertEqual(wire.decode("exit", follow.wait("EXIT").payload).code, 6)
        self.refused("NOTFOUND", self.client.ask("ATTACH", session=4242))


class Files(SessionTest):
    def write(self, path, content, mode=0o640, message="FILE_WRITE", **values):
        request = self.client.ask(message, message="file_write", path=path, mode=mode, **values)
        if message == "FILE_WRITE":
            request.data(content, eof=True)
        return request

    def test_invariant_26_a_file_is_written_whole(self):
        for base in ("/root/a/b", "deep/er"):
            with self.subTest(base=base):
                self.write(base + "/f", b"hello", mtime_s=1000000000, flags=1).wait("OK")
                self.assertEqual(self.guest_ok("stat -c '%%a %%Y %%s' %s/f" % base),
                                 "640 1000000000 5\n")
                self.write(base + "/f", b"", mode=0o755).wait("OK")
                self.assertEqual(self.guest_ok("stat -c '%%a %%s' %s/f; ls -A %s" % (base, base)),
                                 "755 0\nf\n")
        self.refused("INVALID", self.write("/tmp", b"x"))
        self.guest_ok("mkfifo -m 666 /root/fifo; ln -s /root/target /root/link")
        self.refused("INVALID", self.write("/root/fifo", b"x"))
        self.write("/root/link", b"x").wait("OK")
        self.assertEqual(self.guest_ok("stat -c %F /root/link; ls /root/target 2>&1 || true")[:12],
                         "regular file")

    def test_nothing_is_left_of_a_file_that_was_not_finished(self):
        for base in ("/root/w", "w"):
            self.guest_ok("mkdir -p %s; echo old > %s/f" % (base, base))
            request = self.client.ask("FILE_WRITE", path=base + "/f", mode=0o600)
            request.data(b"n" * 400000)
            request.until(lambda r: r.granted, "room for more")
            request.cancel()
            self.refused("CANCELLED", request)
            self.assertEqual(self.guest_ok("cat %s/f; ls -A %s" % (base, base)), "old\nf\n")

    def test_as_another_user(self):
        self.refused("DENIED", self.write("/root/nope", b"x", user="nobody"))
        self.write("/tmp/theirs", b"x", user="nobody").wait("OK")
        self.assertEqual(self.guest_ok("stat -c %U /tmp/theirs"), "nobody\n")
        self.guest_ok("install -m 600 /dev/null /root/mine")
        self.refused("DENIED", self.client.ask("FILE_READ", path="/root/mine", user="nobody"))

    def test_folders(self):
        self.write("/root/x/y/z", b"", 0o700, "MKDIR").wait("OK")
        self.write("/root/x/y/z", b"", 0o755, "MKDIR", mtime_s=5, flags=1).wait("OK")
        self.assertEqual(self.guest_ok("stat -c '%a %Y' /root/x/y/z"), "755 5\n")

    def test_invariant_25_only_regular_files_are_read(self):
        self.guest_ok("mkfifo /root/pipe")
        for path in ("/root/pipe", "/dev/zero", "/dev/tty", "/root"):
            with self.subTest(path=path):
                with self.assertRaises(wire.Refused):
                    self.client.ask("FILE_READ", path=path).wait("OK", seconds=10)
        self.refused("NOTFOUND", self.client.ask("FILE_READ", path="/nowhere"))
        self.guest_ok("head -c 1000 /dev/zero > /root/thousand")
        self.refused("LIMIT", self.client.ask("FILE_READ", path="/root/thousand", limit=999))
        request = self.client.ask("FILE_READ", path="/root/thousand", limit=1000)
        request.wait("OK")
        self.assertEqual(request.out, b"\0" * 1000)
        self.refused("STATE", self.client.ask("FILE_READ", path="/proc/self/status"))

    def test_a_large_file_is_streamed(self):
        self.guest_ok("head -c 100000000 /dev/urandom > /root/large")
        want = self.guest_ok("sha256sum < /root/large").split()[0]
        request = self.client.ask("FILE_READ", path="/root/large")
        request.wait("OK", seconds=120)
        info = wire.decode("file_info", request.named("FILE_INFO")[0].payload)
        self.assertEqual((info.size, stat.S_IMODE(info.mode)), (100000000, 0o644))
        self.assertEqual(hashlib.sha256(request.out).hexdigest(), want)


PATCH = """*** Begin Patch
*** Update File: %s
-old
+new
*** End Patch
"""


class Patches(SessionTest):
    def apply(self, text, **values):
        request = self.client.ask("PATCH", **values)
        request.data(text.encode(), eof=True)
        return wire.decode("exit", request.wait("EXIT").payload).code, request.out.decode()

    def test_it_is_applied_or_refused_whole(self):
        self.put("p.txt", "old\n")
        self.assertEqual(self.apply(PATCH % "p.txt"),
                         (0, "Success. Updated the following files:\nM p.txt\n"))
        self.assertEqual(self.get("p.txt"), b"new\n")
        code, text = self.apply(PATCH % "p.txt")
        self.assertEqual(code, 1)
        self.assertIn("expected lines", text)
        self.guest_ok("echo old > /root/outside")
        self.assertEqual(self.apply(PATCH % "/root/outside")[0], 1)
        self.assertEqual(self.apply(PATCH % "/root/outside", flags=1)[0], 0)

    def test_c12_from_a_shell(self):
        os.makedirs(os.path.join(self.project, "c12"), exist_ok=True)
        for name, shell in (("apply_patch", "bash -c"), ("applypatch", "bash -lc"),
                            ("apply_patch", "sh -c")):
            with self.subTest(name=name, shell=shell):
                self.put("c12/f", "old\n")
                text = PATCH % "f"
                script = "cd c12 && %s <<'PATCH-1'\n%sPATCH-1\n" % (name, text)
                result = self.home.run("exec", "m", "--", *shell.split(), script)
                self.assertEqual((result.code, self.get("c12/f")), (0, b"new\n"), str(result))
                m, out = self.client.session("cd c12 && %s \"$(cat)\"" % name, flags=STDIN | LOGIN,
                                             yield_ms=200)
                self.put("c12/f", "old\n")
                m, out = self.client.input(m.session, text.encode(), flags=1, yield_ms=10000)
                self.assertEqual((m.code, self.get("c12/f")), (0, b"new\n"), out)
        self.assertEqual(self.guest("apply_patch nonsense").code, 1)


class Protocol(SessionTest):
    def test_empty_requests(self):
        for request in [self.client.ask("NOP") for _ in range(63)]:
            request.wait("OK")

    def test_memory(self):
        reply = wire.decode("memory_reply", self.client.ask("MEMORY").wait("MEMORY_REPLY").payload)
        self.assertGreater(reply.total_kib, 300000)
        self.assertGreater(reply.available_min_kib, 0)

    def test_who_breaks_the_rules_is_cut_off_alone(self):
        m, _ = self.client.session("sleep 60", yield_ms=200)
        for what in ("unknown type", "malformed", "reused id", "too long"):
            with self.subTest(what=what):
                other = wire.Client(self.home, "m")
                if what == "unknown type":
                    other.send(200, 1)
                elif what == "malformed":
                    request = wire.Request(other, 1, True)
                    other.requests[1] = request
                    other.send("SESSION_START", 1, b"\xff\xff\xff\xff")
                elif what == "reused id":
                    other.send("SESSION_START", 1, wire.encode("session_start", cmd="sleep 7",
                                                               yield_ms=60000))
                    other.send("NOP", 1)
                else:
                    other.sock.sendall(wire.HEADER.pack(1 << 30, wire.TYPES["NOP"], 0, 0, 1))
                if what == "malformed":
                    self.refused("PROTOCOL", request)
                else:
                    with self.assertRaises(wire.Closed):
                        other.until(lambda: False, 10, "an answer")
                other.close()
        self.assertEqual(self.client.input(m.session)[0].flags & EXITED, 0)
        self.client.ask("NOP").wait("OK")


if __name__ == "__main__":
    lib.main()
