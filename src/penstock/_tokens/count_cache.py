"""Caches counts by digests of the content, and reads the count of a prompt from a turn's usage.

A count is two numbers before any correction: tokens, and by how many they may be wrong. The most recent counts are in
memory, all of them in a store if there is one. A digest covers the whole content: arguments, results, files. Only cache
marks are left out, because they move along a conversation and cost nothing.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from penstock._fold import StreamUsage
from penstock._input_limits import MAX_COUNT, NestingError, decode_bounded
from penstock._lenient_json import as_json
from penstock._tokens.bpe import check_tokens
from penstock._tokens.hidden_additions import asks_to_think, list_uncounted_fields, read_endpoint
from penstock.errors import InputError
from penstock.events import Extra, Usage
from penstock.request import Call, Message, Request, Result, Text, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.stores import CountStore

Count: TypeAlias = tuple[float, float]
SIZE = 16  # bytes of a digest
_MAX_LOOKED_UP = 10_000  # more counts at once are neither read from the store nor written to it
_LONG_TEXT = 2**20  # characters
_PAIR = struct.Struct("<dd")
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode


class CountCache:
    """Keeps the most recently used counts in memory; reads and writes the others in the store.

    Threads may share it without a lock: each step is one atomic operation on a dict. A row that another thread removed
    in between is counted again. `prefix` separates the keys in the store from those of other caches.
    """

    def __init__(self, store: CountStore | None = None, tenant: str = "", rows: int = 50_000, prefix: str = "") -> None:
        self._rows: OrderedDict[bytes, Count] = OrderedDict()
        self._store = store
        self._tenant = tenant
        self._max_rows = rows
        self._prefix = prefix
        self.counted: int = 0  # how often `count` was called

    def __len__(self) -> int:
        return len(self._rows)

    def in_memory(self) -> CountCache:
        """Returns a cache with the same rows in memory, and without a store."""
        made = CountCache(None, self._tenant, self._max_rows, self._prefix)
        made._rows = self._rows
        return made

    def get_or_count(self, keys: Sequence[bytes], count: Callable[[int], Count]) -> list[Count]:
        """Returns the counts of these keys; calls `count` with the position of every unknown key."""
        rows = self._rows
        try:
            found = [rows[key] for key in keys]
        except KeyError:
            found = self._count_missing(keys, count)
        for key in keys:
            with suppress(KeyError):  # the row was removed in between
                rows.move_to_end(key)
        return found

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Count]:
        """Returns the known counts of these keys."""
        memory = self._rows
        found = {key: row for key in keys if (row := memory.get(key)) is not None}
        missing = [key for key in keys if key not in found]
        if missing and self._store is not None and len(missing) <= _MAX_LOOKED_UP:
            names = {self._prefix + key.hex(): key for key in missing}
            rows = self._store.get(self._tenant, names)
            found |= {names[name]: count for name, row in rows.items() if (count := _read_count(row)) is not None}
        return found

    def add(self, rows: Mapping[bytes, Count]) -> None:
        self._add_to_memory(rows)
        if self._store is not None and len(rows) <= _MAX_LOOKED_UP:
            self._store.put(self._tenant, {self._prefix + key.hex(): _PAIR.pack(*count) for key, count in rows.items()})

    def clear(self) -> None:
        """Forgets the counts in memory, not those in the store."""
        self._rows.clear()

    def _count_missing(self, keys: Sequence[bytes], count: Callable[[int], Count]) -> list[Count]:
        known = self.get(keys)
        new: dict[bytes, Count] = {}
        for position, key in enumerate(keys):
            if key not in known:
                known[key] = new[key] = count(position)
                self.counted += 1
        self._add_to_memory({key: row for key, row in known.items() if key not in new})
        if new:
            self.add(new)
        return [known[key] for key in keys]

    def _add_to_memory(self, rows: Mapping[bytes, Count]) -> None:
        memory = self._rows
        memory.update(rows)
        with suppress(KeyError):  # another thread removed the last one
            for key in rows:
                memory.move_to_end(key)
            while len(memory) > self._max_rows:
                memory.popitem(last=False)


def _read_count(row: bytes) -> Count | None:
    """Returns the count of a stored row; None for a row that holds none."""
    try:
        tokens, error = _PAIR.unpack(row)
    except (struct.error, TypeError):
        return None
    return (tokens, error) if 0 <= tokens <= MAX_COUNT and 0 <= error <= MAX_COUNT else None


def sum_counts(counts: Iterable[Count]) -> Count:
    """Returns the sum of counts, and of their errors."""
    tokens = error = 0.0
    for amount, possible_error in counts:
        tokens += amount
        error += possible_error
    return tokens, error


# ── digests ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_stable(value: Any, encode: Callable[[Any], bytes] = _encode) -> bytes:
    """Encodes a value; equal values have equal bytes."""
    try:
        return encode(value)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON cannot contain
        return as_json(msgspec.to_builtins(value)).encode()


def digest_bytes(data: bytes, key: bytes = b"") -> bytes:
    """Returns the digest of some bytes; `key` separates digests of different kinds."""
    hashed = blake2b(data, key=key, digest_size=SIZE) if key else blake2b(data, digest_size=SIZE)
    return hashed.digest()


def digest_message(message: Message) -> bytes:
    """Returns the digest of a message's content: the same in every form that a protocol has for it."""
    parts = message.parts
    if message.extra or not all(map(_is_plain, parts)):
        parts = [_without_long_text(_without_marks(part)) for part in parts]
        message = msgspec.structs.replace(message, parts=parts, extra=_without_form(message.extra))
    return digest_bytes(encode_stable(message))


