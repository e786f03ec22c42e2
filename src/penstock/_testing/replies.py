"""The replies of a scripted upstream: a head, chunks, and at most one failure.

Reply.of("anthropic", events)                            a stream without a failure
Reply.of("openai-chat", events).disconnect(after=40)     the connection is dropped after 40 bytes of the body
Reply.rate_limit("openai-chat", retry_after=2)           429
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._replay.wire_encoding import JSON, encode_events, error_body, media_type
from penstock.events import AnyEvent, Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# A step of a reply: send bytes, wait seconds, `stall` (wait until the client leaves), `cut` (drop the connection).
Step: TypeAlias = bytes | float | Literal["stall", "cut"]
_KINDS: dict[int, FaultKind] = {
    401: "auth",
    402: "quota",
    403: "permission",
    404: "not-found",
    429: "rate-limit",
    529: "overloaded",
}
_SERVER = 500


class Reply(msgspec.Struct, frozen=True):
    """One answer. `of`, `body`, `error`, `rate_limit` and `no_response` create it; `disconnect`, `stall` … spoil it."""

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    headers: dict[str, str] = {}
    wait: float = 0  # seconds before the head
    pace: float = 0  # seconds between chunks
    failure: Literal["", "cut", "stall", "garbage"] = ""
    after: int = 0  # bytes of the body before the failure; less than 0: counted from its end
    noise: bytes = b""
    head: bool = True  # False: the connection is dropped as soon as the request is received

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
        """Returns events as a provider of that protocol sends them."""
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
        protocol: str,
        status: int = _SERVER,
        message: str = "it failed",
        *,
        kind: FaultKind | None = None,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Returns an error response of the protocol."""
        fault_kind = kind or _KINDS.get(status) or ("server" if status >= _SERVER else "invalid")
        return cls.body(error_body(protocol, Fault(fault_kind, message, status, code)), status=status, headers=headers)

    @classmethod
    def rate_limit(cls, protocol: str, *, retry_after: float | str | None = 1) -> Reply:
        """Returns status 429, with the time to wait if one is given."""
        headers = {} if retry_after is None else {"retry-after": f"{retry_after}"}
        return cls.error(protocol, 429, "slow down", headers=headers)

    @classmethod
    def no_response(cls) -> Reply:
        """Drops the connection without an answer."""
        return cls(head=False)

    def disconnect(self, after: int = 0) -> Reply:
        """Drops the connection after so many bytes of the body."""
        return replace(self, failure="cut", after=after)

    def stall(self, after: int = 0) -> Reply:
        """Sends nothing after so many bytes, and keeps the connection open."""
        return replace(self, failure="stall", after=after)

    def garbage(self, after: int = 0, noise: bytes = b"\xff\xfe{]\x00 not what you think\n\n") -> Reply:
        """Inserts noise into the body."""
        return replace(self, failure="garbage", after=after, noise=noise)

    def slow(self, pace: float = 0.01, size: int = 0) -> Reply:
        """Waits between chunks. `size` divides the body first: `size=1` sends a byte at a time."""
        chunks = tuple(split_at(self.data, *range(0, len(self.data), size))) if size else self.chunks
        return replace(self, chunks=chunks, pace=pace)

    def delayed(self, wait: float) -> Reply:
        """Waits before the head is sent."""
        return replace(self, wait=wait)

    def with_headers(self, **headers: str) -> Reply:
        """Adds headers; an underscore stands for a dash."""
        added = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **added})

    @property
    def data(self) -> bytes:
        """All of the body without the failure."""
        return b"".join(self.chunks)

    def steps(self) -> Iterator[Step]:
        """Yields what is sent and what happens, in order."""
        size = len(self.data)
        failure_at = (max(size + self.after, 0) if self.after < 0 else min(self.after, size)) if self.failure else size
        sent = 0
        for number, chunk in enumerate(self.chunks):
            if number and self.pace:
                yield self.pace
            if self.failure and sent <= failure_at < sent + len(chunk):
                yield chunk[: failure_at - sent]
                yield self._failure_step()
                chunk = chunk[failure_at - sent :]  # noqa: PLW2901 — the rest of it
                sent = failure_at
            yield chunk
            sent += len(chunk)
        if self.failure and failure_at >= size:
            yield self._failure_step()

    def _failure_step(self) -> Step:
        return self.failure if self.failure in ("cut", "stall") else self.noise


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
