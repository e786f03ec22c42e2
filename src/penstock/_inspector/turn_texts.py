"""The texts of a turn that are indexed: the pieces of its request, and the words of its answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import parser
from penstock._grammar import Guard
from penstock._input_limits import NestingError, decode_bounded
from penstock._pipeline import Pipe
from penstock._redaction import redact_bytes, redact_range
from penstock._store.kept_turns_index import WORDS, TextPiece
from penstock._store.kept_turns_words import join_words, list_strings, read_json_words
from penstock._stream_trace import BodyParser
from penstock._text_runs import ExpandRuns
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._framing.base import Frame
    from penstock._store.journal import JournalEntry


class IndexedAnswer(Protocol):
    """A finished turn with its answer."""

    @property
    def entry(self) -> JournalEntry | None: ...

    @property
    def error_bodies(self) -> list[str]: ...

    @property
    def answer_protocol(self) -> str: ...

    @property
    def framing(self) -> str: ...


def read_redacted_answer(
    turn: IndexedAnswer, chunks: list[bytes], secrets: tuple[str, ...], *, is_redacted: bool = False
) -> TextPiece | None:
    """Returns the words of a turn's answer and of its errors, without secrets; None if there are none.

    Secrets that were spelled in several frames are whole here. `is_redacted`: the chunks have no others.
    """
    if not is_redacted and turn.framing != "eventstream":  # one search is faster than one of each frame
        joined = b"".join(chunks)
        is_redacted = redact_bytes(joined) is joined
    fault = turn.entry.fault_message if turn.entry is not None else ""
    more = [fault] if fault else []
    more += [read_json_words(body.encode()) for body in turn.error_bodies]
    answer = read_answer_words(turn.answer_protocol, turn.framing, chunks, more, is_redacted=is_redacted)
    return TextPiece(redact_bytes(answer.body, secrets), WORDS) if answer is not None else None


def read_answer_words(
    protocol: str, framing: str, chunks: Iterable[bytes], more: Sequence[str] = (), *, is_redacted: bool = False
) -> TextPiece | None:
    """Returns the words of an answer: its texts and calls, then other strings of its frames, each once.

    `more` are further words, such as the message of a fault. None if there are no words. `is_redacted`: there are no
    secrets in the chunks, except those that are spelled in several frames.
    """
    texts = AnswerWords(is_redacted=is_redacted)
    parse: Any = BodyParser() if framing == BodyParser.framing else parser(framing)
    front = Pipe(protocols.decoder(protocol), Guard(), ExpandRuns())
    is_body = isinstance(parse, BodyParser)
    try:
        for chunk in chunks:
            texts.add_frames(frames := parse.feed([chunk]))
            texts.add_events(front.feed(frames))
        texts.add_frames(frames := parse.finish())
        if is_body:
            texts.add_events([event for _, data in frames for event in protocols.decoder(protocol).body(data)])
        else:
            texts.add_events(front.feed(frames))
            texts.add_events(front.finish())
    except InputError:  # the rest of the stream cannot be read
        pass
    words = join_words([*texts.list_texts(), *more])
    return TextPiece(words.encode(), WORDS) if words else None


class AnswerWords:
    """Collects the words of an answer. Joins the deltas of a part. Frames repeat them, so repeated strings are skipped.

    The values of JSON are listed without their names, so secrets that are recognisable only by a name are removed
    before.
    """

    def __init__(self, *, is_redacted: bool = False) -> None:
        self._is_redacted = is_redacted
        self._parts: dict[tuple[int, str], list[str]] = {}
        self._deltas: Counter[str] = Counter()
        self._strings: Counter[str] = Counter()

    def add_events(self, events: Iterable[Any]) -> None:
        """Adds events of the answer."""
        for event in events:
            if isinstance(event, ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta):
                self._parts.setdefault((event.index, "text"), []).append(event.text)
                self._deltas[event.text] += 1
            elif isinstance(event, ev.CallDelta | ev.FileDelta):
                self._deltas[event.json if isinstance(event, ev.CallDelta) else event.data] += 1
            elif isinstance(event, ev.EndedCall | ev.Result):
                strings = self._parts.setdefault((event.index, "call"), [])
                arguments = redact_range(event.json, 0, len(event.json))
                strings += [join_words([event.name, *_json_strings(arguments, is_call=True)])]
            elif isinstance(event, ev.Fault):
                self._strings[event.message] += 1

    def add_frames(self, frames: Iterable[Frame]) -> None:
        """Adds the strings of frames."""
        for _, data in frames:
            self._strings.update(_json_strings(data if self._is_redacted else redact_bytes(data)))

    def list_texts(self) -> list[str]:
        """Returns all texts: those of the answer first, then strings of its frames that are not among them."""
        parts = ["".join(texts) for texts in self._parts.values()]
        known = set(parts)
        others = [text for text, count in self._strings.items() if count > self._deltas[text] and text not in known]
        return [*parts, *others]


def _json_strings(data: bytes | str, *, is_call: bool = False) -> list[str]:
    try:
        value = decode_bounded(data.encode("utf-8", "replace") if isinstance(data, str) else data)
        return list_strings(value, is_call=is_call)
    except (msgspec.DecodeError, UnicodeDecodeError, NestingError):
        return [data if isinstance(data, str) else data.decode("utf-8", "replace")]
