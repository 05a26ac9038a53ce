#!/usr/bin/env python3
"""Real programs on a folder that is mounted through glovebox-share by the host's own kernel.

    mounted.py SERVER MOUNT_SHARE CASE      run one case (77: skipped aloud)
    mounted.py --inside CASE HOST GUEST     the part that runs with the mount in place

HOST is the folder itself, GUEST the mount of it: what a case does below HOST is an edit on
the host, below GUEST an act of the guest. A case is a function of this file; a plain assert
is its verdict."""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
OWNER = (1234, 5678)
CASES = {}


def case(mode="rw", seconds=60, user=None):
    def add(f):
        CASES[f.__name__] = (f, mode, seconds, user)
        return f

    return add


def write(path, data, flags="w"):
    with open(path, flags + ("b" if isinstance(data, bytes) else "")) as f:
        f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def fails(code, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except OSError as e:
        assert e.errno == code, f"{f.__name__}{args}: {e}"
    else:
        raise AssertionError(f"{f.__name__}{args} should fail with {errno.errorcode[code]}")


def renameat2(a, b, flags):
    if LIBC.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags) < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


def git(*args, cwd):
    env = dict(os.environ, HOME="/nonexistent", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_COUNT="1",
               GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")
    for who in ("AUTHOR", "COMMITTER"):
        env[f"GIT_{who}_NAME"] = "a"
        env[f"GIT_{who}_EMAIL"] = "a@example"
    r = subprocess.run(["git", "-c", "init.defaultBranch=main", *args], cwd=cwd, env=env,
                       check=False, capture_output=True, text=True)
    assert r.returncode == 0, f"git {args}: {r.stderr}"
    return r.stdout


def children(*functions):
    """Run each in a process of its own; all must end well."""
    pids = []
    for f in functions:
        pid = os.fork()
        if pid == 0:
            try:
                f()
                os._exit(0)
            except BaseException as e:  # noqa: BLE001 - it is reported, and the child ends
                print(f"child: {e!r}", file=sys.stderr, flush=True)
                os._exit(1)
        pids.append(pid)
    bad = [p for p in pids if os.waitpid(p, 0)[1] != 0]
    assert not bad, f"{len(bad)} children failed"


@case()
def unlinked_and_replaced(host, guest):
    a, b, c = (os.path.join(guest, n) for n in "abc")
    fd = os.open(a, os.O_RDWR | os.O_CREAT)
    os.unlink(a)
    os.ftruncate(fd, 131072)
    os.pwrite(fd, b"kept", 4096)
    assert os.pread(fd, 4, 4096) == b"kept"
    os.fchmod(fd, 0o640)
    st = os.fstat(fd)
    assert (st.st_size, st.st_mode & 0o777, st.st_nlink) == (131072, 0o640, 0), st
    os.utime(fd, (1, 2))
    assert os.fstat(fd).st_mtime == 2
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    os.pwrite(again, b"more", 0)
    assert os.pread(fd, 4, 0) == b"more"
    os.close(again)
    os.close(fd)
    write(b, "old text")
    write(c, "new")
    fd = os.open(b, os.O_RDWR)
    os.rename(c, b)
    os.fchmod(fd, 0o600)
    assert os.fstat(fd).st_size == 8 and os.pread(fd, 100, 0) == b"old text"
    os.ftruncate(fd, 3)
    assert os.fstat(fd).st_size == 3 and read(b) == b"new"
    os.close(fd)
    # a folder that is gone while somebody stands in it
    d = os.path.join(guest, "d")
    os.mkdir(d)
    dfd = os.open(d, os.O_RDONLY)
    os.rmdir(d)
    assert os.listdir(dfd) == [] and os.fstat(dfd).st_mode & stat.S_IFDIR
    fails(errno.ENOENT, os.mkdir, "x", dir_fd=dfd)
    os.close(dfd)
    # removed on the host while open in the guest
    fd = os.open(b, os.O_RDWR)
    os.unlink(os.path.join(host, "b"))
    os.pwrite(fd, b"NEW", 0)
    assert os.pread(fd, 3, 0) == b"NEW" and os.fstat(fd).st_nlink == 0
    os.close(fd)
    fails(errno.ENOENT, os.stat, b)


@case()
def tmpfile(host, guest):
    try:
        fd = os.open(guest, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError as e:
        assert e.errno == errno.EOPNOTSUPP, e
        return
    os.write(fd, b"from nowhere")
    assert os.listdir(guest) == []
    # os.link would not follow
    assert LIBC.linkat(-100, b"/proc/self/fd/%d" % fd, -100, os.fsencode(f"{guest}/named"), 0x400) == 0
    os.pwrite(fd, b"FROM", 0)
    os.close(fd)
    assert read(os.path.join(host, "named")) == b"FROM nowhere"
    assert read(os.path.join(guest, "named")) == b"FROM nowhere"


@case()
def renames(host, guest):
    os.chdir(guest)
    out = subprocess.run(["sh", "-ec", "echo a > t; mv t u; cat u; mkdir d1; echo b > d1/f; mv d1 d2; "
                          "cat d2/f; (cd d2; mv ../d2 ../d3; cat f)"], check=True, capture_output=True)
    assert out.stdout == b"a\nb\nb\n", out
    assert sorted(os.listdir(host)) == ["d3", "u"]
    os.mkdir("e")
    fails(errno.ENOTEMPTY, os.rename, "e", "d3")
    fails(errno.EISDIR, os.rename, "u", "e")
    fails(errno.ENOTDIR, os.rename, "e", "u")
    os.rename("e", "e2")
    os.mkdir("e3")
    os.rename("e2", "e3")
    fails(errno.EINVAL, os.rename, "d3", "d3/inside")
    write("x", "x")
    fails(errno.EEXIST, renameat2, "x", "u", RENAME_NOREPLACE)
    renameat2("x", "u", RENAME_EXCHANGE)
    assert read("x") == b"a\n" and read("u") == b"x"
    renameat2("d3", "u", RENAME_EXCHANGE)
    assert read("u/f") == b"b\n" and read("d3") == b"x"
    renameat2("x", "y", RENAME_NOREPLACE)
    assert read(f"{host}/y") == b"a\n"
    # deep below a folder that moves
    os.makedirs("p/q/r")
    write("p/q/r/f", "deep")
    fd = os.open("p/q/r/f", os.O_RDONLY)
    os.rename("p/q", "moved")
    assert read("moved/r/f") == b"deep" and os.pread(fd, 4, 0) == b"deep"
    os.close(fd)
    os.rename(f"{host}/moved", f"{host}/hostmoved")
    assert read("hostmoved/r/f") == b"deep"
    fails(errno.ENOENT, os.stat, "moved/r/f")


@case()
def host_replaces(host, guest):
    f, g = os.path.join(guest, "f"), os.path.join(guest, "g")
    texts = [("%02d" % i) * (1000 + i) for i in range(51)]
    write(f"{host}/f", texts[0])
    seen = []

    def reader():
        known = set(texts)
        while True:
            t = open(f).read()
            assert t in known, f"torn: {len(t)} bytes"
            if t == texts[-1]:
                return

    def writer():
        for t in texts[1:]:
            write(f"{host}/f.tmp", t)
            os.rename(f"{host}/f.tmp", f"{host}/f")
            assert open(f).read() == t, "an old file after it was replaced"

    children(reader, writer)
    for i in range(20):
        write(g, f"guest {i}")
        os.unlink(f"{host}/g")
        fails(errno.ENOENT, open, g)
        with open(g, "x") as x:
            x.write("again")
        assert read(f"{host}/g") == b"again"
        os.rename(f"{host}/g", f"{host}/h")
    assert not seen


@case()
def host_edits_in_place(host, guest):
    f = os.path.join(guest, "f")
    write(f"{host}/f", "0" * 5000)
    fd = os.open(f, os.O_RDWR)
    for i in range(200):
        text = ("%05d" % i).encode() * 1000
        with open(f"{host}/f", "r+b") as h:  # same size, within one tick of the clock
            h.write(text)
        assert read(f) == text, i
        st = os.stat(f)
        assert st.st_mtime_ns == os.stat(f"{host}/f").st_mtime_ns
    for i in range(50):
        with open(f"{host}/f", "ab") as h:
            h.write(b"tail%03d" % i)
        size = os.fstat(fd).st_size
        assert size == 5000 + 7 * (i + 1)
        assert os.pread(fd, 7, size - 7) == b"tail%03d" % i
    os.truncate(f"{host}/f", 10)
    assert len(os.pread(fd, 100, 0)) == 10 and os.stat(f).st_size == 10
    os.chmod(f"{host}/f", 0o751)
    assert os.stat(f).st_mode & 0o777 == 0o751
    # both append: nothing is lost
    a = os.open(f, os.O_WRONLY | os.O_APPEND)
    for i in range(100):
        os.write(a, b"g%03d\n" % i)
        with open(f"{host}/f", "ab") as h:
            h.write(b"h%03d\n" % i)
    lines = read(f)[10:].split()
    assert len(lines) == 200 and len(set(lines)) == 200
    assert read(f) == read(f"{host}/f")


@case(seconds=120)
def host_git_checkout(host, guest):
    git("init", ".", cwd=host)
    for branch, n in (("main", 40), ("other", 60)):
        if branch == "other":
            git("checkout", "-b", "other", cwd=host)
        for i in range(n):
            os.makedirs(f"{host}/d{i % 7}", exist_ok=True)
            write(f"{host}/d{i % 7}/f{i}", f"{branch} {i}\n" * 50)
        git("add", "-A", cwd=host)
        git("commit", "-m", branch, cwd=host)

    def status():
        for _ in range(10):
            git("--no-optional-locks", "status", "--porcelain", cwd=guest)

    def checkout():
        for i in range(12):
            git("checkout", "-f", ("main", "other")[i % 2], cwd=host)

    children(status, checkout)
    assert git("status", "--porcelain", cwd=guest) == ""
    assert read(f"{guest}/d0/f0") == b"other 0\n" * 50


@case()
def mapped(host, guest):
    f = os.path.join(guest, "m")
    fd = os.open(f, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 1024)
    with mmap.mmap(fd, 1024, mmap.MAP_SHARED) as m:
        m[0], m[1023] = 65, 66
        m.flush()
    assert os.fstat(fd).st_size == 1024
    data = read(f"{host}/m")
    assert len(data) == 1024 and data[0] == 65 and data[1023] == 66
    # a mapping of a file in append mode writes to its place, not to the end
    os.close(fd)
    fd = os.open(f, os.O_RDWR | os.O_APPEND)
    with mmap.mmap(fd, 1024, mmap.MAP_SHARED) as m:
        m[1] = 67
        m.flush()
    os.write(fd, b"end")
    os.close(fd)
    data = read(f"{host}/m")
    assert len(data) == 1027 and data[1] == 67 and data.endswith(b"end")
    # written by one process, seen by another
    with open(f, "r+b") as x, mmap.mmap(x.fileno(), 1027, mmap.MAP_SHARED) as m:
        def other():
            with open(f, "r+b") as y, mmap.mmap(y.fileno(), 1027, mmap.MAP_SHARED) as n:
                n[500] = 77
        children(other)
        assert m[500] == 77


@case(seconds=240)
def sqlite_wal(host, guest):
    db = os.path.join(guest, "t.db")
    c = sqlite3.connect(db, timeout=60)
    assert c.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    c.execute("create table t (p int, i int)")
    c.commit()
    c.close()
    each = int(os.environ.get("GB_SQLITE_INSERTS", "500"))

    def writer(p):
        def run():
            k = sqlite3.connect(db, timeout=60)
            k.execute("PRAGMA synchronous=NORMAL")
            for i in range(each):
                k.execute("insert into t values (?, ?)", (p, i))
                k.commit()
            k.close()
        return run

    def reader():
        k = sqlite3.connect(db, timeout=60)
        n = 0
        while n < 4 * each:
            m = k.execute("select count(*) from t").fetchone()[0]
            assert m >= n
            n = m
        k.close()

    children(*(writer(p) for p in range(4)), reader)
    for path in (db, f"{host}/t.db"):
        c = sqlite3.connect(path, timeout=60)
        assert c.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert c.execute("select count(*) from t").fetchone() == (4 * each,)
        c.close()


@case(seconds=120)
def contained(host, guest):
    outside = tempfile.mkdtemp(prefix="gb-outside-")
    try:
        write(f"{outside}/secret", "secret")
        os.symlink(outside, f"{host}/esc")
        os.symlink("/etc/hostname", f"{host}/abs")
        # the guest sees text; what it means is decided where it is followed, here: by this
        # kernel in this namespace, so only the text is compared
        assert os.readlink(f"{guest}/esc") == outside and os.readlink(f"{guest}/abs") == "/etc/hostname"
        os.symlink("../../../etc/passwd", f"{guest}/own")
        assert os.readlink(f"{host}/own") == "../../../etc/passwd"
        fails(errno.ELOOP, os.open, f"{guest}/own", os.O_RDONLY | os.O_NOFOLLOW)
        # a folder that the host swaps for a link out, while the guest works below it
        os.mkdir(f"{host}/real")
        os.mkdir(f"{host}/d")
        os.symlink(outside, f"{host}/link")
        stop = time.monotonic() + 5

        def swap():
            while time.monotonic() < stop:
                renameat2(f"{host}/d", f"{host}/link", RENAME_EXCHANGE)

        def work():
            # O_NOFOLLOW and a descriptor: the server alone decides where d leads
            n = 0
            while time.monotonic() < stop:
                try:
                    d = os.open(f"{guest}/d", os.O_PATH | os.O_NOFOLLOW)
                except OSError:
                    continue
                for f in (lambda: os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=d)),
                          lambda: os.unlink("f", dir_fd=d), lambda: os.mkdir("g", dir_fd=d),
                          lambda: os.chmod("secret", 0o777, dir_fd=d),
                          lambda: os.rename("secret", "x", src_dir_fd=d, dst_dir_fd=d)):
                    try:
                        if stat.S_ISDIR(os.fstat(d).st_mode):
                            f()
                            n += 1
                    except OSError:
                        pass
                os.close(d)
            assert n > 50, f"only {n} calls got through"

        children(swap, work, work)
        assert os.listdir(outside) == ["secret"]
        assert os.stat(f"{outside}/secret").st_mode & 0o777 == 0o644
    finally:
        shutil.rmtree(outside)


