"""What `useChat` posts: UI messages → canonical. `write.py` is the way back.

One message of the assistant's holds all steps of its turn, each with its calls and their results; here every step is an
assistant's message, the results behind it, and the user's answers to requests for approval behind those. What a page
keeps for itself (steps, data parts, calls still streaming) is never content; it stands aside with its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import lenient_fields as lenient
from penstock import request as rq
from penstock import strict_fields as strict
from penstock.aisdk import OPAQUE, OURS, SDK, request_settings
from penstock.aisdk.request_parts import (
    DENIED,
    alone,
    give_input,
    input_of,
    plain,
    read_content,
    read_custom,
    read_file,
    read_reasoning,
    read_text,
    value_of,
    write_content,
)
from penstock.aisdk.request_settings import METADATA, OPTIONS, dress, kept, note, read_options, undressed
from penstock.errors import BadRequest
from penstock.request_writer import split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.lenient_fields import Object
    from penstock.request_writer import RequestDraft

NAME = "uistream"
ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant"}
ASIDE = "data"  # version 4's role for what no model is told
STEERING = "steering-message"
ORPHAN = (NAME, "result")  # opaque state that is a result without its call
HEAD = ("id", "metadata")  # of a message: what only pages care for
CHAT = ("id", "trigger", "messageId")  # and of a request
_KNOWN = request_settings.KNOWN | {"system", *CHAT}
_SAID = frozenset({"type", "text", "state"})
_WORDS = (METADATA,)


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    tools = request_settings.read_tools(strict.as_object(body))
    reader = _Reader(frozenset(tool.name for tool in tools if tool.kind == "custom"))
    system = strict.get_text(body, "system")
    messages = [rq.Message("system", [rq.Text(system)])] if system else []
    messages += reader.read(body)
    asked, spelled = request_settings.read_settings(body)
    options, ours, word = request_settings.read_request_options(body)
    unknown = {key: value for key, value in body.items() if key not in _KNOWN or value is None}
    streamed = strict.get_flag(body, "stream")
    return rq.Request(
        strict.get_text(body, "model"),
        messages,
        tools,
        request_settings.read_choice(body),
        asked,
        stream=streamed is not False,
        usage=strict.get_flag(ours, "usage"),
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
        self._count = len(lenient.get_list(body, "messages"))
        return [message for row in strict.read_objects(body, "messages", self._message, need=True) for message in row]

    def _message(self, message: Object) -> list[rq.Message]:
        self._place += 1
        if message.get("role") == ASIDE:
            self.aside.append([self._place - 1, message])
            return []
        role = strict.get_choice(message, "role", ROLES)
        old_one = is_old(message)
        parts = parts_of(message, last=self._place == self._count) if old_one else None
        steps = _Steps(role, self._custom)
        steps.read(message if parts is None else {"parts": parts})
        if not steps.made:
            self.aside.append([self._place - 1, message])
            return []
        first = steps.made[0]
        rest = strict.unknown_fields(message, {"role", "parts", *HEAD})
        head = {key: message[key] for key in HEAD if key in message}
        marks: Object = {"head": head, "hidden": steps.hidden, "done": steps.done, "count": len(steps.made)}
        if old_one:
            marks, rest = {"raw": message, "count": len(steps.made)}, {}
        marks |= split_extra(first.extra, NAME)[1]
        first.extra = {
            NAME: {**({"rest": rest} if rest else {}), "_": {key: said for key, said in marks.items() if said}}
        }
        for later in steps.made[1:]:
            note(later, NAME, _={**split_extra(later.extra, NAME)[1], "more": True})
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
            part.get("state")
            for part in lenient.get_objects(message, "parts")
            if part.get("type") in ("text", "reasoning")
        ]
        self.done = bool(states) and all(state == "done" for state in states)
        strict.read_objects(message, "parts", self._part, need=True)
        self._end()

    def _end(self) -> None:
        """Close the step."""
        rows: tuple[tuple[rq.Role, list[rq.AnyPart]], ...] = (
            (self._role, self._said), ("tool", self._results), ("user", self._answers),
        )  # fmt: skip
        self.made += [rq.Message(role, parts) for role, parts in rows if parts]
        self._begin()

    def _part(self, part: Object) -> None:
        kind = strict.require_text(part, "type")
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
            note(message, NAME, _={"steering": strict.unknown_fields(part, {"parts"})})
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
            strict.get_text(part, "url"), strict.get_text(part, "title"), id=strict.get_text(part, "sourceId"),
            media=strict.get_text(part, "mediaType"), filename=strict.get_text(part, "filename"),
        )  # fmt: skip
        known = {"type", "url", "title", "sourceId", "mediaType", "filename"}
        dress(made, part, known, _WORDS, NAME)
        return made

    def _opaque(self, part: Object) -> rq.Opaque | rq.Result:
        data = strict.get_object(part, "data")
        protocol, kind = strict.get_text(data, "protocol"), strict.get_text(data, "kind")
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


V4_KINDS = frozenset({"tool-invocation", "source"})
STEP: Object = {"type": "step-start"}
_STATES = {"partial-call": "input-streaming", "call": "input-available", "result": "output-available"}


def is_old(message: Object) -> bool:
    """Whether only version 4 would have written it so."""
    if not isinstance(message.get("parts"), list) or message.get("experimental_attachments"):
        return True
    return any(_is_old(part) for part in lenient.get_objects(message, "parts"))


def _is_old(part: Object) -> bool:
    kind = lenient.get_text(part, "type")
    return kind in V4_KINDS or (kind == "reasoning" and "details" in part) or (kind == "file" and "data" in part)


def parts_of(message: Object, *, last: bool) -> list[Object]:
    """The parts of a message. `last`: it is the last of all, whose words come before its calls."""
    attached = strict.read_objects(message, "experimental_attachments", _attachment)
    if message.get("parts") is not None:
        return [*_steps(strict.read_objects(message, "parts", _v4_part)), *attached]
    content = message.get("content")
    if not isinstance(content, str | None):
        raise BadRequest("a string", content, "content")
    text: list[Object] = [{"type": "text", "text": content}] if content else []
    calls = [part for row in strict.read_objects(message, "toolInvocations", _invocation) for part in row]
    return [*text, *_steps([calls]), *attached] if last or not calls else [*_steps([calls]), STEP, *text, *attached]


def _steps(rows: Iterable[list[Object]]) -> list[Object]:
    """The parts with their steps marked."""
    made: list[Object] = []
    step, called = 0, False
    for part in (part for row in rows for part in row):
        tool = "toolCallId" in part
        given = part.get("step", step)  # parts of the newer form have none
        at = given if isinstance(given, int) else step
        if (tool and at != step) or (called and part.get("type") == "text"):
            made.append(STEP)
            called = False
            step = at if tool else step + 1
        called = called or tool
        made.append(strict.unknown_fields(part, {"step"}) if tool else part)
    return made


def _v4_part(part: Object) -> list[Object]:
    kind = part.get("type")
    if kind == "tool-invocation":
        return strict.read_object(part, "toolInvocation", _invocation)
    if kind == "reasoning" and "details" in part:
        return strict.read_objects(part, "details", _detail)
    if kind == "source":
        source = strict.get_object(part, "source")
        known = {"sourceType", "id", "url", "title", "providerMetadata"}
        beside = {key: source[key] for key in ("title", "providerMetadata") if key in source} | strict.unknown_fields(
            source, known
        )
        return [{"type": "source-url", "sourceId": source.get("id"), "url": source.get("url"), **beside}]
    if kind == "file" and "data" in part:
        media = strict.get_text(part, "mimeType")
        return [
            {
                "type": "file",
                "mediaType": media,
                "url": f"data:{media};base64,{strict.require_text(part, 'data')}",
            }
        ]
    return [part]


def _invocation(given: Object) -> list[Object]:
    state = _STATES.get(strict.get_text(given, "state"), "output-available" if "result" in given else "input-available")
    part: Object = {
        "type": f"tool-{strict.require_text(given, 'toolName')}",
        "toolCallId": strict.require_text(given, "toolCallId"),
        "state": state,
        "step": strict.get_integer(given, "step") or 0,
        **({"input": given["args"]} if "args" in given else {}),
    }
    return [{**part, "output": given.get("result")} if state == "output-available" else part]


def _detail(detail: Object) -> Object:
    if detail.get("type") == "redacted":
        state: Object = {"redactedData": strict.require_text(detail, "data")}
    else:
        signature = strict.get_text(detail, "signature")
        state = {"signature": signature} if signature else {}
    metadata = {"providerMetadata": {"anthropic": state}} if state else {}
    return {"type": "reasoning", "text": strict.get_text(detail, "text"), **metadata}


def _attachment(given: Object) -> Object:
    media = strict.get_text(given, "contentType")
    name = {"filename": given["name"]} if given.get("name") else {}
    return {
        "type": "file",
        "url": strict.require_text(given, "url"),
        **({"mediaType": media} if media else {}),
        **name,
    }


CALL, RESULT = "callProviderMetadata", "resultProviderMetadata"
STATES = frozenset({
    "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available",
    "output-error", "output-denied",
})  # fmt: skip
PAGE = ("title", "toolMetadata")  # what only pages care for
_ASKING = ("approval-requested", "approval-responded", "output-denied")
_TOOL = frozenset({
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
        ours = dress(
            made, part, _TOOL, (CALL,), NAME, dynamic=dynamic, state=self._state if self._state in _ASKING else "",
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
        noted = read_options(part, (RESULT,))
        reason = lenient.get_text(lenient.get_object(part, "approval"), "reason")
        refused = any(type(answer) is rq.Ask and answer.approved is False for answer in self.answers)
        if self._state == "output-available":
            self._output(made, noted.ours)
        elif self._state == "output-error":
            made.content, made.failed = [rq.Text(strict.get_text(part, "errorText"))], True
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
        made.partial = strict.get_flag(self._part, "preliminary") or False
        made.failed = bool(ours.get("failed"))
        if ours.get("content"):
            made.content = strict.read_object(self._part, "output", _content)
        else:
            made.content = plain(self._part.get("output"))


def _content(output: Object) -> list[rq.ResultPart]:
    return strict.read_objects(output, "value", read_content, need=True)


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
    """A result into its call's part."""
    if split_extra(result.extra, SDK)[0].get("denied") and part["state"] in _ASKING:
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
        draft.report_loss("failure")
    if result.partial or split_extra(result.extra, NAME)[1].get("flat"):
        part["preliminary"] = result.partial
    part.update(undressed(result, word=RESULT, protocol=NAME, content=only is None, failed=failed)[0])


def _listed(result: rq.Result, draft: RequestDraft) -> Object:
    return {"type": "content", "value": write_content(result.content, draft, CONTENT)}
