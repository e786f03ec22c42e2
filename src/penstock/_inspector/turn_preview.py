"""How the prompt and the answer of a kept turn begin: a line each, for the list."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import parser
from penstock._grammar import Guard
from penstock._input_limits import NestingError, decode_bounded
from penstock._inspector.short_texts import shorten_text
from penstock._pipeline import Pipe
from penstock._stream_trace import BodyParser
from penstock._text_runs import ExpandRuns
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._inspector.stream_traces import TraceSource

MAX_PREVIEW_CHARACTERS = 160
MAX_PREVIEWS = 2_000  # that are remembered
MAX_ANSWER_BYTES = 64 * 1024  # of an answer that are read for its beginning
MAX_PARTS = 200  # of a message that are read


class TurnPreview(msgspec.Struct, frozen=True):
    """How the last message of the user and the answer begin."""

    prompt: str = ""
    answer: str = ""


class TurnPreviews:
    """Reads previews, and remembers those of finished turns. Not for the event loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, TurnPreview] = OrderedDict()

    def read(self, id: str, source: TraceSource, *, finished: bool) -> TurnPreview:
        """Returns the preview of a turn."""
        found = self._known.get(id)
        if found is None:
            chunks = (chunk for _, chunk in source.chunks)
            found = TurnPreview(
                preview_prompt(source.request, source.secrets),
                preview_answer(source.protocol, source.framing, chunks, source.secrets),
            )
            if finished:
                self._known[id] = found
                if len(self._known) > MAX_PREVIEWS:
                    self._known.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forgets all previews, because turns were deleted."""
        self._known.clear()


def preview_prompt(body: str, secrets: Iterable[str] = ()) -> str:
    """Returns how the last message of the user begins, in any protocol; empty if there is none."""
    try:
        request = decode_bounded(body.encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeDecodeError, NestingError):
        return ""
    if not isinstance(request, dict):
        return ""
    named = cast("dict[str, Any]", request)
    for name in ("messages", "input", "contents", "prompt"):
        value = named.get(name)
        if isinstance(value, str):
            return shorten_text(value, MAX_PREVIEW_CHARACTERS, secrets)
        if isinstance(value, list):
            return shorten_text(_last_user_text(value), MAX_PREVIEW_CHARACTERS, secrets)  # pyright: ignore[reportUnknownArgumentType]
    return ""


def _last_user_text(messages: list[Any]) -> str:
    for message in reversed(messages):
        if isinstance(message, str):
            return message
        if isinstance(message, dict):
            named = cast("dict[str, Any]", message)
            text = _first_text(named.get("content", named.get("parts")))
            if named.get("role", "user") == "user" and text.strip():
                return text
    return ""


def _first_text(content: Any) -> str:
    """Returns the first text of a message that is not a result of a tool."""
    if isinstance(content, str):
        return content
    parts: list[Any] = content[-MAX_PARTS:] if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    for part in parts:
        text = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and text.strip():
            return text
    return ""


def preview_answer(protocol: str, framing: str, chunks: Iterable[bytes], secrets: tuple[str, ...] = ()) -> str:
    """Returns how the answer begins: its text, or else the names of the tools that it calls."""
    texts: list[str] = []
    calls: list[str] = []
    enough = MAX_PREVIEW_CHARACTERS + max(map(len, secrets), default=0)  # a secret at the cut must be whole
    try:
        for event in _read_events(protocol, framing, chunks):
            if isinstance(event, ev.TextDelta | ev.RefusalDelta):
                texts.append(event.text)
            elif isinstance(event, ev.CallStart):
                calls.append(event.name)
            if sum(map(len, texts)) > enough:
                break
    except InputError:  # the rest cannot be read
        pass
    words = "".join(texts).strip() or ", ".join(f"{name}()" for name in calls)
    return shorten_text(words, MAX_PREVIEW_CHARACTERS, secrets)


def _read_events(protocol: str, framing: str, chunks: Iterable[bytes]) -> Iterable[Any]:
    size = 0
    if framing == BodyParser.framing:
        yield from protocols.decoder(protocol).body(b"".join(chunks))
        return
    parse: Any = parser(framing)
    front = Pipe(protocols.decoder(protocol), Guard(), ExpandRuns())
    for chunk in chunks:
        yield from front.feed(parse.feed([chunk]))
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            return
