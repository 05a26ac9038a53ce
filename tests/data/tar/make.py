#!/usr/bin/env python3
"""Writes the hostile and odd archives of this folder; what each is for stands beside it.
The files are committed: run this only to add one. Output does not depend on when or where."""
import gzip
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def octal(n, width):
    return b"%0*o\0" % (width - 1, n)


def base256(n, width):
    return (n & ((1 << (8 * width)) - 1)).to_bytes(width, "big") if n < 0 else \
        bytes([0x80]) + n.to_bytes(width - 1, "big")


def header(name, kind=b"0", size=0, mode=0o644, uid=0, gid=0, mtime=1000000000, link=b"",
           major=0, minor=0, raw_size=None, gnu=False, prefix=b""):
    def number(n, width):
        return octal(n, width) if 0 <= n < 8 ** (width - 1) else base256(n, width)

    h = name[:100].ljust(100, b"\0") + octal(mode, 8) + number(uid, 8) + number(gid, 8)
    h += (raw_size or number(size, 12)) + number(mtime, 12) + b" " * 8 + kind
    h += link[:100].ljust(100, b"\0") + (b"ustar  \0" if gnu else b"ustar\00000")
    h += b"root".ljust(32, b"\0") * 2 + octal(major, 8) + octal(minor, 8)
    h += prefix.ljust(155, b"\0")
    h = h.ljust(512, b"\0")
    return h[:148] + b"%06o\0 " % sum(h) + h[156:]


def pad(data):
    return data + b"\0" * (-len(data) % 512)


def file(name, data=b"", **kw):
    return header(name, size=len(data), **kw) + pad(data)


def folder(name, **kw):
    return header(name, b"5", **{"mode": 0o755, **kw})


def symlink(name, target, **kw):
    if len(target) > 100:
        return pax({"linkpath": target}) + header(name, b"2", link=target, mode=0o777, **kw)
    return header(name, b"2", link=target, mode=0o777, **kw)


def hardlink(name, target, **kw):
    return header(name, b"1", link=target, **kw)


def pax(records):
    out = b""
    for key, value in records.items():
        value = value if isinstance(value, bytes) else value.encode()
        body = b" " + key.encode() + b"=" + value + b"\n"
        n = len(body)
        while n != len(str(n)) + len(body):
            n = len(str(n)) + len(body)
        out += str(n).encode() + body
    return header(b"pax", b"x", size=len(out)) + pad(out)


def gnu_long(kind, text):
    text += b"\0"
    return header(b"././@LongLink", kind, size=len(text), gnu=True) + pad(text)


END = b"\0" * 1024
CAPABILITY = b"\x01\x00\x00\x02\x00\x20" + b"\0" * 14

