"""How an encoder writes calls: the client's, those that the provider runs, their answers, questions and pictures.

A call becomes a function call, or a custom tool's if its input is free text. Built-in tools and whatever the provider
runs are items of this protocol alone: they are restored from the item in `extra`, or lost. A search or a program that
another provider ran has an item here, too (`encode_runs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock import provider_tools
from penstock.jsontext import plain_or_raw, usable
from penstock.protocols.responses.encode_text import NumberedTemplate, Speaking
from penstock.provider_tools import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.protocols.responses.encode_text import Entry, Output

_PICTURES = frozenset({"png", "jpeg", "webp", "gif"})
_encode = msgspec.json.Encoder().encode


_TYPES: dict[str, tuple[str, str, str]] = {  # kind → the item's type, the beginning of its id, what it does meanwhile
    "search": ("web_search_call", "ws", "searching"),
    "page": ("web_search_call", "ws", "searching"),
    "program": ("code_interpreter_call", "ci", "interpreting"),
}


class ProviderRun:
    """One such item, from its announcement to its end."""

    def __init__(self, output: Output, kind: provider_tools.Kind, event: ev.CallEnd) -> None:
        self._output = output
        self._type, prefix, meanwhile = _TYPES[kind]
        item: dict[str, Any] = {"id": output.name(prefix), "type": self._type, "status": "in_progress"}
        if kind == "program":
            item.update(code=provider_tools.program(event.json), container_id="", outputs=None)
        else:
            item["action"] = _action(kind, event.json)
        self.entry: Entry = output.add(item)
        self._send_state("in_progress")
        if kind == "program":
            self._write_code(item["code"])
        self._send_state(meanwhile)

    def _send_state(self, state: str) -> None:
        self._output.send(f"response.{self._type}.{state}", output_index=self.entry.index, item_id=self.entry.id)

    def _write_code(self, code: str) -> None:
        where = {"output_index": self.entry.index, "item_id": self.entry.id}
        if code:
            self._output.send("response.code_interpreter_call_code.delta", **where, delta=code)
        self._output.send("response.code_interpreter_call_code.done", **where, code=code)

    def end(self, answer: ev.Result | None = None) -> None:
        """Its answer came, or the turn ended without one."""
        item = self.entry.item
        if answer is not None and "action" in item and item["action"]["type"] == "search":
            found = [{"type": "url", "url": address} for address, _ in provider_tools.pages(answer.json)]
            item["action"] = {**item["action"], **({"sources": found} if found else {})}
        elif answer is not None and "outputs" in item:
            item["outputs"] = [{"type": "logs", "logs": provider_tools.output(answer.json)}]
        failed = answer is not None and answer.failed
        if not failed:
            self._send_state("completed")
        self._output.end(self.entry, status="failed" if failed else "completed")


def _action(kind: provider_tools.Kind, given: str) -> dict[str, Any]:
    if kind == "page":
        return {"type": "open_page", "url": next(iter(provider_tools.addresses(given)), "")}
    asked = provider_tools.queries(given)
    return {"type": "search", "query": next(iter(asked), ""), "queries": asked}


class Writing:
    """A call that is being written: its item, and how its input is told."""

    __slots__ = ("entry", "field", "head", "kind", "name")

    def __init__(self, output: Output, event: ev.CallStart, own: dict[str, Any]) -> None:
        text = event.form == "text"
        self.kind = "response.custom_tool_call_input" if text else "response.function_call_arguments"
        self.field = "input" if text else "arguments"
        item = {
            "id": output.name("ctc" if text else "fc", lenient.get_text(own, "id")),
            "type": "custom_tool_call" if text else "function_call", "status": "in_progress", "call_id": event.id,
            "name": event.name, self.field: "", **{key: value for key, value in own.items() if key != "id"},
        }  # fmt: skip
        self.entry = output.add(item)
        self.name = f"{self.kind}.delta".encode()
        self.head = b'{"type":"%b","item_id":%b,"output_index":%d,"delta":' % (
            self.name, _encode(self.entry.id), self.entry.index
        )  # fmt: skip


class Calling(Speaking):
    """State beside that of speaking: the calls being written, the items being restored, a picture being drawn."""

    def _reset(self, id: str) -> None:
        super()._reset(id)
        self._calls: dict[int, Writing] = {}
        self._restored: dict[int, Entry] = {}  # by part
        self._runs: dict[str, Entry] = {}  # the same, by the id of the item
        self._drawings: dict[int, tuple[Entry, list[str]]] = {}
        self._foreign_runs: dict[str, ProviderRun] = {}  # by the id of the call
        self._mapped: set[int] = set()  # the parts of another provider's runs that have an item here

    def _call(self, event: ev.CallStart) -> None:
        own = self._own(event.extra)
        item = _told(own)
        if event.choice:
            self.report_loss("choice")
        elif item:
            self._restored[event.index] = self._restore(
                {**item, **({"call_id": event.id} if item.get("call_id") else {})}
            )
        elif event.by == "client":
            self._calls[event.index] = Writing(self._output, event, own)
        elif not own and event.name in KINDS:
            self.report_loss("provider-run")
            self._mapped.add(event.index)
        elif not own:
            self.report_loss("provider-call")

    def _restore(self, item: dict[str, Any]) -> Entry:
        wish = lenient.get_text(item, "id")
        entry = self._runs[wish] = self._output.add({**item, "id": self._output.name("item", wish)})
        return entry

    def _input(self, event: ev.CallDelta) -> None:
        call = self._calls.get(event.index)
        if call is not None:
            self.template = NumberedTemplate(event, call.name, call.head, self._output)
            self.out.append(self.template.frame(event.json))

    def _call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self.report_loss("cut-call")
            self._call_cut(event)
            return
        call, restored = self._calls.pop(event.index, None), self._restored.pop(event.index, None)
        if call is not None:
            where = {"item_id": call.entry.id, "output_index": call.entry.index}
            self._output.send(f"{call.kind}.done", **where, **{call.field: event.json})
            self._output.end(call.entry, status="completed", **{call.field: event.json})
        elif restored is not None:
            item = _told(self._own(event.extra))
            if item:
                self._output.end(restored, **_without_names(item))
        elif event.index in self._mapped:
            self._foreign_runs[event.id] = ProviderRun(self._output, KINDS[event.name], event)

    def _call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Nothing is done here. In the snapshot it is input that no reader can take for whole, or nothing."""
        call, restored = self._calls.pop(event.index, None), self._restored.pop(event.index, None)
        if call is not None:
            half = event.json
            if not half.strip() or usable(half) is not None:
                half = "{" + half  # the beginning of an object can end in no value
            call.entry.item.update({"status": "incomplete", call.field: half})
            call.entry.cut = event.form == "text"
        elif restored is not None and event.by == "client":
            restored.cut = True
        elif restored is not None and "status" in restored.item:
            restored.item["status"] = "incomplete"

    def _end_runs(self) -> None:
        """The turn ended: a run whose answer never came is done without one."""
        for run in self._foreign_runs.values():
            run.end()
        self._foreign_runs = {}

    def _abandon(self) -> None:
        """The response failed. A call that nobody ended is shown with input that cannot be parsed, or not at all."""
        for call in self._calls.values():
            call.entry.item[call.field] = "{"
            call.entry.cut = call.field == "input"
        for entry, _ in self._drawings.values():
            entry.cut = True
        self._output.abandon()

    def _result(self, event: ev.Result) -> None:
        own = self._own(event.extra)
        item, run = _kept(own), self._runs.get(lenient.get_text(own, "id"))
        foreign = None if event.partial else self._foreign_runs.pop(event.call, None)
        if foreign is not None:
            foreign.end(event)
        elif item:
            entry = self._runs.get(lenient.get_text(item, "id"))
            if entry is None or entry.done:
                entry = self._restore({**item, **({"call_id": event.call} if item.get("call_id") else {})})
            self._output.end(entry, **_without_names(item))
        elif run is not None and event.partial and not run.done:
            self._preview(run, event.json)
        else:
            self.report_loss("provider-call")

    def _preview(self, run: Entry, json: str) -> None:
        said = lenient.as_object(plain_or_raw(json))
        self._output.send(
            "response.image_generation_call.partial_image", item_id=run.id, output_index=run.index,
            partial_image_index=lenient.get_integer(said, "partial_image_index") or 0,
            partial_image_b64=lenient.get_text(said, "result"),
        )  # fmt: skip

    def _ask(self, event: ev.Ask) -> None:
        self._single(lenient.get_object(self._own(event.extra), "item"), "approval")

    def _opaque(self, event: ev.Opaque) -> None:
        self._single(lenient.as_object(event.data) if event.protocol == self.protocol else {}, "opaque")

    def _single(self, item: dict[str, Any], loss: str) -> None:
        """An item that is whole from the start. One without a type is no item."""
        if lenient.get_text(item, "type"):
            self._output.end(self._restore(item))
        else:
            self.report_loss(loss)

    # ── pictures ──────────────────────────────────────────────────────────────────────────────────

    def _file(self, event: ev.FileStart) -> None:
        """Inline pictures have an item; ours are in the answer of the tool that drew them."""
        if self._own(event.extra):
            return
        form = event.media.removeprefix("image/")
        if event.choice or event.url or form not in _PICTURES:
            self.report_loss("choice" if event.choice else "file")
            return
        self.report_loss("picture")
        item = {
            "id": self._output.name("ig"), "type": "image_generation_call", "status": "in_progress",
            "output_format": form, "result": None,
        }  # fmt: skip
        self._drawings[event.index] = (self._output.add(item), [])

    def _file_delta(self, event: ev.FileDelta) -> None:
        if event.index in self._drawings:
            self._drawings[event.index][1].append(event.data)

    def _file_end(self, event: ev.FileEnd) -> None:
        drawn = self._drawings.pop(event.index, None)
        if drawn is not None and event.broken:
            self.report_loss("cut-file")
            drawn[0].cut = True
        elif drawn is not None:
            self._output.end(drawn[0], status="completed", result="".join(drawn[1]))

    calling: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.CallStart: _call, ev.CallDelta: _input, ev.CallEnd: _call_end, ev.CallCut: _call_cut,
        ev.FileStart: _file, ev.FileDelta: _file_delta, ev.FileEnd: _file_end,
        ev.Result: _result, ev.Ask: _ask, ev.Opaque: _opaque,
    }  # fmt: skip


def _kept(own: dict[str, Any]) -> dict[str, Any]:
    """The item as it was. An ordinary call is never kept so: what claims to be one would be run by the client."""
    item = lenient.get_object(own, "item")
    return item if lenient.get_text(item, "type") not in ("", "function_call") else {}


def _told(own: dict[str, Any]) -> dict[str, Any]:
    """The item in our own extra. A custom call there is the provider's: it gets the type that nobody would run."""
    item = _kept(own)
    if item.get("type") != "custom_tool_call":
        return item
    return {**{key: value for key, value in item.items() if key != "input"}, "type": "x_search_call",
            "arguments": lenient.get_text(item, "input")}  # fmt: skip


def _without_names(item: dict[str, Any]) -> dict[str, Any]:
    """An item's last state, less what names it: names do not change while an item is written."""
    return {key: value for key, value in item.items() if key not in ("id", "type", "call_id")}
