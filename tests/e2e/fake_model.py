"""A model on loopback that says what a script says, for clients of the Responses API (Codex) and
of the chat completions API (pi). A script is a list of steps: {"calls": [(tool, arguments), …]} or
{"text": …}. Which step comes is told by how many answers of tools the request has."""
import http.server
import json
import threading


class Model:
    def __init__(self, steps):
        self.steps = steps
        self.requests = []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                answer = responses if self.path.endswith("/responses") else completions
                for line in answer(model.steps, body):
                    self.wfile.write(line.encode())

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/v1" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answers(self):
        """What the tools answered, as the model got it in the last request: a text a call."""
        last = self.requests[-1] if self.requests else {}
        found = [text_of(i["output"]) for i in last.get("input", [])
                 if i.get("type", "").endswith("_output")]
        return found + [text_of(m["content"]) for m in last.get("messages", [])
                        if m.get("role") == "tool"]


def text_of(output):
    if isinstance(output, str):
        return output
    return "\n".join(part.get("text", "<%s>" % part.get("type")) for part in output)


def pick(steps, done):
    """The step that comes after done answers."""
    for step in steps:
        if done <= 0:
            return step
        done -= len(step.get("calls", ())) or 1
    return steps[-1]


def event(name, **more):
    return "event: %s\ndata: %s\n\n" % (name, json.dumps({"type": name, **more}))


def responses(steps, body):
    done = sum(i.get("type", "").endswith("_output") for i in body.get("input", []))
    step = pick(steps, done)
    if "calls" in step:
        items = [{"type": "function_call", "id": "fc_%d_%d" % (done, i), "call_id": "call_%d_%d" % (
            done, i), "name": tool, "namespace": "mcp__glovebox", "arguments": json.dumps(arguments),
            "status": "completed"} for i, (tool, arguments) in enumerate(step["calls"])]
    else:
        items = [{"type": "message", "id": "msg_%d" % done, "role": "assistant",
                  "status": "completed",
                  "content": [{"type": "output_text", "text": step["text"], "annotations": []}]}]
    whole = {"id": "resp_%d" % done, "object": "response"}
    yield event("response.created", response={**whole, "status": "in_progress", "output": []})
    for i, item in enumerate(items):
        yield event("response.output_item.added", output_index=i, item=item)
        yield event("response.output_item.done", output_index=i, item=item)
    usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
    yield event("response.completed", response={**whole, "status": "completed", "output": items,
                                                "usage": usage})


def completions(steps, body):
    done = sum(m.get("role") == "tool" for m in body.get("messages", []))
    step = pick(steps, done)

    def chunk(delta, finish=None):
        return "data: %s\n\n" % json.dumps({
            "id": "chatcmpl-%d" % done, "object": "chat.completion.chunk", "created": 1,
            "model": body.get("model"),
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    yield chunk({"role": "assistant", "content": ""})
    if "calls" in step:
        for i, (tool, arguments) in enumerate(step["calls"]):
            yield chunk({"tool_calls": [{"index": i, "id": "call_%d_%d" % (done, i),
                                         "type": "function", "function": {
                                             "name": "mcp__glovebox__" + tool,
                                             "arguments": json.dumps(arguments)}}]})
        yield chunk({}, "tool_calls")
    else:
        yield chunk({"content": step["text"]})
        yield chunk({}, "stop")
    yield "data: %s\n\n" % json.dumps({
        "id": "chatcmpl-%d" % done, "object": "chat.completion.chunk", "created": 1,
        "model": body.get("model"), "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
    yield "data: [DONE]\n\n"
