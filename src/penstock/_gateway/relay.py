"""Relays a provider's stream to the client: every read becomes at most one write.

While the client keeps up, a read is written from within the connection's callback (`pour` and `push`). If the client
is slow, or the server has no direct channel, reads wait for their writes, and so does the upstream.

The captures hold the events that the next request may need: all but text, of which only a hash is kept. Consecutive
deltas of one part become one delta, so a long answer takes no more memory than its reasoning.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Protocol

from penstock import events as ev
from penstock._http.response_writer import BODY, ResponseWriter
from penstock._messages.carried_state import TextKey
from penstock._messages.foreign_state import ciphertexts_of
from penstock._text_runs import expand_runs, merge_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engines.reply import ModelReply
    from penstock._gateway.client_stream import Passthrough, Translation
    from penstock._gateway.recordings import RecordingSession
    from penstock._media import RemoteFiles
    from penstock.events import AnyEvent


class EventCapture(Protocol):
    """What sees the events of an answer."""

    def add(self, events: Sequence[Any]) -> None: ...


@dataclass(slots=True, eq=False)
class StreamRelay:
    """Relays one stream. `capture`, `observer`, `recording` and `answer` see each read.

    `files` fetches files of the answer.
    """

    reply: ModelReply
    writer: Translation | Passthrough
    out: ResponseWriter
    capture: ReasoningCapture | CiphertextCapture | None
    observer: Any
    recording: RecordingSession | None
    files: RemoteFiles | None = None
    answer: EventCapture | None = None
    _unsent: bytes = b""  # encoded, not yet written
    _ended: bool = False

    async def run(self) -> None:
        """Relay the whole stream. The last chunk and the end are one write."""
        out, reply = self.out, self.reply
        await out.start()
        while not self._ended and (pair := await reply.read_with_runs()) is not None:
            if self.files is not None:  # fetching may take seconds, so reads are not written from their callback
                pair = pair[0], await self.files.fill(expand_runs(pair[1]))
            self._unsent = self._encode(*pair)
            if not self._ended:
                await self._send_unsent()
            if self.files is None and out.channel is not None and not self._ended:
                await reply.pour(self._push)
                if not self._ended:
                    await self._send_unsent()
        last = self.writer.finish()
        if self.recording is not None and not reply.raw:
            self.recording.add_chunk(last)
        await out.end(self._unsent + last)

    def take_unsent(self) -> bytes:
        """Return the bytes that are encoded but not written, for a stream that ends early."""
        data, self._unsent = self._unsent, b""
        return data

    async def _send_unsent(self) -> None:
        data = self.take_unsent()
        if data:
            out = self.out
            out.chunk_count += 1
            out.sent_at = out.clock()
            out.body_size += len(data)
            await out.send({"type": BODY, "body": data, "more_body": True})

    def _push(self, chunk: bytes, events: list[AnyEvent]) -> bool:
        """Write a read in the callback that read it. Returns False if the relay must wait for the client."""
        data, out = self._encode(chunk, events), self.out
        if self._ended or out.channel is None or (data and not out.channel.write_chunk(data)):
            self._unsent = data
            return False
        if data:
            out.chunk_count += 1
            out.sent_at = out.clock()
            out.body_size += len(data)
        return True

    def _encode(self, chunk: bytes, events: list[AnyEvent]) -> bytes:
        """Return the client's bytes for a read."""
        if self.answer is not None:
            self.answer.add(events)
        if self.capture is not None:
            self.capture.add(merge_runs(events))
        if self.observer is not None:
            self.observer.on_read(chunk, events)  # it keeps the bytes; an engine without bytes emits no text runs
        data = self.writer.feed((chunk, events))
        if self.recording is not None:
            self.recording.add_chunk(chunk if self.reply.raw else data)
        end = self.reply.end
        self._ended = end is not None and bool(events) and events[-1] is end
        return data


MAX_BUFFERED = 64  # events that are buffered before they are compacted
MAX_CHARACTERS = 8 * 2**20  # of reasoning in a turn; a longer turn is not captured
_TEXT_DELTAS = frozenset({ev.TextDelta, ev.RefusalDelta})
_TEXT_STARTS = frozenset({ev.TextStart, ev.RefusalStart})


