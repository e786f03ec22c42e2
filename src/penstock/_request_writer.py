"""The base of request writers. A draft is a request body with diagnostics of what the protocol cannot express.

`loss-<what>` is a row of the protocol's LOSSES: it is left out. `carried-<what>` is a row of `carried_features`: it is
sent in another field, and our own readers restore it.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import request as rq
from penstock._diagnostics import Diagnostics, Losses
from penstock._input_limits import entries
from penstock._lenient_json import replace_surrogates
from penstock._markers import carried_features, free_text_schema, input_as_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from penstock._lenient_fields import Object
    from penstock.events import Extra

EFFORTS: tuple[tuple[int, str], ...] = ((0, "none"), (1024, "minimal"), (4096, "low"), (16384, "medium"))
BUDGETS: Mapping[str, int] = {
    "none": 0, "minimal": 1024, "low": 4096, "medium": 10240, "high": 24576, "xhigh": 32768, "max": 65536,
}  # fmt: skip
MIN_ANSWER_TOKENS = 1024  # tokens that remain for the answer if reasoning counts against the same limit
FOREIGN_FIELDS = "fields that only {} understands are left out: {}"
_NOTHING: Object = {}  # never written to
_EMPTY_KINDS = (type(None), str, list, dict)  # what may be empty: a number or a flag never is
_encode = msgspec.json.Encoder().encode


class RequestDraft:
    """A request body and its diagnostics. Every loss must be a row of the protocol's LOSSES."""

    protocol: ClassVar[str]
    losses: ClassVar[Losses]
    write: Any  # the method of each protocol's writer that returns the body of a request

    def __init__(self) -> None:
        self.body: Object = {}
        self.diagnostics: Diagnostics = Diagnostics(f"{self.protocol} request")

    def write_body(self, request: rq.Request) -> Self:
        """Sets `body` to the body of a request."""
        self.body = self.write(request)
        return self

    def report_loss(self, what: str, *names: str) -> None:
        """Reports something that the protocol cannot express, and what is sent instead."""
        name = names[0] if what == "setting" and names else ""  # other names are texts of the client
        self.diagnostics.add(f"loss-{what}", f"{self.protocol}: {self.losses[what].format(*names)}", name)

    def report_settings(self, settings: rq.Settings, names: Sequence[str]) -> None:
        """Reports the settings of a request that this protocol does not have."""
        for name, value in zip(names, map(getattr, repeat(settings), names), strict=True):
            if value is not None and value != "":
                self.report_loss("setting", name)

    def report_image_detail(self, file: rq.File) -> None:
        """Reports the `detail` of an image. Only for protocols with that row in their LOSSES."""
        if file.detail not in ("", "auto"):
            self.report_loss("detail")

    def report_carried(self, what: str) -> None:
        """Reports a feature that is carried in another field."""
        self.diagnostics.add(f"carried-{what}", f"{self.protocol}: {carried_features()[what]}")

    def split_extra(self, extra: Extra | None) -> tuple[Object, Object]:
        """Returns this protocol's extra fields and its spelling marks. Fields of other protocols are reported."""
        if extra is None:
            return _NOTHING, _NOTHING
        for protocol, fields in extra.items():
            names = "" if protocol == self.protocol else ", ".join(key for key in fields if key != "_")
            if names:
                self.diagnostics.add("loss-extra", f"{self.protocol}: {FOREIGN_FIELDS.format(protocol, names)}")
        return split_extra(extra, self.protocol)

    def is_foreign(self, extra: Extra) -> bool:
        """True if all extra data belongs to other protocols. It is then reported."""
        if self.protocol in extra:
            return False
        self.split_extra(extra)
        return True

    def write_call_input(self, call: rq.Call) -> Any:
        """Returns the input of a call as an object; None for an incomplete call, which is left out."""
        if call.cut:
            self.report_loss("cut-call")
            return None
        value, carried = input_as_object(call)
        if carried:
            self.report_carried(carried)
        return value

    def write_input_schema(self, tool: rq.Tool) -> Object | None:
        """Returns the JSON schema of a tool's input. A free-text tool gets a schema with one string."""
        if tool.kind != "custom":
            return tool.schema
        self.report_carried("free-text")
        return free_text_schema(tool)

    def write_object_schema(self, tool: rq.Tool) -> Object:
        """Returns the same for protocols that require a schema of type `object`."""
        schema = self.write_input_schema(tool)
        if schema is None:
            return {"type": "object", "properties": {}}
        return schema if "type" in schema else {"type": "object", **schema}

    def report_reasoning(self, part: rq.Reasoning) -> None:
        """Reports the state of another protocol, and that a text is a summary: only the text is written."""
        if part.extra is not None and self.protocol not in part.extra:
            self.report_loss("reasoning-state")
        if part.form == "summary":
            self.report_loss("form")

    def write_function_tool(self, tool: rq.Tool) -> list[Object]:
        """Returns a tool as a function, for protocols without other tools; nothing if another provider runs it."""
        own, marks = self.split_extra(tool.extra)
        if tool.cache:
            self.report_loss("cache")
        if "tool" in own:
            return [own["tool"]]
        if tool.kind in ("provider", "unknown"):
            self.report_loss("tool", tool.name)
            return []
        if tool.strict is not None:
            self.report_loss("strict")
        if tool.namespace:
            self.report_loss("namespace")
        function = drop_empty(name=tool.name, description=tool.description)
        schema = self.write_input_schema(tool)
        if schema is not None:
            function["parameters"] = schema
        function.update({key: value for key, value in own.items() if key != "beside"})
        add_missing(function, marks.get("also"))
        kind = {} if marks.get("untyped") else {"type": "function"}
        return [{**kind, "function": function, **own.get("beside", {})}]

    def encode(self) -> bytes:
        """Returns the body as JSON."""
        try:
            return _encode(self.body)
        except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot hold
            return _encode(replace_surrogates(self.body))


