"""Tool parts of UI messages: a call, perhaps a request for approval and its answer, perhaps a result. Both ways.

The part's `state` says how far it is. A call whose input still streams is incomplete and is not sent to the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._aisdk import SDK
from penstock._aisdk.request_parts import (
    DENIED_TEXT,
    call_input_value,
    parse_json_or_text,
    read_content,
    set_call_input,
    single_value,
    value_as_content,
    write_content,
)
from penstock._aisdk.request_settings import (
    add_extra,
    build_part_extra,
    read_extra_fields,
    read_options,
    write_extra_fields,
)
from penstock._request_writer import RequestDraft, split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

NAME = "uistream"
CALL, RESULT = "callProviderMetadata", "resultProviderMetadata"
STATES = frozenset(
    {
        "input-streaming",
        "input-available",
        "approval-requested",
        "approval-responded",
        "output-available",
        "output-error",
        "output-denied",
    }
)
PAGE = ("title", "toolMetadata")  # what only pages care for
_ASKING = ("approval-requested", "approval-responded", "output-denied")
_TOOL = frozenset(
    {
        "type",
        "toolName",
        "toolCallId",
        "state",
        "input",
        "rawInput",
        "output",
        "errorText",
        "providerExecuted",
        "preliminary",
        "approval",
        RESULT,
        *PAGE,
    }
)
_ANSWERED = ("approved", "reason")  # of an approval: what the user said
_ASKED = {"requestReason": "reason"}  # and what the request said, in the words of model messages
_UNASKED = {"reason": "requestReason"}
CONTENT = 7  # the newest version's way to write a list of content


class ToolPart:
    """Reads one tool part. `whole`: its input is complete."""

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
            strict.read_object(part, "approval", self._approval)
        if self.whole:
            self._result()

    def _call(self, custom: frozenset[str]) -> rq.Call:
        part = self._part
        dynamic = part["type"] == "dynamic-tool"
        name = strict.require_text(part, "toolName") if dynamic else part["type"].removeprefix("tool-")
        made = rq.Call(strict.require_text(part, "toolCallId"), name)
        ran = strict.get_flag(part, "providerExecuted")
        word = "input" if part.get("input") is not None or "rawInput" not in part else "rawInput"
        ours = read_extra_fields(
            made,
            part,
            _TOOL,
            (CALL,),
            NAME,
            dynamic=dynamic,
            state=self._state if self._state in _ASKING else "",
            raw=word == "rawInput",
            also=part["rawInput"] if "rawInput" in part and word == "input" else None,
            silent=word not in part,
            unrun=ran is False,
            page={key: part[key] for key in PAGE if key in part},
        )
        if ran:
            made.by = "provider"
            add_extra(made, SDK, ran=True)
        if word in part:
            set_call_input(made, part[word], free=name in custom or ours.get("form") == "text", protocol=NAME)
        return made

    def _approval(self, given: Object) -> None:
        ask = rq.Ask(self.call.id, strict.require_text(given, "id"))
        rest = {_ASKED.get(key, key): said for key, said in strict.unknown_fields(given, {"id", *_ANSWERED}).items()}
        if rest:
            ask.extra = {SDK: {"rest": rest}}
        self.asks.append(ask)
        approved = strict.get_flag(given, "approved")
        if approved is not None:
            answer = rq.Ask(self.call.id, ask.id, approved)
            if given.get("reason") is not None:
                answer.extra = {SDK: {"rest": {"reason": strict.get_text(given, "reason")}}}
            self.answers.append(answer)

    def _result(self) -> None:
        part, made = self._part, rq.Result(self.call.id, self.call.name, by=self.call.by)
        options_read = read_options(part, (RESULT,))
        reason = lenient.get_text(lenient.get_object(part, "approval"), "reason")
        refused = any(type(answer) is rq.Ask and answer.approved is False for answer in self.answers)
        if self._state == "output-available":
            self._output(made, options_read.ours)
        elif self._state == "output-error":
            made.content, made.failed = [rq.Text(strict.get_text(part, "errorText"))], True
        elif self._state == "output-denied" or (self._state == "approval-responded" and refused):
            made.content, made.failed = [rq.Text(reason or DENIED_TEXT)], True
        else:
            return
        made.extra = build_part_extra(NAME, options_read, {}, flat=part.get("preliminary") is False)
        made.cache = options_read.cache
        if self._state in _ASKING:
            add_extra(made, SDK, denied=True)
        elif made.by == "provider":
            add_extra(made, SDK, ran=True)
        self.results.append(made)

    def _output(self, made: rq.Result, ours: Object) -> None:
        made.partial = strict.get_flag(self._part, "preliminary") or False
        made.failed = bool(ours.get("failed"))
        if ours.get("content"):
            made.content = strict.read_object(self._part, "output", _read_content_output)
        else:
            made.content = value_as_content(self._part.get("output"))


def _read_content_output(output: Object) -> list[rq.ResultPart]:
    return strict.read_objects(output, "value", read_content, need=True)


# ── writing ──────────────────────────────────────────────────────────────────────────────────


def write_call(call: rq.Call, *, free: bool) -> Object:
    """Writes a call without a result."""
    rest, _, marks = write_extra_fields(call, word=CALL, protocol=NAME, form="text" if free else "")
    part: Object = (
        {"type": "dynamic-tool", "toolName": call.name} if marks.get("dynamic") else {"type": f"tool-{call.name}"}
    )
    part |= {"toolCallId": call.id, "state": marks.get("state") or "input-available", **marks.get("page", {})}
    if call.json or not (marks.get("silent") or marks.get("raw")):
        part["rawInput" if marks.get("raw") else "input"] = call_input_value(call, marks)
    if "also" in marks:
        part["rawInput"] = marks["also"]
    if call.by == "provider" or marks.get("unrun"):
        part["providerExecuted"] = call.by == "provider"
    return {**rest, **part}


def write_ask(ask: rq.Ask, part: Object) -> None:
    """Writes a request for approval, or its answer, into its call's part."""
    given: Object = part.setdefault("approval", {"id": ask.id})
    rest: Object = split_extra(ask.extra, SDK)[0].get("rest", {})
    if ask.approved is None:
        given.update({_UNASKED.get(key, key): said for key, said in rest.items()})
        before, after = {"input-available"}, "approval-requested"
    else:
        given.update({"approved": ask.approved, **({"reason": rest["reason"]} if "reason" in rest else {})})
        before, after = {"input-available", "approval-requested"}, "approval-responded"
    if part["state"] in before:
        part["state"] = after


def write_result(result: rq.Result, part: Object, draft: RequestDraft) -> None:
    """Writes a result into its call's part."""
    if split_extra(result.extra, SDK)[0].get("denied") and part["state"] in _ASKING:
        return  # the answer to the request says so
    only = single_value(result)
    said: Any = only.text if type(only) is rq.Text else parse_json_or_text(only.json) if type(only) is rq.Json else None
    failed = result.failed and not isinstance(said, str)
    if result.failed and not failed:
        part |= {"state": "output-error", "errorText": said}
    elif only is None:
        part |= {"state": "output-available", "output": _content_output(result, draft)}
    else:
        part |= {"state": "output-available", "output": said}
    if failed:
        draft.report_loss("failure")
    if result.partial or split_extra(result.extra, NAME)[1].get("flat"):
        part["preliminary"] = result.partial
    part.update(write_extra_fields(result, word=RESULT, protocol=NAME, content=only is None, failed=failed)[0])


def _content_output(result: rq.Result, draft: RequestDraft) -> Object:
    return {"type": "content", "value": write_content(result.content, draft, CONTENT)}
