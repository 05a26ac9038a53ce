#!/usr/bin/env python3
"""The sandbox of glovebox-media, from inside (--self-test) and from outside (/proc).

    test_sandbox.py ROLE"""

import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

ROLE = os.path.abspath(sys.argv[1])
REFUSED = ("open /etc/passwd", "open its own memory", "exec /bin/true", "socket inet", "socket unix", "fork",
           "signal another process", "ptrace", "raise a limit", "map executable memory", "make memory executable")
PICTURE = b"P6 1 1 255\nabc"


def self_test(name, prefix):
    r = subprocess.run([*prefix, ROLE, "--self-test"], capture_output=True, text=True, timeout=60, check=False)
    print(f"{name}:\n{r.stdout}{r.stderr}")
    if r.returncode in (126, 127):
        print(f"skipped: {name} cannot run {ROLE}")
        return
    lines = r.stdout.splitlines()
    assert r.returncode == 0 and not [x for x in lines if x.startswith("FAILED")]
    for what in (*REFUSED, "Seccomp: 2", "NoNewPrivs: 1", "no capabilities"):
        assert any(x.startswith(f"ok: {what}") for x in lines), what
    stages = next(x for x in lines if x.startswith("stages: ")).split()
    assert "seccomp" in stages and "privileges" in stages
    for stage in ("namespaces", "mounts", "landlock"):
        if stage not in stages:
            print(f"note: {name} has no {stage} stage here")


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)


def from_outside(top):
    """What the kernel says of a decoder that waits for its picture."""
    stray = os.open("/", os.O_RDONLY)
    p = subprocess.Popen([ROLE, "--detail=high"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(stray,),
                         stderr=subprocess.DEVNULL, cwd=top)
    try:
        deadline = time.monotonic() + 60
        while (s := status(p.pid))["Seccomp"].strip() != "2":
            assert time.monotonic() < deadline and p.poll() is None, s
            os.sched_yield()
        assert s["NoNewPrivs"].strip() == "1" and int(s["CapEff"], 16) == 0 and int(s["CapPrm"], 16) == 0, s
        assert sorted(os.listdir(f"/proc/{p.pid}/fd")) == ["0", "1", "2"]
        assert resource.prlimit(p.pid, resource.RLIMIT_AS)[1] == 1 << 30
        assert resource.prlimit(p.pid, resource.RLIMIT_CPU)[1] == 20
        assert resource.prlimit(p.pid, resource.RLIMIT_CORE)[1] == 0
        out, _ = p.communicate(PICTURE, timeout=60)
    finally:
        if p.poll() is None:
            p.kill()
            p.wait(timeout=60)
        os.close(stray)
    code, = struct.unpack_from("<i", out, 4)
    assert p.returncode == 0 and out[:4] == b"MBI1" and code == 0 and out[40:44] == b"\x89PNG", out[:60]


def memory():
    """An interlaced picture is held whole, this one in 400 MB: with less, the answer says so."""
    limit = 200 << 20
    r = subprocess.run([ROLE, "--detail=high"], input=interlaced(10000, 10000), capture_output=True, timeout=60,
                       check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    code, = struct.unpack_from("<i", r.stdout, 4)
    assert r.returncode == 0 and code == -6 and b"MiB of memory to decode" in r.stdout[40:], (r.returncode, r.stdout[:100])


def interlaced(width, height):
    import zlib

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)) +
            chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b""))


def usage():
    for args in (["--detail=low"], ["--detail"], ["--nonsense"], ["extra"]):
        r = subprocess.run([ROLE, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                           check=False)
        assert r.returncode == 1 and r.stderr.count("\n") == 1 and r.stdout == "", (args, r)


with tempfile.TemporaryDirectory(prefix="gb-media-") as tmp:
    usage()
    self_test("this user", [])
    from_outside(tmp)
    memory()
    if os.geteuid() == 0:
        self_test("nobody", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        self_test("root without CAP_SYS_ADMIN", ["setpriv", "--bounding-set=-sys_admin"])
    else:
        print("skipped: not root, so this run was the unprivileged one already")
