"""The replies of a scripted upstream: a head, chunks, and at most one failure.

Reply.text("It is six.")                                 an answer, in the dialect of whoever asks
Reply.calls([("get_weather", {"city": "Oslo"})])         the model asks for tools
Reply.tape("answer.tape")                                a recorded answer, byte for byte
Reply.of("anthropic", events)                            events in one protocol
Reply.text("It is six.").disconnect(after=0.5)           the connection is dropped after half of the body
Reply.rate_limit(retry_after=2)                          429
"""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._detect import guess
from penstock._framing import detect as detect_framing
from penstock._replay.wire_encoding import JSON, MEDIA_TYPES, encode_events, error_body, media_type
from penstock._store.recordings import read_recording
from penstock._testing import reply_content
from penstock._testing.dialects import Dialect
from penstock._testing.reply_content import decode_events
from penstock.errors import InputError
from penstock.events import AnyEvent, Fault, FaultKind, Reason, Start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    from penstock._testing.reply_content import CallLike, UsageLike
    from penstock.request import AnyPart


# A step of a reply: send bytes, wait seconds, `stall` (wait until the client leaves), `cut` (drop the connection).
Step: TypeAlias = bytes | float | Literal["stall", "cut"]
_KINDS: dict[int, FaultKind] = {
    401: "auth",
    402: "quota",
    403: "permission",
    404: "not-found",
    413: "too-large",
    429: "rate-limit",
    503: "overloaded",
    529: "overloaded",
}
_SERVER = 500
_DROPPED_HEADERS = frozenset("connection content-encoding content-length keep-alive transfer-encoding".split())


