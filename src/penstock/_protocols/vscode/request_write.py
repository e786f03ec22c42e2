"""Canonical requests → the JSON of a thin VS Code client: conversations to show, to store and to test with.

What hosts have no part for is written as a marker (`_markers`), or in fields that only our reader knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._markers import NativeSupport, input_as_object
from penstock._markers.embed_unsupported import embed_markers
from penstock._protocols.vscode import request_fields
from penstock._protocols.vscode.request_fields import encode_text, part_kind, write_data
from penstock._protocols.vscode.request_read import CACHE_HINTS, pick_others_state, write_thinking
from penstock._protocols.vscode.wire import NAME, VERSION
from penstock._request_writer import RequestDraft, add_missing, drop_empty, omit_with_loss, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock._lenient_fields import Object
    from penstock.events import Extra

LOSSES = read_losses(__name__, "requests")
ROLES = {"user": 1, "tool": 1, "assistant": 2, "system": 3}


class Quirks(msgspec.Struct, frozen=True):
    """Differences between clients. `kinds`: parts name their kind. None: as in the request that was read, else yes."""

    kinds: bool | None = None


class VSCodeRequestWriter(RequestDraft):
    """Writes one request."""

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
        marked = embed_markers(request.messages, NativeSupport(NAME), self.report_carried, self.report_loss)
        messages = self._write_messages(marked)
        body["messages"] = [_remove_kinds(message) for message in messages] if bare else messages
        tools = [row for tool in request.tools for row in request_fields.write_tool(tool, self)]
        if tools or marks.get("tools"):
            body["tools"] = tools
        body |= request_fields.write_choice(request.choice, self)
        body |= request_fields.write_settings(request.settings, own, marks)
        body |= drop_empty(providerOptions=request.options)
        if not request.stream or marks.get("streamed"):
            body["stream"] = request.stream
        if request.usage is False:
            self.report_loss("usage")
        add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_messages(self, messages: Sequence[rq.Message]) -> list[Object]:
        written: list[Object] = []
        units: list[list[Object]] = []
        host: Sequence[Any] = ()
        for message in messages:
            own, marks = self.split_extra(message.extra)
            new = [unit for unit in self._write_units(message.parts) if unit]
            if written and "joined" in marks:
                units = _join_units(units, new, marks["joined"])
            else:
                units, host = new, marks.get("host", ())
                role = marks.get("role") or ROLES[marks.get("whose") or message.role]
                written.append({**own, "role": role, **drop_empty(name=message.name)})
            content = _insert_host_parts(units, host)
            only = units[0][0] if len(units) == 1 and len(units[0]) == 1 else {}
            written[-1]["content"] = only["value"] if marks.get("text") and only.get("kind") == "text" else content
        return written

    def _write_units(self, parts: Sequence[Any]) -> Iterator[list[Object]]:
        """Yields elements by unit: consecutive reasoning is one unit, and so are parts of one element that was read."""
        position = 0
        while position < len(parts):
            part = parts[position]
            run = _unit_length(parts, position)
            marks = split_extra(getattr(part, "extra", None), NAME)[1]
            if "raw" in marks and isinstance(marks["raw"], list) and marks["run"] == run:
                unit: list[Object] = list(marks["raw"])  # pyright: ignore[reportUnknownArgumentType]
            elif type(part) is rq.Reasoning:
                for reasoning in parts[position : position + run]:
                    self._report_foreign_fields(reasoning.extra)
                unit = [write_thinking(parts[position : position + run])]
            else:
                run = 1
                unit = self.kinds[type(part)](self, part)
            cache = parts[position + run - 1].cache
            if unit and cache:
                hint = next((word for word, ttl in CACHE_HINTS.items() if ttl == cache), cache)
                unit.append({"kind": "data", "mimeType": request_fields.CACHE, "data": encode_text(hint)})
            yield unit
            position += run

    def _write_text(self, part: rq.Text) -> list[Any]:
        own, marks = self.split_extra(part.extra)
        if "mime" in marks:
            return [{**own, **_class_field(marks), **write_data(part, marks)}]
        if marks.get("string"):
            return [part.text]
        refusal = {"refusal": True} if part.refusal else {}
        return [{**own, **_class_field(marks), "kind": "text", "value": part.text, **refusal}]

    def _write_json(self, part: rq.Json | rq.File) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        return [{**own, **_class_field(marks), **write_data(part, marks)}]

    def _write_file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        return self._write_json(part)

    def _write_source(self, part: rq.Source) -> list[Object]:
        return [request_fields.write_source(part)]

    def _write_call(self, call: rq.Call) -> list[Object]:
        if call.cut:
            self.report_loss("cut-call")
            return []
        own, marks = split_extra(call.extra, NAME)
        arguments, carried = input_as_object(call)
        if carried:
            self.report_carried(carried)
        part: Object = {**own, "kind": "call", "callId": call.id, "name": call.name}
        if call.json or not marks.get("silent"):
            part["input"] = arguments
        self._report_foreign_fields(call.extra)
        return [{**part, **drop_empty(extra=marks.get("state") or pick_others_state(call.extra))}]

    def _report_foreign_fields(self, extra: Extra | None) -> None:
        """Reports the fields of other protocols that are not provider state, because they are not written."""
        state = strict.PROVIDER_STATE.keys()
        self.split_extra({key: strict.unknown_fields(fields, state) for key, fields in (extra or {}).items()})

    def _write_result(self, result: rq.Result) -> list[Object]:
        own, marks = self.split_extra(result.extra)
        if result.partial:
            self.report_loss("partial")
        content: Any = _insert_host_parts(self._write_units(result.content), marks.get("host", ()))
        if marks.get("text") and len(content) == 1:
            content = content[0]["value"]
        part: Object = {**own, **_class_field(marks), "kind": "result", "callId": result.call, "content": content}
        return [{**part, **({"isError": result.failed} if result.failed or marks.get("unfailed") else {})}]

    def _write_opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME:
            return [part.data]
        self.report_loss("opaque")
        return []

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Json: _write_json,
        rq.File: _write_file,
        rq.Source: _write_source,
        rq.Call: _write_call,
        rq.Result: _write_result,
        rq.Opaque: _write_opaque,
        rq.Ask: omit_with_loss("approval"),
    }


def _class_field(marks: Object) -> Object:
    """Returns `$mid`, the number of a part's class in the host."""
    return {"$mid": marks["mid"]} if "mid" in marks else {}


