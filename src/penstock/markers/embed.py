"""The way out: everything into a place that the protocol has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.markers.marks import ALONE, ENDS, FAILED, FILE, MADE, RAN, REFUSED, SILENT, Holds, lasting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Report: TypeAlias = Callable[[str], None]


def stowed(messages: list[rq.Message], holds: Holds, carry: Report, lose: Report) -> list[rq.Message]:
    """The messages with everything in a place that the protocol has; the same list where that is so already.

    The only loss is `order`: of a turn that a provider's calls break up, the client's calls come last.
    """
    any_result = holds.failed and holds.result_files
    for message in messages:
        role = message.role
        if role == "assistant":
            if not _fits_turn(message, holds):
                break
        elif role == "tool" and not any_result and not _fits_results(message, holds):
            break
    else:
        return messages
    return _Stowing(holds, carry, lose).run(messages)


def _fits_turn(message: rq.Message, holds: Holds) -> bool:
    for part in message.parts:
        if type(part) is rq.Text:
            if part.refusal and not holds.refusals:
                return False
        elif type(part) is rq.Call:
            if part.by == "provider" and _ran(part, holds.protocol):
                return False
        elif type(part) is rq.Result:
            if _ran(part, holds.protocol):
                return False
        elif type(part) is rq.File and _made(part, holds):
            return False
    return True


def _made(file: rq.File, holds: Holds) -> bool:
    """Whether it is a file of the assistant's that has no place; not if this protocol's client had one for it."""
    return not holds.assistant_files and "said" not in (file.extra or {}).get(holds.protocol, {}).get("_", ())


def _ran(part: rq.Call | rq.Result, protocol: str) -> bool:
    """Whether a provider ran it, and not one of this protocol. Any result inside a turn is of that kind."""
    return (part.by == "provider" or type(part) is rq.Result) and protocol not in (part.extra or ())


def _fits_results(message: rq.Message, holds: Holds) -> bool:
    for part in message.parts:  # noqa: SIM110 — a generator costs more than most messages hold
        if type(part) is rq.Result and (_fails(part, holds) or _lifts(part, holds)):
            return False
    return True


def _fails(result: rq.Result, holds: Holds) -> bool:
    """Whether it failed and that has no place; not if this protocol has another place for it (a status)."""
    if holds.failed or not result.failed:
        return False
    return "failed" not in (result.extra or {}).get(holds.protocol, {}).get("_", ())


def _lifts(result: rq.Result, holds: Holds) -> bool:
    """Whether it has files that must go elsewhere; not if this protocol's client put them there."""
    if holds.result_files:
        return False
    for part in result.content:
        if type(part) is rq.File and _sendable(part, holds):
            return "files" not in (result.extra or {}).get(holds.protocol, {}).get("_", ())
    return False


def _sendable(file: rq.File, holds: Holds) -> bool:
    return holds.file_urls or not file.url or file.media.startswith("image/")


class _Stowing:
    """One conversation being put into places. State: the files that wait for the end of a round of results."""

    def __init__(self, holds: Holds, carry: Report, lose: Report) -> None:
        self._holds = holds
        self._carry = carry
        self._lose = lose
        self._made: list[rq.Message] = []
        self._files: list[rq.AnyPart] = []
        self._pictures: list[rq.AnyPart] = []
        self._number = 0

    def run(self, messages: Iterable[rq.Message]) -> list[rq.Message]:
        for message in messages:
            if message.role == "tool":
                self._made.append(replace(message, parts=[self._answer(part) for part in message.parts]))
                continue
            self._flush()
            if message.role == "assistant":
                self._made += self._turn(message)
                if self._pictures and not any(type(part) is rq.Call for part in message.parts):
                    self._flush()  # no results to wait for
            else:
                self._made.append(message)
        self._flush()
        return self._made

    def _flush(self) -> None:
        for waiting in (self._files, self._pictures):
            if waiting:
                self._made.append(rq.Message("user", list(waiting)))
                waiting.clear()

    def _answer(self, part: rq.AnyPart) -> rq.AnyPart:
        if type(part) is not rq.Result:
            return part
        content = part.content
        if _lifts(part, self._holds):
            self._carry("result-file")
            content = [self._lifted(one) for one in content]
        if _fails(part, self._holds):
            self._carry("failed")
            return replace(part, content=_marked(content, FAILED), failed=False)
        return part if content is part.content else replace(part, content=content)

    def _lifted(self, part: rq.ResultPart) -> rq.ResultPart:
        if type(part) is not rq.File or not _sendable(part, self._holds):
            return part
        self._number += 1
        mark = FILE.format(self._number)
        self._files += rq.Text(mark), part
        return rq.Text(mark)

    def _turn(self, message: rq.Message) -> list[rq.Message]:
        parts: list[rq.AnyPart] = []
        mark = MADE if any(map(lasting, message.parts)) else ALONE
        own = all(type(part) is rq.File and _made(part, self._holds) for part in message.parts)
        for part in message.parts:
            if type(part) is rq.File and _made(part, self._holds):
                self._carry("assistant-file")
                number = sum(map(lasting, parts)) if mark is MADE else int(own)
                self._pictures += rq.Text(mark.format(number)), part
            elif type(part) is rq.Text and part.refusal and not self._holds.refusals:
                self._carry("refusal")
                parts.append(replace(part, text=f"{REFUSED}\n{part.text}", refusal=False))
            else:
                parts.append(part)
        message = replace(message, parts=parts)
        if any(isinstance(part, rq.Call | rq.Result) and _ran(part, self._holds.protocol) for part in parts):
            self._carry("provider-call")
            spread = _Spreading(message, self._holds)
            rows = spread.rows()
            if spread.moved:
                self._lose("order")
            if spread.encrypted:
                self._lose("encrypted")
            return rows
        return [message] if parts or not self._pictures else []


