"""The host beside the guest, the border between them, and much of everything."""

import errno
import os
import shutil
import stat
import subprocess
import tempfile
import time

from lib import OWNER, RENAME_EXCHANGE, RENAME_NOREPLACE, case, children, fails, git, read, renameat2, write


@case()
def host_replaces(host, guest):
    f, g = os.path.join(guest, "f"), os.path.join(guest, "g")
    texts = [("%02d" % i) * (1000 + i) for i in range(51)]
    write(f"{host}/f", texts[0])

    def reader():
        known = set(texts)
        while True:
            with open(f) as x:  # never ESTALE, however often it is replaced
                t = x.read()
            assert t in known, f"torn: {len(t)} bytes"
            os.stat(f)
            if t == texts[-1]:
                return

    def writer():
        for t in texts[1:]:
            for _ in range(40):
                write(f"{host}/f.tmp", t)
                os.rename(f"{host}/f.tmp", f"{host}/f")
            with open(f) as x:
                assert x.read() == t, "an old file after it was replaced"

    children(reader, reader, writer)
    for i in range(20):
        write(g, f"guest {i}")
        os.unlink(f"{host}/g")
        fails(errno.ENOENT, open, g)
        with open(g, "x") as x:
            x.write("again")
        assert read(f"{host}/g") == b"again"
        os.rename(f"{host}/g", f"{host}/h")


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
            assert n, "no call got through"

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
    shutil.rmtree(h)
    # removed by the guest as it lists
    os.mkdir(d)
    for i in range(3000):
        write(f"{h}/{i}", "")
    shutil.rmtree(d)
    assert os.listdir(host) == []


@case(files="1024")
def many_files(host, guest):
    # more folders than the server keeps open (256 here), then all again, from the far end
    paths = [f"a{i % 50}/b{i % 97}/c{i}" for i in range(1200)]
    for p in paths:
        os.makedirs(f"{host}/{p}")
        write(f"{host}/{p}/f", p)
    fds = [os.open(f"{guest}/{p}", os.O_PATH) for p in paths[::4]]
    for p in reversed(paths):
        assert read(f"{guest}/{p}/f") == p.encode()
    for p, fd in zip(paths[::4], fds):
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
