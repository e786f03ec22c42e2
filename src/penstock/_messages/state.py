"""State that a client cannot carry (signatures, encrypted reasoning, what was thought) kept for it between two turns.

After an answer, `remember` files what stood before each call under that call, and what stood around plain text under
that text; all of it also under a mark, for a client that sends marks back. Before the next request, `restore` puts it
back where it was, as it was. What a client carries itself wins.
"""

from __future__ import annotations

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


class StoredState(msgspec.Struct, omit_defaults=True):
    """What belongs to one call, or to a text without calls: the parts around what was said, and what came with it."""

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
    """What a message says, piece by piece: only its key is kept. Blanks around it do not count, clients trim them."""

    __slots__ = ("_hash", "_trailing_space")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._trailing_space: str | None = None  # what may be the end of it; None before its beginning

    def add(self, piece: str) -> None:
        if self._trailing_space is None:
            piece = piece.lstrip()
            if not piece:
                return
            self._trailing_space = ""
        text_parts = piece.rstrip()
        if text_parts:
            self._hash.update((self._trailing_space + text_parts).encode("utf-8", "surrogatepass"))
            self._trailing_space = piece[len(text_parts) :]
        else:
            self._trailing_space += piece

    @property
    def key(self) -> str:
        return "t:" + self._hash.hexdigest()


def remember(
    turn: rq.Turn, store: ReasoningStore, tenant: str, mark: str = "", said: TextKey | None = None, origin: str = ""
) -> None:
    """Keep what the next request will need of this turn. Names and ids are those that the client sees, unprefixed.

    `mark` is a name of this turn alone, which the client may send back with its message (the mark `marker`). `said` is
    its text, where the turn does not hold it. `origin` is the provider that answered: no other gets its state.
    """
    rows = state_rows(turn.parts, mark, said, origin)
    if rows:
        store.put(tenant, rows)


def restore(
    request: rq.Request, store: ReasoningStore, tenant: str, notes: Diagnostics, provider: str = ""
) -> rq.Request:
    """The request with the state of its earlier turns, as far as it is known and of this provider."""
    keys = state_keys_of(request)
    return restore_state(request, store.get(tenant, keys), notes, provider) if keys else request


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────


def state_rows(
    parts: Iterable[rq.AnyPart], mark: str = "", said: TextKey | None = None, origin: str = ""
) -> dict[str, bytes]:
    """The rows to keep of a turn's parts, by key."""
    first_choice = [part for part in parts if not getattr(part, "choice", 0)]
    found = [
        row
        for row in (
            _rows_by_call(first_choice)
            if any(map(_is_client_call, first_choice))
            else _rows_by_text(first_choice, said)
        )
        if row[2]
    ]
    for _, _, stored in found:
        stored.origin = origin
    rows = {key: _encode(stored) for key, _, stored in found}
    if mark and rows:
        rows[mark_key(mark)] = _encode({call: stored for _, call, stored in found})
    return {**rows, **encrypted_rows(filter(None, map(ciphertext_of, first_choice)), origin)}


def encrypted_rows(ciphertexts: Iterable[str], origin: str) -> dict[str, bytes]:
    """The rows that say who has encrypted something, by key."""
    return {encrypted_key(one): _encode(StoredState(origin=origin)) for one in ciphertexts} if origin else {}


def encrypted_key(ciphertext: str) -> str:
    """What a provider has encrypted, by its digest."""
    return "e:" + _hash(ciphertext)


def origin_of(ciphertext: str, found: Mapping[str, bytes]) -> str:
    """Who has encrypted it, by the rows that were found; nothing where that is not known."""
    return _decode_row(found.get(encrypted_key(ciphertext))).origin


def _rows_by_text(parts: list[Any], said: TextKey | None) -> list[tuple[str, str, StoredState]]:
    stored = StoredState()
    for part in parts:
        _collect_state(stored, part)
    stored.after, stored.between = stored.between, []
    return [(said.key if said is not None else text_key(parts), "", stored)]


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
        said = stored.text is not None
        stored.between = [*stored.between, part] if said else stored.between
        stored.before = stored.before if said else [*stored.before, part]
    elif isinstance(part, rq.Text):
        stored.text = part.extra or stored.text or {}


def _is_client_call(part: Any) -> bool:
    return type(part) is rq.Call and part.by == "client" and not part.cut


def call_key(call: rq.Call) -> str:
    """A call by its id and its input, however that is spelled: some providers count their ids from nought each time."""
    given = call.json
    if call.form == "json":
        try:
            given = _canonical_json(msgspec.json.decode(call.json or "{}"))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            given = call.json
    return "c:" + _hash(call.id, given)


def text_key(parts: Iterable[rq.AnyPart]) -> str:
    """A message without calls by what it says."""
    said = TextKey()
    for part in parts:
        if type(part) is rq.Text:
            said.add(part.text)
    return said.key


