"""What an encoder says: messages with their citations, and reasoning.

Text parts that follow each other are one message, unless they come from different items. A citation goes to its text
while the message is unfinished; one that comes before all text waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.codec import Encoder
from penstock.frame_templates import NO_TEMPLATE, FrameTemplate
from penstock.protocols.responses.body import token_logprobs
from penstock.protocols.responses.wire import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra
    from penstock.framing import Frame
    from penstock.text_runs import TextRun

_LONGEST = 48  # of a response's id in the ids of its items: those may not be longer than 64


_encode = msgspec.json.Encoder().encode


class Entry:
    """One output item. `group` is what further parts must share to join it."""

    __slots__ = ("__weakref__", "closed", "cut", "done", "group", "index", "item", "open", "voices")

    def __init__(self, index: int, item: dict[str, Any], group: str = "") -> None:
        self.index = index
        self.item = item
        self.group = group
        self.voices: list[Voice] = []
        self.closed = 0  # the first so many voices are closed
        self.open = 0  # parts of it that have not ended
        self.done = False
        self.cut = False  # never to be shown as something that a client might run

    @property
    def id(self) -> str:
        return str(self.item["id"])


class Form:
    """How one kind of voice is written: its event names, its part, where the part goes and by which index."""

    __slots__ = ("delta", "done", "ends", "field", "index", "list", "opens", "part")

    def __init__(self, part: str, field: str, list_: str, index: str, family: str, frame: str) -> None:
        self.part = part
        self.field = field
        self.list = list_
        self.index = index
        self.delta = f"{family}.delta"
        self.done = f"{family}.done"
        self.opens = f"{frame}.added"
        self.ends = f"{frame}.done"


_CONTENT, _SUMMARY = "response.content_part", "response.reasoning_summary_part"

FORMS = {
    "text": Form("output_text", "text", "content", "content_index", "response.output_text", _CONTENT),
    "refusal": Form("refusal", "refusal", "content", "content_index", "response.refusal", _CONTENT),
    "summary": Form("summary_text", "text", "summary", "summary_index", "response.reasoning_summary_text", _SUMMARY),
    "reasoning_text": Form("reasoning_text", "text", "content", "content_index", "response.reasoning_text", _CONTENT),
    "reasoning": Form("reasoning_text", "text", "content", "content_index", "response.reasoning", _CONTENT),
}


class Voice:
    """One part of an item that is said piece by piece."""

    __slots__ = ("_entry", "closed", "form", "head", "name", "part", "pieces", "place")

    def __init__(self, entry: Entry, form: Form) -> None:
        self._entry = ref(entry)  # which refers to this; `Output.entries` keeps it
        self.form = form
        self.part: dict[str, Any] = {"type": form.part, form.field: ""}
        if form.part == "output_text":
            self.part.update(annotations=[], logprobs=[])
        parts: list[Any] = entry.item[form.list]
        self.place = len(parts)
        parts.append(self.part)
        self.pieces: list[str] = []
        self.closed = False
        self.name = form.delta.encode()
        logprobs = b'"logprobs":[],' if form.part == "output_text" else b""
        self.head = b'{"type":"%b","item_id":%b,"output_index":%d,"%b":%d,%b"delta":' % (
            self.name, _encode(entry.id), entry.index, form.index.encode(), self.place, logprobs
        )  # fmt: skip

    @property
    def entry(self) -> Entry:
        entry = self._entry()
        assert entry is not None  # noqa: S101 — see above
        return entry

    @property
    def where(self) -> dict[str, Any]:
        return {"item_id": self.entry.id, "output_index": self.entry.index, self.form.index: self.place}

    @property
    def length(self) -> int:
        return sum(map(len, self.pieces))


class NumberedTemplate(FrameTemplate):
    """The frames of more text, which are numbered like all frames of a response."""

    __slots__ = ("_output",)

    def __init__(
        self, event: Any, name: bytes, before: bytes, output: Output, keep: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(type(event), event.index, name, before, b"", keep)
        self._output = output

    def frame(self, text: str) -> Frame:
        name, data = super().frame(text)
        self._output.number += 1
        return name, b'%b,"sequence_number":%d}' % (data, self._output.number - 1)

    def run(self, run: TextRun) -> list[Any]:
        if self.keep is not None:
            self.keep(run.text())
        name, line, first = self.name, self.before + b'"%b","sequence_number":%d}', self._output.number
        self._output.number = first + len(run.words)
        return [(name, line % (word, number)) for number, word in enumerate(run.words, first)]


class Output:
    """All items of one response, numbered in the order they begin, and the frames about them.

    `out` is the list that frames are appended to; an encoder hands in its own with every batch.
    """

    def __init__(self, stem: str, out: list[Frame]) -> None:
        self.out = out
        self.entries: list[Entry] = []
        self._waiting: dict[int, Entry] = {}  # unfinished items with voices, by index,
        self._ended: dict[int, Entry] = {}  # those of them whose parts have all ended,
        self._groups: dict[tuple[str, str], Entry] = {}  # and the last one of each type and group
        self._stem = stem
        self._ids: set[str] = set()
        self.number = 0  # of the next event

    def send(self, kind: str, **fields: Any) -> None:
        self.out.append((kind.encode(), _encode({"type": kind, "sequence_number": self.number, **fields})))
        self.number += 1

    def name(self, prefix: str, wish: str = "") -> str:
        """An id for the next item: the one it had, else one made of the response's."""
        if not wish or wish in self._ids:
            wish = f"{prefix}_{self._stem}_{len(self.entries)}"
        self._ids.add(wish)
        return wish

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def add(self, item: dict[str, Any], group: str = "") -> Entry:
        """Announce an item; those that could only wait for more of the same are finished first."""
        self.rest()
        entry = Entry(len(self.entries), item, group)
        self.entries.append(entry)
        self.send("response.output_item.added", output_index=entry.index, item=item)
        return entry

    def end(self, entry: Entry, **changes: Any) -> None:
        """The item is whole."""
        for voice in entry.voices:
            self.close(voice)
        entry.voices = []  # they hold it
        entry.item.update(changes)
        entry.done = True
        self.send("response.output_item.done", output_index=entry.index, item=entry.item)

    def rest(self, status: str = "completed") -> None:
        """Finish every item whose parts have all ended."""
        ended, self._ended = self._ended, {}
        for index, entry in sorted(ended.items()):
            del self._waiting[index]
            key = (str(entry.item["type"]), entry.group)
            if self._groups.get(key) is entry:
                del self._groups[key]
            self.end(entry, **({"status": status} if "status" in entry.item else {}))

    def abandon(self) -> None:
        """The response failed: no item is done, but the snapshot shows how far each of them came."""
        for entry in self.entries:
            if entry.done:
                continue
            for voice in entry.voices:
                voice.part[voice.form.field] = "".join(voice.pieces)
            if entry.item.get("status") == "in_progress":
                entry.item["status"] = "incomplete"

    def joinable(self, kind: str, group: str) -> Entry | None:
        """The unfinished item that another part may go into: of the same group, or the last one of all."""
        entry = self._groups.get((kind, group))
        return entry if entry is not None and (group or entry is self.entries[-1]) else None

    # ── voices ────────────────────────────────────────────────────────────────────────────────────

    def speak(self, entry: Entry, form: Form) -> Voice:
        """Begin another part of an item; the one before it is whole, if it has ended."""
        if not entry.open:
            for voice in entry.voices[entry.closed :]:
                self.close(voice)
            entry.closed = len(entry.voices)
        if not entry.voices:
            self._waiting[entry.index] = self._groups[str(entry.item["type"]), entry.group] = entry
        self._ended.pop(entry.index, None)
        entry.open += 1
        voice = Voice(entry, form)
        entry.voices.append(voice)
        self.send(form.opens, **voice.where, part=voice.part)
        return voice

    def ended(self, voice: Voice) -> None:
        """A part of an item has ended; more may still belong to the item."""
        entry = voice.entry
        entry.open -= 1
        if not entry.open and entry.index in self._waiting:
            self._ended[entry.index] = entry

    def close(self, voice: Voice) -> None:
        if voice.closed:
            return
        voice.closed = True
        form, part, text = voice.form, voice.part, "".join(voice.pieces)
        part[form.field] = text
        logprobs = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
        self.send(form.done, **voice.where, **{form.field: text}, **logprobs)
        self.send(form.ends, **voice.where, part=part)


