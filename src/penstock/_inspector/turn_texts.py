"""The texts of a turn that are indexed: the pieces of its request, and the words of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import parser
from penstock._grammar import Guard
from penstock._input_limits import NestingError, decode_bounded
from penstock._pipeline import Pipe
from penstock._store.kept_turns_index import WORDS, TextPiece, is_opaque, join_words, list_strings
from penstock._stream_trace import BodyParser
from penstock._text_runs import ExpandRuns
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._framing.base import Frame

MAX_FRAME_WORDS = 64 * 1024  # characters of frames that are indexed beside the answer


def answer_piece(protocol: str, framing: str, chunks: Iterable[bytes], more: Sequence[str] = ()) -> TextPiece | None:
    """Returns the words of an answer: its texts and calls, then other strings of its frames, each once.

    `more` are further words, such as the message of a fault. None if there are no words.
    """
    texts = AnswerWords()
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
    """Collects the words of an answer. Deltas of a part are joined."""

    def __init__(self) -> None:
        self._parts: dict[tuple[int, str], list[str]] = {}
        self._strings: dict[str, None] = {}
        self._characters = 0

    def add_events(self, events: Iterable[Any]) -> None:
        """Adds events of the answer."""
        for event in events:
            if isinstance(event, ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta):
                self._parts.setdefault((event.index, "text"), []).append(event.text)
            elif isinstance(event, ev.EndedCall | ev.Result):
                strings = self._parts.setdefault((event.index, "call"), [])
                strings += [join_words([event.name, *_json_strings(event.json)])]
            elif isinstance(event, ev.Fault):
                self._strings[event.message] = None

    def add_frames(self, frames: Iterable[Frame]) -> None:
        """Adds the strings of frames, while there is room."""
        for _, data in frames:
            if self._characters > MAX_FRAME_WORDS:
                return
            for text in _json_strings(data):
                if text not in self._strings:
                    self._strings[text[:MAX_FRAME_WORDS]] = None
                    self._characters += len(text)

    def list_texts(self) -> list[str]:
        """Returns all texts: those of the answer first."""
        parts = ["".join(texts) for texts in self._parts.values()]
        return [*(text for text in parts if not is_opaque(text)), *self._strings]


def _json_strings(data: bytes | str) -> list[str]:
    try:
        return list_strings(decode_bounded(data.encode("utf-8", "replace") if isinstance(data, str) else data))
    except (msgspec.DecodeError, UnicodeDecodeError, NestingError):
        return [data] if isinstance(data, str) else []
