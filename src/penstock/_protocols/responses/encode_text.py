"""Encodes messages with citations, and reasoning; keeps the output items that are being written.

Text parts in a row form one message, unless they come from different items. A citation goes to its text while the
message is unfinished; a citation before all text waits for it.

An item stays unfinished while another part could belong to it (the next content part, a late citation). It is finished
when something else begins or the response ends. Indices are contiguous, and ids never change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import ref

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Encoder
from penstock._protocols.responses.wire import NAME, convert_logprobs
from penstock._text_runs import NO_TEMPLATE, FrameTemplate, TextRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._framing.base import Frame
    from penstock.events import Extra

_MAX_ID_PREFIX = 48  # characters of the response's id in item ids, which may have 64 at most
_DELTA_START = b'{"type":"%b","item_id":%b,"output_index":%d,"%b":%d,%b"delta":'
_encode_json = msgspec.json.Encoder().encode


class PartFormat(NamedTuple):
    """Wire format of a kind of part: its type, its text field, the item's list and index field, its event types."""

    type: str
    field: str
    list: str
    index_field: str
    text_event: str
    part_event: str


_CONTENT, _SUMMARY = ("content", "content_index"), ("summary", "summary_index")
_CONTENT_PART, _SUMMARY_PART = "response.content_part", "response.reasoning_summary_part"
PART_FORMATS = {
    "text": PartFormat("output_text", "text", *_CONTENT, "response.output_text", _CONTENT_PART),
    "refusal": PartFormat("refusal", "refusal", *_CONTENT, "response.refusal", _CONTENT_PART),
    "summary": PartFormat("summary_text", "text", *_SUMMARY, "response.reasoning_summary_text", _SUMMARY_PART),
    "reasoning_text": PartFormat("reasoning_text", "text", *_CONTENT, "response.reasoning_text", _CONTENT_PART),
    "reasoning": PartFormat("reasoning_text", "text", *_CONTENT, "response.reasoning", _CONTENT_PART),
}


class OutputItem(msgspec.Struct, eq=False, weakref=True):
    """One output item. Further parts join it if they have the same `group`."""

    index: int
    item: dict[str, Any]
    group: str = ""
    parts: list[StreamedPart] = []
    closed: int = 0  # number of parts at the start of `parts` that are closed
    open: int = 0  # number of parts that have not ended
    done: bool = False
    cut: bool = False  # left out of the snapshot, because a client might run it

    @property
    def id(self) -> str:
        return str(self.item["id"])


class StreamedPart:
    """One part of an item whose text is streamed."""

    __slots__ = ("_entry", "closed", "event_name", "format", "frame_start", "part", "position", "texts")

    def __init__(self, entry: OutputItem, part_format: PartFormat) -> None:
        self._entry = ref(entry)  # a weak reference: the item refers to its parts, and `ResponseOutput` keeps it
        self.format = part_format
        self.part: dict[str, Any] = {"type": part_format.type, part_format.field: ""}
        logprobs = b""
        if part_format.type == "output_text":
            self.part.update(annotations=[], logprobs=[])
            logprobs = b'"logprobs":[],'
        parts: list[Any] = entry.item[part_format.list]
        self.position = len(parts)
        parts.append(self.part)
        self.texts: list[str] = []
        self.closed = False
        self.event_name = f"{part_format.text_event}.delta".encode()
        where = (_encode_json(entry.id), entry.index, part_format.index_field.encode(), self.position)
        self.frame_start = _DELTA_START % (self.event_name, *where, logprobs)

    @property
    def entry(self) -> OutputItem:
        entry = self._entry()
        assert entry is not None  # noqa: S101 — see above
        return entry

    @property
    def location(self) -> dict[str, Any]:
        return {"item_id": self.entry.id, "output_index": self.entry.index, self.format.index_field: self.position}