class Speaking(Encoder):
    """State: the output so far, the voices of parts, citations that wait for text."""

    def __init__(self, reasoning: str) -> None:
        super().__init__()
        self._full = FORMS[reasoning]
        self._reset("")

    def _reset(self, id: str) -> None:
        self._output = Output(id.removeprefix("resp_")[-_LONGEST:], self.out)
        self._voices: dict[int, Voice] = {}
        self._said: Voice | None = None  # the last text
        self.template = NO_TEMPLATE
        self._sources: list[ev.Source] = []

    def _own(self, extra: Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    def _name(self, prefix: str, own: dict[str, Any]) -> str:
        """The id that an item had, else one that is made for it."""
        wish = lenient.get_text(own, "id")
        name = self._output.name(prefix, wish)
        if wish and name != wish:
            self.report_loss("same-id")
        return name

    def _foreign(self, extra: Extra | None) -> None:
        if extra and NAME not in extra:
            self.report_loss("text-state")

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _speak(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.choice:
            self.report_loss("choice")
            return
        own = self._own(event.extra)
        self._foreign(event.extra)
        group = lenient.get_text(own, "id") or event.item
        entry = self._output.joinable("message", group)
        if entry is None:
            item: dict[str, Any] = {
                "id": self._name("msg", own), "type": "message", "status": "in_progress",
                "role": "assistant", "content": [], **({"phase": own["phase"]} if own.get("phase") else {}),
            }  # fmt: skip
            entry = self._output.add(item, group)
        form = FORMS["text" if type(event) is ev.TextStart else "refusal"]
        voice = self._voices[event.index] = self._output.speak(entry, form)
        if form is FORMS["text"]:
            self._said = voice
            sources, self._sources = self._sources, []
            for source in sources:
                self._source(source)

    def _text(self, event: ev.TextDelta) -> None:
        voice = self._voices.get(event.index)
        if voice is None:
            return
        if event.logprobs is not None:
            self._likely(voice, event)
            return
        self._say(voice, event)

    def _say(self, voice: Voice, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        self.template = NumberedTemplate(event, voice.name, voice.head, self._output, voice.pieces.append)
        self.out.append(self.template.frame(event.text))

    def _likely(self, voice: Voice, event: ev.TextDelta) -> None:
        logprobs = token_logprobs(event.logprobs)
        if event.logprobs != {"content": logprobs}:
            self.report_loss("logprobs")
        voice.pieces.append(event.text)
        voice.part["logprobs"] += logprobs
        self._output.send(voice.form.delta, **voice.where, delta=event.text, logprobs=logprobs)

    def _delta(self, event: ev.RefusalDelta | ev.ReasoningDelta) -> None:
        voice = self._voices.get(event.index)
        if voice is not None:
            self._say(voice, event)

    def _quiet(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        voice = self._voices.get(event.index)
        if voice is not None and not event.broken:
            self._output.ended(voice)
            self._foreign(event.extra)

    def _source(self, event: ev.Source) -> None:
        voice = self._cited(event)
        if voice is None:
            return
        own = lenient.get_object(self._own(event.extra), "annotation")
        if not own and not event.url:
            self.report_loss("source")
            return
        if not own and event.span is None and event.of is not None:
            self.report_loss("span")
        first, last = event.span or (0, 0 if own or event.of is None else voice.length)
        plain = {
            "type": "url_citation",
            "url": event.url,
            "title": event.title,
            "start_index": first,
            "end_index": last,
        }
        annotation = {**plain, **own} if own.get("type", "url_citation") == "url_citation" else own
        annotations: list[Any] = voice.part["annotations"]
        annotations.append(annotation)
        self._output.send(
            "response.output_text.annotation.added", **voice.where, annotation_index=len(annotations) - 1,
            annotation=annotation,
        )  # fmt: skip

    def _cited(self, event: ev.Source) -> Voice | None:
        """The text that a citation belongs to; one that comes before all text waits for it."""
        voice = None if event.of is None else self._voices.get(event.of)
        if voice is None or voice.form is not FORMS["text"]:
            voice = self._said
        if voice is None:
            self._sources.append(event)
        elif voice.closed:
            self.report_loss("source-outside-text")
            return None
        return voice

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def _think(self, event: ev.ReasoningStart) -> None:
        if event.choice:
            self.report_loss("choice")
        elif event.form != "redacted":
            own = self._own(event.extra)
            group = lenient.get_text(own, "id")
            entry = self._output.joinable("reasoning", group) if group else None
            entry = entry or self._output.add(self._reasoning(own), group)
            form = FORMS["summary"] if event.form == "summary" else self._full
            self._voices[event.index] = self._output.speak(entry, form)

    def _reasoning(self, own: dict[str, Any]) -> dict[str, Any]:
        content = {} if self._full is FORMS["summary"] else {"content": list[Any]()}
        return {"id": self._name("rs", own), "type": "reasoning", "summary": [], **content}

    def _thought(self, event: ev.ReasoningEnd) -> None:
        if event.broken:
            return
        own, voice = self._own(event.extra), self._voices.get(event.index)
        kept = {key: value for key, value in own.items() if key not in ("id", "phase")}
        if event.extra and (not own or event.extra.keys() != {NAME}):
            self.report_loss("opaque")
        if voice is not None:
            voice.entry.item.update(kept)
            self._output.ended(voice)
        elif own:
            entry = self._output.joinable("reasoning", lenient.get_text(own, "id"))
            if entry is None:
                self._output.end(self._output.add(self._reasoning(own)), **kept)
            else:
                entry.item.update(kept)

    speaking: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextStart: _speak, ev.TextDelta: _text, ev.TextEnd: _quiet,
        ev.RefusalStart: _speak, ev.RefusalDelta: _delta, ev.RefusalEnd: _quiet,
        ev.ReasoningStart: _think, ev.ReasoningDelta: _delta, ev.ReasoningEnd: _thought,
        ev.Source: _source,
    }  # fmt: skip
