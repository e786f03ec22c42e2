"""Stores state that a client cannot carry (signatures, encrypted reasoning, reasoning) between two turns.

After an answer, `remember` stores the parts before each call under that call, and the parts around a text under that
text. It also stores all of them under a mark, for clients that send marks back. Before the next request, `restore`
inserts them at their positions. State that the client itself sends takes precedence.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._lenient_fields import as_object, get_text
from penstock._messages.foreign_state import ciphertext_of
from penstock._messages.traversal import with_messages
from penstock.events import Extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._diagnostics import Diagnostics
    from penstock.stores import ReasoningStore

_STATE_PARTS = (rq.Reasoning, rq.Opaque)
_FLOAT = re.compile(r"[0-9][.eE]")  # also finds some texts, which costs time only


class StoredState(msgspec.Struct, omit_defaults=True):
    """The state of one call, or of a text without calls: the parts around it, and extra fields of text and call."""

    before: list[rq.Reasoning | rq.Opaque] = []
    between: list[rq.Reasoning | rq.Opaque] = []
    after: list[rq.Reasoning | rq.Opaque] = []
    text: Extra | None = None
    call: Extra | None = None
    origin: str = ""  # the provider whose state it is

    def __bool__(self) -> bool:
        return bool(self.before or self.between or self.after or self.text or self.call)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredState).decode
_decode_marked = msgspec.json.Decoder(dict[str, StoredState]).decode  # by the ids of a turn's calls; its text has none


class TextKey:
    """Hashes a text delta by delta. White space around the text does not count, because clients trim it."""

    __slots__ = ("_hash", "_trailing_space")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._trailing_space: str | None = None  # None before the text begins

    def add(self, delta: str) -> None:
        if self._trailing_space is None:
            delta = delta.lstrip()
            if not delta:
                return
            self._trailing_space = ""
        text = delta.rstrip()
        if text:
            self._hash.update((self._trailing_space + text).encode("utf-8", "surrogatepass"))
            self._trailing_space = delta[len(text) :]
        else:
            self._trailing_space += delta

    @property
    def key(self) -> str:
        return "t:" + self._hash.hexdigest()


def remember(
    turn: rq.Turn, store: ReasoningStore, tenant: str, mark: str = "", text: TextKey | None = None, origin: str = ""
) -> None:
    """Stores what the next request needs of this turn. Names and ids are those of the client, without a prefix.

    `mark` is a unique name of this turn, which the client may send back with its message (the mark `marker`). `text` is
    the key of its text, if the turn does not hold the text. `origin` is the provider: no other gets its state.
    """
    rows = state_rows(turn.parts, mark, text, origin)
    if rows:
        store.put(tenant, rows)


def restore(
    request: rq.Request, store: ReasoningStore, tenant: str, notes: Diagnostics, provider: str = ""
) -> rq.Request:
    """Returns the request with the stored state of its earlier turns, if it is of this provider."""
    keys = state_keys_of(request)
    return restore_state(request, store.get(tenant, keys), notes, provider) if keys else request


# ── storing ───────────────────────────────────────────────────────────────────────────────────────


def state_rows(
    parts: Iterable[rq.AnyPart], mark: str = "", text: TextKey | None = None, origin: str = ""
) -> dict[str, bytes]:
    """Returns the rows to store of a turn's parts, by key."""
    first_choice = [part for part in parts if not getattr(part, "choice", 0)]
    has_calls = any(map(_is_client_call, first_choice))
    found = _rows_by_call(first_choice) if has_calls else _rows_by_text(first_choice, text)
    found = [row for row in found if row[2]]
    for _, _, stored in found:
        stored.origin = origin
    rows = {key: _encode(stored) for key, _, stored in found}
    if mark and rows:
        rows[mark_key(mark)] = _encode({call: stored for _, call, stored in found})
    return {**rows, **encrypted_rows(filter(None, map(ciphertext_of, first_choice)), origin)}


