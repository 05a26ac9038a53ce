"""What the cases share: how a case is declared, and calls that Python lacks."""

import ctypes
import errno
import os
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
OWNER = (1234, 5678)
CASES = {}


def case(mode="rw", seconds=120, user="", files=""):
    """mode: of the share. user: the number of who runs the server. files: its RLIMIT_NOFILE."""
    def add(f):
        CASES[f.__name__] = (f, mode, seconds, user, files)
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
