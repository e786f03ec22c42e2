"""Events → Chat Completions chunks, as the official SDKs read them.

Calls are numbered per choice from 0, whatever their part number. Reasoning goes into the field most readers share
(`reasoning_content`), settable; `thinking` puts it among the content, as Mistral does. Free text for a tool is a
function's argument `input`, unless `custom_tools` says that the client offered such tools: the API reference has no
chunks of type `custom`, and readers that check types refuse them. The stream ends with a finish, the usage, and exactly
one `[DONE]`; a fault ends it with an error object and no `[DONE]`.
"""

from __future__ import annotations

import sys
from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.codec import Encoder, lost, nothing, verbatim
from penstock.frame_templates import NO_TEMPLATE, FrameTemplate
from penstock.jsontext import is_json
from penstock.protocols.openai_chat.body import error_body
from penstock.protocols.openai_chat.wire import LOSSES, NAME, has_more, merged_content, write_details, write_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, Reason


class Slot:
    """An open part. `call` is a call's number once it is announced; `cited` waits for the end of a text."""

    __slots__ = (
        "before",
        "call",
        "choice",
        "cited",
        "done",
        "head",
        "kind",
        "media",
        "number",
        "pieces",
        "size",
        "state",
        "waiting",
    )

    def __init__(self, kind: type[ev.Event], choice: int, waiting: ev.CallStart | None = None, media: str = "") -> None:
        self.kind = kind
        self.choice = choice
        self.call = -1
        self.waiting = waiting
        self.media = media
        self.pieces: list[str] = []
        self.size = 0
        self.number = 0  # of a thought among the thoughts
        self.state: dict[str, Any] = {}  # the field for state that was announced with a call; the id of a thought
        self.before = 0  # characters of the texts of its choice that had ended when it said its first words
        self.done = False
        self.cited: list[ev.Source] = []
        self.head: dict[str, Any] | None = None  # of a detail of reasoning, that each of its words is said with

    def grow(self, text: str) -> None:
        """More of a text was said."""
        self.size += len(text)