class NumberedTemplate(FrameTemplate):
    """A template for delta frames with a sequence number, which all frames of a response have."""

    __slots__ = ("_output",)

    def __init__(
        self, event: Any, name: bytes, before: bytes, output: ResponseOutput, keep: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(type(event), event.index, name, before, b"", keep)
        self._output = output

    def frame(self, text: str) -> Frame:
        name, data = super().frame(text)
        self._output.next_number += 1
        return name, b'%b,"sequence_number":%d}' % (data, self._output.next_number - 1)

    def run(self, run: TextRun) -> list[Any]:
        if self.keep is not None:
            self.keep(run.text())
        name, frame_format, first = self.name, self.before + b'"%b","sequence_number":%d}', self._output.next_number
        self._output.next_number = first + len(run.words)
        return [(name, frame_format % (text, number)) for number, text in enumerate(run.words, first)]


class ResponseOutput:
    """All items of one response in order, and the frames about them.

    Frames are appended to `out`; the encoder replaces that list for every batch.
    """

    def __init__(self, id_prefix: str, out: list[Frame]) -> None:
        self.out = out
        self.items: list[OutputItem] = []
        self._unfinished: dict[int, OutputItem] = {}  # items with parts, by index
        self._ended: dict[int, OutputItem] = {}  # unfinished items whose parts have all ended
        self._groups: dict[tuple[str, str], OutputItem] = {}  # the last unfinished item of each type and group
        self._id_prefix = id_prefix
        self._ids: set[str] = set()
        self.next_number = 0  # sequence number of the next event

    def send(self, kind: str, **fields: Any) -> None:
        self.out.append((kind.encode(), _encode_json({"type": kind, "sequence_number": self.next_number, **fields})))
        self.next_number += 1

    def make_id(self, prefix: str, wanted: str = "") -> str:
        """Returns the id of the next item: the wanted one if it is free, else one made from the response's id."""
        if not wanted or wanted in self._ids:
            wanted = f"{prefix}_{self._id_prefix}_{len(self.items)}"
        self._ids.add(wanted)
        return wanted

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def add_item(self, item: dict[str, Any], group: str = "") -> OutputItem:
        """Announces an item. Items that only waited for more parts are finished first."""
        self.finish_ended()
        entry = OutputItem(len(self.items), item, group)
        self.items.append(entry)
        self.send("response.output_item.added", output_index=entry.index, item=item)
        return entry

    def finish_item(self, entry: OutputItem, **changes: Any) -> None:
        for part in entry.parts:
            self.close_part(part)
        entry.parts = []
        entry.item.update(changes)
        entry.done = True
        self.send("response.output_item.done", output_index=entry.index, item=entry.item)

    def finish_ended(self, status: str = "completed") -> None:
        """Finishes every item whose parts have all ended."""
        ended, self._ended = self._ended, {}
        for index, entry in sorted(ended.items()):
            del self._unfinished[index]
            key = (str(entry.item["type"]), entry.group)
            if self._groups.get(key) is entry:
                del self._groups[key]
            self.finish_item(entry, **({"status": status} if "status" in entry.item else {}))

    def abandon(self) -> None:
        """Marks open items as incomplete after a fault. No item is finished; the snapshot shows their text so far."""
        for entry in self.items:
            if entry.done:
                continue
            for part in entry.parts:
                part.part[part.format.field] = "".join(part.texts)
            if entry.item.get("status") == "in_progress":
                entry.item["status"] = "incomplete"

    def find_joinable(self, kind: str, group: str) -> OutputItem | None:
        """Returns the unfinished item that another part may join: one of the same group, or the last item."""
        entry = self._groups.get((kind, group))
        return entry if entry is not None and (group or entry is self.items[-1]) else None

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def open_part(self, entry: OutputItem, part_format: PartFormat) -> StreamedPart:
        """Opens another part of an item. Parts before it that have ended are closed."""
        if not entry.open:
            for part in entry.parts[entry.closed :]:
                self.close_part(part)
            entry.closed = len(entry.parts)
        if not entry.parts:
            self._unfinished[entry.index] = self._groups[str(entry.item["type"]), entry.group] = entry
        self._ended.pop(entry.index, None)
        entry.open += 1
        part = StreamedPart(entry, part_format)
        entry.parts.append(part)
        self.send(f"{part_format.part_event}.added", **part.location, part=part.part)
        return part

    def end_part(self, part: StreamedPart) -> None:
        """Notes that a part has ended. More parts may join its item."""
        entry = part.entry
        entry.open -= 1
        if not entry.open and entry.index in self._unfinished:
            self._ended[entry.index] = entry

    def close_part(self, part: StreamedPart) -> None:
        if part.closed:
            return
        part.closed = True
        fields, field, text = part.part, part.format.field, "".join(part.texts)
        fields[field] = text
        logprobs = {"logprobs": fields["logprobs"]} if "logprobs" in fields else {}
        self.send(f"{part.format.text_event}.done", **part.location, **{field: text}, **logprobs)
        self.send(f"{part.format.part_event}.done", **part.location, part=fields)


class ResponsesTextEncoder(Encoder):
    """State: the output so far, the open parts, and the citations that wait for text."""

    def __init__(self, reasoning: str) -> None:
        super().__init__()
        self._reasoning_format = PART_FORMATS[reasoning]
        self._reset("")

    def _reset(self, id: str) -> None:
        self._output = ResponseOutput(id.removeprefix("resp_")[-_MAX_ID_PREFIX:], self.out)
        self._parts: dict[int, StreamedPart] = {}
        self._last_text: StreamedPart | None = None
        self.template = NO_TEMPLATE
        self._waiting_sources: list[ev.Source] = []

    def _get_extras(self, extra: Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    def _make_id(self, prefix: str, extras: dict[str, Any]) -> str:
        """Returns the id that the item had, else a new one."""
        wanted = lenient.get_text(extras, "id")
        name = self._output.make_id(prefix, wanted)
        if wanted and name != wanted:
            self.report_loss("same-id")
        return name

    def _report_foreign_state(self, extra: Extra | None) -> None:
        if extra and NAME not in extra:
            self.report_loss("text-state")

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _start_text(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.choice:
            self.report_loss("choice")
            return
        extras = self._get_extras(event.extra)
        self._report_foreign_state(event.extra)
        group = lenient.get_text(extras, "id") or event.item
        entry = self._output.find_joinable("message", group)
        if entry is None:
            item: dict[str, Any] = {"id": self._make_id("msg", extras), "type": "message", "status": "in_progress"}
            item |= {"role": "assistant", "content": [], **({"phase": extras["phase"]} if extras.get("phase") else {})}
            entry = self._output.add_item(item, group)
        is_text = type(event) is ev.TextStart
        part = self._output.open_part(entry, PART_FORMATS["text" if is_text else "refusal"])
        self._parts[event.index] = part
        if is_text:
            self._last_text = part
            sources, self._waiting_sources = self._waiting_sources, []
            for source in sources:
                self._add_source(source)

    def _append_text(self, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        part = self._parts.get(event.index)
        if part is None:
            return
        if type(event) is ev.TextDelta and event.logprobs is not None:
            self._append_with_logprobs(part, event)
            return
        self.template = NumberedTemplate(event, part.event_name, part.frame_start, self._output, part.texts.append)
        self.out.append(self.template.frame(event.text))

    def _append_with_logprobs(self, part: StreamedPart, event: ev.TextDelta) -> None:
        logprobs = convert_logprobs(event.logprobs)
        if event.logprobs != {"content": logprobs}:
            self.report_loss("logprobs")
        part.texts.append(event.text)
        part.part["logprobs"] += logprobs
        self._output.send(f"{part.format.text_event}.delta", **part.location, delta=event.text, logprobs=logprobs)

    def _end_text(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        part = self._parts.get(event.index)
        if part is not None and not event.broken:
            self._output.end_part(part)
            self._report_foreign_state(event.extra)

    def _add_source(self, event: ev.Source) -> None:
        part = self._find_cited(event)
        if part is None:
            return
        extras = lenient.get_object(self._get_extras(event.extra), "annotation")
        if not extras and not event.url:
            self.report_loss("source")
            return
        if not extras and event.span is None and event.of is not None:
            self.report_loss("span")
        first, last = event.span or (0, 0 if extras or event.of is None else sum(map(len, part.texts)))
        annotation = extras
        if extras.get("type", "url_citation") == "url_citation":
            annotation = {"type": "url_citation", "url": event.url, "title": event.title}
            annotation |= {"start_index": first, "end_index": last, **extras}
        annotations: list[Any] = part.part["annotations"]
        annotations.append(annotation)
        where = {**part.location, "annotation_index": len(annotations) - 1}
        self._output.send("response.output_text.annotation.added", **where, annotation=annotation)

    def _find_cited(self, event: ev.Source) -> StreamedPart | None:
        """Returns the text that a citation belongs to. A citation before all text waits."""
        part = None if event.of is None else self._parts.get(event.of)
        if part is None or part.format is not PART_FORMATS["text"]:
            part = self._last_text
        if part is None:
            self._waiting_sources.append(event)
        elif part.closed:
            self.report_loss("source-outside-text")
        return None if part is None or part.closed else part

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def _start_reasoning(self, event: ev.ReasoningStart) -> None:
        if event.choice:
            self.report_loss("choice")
        elif event.form != "redacted":
            extras = self._get_extras(event.extra)
            group = lenient.get_text(extras, "id")
            entry = self._output.find_joinable("reasoning", group) if group else None
            entry = entry or self._output.add_item(self._build_reasoning(extras), group)
            part_format = PART_FORMATS["summary"] if event.form == "summary" else self._reasoning_format
            self._parts[event.index] = self._output.open_part(entry, part_format)

    def _build_reasoning(self, extras: dict[str, Any]) -> dict[str, Any]:
        content = {} if self._reasoning_format is PART_FORMATS["summary"] else {"content": list[Any]()}
        return {"id": self._make_id("rs", extras), "type": "reasoning", "summary": [], **content}

    def _end_reasoning(self, event: ev.ReasoningEnd) -> None:
        if event.broken:
            return
        extras, part = self._get_extras(event.extra), self._parts.get(event.index)
        state = {key: value for key, value in extras.items() if key not in ("id", "phase")}
        if event.extra and (not extras or event.extra.keys() != {NAME}):
            self.report_loss("opaque")
        if part is not None:
            part.entry.item.update(state)
            self._output.end_part(part)
        elif extras:
            entry = self._output.find_joinable("reasoning", lenient.get_text(extras, "id"))
            if entry is None:
                self._output.finish_item(self._output.add_item(self._build_reasoning(extras)), **state)
            else:
                entry.item.update(state)

    text_handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextStart: _start_text,
        ev.TextDelta: _append_text,
        ev.TextEnd: _end_text,
        ev.RefusalStart: _start_text,
        ev.RefusalDelta: _append_text,
        ev.RefusalEnd: _end_text,
        ev.ReasoningStart: _start_reasoning,
        ev.ReasoningDelta: _append_text,
        ev.ReasoningEnd: _end_reasoning,
        ev.Source: _add_source,
    }
