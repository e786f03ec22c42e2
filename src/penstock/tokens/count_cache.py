"""Counts by content: the most recent in memory, all of them in a store if there is one.

A count is two numbers, tokens and how far they may be off, before any correction is applied. Leans on a `CountStore`.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from penstock.events import Usage
from penstock.fold import StreamUsage
from penstock.input_limits import NestingError, decode_bounded
from penstock.jsontext import as_json
from penstock.request import Call, Message, Request, Result, Text, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.stores import CountStore

Count: TypeAlias = tuple[float, float]
ROWS = 50_000
_PAIR = struct.Struct("<dd")


class Shelf:
    """The least recently used are forgotten first."""

    def __init__(self, store: CountStore | None = None, tenant: str = "", rows: int = ROWS) -> None:
        self._rows: OrderedDict[bytes, Count] = OrderedDict()
        self._store = store
        self._tenant = tenant
        self._most = rows
        self.counted = 0  # how often something had to be counted

    def __len__(self) -> int:
        return len(self._rows)

    def all(self, keys: Sequence[bytes], count: Callable[[int], Count]) -> list[Count]:
        """The counts under these keys; `count` is asked, by place, for those that nobody knows."""
        rows = self._rows
        try:
            found = [rows[key] for key in keys]
        except KeyError:
            found = self._filled(keys, count)
        for key in keys:
            if key in rows:
                rows.move_to_end(key)
        return found

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Count]:
        """What is known under these keys, without counting."""
        found = {key: self._rows[key] for key in keys if key in self._rows}
        missing = [key for key in keys if key not in found]
        if missing and self._store is not None:
            found |= self._stored(missing)
        return found

    def put(self, rows: Mapping[bytes, Count]) -> None:
        self._rows.update(rows)
        for key in rows:
            self._rows.move_to_end(key)
        self._trim()
        if self._store is not None:
            self._store.put(self._tenant, {key.hex(): _PAIR.pack(*count) for key, count in rows.items()})

    def clear(self) -> None:
        """Forget what is in memory; the store keeps its own."""
        self._rows.clear()

    def _filled(self, keys: Sequence[bytes], count: Callable[[int], Count]) -> list[Count]:
        known = self.get(keys)
        fresh: dict[bytes, Count] = {}
        for place, key in enumerate(keys):
            if key not in known:
                known[key] = fresh[key] = count(place)
                self.counted += 1
        self._rows.update(known)
        if fresh:
            self.put(fresh)
        return [known[key] for key in keys]

    def _stored(self, keys: Sequence[bytes]) -> dict[bytes, Count]:
        if self._store is None:
            return {}
        rows = self._store.get(self._tenant, [key.hex() for key in keys])
        return {bytes.fromhex(key): _PAIR.unpack(row) for key, row in rows.items() if len(row) == _PAIR.size}

    def _trim(self) -> None:
        while len(self._rows) > self._most:
            self._rows.popitem(last=False)


SIZE = 16
_encode = msgspec.json.Encoder().encode


def packed(value: Any) -> bytes:
    """Any value of ours as bytes, the same for the same."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON cannot hold
        return as_json(msgspec.to_builtins(value)).encode()


def digest(message: Message) -> bytes:
    """The content of a message."""
    for part in message.parts:
        if part.cache:
            parts = [msgspec.structs.replace(one, cache="") for one in message.parts]
            return blake2b(packed(msgspec.structs.replace(message, parts=parts)), digest_size=SIZE).digest()
    return blake2b(packed(message), digest_size=SIZE).digest()


def frame_digest(request: Request, name: str) -> bytes:
    """What stands around the messages, and who is asked."""
    tools: Iterable[Any] = request.tools
    if any(tool.cache for tool in request.tools):
        tools = [msgspec.structs.replace(tool, cache="") for tool in request.tools]
    around = (name, list(tools), request.choice, request.settings.format)
    return blake2b(packed(around), digest_size=SIZE).digest()


def chain(first: bytes, digests: Sequence[bytes]) -> list[bytes]:
    """A name for every beginning of a conversation, the empty one first."""
    names = [first]
    for one in digests:
        first = blake2b(first + one, digest_size=SIZE).digest()
        names.append(first)
    return names


def said(parts: Iterable[Any]) -> bytes:
    """What a turn said, so that it is known again in the next request, whatever ids and spaces it comes back with."""
    text, calls = "", list[tuple[str, Any]]()
    for part in parts:
        if isinstance(part, Text):
            text += part.text
        elif isinstance(part, Call):
            calls.append((part.name, _value(part.json)))
    return blake2b(packed((text.strip(), calls)), digest_size=SIZE).digest()


def _value(text: str) -> Any:
    try:
        return decode_bounded(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, NestingError):
        return text


class Outcome(NamedTuple):
    """`inside`: the provider ran tools, and its figure is not that of the prompt. `steps`: the figure holds what
    earlier steps added. `output` is without reasoning.
    """

    input: int | None
    output: int | None = None
    reasoning: int = 0
    reply: bytes | None = None
    inside: bool = False
    steps: bool = False


def outcome(seen: Turn | Usage | int) -> Outcome:
    """What there is to be learned from what a provider reported."""
    if isinstance(seen, int):
        return Outcome(seen)
    if isinstance(seen, StreamUsage):
        return outcome(seen.turn) if seen.turn is not None else Outcome(None)
    if isinstance(seen, Usage):
        return Outcome(seen.input if seen.exact else None)
    usage = seen.usage
    if usage is None or not usage.exact or seen.fault is not None:
        return Outcome(None)
    last = seen.steps[-1] if seen.steps else usage
    parts = [part for part in seen.parts if not getattr(part, "choice", 0)]
    output = None if last.output is None else last.output - (last.reasoning or 0)
    return Outcome(last.input, output, last.reasoning or 0, said(parts), _inside(parts), len(seen.steps) > 1)


def _inside(parts: Iterable[Any]) -> bool:
    return any(isinstance(part, Call | Result) and part.by == "provider" for part in parts)