class ReasoningCapture:
    """The captured events of a turn. `add` is called for every read and must stay cheap.

    `text_key` hashes the texts of the first choice, in the order of its parts.
    """

    __slots__ = ("_buffered", "_events", "_last_text", "_other_choices", "_size", "full", "text_key")

    def __init__(self) -> None:
        self._buffered: list[ev.AnyEvent] = []
        self._events: list[ev.AnyEvent] = []
        self._size = 0
        self._last_text = -1  # index of the text part that began last
        self._other_choices: set[int] = set()  # indexes of text parts of other choices
        self.full: bool = False  # too long, or its texts are interleaved: nothing is captured
        self.text_key: TextKey = TextKey()

    def add(self, batch: Sequence[ev.AnyEvent]) -> None:
        self._buffered += batch
        if len(self._buffered) > MAX_BUFFERED:
            self._compact()

    def has(self, kinds: frozenset[type]) -> bool:
        """Return whether there is an event of these kinds."""
        return not (kinds.isdisjoint(map(type, self._buffered)) and kinds.isdisjoint(map(type, self._events)))

    def events(self) -> list[ev.AnyEvent]:
        """Return the events in order; none if the turn was too long. A text has only its first character."""
        self._compact()
        return self._events

    def _compact(self) -> None:
        buffered, self._buffered = self._buffered, []
        if self.full:
            return
        for (kind, index), run in groupby(buffered, _kind_and_index):
            events: list[Any] = list(run)
            if kind in _TEXT_DELTAS:
                self._hash_text(index, events)
            elif kind is ev.ReasoningDelta:
                text = "".join([event.text for event in events])
                self._size += len(text)
                self._events.append(ev.ReasoningDelta(index, text))
            else:
                self._events += events
                self._other_choices.update(event.index for event in events if kind in _TEXT_STARTS and event.choice)
        if self._size > MAX_CHARACTERS or self.full:
            self.full, self._events = True, []

    def _hash_text(self, index: int, events: list[Any]) -> None:
        """Hash more of a text. If an earlier text continues, the order of the hash is lost: the capture is dropped."""
        if index in self._other_choices:
            return
        if index > self._last_text:
            self._events.append(type(events[0])(index, events[0].text[:1]))
            self._last_text = index
        self.full = self.full or index < self._last_text
        for event in events:
            self.text_key.add(event.text)


MAX_READS = 32  # reads that are held before they are compacted
MAX_ANSWER = 2**20  # characters of texts and calls; a longer answer is not captured
_CALL_ENDS = frozenset({ev.CallEnd, ev.CallCut})
_DELTAS_WITHOUT_TEXT = frozenset({ev.ReasoningDelta, ev.CallDelta, ev.FileDelta})


class ReplyCapture:
    """Captures the texts and calls of an answer, for the token estimator: it recognizes them in the next request.

    `add` is called for every read, also in passthrough, and must stay cheap. Nothing is captured of an answer that is
    too long, or in which the provider ran tools: its count is not the prompt's.
    """

    __slots__ = ("_events", "_reads", "_reasoning_bytes", "_size", "full")

    def __init__(self) -> None:
        self._reads: list[Sequence[Any]] = []
        self._reasoning_bytes = 0
        self._events: list[ev.AnyEvent] = []
        self._size = 0
        self.full: bool = False

    def add(self, events: Sequence[Any]) -> None:
        self._reads.append(events)
        if len(self._reads) > MAX_READS:
            self._compact()

    def count_bytes(self) -> int | None:
        """Return the bytes of all texts, reasoning and calls; None if the answer was too long to capture."""
        self._compact()
        if self.full:
            return None
        texts = [getattr(event, "text", "") or getattr(event, "json", "") for event in self._events]
        return self._reasoning_bytes + sum(len(text.encode()) for text in texts if isinstance(text, str))

    def events(self) -> list[ev.AnyEvent]:
        """Return the events of the answer without reasoning and files; none if nothing is captured."""
        self._compact()
        return self._events

    def _compact(self) -> None:
        reads, self._reads = self._reads, []
        if not self.full:
            self._join_texts(reads)

    def _join_texts(self, reads: list[Sequence[Any]]) -> None:
        """Join consecutive deltas of one text, and drop the deltas that the estimator does not need."""
        texts, index = list[str](), -1
        for event in merge_runs([*chain.from_iterable(reads)]):
            kind: Any = type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind is ev.TextDelta and event.index == index:  # nearly all of a stream
                texts.append(event.text)
            elif kind in _TEXT_DELTAS:
                self._add_text(index, texts)
                texts, index = [event.text], event.index
            elif kind not in _DELTAS_WITHOUT_TEXT:
                self._add_text(index, texts)
                texts, index = [], -1
                self._add_event(event)
            elif kind is ev.ReasoningDelta:
                self._reasoning_bytes += len(event.text.encode())
        self._add_text(index, texts)
        if self.full or self._size > MAX_ANSWER:
            self.full, self._events = True, []

    def _add_text(self, index: int, texts: list[str]) -> None:
        if texts:
            text = "".join(texts)
            self._size += len(text)
            self._events.append(ev.TextDelta(index, text))

    def _add_event(self, event: Any) -> None:
        kind: Any = type(event)  # pyright: ignore[reportUnknownVariableType]
        if kind in _CALL_ENDS:
            self._size += len(event.json)
        self.full = self.full or kind is ev.Result or (kind is ev.CallStart and event.by == "provider")
        self._events.append(event)


class CiphertextCapture:
    """Captures only the encrypted content of an answer that is passed through unchanged."""

    __slots__ = ("ciphertexts",)

    def __init__(self) -> None:
        self.ciphertexts: list[str] = []

    def add(self, batch: Sequence[ev.AnyEvent]) -> None:
        self.ciphertexts += ciphertexts_of(batch)


def _kind_and_index(event: ev.AnyEvent) -> tuple[type, int]:
    return type(event), getattr(event, "index", -1)
