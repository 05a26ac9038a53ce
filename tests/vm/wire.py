"""A client of a supervisor's socket that speaks frames, for tests that need to say exactly what
goes over the wire. Types and tables are read from the product's own headers."""
import collections
import os
import re
import socket
import struct
import time

import lib

HEADERS = os.path.join(lib.SOURCE, "src/proto")
HEADER = struct.Struct("<IBBHI")
EOF = 1
IN, OUT, ERR = 0, 1, 2


def _types():
    text = open(os.path.join(HEADERS, "frame.h")).read()
    return {name: int(value) for name, value in re.findall(r"\bX\(([A-Z_]+), (\d+),", text)}


def _tables():
    text = open(os.path.join(HEADERS, "msg.h")).read().replace("\\\n", "\n")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {name.lower(): re.findall(r"F\((\w+), (\w+)\)", body) for name, body in re.findall(
        r"#define GB_MSG_([A-Z_]+)\(F\)(.*?)(?=\n#|\nenum|\nstruct)", text, re.S)}


def _version():
    return int(re.search(r"GB_FRAME_VERSION\s+(\d+)u",
                         open(os.path.join(HEADERS, "frame.h")).read()).group(1))


TYPES = _types()
NAMES = {value: name for name, value in TYPES.items()}
TABLES = _tables()
Frame = collections.namedtuple("Frame", "type flags stream request payload")


def encode(message, **values):
    out = b""
    for kind, name in TABLES[message]:
        value = values.pop(name, None)
        if kind == "u32":
            out += struct.pack("<I", value or 0)
        elif kind == "u64":
            out += struct.pack("<Q", value or 0)
        elif kind == "i64":
            out += struct.pack("<q", value or 0)
        elif kind == "list":
            entries = [e.encode() if isinstance(e, str) else e for e in value or []]
            out += struct.pack("<I", len(entries))
            out += b"".join(struct.pack("<I", len(e)) + e for e in entries)
        else:
            data = value.encode() if isinstance(value, str) else value or b""
            out += struct.pack("<I", len(data)) + data
    if values:
        raise KeyError("%s has no %s" % (message, ", ".join(values)))
    return out


def decode(message, payload):
    at, values = 0, {}
    for kind, name in TABLES[message]:
        if kind in ("u32", "u64", "i64"):
            form = struct.Struct({"u32": "<I", "u64": "<Q", "i64": "<q"}[kind])
            values[name], = form.unpack_from(payload, at)
            at += form.size
            continue
        count, = struct.unpack_from("<I", payload, at)
        at += 4
        if kind != "list":
            data = payload[at:at + count]
            values[name] = data if kind == "bytes" else data.decode("utf-8", "surrogateescape")
            at += count
            continue
        values[name] = []
        for _ in range(count):
            length, = struct.unpack_from("<I", payload, at)
            values[name].append(payload[at + 4:at + 4 + length])
            at += 4 + length
    if at != len(payload):
        raise ValueError("%s: %d bytes are left over" % (message, len(payload) - at))
    return collections.namedtuple(message, values)(**values)


class Refused(AssertionError):
    def __init__(self, error):
        super().__init__("%s (code %d)" % (error.text, self.code_of(error)))
        self.code, self.text = self.code_of(error), error.text

    @staticmethod
    def code_of(error):
        return error.code - 2 ** 32 if error.code >= 2 ** 31 else error.code


class Closed(AssertionError):
    pass


