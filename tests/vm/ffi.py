"""libglovebox through ctypes: what any other language's binding has to do, and nothing more."""
import ctypes
import os
from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int,
                    c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof)

import lib

CODES = {name: -1 - i for i, name in enumerate(
    "INVALID PARSE NOTFOUND EXISTS DENIED LIMIT BUSY TIMEOUT CLOSED NOMEM NOSPACE IO UNSUPPORTED "
    "STATE CANCELLED PROTOCOL".split())}
RETAINED = 1
TTY, STDIN, DETACH = 1, 2, 4
EXIT_TIMED_OUT = 1
STARTED, OUTPUT, NOTE, WRITABLE, DONE = 1, 2, 3, 4, 5
SESSION_TTY, SESSION_STDIN, SESSION_EXITED = 2, 4, 1


class Sized(Structure):
    """A struct whose first member is its size; text is encoded, lists become arrays."""

    def __init__(self, **values):
        super().__init__()
        self.size = sizeof(self)
        self.keep = []
        for name, value in values.items():
            if isinstance(value, str):
                value = value.encode()
            if isinstance(value, (list, tuple)):
                value = (c_char_p * (len(value) + 1))(*[
                    v.encode() if isinstance(v, str) else v for v in value], None)
                self.keep.append(value)
                value = ctypes.cast(value, POINTER(c_char_p))
            setattr(self, name, value)


Strings = POINTER(c_char_p)
Progress = CFUNCTYPE(None, c_void_p, c_char_p)


class Error(Structure):
    _fields_ = [("code", c_int), ("sys", c_int), ("message", c_char * 512)]


class Launch(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("image", c_char_p),
                ("directory", c_char_p), ("user", c_char_p), ("workdir", c_char_p),
                ("env", Strings), ("shares", c_void_p), ("share_count", c_size_t),
                ("cpus", c_uint32), ("memory_bytes", c_uint64), ("disk_bytes", c_uint64),
                ("accel", c_char_p), ("flags", c_uint32), ("start_deadline_ms", c_uint32),
                ("progress", Progress), ("progress_ctx", c_void_p), ("secrets", Strings)]


class Open(Sized):
    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("start_deadline_ms", c_uint32),
                ("progress", Progress), ("progress_ctx", c_void_p), ("secrets", Strings)]


class Event(Sized):
    _fields_ = [("size", c_size_t), ("type", c_int), ("stream", c_int), ("value", c_int64),
                ("data", c_void_p), ("len", c_size_t)]


class Exec(Sized):
    _fields_ = [("size", c_size_t), ("argv", Strings), ("env", Strings), ("cwd", c_char_p),
                ("user", c_char_p), ("flags", c_uint32), ("rows", c_uint32), ("cols", c_uint32),
                ("timeout_ms", c_uint64), ("grace_ms", c_uint64), ("deadline_ms", c_uint64)]


class Exit(Sized):
    _fields_ = [("size", c_size_t), ("code", c_int), ("signal", c_int), ("flags", c_uint32),
                ("spawn_ns", c_uint64), ("note", c_char * 256)]


class Execute(Sized):
    _fields_ = [("size", c_size_t), ("argv", Strings), ("env", Strings), ("cwd", c_char_p),
                ("user", c_char_p), ("flags", c_uint32), ("timeout_ms", c_uint64),
                ("max_output", c_uint64), ("out_fd", c_int), ("err_fd", c_int)]


class Execution(Structure):
    _fields_ = [("size", c_size_t), ("exit", Exit), ("out_data", c_void_p), ("out_len", c_size_t),
                ("err_data", c_void_p), ("err_len", c_size_t)]


class Session(Sized):
    _fields_ = [("size", c_size_t), ("cmd", c_char_p), ("shell", c_char_p), ("workdir", c_char_p),
                ("user", c_char_p), ("env", Strings), ("flags", c_uint32), ("rows", c_uint32),
                ("cols", c_uint32), ("yield_ms", c_uint64), ("deadline_ms", c_uint64)]


