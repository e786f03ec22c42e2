"""What was said before a request: the response it goes on from, items it only names, conversations that were compacted.

Leans on stored responses (`store.responses`) and, on a WebSocket, on what that connection remembers. Gives a request
that stands for itself, whoever is going to read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock import pick
from penstock.engines.model_resolution import targets
from penstock.engines.request_plan import place
from penstock.errors import PenstockError, StreamFault
from penstock.events import Fault
from penstock.gateway.doors.compaction import opened
from penstock.store.key_value import Past
from penstock.vendor_errors import PARAM

if TYPE_CHECKING:
    from penstock.events import FaultKind
    from penstock.gateway.doors.door import Visit
    from penstock.pick import Object

PREVIOUS = "previous_response_id"
_BEGUN = frozenset({"queued", "in_progress"})


class Memory(Protocol):
    """What a connection remembers by itself."""

    def find(self, id: str) -> Past | None: ...


class Told(msgspec.Struct):
    """A request that stands for itself: its body, the input that was its own, and what stands before that."""

    body: Any
    new: list[Any]
    past: Past | None = None


def refused(message: str, *, code: str = "", param: str = "", status: int = 400) -> StreamFault:
    """No, in the words of this protocol."""
    kind: FaultKind = "not-found" if status == 404 else "invalid"  # noqa: PLR2004
    return StreamFault(
        Fault(kind, message, status=status, code=code, extra={"responses": {PARAM: param}} if param else None)
    )


def not_found(id: str) -> StreamFault:
    """A response that is nowhere to be found."""
    said = f"Previous response with id {id[:200]!r} not found; send the whole conversation without {PREVIOUS}."
    return refused(said, code="previous_response_not_found", param=PREVIOUS)


async def told(visit: Visit, body: Object, memory: Memory | None = None) -> Told:
    """A request with all that was said before it."""
    new, previous = items_of(body), body.get(PREVIOUS)
    if previous is None:
        return await _named(visit, Told(body, new))
    if not isinstance(previous, str):
        raise refused(f"{PREVIOUS}: expected a string", param=PREVIOUS)
    past = memory.find(previous) if memory else None
    if past is None:
        services, tenant = visit.services, visit.caller.tenant
        past = await services.kept.state.read(lambda: services.responses.past(tenant, previous))
    if past is None and memory is None and _theirs(visit, body):
        return await _named(visit, Told(body, new))  # stored before there was a gateway: its provider may know it
    if past is None or _unfinished(visit, previous):
        raise not_found(previous)
    rest = {key: value for key, value in body.items() if key != PREVIOUS}
    made = await _named(visit, Told(rest, new, past))
    answered([*past.items, *made.new])
    return made


def items_of(body: Object) -> list[Any]:
    """The input as a list. What is neither a list nor a text is left to the reader to refuse."""
    given: Any = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}] if given else []
    return pick.listed(body, "input")


def answered(items: list[Any]) -> None:
    """Raise where a result has no call: whoever goes on from a response and answers nothing it asked is mistaken."""
    calls: set[str] = set()
    for item in pick.objects(items):
        if _is_name(item):
            return  # of an item that may be the call
        kind, call = pick.text(item, "type"), pick.text(item, "call_id")
        if kind.endswith("_call_output") and call and call not in calls:
            said = (
                f"No tool call found for {kind.removesuffix('_output').replace('_', ' ')} output with call_id {call}."
            )
            raise refused(said, param="input")
        calls.add(call or pick.text(item, "id"))


def _unfinished(visit: Visit, id: str) -> bool:
    return visit.services.background.get(visit.caller.tenant, id) is not None


async def _named(visit: Visit, made: Told) -> Told:
    """The input in full: named items in their places, compacted ones opened."""
    items = [*(made.past.items if made.past else ()), *made.new]
    names = [pick.text(item, "id") for item in pick.objects(made.new) if _is_name(item)]
    there = {pick.text(item, "id") for item in pick.objects(items) if not _is_name(item)}
    known = await _items(visit, names) if names else {}
    if known:
        made.new = [_found(item, known, there) for item in made.new]
        made.new = [item for item in made.new if item is not None]
        items = [*(made.past.items if made.past else ()), *made.new]
    full = opened(items)
    if made.past is not None or known or full is not items:
        made.body = {**made.body, "input": full}
    return made


async def _items(visit: Visit, names: list[str]) -> dict[str, Object]:
    services, tenant = visit.services, visit.caller.tenant
    found: dict[str, Object] = await services.kept.state.read(lambda: services.responses.items(tenant, names))
    return found


def _is_name(item: Object) -> bool:
    kind = item.get("type", "" if "role" in item else "item_reference")
    return bool(kind == "item_reference")


def _found(item: Any, known: dict[str, Object], there: set[str]) -> Any:
    """The item that is named; None where it stands in the conversation anyway."""
    row = pick.as_object(item)
    if not row or not _is_name(row):
        return item
    name = pick.text(row, "id")
    return None if name in there else known.get(name, row)


def _theirs(visit: Visit, body: Object) -> bool:
    """Whether the provider may be asked for a response of its own: it has some, and nobody else's are among them."""
    services = visit.services
    if services.access.keyed and not visit.caller.forward:
        return False
    try:
        meant = targets(pick.text(body, "model") or services.default, services.router.config, services.env)
        return all(place(target, "responses")[1].protocol == "responses" for target in meant)
    except PenstockError:
        return False
