"""The project folder inside: /work as a program in the guest sees it, and what must not get out."""
import os
import re
import shutil
import subprocess
import threading
import time

import lib


# one process swaps a folder for a link that leads out, another writes below it all the while
SWAPS = """
import os, sys
os.chdir("/work")
os.mkdir("dir")
child = os.fork()
if child == 0:
    for i in range(500):
        os.rename("dir", "real"); os.symlink(sys.argv[1], "dir")
        os.unlink("dir"); os.rename("real", "dir")
    os._exit(0)
wrote = 0
while os.waitpid(child, os.WNOHANG)[0] == 0:
    try:
        with open("dir/f", "w") as f:
            f.write("x")
        wrote += 1
    except OSError:
        pass
assert wrote
"""


class Share(lib.MachineTest):
    def setUp(self):
        for name in os.listdir(self.project):
            path = os.path.join(self.project, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def test_files_are_the_same_on_both_sides(self):
        self.put("from-host", "h")
        self.assertEqual(self.guest_ok("cat /work/from-host; echo g > /work/from-guest"), "h")
        self.assertEqual(self.get("from-guest"), b"g\n")
        self.assertEqual(os.stat(os.path.join(self.project, "from-guest")).st_uid, os.getuid())

    # https://github.com/kata-containers/kata-containers/issues/9700 , https://github.com/libkrun/libkrun/pull/705
    def test_open_file_after_unlink_and_rename_over(self):
        self.guest_python("""
import os
a = os.open("/work/A", os.O_RDWR | os.O_CREAT, 0o644)
os.unlink("/work/A")
os.ftruncate(a, 131072)
os.pwrite(a, b"hello", 100)
assert os.pread(a, 5, 100) == b"hello" and os.fstat(a).st_size == 131072
os.fchmod(a, 0o600)
assert os.fstat(a).st_mode & 0o777 == 0o600
open("/work/B", "w").write("old B"); open("/work/C", "w").write("new")
b = os.open("/work/B", os.O_RDWR)
os.rename("/work/C", "/work/B")
assert os.fstat(b).st_size == 5
os.fchmod(b, 0o640)
assert os.read(b, 10) == b"old B"
assert open("/work/B").read() == "new"
try:
    t = os.open("/work", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(t, b"tmp")
    # with a folder's descriptor it is linkat with AT_SYMLINK_FOLLOW, as open(2) has it
    os.link("/proc/self/fd/%d" % t, "/work/T", src_dir_fd=os.open("/", os.O_PATH))
    assert open("/work/T").read() == "tmp"
except OSError as e:
    import errno
    assert e.errno == errno.EOPNOTSUPP, e
""")

    # https://github.com/jingkaihe/matchlock/issues/81
    def test_file_made_by_rename(self):
        out = self.guest_ok("echo a > t; mv t u; cat u; mkdir d1; echo b > d1/f; mv d1 d2; cat d2/f;"
                            "(cd d2; mv ../d2 ../d3; cat f)")
        self.assertEqual(out, "a\nb\nb\n")
        self.assertEqual(sorted(os.listdir(self.project)), ["d3", "u"])
        self.guest_python("""
import ctypes, errno, os
os.chdir("/work")
os.makedirs("full/x"); os.mkdir("empty")
try:
    os.rename("empty", "full"); raise SystemExit("renamed over a folder that is not empty")
except OSError as e:
    assert e.errno in (errno.ENOTEMPTY, errno.EEXIST), e
os.rename("full", "empty")
assert os.listdir("empty") == ["x"]
open("one", "w").write("1"); open("two", "w").write("2")
libc = ctypes.CDLL(None, use_errno=True)
def renameat2(a, b, flags):
    return libc.syscall(316, -100, a, -100, b, flags) and ctypes.get_errno()
e = renameat2(b"one", b"two", 2)
if e == 0:
    assert open("one").read() == "2" and open("two").read() == "1"
else:
    assert e == errno.EINVAL, e
assert renameat2(b"one", b"two", 1) == errno.EEXIST
""")

    # https://github.com/arighi/virtme-ng/issues/187 , https://github.com/docker/sbx-releases/issues/502
    def test_host_replaces_a_file(self):
        texts = ["text %d %s\n" % (i, "x" * (i * 7 % 50)) for i in range(51)]
        self.put("f", texts[0])
        script = "while [ ! -e stop ]; do cat f || echo FAILED; done; cat f"
        with self.home.popen("exec", "m", "--", "sh", "-c", script, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
            got = []
            reader = threading.Thread(target=lambda: got.extend(p.stdout))
            reader.start()
            lib.wait_for("the first read", lambda: got)
            for text in texts[1:]:
                seen = len(got)
                self.put("f.tmp", text)
                os.rename(os.path.join(self.project, "f.tmp"), os.path.join(self.project, "f"))
                lib.wait_for("another read", lambda: len(got) > seen)
            newest = texts[-1].encode()
            lib.wait_for("the newest text", lambda: got[-1] == newest, 4)
            self.put("stop", "")
            p.wait(timeout=lib.COMMAND_S)
            reader.join()
        self.assertEqual({g for g in got} - {t.encode() for t in texts}, set())
        self.assertEqual(got[-1], texts[-1].encode())

    def test_host_removes_and_guest_makes_again(self):
        self.put("g", "1")
        self.assertEqual(self.guest_ok("cat g"), "1")
        os.unlink(os.path.join(self.project, "g"))
        self.assertEqual(self.guest_ok("echo 2 > g; cat g"), "2\n")
        self.assertEqual(self.get("g"), b"2\n")
        self.put("size", "long text")
        self.assertEqual(self.guest_ok("cat size"), "long text")
        self.put("size", "short")
        self.assertEqual(self.guest_ok("cat size; stat -c ' %s' size"), "short 5\n")

    def test_git_on_both_sides(self):
        def git(*args):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
                           cwd=self.project, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env=lib.environment(self.home.path))
        git("init", "-q")
        for branch in ("one", "two"):
            git("checkout", "-q", "-b", branch)
            for i in range(20):
                self.put("file%d" % i, "%s %d\n" % (branch, i))
            git("add", ".")
            git("commit", "-q", "-m", branch)
        with self.home.popen("exec", "m", "--", "sh", "-c",
                             "while [ ! -e stop ]; do git status >/dev/null || exit 9; done",
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
            for i in range(10):
                git("checkout", "-q", ("one", "two")[i % 2])
            self.put("stop", "")
            _, err = p.communicate(timeout=lib.COMMAND_S)
        self.assertEqual((p.returncode, err), (0, b""))
        os.unlink(os.path.join(self.project, "stop"))
        out = self.guest_ok("git status --porcelain; git log --oneline | wc -l; cat file3")
        self.assertEqual(out, "2\ntwo 3\n")

    # https://github.com/kata-containers/kata-containers/issues/5634
    def test_mmap(self):
        self.guest_python("""
import mmap, os
f = os.open("/work/m", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(f, 1024)
m = mmap.mmap(f, 1024)
m[0] = 65; m[1023] = 90
m.flush()
m.close()
assert os.fstat(f).st_size == 1024
""")
        data = self.get("m")
        self.assertEqual((len(data), data[:1], data[-1:]), (1024, b"A", b"Z"))

    # https://github.com/openclaw/openclaw/pull/120597 , https://github.com/cachix/devenv/issues/2947
    def test_sqlite_in_wal_mode(self):
        rows = int(os.environ.get("GB_SQLITE_ROWS", "500"))
        out = self.guest_python("""
import os, sqlite3, sys
rows = int(sys.argv[1])
db = sqlite3.connect("/work/t.db")
mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
if mode != "wal":
    print("no wal"); raise SystemExit
db.execute("create table t (w integer, i integer)"); db.commit(); db.close()
def writer(w):
    db = sqlite3.connect("/work/t.db", timeout=300, isolation_level=None)
    for i in range(rows):
        db.execute("insert into t values (?, ?)", (w, i))
    db.close()
children = []
for w in range(4):
    pid = os.fork()
    if pid == 0:
        writer(w); os._exit(0)
    children.append(pid)
reader = sqlite3.connect("/work/t.db", timeout=300)
last = 0
while children:
    n = reader.execute("select count(*) from t").fetchone()[0]
    assert n >= last; last = n
    for pid in list(children):
        if os.waitpid(pid, os.WNOHANG)[0]:
            children.remove(pid)
assert reader.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
print(reader.execute("select count(*) from t").fetchone()[0])
""", str(rows), timeout=300)
        if out != "no wal\n":
            self.assertEqual(out, "%d\n" % (4 * rows))
            found = subprocess.run(["sqlite3", os.path.join(self.project, "t.db"),
                                    "PRAGMA integrity_check; select count(*) from t"],
                                   stdout=subprocess.PIPE, check=True).stdout
            self.assertEqual(found, b"ok\n%d\n" % (4 * rows))

    # https://github.com/earendil-works/gondolin/pull/44 , https://github.com/earendil-works/gondolin/issues/143
    def test_nothing_leads_out(self):
        outside = os.path.join(self.home.path, "mine/outside")
        os.makedirs(os.path.join(outside, "sub"), exist_ok=True)
        with open(os.path.join(outside, "secret"), "w") as f:
            f.write("SECRET")
        mark = time.time_ns()
        os.symlink(outside, os.path.join(self.project, "esc"))
        os.symlink("/etc/hostname", os.path.join(self.project, "abs"))
        os.symlink("../mine/outside/secret", os.path.join(self.project, "rel"))
        result = self.guest("cat esc/secret; cat rel; cat ../mine/outside/secret; echo x > esc/new; "
                            "mkdir esc/d; ln -s %s/secret mine; cat mine; "
                            "ln esc/secret hard; mv esc/secret moved; rm -rf esc/*; cat abs" % outside)
        self.assertNotIn("SECRET", result.text)
        self.assertEqual(result.text.strip(), self.guest_ok("cat /etc/hostname").strip())
        self.guest_python(SWAPS, outside, timeout=180)
        self.assertEqual(sorted(os.listdir(outside)), ["secret", "sub"])
        with open(os.path.join(outside, "secret")) as f:
            self.assertEqual(f.read(), "SECRET")
        for name in ("secret", "sub"):
            self.assertLess(os.stat(os.path.join(outside, name)).st_ctime_ns, mark)

    # https://github.com/docker/for-mac/issues/6243 , https://github.com/ddev/ddev/issues/4829
    def test_one_owner(self):
        subprocess.run(["git", "init", "-q"], cwd=self.project, check=True,
                       env=lib.environment(self.home.path))
        out = self.guest_ok("id -u; for i in $(seq 100); do stat -c %u . .git; done | sort | uniq -c")
        self.assertEqual(out.split(), ["0", "200", "0"])
        self.assertNotIn("dubious", self.guest_ok("git status 2>&1"))
        self.guest_ok("echo x > made; chmod 600 made; echo y > script; chmod +x script")
        made = os.stat(os.path.join(self.project, "made"))
        self.assertEqual((made.st_uid, made.st_mode & 0o777), (os.getuid(), 0o600))
        self.assertTrue(os.stat(os.path.join(self.project, "script")).st_mode & 0o100)
        os.chmod(os.path.join(self.project, "made"), 0o755)
        self.assertEqual(self.guest_ok("stat -c %a made"), "755\n")
        # it shows, or it fails; it never seems to work and reverts
        result = self.guest("chown 1234 made")
        shown = self.guest_ok("stat -c %u made; sleep 1.2; stat -c %u made").split()
        self.assertEqual(shown, ["1234", "1234"] if result.code == 0 else ["0", "0"])
        self.assertEqual(os.stat(os.path.join(self.project, "made")).st_uid, os.getuid())

    def test_opening_with_flags(self):
        self.guest_python("""
import errno, os
os.chdir("/work")
f = os.open("x", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o000)
os.write(f, b"abc"); os.close(f)
assert os.stat("x").st_mode & 0o777 == 0
os.chmod("x", 0o644)
try:
    os.open("x", os.O_CREAT | os.O_EXCL | os.O_WRONLY); raise SystemExit("O_EXCL made it twice")
except FileExistsError:
    pass
a = os.open("x", os.O_WRONLY | os.O_APPEND); b = os.open("x", os.O_WRONLY | os.O_APPEND)
os.write(a, b"1"); os.write(b, b"2"); os.write(a, b"3")
assert open("x").read() == "abc123"
os.link("x", "y")
assert os.stat("x").st_nlink == 2 and os.stat("x").st_ino == os.stat("y").st_ino
open("y", "a").write("4")
assert open("x").read() == "abc1234"
os.unlink("x")
assert os.stat("y").st_nlink == 1
os.truncate("y", 2)
assert open("y").read() == "ab"
os.utime("y", (1, 2))
assert os.stat("y").st_mtime == 2
os.setxattr("y", "user.k", b"v\\0w")
assert os.getxattr("y", "user.k") == b"v\\0w" and os.listxattr("y") == ["user.k"]
os.removexattr("y", "user.k")
name = b"n\\xff\\xfe\\n"
open(name, "w").close()
assert name in os.listdir(b".")
os.mkfifo("fifo")
""")
        self.assertIn(b"n\xff\xfe\n", os.listdir(self.project.encode()))

    def test_locks(self):
        self.guest_python("""
import fcntl, os
os.chdir("/work")
open("l", "w").close()
for take in (lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB),
             lambda f: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)):
    f = open("l", "r+"); take(f)
    if os.fork() == 0:
        try:
            take(open("l", "r+")); os._exit(1)
        except BlockingIOError:
            os._exit(0)
    assert os.wait()[1] == 0
    f.close()
    g = open("l", "r+"); take(g); g.close()
""")

    def test_large_folder(self):
        for i in range(1200):
            open(os.path.join(self.project, "entry-%05d" % i), "w").close()
        out = self.guest_ok("ls | wc -l; ls | sort -u | wc -l; rm -f entry-*; ls | wc -l", timeout=180)
        self.assertEqual(out.split(), ["1200", "1200", "0"])
        self.assertEqual(os.listdir(self.project), [])

    def test_large_file(self):
        out = self.guest_ok("head -c 8M /dev/urandom > big; sha256sum < big", timeout=180)
        digest = subprocess.run(["sha256sum"], stdin=open(os.path.join(self.project, "big"), "rb"),
                                stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(out.encode().split()[0], digest.split()[0])

    def test_package_from_the_share(self):
        folder = os.path.join(self.project, "pkg/DEBIAN")
        os.makedirs(folder)
        with open(os.path.join(folder, "control"), "w") as f:
            f.write("Package: gbtest\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\n"
                    "Description: test\n")
        os.makedirs(os.path.join(self.project, "pkg/opt"))
        with open(os.path.join(self.project, "pkg/opt/gbtest"), "w") as f:
            f.write("installed\n")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", "pkg", "p.deb"], cwd=self.project,
                       check=True, stdout=subprocess.DEVNULL)
        self.guest_ok("dpkg -i /work/p.deb", timeout=180)
        self.home.ok("stop", "m", timeout=lib.START_S)
        self.home.ok("start", "m", timeout=lib.START_S)
        self.assertEqual(self.guest_ok("cat /opt/gbtest; dpkg -s gbtest | grep Status"),
                         "installed\nStatus: install ok installed\n")

    def test_server_is_confined(self):
        pid = self.home.inspect("m")["share_pid"]
        with open("/proc/%d/status" % pid) as f:
            status = f.read()
        self.assertRegex(status, r"Seccomp:\s+2\b")
        self.assertRegex(status, r"NoNewPrivs:\s+1\b")
        # started by root it keeps what acts on files of others: DAC_OVERRIDE and FOWNER
        kept = "%016x" % (0b1010 if os.geteuid() == 0 else 0)
        self.assertEqual(re.search(r"CapEff:\s+(\w+)", status).group(1), kept, status)
        self.assertEqual(re.search(r"CapBnd:\s+(\w+)", status).group(1), "0" * 16, status)


class MoreShares(lib.MachineTest):
    machine = None

    def test_several_and_read_only(self):
        data = os.path.join(self.home.path, "mine/data")
        ro = os.path.join(self.home.path, "mine/ro")
        for folder in (data, ro):
            os.mkdir(folder)
            with open(os.path.join(folder, "f"), "w") as f:
                f.write(os.path.basename(folder))
        self.home.ok("create", "m", "-v", data + ":/data", "-v", ro + ":/srv/ro:ro")
        self.home.ok("start", "m", timeout=lib.START_S)
        out = self.home.ok("exec", "m", "--", "sh", "-c", "cat /data/f /srv/ro/f; echo w > /data/new")
        self.assertEqual(out, "dataro")
        for script in ("echo x > /srv/ro/f", "rm /srv/ro/f", "touch /srv/ro/new", "mkdir /srv/ro/d",
                       "chmod 777 /srv/ro/f", "mv /srv/ro/f /srv/ro/g", "ln /srv/ro/f /srv/ro/h",
                       # a mount that says rw changes nothing: the host refuses
                       "mount -o remount,rw /srv/ro; echo x > /srv/ro/f"):
            with self.subTest(script):
                result = self.home.run("exec", "m", "--", "sh", "-c", script)
                self.assertNotEqual(result.code, 0, str(result))
        self.assertEqual(os.listdir(ro), ["f"])
        with open(os.path.join(ro, "f")) as f:
            self.assertEqual(f.read(), "ro")
        self.assertEqual(sorted(os.listdir(data)), ["f", "new"])
        self.home.ok("rm", "-f", "m")
        shutil.rmtree(data)
        shutil.rmtree(ro)

    def test_missing_host_folder(self):
        result = self.home.run("run", "--rm", "-v", "/no/such/folder:/data", "--", "true",
                               timeout=lib.START_S)
        self.assertEqual(result.code, 125, str(result))
        self.assertIn("/no/such/folder", result.error)


if __name__ == "__main__":
    lib.main()
