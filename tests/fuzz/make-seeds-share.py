#!/usr/bin/env python3
"""Writes the seeds of fuzz_share.c: short sessions of a guest, one a file."""

import os
import struct
import sys

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds", "share")
LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK = \
    1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, SETXATTR, GETXATTR, LISTXATTR, REMOVEXATTR, FLUSH, INIT = \
    14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26
OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, ACCESS, CREATE, INTERRUPT, DESTROY = 27, 28, 29, 30, 34, 35, 36, 38
BATCH_FORGET, FALLOCATE, RENAME2, LSEEK, COPY, TMPFILE = 42, 43, 45, 46, 47, 51
ROOT = 1


def m(opcode, node, body=b""):
    return struct.pack("<BBH", opcode, node, len(body)) + body


def lookup(name, node=ROOT):
    return m(LOOKUP, node, name + b"\0")


def open_(node, flags=2, op=OPEN):
    return m(op, node, struct.pack("<II", flags, 0))


def create(name, flags=0o102, mode=0o100644, node=ROOT, op=CREATE):
    return m(op, node, struct.pack("<IIII", flags, mode, 0, 0) + name + b"\0")


def read(node, fh, size=100, offset=0, op=READ):
    return m(op, node, struct.pack("<QQIIQII", fh, offset, size, 0, 0, 0, 0))


def write(node, fh, data, offset=0, flags=0):
    return m(WRITE, node, struct.pack("<QQIIQII", fh, offset, len(data), 0, 0, flags, 0) + data)


def setattr_(node, valid, size=0, mode=0, uid=0, gid=0, fh=0):
    return m(SETATTR, node, struct.pack("<IIQQQQQQIIIIIIII", valid, 0, fh, size, 0, 1, 2, 3, 4, 5, 6, mode, 0,
                                        uid, gid, 0))


def getattr_(node):
    return m(GETATTR, node, bytes(16))


def release(node, fh, op=RELEASE):
    return m(op, node, struct.pack("<QIIQ", fh, 0, 0, 0))


def xattr(op, node, name, size=100, value=None):
    body = struct.pack("<II", size if value is None else len(value), 0)
    return m(op, node, (b"" if op == REMOVEXATTR else body) + name + b"\0" + (value or b""))