def encrypted_rows(ciphertexts: Iterable[str], origin: str) -> dict[str, bytes]:
    """Returns rows with the provider of each ciphertext, by key."""
    return {encrypted_key(one): _encode(StoredState(origin=origin)) for one in ciphertexts} if origin else {}


def encrypted_key(ciphertext: str) -> str:
    """Returns the key of a ciphertext."""
    return "e:" + _hash(ciphertext)


def origin_of(ciphertext: str, found: Mapping[str, bytes]) -> str:
    """Returns the provider that encrypted it, by the rows that were found; empty if unknown."""
    return _decode_row(found.get(encrypted_key(ciphertext))).origin


def _rows_by_text(parts: list[Any], text: TextKey | None) -> list[tuple[str, str, StoredState]]:
    stored = StoredState()
    for part in parts:
        _collect_state(stored, part)
    stored.after, stored.between = stored.between, []
    return [(text.key if text is not None else text_key(parts), "", stored)]


def _rows_by_call(parts: list[Any]) -> list[tuple[str, str, StoredState]]:
    rows: list[tuple[str, str, StoredState]] = []
    stored = StoredState()
    for part in parts:
        if _is_client_call(part):
            stored.call = part.extra
            rows.append((call_key(part), part.id, stored))
            stored = StoredState()
        else:
            _collect_state(stored, part)
    rows[-1][2].after = [*stored.before, *stored.between]
    return rows


def _collect_state(stored: StoredState, part: rq.AnyPart) -> None:
    if isinstance(part, _STATE_PARTS):
        (stored.before if stored.text is None else stored.between).append(part)
    elif isinstance(part, rq.Text):
        stored.text = part.extra or stored.text or {}


def _is_client_call(part: Any) -> bool:
    return type(part) is rq.Call and part.by == "client" and not part.cut


def call_key(call: rq.Call) -> str:
    """Returns the key of a call: its id, which some providers repeat, and its input in canonical JSON."""
    json = call.json
    if call.form == "json":
        try:
            value = msgspec.json.decode(json or "{}")
            if _FLOAT.search(json):
                value = _normalize_numbers(value)
            json = msgspec.json.encode(value, order="sorted").decode()
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            pass  # hashed as it is
    return "c:" + _hash(call.id, json)


def text_key(parts: Iterable[rq.AnyPart]) -> str:
    """Returns the key of a message without calls: its text."""
    key = TextKey()
    for part in parts:
        if type(part) is rq.Text:
            key.add(part.text)
    return key.key


def mark_key(mark: str) -> str:
    """Returns the key of a turn by its mark."""
    return "m:" + _hash(mark)


