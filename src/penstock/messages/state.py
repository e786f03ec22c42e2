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
from penstock.events import Extra
from penstock.lenient_fields import as_object, get_text
from penstock.messages.foreign_state import ciphertext_of
from penstock.messages.traversal import with_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.diagnostics import Diagnostics
    from penstock.stores import ReasoningStore

_STATE = (rq.Reasoning, rq.Opaque)


class Kept(msgspec.Struct, omit_defaults=True):
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
_decode = msgspec.json.Decoder(Kept).decode
_decode_marked = msgspec.json.Decoder(dict[str, Kept]).decode  # by the ids of a turn's calls; its text has none


class Said:
    """What a message says, piece by piece: only its key is kept. Blanks around it do not count, clients trim them."""

    __slots__ = ("_blank", "_hash")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._blank: str | None = None  # what may be the end of it; None before its beginning

    def add(self, piece: str) -> None:
        if self._blank is None:
            piece = piece.lstrip()
            if not piece:
                return
            self._blank = ""
        words = piece.rstrip()
        if words:
            self._hash.update((self._blank + words).encode("utf-8", "surrogatepass"))
            self._blank = piece[len(words) :]
        else:
            self._blank += piece

    @property
    def key(self) -> str:
        return "t:" + self._hash.hexdigest()


def remember(
    turn: rq.Turn, store: ReasoningStore, tenant: str, mark: str = "", said: Said | None = None, origin: str = ""
) -> None:
    """Keep what the next request will need of this turn. Names and ids are those that the client sees, unprefixed.

    `mark` is a name of this turn alone, which the client may send back with its message (the mark `marker`). `said` is
    its text, where the turn does not hold it. `origin` is the provider that answered: no other gets its state.
    """
    rows = rows_of(turn.parts, mark, said, origin)
    if rows:
        store.put(tenant, rows)


def restore(
    request: rq.Request, store: ReasoningStore, tenant: str, notes: Diagnostics, provider: str = ""
) -> rq.Request:
    """The request with the state of its earlier turns, as far as it is known and of this provider."""
    keys = keys_of(request)
    return restored(request, store.get(tenant, keys), notes, provider) if keys else request


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────


def rows_of(
    parts: Iterable[rq.AnyPart], mark: str = "", said: Said | None = None, origin: str = ""
) -> dict[str, bytes]:
    """The rows to keep of a turn's parts, by key."""
    mine = [part for part in parts if not getattr(part, "choice", 0)]
    found = [row for row in (_by_call(mine) if any(map(_runs, mine)) else _by_text(mine, said)) if row[2]]
    for _, _, kept in found:
        kept.origin = origin
    rows = {key: _encode(kept) for key, _, kept in found}
    if mark and rows:
        rows[mark_key(mark)] = _encode({call: kept for _, call, kept in found})
    return {**rows, **seal_rows(filter(None, map(ciphertext_of, mine)), origin)}


def seal_rows(ciphertexts: Iterable[str], origin: str) -> dict[str, bytes]:
    """The rows that say who has encrypted something, by key."""
    return {seal_key(one): _encode(Kept(origin=origin)) for one in ciphertexts} if origin else {}


def seal_key(ciphertext: str) -> str:
    """What a provider has encrypted, by its digest."""
    return "e:" + _hash(ciphertext)


def origin_of(ciphertext: str, found: Mapping[str, bytes]) -> str:
    """Who has encrypted it, by the rows that were found; nothing where that is not known."""
    return _read(found.get(seal_key(ciphertext))).origin


def _by_text(parts: list[Any], said: Said | None) -> list[tuple[str, str, Kept]]:
    kept = Kept()
    for part in parts:
        _collect(kept, part)
    kept.after, kept.between = kept.between, []
    return [(said.key if said is not None else text_key(parts), "", kept)]


def _by_call(parts: list[Any]) -> list[tuple[str, str, Kept]]:
    rows: list[tuple[str, str, Kept]] = []
    kept = Kept()
    for part in parts:
        if _runs(part):
            kept.call = part.extra
            rows.append((call_key(part), part.id, kept))
            kept = Kept()
        else:
            _collect(kept, part)
    rows[-1][2].after = [*kept.before, *kept.between]
    return rows


def _collect(kept: Kept, part: rq.AnyPart) -> None:
    if isinstance(part, _STATE):
        said = kept.text is not None
        kept.between = [*kept.between, part] if said else kept.between
        kept.before = kept.before if said else [*kept.before, part]
    elif isinstance(part, rq.Text):
        kept.text = part.extra or kept.text or {}


def _runs(part: Any) -> bool:
    return type(part) is rq.Call and part.by == "client" and not part.cut


def call_key(call: rq.Call) -> str:
    """A call by its id and its input, however that is spelled: some providers count their ids from nought each time."""
    given = call.json
    if call.form == "json":
        try:
            given = _sorted(msgspec.json.decode(call.json or "{}"))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            given = call.json
    return "c:" + _hash(call.id, given)


def text_key(parts: Iterable[rq.AnyPart]) -> str:
    """A message without calls by what it says."""
    said = Said()
    for part in parts:
        if type(part) is rq.Text:
            said.add(part.text)
    return said.key


