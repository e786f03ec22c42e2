"""Encodes calls of the client and of the provider, their results, approval requests and images.

A call becomes a function call, or a custom tool call if its input is free text. Items of built-in tools, and of tools
that the provider runs, exist only in this protocol: they are restored from the item in `extra`, or lost. Searches and
programs that another provider ran become items of this protocol (`ProviderToolItem`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _provider_tool_fields as provider_tools
from penstock import events as ev
from penstock._lenient_json import complete_json, decode_unless_too_deep
from penstock._protocols.responses.encode_text import NumberedTemplate, OutputItem, ResponseOutput, ResponsesTextEncoder
from penstock._provider_tool_fields import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_IMAGE_FORMATS = frozenset({"png", "jpeg", "webp", "gif"})
_WEB_SEARCH = ("web_search_call", "ws", "searching")
_PROVIDER_ITEMS: dict[str, tuple[str, str, str]] = {  # kind → item type, id prefix, progress event
    "search": _WEB_SEARCH,
    "page": _WEB_SEARCH,
    "program": ("code_interpreter_call", "ci", "interpreting"),
}
_encode_json = msgspec.json.Encoder().encode


class ProviderToolItem:
    """The item of a search or program that another provider ran.

    It is announced when its input is complete, and done when its result arrives.
    https://platform.openai.com/docs/api-reference/responses-streaming/response/web_search_call
    """

    def __init__(self, output: ResponseOutput, kind: provider_tools.Kind, event: ev.CallEnd) -> None:
        self._output = output
        self._type, prefix, progress = _PROVIDER_ITEMS[kind]
        item: dict[str, Any] = {"id": output.make_id(prefix), "type": self._type, "status": "in_progress"}
        if kind == "program":
            item.update(code=provider_tools.program_code(event.json), container_id="", outputs=None)
        else:
            item["action"] = _build_action(kind, event.json)
        self._entry = output.add_item(item)
        self._location = {"output_index": self._entry.index, "item_id": self._entry.id}
        self._send_progress("in_progress")
        if kind == "program":
            self._write_code(item["code"])
        self._send_progress(progress)

    def _send_progress(self, state: str) -> None:
        self._output.send(f"response.{self._type}.{state}", **self._location)

    def _write_code(self, code: str) -> None:
        if code:
            self._output.send("response.code_interpreter_call_code.delta", **self._location, delta=code)
        self._output.send("response.code_interpreter_call_code.done", **self._location, code=code)

    def finish(self, result: ev.Result | None = None) -> None:
        """Finishes the item with its result, or without one at the end of the turn."""
        item = self._entry.item
        if result is not None and "action" in item and item["action"]["type"] == "search":
            sources = [{"type": "url", "url": address} for address, _ in provider_tools.found_pages(result.json)]
            item["action"] = {**item["action"], **({"sources": sources} if sources else {})}
        elif result is not None and "outputs" in item:
            item["outputs"] = [{"type": "logs", "logs": provider_tools.program_output(result.json)}]
        failed = result is not None and result.failed
        if not failed:
            self._send_progress("completed")
        self._output.finish_item(self._entry, status="failed" if failed else "completed")


def _build_action(kind: provider_tools.Kind, json: str) -> dict[str, Any]:
    if kind == "page":
        return {"type": "open_page", "url": next(iter(provider_tools.page_urls(json)), "")}
    queries = provider_tools.search_queries(json)
    return {"type": "search", "query": next(iter(queries), ""), "queries": queries}


class StreamedCall:
    """A call that is being written: its item, and the wire format of its input."""

    __slots__ = ("entry", "event_name", "event_type", "field", "frame_start")

    def __init__(self, output: ResponseOutput, event: ev.CallStart, extras: dict[str, Any]) -> None:
        is_text = event.form == "text"
        self.event_type = "response.custom_tool_call_input" if is_text else "response.function_call_arguments"
        self.field = "input" if is_text else "arguments"
        item = {
            "id": output.make_id("ctc" if is_text else "fc", lenient.get_text(extras, "id")),
            "type": "custom_tool_call" if is_text else "function_call",
            "status": "in_progress",
            "call_id": event.id,
            "name": event.name,
            self.field: "",
            **{key: value for key, value in extras.items() if key != "id"},
        }
        self.entry = output.add_item(item)
        self.event_name = f"{self.event_type}.delta".encode()
        values = (self.event_name, _encode_json(self.entry.id), self.entry.index)
        self.frame_start = b'{"type":"%b","item_id":%b,"output_index":%d,"delta":' % values


class ResponsesCallEncoder(ResponsesTextEncoder):
    """State beside that of text: calls, restored items, and images that are being written."""

    def _reset(self, id: str) -> None:
        super()._reset(id)
        self._calls: dict[int, StreamedCall] = {}
        self._restored: dict[int, OutputItem] = {}  # by part
        self._restored_by_id: dict[str, OutputItem] = {}
        self._images: dict[int, tuple[OutputItem, list[str]]] = {}
        self._provider_items: dict[str, ProviderToolItem] = {}  # by call id
        self._provider_parts: set[int] = set()  # parts of another provider's runs that get an item

    def _start_call(self, event: ev.CallStart) -> None:
        extras = self._get_extras(event.extra)
        item = _get_call_item(extras)
        if event.choice:
            self.report_loss("choice")
        elif item:
            self._restored[event.index] = self._restore_item(item, event.id)
        elif event.by == "client":
            self._calls[event.index] = StreamedCall(self._output, event, extras)
        elif not extras and event.name in KINDS:
            self.report_loss("provider-run")
            self._provider_parts.add(event.index)
        elif not extras:
            self.report_loss("provider-call")

    def _restore_item(self, item: dict[str, Any], call_id: str = "") -> OutputItem:
        """Announces an item of this protocol again. Its call id may have been mapped."""
        wanted = lenient.get_text(item, "id")
        if call_id and item.get("call_id"):
            item = {**item, "call_id": call_id}
        entry = self._output.add_item({**item, "id": self._output.make_id("item", wanted)})
        self._restored_by_id[wanted] = entry
        return entry

    def _append_input(self, event: ev.CallDelta) -> None:
        call = self._calls.get(event.index)
        if call is not None:
            self.template = NumberedTemplate(event, call.event_name, call.frame_start, self._output)
            self.out.append(self.template.frame(event.json))

    def _end_call(self, event: ev.CallEnd) -> None:
        if event.broken:
            self.report_loss("cut-call")
            self._cut_call(event)
            return
        call, restored = self._calls.pop(event.index, None), self._restored.pop(event.index, None)
        if call is not None:
            location = {"item_id": call.entry.id, "output_index": call.entry.index}
            self._output.send(f"{call.event_type}.done", **location, **{call.field: event.json})
            self._output.finish_item(call.entry, status="completed", **{call.field: event.json})
        elif restored is not None:
            item = _get_call_item(self._get_extras(event.extra))
            if item:
                self._output.finish_item(restored, **_drop_names(item))
        elif event.index in self._provider_parts:
            self._provider_items[event.id] = ProviderToolItem(self._output, KINDS[event.name], event)

    def _cut_call(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Leaves a call unfinished. The snapshot has it with input that no client can parse, or not at all."""
        call, restored = self._calls.pop(event.index, None), self._restored.pop(event.index, None)
        if call is not None:
            json = event.json
            if not json.strip() or complete_json(json) is not None:
                json = "{" + json  # an unclosed object is never valid JSON
            call.entry.item.update({"status": "incomplete", call.field: json})
            call.entry.cut = event.form == "text"
        elif restored is not None and event.by == "client":
            restored.cut = True
        elif restored is not None and "status" in restored.item:
            restored.item["status"] = "incomplete"

    def _finish_provider_items(self) -> None:
        """Finishes runs whose result never arrived, at the end of the turn."""
        for item in self._provider_items.values():
            item.finish()
        self._provider_items = {}

    def _abandon(self) -> None:
        """Marks open calls after a fault: they get input that no client can parse, or are left out."""
        for call in self._calls.values():
            call.entry.item[call.field] = "{"
            call.entry.cut = call.field == "input"
        for entry, _ in self._images.values():
            entry.cut = True
        self._output.abandon()

    def _add_result(self, event: ev.Result) -> None:
        extras = self._get_extras(event.extra)
        item, restored = _get_item(extras), self._restored_by_id.get(lenient.get_text(extras, "id"))
        provider_item = None if event.partial else self._provider_items.pop(event.call, None)
        if provider_item is not None:
            provider_item.finish(event)
        elif item:
            entry = self._restored_by_id.get(lenient.get_text(item, "id"))
            if entry is None or entry.done:
                entry = self._restore_item(item, event.call)
            self._output.finish_item(entry, **_drop_names(item))
        elif restored is not None and event.partial and not restored.done:
            self._send_partial_image(restored, event.json)
        else:
            self.report_loss("provider-call")

    def _send_partial_image(self, entry: OutputItem, json: str) -> None:
        result = lenient.as_object(decode_unless_too_deep(json))
        self._output.send(
            "response.image_generation_call.partial_image",
            item_id=entry.id,
            output_index=entry.index,
            partial_image_index=lenient.get_integer(result, "partial_image_index") or 0,
            partial_image_b64=lenient.get_text(result, "result"),
        )

    def _add_approval(self, event: ev.Ask) -> None:
        self._add_complete_item(lenient.get_object(self._get_extras(event.extra), "item"), "approval")

    def _add_opaque(self, event: ev.Opaque) -> None:
        self._add_complete_item(lenient.as_object(event.data) if event.protocol == self.protocol else {}, "opaque")

    def _add_complete_item(self, item: dict[str, Any], loss: str) -> None:
        if lenient.get_text(item, "type"):
            self._output.finish_item(self._restore_item(item))
        else:
            self.report_loss(loss)

    # ── images ────────────────────────────────────────────────────────────────────────────────────

    def _start_file(self, event: ev.FileStart) -> None:
        """Starts the item of an inline image. An image of this protocol is already in its tool's result."""
        if self._get_extras(event.extra):
            return
        image_format = event.media.removeprefix("image/")
        if event.choice or event.url or image_format not in _IMAGE_FORMATS:
            self.report_loss("choice" if event.choice else "file")
            return
        self.report_loss("picture")
        item = {"id": self._output.make_id("ig"), "type": "image_generation_call", "status": "in_progress"}
        entry = self._output.add_item({**item, "output_format": image_format, "result": None})
        self._images[event.index] = (entry, [])

    def _append_file(self, event: ev.FileDelta) -> None:
        if event.index in self._images:
            self._images[event.index][1].append(event.data)

    def _end_file(self, event: ev.FileEnd) -> None:
        image = self._images.pop(event.index, None)
        if image is not None and event.broken:
            self.report_loss("cut-file")
            image[0].cut = True
        elif image is not None:
            self._output.finish_item(image[0], status="completed", result="".join(image[1]))

    call_handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.CallStart: _start_call,
        ev.CallDelta: _append_input,
        ev.CallEnd: _end_call,
        ev.CallCut: _cut_call,
        ev.FileStart: _start_file,
        ev.FileDelta: _append_file,
        ev.FileEnd: _end_file,
        ev.Result: _add_result,
        ev.Ask: _add_approval,
        ev.Opaque: _add_opaque,
    }


def _get_item(extras: dict[str, Any]) -> dict[str, Any]:
    """Returns the item in this protocol's extra data. A function call is never there: the client would run it."""
    item = lenient.get_object(extras, "item")
    return item if lenient.get_text(item, "type") not in ("", "function_call") else {}


def _get_call_item(extras: dict[str, Any]) -> dict[str, Any]:
    """Returns the item of a call. A custom call here is the provider's: it gets a type that no client runs."""
    item = _get_item(extras)
    if item.get("type") != "custom_tool_call":
        return item
    fields = {key: value for key, value in item.items() if key != "input"}
    return {**fields, "type": "x_search_call", "arguments": lenient.get_text(item, "input")}


def _drop_names(item: dict[str, Any]) -> dict[str, Any]:
    """Returns an item without the fields that name it: they stay as they were announced."""
    return {key: value for key, value in item.items() if key not in ("id", "type", "call_id")}
