"""Makes a crashing input smaller, as long as it still crashes in the same way.

Lines are left out first, then members of JSON values, then bytes: what is left should be readable.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from fuzz.json_values import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Crashes = Callable[[bytes], bool]


def minimise(data: bytes, crashes: Crashes, seconds: float) -> bytes:
    """The smallest input that was found in that time."""
    until = time.monotonic() + seconds

    def still(shorter: bytes) -> bool:
        return time.monotonic() < until and crashes(shorter)

    for ending in (b"\n\n", b"\r\n", b"\n"):
        rows = _fewer(data.split(ending), lambda some, ending=ending: still(ending.join(some)))  # type: ignore[misc]
        data = ending.join(rows)
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        lines[number] = _json(line, lambda one, at=number: still(b"\n".join([*lines[:at], one, *lines[at + 1 :]])))  # type: ignore[misc]
    data = b"\n".join(lines)
    if any(parse(line.partition(b"{")[1] + line.partition(b"{")[2]) is not None for line in lines):
        return data  # it is readable as it is
    return bytes(_fewer(list(data), lambda some: still(bytes(some))))


def _fewer(items: list[Any], crashes: Callable[[list[Any]], bool]) -> list[Any]:
    """Leave out ever smaller runs of items."""
    size = max(1, len(items) // 2)
    while size:
        start, smaller = 0, False
        while start < len(items):
            fewer = items[:start] + items[start + size :]
            if crashes(fewer):
                items, smaller = fewer, True
            else:
                start += size
        size = size if smaller and size > 1 else size // 2
    return items


def _json(line: bytes, crashes: Crashes) -> bytes:
    """The JSON in a line, with as few members as it takes."""
    start = line.find(b"{")
    value = parse(line[start:]) if start >= 0 else None
    if value is None:
        return line
    shorter = True
    while shorter:
        shorter = False
        for holder, key in _members(value):
            removed = holder.pop(key)
            made = line[:start] + msgspec.json.encode(value)
            if crashes(made):
                line, shorter = made, True
                break
            _restore(holder, key, removed)
    return line


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member of a value, the outer ones first."""
    waiting = [value]
    while waiting:
        holder = waiting.pop(0)
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
        waiting += [holder[key] for key in keys]


def _restore(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, list):
        holder.insert(key, value)
    else:
        holder[key] = value