def _normalize_numbers(value: Any) -> Any:
    """Returns a JSON value with integers that have no decimal point: JavaScript drops it."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: _normalize_numbers(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _hash(*texts: str) -> str:
    data = b""
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        data += b"%d:%b" % (len(encoded), encoded)
    return blake2b(data, digest_size=16).hexdigest()


# ── restoring ─────────────────────────────────────────────────────────────────────────────────────


def state_keys_of(request: rq.Request) -> list[str]:
    """Returns the keys under which state may be stored for this request."""
    lacking = [message for message in request.messages if _lacks_state(message)]
    keys = [key for message in lacking for key in (*_message_keys(message), *_marker_keys(message))]
    carriers = [
        part
        for message in request.messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, rq.Opaque) or part.extra
    ]
    return [*keys, *(encrypted_key(one) for one in map(ciphertext_of, carriers) if one)]


def _message_keys(message: rq.Message) -> list[str]:
    calls: list[Any] = [part for part in message.parts if _is_client_call(part)]
    return [call_key(call) for call in calls] or [text_key(message.parts)]


def _marker_keys(message: rq.Message) -> list[str]:
    """Returns the keys of the marks of a message. A mark is a model's id, a backslash, and the turn's name."""
    if not message.extra:
        return []
    marks = [as_object(fields.get("_")) for fields in message.extra.values()]
    names = [get_text(mark, "marker").rpartition("\\")[2] for mark in marks]
    return [mark_key(name) for name in names if name]


def _lacks_state(message: rq.Message) -> bool:
    """True for an assistant message without state of the client."""
    return message.role == "assistant" and not any(
        (type(part) is rq.Reasoning and _has_state(part.extra)) or type(part) is rq.Opaque for part in message.parts
    )


def _has_state(extra: Extra | None) -> bool:
    return any(key != "_" and value for own in (extra or {}).values() for key, value in own.items())


def restore_state(
    request: rq.Request, found: Mapping[str, bytes], notes: Diagnostics, provider: str = ""
) -> rq.Request:
    """Returns the request with the state that was found. What another provider encrypted or signed is left out."""
    if not found:
        return request

    def readable(stored: StoredState) -> StoredState:
        if not stored.origin or not provider or stored.origin == provider:
            return stored
        notes.add("state-foreign", f"state of {stored.origin} is not sent to {provider}, which cannot read it")
        return _text_only(stored)

    messages = [
        _restore_message(message, found, readable) if _lacks_state(message) else message for message in request.messages
    ]
    count = sum(new is not old for new, old in zip(messages, request.messages, strict=True))
    if not count:
        return request
    notes.add("state-restored", f"messages that were given back the state their client could not carry: {count}")
    return with_messages(request, messages)


def _text_only(stored: StoredState) -> StoredState:
    """Returns the reasoning texts, without what only their provider can read."""

    def texts(parts: list[rq.Reasoning | rq.Opaque]) -> list[rq.Reasoning | rq.Opaque]:
        return [replace(part, extra=None, item="") for part in parts if type(part) is rq.Reasoning and part.text]

    return StoredState(texts(stored.before), texts(stored.between), texts(stored.after))


def _restore_message(
    message: rq.Message, found: Mapping[str, bytes], readable: Callable[[StoredState], StoredState]
) -> rq.Message:
    keys = iter(_message_keys(message))
    marked = _decode_marker_rows([found[key] for key in _marker_keys(message) if key in found])
    parts: list[Any] = []
    pending: list[Any] = []  # the parts before the next call
    found_any = False
    calls = any(_is_client_call(part) for part in message.parts)
    for part in (*message.parts, None) if not calls else message.parts:
        if part is None or _is_client_call(part):
            key = next(keys)
            stored = readable(marked.get(getattr(part, "id", "")) or _decode_row(found.get(key)))
            found_any = found_any or bool(stored)
            parts += _insert_state(pending, part, stored)
            pending = []
        else:
            pending.append(part)
    return replace(message, parts=[*parts, *pending]) if found_any else message


def _insert_state(parts: list[Any], call: Any, stored: StoredState) -> list[Any]:
    """Returns the parts before a call, the call, and the stored state around them."""
    if any(type(part) is rq.Reasoning for part in (*stored.before, *stored.between)):
        parts = [part for part in parts if type(part) is not rq.Reasoning]  # the client's copy has no state
    if stored.text:
        last = max((position for position, part in enumerate(parts) if type(part) is rq.Text), default=-1)
        parts = [_add_extra(part, stored.text) if position == last else part for position, part in enumerate(parts)]
    if call is None:
        return [*stored.before, *parts, *stored.after]
    call = _add_extra(call, stored.call) if stored.call else call
    return [*stored.before, *parts, *stored.between, call, *stored.after]


def _add_extra(part: Any, extra: Extra) -> Any:
    present: Extra = part.extra or {}
    added = {key: {**present.get(key, {}), **value} for key, value in extra.items()}
    return replace(part, extra={**present, **added})


def _decode_marker_rows(rows: list[bytes]) -> dict[str, StoredState]:
    """Returns the state under a mark. It is of this very turn, so it precedes the state of calls and texts."""
    try:
        return _decode_marked(rows[-1]) if rows else {}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}


def _decode_row(row: bytes | None) -> StoredState:
    try:
        return StoredState() if row is None else _decode(row)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return StoredState()  # of another version, or damaged
