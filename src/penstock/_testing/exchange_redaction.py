"""Removes secrets and account ids from exchanges before they are written.

Headers are kept by a list of names, so that a new header of a vendor cannot carry a secret into a file. Bodies are
searched for known values and for everything that looks like a key; in streams also for secrets that a model wrote in
several deltas. JSON that has no secret keeps its bytes.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from penstock._framing.aws_messages import CHECKSUM, find_messages, split_messages, write_message
from penstock._lenient_fields import as_object, get_list
from penstock._redaction import MARK, find_secrets, is_secret_name, redact, redact_and_count, redact_bytes, redact_json
from penstock._stream_redaction import redact_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_KEPT_HEADERS = frozenset(
    "anthropic-beta anthropic-version content-type openai-beta retry-after retry-after-ms x-should-retry".split()
)
_KEPT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")
# Names of fields that hold a credential or say whose account it is.
_PRIVATE_FIELDS = frozenset(
    """access_token account_id api_key apikey auth_token client_secret id_token organization organization_id org_id
    passphrase password private_key project_id refresh_token session_token""".split()
)
# Ids of OpenAI and others for accounts, and the account in an Amazon resource name.
_ACCOUNT = re.compile(
    r"\b((?:org|proj|user|acct|wrkspc)[-_](?=[a-z]*[A-Z0-9])[A-Za-z0-9]{16,}+)|\barn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:(\d{12})\b"
)
# Tokens of Slack, private keys, and signatures of links, which only recordings meet.
_CREDENTIAL_IN_TEXT = re.compile(
    r"""\b(xox[abeprs]-[A-Za-z0-9-]{10,}+)|-----BEGIN\ (?:[A-Z]{1,10}\ ){0,3}PRIVATE\ KEY-----([^-]{16,}+)
    |[?&](?:sig|signature|token)=([^&\s"'\\]{8,}+)""",
    re.VERBOSE,
)
_ACCOUNT_IN_PATH = re.compile(r"(?<=/projects/|/accounts/)[^/?]+")
_ACCOUNT_IN_HOST = re.compile(r"^[^.]+(?=\.(?:openai|services\.ai|cognitiveservices)\.azure\.com)")
_CREDENTIAL = re.compile(r"(?i)^(?:bearer|basic)\s+")
_PASSES = 8
_SHORT = 4  # shorter values are not secrets
_GROUPED_BY = ("type", "index", "output_index", "content_index", "item_id", "contentBlockIndex")
_DATA = b"data:"


def credentials_of(headers: Mapping[str, str], url: str = "") -> list[str]:
    """Returns the secrets in the headers and the URL of a request, by value."""
    values = [value for name, value in headers.items() if is_secret_name(name)]
    found = [_CREDENTIAL.sub("", value) for value in values]
    found += [value for name, value in _query_fields(url) if is_secret_name(name) and value]
    return [*values, *found, *map(unquote, found)]


class ExchangeRedactor:
    """Removes these secrets, and what looks like one. `hidden` counts those in responses."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(dict.fromkeys(one for one in secrets if len(one) >= _SHORT))

    def redact_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Returns the headers that are kept, in the order of their names."""
        lower = {name.lower(): value for name, value in headers.items()}
        kept = (name for name in sorted(lower) if name in _KEPT_HEADERS or name.startswith(_KEPT_PREFIXES))
        return {name: self._redact_text(redact(lower[name], self._secrets)) for name in kept}

    def redact_url(self, url: str) -> str:
        """Returns a URL without its user, its keys and the names of accounts."""
        parts = urlsplit(url)
        host = _ACCOUNT_IN_HOST.sub(MARK, parts.netloc.rpartition("@")[2])
        path = self._redact_text(_ACCOUNT_IN_PATH.sub(MARK, parts.path))
        query = "&".join(
            f"{name}={MARK if is_secret_name(name) else self._redact_text(value)}" if value else name
            for name, value in _query_fields(url)
        )
        return urlunsplit((parts.scheme, host, path, query, ""))

    def redact_request(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Returns the field of a request's body (`request_fields`) without secrets."""
        if "json" in fields:
            document = [redact_json(fields["json"], self._secrets)]
            self._redact_documents([document])
            return {"json": document[0]}
        if "text" in fields:
            return {"text": [self._redact_text(redact(piece, self._secrets)) for piece in fields["text"]]}
        pieces = [redact_bytes(b64decode(piece), self._secrets) for piece in fields.get("base64", ())]
        return {"base64": [b64encode(piece).decode() for piece in pieces]} if pieces else {}

    def redact_response(self, data: bytes, content_type: str = "") -> tuple[bytes, int]:
        """Returns a response's body without secrets, and the number of those that were removed."""
        if content_type.startswith("application/vnd.amazon.eventstream"):
            written, hidden = self._redact_messages(data)
            cleaned, more = redact_stream(written, self._secrets)
            return cleaned, hidden + more
        segments = list(_split_segments(data))
        hidden = self._redact_segments(segments)
        written = b"".join(segment.write() for segment in segments) if hidden else data
        cleaned, more = redact_and_count(written, self._secrets)
        return cleaned, hidden + more

    # ── AWS event streams ─────────────────────────────────────────────────────────────────────────

    def _redact_messages(self, data: bytes) -> tuple[bytes, int]:
        """Redacts the payloads of a binary stream and writes their lengths and checksums anew."""
        messages = [_BinaryMessage(piece) for piece in split_messages(data)]
        segments = [segment for one in messages if (segment := one.segment) is not None]
        if len(segments) < len([one for one in messages if one.payload]):
            return self._redact_inner_stream(messages, data)
        hidden = self._redact_segments(segments)
        if not hidden:
            return data, 0
        return b"".join(one.write(one.segment.write() if one.segment else one.payload) for one in messages), hidden

    def _redact_inner_stream(self, messages: list[_BinaryMessage], data: bytes) -> tuple[bytes, int]:
        """Redacts a stream of text inside binary messages. If it changes, each of its frames gets a message."""
        cleaned, hidden = self.redact_response(b"".join(one.payload for one in messages))
        if not hidden:
            return data, 0
        frames = [frame + b"\n\n" for frame in cleaned.split(b"\n\n") if frame]
        return b"".join(messages[0].write(frame) for frame in frames), hidden

    # ── JSON ──────────────────────────────────────────────────────────────────────────────────────

    def _redact_segments(self, segments: list[_BodySegment]) -> int:
        hidden = 0
        for segment in segments:
            if segment.document is None:
                hidden += segment.replace_raw(self._redact_text(segment.raw.decode("latin-1")))
        known = [segment for segment in segments if segment.document is not None]
        changed, count = self._redact_documents([segment.document or [] for segment in known])
        for number in changed:
            known[number].changed = True
        return hidden + count

    def _redact_documents(self, documents: list[list[Any]]) -> tuple[set[int], int]:
        """Redacts JSON values in place. Strings at the same path of consecutive values are searched as one text.

        Returns the numbers of the values that changed, and how many secrets were removed.
        """
        groups: dict[Any, list[tuple[int, Any, Any]]] = {}
        changed: set[int] = set()
        count = 0
        for number, document in enumerate(documents):
            for key, container, place in _string_places(document):
                if isinstance(place, str) and place.lower() in _PRIVATE_FIELDS and container[place] not in ("", MARK):
                    container[place] = MARK
                    changed.add(number)
                    count += 1
                groups.setdefault(key, []).append((number, container, place))
        for places in groups.values():
            for number, found in self._redact_group(places):
                changed.add(number)
                count += found
        return changed, count

    def _redact_group(self, places: list[tuple[int, Any, Any]]) -> Iterator[tuple[int, int]]:
        """Redacts texts as if they were one. Yields the number of each value that changed, and secrets found there."""
        for _ in range(_PASSES):
            texts = [container[place] for _, container, place in places]
            spans = self._find_spans("".join(texts))
            if not spans:
                return
            for (number, container, place), (text, begun) in zip(places, _cut_spans(texts, spans), strict=True):
                if container[place] != text:
                    container[place] = text
                    if place == "token" and "bytes" in container:  # of log probabilities
                        container["bytes"] = None
                    yield number, begun

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _redact_text(self, text: str) -> str:
        for _ in range(_PASSES):
            spans = self._find_spans(text)
            if not spans:
                break
            text = _cut_spans([text], spans)[0][0]
        return text

    def _find_spans(self, text: str) -> list[tuple[int, int]]:
        """Returns the positions of secrets and account ids, in order and without overlaps. Marks are not searched."""
        spans = find_secrets(text, self._secrets)
        for pattern in (_ACCOUNT, _CREDENTIAL_IN_TEXT):
            spans += [found.span(found.lastindex or 0) for found in pattern.finditer(text)]
        merged: list[tuple[int, int]] = []
        for first, last in sorted(spans):
            if text[first:last].strip() == MARK:
                continue
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        return merged


class _BodySegment:
    """A piece of a body. `document` holds its JSON value, None if it is not JSON."""

    def __init__(self, raw: bytes, before: bytes = b"", after: bytes = b"", *, wrapped: Any = None) -> None:
        self.raw, self.before, self.after = raw, before, after
        self.changed = False
        self._wrapped = wrapped  # the object whose `bytes` the JSON value is
        self.document: list[Any] | None = None
        try:
            value = msgspec.json.decode(raw)
            self.document = value if isinstance(value, list) else [value]
            self._is_list = isinstance(value, list)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass

    def replace_raw(self, text: str) -> int:
        """Replaces a segment that is not JSON. Returns 1 if it changed."""
        cleaned = text.encode("latin-1")
        same = cleaned == self.raw
        self.raw = cleaned
        return 0 if same else 1

    def write(self) -> bytes:
        if not self.changed or self.document is None:
            inner = self.raw
        else:
            inner = msgspec.json.encode(self.document if self._is_list else self.document[0])
        if self._wrapped is not None:
            inner = msgspec.json.encode({**self._wrapped, "bytes": b64encode(inner).decode()})
        return self.before + inner + self.after


class _BinaryMessage:
    """A message of an AWS event stream."""

    def __init__(self, data: bytes) -> None:
        self._raw = data
        self._headers = b""
        self.payload = b""
        span = next(find_messages(data), None)
        if span is not None and span.stop == len(data):
            self._headers = data[span.headers_start : span.payload_start]
            self.payload = data[span.payload_start : -CHECKSUM]
        self.segment = _payload_segment(self.payload)

    def write(self, payload: bytes) -> bytes:
        """Returns the message with another payload."""
        if not self.payload:
            return self._raw
        return write_message(self._headers, payload)


def _payload_segment(payload: bytes) -> _BodySegment | None:
    """Returns the segment of a payload that is JSON; of `InvokeModel`, the JSON inside its base64."""
    segment = _BodySegment(payload)
    if segment.document is None:
        return None
    fields = as_object(segment.document[0])
    if isinstance(fields.get("bytes"), str):
        try:
            return _BodySegment(b64decode(fields["bytes"], validate=True), wrapped=fields)
        except ValueError:
            return segment
    return segment


def _split_segments(data: bytes) -> Iterator[_BodySegment]:
    """Yields a body as one JSON value, else line by line: the data of SSE frames, or lines of JSON."""
    whole = _BodySegment(data)
    if whole.document is not None:
        yield whole
        return
    for line in data.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        end = line[len(text) :]
        if text.startswith(_DATA):
            inner = text[len(_DATA) :]
            content = inner.lstrip(b" ")
            yield _BodySegment(content, text[: len(text) - len(content)], end)
        else:
            yield _BodySegment(text, b"", end)


def _string_places(document: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yields where strings stand in JSON values: a key for strings that continue each other, the container, the place.

    The key is the path and the indices that vendors number their parts with.
    """
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(value, ()) for value in reversed(document)]
    for number, value in enumerate(document):
        if isinstance(value, str):
            yield ("",), document, number
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, dict):
            fields = as_object(value)
            path = (*path, *(f"{name}={fields[name]}" for name in _GROUPED_BY if name in fields))
            rows: list[tuple[Any, Any]] = list(fields.items())
        else:
            rows = list(enumerate(get_list({"": value}, "")))
        inner: list[tuple[Any, tuple[Any, ...]]] = []
        for place, one in rows:
            step = place if isinstance(place, str) else "*"  # items of a list continue each other: tokens, for example
            if isinstance(one, str):
                yield (*path, step), value, place
            else:
                inner.append((one, (*path, step)))
        waiting += reversed(inner)


def _cut_spans(texts: list[str], spans: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Returns texts without the spans of their concatenation. A mark stands in the text where a span begins.

    Also returns how many spans begin in each text.
    """
    result: list[tuple[str, int]] = []
    bounds = [0]
    for text in texts:
        bounds.append(bounds[-1] + len(text))
    first_span = 0
    for text, (start, end) in zip(texts, pairwise(bounds), strict=True):
        pieces: list[str] = []
        at, begun = start, 0
        while first_span < len(spans) and spans[first_span][0] < end:
            first, last = spans[first_span]
            if first >= start:
                pieces += (text[at - start : first - start], MARK)
                begun += 1
            at = min(last, end)
            if last > end:
                break  # it continues in the next text
            first_span += 1
        result.append(("".join([*pieces, text[at - start :]]), begun))
    return result


def _query_fields(url: str) -> list[tuple[str, str]]:
    query = urlsplit(url).query
    return [(name, value) for name, _, value in (one.partition("=") for one in query.split("&") if one)]
