"""Stored responses over HTTP: shown, played again, listed, cancelled, deleted. And those begun in the background.

Each is the caller's own: another tenant's response is not found, as if there were none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import protocols
from penstock.bridge import encoding
from penstock.errors import StreamFault
from penstock.events import Fault
from penstock.framing import SseParser, SseWriter
from penstock.gateway import inside
from penstock.gateway.background import Live
from penstock.gateway.doors.door import Door
from penstock.gateway.doors.responses import Keeper, asked_of, known_of, shell
from penstock.gateway.doors.responses_past import refused
from penstock.gateway.query_numbers import whole_number
from penstock.gateway.refusing import unknown_model
from penstock.http.response_writer import Flow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from penstock.gateway.doors.door import Visit
    from penstock.gateway.services import Services
    from penstock.pick import Object

PREFIX = "/v1/responses/"
PAGE, LARGEST = 20, 100  # items to a page
_BEGUN = frozenset({"queued", "in_progress"})
_LOST = {"code": "server_error", "message": "the gateway was stopped before this response was done"}
_encode = msgspec.json.encode


# ── what there is ─────────────────────────────────────────────────────────────────────────────────


async def shown(services: Services, visit: Visit) -> bytes | Flow:
    """`GET /v1/responses/{id}`, and with `?stream=true` as the stream that it was."""
    id, tenant = visit.params["response"], visit.caller.tenant  # noqa: A001 — as the protocol calls it
    stream = visit.query.get("stream") == "true"
    after = whole_number(visit.query, "starting_after", -1, least=-1)
    live = services.background.get(tenant, id)
    if live is not None:
        return Flow(_from(live.follow(), after)) if stream else _encode(live.response)
    response = await _response(services, visit)
    return Flow(_from(_again(response), after)) if stream else _encode(response)


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
    if response.get("status") in _BEGUN:
        return {**response, "status": "failed", "error": _LOST}
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


async def _from(chunks: AsyncIterator[bytes], after: int) -> AsyncIterator[bytes]:
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


# ── in the background ─────────────────────────────────────────────────────────────────────────────


async def begun(services: Services, visit: Visit) -> bytes | Flow:
    """Begin a response that nobody need wait for. With `stream` it is followed; who leaves may come back."""
    body = await visit.offload(visit.body)
    if body.get("store") is False:
        raise refused("background: a response that is not stored could not be asked for", param="background")
    if services.background.full:
        raise StreamFault(Fault("rate-limit", "too many responses are being made in the background", retry_after=5))
    known = await known_of(visit, body)
    keeper, live = Keeper(visit, known), Live({})

    def keep(response: Object) -> None:
        live.response = response
        keeper.keep(response)

    asked = await visit.offload(lambda: asked_of(visit, body, known, keep, background=True))
    follow, asked.request.stream = asked.request.stream, True
    asked.request.model = asked.request.model or services.default
    visit.caller.check(asked.request.model)
    if not services.means(asked.request.model):
        raise StreamFault(unknown_model(ValueError(f"{asked.request.model!r} is no model that is known here")))
    keep(shell(asked, "queued"))

    forget_body = visit.hand_over_body()  # it is held longer than the client's own request

    async def work(live: Live) -> None:
        live.response = {**live.response, "status": "in_progress"}
        try:
            await inside.run(Door("responses", lambda _: asked), visit, live.send, live.off, begun=True)
        finally:
            forget_body()
        if live.response["status"] in _BEGUN:
            lost = {"status": "failed", "error": _LOST} if services.stopped else {"status": "cancelled"}
            keep({**live.response, **lost})

    first = _encode(live.response)
    services.background.start(visit.caller.tenant, live, work)
    return Flow(_from(live.follow(), -1)) if follow else first
