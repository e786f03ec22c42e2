"""What `useChat` posts: UI messages → canonical. `write.py` is the way back.

One message of the assistant's holds all steps of its turn, each with its calls and their results; here every step is an
assistant's message, the results behind it, and the user's answers to requests for approval behind those. What a page
keeps for itself (steps, data parts, calls still streaming) is never content; it stands aside with its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick, reading
from penstock import request as rq
from penstock.aisdk import settings
from penstock.aisdk.messages import read_custom, read_file, read_reasoning, read_text
from penstock.aisdk.options import METADATA, OPTIONS, dress, kept, note, read_options
from penstock.aisdk.words import OPAQUE, OURS
from penstock.errors import BadRequest
from penstock.protocols.uistream import old
from penstock.protocols.uistream.tools import NAME, ToolPart
from penstock.writing import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant"}
ASIDE = "data"  # version 4's role for what no model is told
STEERING = "steering-message"
ORPHAN = (NAME, "result")  # opaque state that is a result without its call
HEAD = ("id", "metadata")  # of a message: what only pages care for
CHAT = ("id", "trigger", "messageId")  # and of a request
_KNOWN = settings.KNOWN | {"system", *CHAT}
_SAID = frozenset({"type", "text", "state"})
_WORDS = (METADATA,)


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    tools = settings.read_tools(reading.as_object(body))
    reader = _Reader(frozenset(tool.name for tool in tools if tool.kind == "custom"))
    system = reading.text(body, "system")
    messages = [rq.Message("system", [rq.Text(system)])] if system else []
    messages += reader.read(body)
    asked, spelled = settings.read_settings(body)
    options, ours, word = settings.read_request_options(body)
    unknown = {key: value for key, value in body.items() if key not in _KNOWN or value is None}
    streamed = reading.flag(body, "stream")
    return rq.Request(
        reading.text(body, "model"),
        messages,
        tools,
        settings.read_choice(body),
        asked,
        stream=streamed is not False,
        usage=reading.flag(ours, "usage"),
        options=options,
        extra=kept(
            NAME, read_options({OPTIONS: {OURS: ours}} if ours else {}), unknown, **spelled, **word,
            system=bool(system), named=isinstance(body.get("tools"), dict), streamed=streamed is True,
            aside=reader.aside, chat={key: body[key] for key in CHAT if key in body},
        ),
    )  # fmt: skip


class _Reader:
    """One request being read. State: tools of free text, how many messages there are, those that say nothing."""

    def __init__(self, custom: frozenset[str]) -> None:
        self._custom = custom
        self._count = 0
        self._place = 0
        self.aside: list[list[Any]] = []

    def read(self, body: Object) -> list[rq.Message]:
        self._count = len(pick.listed(body, "messages"))
        return [message for row in reading.rows(body, "messages", self._message, need=True) for message in row]

    def _message(self, message: Object) -> list[rq.Message]:
        self._place += 1
        if message.get("role") == ASIDE:
            self.aside.append([self._place - 1, message])
            return []
        role = reading.word(message, "role", ROLES)
        old_one = old.is_old(message)
        parts = old.parts_of(message, last=self._place == self._count) if old_one else None
        steps = _Steps(role, self._custom)
        steps.read(message if parts is None else {"parts": parts})
        if not steps.made:
            self.aside.append([self._place - 1, message])
            return []
        first = steps.made[0]
        rest = reading.rest(message, {"role", "parts", *HEAD})
        head = {key: message[key] for key in HEAD if key in message}
        marks: Object = {"head": head, "hidden": steps.hidden, "done": steps.done, "count": len(steps.made)}
        if old_one:
            marks, rest = {"raw": message, "count": len(steps.made)}, {}
        marks |= split(first.extra, NAME)[1]
        first.extra = {
            NAME: {**({"rest": rest} if rest else {}), "_": {key: said for key, said in marks.items() if said}}
        }
        for later in steps.made[1:]:
            note(later, NAME, _={**split(later.extra, NAME)[1], "more": True})
        return steps.made


class _Steps:
    """One message being taken apart. State: what this step said, what its tools gave, what the user answered."""

    def __init__(self, role: rq.Role, custom: frozenset[str]) -> None:
        self._role: rq.Role = role
        self._custom = custom
        self.made: list[rq.Message] = []
        self.hidden: list[list[Any]] = []
        self.done = False
        self._place = 0
        self._begin()

    def _begin(self) -> None:
        self._said: list[rq.AnyPart] = []
        self._results: list[rq.AnyPart] = []
        self._answers: list[rq.AnyPart] = []

    def read(self, message: Object) -> None:
        states = [
            part.get("state") for part in pick.rows(message, "parts") if part.get("type") in ("text", "reasoning")
        ]
        self.done = bool(states) and all(state == "done" for state in states)
        reading.rows(message, "parts", self._part, need=True)
        self._end()

    def _end(self) -> None:
        """Close the step."""
        rows: tuple[tuple[rq.Role, list[rq.AnyPart]], ...] = (
            (self._role, self._said), ("tool", self._results), ("user", self._answers),
        )  # fmt: skip
        self.made += [rq.Message(role, parts) for role, parts in rows if parts]
        self._begin()

    def _part(self, part: Object) -> None:
        kind = reading.needed(part, "type")
        self._place += 1
        if kind == "step-start":
            self._hide(part)
            self._end()
        elif kind == STEERING:
            self._steer(part)
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            self._tool(part)
        elif kind.startswith("data-") and kind != OPAQUE:
            self._hide(part)
        else:
            made = self.kinds.get(kind, _Steps._other)(self, part)
            (self._results if type(made) is rq.Result else self._said).append(made)

    def _hide(self, part: Object) -> None:
        self.hidden.append([self._place - 1, part])

    def _steer(self, part: Object) -> None:
        """What the user said between two steps."""
        self._end()
        inside = _Steps("user", self._custom)
        inside.read(part)
        for message in inside.made:
            note(message, NAME, _={"steering": reading.rest(part, {"parts"})})
        self.made += inside.made

    def _tool(self, part: Object) -> None:
        tool = ToolPart(part, self._custom)
        if not tool.whole:
            self._hide(part)
            return
        self._said += [tool.call, *tool.asks]
        self._answers += tool.answers
        (self._said if tool.call.by == "provider" else self._results).extend(tool.results)

    def _text(self, part: Object) -> rq.Text:
        return read_text(part, _SAID, NAME, state="" if self.done else part.get("state"))

    def _reasoning(self, part: Object) -> rq.Reasoning:
        return read_reasoning(part, _SAID, NAME, state="" if self.done else part.get("state"))

    def _file(self, part: Object) -> rq.File:
        return read_file(part, "url", "application/octet-stream", NAME)

    def _source(self, part: Object) -> rq.Source:
        made = rq.Source(
            reading.text(part, "url"), reading.text(part, "title"), id=reading.text(part, "sourceId"),
            media=reading.text(part, "mediaType"), filename=reading.text(part, "filename"),
        )  # fmt: skip
        known = {"type", "url", "title", "sourceId", "mediaType", "filename"}
        dress(made, part, known, _WORDS, NAME)
        return made

    def _opaque(self, part: Object) -> rq.Opaque | rq.Result:
        data = reading.table(part, "data")
        protocol, kind = reading.text(data, "protocol"), reading.text(data, "kind")
        if (protocol, kind) == ORPHAN:
            try:
                return msgspec.convert(data.get("data"), rq.Result)
            except msgspec.ValidationError:
                raise BadRequest("a result", data.get("data"), "data.data") from None
        return rq.Opaque(protocol or NAME, kind or OPAQUE, data.get("data") if protocol and kind else part)

    def _custom_part(self, part: Object) -> rq.Opaque:
        return read_custom(part, NAME)

    def _other(self, part: Object) -> rq.Opaque:
        return rq.Opaque(NAME, part["type"], part)

    kinds: dict[str, Callable[[Any, Object], rq.AnyPart]] = {  # noqa: RUF012 — a table
        "text": _text, "reasoning": _reasoning, "file": _file, "reasoning-file": _file, "source-url": _source,
        "source-document": _source, "custom": _custom_part, OPAQUE: _opaque,
    }  # fmt: skip