def _is_plain(part: Any) -> bool:
    """True if the digest of the part is that of its whole content."""
    kind = type(part)  # pyright: ignore[reportUnknownVariableType]
    if kind is Text:
        return not (part.cache or part.extra or part.item or len(part.text) > _LONG_TEXT)
    if kind is Result:
        return not (part.cache or part.extra) and all(map(_is_plain, part.content))
    return not (part.cache or getattr(part, "extra", None) or (kind is Call and part.item))


def _without_long_text(part: Any) -> Any:
    """Returns a part with the digest of its text in place of a long one, so that it is not copied as a whole."""
    if type(part) is not Text or len(part.text) <= _LONG_TEXT:
        return part
    digest = blake2b(digest_size=SIZE)
    for start in range(0, len(part.text), _LONG_TEXT):
        digest.update(part.text[start : start + _LONG_TEXT].encode("utf-8", "surrogatepass"))
    return msgspec.structs.replace(part, text=digest.hexdigest())


def _has_item(part: Any) -> bool:
    """True if the provider gave the part an id. Reasoning may be only that id."""
    return isinstance(part, Call | Text) and bool(part.item)


def _without_marks(part: Any) -> Any:
    """Returns a part without cache marks and without the form that it was written in."""
    marks: dict[str, Any] = {"cache": ""} if part.cache else {}
    if getattr(part, "extra", None):
        marks["extra"] = _without_form(part.extra)
    if _has_item(part):
        marks["item"] = ""
    if type(part) is Result and not all(map(_is_plain, part.content)):
        marks["content"] = [_without_long_text(_without_marks(one)) for one in part.content]
    return msgspec.structs.replace(part, **marks) if marks else part


def _without_form(extra: Extra | None) -> Extra | None:
    """Returns what is opaque data. Under `_` readers keep how a body was written: as a text, or as a list of texts."""
    if not extra:
        return None
    found = {name: {key: fields[key] for key in fields if key != "_"} for name, fields in extra.items()}
    return {name: fields for name, fields in found.items() if fields} or None


