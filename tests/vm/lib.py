"""What the tests in real machines share: a GLOVEBOX_HOME of their own, the command with a
deadline, a machine to work with, and the leak check.

Environment (set by tests/vm/meson.build): GB_BUILD is the build folder. The image that the tests
use is made once and kept in GB_BUILD/test-cache; boot bundles and templates are shared there too.
A test file is run alone: python3 tests/vm/test_x.py [TestClass.test_name]. GB_KEEP=1 leaves the
home of a failed test.

Nothing waits on sleep alone: what has to come is polled with a deadline.
"""
import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("GB_BUILD", os.path.join(SOURCE, "build")))
GLOVEBOX = os.path.join(BUILD, "glovebox")
CACHE = os.path.join(BUILD, "test-cache")
IMAGE_SOURCE = "debootstrap:bookworm?include=bash,git,python3,procps,sqlite3&variant=minbase"
# another source makes another image
IMAGE = "gbtest-" + hashlib.sha256(IMAGE_SOURCE.encode()).hexdigest()[:8]
SKIPPED = 77

# under TCG on a busy machine a start takes seconds
START_S = 90
COMMAND_S = 60


def environment(home, **more):
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": home,
        "TMPDIR": os.path.join(home, "tmp"),
        "GLOVEBOX_HOME": home,
        "LANG": "C.UTF-8",
        "TERM": "xterm",
    }
    for name in ("GLOVEBOX_KERNEL_DIR", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    env.update(more)
    return env


class Result:
    def __init__(self, args, code, out, err, seconds):
        self.args, self.code, self.out, self.err, self.seconds = args, code, out, err, seconds

    @property
    def text(self):
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def error(self):
        return self.err.decode("utf-8", "surrogateescape")

    def __str__(self):
        return "glovebox %s: exit code %s after %.2f s\nstdout: %r\nstderr: %s" % (
            " ".join(map(str, self.args)), self.code, self.seconds, self.out[-2000:],
            self.error[-4000:])


class Timeout(AssertionError):
    pass


def wait_for(what, condition, seconds=COMMAND_S, step=0.05):
    """Poll until condition() is true; its value. Fails by name at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Timeout("not within %d s: %s" % (seconds, what))
        time.sleep(step)


class Home:
    """A GLOVEBOX_HOME with the cached image, and how to call the command there."""

    living = []

    def __init__(self, share_cache=True):
        self.path = tempfile.mkdtemp(prefix="gbt.", dir="/tmp")
        self.project = os.path.join(self.path, "project")
        # all that is made once and stays, so that it is not taken for a leak
        for name in ("project", "mine", "tmp", "data", "config", "run", "data/machines"):
            os.mkdir(os.path.join(self.path, name), 0o700)
        os.chmod(self.project, 0o755)
        Home.living.append(self)
        prepare_image()
        os.symlink(os.path.join(CACHE, "data/images"), os.path.join(self.path, "data/images"))
        if share_cache:
            os.makedirs(os.path.join(CACHE, "cache"), exist_ok=True)
            os.symlink(os.path.join(CACHE, "cache"), os.path.join(self.path, "cache"))
        with open(os.path.join(self.path, "config/config.toml"), "w") as f:
            f.write('[machine]\ncpus = 2\nmemory = "512M"\n[image]\ndefault = "%s"\n' % IMAGE)

    def popen(self, *args, cwd=None, env=None, **more):
        return subprocess.Popen([GLOVEBOX] + [str(a) for a in args], cwd=cwd or self.project,
                                env=environment(self.path, **(env or {})),
                                start_new_session=True, **more)

    def run(self, *args, input=None, timeout=COMMAND_S, **more):
        """Run to its end; never raises for an exit code."""
        more.setdefault("stdin", subprocess.PIPE if input is not None else subprocess.DEVNULL)
        begin = time.monotonic()
        with self.popen(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as p:
            try:
                out, err = p.communicate(input, timeout=timeout)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(p.pid, signal.SIGKILL)
                out, err = p.communicate()
                result = Result(args, None, out, err, time.monotonic() - begin)
                raise Timeout("over its %d s: %s" % (timeout, result)) from None
        return Result(args, p.returncode, out, err, time.monotonic() - begin)

    def ok(self, *args, **more):
        """Run, demand success; its standard output as text."""
        result = self.run(*args, **more)
        if result.code != 0:
            raise AssertionError(str(result))
        return result.text

    def inspect(self, name):
        """What inspect says, and of a running machine what its supervisor says on top."""
        found = json.loads(self.ok("inspect", "--json", name))[0]
        for key, value in (found.get("status") or {}).items():
            found.setdefault(key, value)
        return found

    def state(self, name):
        for machine in json.loads(self.ok("ls", "--json")):
            if machine["name"] == name:
                return machine["state"]
        return None

    def machine_file(self, name, file):
        return os.path.join(self.path, "data/machines", name, file)

    def pids(self):
        """{pid: command line} of everything that was started in this home."""
        return processes_of(self.path)

    def logs(self):
        text = ""
        base = os.path.join(self.path, "data/machines")
        for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            for log in ("supervisor.log", "console.log"):
                path = os.path.join(base, name, log)
                if os.path.exists(path):
                    with open(path, "rb") as f:
                        tail = f.read()[-1500:].decode("utf-8", "replace")
                    text += "--- %s/%s\n%s\n" % (name, log, tail)
        return text

    def remove(self):
        if self in Home.living:
            Home.living.remove(self)
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(Timeout):
            wait_for("processes to end", lambda: not self.pids(), 10)
        for point in sorted(mounts_below(self.path), reverse=True):
            subprocess.run(["umount", "-l", point], check=False)
        shutil.rmtree(self.path, ignore_errors=True)


# --- the image of the tests -----------------------------------------------------------------

def prepare_image():
    """Make the cached image once, across processes."""
    os.makedirs(os.path.join(CACHE, "data"), exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        env = environment(CACHE)
        os.makedirs(env["TMPDIR"], exist_ok=True)
        found = subprocess.run([GLOVEBOX, "image", "inspect", IMAGE], env=env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if found.returncode == 0:
            return
        print("# making the image of the tests: %s" % IMAGE_SOURCE, flush=True)
        made = subprocess.run([GLOVEBOX, "image", "import", "--name", IMAGE, IMAGE_SOURCE], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=900)
        if made.returncode != 0:
            raise RuntimeError("cannot make the image of the tests:\n"
                               + made.stdout.decode("utf-8", "replace")[-3000:])


# --- what may leak ----------------------------------------------------------------------------

def read_bytes(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def open_files(pid):
    found = []
    with contextlib.suppress(OSError):
        for fd in os.listdir("/proc/%d/fd" % pid):
            with contextlib.suppress(OSError):
                found.append(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
    return found


def processes_of(home):
    """{pid: command line} of processes that carry home in their environment or command line, or
    have a file of it open; not this one and not its ancestors."""
    mine, pid = set(), os.getpid()
    while pid > 1:
        mine.add(pid)
        pid = int(read_bytes("/proc/%d/stat" % pid).rsplit(b")", 1)[1].split()[1] or b"0")
    needle = home.encode()
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in mine:
            continue
        pid = int(name)
        command = read_bytes("/proc/%d/cmdline" % pid)
        inside = needle in command or (b"GLOVEBOX_HOME=" + needle) in read_bytes(
            "/proc/%d/environ" % pid)
        if inside or any(path.startswith(home + "/") for path in open_files(pid)):
            found[pid] = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200] \
                or read_bytes("/proc/%d/comm" % pid).decode().strip()
    return found


def mounts_below(home):
    found = set()
    for line in read_bytes("/proc/self/mountinfo").decode("utf-8", "replace").splitlines():
        point = line.split()[4]
        if point == home or point.startswith(home + "/"):
            found.add(point)
    return found


def device_of(path):
    """What /proc/locks calls the file system of path: mount information is right where stat's
    device is not (overlayfs)."""
    best, device = "", None
    for line in read_bytes("/proc/self/mountinfo").decode("utf-8", "replace").splitlines():
        fields = line.split()
        point = fields[4]
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, device = point, fields[2]
    major, minor = (device or "0:0").split(":")
    return int(major), int(minor)


def locks_below(home, files):
    held = set()
    inodes = {}
    for path in files:
        with contextlib.suppress(OSError):
            st = os.lstat(path)
            for major, minor in (device_of(path), (os.major(st.st_dev), os.minor(st.st_dev))):
                inodes["%02x:%02x:%d" % (major, minor, st.st_ino)] = path
    for line in read_bytes("/proc/locks").decode().splitlines():
        if "->" in line:
            continue
        fields = line.split()
        if fields[5] in inodes:
            held.add("%s of pid %s on %s" % (fields[1], fields[4],
                                             os.path.relpath(inodes[fields[5]], home)))
    return held


def snapshot(home, skip=("project", "mine", "cache")):
    """All that exists below and around a home, by kind; "mine" is for a test's own files."""
    files, sockets = set(), set()
    for folder, folders, names in os.walk(home):
        relative = os.path.relpath(folder, home)
        folders[:] = [f for f in folders if os.path.join(relative, f).lstrip("./") not in skip]
        for name in names + folders:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                kind = os.lstat(path).st_mode & 0o170000
                (sockets if kind == 0o140000 else files).add(path)
    for line in read_bytes("/proc/net/unix").decode("utf-8", "replace").splitlines()[1:]:
        fields = line.split(None, 7)
        if len(fields) > 7 and fields[7].lstrip("@").startswith(home + "/"):
            sockets.add("bound: " + fields[7])
    return {
        "process": {"%d %s" % item for item in processes_of(home).items()},
        "socket": sockets,
        "mount": mounts_below(home),
        "lock": locks_below(home, files),
        "file": files,
    }


def leaks(before, after):
    """What is there and was not, as lines; [] when nothing leaked."""
    return ["%s: %s" % (kind, thing) for kind in sorted(after)
            for thing in sorted(after[kind] - before[kind])]


def leaks_within(home, before, seconds=5):
    """As leaks, after what is ending has had time to end."""
    deadline = time.monotonic() + seconds
    while True:
        found = leaks(before, snapshot(home))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


# --- test cases -------------------------------------------------------------------------------

class MachineTest(unittest.TestCase):
    """A home and a running machine "m" for all tests of a class; nothing may leak from it."""

    machine = "m"
    create = ()  # options of its creation
    share_cache = True
    broken = False

    @classmethod
    def setUpClass(cls):
        cls.home = Home(cls.share_cache)
        cls.project = cls.home.project
        cls.broken = False
        cls.before = snapshot(cls.home.path)
        try:
            if cls.machine:
                cls.home.ok("create", cls.machine, *cls.create)
                cls.home.ok("start", cls.machine, timeout=START_S)
        except BaseException:
            print(cls.home.logs(), file=sys.stderr)
            cls.home.remove()
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            names = cls.home.run("ls", "-q").text.split()
            if names:
                removed = cls.home.run("rm", "-f", *names, timeout=COMMAND_S * 2)
                if removed.code != 0 and not cls.broken:
                    raise AssertionError(str(removed))
            found = leaks_within(cls.home.path, cls.before)
            if found and not cls.broken:
                raise AssertionError("leaked:\n" + "\n".join(found))
        finally:
            if cls.broken and os.environ.get("GB_KEEP"):
                print("# kept: %s" % cls.home.path)
            else:
                cls.home.remove()

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            type(self).broken = True
            print(self.home.logs()[-4000:], file=sys.stderr)

    # shorthands

    def guest(self, script, *options, **more):
        """sh -c script in the machine, at /work."""
        return self.home.run("exec", *options, self.machine, "--", "bash", "-c", script, **more)

    def guest_ok(self, script, *options, **more):
        result = self.guest(script, *options, **more)
        self.assertEqual(result.code, 0, str(result))
        return result.text

    def guest_python(self, program, *arguments, **more):
        """Runs a Python program in the guest; its output, exit code 0 demanded."""
        result = self.home.run("exec", self.machine, "--", "python3", "-c", program, *arguments,
                               **more)
        self.assertEqual(result.code, 0, str(result))
        return result.text

    def put(self, name, content, mode=0o644):
        path = os.path.join(self.project, name)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, mode)
        return path

    def get(self, name):
        with open(os.path.join(self.project, name), "rb") as f:
            return f.read()


