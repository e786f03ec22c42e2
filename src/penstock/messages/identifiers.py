"""Which words a target takes as ids and names, and one-to-one maps of those it refuses.

Deterministic, and decided by the words alone: the same conversation, one turn longer, is mapped the same way.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.messages.traversal import change_parts, with_messages
from penstock.request_profile import forbidden_character, identifier_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.diagnostics import Diagnostics
    from penstock.request_profile import IdentifierRule
    from penstock.transforms.tool_names import Namespace

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SIZE = 8  # letters of a digest behind a readable name


def digest(word: str, size: int, again: int = 0) -> str:
    """Letters and digits that stand for a word; another set of them for each time it is asked `again`."""
    salt = str(again).encode() if again else b""
    number = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=64, salt=salt).digest())
    letters: list[str] = []
    while len(letters) < size:
        number, place = divmod(number, len(_DIGITS))
        letters.append(_DIGITS[place])
    return "".join(letters)


def fit_ids(ids: Iterable[str], rule: IdentifierRule) -> dict[str, str]:
    """The ids that must change, and to what. One that comes later never changes what became of one before it."""
    made: dict[str, str] = {}
    taken: set[str] = set()
    fits = identifier_pattern(rule).fullmatch
    for id in dict.fromkeys(ids):  # noqa: A001 — as everybody calls it
        if id not in taken and fits(id):
            taken.add(id)
            continue
        word, again = id, 0
        while word is id or word in taken:
            word = _short(id, rule, again)
            again += 1
        taken.add(word)
        made[id] = word
    return made


def _short(id: str, rule: IdentifierRule, again: int) -> str:
    if rule.exact:
        return digest(id, rule.exact, again)
    room = rule.limit or 64
    return f"call_{digest(id, 24, again)}" if room >= 29 else digest(id, room, again)  # noqa: PLR2004


def fit_names(names: Iterable[str], rule: IdentifierRule, wishes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The names that must change, and to what: readable where that is unique, with a digest where it is not.

    Names that fit stay. `wishes` are what names should rather be called.
    """
    asked = wishes or {}
    words = list(dict.fromkeys(names))
    taken = {word for word in words if word not in asked and rule.fits(word)}
    wanted = {word: _readable(asked.get(word, word), rule) for word in words if word not in taken}
    often: dict[str, int] = {}
    for wish in wanted.values():
        often[wish] = often.get(wish, 0) + 1
    made: dict[str, str] = {}
    for word, wish in wanted.items():
        name, again = wish, 0
        cut = bool(rule.limit) and len(asked.get(word, word)) > rule.limit
        while (not again and (cut or often[wish] > 1)) or name in taken:
            name = f"{wish[: rule.limit - _SIZE - 1] if rule.limit else wish}_{digest(word, _SIZE, again)}"
            again += 1
        taken.add(name)
        made[word] = name
    return made


def _readable(name: str, rule: IdentifierRule) -> str:
    word = forbidden_character(rule).sub("_", name) if rule.chars else name
    if rule.first and not re.match(f"[{rule.first}]", word):
        word = "_" + word
    return (word[: rule.limit] if rule.limit else word) or "_"


_FIELDS: dict[type, str] = {rq.Call: "id", rq.Result: "call", rq.Ask: "call"}


def restore_prefix(request: rq.Request, names: Namespace) -> rq.Request:
    """The provider's own ids again, as they were before they were namespaced for the client."""
    return _renamed(request, names.restore)


def map_ids(request: rq.Request, rule: IdentifierRule, notes: Diagnostics) -> tuple[rq.Request, dict[str, str]]:
    """The request with ids that fit, and the way back: new id → old id."""
    if not rule.strict:
        return request, {}
    table = fit_ids(_ids(request), rule)
    if not table:
        return request, {}
    notes.add("ids", f"call ids that the target refuses were mapped: {len(table)}")
    return _renamed(request, lambda word: table.get(word, word)), {new: old for old, new in table.items()}


def _ids(request: rq.Request) -> dict[str, None]:
    """All ids of calls that a client runs, in the order they are first used."""
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


def _renamed(request: rq.Request, name: Callable[[str], str]) -> rq.Request:
    def renamed(part: Any) -> Any:
        field = _FIELDS[type(part)]
        old = getattr(part, field)
        if getattr(part, "by", "client") == "provider":
            return part
        new = name(old)
        return part if new == old else replace(part, **{field: new})

    return with_messages(request, change_parts(request.messages, _FIELDS.keys(), renamed))
