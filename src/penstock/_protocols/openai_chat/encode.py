"""Events → Chat Completions chunks, as the official SDKs read them.

Calls are numbered per choice from 0. Reasoning goes into `reasoning_content`, which most clients read; `reasoning`
selects another field, `thinking` writes it as content, as Mistral does. Free-text tool input becomes a function's
argument `input`, unless the client offered custom tools: the API reference has no `custom` chunks, and strict clients
refuse them. The stream ends with a finish, the usage and one `[DONE]`; a fault ends it with an error object alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import lost, nothing, verbatim
from penstock._diagnostics import read_losses
from penstock._lenient_json import is_json
from penstock._openai_chunk_encoding import GAP, CompletionChunkEncoder, build_chunk_usage, encode_json
from penstock._protocols.openai_chat import wire
from penstock._protocols.openai_chat.wire import ERRORS, NAME, WIRE_REASONS, write_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, Reason

    Keep = Callable[[str], None]


class ChatPart(Struct, eq=False):
    """An open part. `call_index` is set once a call is written; `citations` wait for the end of a text."""

    kind: type[ev.Event]
    choice: int
    call_start: ev.CallStart | None = None  # of a call that is not written yet
    media: str = ""
    data_chunks: list[str] = []
    call_index: int = -1
    reasoning_index: int = 0
    state: dict[str, Any] = {}  # a call's signature field; a reasoning part's id
    size: int = 0
    offset: int = 0  # characters of earlier texts of its choice that had ended when it began
    ended: bool = False
    citations: list[ev.Source] = []
    first_detail: dict[str, Any] | None = None  # repeated with every delta of streamed reasoning details

    def add_size(self, text: str) -> None:
        self.size += len(text)


def select_unstreamed_details(details: list[dict[str, Any]], first_detail: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what details hold besides the text that was streamed: signatures, encrypted data."""
    rest = [{key: value for key, value in detail.items() if key not in ("text", "summary")} for detail in details]
    return [detail for detail in rest if not detail.items() <= first_detail.items()]


_REASON_LOSSES: dict[Reason, str] = {"pause": "pause", "refusal": "reason", "other": "reason"}
_THINKING = b'{"content":[{"type":"thinking","thinking":[{"type":"text","text":%b}]}]}'