class Report(unittest.TextTestResult):
    """Each test as a line of its own that tools/ci-count counts."""

    def line(self, word, test, more=""):
        name = str(test).split(" ")[0]
        if hasattr(test, "_subDescription"):
            name += " " + test._subDescription()
        self.stream.writeln("%s %s%s (%.1f s)" % (word, name, more, time.monotonic() - self.begin))
        self.stream.flush()

    def startTest(self, test):
        self.begin = time.monotonic()
        unittest.TestResult.startTest(self, test)

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.line("ok", test)

    def addFailure(self, test, err):
        unittest.TestResult.addFailure(self, test, err)
        self.begin = getattr(self, "begin", time.monotonic())
        self.line("not ok", test)
        self.stream.writeln(self.failures[-1][1])

    def addError(self, test, err):
        unittest.TestResult.addError(self, test, err)
        self.begin = getattr(self, "begin", time.monotonic())
        self.line("not ok", test)
        self.stream.writeln(self.errors[-1][1])

    def addSkip(self, test, reason):
        unittest.TestResult.addSkip(self, test, reason)
        self.begin = getattr(self, "begin", time.monotonic())
        self.line("ok", test, " # SKIP " + reason)

    def addSubTest(self, test, subtest, err):
        unittest.TestResult.addSubTest(self, test, subtest, err)
        if err:
            self.line("not ok", subtest)
            self.stream.writeln((self.failures + self.errors)[-1][1])

    def printErrors(self):
        pass


def clean_up():
    for home in list(Home.living):
        if not (os.environ.get("GB_KEEP") and MachineTest.broken):
            home.remove()


def main():
    # a test that runs out of its time is ended by SIGTERM: its machines must not live on
    signal.signal(signal.SIGTERM, lambda *ignored: sys.exit(143))
    atexit.register(clean_up)
    if not shutil.which("qemu-system-" + os.uname().machine):
        print("ok all # SKIP no qemu-system-%s here" % os.uname().machine)
        sys.exit(SKIPPED)
    if not os.access(GLOVEBOX, os.X_OK):
        print("not ok %s is not built" % GLOVEBOX)
        sys.exit(1)
    runner = unittest.TextTestRunner(stream=sys.stdout, resultclass=Report, verbosity=0)
    program = unittest.main(module="__main__", testRunner=runner, exit=False)
    sys.exit(0 if program.result.wasSuccessful() else 1)