@case()
def owners(host, guest):
    git("init", ".", cwd=host)
    write(f"{guest}/f", "x")
    seen = {(os.stat(p).st_uid, os.stat(p).st_gid) for _ in range(250)
            for p in (guest, f"{guest}/.git", f"{guest}/f")}
    assert seen == {OWNER}, seen
    me = (os.stat(host).st_uid, os.stat(host).st_gid)
    st = os.stat(f"{host}/f")
    assert (st.st_uid, st.st_gid) == me
    for mode in (0o600, 0o755, 0o644, 0o000, 0o4, 0o1777):
        os.chmod(f"{guest}/f", mode)
        assert stat.S_IMODE(os.stat(f"{guest}/f").st_mode) == mode
        assert stat.S_IMODE(os.stat(f"{host}/f").st_mode) == mode
    os.chmod(f"{host}/f", 0o711)
    assert stat.S_IMODE(os.stat(f"{guest}/f").st_mode) == 0o711
    # the same owner: nothing to do; another one: remembered, and hidden as an attribute
    os.chown(f"{guest}/f", *OWNER)
    assert os.listxattr(f"{host}/f") == []
    os.mkdir(f"{guest}/d")
    for p in ("f", "d"):
        os.chown(f"{guest}/{p}", 7, -1)
        for _ in range(3):
            st = os.stat(f"{guest}/{p}")
            assert (st.st_uid, st.st_gid) == (7, OWNER[1])
        os.chown(f"{guest}/{p}", -1, 9)
        assert (os.stat(f"{guest}/{p}").st_uid, os.stat(f"{guest}/{p}").st_gid) == (7, 9)
        st = os.stat(f"{host}/{p}")
        assert (st.st_uid, st.st_gid) == me
        assert os.listxattr(f"{guest}/{p}") == []
        fails(errno.ENODATA, os.getxattr, f"{guest}/{p}", "user.glovebox.owner")
        fails(errno.EPERM, os.setxattr, f"{guest}/{p}", "user.glovebox.owner", b"0:0")
        os.rename(f"{guest}/{p}", f"{guest}/{p}2")
        assert os.stat(f"{guest}/{p}2").st_uid == 7
        os.chown(f"{guest}/{p}2", *OWNER)
        assert os.listxattr(f"{host}/{p}2") == []
    os.symlink("x", f"{guest}/l")
    os.lchown(f"{guest}/l", *OWNER)
    fails(errno.EPERM, os.lchown, f"{guest}/l", 7, 7)
    assert os.lstat(f"{guest}/l").st_uid == OWNER[0]


