"""One-to-one maps of call ids and tool names that a target refuses.

Deterministic: the same conversation, one turn longer, is mapped the same way. A call, its result and its approval
change together; what a provider runs itself keeps its id.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock._messages.traversal import change_parts, with_messages
from penstock._request_profile import IdentifierRule, forbidden_character, identifier_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._diagnostics import Diagnostics
    from penstock._transforms.tool_names import Namespace

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGEST_SIZE = 8  # letters of a digest behind a readable name


def digest(name: str, size: int, attempt: int = 0) -> str:
    """Returns letters and digits that stand for an identifier; others for each attempt."""
    salt = str(attempt).encode() if attempt else b""
    number = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=64, salt=salt).digest())
    characters: list[str] = []
    while len(characters) < size:
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)


def fit_ids(ids: Iterable[str], rule: IdentifierRule) -> dict[str, str]:
    """Returns the ids that must change, and their new ids. A later id never changes the map of an earlier one."""
    mapped: dict[str, str] = {}
    taken: set[str] = set()
    fits = identifier_pattern(rule).fullmatch
    for id in dict.fromkeys(ids):  # noqa: A001 — as everybody calls it
        if id not in taken and fits(id):
            taken.add(id)
            continue
        name, attempt = id, 0
        while name is id or name in taken:
            name = _shorten_id(id, rule, attempt)
            attempt += 1
        taken.add(name)
        mapped[id] = name
    return mapped


def _shorten_id(id: str, rule: IdentifierRule, attempt: int) -> str:
    if rule.exact:
        return digest(id, rule.exact, attempt)
    room = rule.limit or 64
    return f"call_{digest(id, 24, attempt)}" if room >= 29 else digest(id, room, attempt)  # noqa: PLR2004


def fit_names(names: Iterable[str], rule: IdentifierRule, wishes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the names that must change, and their new names: readable if unique, else with a digest.

    Names that fit stay. `wishes` are preferred new names.
    """
    wishes_by_name = wishes or {}
    originals = list(dict.fromkeys(names))
    taken = {original for original in originals if original not in wishes_by_name and rule.fits(original)}
    wanted = {
        original: _readable_name(wishes_by_name.get(original, original), rule)
        for original in originals
        if original not in taken
    }
    wish_counts: dict[str, int] = {}
    for wish in wanted.values():
        wish_counts[wish] = wish_counts.get(wish, 0) + 1
    mapped: dict[str, str] = {}
    for original, wish in wanted.items():
        name, attempt = wish, 0
        cut = bool(rule.limit) and len(wishes_by_name.get(original, original)) > rule.limit
        while (not attempt and (cut or wish_counts[wish] > 1)) or name in taken:
            stem = wish[: rule.limit - _DIGEST_SIZE - 1] if rule.limit else wish
            name = f"{stem}_{digest(original, _DIGEST_SIZE, attempt)}"
            attempt += 1
        taken.add(name)
        mapped[original] = name
    return mapped


def _readable_name(name: str, rule: IdentifierRule) -> str:
    original = forbidden_character(rule).sub("_", name) if rule.chars else name
    if rule.first and not re.match(f"[{rule.first}]", original):
        original = "_" + original
    return (original[: rule.limit] if rule.limit else original) or "_"


_FIELDS: dict[type, str] = {rq.Call: "id", rq.Result: "call", rq.Ask: "call"}


def restore_prefix(request: rq.Request, names: Namespace) -> rq.Request:
    """Removes the prefix that the client saw, which restores the provider's ids."""
    return _rename_ids(request, names.restore)


def map_ids(request: rq.Request, rule: IdentifierRule, notes: Diagnostics) -> tuple[rq.Request, dict[str, str]]:
    """Returns the request with ids that fit, and a map from new to old ids."""
    if not rule.strict:
        return request, {}
    table = fit_ids(_client_call_ids(request), rule)
    if not table:
        return request, {}
    notes.add("ids", f"call ids that the target refuses were mapped: {len(table)}")
    return _rename_ids(request, lambda name: table.get(name, name)), {new: old for old, new in table.items()}


def _client_call_ids(request: rq.Request) -> dict[str, None]:
    """Returns the ids of calls that a client runs, in the order of first use."""
    found: dict[str, None] = {}
    for message in request.messages:
        for part in message.parts:
            if type(part) is rq.Call:
                if part.by == "client":
                    found[part.id] = None
            elif type(part) is rq.Result:
                if part.by == "client":
                    found[part.call] = None
            elif type(part) is rq.Ask:
                found[part.call] = None
    return found


def _rename_ids(request: rq.Request, name: Callable[[str], str]) -> rq.Request:
    def renamed(part: Any) -> Any:
        field = _FIELDS[type(part)]
        old = getattr(part, field)
        if getattr(part, "by", "client") == "provider":
            return part
        new = name(old)
        return part if new == old else replace(part, **{field: new})

    return with_messages(request, change_parts(request.messages, _FIELDS.keys(), renamed))
