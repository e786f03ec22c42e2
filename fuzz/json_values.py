"""Changes JSON values at random: single values, keys, types, numbers, strings, depth.

Values come from a list of awkward ones and from a pool of what the seeds hold under the same key, so that many changed
inputs are still understood. What JSON libraries refuse to write (1e999, half a character, deep nesting) stands in a
value as a marker and is put into the bytes afterwards.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, -(2**63), 1.5, -0.0, 1e308, "", " ", "x", "0", "-1", "null", "{", "[DONE]",
    "\x00", "\n\n", "data: x", "é漢🌊", "</think>", "<think>", "a" * 3000, [], {}, [[]], [None], [{}], [""], {"": ""},
    {"type": "text"}, {"type": "text", "text": "x"}, {"text": None}, {"x": [1]}, ["a", 1, None, {}],
)  # fmt: skip
RAW: tuple[bytes, ...] = (
    b"1e999", b"-1e999", b"1e-999", b"123456789012345678901234567890", b"-0", b"0.1e1", b'"\\ud800"', b'"\\udc00x"',
    b'"\\ud83d\\ude00"', b'"\\u0000"', b'{"a":1,"a":2}', b"NaN", b"Infinity", b'"\xff"', b"'x'", b"", b"[" * 40 + b"]" * 40,
    b'{"a":' * 40 + b"1" + b"}" * 40,
)  # fmt: skip
DEEP: tuple[bytes, ...] = tuple(
    token
    for depth in (200, 255, 257, 300, 1100)
    for token in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b'"%b"' % (b"[" * depth))
)
_MARKER = re.compile(rb'"@raw(\d{1,4})@"')
_TOKENS = (*RAW, *DEEP)
_PIECES = ("", " ", "\n", '"', "\\", "{", "}", "[1](", "<think>", "</", "\ufeff", "\u2028", "é", "🌊", "\x7f", "0", "-")
_LARGEST_POOL = 200


class ValuePool:
    """What the seeds hold: values by key, keys, strings."""

    def __init__(self) -> None:
        self.by_key: dict[str, list[Any]] = defaultdict(list)
        self.keys: list[str] = ["type", "id", "index", "text", "content"]
        self.strings: list[str] = ["x"]

    def add(self, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                self._add(key, inner)
                self.add(inner)
        elif isinstance(value, list):
            for inner in value:
                self.add(inner)

    def _add(self, key: str, value: Any) -> None:
        known = self.by_key[key]
        if not known:
            self.keys.append(key)
        if len(known) < _LARGEST_POOL and value not in known:
            known.append(value)
            if isinstance(value, str) and len(value) < _LARGEST_POOL:
                self.strings.append(value)

    @classmethod
    def of(cls, values: Iterable[Any]) -> ValuePool:
        made = cls()
        for value in values:
            made.add(value)
        return made


def parse(data: bytes) -> Any:
    """The value of some JSON; None where it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def dump(value: Any) -> bytes:
    """The value as JSON, with its markers replaced."""
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        data = json.dumps(value).encode()
    return _MARKER.sub(lambda found: _TOKENS[int(found[1]) % len(_TOKENS)], data) if b'"@raw' in data else data


def mutate(rng: random.Random, root: Any, pool: ValuePool) -> Any:
    """The value with one change. It is changed in place, except at its root."""
    top: list[Any] = [root]
    holder: Any = top
    key: Any = 0
    while True:
        node = holder[key]
        if not isinstance(node, dict | list) or not node or rng.random() < 0.12:
            break
        holder, key = node, rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
    rng.choice(_CHANGES)(rng, holder, key, pool)
    return top[0] if top else None


def _copy(value: Any) -> Any:
    """A value of its own: one that stands in two places would be changed in both, or come to hold itself."""
    return deepcopy(value) if isinstance(value, dict | list) else value


# ── the changes: each gets a list or an object, and a key of it ───────────────────────────────────


def _replace(rng: random.Random, holder: Any, key: Any, _: ValuePool) -> None:
    holder[key] = _copy(rng.choice(VALUES))


def _replace_from_pool(rng: random.Random, holder: Any, key: Any, pool: ValuePool) -> None:
    known = pool.by_key.get(key) if isinstance(key, str) else None
    holder[key] = _copy(rng.choice(known or [rng.choice(pool.strings)]))


def _replace_raw(rng: random.Random, holder: Any, key: Any, _: ValuePool) -> None:
    number = rng.randrange(len(RAW)) if rng.random() < 0.9 else rng.randrange(len(RAW), len(_TOKENS))
    holder[key] = f"@raw{number}@"


def _delete(_: random.Random, holder: Any, key: Any, __: ValuePool) -> None:
    del holder[key]


def _insert(rng: random.Random, holder: Any, _: Any, pool: ValuePool) -> None:
    key = rng.choice(pool.keys)
    value = _copy(rng.choice(pool.by_key.get(key) or VALUES))
    if isinstance(holder, dict):
        holder[key] = value
    else:
        holder.insert(rng.randrange(len(holder) + 1), value if rng.random() < 0.5 else {key: value})


def _repeat(rng: random.Random, holder: Any, key: Any, pool: ValuePool) -> None:
    if isinstance(holder, list):
        holder[key:key] = [_copy(holder[key]) for _ in range(rng.choice((1, 1, 2, 20)))]
    else:
        holder[rng.choice(pool.keys)] = _copy(holder[key])


def _move(rng: random.Random, holder: Any, key: Any, pool: ValuePool) -> None:
    value = holder.pop(key)
    if isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), value)
    else:
        holder[rng.choice(pool.keys)] = value


def _wrap(rng: random.Random, holder: Any, key: Any, pool: ValuePool) -> None:
    value = holder[key]
    holder[key] = [value] if rng.random() < 0.5 else {rng.choice(pool.keys): value}


def _change_leaf(rng: random.Random, holder: Any, key: Any, pool: ValuePool) -> None:
    value = holder[key]
    if isinstance(value, str):
        holder[key] = mutate_text(rng, value, pool)
    elif isinstance(value, bool) or value is None:
        holder[key] = rng.choice((True, False, None, 0, ""))
    elif isinstance(value, int | float):
        holder[key] = rng.choice((value + 1, value - 1, -value, value * 1000, str(value), 0))
    else:
        holder[key] = _copy(rng.choice(VALUES))


def mutate_text(rng: random.Random, text: str, pool: ValuePool) -> str:
    """The text with something cut off, put in, doubled or exchanged."""
    at = rng.randrange(len(text) + 1)
    return rng.choice((
        text[:at], text[at:], text[:at] + rng.choice(_PIECES) + text[at:], text[:at] + rng.choice(pool.strings) + text[at:],
        text + text, text.swapcase(), rng.choice(pool.strings), text[:at] + chr(rng.randrange(0xD7FF)) + text[at + 1 :],
    ))  # fmt: skip


_CHANGES: tuple[Callable[[random.Random, Any, Any, ValuePool], None], ...] = (
    _replace, _replace, _replace_from_pool, _replace_from_pool, _replace_from_pool, _replace_raw, _delete, _insert, _insert,
    _repeat, _move, _wrap, _change_leaf, _change_leaf, _change_leaf,
)  # fmt: skip