SEEDS = {
    "lookups": lookup(b"f") + lookup(b"d") + lookup(b"g", 3) + lookup(b"nothing") + getattr_(2) + getattr_(4)
    + m(FORGET, 2, struct.pack("<Q", 1)) + getattr_(2) + lookup(b"f") + getattr_(2 | 64),
    "names": b"".join(lookup(n) for n in (b".", b"..", b"", b"/", b"a/b", b"../outside", b"n" * 255, b"n" * 256, b"...")),
    "read-write": lookup(b"f") + open_(2) + read(2, 1) + write(2, 1, b"hello", 3) + write(2, 1, b"end", 0, 0o2000)
    + m(FSYNC, 2, struct.pack("<QII", 1, 1, 0)) + m(LSEEK, 2, struct.pack("<QQII", 1, 0, 3, 0))
    + m(FALLOCATE, 2, struct.pack("<QQQII", 1, 0, 4096, 1, 0)) + m(FLUSH, 2, bytes(24)) + release(2, 1) + read(2, 1),
    "create": create(b"new") + write(2, 1, b"x" * 300) + create(b"new") + create(b"new", 0o302) + create(b"p")
    + create(b"l") + create(b"/", op=TMPFILE) + create(b"s", mode=0o104755) + release(2, 1),
    "folders": m(MKDIR, ROOT, struct.pack("<II", 0o755, 0) + b"e\0") + open_(2, 0, OPENDIR)
    + read(2, 1, 4096, 0, READDIR) + open_(ROOT, 0, OPENDIR) + read(ROOT, 2, 200, 0, READDIR)
    + read(ROOT, 2, 4096, 2, READDIR) + read(ROOT, 2, 4096, 1 << 62, READDIR)
    + m(FSYNCDIR, ROOT, struct.pack("<QII", 2, 0, 0)) + release(ROOT, 2, RELEASEDIR) + m(RMDIR, ROOT, b"e\0")
    + getattr_(2) + m(RMDIR, ROOT, b"d\0"),
    "make": m(SYMLINK, ROOT, b"s\0../../etc/passwd\0") + m(READLINK, 2)
    + m(MKNOD, ROOT, struct.pack("<IIII", 0o010600, 0, 0, 0) + b"q\0")
    + m(MKNOD, ROOT, struct.pack("<IIII", 0o140600, 0, 0, 0) + b"k\0")
    + m(MKNOD, ROOT, struct.pack("<IIII", 0o020600, 0x103, 0, 0) + b"c\0")
    + m(LINK, ROOT, struct.pack("<Q", 2) + b"s2\0") + lookup(b"f") + m(LINK, ROOT, struct.pack("<Q", 5) + b"f2\0"),
    "remove": lookup(b"f") + open_(2) + m(UNLINK, ROOT, b"f\0") + getattr_(2) + setattr_(2, 8 | 64, 10, fh=1)
    + read(2, 1) + open_(2) + m(FORGET, 2, struct.pack("<Q", 1)) + release(2, 1) + release(2, 2) + getattr_(2),
    "rename": lookup(b"f") + lookup(b"d") + lookup(b"g", 3)
    + m(RENAME, ROOT, struct.pack("<Q", 3) + b"f\0h\0") + m(RENAME2, 3, struct.pack("<QII", ROOT, 0, 0) + b"h\0f\0")
    + m(RENAME2, ROOT, struct.pack("<QII", ROOT, 2, 0) + b"f\0d\0")
    + m(RENAME2, ROOT, struct.pack("<QII", ROOT, 1, 0) + b"f\0d\0")
    + m(RENAME, ROOT, struct.pack("<Q", 9) + b"f\0d\0") + m(RENAME, ROOT, struct.pack("<Q", ROOT) + b"f\0../outside\0")
    + getattr_(4),
    "attributes": lookup(b"f") + setattr_(2, 1, mode=0o600) + setattr_(2, 1, mode=0o4755) + setattr_(2, 2 | 4, uid=5, gid=6)
    + getattr_(2) + setattr_(2, 2 | 4, uid=1, gid=1) + setattr_(2, 8, size=100) + setattr_(2, 16 | 32)
    + setattr_(2, 16 | 32 | 128 | 256) + lookup(b"l") + setattr_(3, 2, uid=9) + setattr_(3, 16 | 32) + setattr_(3, 8)
    + m(STATFS, ROOT) + m(ACCESS, ROOT, bytes(8)),
    "xattrs": lookup(b"f") + xattr(SETXATTR, 2, b"user.a", value=b"value") + xattr(GETXATTR, 2, b"user.a")
    + xattr(GETXATTR, 2, b"user.a", 0) + xattr(GETXATTR, 2, b"user.a", 2) + xattr(GETXATTR, 2, b"security.x")
    + xattr(SETXATTR, 2, b"user.glovebox.owner", value=b"0:0") + m(LISTXATTR, 2, struct.pack("<II", 100, 0))
    + m(LISTXATTR, 2, struct.pack("<II", 0, 0)) + xattr(REMOVEXATTR, 2, b"user.a") + xattr(REMOVEXATTR, 2, b"user.a"),
    "copy": lookup(b"f") + open_(2) + create(b"out") + m(COPY, 2, struct.pack("<QQQQQQQ", 1, 0, 3, 2, 0, 100, 0))
    + m(COPY, 2, struct.pack("<QQQQQQQ", 1, 0, 99, 2, 0, 100, 0)) + m(BATCH_FORGET, 0, struct.pack("<II", 2, 0)
                                                                    + struct.pack("<QQQQ", 2, 1, 3, 1)),
    "walks": b"".join(m(MKDIR, n, struct.pack("<II", 0o755, 0) + b"d%d\0" % n) for n in range(1, 9)) + m(254, 0)
    + getattr_(9) + create(b"deep", node=9) + m(254, 0) + release(10, 1) + getattr_(10) + open_(10)
    + m(RENAME, ROOT, struct.pack("<Q", ROOT) + b"d1\0e\0") + m(254, 0) + getattr_(9)
    + m(RENAME, 9, struct.pack("<Q", ROOT) + b"deep\0flat\0") + m(254, 0) + getattr_(10)
    + m(UNLINK, ROOT, b"flat\0") + m(254, 0) + getattr_(10) + m(RMDIR, 8, b"d8\0") + getattr_(9)
    + m(FORGET, 9, struct.pack("<Q", 1)) + lookup(b"d1") + lookup(b"e"),
    "sessions": m(INIT, 0, struct.pack("<IIII", 7, 38, 0, 0)) + m(DESTROY, 0) + getattr_(1)
    + m(INIT, 0, struct.pack("<IIII", 8, 0, 0, 0)) + m(INIT, 0, struct.pack("<IIII", 7, 12, 0, 0))
    + m(INIT, 0, struct.pack("<IIII", 7, 31, 65536, 0xffffffff) + bytes(48)) + getattr_(1)
    + m(INTERRUPT, 0, bytes(8)) + m(39, ROOT, bytes(32)) + m(200, ROOT),
    "raw": m(255, 0, struct.pack("<IIQQIIII", 42, LOOKUP, 1, 1, 0, 0, 0, 0) + b"f\0")
    + m(255, 0, struct.pack("<IIQQIIII", 41, LOOKUP, 1, 1, 0, 0, 0, 0) + b"f\0") + m(255, 0, b"short"),
}

os.makedirs(OUT, exist_ok=True)
for name, data in SEEDS.items():
    for suffix, last in (("rw", b"\0"), ("ro", b"\1")):
        with open(os.path.join(OUT, f"{name}-{suffix}"), "wb") as f:
            f.write(data + last)
print(f"{2 * len(SEEDS)} seeds in {OUT}", file=sys.stderr)
