// The official SDK's client against `glovebox mcp`: node sdk_client.mjs GLOVEBOX ARG...
// Prints one JSON object with what it got; the test judges it. The SDK checks what it gets against
// its own schemas, and structured results against the tools' output schemas.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.E2E_MODULES + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)).href);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

const [command, ...args] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
const client = new Client({ name: "e2e", version: "1" });
await client.connect(transport);
const call = (name, args, options) =>
  client.callTool({ name, arguments: args }, undefined, { timeout: 90000, ...options });
const progress = [];
const seen = {
  server: client.getServerVersion(),
  instructions: client.getInstructions(),
  tools: (await client.listTools()).tools,
  first: await call("exec_command", { cmd: "uname -r; pwd" }, { onprogress: (p) => progress.push(p) }),
  progress,
};

seen.wrong = await call("exec_command", { cmd: 5 });
seen.unknown = await call("no_such_tool", {}).catch((e) => ({ code: e.code }));
seen.patch = await call("apply_patch", {
  input: "*** Begin Patch\n*** Add File: sdk.txt\n+by the SDK\n*** End Patch\n" });
seen.image = await call("view_image", { path: "dot.png" });
seen.parallel = (await Promise.all([1, 2, 3, 4, 5].map((n) =>
  call("exec_command", { cmd: `sleep 0.2; echo number ${n}` })))).map((r) => r.structuredContent.output);
const session = await call("exec_command", { cmd: "read x; echo got $x", tty: true, yield_time_ms: 250 });
seen.session = session.structuredContent;
seen.typed = await call("write_stdin", { session_id: seen.session.session_id, chars: "hello\n", yield_time_ms: 5000 });
const stop = new AbortController();
const begin = Date.now();
const cancelled = call("exec_command", { cmd: "exec sleep 4711", yield_time_ms: 30000 }, { signal: stop.signal });
setTimeout(() => stop.abort(), 1000);
seen.cancelled = await cancelled.then(() => "answered", (e) => String(e));
seen.cancelledAfter = Date.now() - begin;
let left;
for (let i = 0; i < 20; i++) {
  left = await call("exec_command", { cmd: "pgrep -xc sleep", login: false });
  if (left.structuredContent.output.trim() === "0") break;
}
seen.left = left.structuredContent.output.trim();
await client.close();
seen.pid = transport.pid;
console.log(JSON.stringify(seen));