def mark_key(mark: str) -> str:
    """A turn by its own name."""
    return "m:" + _hash(mark)


def _canonical_json(value: Any) -> str:
    """JSON in one spelling: keys in order, and whole numbers without a point, which JavaScript cannot keep."""
    return msgspec.json.encode(_normalize_numbers(value), order="sorted").decode()


def _normalize_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: _normalize_numbers(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _hash(*text_parts: str) -> str:
    made = blake2b(digest_size=16)
    for word in text_parts:
        data = word.encode("utf-8", "surrogatepass")
        made.update(b"%d:" % len(data) + data)
    return made.hexdigest()


# ── giving back ───────────────────────────────────────────────────────────────────────────────────


def state_keys_of(request: rq.Request) -> list[str]:
    """The keys under which something might be known for this request."""
    lacking = [message for message in request.messages if _lacks_state(message)]
    keys = [key for message in lacking for key in (*_message_keys(message), *_marker_keys(message))]
    parts = (part for message in request.messages if message.role == "assistant" for part in message.parts)
    return [*keys, *(encrypted_key(one) for one in map(ciphertext_of, parts) if one)]


def _message_keys(message: rq.Message) -> list[str]:
    calls: list[Any] = [part for part in message.parts if _is_client_call(part)]
    return [call_key(call) for call in calls] or [text_key(message.parts)]


def _marker_keys(message: rq.Message) -> list[str]:
    """The key of the mark that a client sent back with a message: a model's id, a backslash, and the turn's name."""
    marks = [as_object(own.get("_")) for own in (message.extra or {}).values()]
    said = [get_text(mark, "marker").rpartition("\\")[2] for mark in marks]
    return [mark_key(one) for one in said if one]


def _lacks_state(message: rq.Message) -> bool:
    """An assistant's message whose client carried no state of its own."""
    return message.role == "assistant" and not any(
        (type(part) is rq.Reasoning and _has_state(part.extra)) or type(part) is rq.Opaque for part in message.parts
    )


def _has_state(extra: Extra | None) -> bool:
    return any(key != "_" and value for own in (extra or {}).values() for key, value in own.items())


def restore_state(
    request: rq.Request, found: Mapping[str, bytes], notes: Diagnostics, provider: str = ""
) -> rq.Request:
    """The request with what was found under its keys. What another provider sealed or signed is left out."""
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
    """The words alone, without what only their provider can read."""

    def text_parts(parts: list[rq.Reasoning | rq.Opaque]) -> list[rq.Reasoning | rq.Opaque]:
        return [replace(part, extra=None, item="") for part in parts if type(part) is rq.Reasoning and part.text]

    return StoredState(
        before=text_parts(stored.before), between=text_parts(stored.between), after=text_parts(stored.after)
    )


def _restore_message(
    message: rq.Message, found: Mapping[str, bytes], readable: Callable[[StoredState], StoredState]
) -> rq.Message:
    keys = iter(_message_keys(message))
    marked = _decode_marker_rows([found[key] for key in _marker_keys(message) if key in found])
    parts: list[Any] = []
    said: list[Any] = []  # what stands before the next call
    found_any = False
    calls = any(_is_client_call(part) for part in message.parts)
    for part in (*message.parts, None) if not calls else message.parts:
        if part is None or _is_client_call(part):
            key = next(keys)
            stored = readable(marked.get(getattr(part, "id", "")) or _decode_row(found.get(key)))
            found_any = found_any or bool(stored)
            parts += _insert_state(said, part, stored)
            said = []
        else:
            said.append(part)
    if not found_any:
        return message
    return replace(message, parts=[*parts, *said])


def _insert_state(said: list[Any], call: Any, stored: StoredState) -> list[Any]:
    if any(type(part) is rq.Reasoning for part in (*stored.before, *stored.between)):
        said = [part for part in said if type(part) is not rq.Reasoning]  # the client's copy is without its state
    if stored.text:
        last = max((place for place, part in enumerate(said) if type(part) is rq.Text), default=-1)
        said = [_add_extra(part, stored.text) if place == last else part for place, part in enumerate(said)]
    if call is None:
        return [*stored.before, *said, *stored.after]
    return [
        *stored.before,
        *said,
        *stored.between,
        _add_extra(call, stored.call) if stored.call else call,
        *stored.after,
    ]


def _add_extra(part: Any, extra: Extra) -> Any:
    own: Extra = part.extra or {}
    return replace(part, extra={**own, **{key: {**own.get(key, {}), **value} for key, value in extra.items()}})


def _decode_marker_rows(rows: list[bytes]) -> dict[str, StoredState]:
    """What is known under a mark, which is of this very turn: it goes before what a call or a text is known by."""
    try:
        return _decode_marked(rows[-1]) if rows else {}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}


def _decode_row(row: bytes | None) -> StoredState:
    try:
        return StoredState() if row is None else _decode(row)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return StoredState()  # another version's, or damaged: as good as forgotten
