"""Three things that go wrong between a client and a model, to look at in the inspector.

docs/inspector.md tells the stories.

Start the gateway, run this, and open the address that it prints. No key, no network:

    penstock serve --config examples/inspector_stories.toml
    python examples/inspector_stories.py
"""

import json
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GATEWAY = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4480"
LAB_PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 4481  # of the provider `lab`, in examples/inspector_stories.toml
JSON = {"content-type": "application/json", "user-agent": "stories/1.0"}
SHELL = {
    "name": "shell",
    "description": "Runs a command.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


class Lab(BaseHTTPRequestHandler):
    """The provider `lab`. It refuses thinking without a signature, as Anthropic does; else packaged streams answer."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        refusal = find_unsigned(json.loads(body)["messages"])
        if refusal:
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": refusal}}
            self.write(400, json.dumps(error).encode())
            return
        with urllib.request.urlopen(urllib.request.Request(f"{GATEWAY}/v1/messages", body, JSON)) as response:  # noqa: S310
            self.write(response.status, response.read())

    def write(self, status: int, body: bytes) -> None:
        """Send a response."""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the addresses of the stories are all that is printed."""


def find_unsigned(messages: list[Any]) -> str:
    """Return what Anthropic says of thinking without a signature; empty if there is none."""
    for place, message in enumerate(messages):
        for number, part in enumerate(message["content"] if isinstance(message["content"], list) else []):
            if part["type"] == "thinking" and not part.get("signature"):
                return f"messages.{place}.content.{number}: Invalid `signature` in `thinking` block"
    return ""


def ask(model: str, messages: list[Any], **more: object) -> tuple[list[Any], str]:
    """Send a request of the Messages API. Returns the content of the answer (empty if refused) and the turn's id."""
    body = {"model": model, "max_tokens": 4000, "tools": [SHELL], "messages": messages, **more}
    request = urllib.request.Request(f"{GATEWAY}/v1/messages", json.dumps(body).encode(), JSON)  # noqa: S310
    try:
        with urllib.request.urlopen(request) as response:  # noqa: S310
            return json.load(response)["content"], response.headers["x-request-id"]
    except urllib.error.HTTPError as error:  # the provider has refused it
        return [], error.headers["x-request-id"]


def use_tool(messages: list[Any], content: list[Any], result: str) -> None:
    """Add the answer of the model, and the result of its call."""
    call = next(part for part in content if part["type"] == "tool_use")
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": result}]
    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]


def lose_a_signature() -> list[str]:
    """A client that keeps the text of the model's thinking, but not its signature. The provider refuses the request."""
    ids: list[str] = []
    for signed in ({"signature": "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="}, {}):
        thinking = {"type": "thinking", "thinking": "The level is in a file.", **signed}
        call = {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"command": "cat level.txt"}}
        messages: list[Any] = [{"role": "user", "content": "How high is the water? Run `cat level.txt`."}]
        use_tool(messages, [thinking, call], "3.2 m")
        _, turn = ask("lab/replay/agent", messages, thinking={"type": "enabled", "budget_tokens": 1024})
        ids.append(turn)
    return ids


def repeat_a_call() -> list[str]:
    """An agent that makes the same call again and again, because its result never changes."""
    ids: list[str] = []
    messages: list[Any] = [{"role": "user", "content": "Start the server: `npm start`."}]
    for _ in range(5):
        content, turn = ask("replay/agent", messages)
        ids.append(turn)
        if not any(part["type"] == "tool_use" for part in content):  # it has reported: tell it to go on
            messages += [{"role": "assistant", "content": content}]
            messages += [{"role": "user", "content": "It does not answer. Once more: `npm start`."}]
        else:
            use_tool(messages, content, "Error: port 3000 is in use")
    return ids


def miss_the_cache() -> list[str]:
    """A system prompt that begins with the time: nothing behind it can be read from the provider's cache."""
    rules = "You watch the gates of a canal. Answer in one sentence, with the unit. " * 60
    ids: list[str] = []
    messages: list[Any] = [{"role": "user", "content": "How high is the water at the first gate?"}]
    for minute in (1, 2, 3):
        system = [
            {"type": "text", "text": f"It is 12:0{minute}.\n{rules}", "cache_control": {"type": "ephemeral"}},
        ]
        content, turn = ask("replay/text", messages, system=system, tools=[])
        ids.append(turn)
        messages += [{"role": "assistant", "content": content}]
        messages += [{"role": "user", "content": f"And at gate {minute + 1}?"}]
    return ids


if __name__ == "__main__":
    lab = ThreadingHTTPServer(("127.0.0.1", LAB_PORT), Lab)
    threading.Thread(target=lab.serve_forever, daemon=True).start()
    print("a lost signature", f"{GATEWAY}/#/turn/{lose_a_signature()[-1]}?view=request&tab=upstream", sep="\n  ")
    print("a loop", f"{GATEWAY}/#/runs/{repeat_a_call()[0]}", sep="\n  ")
    print("a cache that misses", f"{GATEWAY}/#/turn/{miss_the_cache()[-1]}?view=request&tab=prompt", sep="\n  ")