def _unit_length(parts: Sequence[Any], position: int) -> int:
    """Returns how many parts from here on are one unit: consecutive reasoning, or the parts of one element."""
    part = parts[position]
    if type(part) is not rq.Reasoning:
        marks = split_extra(getattr(part, "extra", None), NAME)[1]
        return min(int(marks.get("run", 1)), len(parts) - position)
    rest = enumerate(parts[position:])
    return next((length for length, one in rest if type(one) is not rq.Reasoning), len(parts) - position)


def _join_units(first: list[list[Object]], second: list[list[Object]], positions: Any) -> list[list[Object]]:
    """Returns the units of two messages as those of one."""
    if not isinstance(positions, list):
        return [*first, *second]
    units = list(first)
    for position, unit in zip(positions, second, strict=False):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        units.insert(position, unit)  # pyright: ignore[reportUnknownArgumentType]
    return [*units, *second[len(positions) :]]  # pyright: ignore[reportUnknownArgumentType]


def _insert_host_parts(units: Iterable[Iterable[Object]], host: Sequence[list[Any]]) -> list[Object]:
    """Returns the content of a message, with the host's parts at their positions."""
    content = [element for unit in units for element in unit]
    for position, part in host:
        content.insert(position, part)
    return content


def _remove_kinds(message: Object) -> Object:
    """Returns a message whose parts do not name their kind."""
    content = message["content"]
    if isinstance(content, str):
        return message
    return {**message, "content": [_remove_kind(part) for part in content]}


def _remove_kind(part: Any) -> Any:
    if isinstance(part, str):
        return part
    if part_kind({**part, "kind": ""}) != part.get("kind"):
        return part  # without its kind, thinking with nothing but text would be text
    rest = {key: value for key, value in part.items() if key != "kind"}
    if isinstance(rest.get("content"), list):
        rest["content"] = [_remove_kind(inner) for inner in rest["content"]]
    return rest


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body that a thin client sends."""
    writer = VSCodeRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
