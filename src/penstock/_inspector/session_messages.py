"""Reads what the grouping into sessions needs of a turn: digests of its messages, and of its answer.

A message's digest is the same in every turn of a session: cache marks, ids and reasoning are left out, because clients
move, change and drop them. Slow for long requests: not for the event loop.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from penstock._fold import Fold
from penstock._gateway.endpoints.stored_responses import PREVIOUS_ID, RESPONSES, expand_compactions
from penstock._input_limits import NestingError, decode_bounded
from penstock._inspector.session_digests import AnswerDigest, CallDigest, MessageDigest, ResultDigest
from penstock._inspector.short_texts import shorten_text
from penstock._inspector.stream_traces import read_trace
from penstock._inspector.turn_sessions import MAX_CHAINED_MESSAGES
from penstock._lenient_json import parse_lenient
from penstock._tokens.conversation import read_conversation
from penstock._tokens.count_cache import digest_bytes, digest_message, encode_stable
from penstock.errors import PenstockError
from penstock.request import Call, Message, Result, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._inspector.stream_traces import TraceSource
    from penstock._lenient_fields import Object

MAX_PREVIEW = 120  # characters of a call's arguments
MAX_TITLE = 160  # characters of the user's first words
MAX_LINES = 2_000  # lines of the first and last messages that are searched for a summary
MIN_LINE = 32  # characters of a line that counts
EDGE_MESSAGES = 3  # at the beginning and at the end, that a summary may be in
MAX_WRAPPER = 160  # characters of what a client puts before or behind a summary
MAX_WRAPPER_ENDS = 4  # places where the words before a summary may end
_WRAPPER_START = re.compile(r"[:>\"\u201c]\s*+(?![\s\"<\u201c])")
_WRAPPER_END = re.compile(r"[\"\u201d]?(?:(?<!\s)\s*+</[a-zA-Z][\w-]{0,40}>)?\Z")
_LIST = re.compile(rb'"(messages|input|contents)"\s*:\s*\[')
_RESPONSE_ID = re.compile(rb'"id"\s*:\s*"([^"\\]{1,200})"')
ID_CHUNKS, _ID_BYTES = 4, 8192  # of an answer, which the id is in
_SEPARATORS = ", \t\r\n"
_TAGGED = re.compile(r"<[a-zA-Z][^<>]*>")
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_decoder = json.JSONDecoder(strict=False)


class RequestMessages(NamedTuple):
    """What the grouping needs of a request. `messages` are without the system messages; `system_digest` is theirs.

    `previous_response`: the id of the response that the request goes on from, if it leaves the conversation out.
    """

    messages: list[Message]
    system_digest: bytes = b""
    previous_response: str = ""


def read_request(request: bytes, protocol: str, *, cut: bool = False) -> RequestMessages:
    """Reads a request's body. No messages if it cannot be read.

    `cut`: only the beginning of the body is there; the messages in it are complete up to the last.
    """
    parsed = _parse_beginning(request) if cut else parse_lenient(request)
    if not isinstance(parsed, dict):
        return RequestMessages([])
    body = cast("Object", parsed)
    previous = body.get(PREVIOUS_ID) if protocol == RESPONSES else None
    if protocol == RESPONSES and isinstance(body.get("input"), list):
        body = {**body, "input": expand_compactions(body["input"])}
    try:
        found = read_conversation(body, protocol=protocol).request.messages
    except PenstockError:
        return RequestMessages([])
    system = [digest_message(message) for message in found if message.role == "system"]
    messages = [message for message in found if message.role != "system"][:MAX_CHAINED_MESSAGES]
    return RequestMessages(messages, digest_bytes(b"".join(system)), previous if isinstance(previous, str) else "")


def _parse_beginning(request: bytes) -> dict[str, Any] | None:
    """Returns a body with the complete messages of one that was cut."""
    found = _LIST.search(request)
    if found is None:
        return None
    text = request[found.end() :].decode("utf-8", "replace")
    messages, at = list[Any](), 0
    try:
        while True:
            while at < len(text) and text[at] in _SEPARATORS:
                at += 1
            value, at = _decoder.raw_decode(text, at)
            messages.append(value)
    except (ValueError, RecursionError):
        return {found[1].decode(): messages, "model": ""}


class MessageDigester:
    """Digests messages. Most were digested before, with an earlier turn: those share their objects."""

    def __init__(self, size: int = 20_000) -> None:
        self._known: OrderedDict[bytes, MessageDigest] = OrderedDict()
        self._size = size

    def digest_messages(self, messages: Iterable[Message], secrets: tuple[str, ...] = ()) -> tuple[MessageDigest, ...]:
        return tuple(self._digest(message, secrets) for message in messages)

    def clear(self) -> None:
        """Forgets the messages, because turns were deleted."""
        self._known.clear()

    def _digest(self, message: Message, secrets: tuple[str, ...]) -> MessageDigest:
        answer = message.role == "assistant"
        digest = digest_answer(message.parts) if answer else digest_message(message)
        key = digest + b"a" if answer else digest
        found = self._known.get(key)
        if found is not None and [call.id for call in found.calls] == [
            part.id for part in message.parts if isinstance(part, Call)
        ]:
            self._known.move_to_end(key)
            return found
        made = self._known[key] = MessageDigest(
            digest,
            answer,
            _count_characters(message.parts),
            digest_calls(message.parts, secrets),
            tuple(_results(message)),
        )
        if len(self._known) > self._size:
            self._known.popitem(last=False)
        return made


def digest_answer(parts: Iterable[Any]) -> bytes:
    """Returns the digest of an answer's text and calls, to find it in the next request.

    Clients give calls other ids, and write their arguments with other spaces and the fields in another order.
    """
    texts = [part.text for part in parts if isinstance(part, Text)]
    calls = [(part.name, _read_arguments(part.json)) for part in parts if isinstance(part, Call)]
    return digest_bytes(encode_stable(("".join(texts).strip(), calls), _encode_sorted))


def _read_arguments(text: str) -> Any:
    try:
        return decode_bounded(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, NestingError):
        return text


def digest_calls(parts: Iterable[Any], secrets: Iterable[str] = ()) -> tuple[CallDigest, ...]:
    """Returns the calls that the client runs, without secrets."""
    known = tuple(secrets)
    return tuple(
        CallDigest(part.id, part.name, digest_answer([part]), shorten_text(part.json, MAX_PREVIEW, known))
        for part in parts
        if isinstance(part, Call) and part.by == "client"
    )


def _results(message: Message) -> Iterator[ResultDigest]:
    for part in message.parts:
        if isinstance(part, Result):
            yield ResultDigest(part.call, digest_bytes(encode_stable(part.content)), part.failed)


def _count_characters(parts: Iterable[Any]) -> int:
    texts = (part.text if isinstance(part, Text) else part.name + part.json for part in parts
             if isinstance(part, Text | Call))  # fmt: skip
    return sum(map(len, texts))


def read_answer(source: TraceSource) -> AnswerDigest:
    """Decodes the answer of a turn."""
    parts = answer_parts(source)
    calls = digest_calls(parts, source.secrets)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return AnswerDigest(digest_answer(parts), frozenset(_line_digests([text])), calls, _count_characters(parts))


def read_response_id(chunks: list[tuple[float | None, bytes]]) -> str:
    """Returns the id in the first chunks of an answer of the Responses API; empty if there is none."""
    found = _RESPONSE_ID.search(b"".join(chunk for _, chunk in chunks)[:_ID_BYTES])
    return found[1].decode("ascii", "replace") if found is not None else ""


def answer_parts(source: TraceSource) -> list[Any]:
    """Returns the complete parts of a turn's answer; empty if there is none."""
    if not source.chunks:
        return []
    fold = Fold()
    fold.feed(read_trace(source).tracer.events)
    return fold.whole_turn().parts if fold.turns else []