ARCHIVES = {
    # paths that try to get out
    "dotdot": file(b"a/../../b", b"x"),
    "dotdot-only": folder(b".."),
    "dotdot-hardlink": file(b"a", b"x") + hardlink(b"b", b"../a"),
    "absolute": file(b"/etc/one", b"1") + file(b"//etc//./two", b"22") + folder(b"./"),
    "link-out": symlink(b"out", b"../../../../tmp") + file(b"out/t", b"x"),
    "link-absolute": symlink(b"abs", b"/usr/bin") + file(b"abs/t", b"x"),
    "link-usr-merge": folder(b"usr/bin") + symlink(b"bin", b"usr/bin") +
        file(b"bin/t1", b"x") + file(b"usr/bin/t2", b"y"),
    "link-circle": symlink(b"a", b"b") + symlink(b"b", b"a") + file(b"a/t", b"x"),
    "link-self": symlink(b"a", b"a/b") + file(b"a/t", b"x"),
    "link-to-file": file(b"f", b"x") + symlink(b"l", b"f") + file(b"l/t", b"x"),
    # the shape of the tree
    "below-file": file(b"f", b"x") + file(b"f/t", b"x"),
    "root-file": file(b"./", b""),
    "root-attributes": folder(b"./", mode=0o1711, uid=5, gid=6),
    "parents": file(b"deep/er/file", b"x"),
    "duplicate": file(b"f", b"first") + file(b"f", b"second one") + symlink(b"f2", b"f") +
        file(b"f2", b"plain"),
    "dir-becomes-file": file(b"d/x", b"x") + file(b"d/y/z", b"z") + file(b"d", b"now a file"),
    "file-becomes-dir": file(b"d", b"x") + folder(b"d") + file(b"d/x", b"y"),
    "dir-twice": folder(b"d", mode=0o700) + file(b"d/x", b"x") + folder(b"d", mode=0o750, uid=7),
    # hard links
    "hardlink": file(b"bin/app", b"A", mode=0o4755) + hardlink(b"deep/er/app", b"bin/app"),
    "hardlink-absolute": file(b"a", b"A") + hardlink(b"b", b"/a"),
    "hardlink-missing": hardlink(b"a", b"nothing"),
    "hardlink-later": hardlink(b"a", b"b") + file(b"b", b"x"),
    "hardlink-dir": folder(b"d") + hardlink(b"a", b"d"),
    "hardlink-self": file(b"a", b"x") + hardlink(b"a", b"a"),
    "hardlink-symlink": symlink(b"s", b"nowhere") + hardlink(b"t", b"s"),
    "hardlink-through-link": folder(b"usr/bin") + symlink(b"bin", b"usr/bin") +
        file(b"usr/bin/a", b"x") + hardlink(b"b", b"bin/a"),
    "hardlink-again": file(b"abc", b"one") + hardlink(b"link", b"abc") + file(b"def", b"two") +
        hardlink(b"link", b"def"),
    "hardlink-into-replaced": file(b"d/x", b"x") + hardlink(b"d", b"d/x"),
    # numbers
    "size-max": header(b"f", raw_size=b"\xff" * 12) + END,
    "size-2-64": header(b"f", raw_size=b"\x80\0\0\0" + b"\xff" * 8) + END,
    "size-2-63": header(b"f", raw_size=b"\x80\0\0\0\x7f" + b"\xff" * 7) + END,
    "size-16-tib": header(b"f", raw_size=b"\x80" + (1 << 44).to_bytes(11, "big")) + END,
    "size-letters": header(b"f", raw_size=b"zzzzzzzzzzz\0") + b"x" * 512,
    "owners": file(b"g", b"x", uid=3000000, gid=3000001, mtime=-5) +
        pax({"uid": "4294967294", "gid": "4294967294", "mtime": "-5.25"}) + file(b"p", b"x") +
        pax({"mtime": "1700000000.123456789"}) + file(b"n", b"x"),
    "owner-too-big": pax({"uid": "4294967295"}) + file(b"p", b"x"),
    "device": header(b"null", b"3", major=1, minor=3, mode=0o666) +
        header(b"big", b"4", major=259, minor=70000, mode=0o660) +
        header(b"pipe", b"6", mode=0o600),
    # names
    "name-255": pax({"path": b"d/" + b"n" * 255}) + file(b"short", b"x"),
    "name-256": pax({"path": b"d/" + b"n" * 256}) + file(b"short", b"x"),
    "name-gnu": gnu_long(b"L", b"d/" + b"g" * 255) + file(b"short", b"x", gnu=True),
    "name-ustar": file(b"n" * 100, b"x") + file(b"m" * 99, b"y", prefix=b"p" * 155),
    "name-latin1": file(b"caf\xe9", b"x"),
    "name-pax-utf8": pax({"path": "caf\u00e9 \u65e5\u672c"}) + file(b"short", b"x"),
    "name-pax-binary": pax({"hdrcharset": "BINARY", "path": b"caf\xe9"}) + file(b"short", b"x"),
    "name-control": file(b"a\nb\x1b[31m", b"x"),
    "path-4097": pax({"path": b"/".join([b"d" * 99] * 41)}) + file(b"short", b"x"),
    "links": b"".join(symlink(b"l%d" % n, (b"t" * n)) for n in (59, 60, 61, 300, 4095)),
    "link-4096": symlink(b"l", b"t" * 4096),
    "link-empty": symlink(b"l", b""),
    # attributes
    "capability": pax({"SCHILY.xattr.security.capability": CAPABILITY,
                       "SCHILY.xattr.user.note": b"a\0b", "SCHILY.xattr.user.empty": b"",
                       "SCHILY.xattr.system.nfs4_acl": b"x"}) +
        file(b"bin/ping", b"x", mode=0o4755, uid=1000, gid=1000),
    "xattr-too-big": pax({"SCHILY.xattr.user.big": b"x" * 70000}) + file(b"f", b"x"),
    # damage
    "empty": END,
    "nothing": b"",
    "text": b"this is no archive at all\n" * 40,
    "cut-in-content": file(b"a", b"x") + header(b"f", size=5000) + b"y" * 700,
    "cut-in-header": file(b"a", b"x") + header(b"f", size=5)[:300],
    "bad-checksum": file(b"a", b"x") + file(b"b", b"x").replace(b"ustar", b"uSTar") + END,
    "pax-lies": header(b"pax", b"x", size=20) + pad(b"99999 path=abc\n") + file(b"f", b"x"),
    "pax-endless": header(b"pax", b"x", raw_size=b"\x80" + (1 << 40).to_bytes(11, "big")),
    "sparse": pax({"GNU.sparse.name": "s", "GNU.sparse.size": "1048576", "GNU.sparse.numblocks": "2",
                   "GNU.sparse.map": "4096,3,1000000,5"}) + file(b"short", b"abcdefgh"),
    "sparse-backwards": pax({"GNU.sparse.name": "s", "GNU.sparse.size": "1048576",
                   "GNU.sparse.numblocks": "2",
                   "GNU.sparse.map": "8192,4,0,4"}) + file(b"short", b"abcdefgh"),
    "sparse-beyond": pax({"GNU.sparse.name": "s", "GNU.sparse.size": "10", "GNU.sparse.numblocks": "1",
                   "GNU.sparse.map": "1099511627776,8"}) + file(b"short", b"abcdefgh"),
}
RAW = {"nothing", "text", "cut-in-content", "cut-in-header", "pax-endless"}


def main():
    for name, data in ARCHIVES.items():
        data = data if name in RAW else data + END
        with open(os.path.join(HERE, name + ".tar"), "wb") as out:
            out.write(data)
    whole = gzip.compress(file(b"a", bytes(range(256)) * 40) + END, mtime=0)
    with open(os.path.join(HERE, "cut.tar.gz"), "wb") as out:
        out.write(whole[:len(whole) // 2])
    with open(os.path.join(HERE, "whole.tar.gz"), "wb") as out:
        out.write(whole)


main()
