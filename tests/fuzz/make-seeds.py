#!/usr/bin/env python3
"""Writes the seeds of the wire's fuzz targets: frame, msg, tree. Run again after a change of
the protocol: the field tables are read from src/proto/msg.h, so no message is forgotten."""
import os
import re
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def u32(v):
    return struct.pack("<I", v)


def text(s):
    return u32(len(s)) + s


def messages():
    """[(name, [kind, ...])] in the order of GB_MESSAGES."""
    source = open(os.path.join(ROOT, "src/proto/msg.h")).read().replace("\\\n", "\n")
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.S)
    order = re.findall(r"\bM\((\w+), (GB_MSG_\w+)\)", source)
    result = []
    for name, macro in order:
        body = re.search(r"#define %s\(F\)(.*?)(?=\n#|\nenum|\nstruct)" % macro, source, re.S)
        result.append((name, re.findall(r"F\((\w+), \w+\)", body.group(1))))
    return result


def value(kind, rich):
    if kind == "u32":
        return u32(7 if rich else 0)
    if kind in ("u64", "i64"):
        return struct.pack("<Q", 2**63 + 5 if rich else 0)
    if kind == "list":
        entries = [b"a=1", b"", b"long " * 20] if rich else []
        return u32(len(entries)) + b"".join(text(e) for e in entries)
    return text(b"word" if rich else b"")


def msg_seeds():
    seeds = {}
    for i, (name, kinds) in enumerate(messages()):
        for rich in (False, True):
            seeds["%s-%d" % (name, rich)] = bytes([i]) + b"".join(value(k, rich) for k in kinds)
        whole = seeds["%s-1" % name]
        seeds[name + "-long"] = whole + b"x"
        seeds[name + "-cut"] = whole[:-1]
    names = [m[0] for m in messages()]
    exec_at = bytes([names.index("exec")])
    error_at = bytes([names.index("error")])
    seeds["list-lies"] = exec_at + u32(0xFFFFFFFF) + u32(1) + b"a"
    seeds["list-over-cap"] = exec_at + u32(65537) + u32(0) * 65537
    seeds["str-nul"] = error_at + u32(1) + u32(2) + text(b"a\0b")
    seeds["str-lies"] = error_at + u32(1) + u32(2) + u32(0xFFFFFFFF) + b"abc"
    seeds["error-good"] = error_at + u32(-3 & 0xFFFFFFFF) + u32(2) + text(b"not \x1b[31mthere")
    hello_at = bytes([names.index("hello")])
    seeds["hello-good"] = hello_at + u32(1) + u32(0) + text(b"agent") + text(b"glovebox")
    seeds["hello-other"] = hello_at + u32(99) + b"whatever comes"
    return seeds


def frame(kind, payload=b"", flags=0, stream=0, request=1, length=None):
    size = len(payload) if length is None else length
    return struct.pack("<IBBHI", size, kind, flags, stream, request) + payload


def frame_seeds():
    source = open(os.path.join(ROOT, "src/proto/frame.h")).read()
    kinds = [int(v) for v in re.findall(r"X\(\w+, (\d+), \"", source)]
    every = b"".join(frame(k, b"p" * k) for k in kinds)
    return {
        "every-type-by-1": b"\x00" + every,
        "every-type-by-13": b"\x0c" + every,
        "empty": b"\x05" + frame(4) + frame(4),
        "over-length": b"\x02" + frame(5, b"abc", length=(1 << 20) + 1),
        "max-length-cut": b"\xff" + frame(5, b"abc", length=1 << 20),
        "large": b"\xff" + frame(5, b"z" * 70000) + frame(5, b"end", flags=1, stream=2),
        "unknown-type": b"\x03" + frame(4) + frame(99),
        "type-0": b"\x03" + frame(0),
        "cut-header": b"\x03" + frame(5, b"abc") + frame(5)[:7],
        "cut-payload": b"\x03" + frame(5, b"abcdef")[:-2],
    }


def record(kind, path=b"", size=0, content=None, link=b"", mode=0o644, ns=1):
    body = u32(kind) + u32(mode) + struct.pack("<Qq", size, -5) + u32(ns) + text(path) + text(link)
    return u32(len(body)) + body + (content or b"")


def tree_seeds():
    end = record(0)
    root = record(2, mode=0o755)
    return {
        "file": b"\x00" + record(1, size=5, content=b"hello") + end,
        "file-by-3": b"\x02" + record(1, size=5, content=b"hello") + end,
        "empty-file": b"\x01" + record(1) + end,
        "folder": b"\x06" + root + record(1, b"a", 3, b"abc") + record(2, b"d")
        + record(3, b"d/l", link=b"../a") + record(4, b"d/fifo") + record(1, b"d/e") + end,
        "dotdot": b"\xff" + root + record(1, b"../a"),
        "dot": b"\xff" + root + record(1, b"a/./b"),
        "absolute": b"\xff" + root + record(1, b"/a"),
        "double-slash": b"\xff" + root + record(1, b"a//b"),
        "slash-at-end": b"\xff" + root + record(2, b"a/"),
        "long-path": b"\xff" + root + record(2, b"a/" * 2047 + b"a") + end,
        "path-too-long": b"\xff" + root + record(2, b"a/" * 2047 + b"ab"),
        "second-root": b"\xff" + root + root,
        "no-root": b"\xff" + record(1, b"a"),
        "below-a-file": b"\xff" + record(1) + record(1, b"a"),
        "content-of-folder": b"\xff" + record(2, size=3, content=b"abc"),
        "unknown-kind": b"\xff" + record(9),
        "no-link": b"\xff" + record(3),
        "bad-time": b"\xff" + record(1, ns=1000000000),
        "only-end": b"\xff" + end,
        "after-end": b"\x00" + record(1) + end + b"x",
        "empty-record": b"\xff" + u32(0),
        "large-record": b"\xff" + u32((64 << 10) + 1) + b"x",
        "bad-record": b"\x00" + u32(3) + b"abc",
        "huge-size": b"\xff" + record(1, size=2**64 - 1, content=b"abc"),
    }


def main():
    base = os.path.join(ROOT, "tests/fuzz/seeds")
    for name, seeds in (("frame", frame_seeds()), ("msg", msg_seeds()), ("tree", tree_seeds())):
        folder = os.path.join(base, name)
        os.makedirs(folder, exist_ok=True)
        for old in os.listdir(folder):
            os.unlink(os.path.join(folder, old))
        for seed, data in seeds.items():
            with open(os.path.join(folder, seed), "wb") as f:
                f.write(data)
        print("%s: %d seeds" % (name, len(seeds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
