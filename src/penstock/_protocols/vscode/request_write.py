"""Canonical requests → the JSON that a thin VS Code client would send: conversations to show, to keep and to test with.

What hosts have no part for goes the ways of `carrying`, or into fields of our own that a host would never send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._markers import NativeSupport, input_as_object
from penstock._markers.embed import embed_markers
from penstock._protocols.vscode import request_settings
from penstock._protocols.vscode.request_parts import CACHE, base64_of, kind_of, write_data, write_source
from penstock._protocols.vscode.request_read import HINTS, flat, together
from penstock._protocols.vscode.request_settings import NAME
from penstock._protocols.vscode.thinking import write_run
from penstock._protocols.vscode.wire import VERSION
from penstock._request_writer import RequestDraft, add_missing, drop_empty, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock._lenient_fields import Object
    from penstock.events import Extra

LOSSES = read_losses(__name__, "requests")
NUMBERS = {"user": 1, "tool": 1, "assistant": 2, "system": 3}


class Quirks(msgspec.Struct, frozen=True):
    """What clients differ in. `kinds`: whether parts name their kind; None as it was said, else yes."""

    kinds: bool | None = None


class Writer(RequestDraft):
    """One request being written."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._quirks = quirks

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        version = marks.get("version", VERSION)
        body: Object = {} if version == "-" else {"version": version}
        body |= {key: value for key, value in own.items() if key not in ("modelOptions", "modelConfiguration")}
        body |= drop_empty(model=request.model)
        bare = bool(marks.get("bare")) if self._quirks.kinds is None else not self._quirks.kinds
        messages = self._messages(
            embed_markers(request.messages, NativeSupport(NAME), self.report_carried, self.report_loss)
        )
        body["messages"] = [_bare(message) for message in messages] if bare else messages
        tools = [made for tool in request.tools for made in request_settings.write_tool(tool, self)]
        if tools or marks.get("tools"):
            body["tools"] = tools
        body |= request_settings.write_choice(request.choice, self)
        body |= request_settings.write_settings(request.settings, own, marks)
        body |= drop_empty(providerOptions=request.options)
        if not request.stream or marks.get("streamed"):
            body["stream"] = request.stream
        if request.usage is False:
            self.report_loss("usage")
        add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _messages(self, messages: Sequence[rq.Message]) -> list[Object]:
        made: list[Object] = []
        units: list[list[Object]] = []
        host: Sequence[Any] = ()
        for message in messages:
            own, marks = self.split_extra(message.extra)
            new = [unit for unit in self._units(message.parts) if unit]
            if made and "joined" in marks:
                units = together(units, new, marks["joined"])
            else:
                units, host = new, marks.get("host", ())
                made.append(self._head(message, own, marks))
            only = units[0][0] if len(units) == 1 and len(units[0]) == 1 else {}
            content = flat(units, host)
            made[-1]["content"] = only["value"] if marks.get("text") and only.get("kind") == "text" else content
        return made

    def _head(self, message: rq.Message, own: Object, marks: Object) -> Object:
        role = marks.get("role") or NUMBERS[marks.get("whose") or message.role]
        return {**own, "role": role, **drop_empty(name=message.name)}

    def _units(self, parts: Sequence[Any]) -> Iterator[list[Object]]:
        """Elements by unit: a run of reasoning is one, and so is what was one before."""
        place = 0
        while place < len(parts):
            part = parts[place]
            run = _run(parts, place)
            marks = split_extra(getattr(part, "extra", None), NAME)[1]
            if "raw" in marks and isinstance(marks["raw"], list) and marks["run"] == run:
                made: list[Object] = list(marks["raw"])  # pyright: ignore[reportUnknownArgumentType]
            elif type(part) is rq.Reasoning:
                for thought in parts[place : place + run]:
                    self._report(thought.extra)
                made = [write_run(parts[place : place + run])]
            else:
                run = 1
                made = self.kinds[type(part)](self, part)
            cache = parts[place + run - 1].cache
            if made and cache:
                hint = next((word for word, ttl in HINTS.items() if ttl == cache), cache)
                made.append({"kind": "data", "mimeType": CACHE, "data": base64_of(hint)})
            yield made
            place += run

    def _text(self, part: rq.Text) -> list[Any]:
        own, marks = self.split_extra(part.extra)
        if "mime" in marks:
            return [{**own, **_mid(marks), **write_data(part, marks)}]
        if marks.get("string"):
            return [part.text]
        refusal = {"refusal": True} if part.refusal else {}
        return [{**own, **_mid(marks), "kind": "text", "value": part.text, **refusal}]

    def _json(self, part: rq.Json) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        return [{**own, **_mid(marks), **write_data(part, marks)}]

    def _file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        own, marks = self.split_extra(part.extra)
        return [{**own, **_mid(marks), **write_data(part, marks)}]

    def _source(self, part: rq.Source) -> list[Object]:
        return [write_source(part)]

    def _call(self, call: rq.Call) -> list[Object]:
        if call.cut:
            self.report_loss("cut-call")
            return []
        own, marks = split_extra(call.extra, NAME)
        given, carried = input_as_object(call)
        if carried:
            self.report_carried(carried)
        made: Object = {**own, "kind": "call", "callId": call.id, "name": call.name}
        if call.json or not marks.get("silent"):
            made["input"] = given
        self._report(call.extra)
        state = strict.pick_provider_state({key: fields for key, fields in (call.extra or {}).items() if key != NAME})
        return [{**made, **drop_empty(extra=marks.get("state") or state)}]

    def _report(self, extra: Extra | None) -> None:
        """Say what of others' data is not carried: all that is no state."""
        if extra is not None:
            self.split_extra(
                {key: strict.unknown_fields(fields, strict.PROVIDER_STATE.keys()) for key, fields in extra.items()}
            )

    def _result(self, result: rq.Result) -> list[Object]:
        own, marks = self.split_extra(result.extra)
        if result.partial:
            self.report_loss("partial")
        content: Any = flat(self._units(result.content), marks.get("host", ()))
        if marks.get("text") and len(content) == 1:
            content = content[0]["value"]
        made: Object = {**own, **_mid(marks), "kind": "result", "callId": result.call, "content": content}
        return [{**made, **({"isError": result.failed} if result.failed or marks.get("unfailed") else {})}]

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME:
            return [part.data]
        self.report_loss("opaque")
        return []

    def _ask(self, _: rq.Ask) -> list[Object]:
        self.report_loss("approval")
        return []

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text,
        rq.Json: _json,
        rq.File: _file,
        rq.Source: _source,
        rq.Call: _call,
        rq.Result: _result,
        rq.Opaque: _opaque,
        rq.Ask: _ask,
    }


def _mid(marks: Object) -> Object:
    """The number by which a host knows a part's class."""
    return {"$mid": marks["mid"]} if "mid" in marks else {}


def _run(parts: Sequence[Any], place: int) -> int:
    """How many parts from here on are one unit: reasoning with its neighbours, or as many as were one before."""
    part = parts[place]
    if type(part) is not rq.Reasoning:
        marks = split_extra(getattr(part, "extra", None), NAME)[1]
        return min(int(marks.get("run", 1)), len(parts) - place)
    end = place
    while end < len(parts) and type(parts[end]) is rq.Reasoning:
        end += 1
    return end - place


def _bare(message: Object) -> Object:
    """A message whose parts do not name their kind."""
    content = message["content"]
    if isinstance(content, str):
        return message
    return {**message, "content": [_unnamed(part) for part in content]}


def _unnamed(part: Any) -> Any:
    if isinstance(part, str):
        return part
    if kind_of({**part, "kind": ""}) != part.get("kind"):
        return part  # thinking of nothing but a text would be taken for text
    left = {key: value for key, value in part.items() if key != "kind"}
    if isinstance(left.get("content"), list):
        left["content"] = [_unnamed(inner) for inner in left["content"]]
    return left


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a thin client's."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
