"""Call ids: the prefix that a client saw taken off, and ids that a target refuses mapped one to one.

Pairs stay pairs: a call, its result and its approval change together. Ids carry no state; what a provider wants back
travels in `extra`. What a provider runs itself keeps its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.messages.mapping import fit_ids
from penstock.messages.walking import change_parts, with_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.diagnostics import Diagnostics
    from penstock.messages.mapping import Rule
    from penstock.shaping.namespace import Namespace

_FIELDS: dict[type, str] = {rq.Call: "id", rq.Result: "call", rq.Ask: "call"}


def restore_prefix(request: rq.Request, names: Namespace) -> rq.Request:
    """The provider's own ids again, as they were before they were namespaced for the client."""
    return _renamed(request, names.restore)


def map_ids(request: rq.Request, rule: Rule, notes: Diagnostics) -> tuple[rq.Request, dict[str, str]]:
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