def split_extra(extra: Extra | None, protocol: str) -> tuple[Object, Object]:
    """Returns a protocol's extra fields, and its marks of how fields were spelled."""
    own = (extra or _NOTHING).get(protocol)
    if not own:
        return _NOTHING, _NOTHING
    if "_" not in own:
        return own, _NOTHING
    return {key: value for key, value in own.items() if key != "_"}, own["_"]


def drop_empty(**fields: Any) -> Object:
    """Returns the fields that are neither None nor empty."""
    return {key: value for key, value in fields.items() if value or not isinstance(value, _EMPTY_KINDS)}


def write_settings(settings: rq.Settings, names: Mapping[str, str]) -> Object:
    """Returns the settings that a request has. `names` maps a key of the body to a field of `Settings`."""
    values = zip(names, map(getattr, repeat(settings), names.values()), strict=True)
    return {key: value for key, value in values if value is not None and value not in ("", [])}


def add_missing(body: Object, also: Object | None) -> None:
    """Adds empty fields that the client sent (`empty_fields`), unless the body has them."""
    for key, value in (also or _NOTHING).items():
        body.setdefault(key, value)


def restore_fields(body: Object, fields: Object, marks: Object) -> None:
    """Writes back the protocol's extra fields of an object, and the empty fields that it had."""
    body.update(fields)
    add_missing(body, marks.get("also"))


def insert_lists(items: list[Object], places: Iterable[int], inserted: Iterable[list[Object]]) -> None:
    """Inserts each list at its position in `items`, one after the other. Ascending positions take one pass."""
    made: list[Object] = []
    taken = 0
    for place, new in zip(places, inserted, strict=False):
        if place > len(made):
            end = taken + place - len(made)
            made += items[taken:end]
            taken = end
        made[place:place] = new
    items[:] = [*made, *items[taken:]]


def collect_text(data: Any) -> str:
    """Returns every `text` field in data of another protocol, one per line."""
    texts: list[str] = []
    waiting: list[tuple[Any, Any]] = [("", data)]
    while waiting:  # not recursive: the data may have any depth
        key, value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += reversed(entries(value))
        elif key == "text" and isinstance(value, str):
            texts.append(value)
    return "\n".join(filter(None, texts))


def omit_with_loss(loss: str) -> Callable[[Any, Any], list[Object]]:
    """Returns a table row for parts that the protocol cannot express: it reports this loss."""

    def leave(draft: RequestDraft, _: Any) -> list[Object]:
        draft.report_loss(loss)
        return []

    return leave


# Rows of a writer's table for parts that most protocols do not have.
OMITTED_PARTS: Mapping[type, Callable[[Any, Any], list[Object]]] = {
    rq.Source: omit_with_loss("source"),
    rq.Ask: omit_with_loss("approval"),
}


def write_foreign_state(**around: str) -> Callable[[Any, Any], list[Object]]:
    """Returns a table row for opaque state: unchanged for its own protocol, otherwise the text with these fields."""

    def write(draft: RequestDraft, part: rq.Opaque) -> list[Object]:
        if part.protocol == draft.protocol:
            return [part.data]
        draft.report_loss("opaque")
        words = collect_text(part.data)
        return [{**around, "text": words}] if words else []

    return write


def describe_file(file: rq.File) -> str:
    """Returns a line of text for a file that cannot be sent."""
    name = f"[{file.name or file.media}]"
    return f"{name}({file.url})" if file.url else name


def effort_for_budget(budget: int) -> str:
    """Returns the effort for a budget of reasoning tokens."""
    return next((word for limit, word in EFFORTS if budget <= limit), "high")


def budget_for_effort(effort: str) -> int:
    """Returns the budget of reasoning tokens for an effort."""
    return BUDGETS.get(effort, BUDGETS["medium"])


def budget_within_limit(effort: str, limit: int | None, least: int) -> int:
    """Returns a budget that leaves room for the answer within the output limit; 0 if there is no room."""
    budget = max(budget_for_effort(effort), least)
    if limit is not None:
        budget = min(budget, limit - MIN_ANSWER_TOKENS)
    return budget if budget >= least else 0
