"""Files as programs use them: what works on ext4 works here."""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import socket
import sqlite3
import stat
import subprocess

from lib import LIBC, RENAME_EXCHANGE, RENAME_NOREPLACE, case, children, fails, read, renameat2, write


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
