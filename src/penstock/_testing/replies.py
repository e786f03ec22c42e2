"""What a scripted upstream answers: a head, chunks, and the one thing that goes wrong with them.

Reply.of("anthropic", events)                     a stream as it should be
Reply.of("openai-chat", events).cut(after=40)     the connection is gone after 40 bytes of it
Reply.limited("openai-chat", retry_after=2)       429
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._testing.wire_encoding import JSON, encode_events, error_body, media_type
from penstock.events import AnyEvent, Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# What happens: bytes are sent, seconds are waited, `stall` waits for the other side to leave, `cut` drops it.
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
    """One answer. Made by `of`, `body`, `refusing`, `limited`, `nothing`; spoilt by `cut`, `stall`, `garbage` …"""

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    headers: dict[str, str] = {}
    wait: float = 0  # seconds before the head
    pace: float = 0  # seconds between chunks
    trouble: Literal["", "cut", "stall", "garbage"] = ""
    after: int = 0  # bytes of the body before the trouble; less than 0: counted from its end
    noise: bytes = b""
    head: bool = True  # without one the connection is dropped as soon as the request is in

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
        """Events as a provider of that protocol would send them."""
        chunks = encode_events(protocol, events, stream=stream, framing=framing, options=options)
        kind = media_type(protocol, stream=stream, framing=framing)
        return cls(tuple(chunks), headers={"content-type": kind, **(headers or {})})

    @classmethod
    def body(cls, data: bytes | Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """Any bytes, or a value as JSON."""
        raw = data if isinstance(data, bytes) else msgspec.json.encode(data)
        return cls((raw,), status, {"content-type": JSON, **(headers or {})})

    @classmethod
    def refusing(
        cls,
        protocol: str,
        status: int = _SERVER,
        message: str = "it failed",
        *,
        kind: FaultKind | None = None,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """A refusal in the protocol's own words."""
        sort = kind or _KINDS.get(status) or ("server" if status >= _SERVER else "invalid")
        return cls.body(error_body(protocol, Fault(sort, message, status, code)), status=status, headers=headers)

    @classmethod
    def limited(cls, protocol: str, *, retry_after: float | str | None = 1) -> Reply:
        """429, with the time to wait where one is given."""
        more = {} if retry_after is None else {"retry-after": f"{retry_after}"}
        return cls.refusing(protocol, 429, "slow down", headers=more)

    @classmethod
    def nothing(cls) -> Reply:
        """The connection is dropped without an answer."""
        return cls(head=False)

    def cut(self, after: int = 0) -> Reply:
        """Drop the connection after so many bytes of the body."""
        return replace(self, trouble="cut", after=after)

    def stall(self, after: int = 0) -> Reply:
        """Say no more after so many bytes, and keep the connection."""
        return replace(self, trouble="stall", after=after)

    def garbage(self, after: int = 0, noise: bytes = b"\xff\xfe{]\x00 not what you think\n\n") -> Reply:
        """Put noise among the bytes."""
        return replace(self, trouble="garbage", after=after, noise=noise)

    def slow(self, pace: float = 0.01, size: int = 0) -> Reply:
        """A pause between chunks, which may be made small first: `size=1` is a byte at a time."""
        cut = tuple(self.data[at : at + size] for at in range(0, len(self.data), size)) if size else self.chunks
        return replace(self, chunks=cut, pace=pace)

    def late(self, wait: float) -> Reply:
        """Let the head wait."""
        return replace(self, wait=wait)

    def having(self, **headers: str) -> Reply:
        """More headers; an underscore stands for a dash."""
        made = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **made})

    @property
    def data(self) -> bytes:
        """All of the body, if nothing goes wrong."""
        return b"".join(self.chunks)

    def steps(self) -> Iterator[Step]:
        """What is sent and what happens, in order."""
        size = len(self.data)
        place = (max(size + self.after, 0) if self.after < 0 else min(self.after, size)) if self.trouble else size
        done = 0
        for number, chunk in enumerate(self.chunks):
            if number and self.pace:
                yield self.pace
            if self.trouble and done <= place < done + len(chunk):
                yield chunk[: place - done]
                yield from self._trouble()
                chunk = chunk[place - done :]  # noqa: PLW2901 — what is left of it
                done = place
            yield chunk
            done += len(chunk)
        if self.trouble and place >= size:
            yield from self._trouble()

    def _trouble(self) -> Iterator[Step]:
        if self.trouble == "garbage":
            yield self.noise
        elif self.trouble:
            yield self.trouble


def split_at(data: bytes, *places: int) -> list[bytes]:
    """The data in pieces, cut at these places."""
    marks = [0, *sorted(place for place in set(places) if 0 < place < len(data)), len(data)]
    return [data[first:last] for first, last in pairwise(marks)] if data else []


def iterate_splits(data: bytes, count: int = 10, *, seed: int = 0) -> Iterator[list[bytes]]:
    """Ways to cut: whole, byte by byte, in halves, then `count` at random (the same ones for the same seed)."""
    yield split_at(data)
    yield split_at(data, *range(1, len(data)))
    yield split_at(data, len(data) // 2)
    dice = random.Random(seed)  # noqa: S311 — no secrets: the places of cuts
    for _ in range(count):
        yield split_at(data, *(dice.randrange(1, max(len(data), 2)) for _ in range(dice.randrange(1, 20))))
