#!/usr/bin/env python3
"""Real programs on a folder that is mounted through glovebox-share by the host's own kernel.

    mounted.py --list                       the names of the cases
    mounted.py SERVER MOUNT_SHARE CASE      run one case (77: skipped aloud)
    mounted.py --inside CASE HOST GUEST     the part that runs with the mount in place

HOST is the folder itself, GUEST the mount of it: what a case does below HOST is an edit on
the host, below GUEST an act of the guest. A case is a function in cases_*.py; a plain assert
is its verdict."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import cases_files  # noqa: E402,F401 - they declare themselves
import cases_world  # noqa: E402,F401
from lib import CASES, OWNER  # noqa: E402


def run_inside(name, host, guest):
    os.umask(0o022)
    CASES[name][0](host, guest)


def run_outside(server, mount_share, name):
    _, mode, seconds, user, files = CASES[name]
    top = tempfile.mkdtemp(prefix="gb-share-")
    os.chmod(top, 0o755)
    host, guest = f"{top}/host", f"{top}/guest"
    os.mkdir(host)
    os.mkdir(guest)
    env = dict(os.environ, GB_MOUNT_USER=user, GB_MOUNT_FILES=files)
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
    elif sys.argv[1] == "--list":
        print("\n".join(CASES))
    else:
        sys.exit(run_outside(*(os.path.abspath(a) for a in sys.argv[1:3]), sys.argv[3]))