def mark_key(mark: str) -> str:
    """A turn by its own name."""
    return "m:" + _hash(mark)


def _sorted(value: Any) -> str:
    """JSON in one spelling: keys in order, and whole numbers without a point, which JavaScript cannot keep."""
    return msgspec.json.encode(_whole(value), order="sorted").decode()


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _hash(*words: str) -> str:
    made = blake2b(digest_size=16)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        made.update(b"%d:" % len(data) + data)
    return made.hexdigest()


# ── giving back ───────────────────────────────────────────────────────────────────────────────────


def keys_of(request: rq.Request) -> list[str]:
    """The keys under which something might be known for this request."""
    lacking = [message for message in request.messages if _lacking(message)]
    keys = [key for message in lacking for key in (*_keys(message), *_marks(message))]
    parts = (part for message in request.messages if message.role == "assistant" for part in message.parts)
    return [*keys, *(seal_key(one) for one in map(ciphertext_of, parts) if one)]


def _keys(message: rq.Message) -> list[str]:
    calls: list[Any] = [part for part in message.parts if _runs(part)]
    return [call_key(call) for call in calls] or [text_key(message.parts)]


def _marks(message: rq.Message) -> list[str]:
    """The key of the mark that a client sent back with a message: a model's id, a backslash, and the turn's name."""
    marks = [as_object(own.get("_")) for own in (message.extra or {}).values()]
    said = [get_text(mark, "marker").rpartition("\\")[2] for mark in marks]
    return [mark_key(one) for one in said if one]


def _lacking(message: rq.Message) -> bool:
    """An assistant's message whose client carried no state of its own."""
    return message.role == "assistant" and not any(
        (type(part) is rq.Reasoning and _stateful(part.extra)) or type(part) is rq.Opaque for part in message.parts
    )


def _stateful(extra: Extra | None) -> bool:
    return any(key != "_" and value for own in (extra or {}).values() for key, value in own.items())


def restored(request: rq.Request, found: Mapping[str, bytes], notes: Diagnostics, provider: str = "") -> rq.Request:
    """The request with what was found under its keys. What another provider sealed or signed is left out."""
    if not found:
        return request

    def readable(kept: Kept) -> Kept:
        if not kept.origin or not provider or kept.origin == provider:
            return kept
        notes.add("state-foreign", f"state of {kept.origin} is not sent to {provider}, which cannot read it")
        return _unsealed(kept)

    messages = [
        _whole_again(message, found, readable) if _lacking(message) else message for message in request.messages
    ]
    count = sum(new is not old for new, old in zip(messages, request.messages, strict=True))
    if not count:
        return request
    notes.add("state-restored", f"messages that were given back the state their client could not carry: {count}")
    return with_messages(request, messages)


def _unsealed(kept: Kept) -> Kept:
    """The words alone, without what only their provider can read."""

    def words(parts: list[rq.Reasoning | rq.Opaque]) -> list[rq.Reasoning | rq.Opaque]:
        return [replace(part, extra=None, item="") for part in parts if type(part) is rq.Reasoning and part.text]

    return Kept(before=words(kept.before), between=words(kept.between), after=words(kept.after))


def _whole_again(message: rq.Message, found: Mapping[str, bytes], readable: Callable[[Kept], Kept]) -> rq.Message:
    keys = iter(_keys(message))
    marked = _read_marked([found[key] for key in _marks(message) if key in found])
    parts: list[Any] = []
    said: list[Any] = []  # what stands before the next call
    known = False
    calls = any(_runs(part) for part in message.parts)
    for part in (*message.parts, None) if not calls else message.parts:
        if part is None or _runs(part):
            key = next(keys)
            kept = readable(marked.get(getattr(part, "id", "")) or _read(found.get(key)))
            known = known or bool(kept)
            parts += _placed(said, part, kept)
            said = []
        else:
            said.append(part)
    if not known:
        return message
    return replace(message, parts=[*parts, *said])


def _placed(said: list[Any], call: Any, kept: Kept) -> list[Any]:
    if any(type(part) is rq.Reasoning for part in (*kept.before, *kept.between)):
        said = [part for part in said if type(part) is not rq.Reasoning]  # the client's copy is without its state
    if kept.text:
        last = max((place for place, part in enumerate(said) if type(part) is rq.Text), default=-1)
        said = [_with(part, kept.text) if place == last else part for place, part in enumerate(said)]
    if call is None:
        return [*kept.before, *said, *kept.after]
    return [*kept.before, *said, *kept.between, _with(call, kept.call) if kept.call else call, *kept.after]


def _with(part: Any, extra: Extra) -> Any:
    own: Extra = part.extra or {}
    return replace(part, extra={**own, **{key: {**own.get(key, {}), **value} for key, value in extra.items()}})


def _read_marked(rows: list[bytes]) -> dict[str, Kept]:
    """What is known under a mark, which is of this very turn: it goes before what a call or a text is known by."""
    try:
        return _decode_marked(rows[-1]) if rows else {}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}


def _read(row: bytes | None) -> Kept:
    try:
        return Kept() if row is None else _decode(row)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return Kept()  # another version's, or damaged: as good as forgotten