@case()
def setuid_refused(host, guest):
    f = f"{guest}/f"
    write(f, "#!/bin/sh\n")
    fails(errno.EPERM, os.chmod, f, 0o4755)
    fails(errno.EPERM, os.chmod, f, 0o2755)
    fails(errno.EPERM, os.mknod, f"{guest}/g", 0o4644 | stat.S_IFREG)
    fails(errno.EPERM, os.open, f"{guest}/h", os.O_CREAT | os.O_WRONLY, 0o4755)
    os.mkdir(f"{guest}/d")
    os.chmod(f"{guest}/d", 0o2775)
    assert os.stat(f"{host}/d").st_mode & 0o7777 == 0o2775
    # one that the host made loses it when the guest writes to it or takes it over
    for change in (lambda: write(f, "new"), lambda: os.truncate(f, 1), lambda: os.chown(f, 5, 5)):
        os.chmod(f"{host}/f", 0o4755)
        change()
        assert os.stat(f"{host}/f").st_mode & 0o7777 == 0o755
    fails(errno.EPERM, os.mknod, f"{guest}/dev", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    fails(errno.EPERM, os.mknod, f"{guest}/dev", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
    assert sorted(os.listdir(host)) == ["d", "f"]


@case()
def modes(host, guest):
    for mode in (0o000, 0o444, 0o200, 0o111, 0o777):
        f = f"{guest}/m{mode:o}"
        old = os.umask(0)
        fd = os.open(f, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        os.umask(old)
        os.write(fd, b"text")
        assert os.pread(fd, 4, 0) == b"text"
        os.ftruncate(fd, 2)
        os.close(fd)
        assert os.stat(f"{host}/m{mode:o}").st_mode & 0o7777 == mode
        fails(errno.EEXIST, os.open, f, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        os.unlink(f)
    for mask, want in ((0o022, 0o644), (0o077, 0o600), (0, 0o666)):
        old = os.umask(mask)
        write(f"{guest}/u", "x")
        os.mkdir(f"{guest}/ud")
        os.umask(old)
        assert os.stat(f"{host}/u").st_mode & 0o777 == want
        assert os.stat(f"{host}/ud").st_mode & 0o777 == 0o777 & ~mask
        os.unlink(f"{guest}/u")
        os.rmdir(f"{guest}/ud")
    # O_APPEND among processes: whole lines, none lost
    def appender(c):
        def run():
            fd = os.open(f"{guest}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            for i in range(300):
                os.write(fd, b"%c%06d\n" % (c, i))
        return run
    children(*(appender(c) for c in b"abcd"))
    lines = read(f"{host}/log").split()
    assert len(lines) == 1200 and len(set(lines)) == 1200
    # O_TRUNC, times
    write(f"{guest}/log", "")
    assert os.stat(f"{host}/log").st_size == 0
    os.utime(f"{guest}/log", ns=(123456789, 987654321))
    st = os.stat(f"{host}/log")
    assert (st.st_atime_ns, st.st_mtime_ns) == (123456789, 987654321)
    os.symlink("nowhere", f"{guest}/s")
    os.utime(f"{guest}/s", ns=(5, 6), follow_symlinks=False)
    assert os.lstat(f"{host}/s").st_mtime_ns == 6
    assert os.statvfs(guest).f_blocks == os.statvfs(host).f_blocks


@case()
def hard_links(host, guest):
    write(f"{guest}/a", "one")
    os.link(f"{guest}/a", f"{guest}/b")
    a, b = os.stat(f"{guest}/a"), os.stat(f"{guest}/b")
    assert a.st_ino == b.st_ino and a.st_nlink == b.st_nlink == 2
    write(f"{guest}/b", "two", "a")
    assert read(f"{guest}/a") == b"onetwo"
    os.unlink(f"{guest}/a")
    assert read(f"{guest}/b") == b"onetwo" and os.stat(f"{guest}/b").st_nlink == 1
    os.mkdir(f"{guest}/d")
    os.link(f"{guest}/b", f"{guest}/d/c")
    os.rename(f"{guest}/b", f"{guest}/d/c")  # two names of one file: nothing happens
    assert os.path.exists(f"{host}/b")
    fails(errno.EEXIST, os.link, f"{guest}/b", f"{guest}/d/c")
    os.symlink("b", f"{guest}/s")
    os.link(f"{guest}/s", f"{guest}/s2", follow_symlinks=False)
    assert os.readlink(f"{host}/s2") == "b"
    fails(errno.EPERM, os.link, f"{guest}/d", f"{guest}/d2")


@case()
def locks(host, guest):
    f = f"{guest}/lock"
    write(f, "0" * 100)

    def counted(lock, unlock):
        def run():
            fd = os.open(f, os.O_RDWR)
            for _ in range(100):
                lock(fd)
                n = int(os.pread(fd, 10, 0))
                os.pwrite(fd, b"%010d" % (n + 1), 0)
                unlock(fd)
        return run

    for lock, unlock in ((lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), lambda fd: fcntl.flock(fd, fcntl.LOCK_UN)),
                         (lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX, 10), lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN, 10))):
        write(f, "0" * 100)
        children(*[counted(lock, unlock)] * 4)
        assert int(read(f)[:10]) == 400
    fd = os.open(f, os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX)

    def refused():
        other = os.open(f, os.O_RDWR)
        fails(errno.EAGAIN, fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    children(refused)


@case()
def names(host, guest):
    g, h = os.fsencode(guest), os.fsencode(host)
    odd = [bytes([b]) for b in range(1, 256) if b not in b"/."] + [b"\xff\xfe\xc3\x28", b"a b\n\tc", b"-rf", b"...",
           b"n" * 255, "ü".encode(), "u\u0308".encode()]
    for n in odd:
        write(g + b"/" + n, n)
    assert sorted(os.listdir(g)) == sorted(odd) == sorted(os.listdir(h))
    for n in odd:
        assert read(h + b"/" + n) == n
        os.rename(g + b"/" + n, g + b"/tmp.x")
        os.rename(g + b"/tmp.x", g + b"/" + n)
        os.unlink(g + b"/" + n)
    fails(errno.ENAMETOOLONG, os.mkdir, g + b"/" + b"n" * 256)
    fails(errno.ENAMETOOLONG, os.stat, g + b"/" + b"n" * 300)
    os.symlink(b"\xff/" + b"y" * 4000, g + b"/l")
    assert os.readlink(g + b"/l") == b"\xff/" + b"y" * 4000


@case()
def xattrs(host, guest):
    write(f"{guest}/f", "x")
    os.mkdir(f"{guest}/d")
    for p in ("f", "d"):
        g, h = f"{guest}/{p}", f"{host}/{p}"
        os.setxattr(g, "user.a", b"1\x002")
        os.setxattr(g, "user.empty", b"")
        assert os.getxattr(h, "user.a") == b"1\x002" == os.getxattr(g, "user.a")
        assert os.getxattr(g, "user.empty") == b""
        assert sorted(os.listxattr(g)) == ["user.a", "user.empty"]
        fails(errno.EEXIST, os.setxattr, g, "user.a", b"", os.XATTR_CREATE)
        fails(errno.ENODATA, os.setxattr, g, "user.b", b"", os.XATTR_REPLACE)
        os.removexattr(g, "user.a")
        fails(errno.ENODATA, os.getxattr, g, "user.a")
        for n in ("trusted.x", "security.x"):
            fails(errno.EOPNOTSUPP, os.setxattr, g, n, b"x")
        for n in ("trusted.x", "system.posix_acl_access", "security.capability"):
            fails(errno.EOPNOTSUPP, os.getxattr, g, n)
    big = b"v" * 3000
    os.setxattr(f"{guest}/f", "user.big", big)
    assert os.getxattr(f"{host}/f", "user.big") == big
    os.chown(f"{guest}/f", 3, 4)
    assert sorted(os.listxattr(f"{guest}/f")) == ["user.big", "user.empty"]


@case(seconds=180)
def big_folder(host, guest):
    n = 50000
    d, h = f"{guest}/big", f"{host}/big"
    os.mkdir(h)
    for i in range(n):
        os.close(os.open(f"{h}/file-{i:06d}-{'x' * (i % 40)}", os.O_CREAT | os.O_WRONLY))
    want = os.listdir(h)
    assert sorted(os.listdir(d)) == sorted(want)
    # listed while it changes: what stays is listed exactly once
    stay = set(want[::2])
    seen = []
    with os.scandir(d) as it:
        for i, e in enumerate(it):
            seen.append(e.name)
            if i % 5 == 0 and i < len(want) // 2:
                gone = want[2 * i + 1]
                if os.path.exists(f"{h}/{gone}"):
                    os.unlink((d if i % 2 else h) + "/" + gone)
                os.close(os.open(f"{h}/new-{i}", os.O_CREAT | os.O_WRONLY))
    assert len(seen) == len(set(seen)), "a name came twice"
    assert stay <= set(seen), f"{len(stay - set(seen))} names were left out"
    fd = os.open(d, os.O_RDONLY)
    first = sorted(os.listdir(fd))
    os.lseek(fd, 0, os.SEEK_SET)
    assert sorted(os.listdir(fd)) == first
    os.close(fd)
    shutil.rmtree(d)
    assert os.listdir(host) == []


@case(seconds=180)
def many_files(host, guest):
    # more folders than the server keeps open, then all of them again, from the far end
    paths = [f"a{i % 50}/b{i % 97}/c{i}" for i in range(6000)]
    for p in paths:
        os.makedirs(f"{host}/{p}")
        write(f"{host}/{p}/f", p)
    fds = [os.open(f"{guest}/{p}", os.O_PATH) for p in paths[::2]]
    for p in reversed(paths):
        assert read(f"{guest}/{p}/f") == p.encode()
    for p, fd in zip(paths[::2], fds):
        f = os.open("f", os.O_RDONLY, dir_fd=fd)
        assert os.read(f, 100) == p.encode()
        os.close(f)
        os.close(fd)
    # the host moves the tops away and back: what is open stays right
    fds = [os.open(f"{guest}/{p}", os.O_PATH) for p in paths[:100]]
    os.rename(f"{host}/a0", f"{host}/z0")
    assert read(f"{guest}/z0/b0/c0/f") == b"a0/b0/c0"
    fails(errno.ENOENT, read, f"{guest}/a0/b0/c0/f")
    os.rename(f"{host}/z0", f"{host}/a0")
    for p, fd in zip(paths[:100], fds):
        f = os.open("f", os.O_RDONLY, dir_fd=fd)
        assert os.read(f, 100) == p.encode()
        os.close(f)
        os.close(fd)
    subprocess.run(["rm", "-rf", *(f"{guest}/a{i}" for i in range(50))], check=True)
    assert os.listdir(host) == []


@case(seconds=120)
def deep(host, guest):
    d = guest
    fd = os.open(guest, os.O_PATH)
    for _ in range(300):
        os.mkdir("deep", dir_fd=fd)
        nxt = os.open("deep", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = nxt
    f = os.open("f", os.O_CREAT | os.O_RDWR, dir_fd=fd)
    os.write(f, b"bottom")
    os.close(f)
    os.close(fd)
    assert d and int(subprocess.run(f"find {host} | wc -l", shell=True, capture_output=True).stdout) == 302
    subprocess.run(["rm", "-rf", f"{guest}/deep"], check=True)
    assert os.listdir(host) == []


@case(seconds=120)
def git_works(host, guest):
    git("init", ".", cwd=guest)
    for i in range(60):
        os.makedirs(f"{guest}/s{i % 6}", exist_ok=True)
        write(f"{guest}/s{i % 6}/f{i}", f"text {i}\n" * 30)
    git("add", "-A", cwd=guest)
    git("commit", "-m", "one", cwd=guest)
    assert git("status", "--porcelain", cwd=guest) == ""
    for i in range(6):
        side = (guest, host)[i % 2]
        write(f"{side}/s0/f0", f"round {i}\n")
        assert git("status", "--porcelain", cwd=(host, guest)[i % 2]).split() == ["M", "s0/f0"]
        git("commit", "-am", f"round {i}", cwd=side)
    git("checkout", "-b", "b", "HEAD~3", cwd=guest)
    git("merge", "main", cwd=guest)
    git("gc", "--quiet", cwd=guest)
    git("worktree", "add", "-q", "tree", "main~1", cwd=guest)
    for side in (guest, host):
        git("fsck", "--full", "--strict", cwd=side)
    assert git("log", "--oneline", cwd=host).count("\n") == 7


@case(seconds=120)
def random_io(host, guest):
    """In the manner of fsx: one file, operations at random, always compared with a copy in memory."""
    r = random.Random(20261130)
    model = bytearray()
    fd = os.open(f"{guest}/x", os.O_RDWR | os.O_CREAT)
    limit = 300_000
    for step in range(3000):
        op = r.choice("wwwrrrtmMfphcao")
        at, n = r.randrange(limit), r.randrange(1, r.choice((10, 5000, 140_000)))
        if op == "w":
            data = r.randbytes(n)
            assert os.pwrite(fd, data, at) == n
            if len(model) < at:
                model.extend(bytes(at - len(model)))
            model[at:at + n] = data
        elif op == "r":
            assert os.pread(fd, n, at) == model[at:at + n], step
        elif op == "t":
            os.ftruncate(fd, at)
            model = model[:at] + bytes(max(0, at - len(model)))
        elif op in "mM" and model:
            at %= len(model)
            with mmap.mmap(fd, len(model), mmap.MAP_SHARED) as m:
                if op == "m":
                    assert m[at:at + n] == model[at:at + n], step
                else:
                    piece = r.randbytes(min(n, len(model) - at))
                    m[at:at + len(piece)] = piece
                    model[at:at + len(piece)] = piece
        elif op == "f":
            os.posix_fallocate(fd, at, n)
            model.extend(bytes(max(0, at + n - len(model))))
        elif op == "p" and model:
            if LIBC.fallocate(fd, 3, ctypes.c_long(at), ctypes.c_long(n)) == 0:
                end = min(at + n, len(model))
                model[at:end] = bytes(max(0, end - at))
        elif op == "h":
            os.fsync(fd)
            assert read(f"{host}/x") == model, step
        elif op == "c" and model:
            src = r.randrange(len(model))
            n = min(n, len(model) - src)
            if src + n <= at or at + n <= src:
                copied = os.copy_file_range(fd, fd, n, src, at)
                if len(model) < at:
                    model.extend(bytes(at - len(model)))
                model[at:at + copied] = model[src:src + copied]
        elif op == "a":
            data = r.randbytes(n % 1000)
            with open(f"{guest}/x", "ab") as a:
                a.write(data)
            model.extend(data)
            if len(model) > limit:
                os.ftruncate(fd, limit)
                del model[limit:]
        elif op == "o":
            os.close(fd)
            fd = os.open(f"{guest}/x", os.O_RDWR)
        assert os.fstat(fd).st_size == len(model), (step, op)
    os.close(fd)
    assert read(f"{guest}/x") == model == read(f"{host}/x")


@case()
def sparse(host, guest):
    fd = os.open(f"{guest}/s", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"data", 1 << 20)
    assert os.fstat(fd).st_blocks * 512 < 1 << 20
    assert os.lseek(fd, 0, os.SEEK_DATA) == 1 << 20
    assert os.lseek(fd, 1 << 20, os.SEEK_HOLE) == os.fstat(fd).st_size
    fails(errno.ENXIO, os.lseek, fd, 1 << 21, os.SEEK_DATA)
    os.posix_fallocate(fd, 0, 1 << 16)
    assert os.fstat(fd).st_blocks * 512 >= 1 << 16
    out = os.open(f"{guest}/copy", os.O_RDWR | os.O_CREAT)
    size, done = os.fstat(fd).st_size, 0
    while done < size:
        done += os.copy_file_range(fd, out, size - done, done, done)
    assert read(f"{host}/copy") == read(f"{host}/s")
    big = os.open(f"{guest}/big", os.O_RDWR | os.O_CREAT)
    os.pwrite(big, b"far", 5 << 30)
    assert os.stat(f"{host}/big").st_size == (5 << 30) + 3
    assert os.pread(big, 10, 5 << 30) == b"far"


@case()
def special_files(host, guest):
    os.mkfifo(f"{guest}/p")
    def say():
        write(f"{guest}/p", "through the pipe")
    def hear():
        assert read(f"{guest}/p") == b"through the pipe"
    children(say, hear)
    os.chmod(f"{guest}/p", 0o600)
    with socket.socket(socket.AF_UNIX) as s, socket.socket(socket.AF_UNIX) as c:
        os.chdir(guest)
        s.bind("sock")
        s.listen()
        c.connect("sock")
        k, _ = s.accept()
        k.send(b"hi")
        assert c.recv(10) == b"hi"
        k.close()
    assert stat.S_ISSOCK(os.stat(f"{host}/sock").st_mode)
    # a pipe of the host, where nobody writes: opening it must not stop the server
    os.mkfifo(f"{host}/hp")
    fd = os.open(f"{guest}/hp", os.O_RDONLY | os.O_NONBLOCK)
    os.close(fd)
    fails(errno.EEXIST, os.mkfifo, f"{guest}/hp")
    assert sorted(os.listdir(guest)) == ["hp", "p", "sock"]


@case(mode="ro")
def read_only(host, guest):
    write(f"{host}/f", "text")
    os.mkdir(f"{host}/d")
    os.symlink("f", f"{host}/l")
    os.setxattr(f"{host}/f", "user.a", b"1")
    g = f"{guest}/f"
    assert read(g) == b"text" and os.listdir(f"{guest}/d") == [] and os.readlink(f"{guest}/l") == "f"
    assert os.getxattr(g, "user.a") == b"1"
    ro = errno.EROFS
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_RDONLY | os.O_CREAT):
        fails(ro, os.open, g if not flags & os.O_CREAT else f"{guest}/new", flags)
    fails(ro, os.unlink, g)
    fails(ro, os.rmdir, f"{guest}/d")
    fails(ro, os.mkdir, f"{guest}/n")
    fails(ro, os.mkfifo, f"{guest}/n")
    fails(ro, os.symlink, "a", f"{guest}/n")
    fails(ro, os.link, g, f"{guest}/n")
    fails(ro, os.rename, g, f"{guest}/n")
    fails(ro, renameat2, g, f"{guest}/n", RENAME_NOREPLACE)
    fails(ro, os.chmod, g, 0o600)
    fails(ro, os.chown, g, 1, 1)
    fails(ro, os.utime, g)
    fails(ro, os.truncate, g, 0)
    fails(ro, os.setxattr, g, "user.b", b"")
    fails(ro, os.removexattr, g, "user.a")
    write(f"{host}/f", "changed by the host")
    assert read(g) == b"changed by the host"
    assert sorted(os.listdir(host)) == ["d", "f", "l"]


@case(user="65534")
def as_another_user(host, guest):
    """The server runs without privileges: in a user namespace, and refused by plain permissions."""
    write(f"{guest}/f", "mine")
    st = os.stat(f"{host}/f")
    assert (st.st_uid, st.st_gid) == (65534, 65534)
    assert (os.stat(f"{guest}/f").st_uid, os.stat(f"{guest}/f").st_gid) == OWNER
    os.chmod(f"{guest}/f", 0o600)
    os.chown(f"{guest}/f", 8, 8)
    assert os.stat(f"{guest}/f").st_uid == 8
    write(f"{host}/roots", "root's own")
    os.chmod(f"{host}/roots", 0o600)
    fails(errno.EACCES, open, f"{guest}/roots")
    fails(errno.EPERM, os.chmod, f"{guest}/roots", 0o777)
    fails(errno.EPERM, os.chown, f"{guest}/roots", 8, 8)
    assert os.stat(f"{guest}/roots").st_uid == OWNER[0]
    os.mkdir(f"{guest}/d")
    os.rename(f"{guest}/f", f"{guest}/d/f")
    os.link(f"{guest}/d/f", f"{guest}/g")
    git("init", ".", cwd=guest)
    git("add", "g", cwd=guest)
    git("commit", "-m", "x", cwd=guest)
    assert os.stat(f"{host}/.git/index").st_uid == 65534


def run_inside(name, host, guest):
    os.umask(0o022)
    CASES[name][0](host, guest)


def run_outside(server, mount_share, name):
    _, mode, seconds, user = CASES[name]
    top = tempfile.mkdtemp(prefix="gb-share-")
    os.chmod(top, 0o755)
    host, guest = f"{top}/host", f"{top}/guest"
    os.mkdir(host)
    os.mkdir(guest)
    env = dict(os.environ, GB_MOUNT_USER=user or "")
    if user and os.geteuid() == 0:
        os.chown(host, int(user), int(user))
    try:
        return subprocess.run(
            [mount_share, server, mode, "%d:%d" % OWNER, host, guest, str(seconds), sys.executable,
             os.path.abspath(__file__), "--inside", name, host, guest], env=env, check=False).returncode
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        run_inside(*sys.argv[2:])
    elif sys.argv[3] == "--list":
        print("\n".join(CASES))
    else:
        sys.exit(run_outside(*(os.path.abspath(a) for a in sys.argv[1:3]), sys.argv[3]))
