"""A tool's part of a UI message: a call, perhaps a request for approval with its answer, perhaps a result. Both ways.

Its `state` says how far it has come. A call whose input still streams is not whole, and nobody is told of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick, reading
from penstock import request as rq
from penstock.aisdk.messages import give_input, input_of
from penstock.aisdk.options import dress, kept, note, read_options, undressed
from penstock.aisdk.outputs import DENIED, alone, plain, read_content, value_of, write_content
from penstock.aisdk.words import SDK
from penstock.errors import BadRequest
from penstock.writing import split

if TYPE_CHECKING:
    from penstock.pick import Object
    from penstock.writing import Draft

NAME = "uistream"
CALL, RESULT = "callProviderMetadata", "resultProviderMetadata"
STATES = frozenset({
    "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available",
    "output-error", "output-denied",
})  # fmt: skip
PAGE = ("title", "toolMetadata")  # what only pages care for
_ASKING = ("approval-requested", "approval-responded", "output-denied")
_KNOWN = frozenset({
    "type", "toolName", "toolCallId", "state", "input", "rawInput", "output", "errorText", "providerExecuted",
    "preliminary", "approval", RESULT, *PAGE,
})  # fmt: skip
_ANSWERED = ("approved", "reason")  # of an approval: what the user said
_ASKED = {"requestReason": "reason"}  # and what the request said, in the words of model messages
_UNASKED = {"reason": "requestReason"}
CONTENT = 7  # the newest version's way to write a list of content


class ToolPart:
    """One part, read. `whole`: its input has come to its end."""

    def __init__(self, part: Object, custom: frozenset[str]) -> None:
        self._part = part
        self._state = part.get("state")
        if not isinstance(self._state, str) or self._state not in STATES:
            raise BadRequest(f"one of {', '.join(sorted(STATES))}", self._state, "state")
        self.whole = self._state != "input-streaming"
        self.asks: list[rq.AnyPart] = []
        self.answers: list[rq.AnyPart] = []
        self.results: list[rq.AnyPart] = []
        self.call = self._call(custom)
        if part.get("approval") is not None:
            reading.inside(part, "approval", self._approval)
        if self.whole:
            self._result()

    def _call(self, custom: frozenset[str]) -> rq.Call:
        part = self._part
        dynamic = part["type"] == "dynamic-tool"
        name = reading.needed(part, "toolName") if dynamic else part["type"].removeprefix("tool-")
        made = rq.Call(reading.needed(part, "toolCallId"), name)
        ran = reading.flag(part, "providerExecuted")
        word = "input" if part.get("input") is not None or "rawInput" not in part else "rawInput"
        ours = dress(
            made, part, _KNOWN, (CALL,), NAME, dynamic=dynamic, state=self._state if self._state in _ASKING else "",
            raw=word == "rawInput", also=part["rawInput"] if "rawInput" in part and word == "input" else None,
            silent=word not in part, unrun=ran is False, page={key: part[key] for key in PAGE if key in part},
        )  # fmt: skip
        if ran:
            made.by = "provider"
            note(made, SDK, ran=True)
        if word in part:
            give_input(made, part[word], free=name in custom or ours.get("form") == "text", protocol=NAME)
        return made

    def _approval(self, given: Object) -> None:
        ask = rq.Ask(self.call.id, reading.needed(given, "id"))
        rest = {_ASKED.get(key, key): said for key, said in reading.rest(given, {"id", *_ANSWERED}).items()}
        if rest:
            ask.extra = {SDK: {"rest": rest}}
        self.asks.append(ask)
        approved = reading.flag(given, "approved")
        if approved is not None:
            answer = rq.Ask(self.call.id, ask.id, approved)
            if given.get("reason") is not None:
                answer.extra = {SDK: {"rest": {"reason": reading.text(given, "reason")}}}
            self.answers.append(answer)

    def _result(self) -> None:
        part, made = self._part, rq.Result(self.call.id, self.call.name, by=self.call.by)
        noted = read_options(part, (RESULT,))
        reason = pick.text(pick.table(part, "approval"), "reason")
        refused = any(type(answer) is rq.Ask and answer.approved is False for answer in self.answers)
        if self._state == "output-available":
            self._output(made, noted.ours)
        elif self._state == "output-error":
            made.content, made.failed = [rq.Text(reading.text(part, "errorText"))], True
        elif self._state == "output-denied" or (self._state == "approval-responded" and refused):
            made.content, made.failed = [rq.Text(reason or DENIED)], True
        else:
            return
        made.extra = kept(NAME, noted, {}, flat=part.get("preliminary") is False)
        made.cache = noted.cache
        if self._state in _ASKING:
            note(made, SDK, denied=True)
        elif made.by == "provider":
            note(made, SDK, ran=True)
        self.results.append(made)

    def _output(self, made: rq.Result, ours: Object) -> None:
        made.partial = reading.flag(self._part, "preliminary") or False
        made.failed = bool(ours.get("failed"))
        if ours.get("content"):
            made.content = reading.inside(self._part, "output", _content)
        else:
            made.content = plain(self._part.get("output"))


def _content(output: Object) -> list[rq.ResultPart]:
    return reading.rows(output, "value", read_content, need=True)


# ── the way back ──────────────────────────────────────────────────────────────────────────────────


def write_call(call: rq.Call, *, free: bool) -> Object:
    """A call that nobody has answered yet."""
    rest, _, marks = undressed(call, word=CALL, protocol=NAME, form="text" if free else "")
    part: Object = (
        {"type": "dynamic-tool", "toolName": call.name} if marks.get("dynamic") else {"type": f"tool-{call.name}"}
    )
    part |= {"toolCallId": call.id, "state": marks.get("state") or "input-available", **marks.get("page", {})}
    if call.json or not (marks.get("silent") or marks.get("raw")):
        part["rawInput" if marks.get("raw") else "input"] = input_of(call, marks)
    if "also" in marks:
        part["rawInput"] = marks["also"]
    if call.by == "provider" or marks.get("unrun"):
        part["providerExecuted"] = call.by == "provider"
    return {**rest, **part}


def write_ask(ask: rq.Ask, part: Object) -> None:
    """A request for approval, or its answer, into its call's part."""
    given: Object = part.setdefault("approval", {"id": ask.id})
    rest: Object = split(ask.extra, SDK)[0].get("rest", {})
    if ask.approved is None:
        given.update({_UNASKED.get(key, key): said for key, said in rest.items()})
        before, after = {"input-available"}, "approval-requested"
    else:
        given.update({"approved": ask.approved, **({"reason": rest["reason"]} if "reason" in rest else {})})
        before, after = {"input-available", "approval-requested"}, "approval-responded"
    if part["state"] in before:
        part["state"] = after


def write_result(result: rq.Result, part: Object, draft: Draft) -> None:
    """A result into its call's part."""
    if split(result.extra, SDK)[0].get("denied") and part["state"] in _ASKING:
        return  # the answer to the request says it
    only = alone(result)
    said: Any = only.text if type(only) is rq.Text else value_of(only.json) if type(only) is rq.Json else None
    failed = result.failed and not isinstance(said, str)
    if result.failed and not failed:
        part |= {"state": "output-error", "errorText": said}
    elif only is None:
        part |= {"state": "output-available", "output": _listed(result, draft)}
    else:
        part |= {"state": "output-available", "output": said}
    if failed:
        draft.lose("failure")
    if result.partial or split(result.extra, NAME)[1].get("flat"):
        part["preliminary"] = result.partial
    part.update(undressed(result, word=RESULT, protocol=NAME, content=only is None, failed=failed)[0])


def _listed(result: rq.Result, draft: Draft) -> Object:
    return {"type": "content", "value": write_content(result.content, draft, CONTENT)}