def _marked(content: Sequence[rq.ResultPart], mark: str) -> list[rq.ResultPart]:
    first = content[0] if content else None
    if type(first) is rq.Text:
        return [replace(first, text=f"{mark}\n{first.text}"), *content[1:]]
    return [rq.Text(mark), *content]


class _Spreading:
    """A turn in which calls were answered, as calls with results behind them. The client's own calls come last."""

    def __init__(self, message: rq.Message, holds: Holds) -> None:
        self._message = message
        self._protocol = holds.protocol
        self._json = holds.json
        self._answered = {part.call for part in message.parts if type(part) is rq.Result}
        self._rows: list[rq.Message] = []
        self._parts: list[rq.AnyPart] = []
        self._own: list[rq.AnyPart] = []
        self._silent: list[rq.AnyPart] = []  # results for calls that have none
        self.moved = False  # whether such a call stood before anything else
        self.encrypted = False  # whether a result held what only its provider can read

    def rows(self) -> list[rq.Message]:
        for part in self._message.parts:
            if type(part) is rq.Call and part.by == "client":
                self._own.append(part)
                continue
            self.moved = self.moved or (bool(self._own) and _heard(part))
            if type(part) is rq.Result and _ran(part, self._protocol):
                self._result(part)
            elif type(part) is rq.Call and _ran(part, self._protocol):
                self._call(part)
            else:
                self._parts.append(part)
        self._settle()
        self._parts += self._own
        self._speak()
        if self._rows[-1].role == "tool":
            self._rows = _ended(self._rows)
        self._rows[0] = replace(self._rows[0], name=self._message.name, extra=self._message.extra)
        return self._rows

    def _speak(self) -> None:
        if self._parts:
            self._rows.append(rq.Message("assistant", self._parts))
            self._parts = []

    def _settle(self) -> None:
        if self._silent:
            self._speak()
            self._rows.append(rq.Message("tool", self._silent))
            self._silent = []

    def _call(self, call: rq.Call) -> None:
        self._parts.append(replace(call, id=RAN + call.id, by="client", extra=None))
        if call.id not in self._answered:
            self._silent.append(rq.Result(RAN + call.id, call.name, [rq.Text(SILENT)]))

    def _result(self, result: rq.Result) -> None:
        self._speak()
        content = [self._readable(part) for part in result.content]
        result = replace(result, call=RAN + result.call, by="client", content=content, extra=None)
        self._rows.append(rq.Message("tool", [result, *self._silent]))
        self._silent = []

    def _readable(self, part: rq.ResultPart) -> rq.ResultPart:
        """A part of a result, without what only the provider that ran the tool can read."""
        if type(part) is not rq.Json:
            return part
        text = without_ciphertext(part.json)
        self.encrypted = self.encrypted or text is not part.json
        if not self._json:
            return rq.Text(text)
        return part if text is part.json else replace(part, json=text)


def _heard(part: rq.AnyPart) -> bool:
    return not isinstance(part, rq.Text | rq.Reasoning) or bool(part.text)


def _ended(rows: list[rq.Message]) -> list[rq.Message]:
    """A turn whose last word is a result, which says so: else nobody could tell where the next one begins."""
    last = {part.call for part in rows[-1].parts if type(part) is rq.Result}
    return [replace(row, parts=[_last(part) if _id(part) in last else part for part in row.parts]) for row in rows]


def _id(part: rq.AnyPart) -> str:
    return part.id if type(part) is rq.Call else part.call if type(part) is rq.Result else ""


def _last(part: rq.AnyPart) -> rq.AnyPart:
    if type(part) is rq.Call:
        return replace(part, id=ENDS + part.id[len(RAN) :])
    return replace(part, call=ENDS + part.call[len(RAN) :]) if type(part) is rq.Result else part


# https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool (encrypted_content, encrypted_index),
# …/code-execution-tool (encrypted_stdout), …/build-with-claude/extended-thinking (signature; data of redacted thinking)
FIELDS: Final = frozenset({
    "encrypted_content", "encrypted_index", "encrypted_stdout", "encrypted_stderr", "signature", "thoughtSignature",
    "thought_signature", "redactedContent",
})  # fmt: skip
_SEALED: Final = frozenset({"redacted_thinking", "reasoning.encrypted"})  # types whose `data` is sealed
_encode = msgspec.json.Encoder().encode


def without_ciphertext(text: str) -> str:
    """A JSON text without fields that are sealed; the same text where there are none, or where it is no JSON."""
    if not any(name in text for name in FIELDS) and not any(name in text for name in _SEALED):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    return _encode(value).decode() if _stripped(value) else text


def _stripped(value: Any) -> bool:
    """Take sealed fields out of a value, at any depth; whether there were any."""
    found = False
    waiting: list[Any] = [value]
    while waiting:  # not recursive: the value may be of any depth
        one: Any = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            fields = cast("dict[str, Any]", one)
            kind = fields.get("type")
            sealed = FIELDS | {"data"} if isinstance(kind, str) and kind in _SEALED else FIELDS
            for name in sealed & fields.keys():
                del fields[name]
                found = True
            waiting += fields.values()
    return found