class Request:
    """What came for one request, by kind."""

    def __init__(self, client, number, credit):
        self.client, self.number, self.credit = client, number, credit
        self.streams = {IN: bytearray(), OUT: bytearray(), ERR: bytearray()}
        self.frames = []  # all but DATA and CREDIT
        self.granted = 0

    def take(self, frame):
        if frame.type == TYPES["DATA"]:
            self.streams[frame.stream] += frame.payload
            if self.credit and frame.payload:
                self.client.send("CREDIT", self.number, encode("credit", bytes=len(frame.payload)),
                                 stream=frame.stream)
        elif frame.type == TYPES["CREDIT"]:
            self.granted += decode("credit", frame.payload).bytes
        else:
            self.frames.append(frame)

    def named(self, name):
        return [f for f in self.frames if f.type == TYPES[name]]

    @property
    def out(self):
        return self.streams[OUT]

    def data(self, data, eof=False):
        """Input in frames; the caller keeps within the first window of 512 KiB."""
        chunks = [data[i:i + 65536] for i in range(0, len(data), 65536)] or [b""]
        for i, chunk in enumerate(chunks):
            self.client.send("DATA", self.number, chunk, stream=IN,
                             flags=EOF if eof and i == len(chunks) - 1 else 0)

    def cancel(self):
        self.client.send("CANCEL", self.number)

    def wait(self, *names, seconds=lib.COMMAND_S):
        """The first frame of one of these types; ERROR raises what it says."""
        def look():
            for frame in self.frames:
                if NAMES[frame.type] in names:
                    return frame
                if NAMES[frame.type] == "ERROR":
                    raise Refused(decode("error", frame.payload))
            return None
        return self.client.until(look, seconds, " or ".join(names))

    def until(self, condition, what, seconds=lib.COMMAND_S):
        return self.client.until(lambda: condition(self), seconds, what)


class Client:
    def __init__(self, home, machine):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.path.join(home.path, "run", machine + ".sock"))
        self.buffer, self.requests, self.next, self.closed = bytearray(), {}, 1, False
        self.send("HELLO", 0, encode("hello", version=_version(), role="client", software="test"))
        self.greeted = Request(self, 0, False)
        self.requests[0] = self.greeted
        self.greeted.wait("HELLO")

    def close(self):
        self.sock.close()

    def send(self, name, request, payload=b"", stream=0, flags=0):
        kind = TYPES[name] if isinstance(name, str) else name
        self.sock.settimeout(lib.COMMAND_S)
        self.sock.sendall(HEADER.pack(len(payload), kind, flags, stream, request) + payload)

    def ask(self, name, credit=True, message=None, **values):
        request = Request(self, self.next, credit)
        self.requests[self.next] = request
        self.next += 1
        message = message or name.lower()
        self.send(name, request.number, encode(message, **values) if message in TABLES else b"")
        return request

    def _receive(self, seconds):
        self.sock.settimeout(max(seconds, 0.001))
        try:
            data = self.sock.recv(1 << 20)
        except socket.timeout:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
        self.buffer += data
        while len(self.buffer) >= HEADER.size:
            length, kind, flags, stream, request = HEADER.unpack_from(self.buffer)
            if len(self.buffer) < HEADER.size + length:
                return
            payload = bytes(self.buffer[HEADER.size:HEADER.size + length])
            del self.buffer[:HEADER.size + length]
            owner = self.requests.get(request)
            if owner:
                owner.take(Frame(kind, flags, stream, request, payload))

    def until(self, condition, seconds, what):
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if self.closed:
                raise Closed("the connection ended before: %s" % what)
            left = deadline - time.monotonic()
            if left <= 0:
                raise lib.Timeout("not within %d s: %s" % (seconds, what))
            self._receive(left)

    # what tests say most often

    def session(self, cmd, yield_ms=20000, flags=0, **values):
        """Start a session and wait for its answer: (its message, the output)."""
        request = self.ask("SESSION_START", cmd=cmd, yield_ms=yield_ms, flags=flags, **values)
        return self.answer(request)

    def input(self, session, chars=b"", yield_ms=250, **values):
        return self.answer(self.ask("SESSION_INPUT", session=session, chars=chars,
                                    yield_ms=yield_ms, **values))

    def answer(self, request, seconds=lib.COMMAND_S):
        frame = request.wait("SESSION_OUTPUT", seconds=seconds)
        return decode("session_output", frame.payload), request.out

    def sessions(self):
        request = self.ask("SESSIONS")
        request.wait("OK")
        return [decode("session_info", f.payload) for f in request.named("SESSION_INFO")]