def digest_frame(request: Request, name: str) -> bytes:
    """Returns the digest of the model's name and of everything around the messages that may change the count."""
    tools = [msgspec.structs.replace(tool, cache="", extra=_without_form(tool.extra)) for tool in request.tools]
    hidden = (asks_to_think(request), read_endpoint(request))
    frame = encode_stable((name, tools, request.choice, request.settings.format, hidden), _encode_sorted)
    fields = list_uncounted_fields(request)
    return digest_bytes(frame + encode_stable(fields, _encode_sorted) if fields else frame)


def digest_prefixes(frame: bytes, messages: Sequence[bytes]) -> list[bytes]:
    """Returns a digest for every prefix of a conversation; the empty one is the frame's."""
    prefixes = [frame]
    for message in messages:
        frame = blake2b(frame + message, digest_size=SIZE).digest()
        prefixes.append(frame)
    return prefixes


def digest_request(request: Request, name: str) -> bytes:
    """Returns the digest of a whole prompt."""
    messages = [digest_message(message) for message in request.messages]
    return digest_prefixes(digest_frame(request, name), messages)[-1]


def digest_reply(parts: Iterable[Any]) -> bytes:
    """Returns the digest of a turn's text and calls, to find it in the next request with other ids or spaces."""
    text, calls = "", list[tuple[str, Any]]()
    for part in parts:
        if isinstance(part, Text):
            text += part.text
        elif isinstance(part, Call):
            calls.append((part.name, _parse(part.json)))
    return digest_bytes(encode_stable((text.strip(), calls)))


def _parse(text: str) -> Any:
    try:
        return decode_bounded(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, NestingError):
        return text


# ── usage of a turn ───────────────────────────────────────────────────────────────────────────────────────────────────


class TurnOutcome(NamedTuple):
    """The counts of a turn: of its prompt, and of itself as part of the next prompt.

    `output` excludes reasoning, which is seldom sent back. `ran_tools`: the provider ran tools, so `input` is not the
    prompt's. `steps`: `input` has what earlier steps added, so the turn does not correct the factor.
    """

    input: int | None
    output: int | None = None
    reasoning: int = 0
    reply: bytes | None = None
    ran_tools: bool = False
    steps: bool = False


def read_outcome(seen: Turn | Usage | int) -> TurnOutcome:
    """Reads a provider's report. Of several steps the last input counts, because a sum repeats the prompt."""
    if isinstance(seen, int) and not isinstance(seen, bool):
        return TurnOutcome(check_tokens("seen", seen))
    if isinstance(seen, StreamUsage):
        return read_outcome(seen.turn) if seen.turn is not None else TurnOutcome(None)
    if isinstance(seen, Usage):
        return TurnOutcome(_possible(seen.input) if seen.exact and not seen.summed else None)
    if not isinstance(seen, Turn):
        raise InputError(
            f"seen: expected a turn, its usage, or the prompt's tokens as a whole number, found {type(seen).__name__}"
        )
    usage = seen.usage
    if usage is None or not usage.exact or seen.fault is not None:
        return TurnOutcome(None)
    last = seen.steps[-1] if seen.steps else usage
    parts = [part for part in seen.parts if not getattr(part, "choice", 0)]
    # The output of several choices is a sum. One of them is sent back, and nobody says what it had.
    output = _without_reasoning(last) if len(parts) == len(seen.parts) else None
    ran_tools = any(isinstance(part, Call | Result) and part.by == "provider" for part in parts)
    steps = len(seen.steps) > 1 or last.step > 1  # some protocols report only the last step and the sum
    return TurnOutcome(_possible(last.input), output, last.reasoning or 0, digest_reply(parts), ran_tools, steps)


def _possible(tokens: int | None) -> int | None:
    """Returns the tokens of a prompt as reported; None if no prompt can have so many, or so few."""
    return tokens if tokens is not None and 1 <= tokens <= MAX_COUNT else None


def _without_reasoning(usage: Usage) -> int | None:
    """Returns the output without reasoning. Some gateways report less output than reasoning: they count it apart."""
    if usage.output is None or usage.reasoning is None or usage.reasoning > usage.output:
        return usage.output
    return usage.output - usage.reasoning
