"""What was said before a request: the response it goes on from, items it only names, conversations that were compacted.

Leans on stored responses (`store.responses`) and, on a WebSocket, on what that connection remembers. Gives a request
that stands for itself, whoever is going to read it.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock import lenient_fields as lenient
from penstock import protocols
from penstock.bridge import encoding
from penstock.engines.model_resolution import targets
from penstock.engines.request_plan import place
from penstock.errors import PenstockError, StreamFault
from penstock.events import Fault
from penstock.framing import SseParser, SseWriter
from penstock.gateway.endpoints import whole_number
from penstock.http.response_writer import Flow
from penstock.store.key_value import Past
from penstock.vendor_errors import PARAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from penstock.events import FaultKind
    from penstock.gateway.endpoints import Visit
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object

PREVIOUS = "previous_response_id"
UNFINISHED = frozenset({"queued", "in_progress"})


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
    return lenient.get_list(body, "input")


def answered(items: list[Any]) -> None:
    """Raise where a result has no call: whoever goes on from a response and answers nothing it asked is mistaken."""
    calls: set[str] = set()
    for item in lenient.as_objects(items):
        if _is_name(item):
            return  # of an item that may be the call
        kind, call = lenient.get_text(item, "type"), lenient.get_text(item, "call_id")
        if kind.endswith("_call_output") and call and call not in calls:
            said = (
                f"No tool call found for {kind.removesuffix('_output').replace('_', ' ')} output with call_id {call}."
            )
            raise refused(said, param="input")
        calls.add(call or lenient.get_text(item, "id"))


def _unfinished(visit: Visit, id: str) -> bool:
    return visit.services.background.get(visit.caller.tenant, id) is not None


async def _named(visit: Visit, made: Told) -> Told:
    """The input in full: named items in their places, compacted ones opened."""
    items = [*(made.past.items if made.past else ()), *made.new]
    names = [lenient.get_text(item, "id") for item in lenient.as_objects(made.new) if _is_name(item)]
    there = {lenient.get_text(item, "id") for item in lenient.as_objects(items) if not _is_name(item)}
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
    row = lenient.as_object(item)
    if not row or not _is_name(row):
        return item
    name = lenient.get_text(row, "id")
    return None if name in there else known.get(name, row)


def _theirs(visit: Visit, body: Object) -> bool:
    """Whether the provider may be asked for a response of its own: it has some, and nobody else's are among them."""
    services = visit.services
    if services.access.keyed and not visit.caller.forward:
        return False
    try:
        meant = targets(lenient.get_text(body, "model") or services.default, services.router.config, services.env)
        return all(place(target, "responses")[1].protocol == "responses" for target in meant)
    except PenstockError:
        return False


MARK = "penstock1."
LONGEST = 2**20  # bytes of a summary
BEFORE = "What was said before this point was cut short. A summary of it:\n\n"


def sealed(summary: str) -> str:
    """A summary as an item carries it."""
    return MARK + urlsafe_b64encode(zlib.compress(summary.encode("utf-8", "replace")[:LONGEST])).decode()


def unsealed(content: str) -> str | None:
    """The summary; None where it is none of ours, or damaged."""
    if not content.startswith(MARK):
        return None
    try:
        packed = urlsafe_b64decode(content.removeprefix(MARK))
        return zlib.decompressobj().decompress(packed, LONGEST).decode("utf-8", "replace")
    except (ValueError, zlib.error):
        return None


def opened(items: list[Any]) -> list[Any]:
    """The items with our compactions as messages that any model can read; the same list where there are none."""
    made = [_opened(item) for item in items]
    return items if all(new is old for new, old in zip(made, items, strict=True)) else made


def _opened(item: Any) -> Any:
    row: Object = lenient.as_object(item)
    if row.get("type") != "compaction":
        return item
    summary = unsealed(lenient.get_text(row, "encrypted_content"))
    if summary is None:
        return item
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": BEFORE + summary}]}


PREFIX = "/v1/responses/"
PAGE, LARGEST = 20, 100  # items to a page

STOPPED_ERROR = {"code": "server_error", "message": "the gateway was stopped before this response was done"}
_encode = msgspec.json.encode


# ── what there is ─────────────────────────────────────────────────────────────────────────────────


async def shown(services: Services, visit: Visit) -> bytes | Flow:
    """`GET /v1/responses/{id}`, and with `?stream=true` as the stream that it was."""
    id, tenant = visit.params["response"], visit.caller.tenant  # noqa: A001 — as the protocol calls it
    stream = visit.query.get("stream") == "true"
    after = whole_number(visit.query, "starting_after", -1, least=-1)
    live = services.background.get(tenant, id)
    if live is not None:
        return Flow(frames_after(live.follow(), after)) if stream else _encode(live.response)
    response = await _response(services, visit)
    return Flow(frames_after(_again(response), after)) if stream else _encode(response)