class Texts:
    """The texts of a turn, which readers see as one: what a citation of one of them spans there."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}
        self._first: dict[int, Slot] = {}  # by choice
        self._sizes: Counter[int] = Counter()  # by choice: characters of texts that have ended

    def add(self, index: int, slot: Slot) -> None:
        self._slots[index] = slot
        self._first.setdefault(slot.choice, slot)

    def begin(self, slot: Slot) -> None:
        """A text says its first words."""
        slot.before = self._sizes[slot.choice]

    def end(self, slot: Slot) -> None:
        """A text (or a refusal, which says nothing here) is whole."""
        slot.done = True
        self._sizes[slot.choice] += slot.size

    def find(self, index: int | None) -> Slot | None:
        return None if index is None else self._slots.get(index)

    def first(self, slot: Slot) -> bool:
        """Whether no text of its choice came before."""
        return self._first[slot.choice] is slot

    def span(self, source: ev.Source) -> tuple[int, int]:
        """Nothing where it belongs to no text."""
        slot = self.find(source.of)
        if slot is None:
            return source.span or (0, 0)
        first, last = source.span or (0, slot.size)
        return slot.before + first, slot.before + last


def unsaid(details: list[dict[str, Any]], head: dict[str, Any]) -> list[dict[str, Any]]:
    """What details hold besides the words that were streamed: signatures, encrypted data."""
    rest = [{key: value for key, value in one.items() if key not in ("text", "summary")} for one in details]
    return [one for one in rest if not one.items() <= head.items()]


REASONS: dict[Reason, str] = {
    "stop": "stop", "length": "length", "calls": "tool_calls", "filter": "content_filter", "refusal": "content_filter",
    "pause": "stop", "other": "stop",
}  # fmt: skip
_UNSAID: dict[Reason, str] = {"pause": "pause", "refusal": "reason", "other": "reason"}
_encode = msgspec.json.Encoder().encode
_DONE = (b"", b"[DONE]")
_HERE = b"\x00"  # stands in no frame
_THINKING = b'{"content":[{"type":"thinking","thinking":[{"type":"text","text":%b}]}]}'


class ChatEncoder(Encoder):
    """State: the head of every chunk, the slots of open parts, call numbers per choice, the usage so far."""

    protocol = NAME
    losses = LOSSES

    def __init__(
        self, *, id: str = "chatcmpl", model: str = "unknown", created: int = 0, include_usage: bool = True,
        whole_calls: bool = False, custom_tools: bool = False,
        reasoning: Literal["reasoning_content", "reasoning", "thinking"] = "reasoning_content",
    ) -> None:  # fmt: skip
        super().__init__()
        self._id, self._model, self._created = id, model, created
        self._include_usage = include_usage
        self._whole_calls = whole_calls
        self._custom_tools = custom_tools
        self._field = reasoning.encode()
        self._head = b""
        self._slots: dict[int, Slot] = {}
        self._open_parts: Counter[tuple[type[ev.Event], int]] = Counter()  # by kind and choice
        self._unannounced: list[int] = []  # a heap: calls whose input has not begun, and some whose has
        self._texts = Texts()
        self._calls: dict[int, int] = {}
        self._cited = self._thoughts = 0
        self._signed: set[int] = set()  # choices whose message has a thought signature
        self._refused = False
        self._usage: dict[str, Any] | None = None

    def _own(self, extra: Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    def _more(self, event: Any, slot: Slot, delta: bytes, keep: Callable[[str], None] | None = None) -> None:
        """Write more of a part, and all that follows in the same way. `delta` has a mark where the text goes."""
        self._send(slot.choice, delta)
        before, after = self.out.pop()[1].split(_HERE)
        self.template = FrameTemplate(type(event), event.index, b"", before, after, keep)
        self.write(event)

    def _send(self, choice: int, delta: bytes, finish: bytes = b"null", logprobs: bytes = b"null") -> None:
        self.out.append((
            b"",
            b'%b"choices":[{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]}'
            % (self._head, choice, delta, logprobs, finish),
        ))  # fmt: skip

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._slots, self._calls, self._usage, self._cited, self._refused = {}, {}, None, 0, False
        self.template = NO_TEMPLATE
        self._thoughts = 0
        self._signed = set()
        self._texts = Texts()
        self._open_parts.clear()
        self._unannounced.clear()
        head = {
            "id": event.id or self._id, "object": "chat.completion.chunk",
            "created": event.created or self._created, "model": event.model or self._model,
            **self._own(event.extra),
        }  # fmt: skip
        self._head = _encode(head)[:-1] + b","
        self._send(0, b'{"role":"assistant","content":""}')

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            return
        own = self._own(event.extra)
        if own:
            self._usage = {"prompt_tokens": event.input, "completion_tokens": event.output, **own}
            return
        total = (event.input or 0) + (event.output or 0)
        usage: dict[str, Any] = {
            "prompt_tokens": event.input or 0, "completion_tokens": event.output or 0, "total_tokens": total
        }  # fmt: skip
        if event.cached is not None or event.written is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": event.cached or 0}
            if event.written is not None:
                usage["prompt_tokens_details"]["cache_write_tokens"] = event.written
        if event.reasoning is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": event.reasoning}
        self._usage = usage

    def _finish(self, event: ev.Finish) -> None:
        if event.reason in _UNSAID:
            self.report_loss(_UNSAID[event.reason])
        elif event.reason == "stop" and self._calls.get(0):
            self.report_loss("reason")
        reason = "stop" if event.reason == "refusal" and self._refused else REASONS[event.reason]
        kept = {key: value for key, value in self._own(event.extra).items() if key == "extra_content"}
        self._send(0, _encode(kept), _encode(reason))
        for choice, other in enumerate(event.others, 1):
            self._send(choice, b"{}", _encode(REASONS[other]))
        self._count()
        self.out.append(_DONE)

    def _count(self) -> None:
        if self._include_usage and self._usage is not None:
            self.out.append((b"", b'%b"choices":[],"usage":%b}' % (self._head, _encode(self._usage))))

    def _fault(self, event: ev.Fault) -> None:
        """The error, with the usage beside it. A usage chunk of its own would say that the answer is complete.

        Goose then runs a call of which only the first half came.
        """
        body = error_body(event)
        if self._include_usage and self._usage is not None:
            body["usage"] = self._usage
        self.out.append((b"", _encode(body)))

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _open(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart) -> None:
        kind = type(event)
        if self._open_parts[kind, event.choice]:
            self.report_loss("overlap")
        self._open_parts[kind, event.choice] += 1
        slot = self._slots[event.index] = Slot(kind, event.choice)
        if kind is ev.TextStart:
            self._texts.add(event.index, slot)
        if kind is ev.ReasoningStart:
            slot.head = next(iter(lenient.get_objects(self._own(event.extra), "reasoning_details")), None)
            slot.number, slot.state = self._thoughts, {"id": event.item} if event.item else {}
            self._thoughts += 1
        elif event.extra and not write_state(event.extra):
            self.report_loss("text-state")

    def _text(self, event: ev.TextDelta) -> None:
        slot = self._slots[event.index]
        if not slot.size:
            self._texts.begin(slot)
        if event.logprobs is None:
            self._more(event, slot, b'{"content":%b}' % _HERE, slot.grow)
            return
        slot.grow(event.text)
        self._send(slot.choice, b'{"content":%b}' % _encode(event.text), logprobs=_encode(event.logprobs))

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        slot = self._slots.pop(event.index)
        self._sign(slot, event.extra, "text-state")
        self._open_parts[slot.kind, slot.choice] -= 1
        self._texts.end(slot)
        for source in slot.cited:
            self._source(source)

    def _refusal(self, event: ev.RefusalDelta) -> None:
        self._refused = True
        self._send(self._slots[event.index].choice, b'{"refusal":%b}' % _encode(event.text))

    def _reasoning(self, event: ev.ReasoningDelta) -> None:
        """Who reads details reads nothing else, and the others read the field: both must have the words."""
        slot = self._slots[event.index]
        if slot.head is None or self._field == b"thinking":
            shape = _THINKING if self._field == b"thinking" else b'{"%b":%%b}' % self._field
            self._more(event, slot, shape % _HERE)
            return
        word = "summary" if slot.head.get("type") == "reasoning.summary" else "text"
        said = {self._field.decode(): event.text, "reasoning_details": [{**slot.head, word: event.text}]}
        self._send(slot.choice, _encode(said))

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        slot = self._slots.pop(event.index)
        self._open_parts[slot.kind, slot.choice] -= 1
        details = lenient.get_objects(self._own(event.extra), "reasoning_details")
        if details and slot.head is not None:
            details = unsaid(details, slot.head)
        if not details and not self._own(event.extra):
            details = write_details(event.extra, index=slot.number, **slot.state)
            if details and has_more(event.extra):
                self.report_loss("opaque")
        if details:
            self._send(slot.choice, _encode({"reasoning_details": details}))
        elif event.extra and not self._own(event.extra):
            self._sign(slot, event.extra, "opaque")
            self.report_loss("opaque")  # a signature of thoughts stands beside the whole message here

    def _sign(self, slot: Slot, extra: Extra | None, loss: str) -> None:
        """State that must be sent back: in its field where there is one for it."""
        state = write_state(extra)
        if state:
            if slot.choice in self._signed:  # a message has one signature: the last
                self.report_loss("text-state")
            self._signed.add(slot.choice)
            self._send(slot.choice, _encode(state))
        elif extra:
            self.report_loss(loss)

    def _call_start(self, event: ev.CallStart) -> None:
        if event.by == "provider":
            self.report_loss("provider-call")
            return
        self._slots[event.index] = Slot(ev.CallStart, event.choice, event)
        heappush(self._unannounced, event.index)

    def _announce(self, slot: Slot, start: ev.CallStart, given: str) -> None:
        """Not before there is input: a call without any would look complete, and may yet be cut."""
        if self._first_unannounced() < start.index:
            self.report_loss("order")
        slot.call, slot.state = self._calls.get(slot.choice, 0), write_state(start.extra)
        slot.waiting = None
        self._calls[slot.choice] = slot.call + 1
        call: dict[str, Any] = {"index": slot.call, "id": start.id}
        if start.form == "text" and self._custom_tools:
            call.update(type="custom", custom={"name": start.name, "input": given})
        elif start.form == "text":
            self.report_loss("free-text")
            arguments = _encode({"input": given}).decode()
            call.update(type="function", function={"name": start.name, "arguments": arguments})
        else:
            call.update(type="function", function={"name": start.name, "arguments": given})
        call.update(merged_content(self._own(start.extra), write_state(start.extra)))
        self._send(slot.choice, b'{"tool_calls":[%b]}' % _encode(call))

    def _first_unannounced(self) -> int:
        """The number of the first open call that was not announced, the one that is being announced included."""
        heap = self._unannounced
        while heap and ((slot := self._slots.get(heap[0])) is None or slot.waiting is None):
            heappop(heap)
        return heap[0] if heap else sys.maxsize

    def _call_delta(self, event: ev.CallDelta) -> None:
        slot = self._slots.get(event.index)
        if slot is None:
            return
        if slot.waiting is not None:
            if self._whole_calls or slot.waiting.form == "text" or not event.json.strip():
                return
            self._announce(slot, slot.waiting, "")
        self._more(event, slot, b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}' % (slot.call, _HERE))

    def _call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._call_cut(event)
            return
        slot = self._slots.pop(event.index, None)
        if slot is not None and slot.waiting is not None:
            self._announce(slot, replace(slot.waiting, extra=event.extra or slot.waiting.extra), event.json)
        elif slot is not None and slot.call >= 0 and (state := write_state(event.extra)) and state != slot.state:
            late = {"index": slot.call, **state}
            self._send(slot.choice, b'{"tool_calls":[%b]}' % _encode(late))

    def _call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Half an input shows that it is half, and the finish says why; one that was whole cannot be taken back."""
        slot = self._slots.pop(event.index, None)
        if slot is not None and (slot.waiting is not None or (not event.broken and is_json(event.json))):
            self.report_loss("cut-call")

    def _source(self, event: ev.Source) -> None:
        """Annotations need an index of their own: the official accumulator asks for it."""
        slot, annotation = self._texts.find(event.of), self._own(event.extra).get("annotation")
        if slot is not None and not self._texts.first(slot):
            self.report_loss("span")
        if annotation is None:
            if slot is not None and not slot.done and event.span is None:
                slot.cited.append(event)  # of all of a text, whose end is not known yet
                return
            first, last = self._texts.span(event)
            cited = {"url": event.url, "title": event.title, "start_index": first, "end_index": last}
            annotation = {"type": "url_citation", "url_citation": cited}
        self._send(slot.choice if slot else 0, _encode({"annotations": [{**annotation, "index": self._cited}]}))
        self._cited += 1

    def _file_start(self, event: ev.FileStart) -> None:
        self._slots[event.index] = Slot(ev.FileStart, event.choice, media=event.media)
        if event.url and event.media.startswith("image"):
            self._image(event.choice, event.url)
        elif event.url or not event.media.startswith(("image", "audio")):
            self.report_loss("file")
        elif event.media.startswith("audio/"):
            self.report_loss("media")

    def _file_delta(self, event: ev.FileDelta) -> None:
        """Sound may come in pieces, an image may not."""
        slot = self._slots[event.index]
        if slot.media.startswith("image"):
            slot.pieces.append(event.data)
        elif slot.media.startswith("audio"):
            self._send(slot.choice, _encode({"audio": {"data": event.data}}))

    def _file_end(self, event: ev.FileEnd) -> None:
        slot = self._slots.pop(event.index)
        if event.broken and slot.media.startswith("image"):
            self.report_loss("cut-file")
        elif slot.pieces:
            self._image(slot.choice, f"data:{slot.media};base64,{''.join(slot.pieces)}")

    def _image(self, choice: int, url: str) -> None:
        self._send(choice, _encode({"images": [{"type": "image_url", "image_url": {"url": url}, "index": 0}]}))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: nothing,
        ev.TextStart: _open, ev.TextDelta: _text, ev.TextEnd: _text_end,
        ev.RefusalStart: _open, ev.RefusalDelta: _refusal, ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _open, ev.ReasoningDelta: _reasoning, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallDelta: _call_delta, ev.CallEnd: _call_end, ev.CallCut: _call_cut,
        ev.FileStart: _file_start, ev.FileDelta: _file_delta, ev.FileEnd: _file_end,
        ev.Result: lost("provider-call"), ev.Ask: lost("approval"), ev.Source: _source, ev.Opaque: lost("opaque"),
        ev.Data: lost("data"), ev.Usage: _usage_event, ev.Finish: _finish, ev.Fault: _fault, ev.Unknown: verbatim,
    }  # fmt: skip
