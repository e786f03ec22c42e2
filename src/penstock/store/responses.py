"""Stored responses: what was asked and what was answered, by tenant and by id, so that a client can go on from there.

A response names the rows of the turns before it, so that a long conversation is kept once and not once for each turn.
Leans on a table of rows (`store.rows`), which bounds number, size and age; what it has forgotten is not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from penstock.pick import Object, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")


class Rows(Protocol):
    """Where rows are kept: a `ReasoningStore` that can also forget."""

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]: ...
    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None: ...
    def drop(self, tenant: str, keys: Iterable[str], /) -> None: ...


class Stored(msgspec.Struct):
    """One turn: its own input, and the response as its client saw it."""

    input: list[Any]
    response: Object


class Past(msgspec.Struct):
    """All that was said up to a point. `chain` are its rows; None where it is in no table."""

    items: list[Any]
    chain: tuple[str, ...] | None = ()


class _Head(msgspec.Struct):
    """A response by its id: the rows of the turns that led to it, its own last."""

    chain: tuple[str, ...]


_encode = msgspec.json.Encoder().encode
_decoders: dict[type, Callable[[bytes], Any]] = {kind: msgspec.json.Decoder(kind).decode for kind in (_Head, Stored)}


class Responses:
    """The responses of all tenants. `mint` makes names for rows that nothing else is called by."""

    def __init__(self, rows: Rows, mint: Callable[[], str]) -> None:
        self._rows, self._mint = rows, mint

    def put(self, tenant: str, turn: Stored, before: tuple[str, ...] = (), key: str = "") -> str:
        """Keep a turn that came after others. Gives the key of its row, under which it may be put again."""
        key = key or self._mint()
        rows = {_turn(key): _encode(turn), _head(turn.response["id"]): _encode(_Head((*before, key)))}
        rows |= {_item(name): key.encode() for name in _ids(turn.response.get("output"))}
        self._rows.put(tenant, rows)
        return key

    def get(self, tenant: str, id: str) -> Stored | None:
        """A response, and the input that was its own."""
        chain = self._chain(tenant, id)
        return self._turns(tenant, chain[-1:])[0] if chain else None

    def past(self, tenant: str, id: str) -> Past | None:
        """All items up to the end of a response; None where any of them is not known."""
        chain = self._chain(tenant, id)
        turns = self._turns(tenant, chain)
        if not chain or None in turns:
            return None
        return Past([item for turn in turns if turn is not None for item in _said(turn)], chain)

    def asked(self, tenant: str, id: str) -> list[Any] | None:
        """The items that a response is an answer to: its own input, behind what is known of the turns before it."""
        turns = self._turns(tenant, self._chain(tenant, id))
        if not turns or turns[-1] is None:
            return None
        return [item for turn in turns[:-1] if turn is not None for item in _said(turn)] + turns[-1].input

    def items(self, tenant: str, ids: Iterable[str]) -> dict[str, Object]:
        """The items of earlier responses that have these ids."""
        keys = {name: row.decode() for name, row in self._rows.get(tenant, map(_item, ids)).items()}
        chain = tuple(dict.fromkeys(keys.values()))
        known = {
            _item(text(item, "id")): item
            for turn in self._turns(tenant, chain)
            if turn is not None
            for item in turn.response["output"]
        }
        return {text(known[name], "id"): known[name] for name in keys if name in known}

    def drop(self, tenant: str, id: str) -> bool:
        """Forget a response and what was said in it. Whether there was one."""
        chain = self._chain(tenant, id)
        turn = self._turns(tenant, chain[-1:])[0] if chain else None
        if turn is None:
            return False
        self._rows.drop(tenant, [_head(id), _turn(chain[-1]), *map(_item, _ids(turn.response.get("output")))])
        return True

    def _chain(self, tenant: str, id: str) -> tuple[str, ...]:
        head = _read(_Head, self._rows.get(tenant, [_head(id)]).get(_head(id)))
        return head.chain if head is not None else ()

    def _turns(self, tenant: str, chain: tuple[str, ...]) -> list[Stored | None]:
        found = self._rows.get(tenant, [_turn(key) for key in chain]) if chain else {}
        return [_read(Stored, found.get(_turn(key))) for key in chain]


def _head(id: str) -> str:
    return f"r:{id}"


def _turn(key: str) -> str:
    return f"t:{key}"


def _item(id: str) -> str:
    return f"i:{id}"


def _ids(output: Any) -> list[str]:
    return [item["id"] for item in output or () if isinstance(item.get("id"), str)]


def _said(turn: Stored) -> list[Any]:
    return [*turn.input, *turn.response["output"]]


def _read(kind: type[T], row: bytes | None) -> T | None:
    """What stands in a row; one of another version, or damaged, is as good as forgotten."""
    try:
        made: T | None = None if row is None else _decoders[kind](row)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return made