async def deleted(services: Services, visit: Visit) -> bytes:
    """`DELETE /v1/responses/{id}`. Who goes on from a later response of the same conversation will miss it."""
    id, tenant = visit.params["response"], visit.caller.tenant  # noqa: A001
    await services.background.cancel(tenant, id)
    if not await services.kept.state.read(lambda: services.responses.drop(tenant, id)):
        raise _missing(id)
    return _encode({"id": id, "object": "response", "deleted": True})


async def cancelled(services: Services, visit: Visit) -> bytes:
    """`POST /v1/responses/{id}/cancel`: for those in the background; one that is over stays as it is."""
    await services.background.cancel(visit.caller.tenant, visit.params["response"])
    response = await _response(services, visit)
    if not response.get("background"):
        raise refused("Only a response with background set to true can be cancelled: this one was waited for.")
    return _encode(response)


async def listed(services: Services, visit: Visit) -> bytes:
    """`GET /v1/responses/{id}/input_items`: all that the response is an answer to, the latest first."""
    id, tenant = visit.params["response"], visit.caller.tenant  # noqa: A001
    found = await services.kept.state.read(lambda: services.responses.asked(tenant, id))
    if found is None:
        raise _missing(id)
    items = [_item(item, f"{id.removeprefix('resp_')}_{place}") for place, item in enumerate(found)]
    if visit.query.get("order", "desc") != "asc":
        items.reverse()
    names = [item["id"] for item in items]
    after, size = visit.query.get("after"), min(max(whole_number(visit.query, "limit", PAGE), 1), LARGEST)
    if after is not None and after not in names:
        raise refused(f"after: there is no item {after[:200]!r} here", param="after")
    start = names.index(after) + 1 if after is not None else 0
    page = items[start : start + size]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return _encode({"object": "list", "data": page, **ends, "has_more": start + size < len(items)})


ROUTES: Mapping[tuple[str, str], Callable[[Any, Any], Awaitable[bytes | Flow]]] = {
    ("GET", ""): shown, ("DELETE", ""): deleted, ("POST", "cancel"): cancelled, ("GET", "input_items"): listed,
}  # fmt: skip


async def _response(services: Services, visit: Visit) -> Object:
    id, tenant = visit.params["response"], visit.caller.tenant  # noqa: A001
    found = await services.kept.state.read(lambda: services.responses.get(tenant, id))
    if found is None:
        raise _missing(id)
    response = found.response
    if response.get("status") in UNFINISHED:
        return {**response, "status": "failed", "error": STOPPED_ERROR}
    return response


def _missing(id: str) -> StreamFault:
    return refused(f"Response with id {id[:200]!r} not found.", code="response_not_found", status=404)


def _item(item: Any, name: str) -> Object:
    """An item as a list shows it: a message's words are parts, and it has an id."""
    made: Object = {"type": "message", **item} if "role" in item else dict(item)
    if made.get("type") == "message" and isinstance(made.get("content"), str):
        kind = "output_text" if made["role"] == "assistant" else "input_text"
        made["content"] = [{"type": kind, "text": made["content"]}]
    return {**made, "id": made.get("id") or f"item_{name}"}


# ── as a stream ───────────────────────────────────────────────────────────────────────────────────


async def _again(response: Object) -> AsyncIterator[bytes]:
    """A whole response as the stream that says the same."""
    decode = protocols.decoder("responses")
    events = [*decode.feed([(b"", _encode(response))]), *decode.finish()]
    pipe = encoding("responses", {"id": response["id"], "model": response["model"]})
    for chunk in (*pipe.feed(events), *pipe.finish()):
        yield chunk


async def frames_after(chunks: AsyncIterator[bytes], after: int) -> AsyncIterator[bytes]:
    """The frames with a number beyond one that the client has already seen."""
    parser, writer = SseParser(), SseWriter()
    async for chunk in chunks:
        frames = [frame for frame in parser.feed([chunk]) if _number(frame[1]) > after]
        if frames:
            yield b"".join(writer.feed(frames))


def _number(data: bytes) -> int:
    """A frame's number; the mark at the end has none, and is always wanted."""
    return msgspec.json.decode(data, type=_Numbered).sequence_number if data[:1] == b"{" else 2**53


class _Numbered(msgspec.Struct):
    sequence_number: int = 0