class Reply(msgspec.Struct, frozen=True):
    """One answer. `text`, `calls`, `of`, `tape`, `error` … create it; `disconnect`, `stall` … spoil it.

    A reply without a protocol is written in the protocol of the request, as a stream if one is asked for.

    Examples:
        >>> replies = [Reply.rate_limit(retry_after=5), Reply.text("At six."), Reply.text("At six.").disconnect(20)]
        >>> [reply.status for reply in replies]
        [429, 200, 200]
    """

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    headers: dict[str, str] = {}
    wait: float = 0  # seconds before the head
    pace: float = 0  # seconds between chunks
    failure: Literal["", "cut", "stall", "garbage"] = ""
    # Bytes of the body before the failure; less than 0: counted from its end; a float from 0 to 1: that share of it.
    after: int | float = 0
    noise: bytes = b""
    head: bool = True  # False: the connection is dropped as soon as the request is received
    events: tuple[AnyEvent, ...] = ()  # of an answer that is not written yet: see `encode_for`
    protocol: str = ""  # of such an answer; empty: the request's
    stream: bool | None = None  # whether it is streamed; None: as the request asks
    size: int = 0  # bytes of a chunk; 0: a chunk for each frame
    times: tuple[float, ...] = ()  # seconds before each chunk, in place of `pace`

    @classmethod
    def text(
        cls,
        text: str,
        *,
        reasoning: str = "",
        usage: UsageLike | None = None,
        finish: Reason | None = None,
        protocol: str = "",
        stream: bool | None = None,
    ) -> Reply:
        """Returns a text as an answer. `usage`: tokens of the prompt and of the answer."""
        parts = reply_content.answer_parts(text, reasoning=reasoning)
        return cls.parts(parts, usage=usage, finish=finish, protocol=protocol, stream=stream)

    @classmethod
    def calls(
        cls,
        calls: Sequence[CallLike],
        *,
        text: str = "",
        reasoning: str = "",
        usage: UsageLike | None = None,
        protocol: str = "",
        stream: bool | None = None,
    ) -> Reply:
        """Returns an answer that asks for tools: `[("get_weather", {"city": "Oslo"})]`, mappings, or `Call` parts."""
        parts = reply_content.answer_parts(text, calls, reasoning=reasoning)
        return cls.parts(parts, usage=usage, protocol=protocol, stream=stream)

    @classmethod
    def parts(
        cls,
        parts: Sequence[AnyPart],
        *,
        usage: UsageLike | None = None,
        finish: Reason | None = None,
        protocol: str = "",
        stream: bool | None = None,
    ) -> Reply:
        """Returns any parts of `penstock.request` as an answer, for example reasoning with its signature."""
        events = reply_content.turn_events(parts, usage=usage, finish=finish)
        return cls(events=events, protocol=protocol, stream=stream)

    @classmethod
    def tape(cls, path: str | PathLike[str], *, protocol: str = "", speed: float = 0.0) -> Reply:
        """Returns the answer of a recording (docs/recording.md), byte for byte.

        `speed` 1 waits as the provider did, 2 half as long; 0 does not wait. With `protocol` the answer is translated.
        """
        recording = read_recording(Path(path))
        header, data = recording.header, recording.data
        kept = {name.lower(): value for name, value in header.headers.items() if name.lower() not in _DROPPED_HEADERS}
        kind = kept.setdefault("content-type", _detect_type(data))
        if protocol and protocol != header.protocol:
            source = Dialect(header.protocol or guess(data))
            return cls(status=header.status, events=tuple(decode_events(source, data, kind)), protocol=protocol)
        starts = [0.0, *(at for at, _ in recording.chunks)]
        times = tuple(max(now - before, 0.0) / speed for before, now in pairwise(starts)) if speed else ()
        return cls(tuple(chunk for _, chunk in recording.chunks), header.status, kept, times=times)

    @classmethod
    def of(
        cls,
        protocol: str,
        events: Sequence[AnyEvent],
        *,
        stream: bool = True,
        framing: str = "",
        headers: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Returns events as a provider of that protocol sends them; without a protocol, as the request asks."""
        if not protocol:
            return cls(headers=dict(headers or {}), events=tuple(events))
        chunks = encode_events(protocol, events, stream=stream, framing=framing, options=options)
        kind = media_type(protocol, stream=stream, framing=framing)
        return cls(tuple(chunks), headers={"content-type": kind, **(headers or {})})

    @classmethod
    def body(cls, data: bytes | Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """Returns any bytes, or a value as JSON."""
        raw = data if isinstance(data, bytes) else msgspec.json.encode(data)
        return cls((raw,), status, {"content-type": JSON, **(headers or {})})

    @classmethod
    def error(
        cls,
        protocol: str = "",
        status: int = _SERVER,
        message: str = "it failed",
        *,
        kind: FaultKind | None = None,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Returns an error response of the protocol; without a protocol, of the request's."""
        fault_kind = kind or _KINDS.get(status) or ("server" if status >= _SERVER else "invalid")
        fault = Fault(fault_kind, message, status, code)
        if not protocol:
            return cls(status=status, headers=dict(headers or {}), events=(Start(), fault))
        return cls.body(error_body(protocol, fault), status=status, headers=headers)

    @classmethod
    def rate_limit(cls, protocol: str = "", *, retry_after: float | str | None = 1) -> Reply:
        """Returns status 429, with the time to wait if one is given."""
        headers = {} if retry_after is None else {"retry-after": f"{retry_after}"}
        return cls.error(protocol, 429, "slow down", headers=headers)

    @classmethod
    def no_response(cls) -> Reply:
        """Drops the connection without an answer."""
        return cls(head=False)

    def disconnect(self, after: float = 0) -> Reply:
        """Drops the connection after so many bytes of the body; a float from 0 to 1 is a share of it."""
        return replace(self, failure="cut", after=after)

    def stall(self, after: float = 0) -> Reply:
        """Sends nothing after so many bytes, or that share of the body, and keeps the connection open."""
        return replace(self, failure="stall", after=after)

    def garbage(self, after: float = 0, noise: bytes = b"\xff\xfe{]\x00 not what you think\n\n") -> Reply:
        """Inserts noise into the body."""
        return replace(self, failure="garbage", after=after, noise=noise)

    def slow(self, pace: float = 0.01, size: int = 0) -> Reply:
        """Waits between chunks. `size` divides the body first: `size=1` sends a byte at a time."""
        return replace(self, pace=pace, size=size or self.size, times=())

    def delayed(self, wait: float) -> Reply:
        """Waits before the head is sent."""
        return replace(self, wait=wait)

    def with_headers(self, **headers: str) -> Reply:
        """Adds headers; an underscore stands for a dash."""
        added = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **added})

    def encode_for(self, dialect: Dialect, model: str = "") -> Reply:
        """Returns the reply with its bytes, in the protocol of a request."""
        if not self.events:
            return self
        protocol = self.protocol or dialect.protocol
        stream = dialect.stream if self.stream is None else self.stream
        framing = dialect.framing if stream and protocol == dialect.protocol else ""
        last = self.events[-1]
        if isinstance(last, Fault) and self.status != 200:  # noqa: PLR2004
            chunks, kind = [error_body(protocol, last)], JSON
        else:
            events = reply_content.with_model(self.events, model)
            chunks = encode_events(protocol, events, stream=stream, framing=framing)
            kind = media_type(protocol, stream=stream, framing=framing)
        return replace(self, chunks=tuple(chunks), headers={"content-type": kind, **self.headers}, events=())

    @property
    def data(self) -> bytes:
        """All of the body without the failure."""
        if self.events:
            raise InputError("this reply has no bytes yet: it is written in the protocol of the request (`encode_for`)")
        return b"".join(self.chunks)

    def steps(self) -> Iterator[Step]:
        """Yields what is sent and what happens, in order."""
        data = self.data
        failure_at = self._failure_position(len(data))
        sent = 0
        chunks = split_at(data, *range(0, len(data), self.size)) if self.size else self.chunks
        for number, chunk in enumerate(chunks):
            pause = self.times[number] if self.times else self.pace if number else 0
            if pause:
                yield pause
            if self.failure and sent <= failure_at < sent + len(chunk):
                yield chunk[: failure_at - sent]
                yield self._failure_step()
                chunk = chunk[failure_at - sent :]  # noqa: PLW2901 — the rest of it
                sent = failure_at
            yield chunk
            sent += len(chunk)
        if self.failure and failure_at >= len(data):
            yield self._failure_step()

    def _failure_position(self, size: int) -> int:
        if not self.failure:
            return size
        after = int(size * self.after) if isinstance(self.after, float) else self.after
        return max(size + after, 0) if after < 0 else min(after, size)

    def _failure_step(self) -> Step:
        return self.failure if self.failure in ("cut", "stall") else self.noise


def _detect_type(data: bytes) -> str:
    """Returns the content type of an answer by its bytes."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MEDIA_TYPES[detect_framing(data) or "ndjson"]
    return JSON


def split_at(data: bytes, *positions: int) -> list[bytes]:
    """Divides data into chunks at these positions."""
    bounds = [0, *sorted(position for position in set(positions) if 0 < position < len(data)), len(data)]
    return [data[first:last] for first, last in pairwise(bounds)] if data else []


def iterate_splits(data: bytes, count: int = 10, *, seed: int = 0) -> Iterator[list[bytes]]:
    """Yields the data as one chunk, byte by byte, in halves, then `count` times at random (always the same)."""
    yield split_at(data)
    yield split_at(data, *range(1, len(data)))
    yield split_at(data, len(data) // 2)
    dice = random.Random(seed)  # noqa: S311 — no secrets: positions of chunks
    for _ in range(count):
        yield split_at(data, *(dice.randrange(1, max(len(data), 2)) for _ in range(dice.randrange(1, 20))))