class SessionInput(Sized):
    _fields_ = [("size", c_size_t), ("chars", c_char_p), ("len", c_size_t), ("eof", c_bool),
                ("signo", c_int), ("rows", c_uint32), ("cols", c_uint32), ("yield_ms", c_uint64),
                ("deadline_ms", c_uint64)]


class SessionOutput(Sized):
    _fields_ = [("size", c_size_t), ("session", c_uint64), ("flags", c_uint32), ("code", c_int),
                ("signal", c_int), ("bytes", c_uint64), ("omitted", c_uint64), ("head", c_uint64),
                ("wall_ns", c_uint64), ("spawn_ns", c_uint64), ("note", c_char * 256)]


class SessionList(Structure):
    _fields_ = [("size", c_size_t), ("count", c_size_t), ("stride", c_size_t),
                ("sessions", c_void_p)]


class File(Sized):
    _fields_ = [("size", c_size_t), ("user", c_char_p), ("limit", c_uint64), ("mode", c_uint32),
                ("set_mtime", c_bool), ("mtime_s", c_int64), ("mtime_ns", c_uint32),
                ("deadline_ms", c_uint64)]


class Memory(Sized):
    _fields_ = [("size", c_size_t), ("known", c_bool), ("total_kib", c_uint64),
                ("available_min_kib", c_uint64), ("oom_kills", c_uint64)]


dll = CDLL(os.path.join(lib.BUILD, "libglovebox.so"))
for name, result in {
        "version": c_char_p, "error_for_model": c_char_p, "workspace_machine": c_char_p,
        "workspace_tools": c_void_p, "workspace_own_tools": c_void_p, "tools_ref": c_void_p,
        "request_write": c_int64, "request_ended": c_bool, "free": None, "request_free": None,
        "request_cancel": None, "tools_unref": None, "workspace_free": None,
        "execution_free": None, "session_list_free": None}.items():
    getattr(dll, "glovebox_" + name).restype = result


class Failure(Exception):
    def __init__(self, error):
        super().__init__(error.message.decode("utf-8", "replace"))
        self.code = error.code
        self.for_model = dll.glovebox_error_for_model(byref(error)).decode()


def call(name, *arguments):
    """glovebox_NAME(arguments…, &error), or Failure."""
    error = Error()
    r = getattr(dll, "glovebox_" + name)(*arguments, byref(error))
    if r < 0:
        assert r == error.code, (r, error.code)
        raise Failure(error)
    return r


class Request:
    def __init__(self, name, *arguments):
        self.p = c_void_p()
        call(name, *arguments, byref(self.p))
        self.out = {1: b"", 2: b""}
        self.notes = []
        self.pid = None

    def events(self):
        event = Event()
        while call("request_next", self.p, byref(event)):
            if event.type == OUTPUT:
                self.out[event.stream] += ctypes.string_at(event.data, event.len)
            elif event.type == STARTED:
                self.pid = event.value
            elif event.type == NOTE:
                self.notes.append(ctypes.string_at(event.data, event.len))
            yield event.type

    def fd(self):
        return call("request_fd", self.p)

    def poll(self, seconds):
        """Take events until the end: True; False when the time passed."""
        import select
        import time
        deadline = time.monotonic() + seconds
        while True:
            for kind in self.events():
                if kind == DONE:
                    return True
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd()], [], [], left)[0]:
                return False

    def wait(self, seconds=lib.COMMAND_S):
        if not self.poll(seconds):
            raise lib.Timeout("a request did not end")
        call("request_wait", self.p, c_int64(0), None)
        return self

    def exit(self):
        e = Exit()
        call("request_exit", self.p, byref(e))
        return e

    def write(self, data):
        return call("request_write", self.p, data, c_size_t(len(data)))

    def session(self):
        o = SessionOutput()
        call("request_session_output", self.p, byref(o))
        return o

    def cancel(self):
        dll.glovebox_request_cancel(self.p)

    def free(self):
        dll.glovebox_request_free(self.p)
        self.p = None


