"""The model behind the gateway: none at all, but it can be spoken to in any protocol, and it checks its clients.

It has a shell tool of the client's run `cat` on a file, then turn round the word that came out, and says the result. It
thinks before each call and wants its thoughts back with the result, sealed as they were, as real providers do.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from penstock.messages.request_codecs import reader
from penstock.replay.inputs import filled
from penstock.replay.playing import told
from penstock.replay.tools import chosen, runs_commands
from penstock.testing import Reply

if TYPE_CHECKING:
    from penstock.testing import Seen

PROTOCOLS = {"chat/completions": "openai-chat", "responses": "responses", "messages": "anthropic"}
WORD = re.compile(r"nonce-[0-9a-f]{12}")
STEPS = 2  # calls before it is done, if all goes well
TRIES = 5  # and before it gives up
_SEAL = "c2VhbGVkIGJ5IHRoZSBwcm92aWRlcg"  # base64, as seals are
_SEALS: dict[str, dict[str, Any]] = {
    "anthropic": {"anthropic": {"signature": _SEAL}},
    "responses": {"responses": {"encrypted_content": _SEAL}},
}


class Model:
    """Answers requests. `faults` says what was wrong with them, `calls` counts the tools it had run."""

    def __init__(self, own: str = "", breaks: int = 0) -> None:
        self.own = own  # the protocol that the client speaks
        self.breaks = breaks  # so many streams break off in the middle of a call
        self.faults: list[str] = []
        self.calls = 0
        self._number = 0
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Reply:
        with self._lock:
            self._number += 1
            return self._answer(seen)

    def _answer(self, seen: Seen) -> Reply:
        protocol = next((name for end, name in PROTOCOLS.items() if seen.path.endswith(end)), "")
        if not protocol:
            return Reply.body({"error": {"message": f"no such address: {seen.path}"}}, status=404)
        body = seen.json
        parts = self._parts(reader(protocol)(body), protocol, seen.body)
        events = told(parts, id=f"t{self._number}", model="scripted", created=1, asked=len(seen.body) // 4)
        reply = Reply.of(protocol, events, stream=body.get("stream") is True)
        if self.breaks and body.get("stream") is True and any(isinstance(part, rq.Call) for part in parts):
            self.breaks -= 1
            return reply.cut(after=len(reply.data) * 3 // 5)
        return reply

    def _parts(self, request: rq.Request, protocol: str, raw: bytes) -> list[rq.AnyPart]:
        tool = chosen(request)
        results = [part for message in request.messages for part in message.parts if isinstance(part, rq.Result)]
        if tool is None or not runs_commands(tool):
            return [rq.Text("A word in a file")]  # a title for the conversation, and whatever else is asked beside it
        if results:
            self._look(protocol, raw, len(results))
        found = WORD.search("\n".join(map(_text, results)))
        if found and any(found[0][::-1] in _text(result) for result in results):
            return [rq.Text(f"The shell printed: {found[0][::-1]}")]
        if len(results) >= TRIES:
            self.faults.append(f"the last result came without the word: {_text(results[-1])[:200]!r}")
            return [rq.Text("I give up.")]
        # A shell may be too slow for the tool around it, which then gives nothing: as any model would, it tries again.
        command = f"echo {found[0]} | rev" if found else "cat nonce.txt"
        self.calls += 1
        thought = rq.Reasoning(f"Step {len(results) + 1}: {command}.", extra=_SEALS.get(protocol))
        free = tool.kind == "custom"
        json = command if free else filled(tool.schema or {}, command)
        call = rq.Call(f"call_{self._number:04}abcdef", tool.name, json, form="text" if free else "json")
        call.extra = {protocol: {"namespace": tool.namespace}} if tool.namespace else None
        return [thought, rq.Text("I will look. "), call]

    def _look(self, protocol: str, raw: bytes, results: int) -> None:
        """Whether the thoughts of all steps so far have come back, with their seals."""
        if protocol == self.own and b'"thinking":' not in raw:
            return  # it speaks for itself, and asked for no thoughts: what it does with them is its own affair
        if protocol in _SEALS and raw.count(_SEAL.encode()) < results:
            self.faults.append(f"{protocol}: reasoning came back {raw.count(_SEAL.encode())} times for {results} calls")


def _text(result: rq.Result) -> str:
    rows = (part.text if isinstance(part, rq.Text) else msgspec.json.encode(part).decode() for part in result.content)
    return "\n".join(rows)