def digest_edge_lines(messages: list[Message]) -> frozenset[bytes]:
    """Returns the digests of the lines of a conversation's first and last messages: one may be a summary."""
    edges = messages if len(messages) <= 2 * EDGE_MESSAGES else messages[:EDGE_MESSAGES] + messages[-EDGE_MESSAGES:]
    texts = (
        part.text for message in edges if message.role == "user" for part in message.parts if isinstance(part, Text)
    )
    return frozenset(_line_digests(texts))


def _line_digests(texts: Iterable[str]) -> Iterator[bytes]:
    lines = (line.strip() for text in texts for line in text.splitlines())
    for line, _ in zip((line for line in lines if len(line) >= MIN_LINE), range(MAX_LINES), strict=False):
        for words in _strip_summary_wrapper(line):
            yield digest_bytes(words.encode("utf-8", "surrogatepass"))


def _strip_summary_wrapper(line: str) -> set[str]:
    """Returns a line, and what is left of it without words, a tag or a quote that a client has put around it.

    "Summary: " is such words, "<summary>" such a tag.
    """
    end = _WRAPPER_END.search(line, max(0, len(line) - MAX_WRAPPER))
    inner = line[: end.start()] if end is not None else line
    starts = [found.end() for found in islice(_WRAPPER_START.finditer(line, 0, MAX_WRAPPER), MAX_WRAPPER_ENDS)]
    rests = {inner[start:] for start in (0, *starts)}
    return {line} | {rest for rest in rests if len(rest) >= MIN_LINE}


def session_title(messages: list[Message], secrets: Iterable[str] = ()) -> str:
    """Returns the first words of the user. Texts that clients add in tags are passed over, if there is another."""
    texts = [
        part.text
        for message in messages
        if message.role == "user"
        for part in message.parts
        if isinstance(part, Text) and part.text.strip()
    ]
    plain = next((text for text in texts if not _TAGGED.match(text.lstrip())), texts[0] if texts else "")
    return shorten_text(plain, MAX_TITLE, secrets)