class Tools:
    """A capability; counted unless it is the owner's own."""

    def __init__(self, p):
        assert p
        self.p = c_void_p(p)

    def unref(self):
        dll.glovebox_tools_unref(self.p)

    def start(self, *argv, **options):
        return Request("exec_start", self.p, byref(Exec(argv=list(argv), **options)))

    def run(self, *argv, **options):
        """Output, errors and exit of a command."""
        q = self.start(*argv, **options).wait()
        e = q.exit()
        out = q.out
        q.free()
        return out[1], out[2], e

    def sh(self, script):
        out, err, e = self.run("sh", "-c", script)
        assert e.code == 0, (script, e.code, out, err)
        return out.decode()

    def execute(self, *argv, **options):
        """(out, err, exit, code): code is 0 or that of the failure, with what came with it."""
        p = POINTER(Execution)()
        code = 0
        try:
            call("execute", self.p, byref(Execute(argv=list(argv), **options)), byref(p))
        except Failure as f:
            code = f.code
        if not p:
            return None, None, None, code
        x = p.contents
        out = ctypes.string_at(x.out_data, x.out_len), ctypes.string_at(x.err_data, x.err_len)
        e = Exit(code=x.exit.code, flags=x.exit.flags)
        dll.glovebox_execution_free(p)
        return out[0], out[1], e, code

    def session(self, cmd, **options):
        return Request("session_start", self.p, byref(Session(cmd=cmd, **options)))

    def input(self, session, chars=b"", **options):
        return Request("session_input", self.p, c_uint64(session), byref(
            SessionInput(chars=chars, len=len(chars), **options)))

    def sessions(self):
        p = POINTER(SessionList)()
        call("sessions", self.p, byref(p))
        count = p.contents.count
        ids = [c_uint64.from_address(p.contents.sessions + i * p.contents.stride).value
               for i in range(count)]
        dll.glovebox_session_list_free(p)
        return ids

    def read(self, path, **options):
        data, n = c_void_p(), c_size_t()
        call("read_file", self.p, path.encode(), byref(File(**options)), byref(data), byref(n))
        content = ctypes.string_at(data, n.value)
        dll.glovebox_free(data)
        return content

    def write(self, path, content, **options):
        call("write_file", self.p, path.encode(), byref(File(**options)), content,
             c_size_t(len(content)))

    def mkdir(self, path, **options):
        call("create_directory", self.p, path.encode(), byref(File(**options)))

    def ping(self):
        call("ping", self.p, c_uint64(0))

    def terminate(self, session=0):
        call("terminate", self.p, c_uint64(session))

    def memory(self):
        m = Memory()
        call("memory", self.p, byref(m))
        return m


class Workspace:
    def __init__(self, name=None, **options):
        self.p = c_void_p()
        self.lines = []
        options.setdefault("progress", Progress(
            lambda ctx, line: self.lines.append(line.decode())))
        self.options = options
        if name is None:
            options.setdefault("image", lib.IMAGE)
            options.setdefault("memory_bytes", 512 << 20)
            call("workspace_launch", byref(Launch(**options)), byref(self.p))
        else:
            call("workspace_open", name.encode(), byref(Open(**options)), byref(self.p))
        self.own = Tools(dll.glovebox_workspace_own_tools(self.p))
        self.machine = dll.glovebox_workspace_machine(self.p).decode()

    def tools(self):
        return Tools(dll.glovebox_workspace_tools(self.p))

    def shutdown(self, deadline_ms=0):
        call("workspace_shutdown", self.p, c_uint32(deadline_ms))

    def logs(self):
        text = c_char_p()
        call("workspace_logs", self.p, byref(text))
        content = text.value
        dll.glovebox_free(text)
        return content

    def free(self):
        dll.glovebox_workspace_free(self.p)
