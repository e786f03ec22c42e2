"""Tools that were renamed, flattened or wrapped for a provider get their own names and forms back, event by event.

The counterpart of `penstock._messages.identifiers`, which made the table. A call whose input was wrapped waits for its
end, because only whole JSON can be unwrapped; all others stream on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._diagnostics import Diagnostics
from penstock._lenient_json import try_decode
from penstock.events import CallForm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

INPUT = "input"  # the one string that a free-text tool is given as


class OriginalTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool was before. `form` text: its input was free text. `item`: its calls are items of this type."""

    name: str
    namespace: str = ""
    form: CallForm = "json"
    item: str = ""


class RestoreToolNames:
    """A stage. `protocol` is the client's, under which namespaces and items are kept; `ids` are those to give back."""

    def __init__(
        self, names: Mapping[str, OriginalTool], *, protocol: str = "", ids: Mapping[str, str] | None = None
    ) -> None:
        self.diagnostics = Diagnostics("names")
        self.names: Mapping[str, OriginalTool] = names
        self.protocol: str = protocol
        self.ids: Mapping[str, str] = ids or {}
        self._held: dict[int, tuple[ev.CallStart, OriginalTool]] = {}

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        out: list[Any] = []
        table = self.table
        for event in events:
            change = table.get(type(event))  # pyright: ignore[reportUnknownArgumentType]
            if change is None:
                out.append(event)
            else:
                change(self, event, out)
        return out

    def finish(self) -> list[Any]:
        return []

    def _begin(self, event: ev.Start, out: list[Any]) -> None:
        self._held = {}
        out.append(event)

    def _start(self, event: ev.CallStart, out: list[Any]) -> None:
        was = self.names.get(event.name) if event.by == "client" else None
        if was is None:
            out.append(event)
            return
        start = replace(event, name=was.name, form=was.form, extra=self._extra(was, event.extra))
        if was.item:
            self._held[event.index] = (start, was)
            return
        if was.form == "text":
            self._held[event.index] = (start, was)
        out.append(start)

    def _delta(self, event: ev.CallDelta, out: list[Any]) -> None:
        if event.index not in self._held:
            out.append(event)

    def _end(self, event: ev.CallEnd | ev.CallCut, out: list[Any]) -> None:
        start, was = self._held.pop(event.index, (None, self.names.get(event.name)))
        if was is None or event.by == "provider":
            out.append(event)
            return
        end = replace(event, name=was.name, form=was.form, extra=self._extra(was, event.extra))
        if start is not None:
            end = self._unwrapped(end, was)
            if was.item:
                out.append(replace(start, extra=end.extra))
            if end.json:
                out.append(ev.CallDelta(event.index, end.json))
        out.append(end)

    def _unwrapped(self, end: Any, was: OriginalTool) -> Any:
        if was.item:
            return replace(end, extra={**(end.extra or {}), self.protocol: {"item": _item(end, was.item)}})
        text = unwrap_free_text(end.json)
        if text is None:
            self.diagnostics.add("not-wrapped", f"the input of {was.name!r} is not the one string asked for")
        return end if text is None else replace(end, json=text)

    def _extra(self, was: OriginalTool, extra: ev.Extra | None) -> ev.Extra | None:
        if not was.namespace:
            return extra
        own = {**(extra or {}).get(self.protocol, {}), "namespace": was.namespace}
        return {**(extra or {}), self.protocol: own}

    def _answer(self, event: ev.Result | ev.Ask, out: list[Any]) -> None:
        id = self.ids.get(event.call)  # noqa: A001 — as the event calls it
        out.append(event if id is None else replace(event, call=id))

    table: ClassVar[Mapping[type, Callable[[Any, Any, list[Any]], None]]] = {
        ev.Start: _begin, ev.CallStart: _start, ev.CallDelta: _delta, ev.CallEnd: _end, ev.CallCut: _end,
        ev.Result: _answer, ev.Ask: _answer,
    }  # fmt: skip


def wrap_free_text(text: str) -> str:
    """Free text as the input of a function."""
    return msgspec.json.encode({INPUT: text}).decode()


def unwrap_free_text(json: str) -> str | None:
    """The text out of a function's input: under its name, or the only string there is. None if there is none."""
    given = try_decode(json)
    if isinstance(given, dict):
        values: list[Any] = list(given.values())  # pyright: ignore[reportUnknownArgumentType]
        given = given.get(INPUT, values[0] if len(values) == 1 else None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return given if isinstance(given, str) else None


def _item(end: Any, kind: str) -> dict[str, Any]:
    """A call as the item that a built-in tool's calls are."""
    status = "completed" if type(end) is ev.CallEnd else "incomplete"
    return {"type": kind, "call_id": end.id, "status": status, **lenient.as_object(try_decode(end.json or "{}"))}


PREFIX = "gw-"
_FIELDS: dict[type, str] = {
    ev.CallStart: "id", ev.CallEnd: "id", ev.CallCut: "id", ev.Result: "call", ev.Ask: "call",
}  # fmt: skip


class CallIdPrefix:
    """`name` on the way out, `restore` on the way back. An empty prefix leaves ids as they are."""

    def __init__(self, prefix: str = PREFIX, *, reserved: str = "") -> None:
        self.prefix = prefix
        self._reserved = reserved
        head, last = re.escape(reserved[:-1]), re.escape(reserved[-1:])
        # a reserved word gets a dash before its last letter, and one that has dashes there gets one more
        self._plain = re.compile(f"({head})(-*{last})")
        self._dashed = re.compile(f"({head})-(-*{last})")

    def name(self, id: str) -> str:
        """The id as the host sees it."""
        named = self.prefix + id
        return self._plain.sub(r"\1-\2", named) if self._reserved else named

    def restore(self, id: str) -> str:
        """The provider's own id. One that was never ours comes back as it is, less what the host appended."""
        if self._reserved and self._reserved[:-1] in id:
            id = self._dashed.sub(r"\1\2", id.split(self._reserved, 1)[0])  # noqa: A001 — as the parameter is called
        return id.removeprefix(self.prefix)

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        return [self._named(event) if type(event) in _FIELDS else event for event in events]

    def finish(self) -> list[Any]:
        return []

    def _named(self, event: Any) -> Any:
        field = _FIELDS[type(event)]
        return replace(event, **{field: self.name(getattr(event, field))})