class ChatEncoder(CompletionChunkEncoder):
    """Writes chunks. `_chunk_start` is the same in every chunk; calls are numbered per choice."""

    protocol = NAME
    losses = read_losses(__name__, "answers")
    object_name = "chat.completion.chunk"
    errors = ERRORS

    def __init__(
        self,
        *,
        id: str = "chatcmpl",
        model: str = "unknown",
        created: int = 0,
        include_usage: bool = True,
        whole_calls: bool = False,
        custom_tools: bool = False,
        reasoning: Literal["reasoning_content", "reasoning", "thinking"] = "reasoning_content",
    ) -> None:
        super().__init__(id, model, created, include_usage=include_usage)
        self._whole_calls, self._custom_tools = whole_calls, custom_tools
        self._reasoning_field = reasoning.encode()
        self._reset()

    def _reset(self) -> None:
        self._parts: dict[int, ChatPart] = {}
        self._open_parts: Counter[tuple[type[ev.Event], int]] = Counter()  # by kind and choice
        self._waiting_calls: list[int] = []  # a heap of part indexes: calls without input, and some that have begun
        # Clients see the texts of a choice as one text, and citations count through it.
        self._texts: dict[int | None, ChatPart] = {}
        self._first_texts: dict[int, ChatPart] = {}  # by choice
        self._text_sizes: Counter[int] = Counter()  # by choice: characters of texts that have ended
        self._calls: dict[int, int] = {}
        self._citation_count = self._reasoning_count = 0
        self._signed_choices: set[int] = set()  # choices whose message has a thought signature already
        self._has_refusal = False

    def _write_template(self, event: Any, part: ChatPart, delta: bytes, keep: Keep | None = None) -> None:
        """Writes a delta, and makes a template of it for those that follow. `delta` has a gap where the text goes."""
        self._write_chunk(part.choice, delta)
        self._make_template(event, keep)

    def _write_chunk(self, choice: int, delta: bytes, finish: bytes = b"null", logprobs: bytes = b"null") -> None:
        choices = b'"choices":[{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]}'
        self.out.append((b"", self._chunk_start + choices % (choice, delta, logprobs, finish)))

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _write_start(self, event: ev.Start) -> None:
        self._reset()
        self._start_chunks(event)
        self._write_chunk(0, b'{"role":"assistant","content":""}')

    def _set_usage(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
        else:
            self._usage = build_chunk_usage(event, NAME, event.written)

    def _write_finish(self, event: ev.Finish) -> None:
        if event.reason in _REASON_LOSSES:
            self.report_loss(_REASON_LOSSES[event.reason])
        elif event.reason == "stop" and self._calls.get(0):
            self.report_loss("reason")
        reason = "stop" if event.reason == "refusal" and self._has_refusal else WIRE_REASONS[event.reason]
        extra_content = {key: value for key, value in self._get_extras(event.extra).items() if key == "extra_content"}
        self._write_chunk(0, encode_json(extra_content), encode_json(reason))
        for choice, other in enumerate(event.others, 1):
            self._write_chunk(choice, b"{}", encode_json(WIRE_REASONS[other]))
        self._end_chunks()

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _open_part(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart) -> None:
        kind = type(event)
        if self._open_parts[kind, event.choice]:
            self.report_loss("overlap")
        self._open_parts[kind, event.choice] += 1
        part = self._parts[event.index] = ChatPart(kind, event.choice)
        if kind is ev.TextStart:
            self._texts[event.index] = part
            self._first_texts.setdefault(part.choice, part)
        if kind is ev.ReasoningStart:
            part.first_detail = next(
                iter(lenient.get_objects(self._get_extras(event.extra), "reasoning_details")), None
            )
            part.reasoning_index, part.state = self._reasoning_count, {"id": event.item} if event.item else {}
            self._reasoning_count += 1
        elif event.extra and not write_signature(event.extra):
            self.report_loss("text-state")

    def _write_text(self, event: ev.TextDelta) -> None:
        part = self._parts[event.index]
        if not part.size:
            part.offset = self._text_sizes[part.choice]
        if event.logprobs is None:
            self._write_template(event, part, b'{"content":%b}' % GAP, part.add_size)
            return
        part.add_size(event.text)
        self._write_chunk(
            part.choice, b'{"content":%b}' % encode_json(event.text), logprobs=encode_json(event.logprobs)
        )

    def _end_text(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        part = self._parts.pop(event.index)
        self._write_state(part, event.extra, "text-state")
        self._open_parts[part.kind, part.choice] -= 1
        part.ended = True
        self._text_sizes[part.choice] += part.size  # 0 for a refusal
        for source in part.citations:
            self._write_citation(source)

    def _write_refusal(self, event: ev.RefusalDelta) -> None:
        self._has_refusal = True
        self._write_chunk(self._parts[event.index].choice, b'{"refusal":%b}' % encode_json(event.text))

    def _write_reasoning(self, event: ev.ReasoningDelta) -> None:
        """Writes reasoning into the details and the plain field: some clients read the one, some the other."""
        part = self._parts[event.index]
        if part.first_detail is None or self._reasoning_field == b"thinking":
            shape = _THINKING if self._reasoning_field == b"thinking" else b'{"%b":%%b}' % self._reasoning_field
            self._write_template(event, part, shape % GAP)
            return
        key = "summary" if part.first_detail.get("type") == "reasoning.summary" else "text"
        details = [{**part.first_detail, key: event.text}]
        fields = {self._reasoning_field.decode(): event.text, "reasoning_details": details}
        self._write_chunk(part.choice, encode_json(fields))

    def _end_reasoning(self, event: ev.ReasoningEnd) -> None:
        part = self._parts.pop(event.index)
        self._open_parts[part.kind, part.choice] -= 1
        details = lenient.get_objects(self._get_extras(event.extra), "reasoning_details")
        if details and part.first_detail is not None:
            details = select_unstreamed_details(details, part.first_detail)
        if not details and not self._get_extras(event.extra):
            details = wire.write_details(event.extra, index=part.reasoning_index, **part.state)
            if details and wire.exceeds_details(event.extra):
                self.report_loss("opaque")
        if details:
            self._write_chunk(part.choice, encode_json({"reasoning_details": details}))
        elif event.extra and not self._get_extras(event.extra):
            self._write_state(part, event.extra, "opaque")
            self.report_loss("opaque")  # Chat has signatures for whole messages, not for reasoning

    def _write_state(self, part: ChatPart, extra: Extra | None, loss: str) -> None:
        """Writes state that must be sent back, if Chat has a field for it; else reports a loss."""
        state = write_signature(extra)
        if state:
            if part.choice in self._signed_choices:  # a message has one signature, the last
                self.report_loss("text-state")
            self._signed_choices.add(part.choice)
            self._write_chunk(part.choice, encode_json(state))
        elif extra:
            self.report_loss(loss)

    def _hold_call(self, event: ev.CallStart) -> None:
        if event.by == "provider":
            self.report_loss("provider-call")
            return
        self._parts[event.index] = ChatPart(ev.CallStart, event.choice, event)
        heappush(self._waiting_calls, event.index)

    def _start_call(self, part: ChatPart, start: ev.CallStart, first_input: str) -> None:
        """Writes the start of a call with its first input: a call without input looks complete, and may be cut."""
        if self._first_waiting_call() < start.index:
            self.report_loss("order")
        part.call_index, part.state = self._calls.get(part.choice, 0), write_signature(start.extra)
        part.call_start = None
        self._calls[part.choice] = part.call_index + 1
        call: dict[str, Any] = {"index": part.call_index, "id": start.id}
        if start.form == "text" and self._custom_tools:
            call.update(type="custom", custom={"name": start.name, "input": first_input})
        else:
            if start.form == "text":
                self.report_loss("free-text")
                first_input = encode_json({"input": first_input}).decode()
            call.update(type="function", function={"name": start.name, "arguments": first_input})
        call.update(wire.merge_extra_content(self._get_extras(start.extra), write_signature(start.extra)))
        self._write_chunk(part.choice, b'{"tool_calls":[%b]}' % encode_json(call))

    def _first_waiting_call(self) -> int:
        """Returns the index of the first open call that is not written yet, the current one included."""
        heap = self._waiting_calls
        while heap and ((part := self._parts.get(heap[0])) is None or part.call_start is None):
            heappop(heap)
        return heap[0] if heap else sys.maxsize

    def _write_call_delta(self, event: ev.CallDelta) -> None:
        part = self._parts.get(event.index)
        if part is None:
            return
        if part.call_start is not None:
            if self._whole_calls or part.call_start.form == "text" or not event.json.strip():
                return
            self._start_call(part, part.call_start, "")
        delta = b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}' % (part.call_index, GAP)
        self._write_template(event, part, delta)

    def _end_call(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._cut_call(event)
            return
        part = self._parts.pop(event.index, None)
        if part is None:
            return
        if part.call_start is not None:
            self._start_call(part, replace(part.call_start, extra=event.extra or part.call_start.extra), event.json)
        elif part.call_index >= 0 and (state := write_signature(event.extra)) and state != part.state:
            self._write_chunk(part.choice, b'{"tool_calls":[%b]}' % encode_json({"index": part.call_index, **state}))

    def _cut_call(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Ends a call that was cut. Clients see that its input is incomplete; complete input cannot be taken back."""
        part = self._parts.pop(event.index, None)
        if part is not None and (part.call_start is not None or (not event.broken and is_json(event.json))):
            self.report_loss("cut-call")

    def _write_citation(self, event: ev.Source) -> None:
        """Writes an annotation with an index: the official accumulator requires one."""
        part, annotation = self._texts.get(event.of), self._get_extras(event.extra).get("annotation")
        if part is not None and self._first_texts[part.choice] is not part:
            self.report_loss("span")
        if annotation is None:
            if part is not None and not part.ended and event.span is None:
                part.citations.append(event)  # covers all of a text that has not ended
                return
            offset, size = (part.offset, part.size) if part is not None else (0, 0)
            first, last = event.span or (0, size)
            citation: dict[str, Any] = {"url": event.url, "title": event.title}
            citation.update(start_index=offset + first, end_index=offset + last)
            annotation = {"type": "url_citation", "url_citation": citation}
        annotations = [{**annotation, "index": self._citation_count}]
        self._write_chunk(part.choice if part else 0, encode_json({"annotations": annotations}))
        self._citation_count += 1

    def _start_file(self, event: ev.FileStart) -> None:
        self._parts[event.index] = ChatPart(ev.FileStart, event.choice, media=event.media)
        if event.url and event.media.startswith("image"):
            self._write_image(event.choice, event.url)
        elif event.url or not event.media.startswith(("image", "audio")):
            self.report_loss("file")
        elif event.media.startswith("audio/"):
            self.report_loss("media")

    def _write_file_data(self, event: ev.FileDelta) -> None:
        """Writes audio in pieces; an image waits until it is complete."""
        part = self._parts[event.index]
        if part.media.startswith("image"):
            part.data_chunks.append(event.data)
        elif part.media.startswith("audio"):
            self._write_chunk(part.choice, encode_json({"audio": {"data": event.data}}))

    def _end_file(self, event: ev.FileEnd) -> None:
        part = self._parts.pop(event.index)
        if event.broken and part.media.startswith("image"):
            self.report_loss("cut-file")
        elif part.data_chunks:
            self._write_image(part.choice, f"data:{part.media};base64,{''.join(part.data_chunks)}")

    def _write_image(self, choice: int, url: str) -> None:
        self._write_chunk(
            choice, encode_json({"images": [{"type": "image_url", "image_url": {"url": url}, "index": 0}]})
        )

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _write_start, ev.Step: nothing,
        ev.TextStart: _open_part, ev.TextDelta: _write_text, ev.TextEnd: _end_text,
        ev.RefusalStart: _open_part, ev.RefusalDelta: _write_refusal, ev.RefusalEnd: _end_text,
        ev.ReasoningStart: _open_part, ev.ReasoningDelta: _write_reasoning, ev.ReasoningEnd: _end_reasoning,
        ev.CallStart: _hold_call, ev.CallDelta: _write_call_delta, ev.CallEnd: _end_call, ev.CallCut: _cut_call,
        ev.FileStart: _start_file, ev.FileDelta: _write_file_data, ev.FileEnd: _end_file,
        ev.Result: lost("provider-call"), ev.Ask: lost("approval"), ev.Opaque: lost("opaque"), ev.Data: lost("data"),
        ev.Source: _write_citation, ev.Usage: _set_usage, ev.Finish: _write_finish, ev.Unknown: verbatim,
        ev.Fault: CompletionChunkEncoder.write_fault,
    }  # fmt: skip
