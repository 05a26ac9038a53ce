#!/usr/bin/env python3
"""The sandbox of glovebox-share, from inside (--self-test) and from outside (/proc).

    test_sandbox.py SERVER"""

import os
import socket
import subprocess
import sys
import tempfile

SERVER = os.path.abspath(sys.argv[1])
REFUSED = ("open /etc/passwd", "exec /bin/true", "socket inet", "socket unix", "ptrace", "make a device",
           "write to a read-only share")


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)


def self_test(top):
    os.mkdir(f"{top}/rw")
    os.mkdir(f"{top}/ro")
    rw, ro = (os.open(f"{top}/{n}", os.O_PATH) for n in ("rw", "ro"))
    r = subprocess.run([SERVER, "--self-test", "--share", f"0:rw:{rw}", "--share", f"1:ro:{ro}"],
                       pass_fds=(rw, ro), capture_output=True, text=True, timeout=60, check=False)
    print(r.stdout, r.stderr)
    assert r.returncode == 0, "a check failed"
    lines = r.stdout.splitlines()
    assert not [x for x in lines if x.startswith("FAILED")]
    for what in REFUSED:
        assert any(x.startswith(f"ok: {what}") for x in lines), what
    stages = next(x for x in lines if x.startswith("stages: ")).split()
    assert "seccomp" in stages and "privileges" in stages
    for stage in ("namespaces", "mounts", "landlock"):
        if stage not in stages:
            print(f"note: this host has no {stage} stage")
    assert os.listdir(f"{top}/rw") == os.listdir(f"{top}/ro") == []
    os.close(rw)
    os.close(ro)


def from_outside(top):
    """What the kernel says of a running server."""
    port, port_child = socket.socketpair()
    control, control_child = socket.socketpair()
    folder = os.open(top, os.O_PATH)
    stray = os.open("/", os.O_RDONLY)
    p = subprocess.Popen([SERVER, f"--port-fd={port_child.fileno()}", f"--control-fd={control_child.fileno()}",
                          "--share", f"0:rw:{folder}"],
                         pass_fds=(port_child.fileno(), control_child.fileno(), folder, stray))
    try:
        control.settimeout(60)
        ready = control.recv(100)
        assert len(ready) == 12 and ready[4] == 2, ready
        s = status(p.pid)
        assert s["Seccomp"].strip() == "2" and s["NoNewPrivs"].strip() == "1", s
        assert int(s["CapEff"], 16) & ~0b1010 == 0, s["CapEff"]
        fds = [os.readlink(f"/proc/{p.pid}/fd/{n}") for n in os.listdir(f"/proc/{p.pid}/fd")]
        assert "/" not in [f for f in fds if f != top] or len(fds) <= 6, fds
        assert not any(f == "/etc" for f in fds)
    finally:
        control.close()
        port.close()
        control_child.close()
        port_child.close()
        code = p.wait(timeout=60)
    assert code == 0, code
    os.close(folder)
    os.close(stray)


def usage():
    for args in ([], ["--share", "64:rw:0"], ["--share", "0:rx:0"], ["--share", "0"], ["--port-fd", "x"], ["extra"],
                 ["--share", "0:rw:0", "--share", "0:rw:0"]):
        r = subprocess.run([SERVER, *args], capture_output=True, text=True, timeout=60, check=False)
        assert r.returncode == 1 and r.stderr.count("\n") == 1, (args, r)


def as_root_of_a_container(top):
    """Root without CAP_SYS_ADMIN: no namespaces, so that the other stages must hold alone."""
    run_as(top, "caged", 0, ["setpriv", "--bounding-set=-sys_admin"])


def as_nobody(top):
    """Without privileges: the namespaces then come with a user namespace."""
    run_as(top, "nobody", 65534, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])


def run_as(top, name, uid, prefix):
    os.mkdir(f"{top}/{name}")
    os.chown(f"{top}/{name}", uid, uid)
    fd = os.open(f"{top}/{name}", os.O_PATH)
    r = subprocess.run([*prefix, SERVER, "--self-test", "--share", f"0:rw:{fd}"], pass_fds=(fd,),
                       capture_output=True, text=True, timeout=60, check=False)
    os.close(fd)
    print(r.stdout, r.stderr)
    if r.returncode in (126, 127):
        print(f"skipped: {name} cannot run {SERVER}")
    else:
        assert r.returncode == 0


with tempfile.TemporaryDirectory(prefix="gb-sandbox-") as tmp:
    os.chmod(tmp, 0o755)
    usage()
    self_test(tmp)
    from_outside(tmp)
    if os.geteuid() == 0:
        as_nobody(tmp)
        as_root_of_a_container(tmp)
    else:
        print("skipped: not root, so this run was the unprivileged one already")
