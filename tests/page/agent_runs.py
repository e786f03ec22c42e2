"""Agents that talk with a gateway: each turn sends the whole conversation, with the results of the calls before it."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import post
from tests.support.page_gateway import set_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected

__all__ = ["NO_ESTIMATES", "Agent", "plays_agent", "set_times"]
NO_ESTIMATES = {"estimates": False}  # an estimate writes a turn's row again, with its real times
MODEL = "anthropic/claude-sonnet-4-5"
_ids = count()
# What the model does in a task: the calls of each turn; after the last it says that it is done.
TASKS: dict[str, list[list[tuple[str, dict[str, str]]]]] = {
    "Mend the parser.": [
        [("read_file", {"path": "parser.py"})],
        [("bash", {"command": "make test"}), ("read_file", {"path": "tests/test_parser.py"})],
        [("edit", {"path": "parser.py", "text": "return None"})],
        [("bash", {"command": "make test"})],
    ],
    "Start the server.": [[("bash", {"command": "npm start"})]] * 4,
    "Make it pass.": [[("bash", {"command": "make"})], [("edit", {"path": "a.py", "text": "x = 1"})]] * 3,
    "Say hello.": [],
}


def plays_agent(seen: ReceivedRequest) -> Reply:
    """The model: it takes the next step of the task that the first message names. `FAIL` in a message is refused."""
    messages = seen.json["messages"]
    if "FAIL" in json.dumps(messages[-1]):
        return Reply.error("anthropic", 500, "the provider is out of order")
    task = next((name for name in TASKS if name in json.dumps(messages)), "Say hello.")
    steps = TASKS[task]
    done = sum(message["role"] == "assistant" for message in messages)
    calls = steps[done] if done < len(steps) else []
    size = 900 + len(seen.body)
    events: list[ev.AnyEvent] = [ev.Start(id=f"m{next(_ids)}", model="claude-sonnet-4-5"), ev.TextStart(0)]
    words = (
        f"Step {done + 1} of {task}" if calls else f"Done: {task} Everything is as it should be now, as far as I see."
    )
    events += [ev.TextDelta(0, words), ev.TextEnd(0)]
    for place, (name, given) in enumerate(calls, 1):
        call = f"call_{next(_ids)}"
        text = json.dumps(given, separators=(",", ":"))
        events += [ev.CallStart(place, call, name), ev.CallDelta(place, text), ev.CallEnd(place, call, name, text)]
    cached = size - 700 if done else 0
    events += [ev.Usage(input=size, output=60, cached=cached), ev.Finish("calls" if calls else "stop")]
    return Reply.of("anthropic", events)


class Agent:
    """An agent of one task. `step` sends a turn and takes its answer into the conversation."""

    def __init__(self, running: Inspected, task: str, headers: dict[str, str] | None = None) -> None:
        self._url = f"{running.url}/v1/messages"
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
        self.headers = {"user-agent": "claude-cli/2.0.1 (external, cli)", **(headers or {})}
        self.ids: list[str] = []

    def step(self, result: str = "ok") -> bool:
        """Returns whether the model has called tools, whose results are in the conversation then."""
        body = {"model": MODEL, "max_tokens": 900, "stream": False, "messages": self.messages}
        reply = post(self._url, json=body, headers=self.headers)
        self.ids.append(reply.headers["x-request-id"])
        if reply.status_code != 200:
            return False
        content = reply.json()["content"]
        self.messages.append({"role": "assistant", "content": content})
        results = [{"type": "tool_result", "tool_use_id": part["id"], "content": result}
                   for part in content if part["type"] == "tool_use"]  # fmt: skip
        if results:
            self.messages.append({"role": "user", "content": results})
        return bool(results)

    def run(self, results: Sequence[str] = ()) -> list[str]:
        """Runs to the end; returns the ids of its turns."""
        for number in range(20):
            if not self.step(results[number] if number < len(results) else "ok"):
                return self.ids
        raise AssertionError("the agent does not end")

    def add_user_message(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})
