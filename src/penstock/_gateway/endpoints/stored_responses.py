"""Stored responses: resolves the history of a request, and serves, lists, cancels and deletes them over HTTP.

A request may continue a response, reference stored items, or contain compacted conversations. All become plain input.
Responses belong to a tenant: another tenant's response is not found.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _protocols as protocols
from penstock._bridge import encoding
from penstock._engines.model_resolution import resolve_targets
from penstock._engines.request_plan import find_endpoint
from penstock._framing.sse import SseParser, SseWriter
from penstock._gateway.endpoints import IncomingRequest, query_integer
from penstock._gateway.stream_resume import DeletedStream
from penstock._http.response_writer import EventStream
from penstock._store.key_value import ID_PREFIX, ConversationPast
from penstock._vendor_errors import PARAM
from penstock.errors import PenstockError, StreamFault
from penstock.events import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from penstock._gateway.services import Services
    from penstock._gateway.stream_resume import FollowedStream
    from penstock._lenient_fields import Object

RESPONSES = "responses"  # the protocol whose requests may go on from a response, and its operation
PREVIOUS_ID = "previous_response_id"
UNFINISHED = frozenset({"queued", "in_progress"})


class ResponseLookup(Protocol):
    """Finds responses that a WebSocket remembers."""

    def find(self, id: str) -> ConversationPast | None: ...


class ResolvedInput(msgspec.Struct):
    """A request with its history: the body, its own input, and the earlier items."""

    body: Any
    new: list[Any]
    past: ConversationPast | None = None


def responses_error(message: str, *, code: str = "", param: str = "", status: int = 400) -> StreamFault:
    """Return an error of the Responses API."""
    kind: FaultKind = "not-found" if status == 404 else "invalid"  # noqa: PLR2004
    return StreamFault(
        Fault(kind, message, status=status, code=code, extra={RESPONSES: {PARAM: param}} if param else None)
    )


def previous_not_found(id: str) -> StreamFault:
    """Return the error of an unknown previous response."""
    reason = f"Previous response with id {id[:200]!r} not found; send the whole conversation without {PREVIOUS_ID}."
    return responses_error(reason, code="previous_response_not_found", param=PREVIOUS_ID)


async def resolve_input(incoming: IncomingRequest, body: Object, memory: ResponseLookup | None = None) -> ResolvedInput:
    """Return a request with its history."""
    new, previous = input_items(body), body.get(PREVIOUS_ID)
    if previous is None:
        return await _expand_items(incoming, ResolvedInput(body, new))
    if not isinstance(previous, str):
        raise responses_error(f"{PREVIOUS_ID}: expected a string", param=PREVIOUS_ID)
    past = memory.find(previous) if memory else None
    if past is None:
        services, tenant = incoming.services, incoming.caller.tenant
        past = await services.response_reads.read(lambda: services.response_store.past(tenant, previous))
    if past is None and memory is None and _provider_may_know(incoming, body):
        # The provider may have stored it before the gateway was used.
        return await _expand_items(incoming, ResolvedInput(body, new))
    if past is None or _is_running(incoming, previous):
        raise previous_not_found(previous)
    rest = {key: value for key, value in body.items() if key != PREVIOUS_ID}
    result = await _expand_items(incoming, ResolvedInput(rest, new, past))
    check_call_outputs([*past.items, *result.new])
    return result


def input_items(body: Object) -> list[Any]:
    """Return the input as a list. The request reader refuses other types."""
    given: Any = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}] if given else []
    return lenient.get_list(body, "input")


def check_call_outputs(items: list[Any]) -> None:
    """Raise if a tool output has no matching call."""
    calls: set[str] = set()
    for item in lenient.as_objects(items):
        if _is_reference(item):
            return  # it may be the call
        kind, call = lenient.get_text(item, "type"), lenient.get_text(item, "call_id")
        if kind.endswith("_call_output") and call and call not in calls:
            name = kind.removesuffix("_output").replace("_", " ")
            raise responses_error(f"No tool call found for {name} output with call_id {call}.", param="input")
        calls.add(call or lenient.get_text(item, "id"))


def _is_running(incoming: IncomingRequest, id: str) -> bool:
    return incoming.services.background.get(incoming.caller.tenant, id) is not None


async def _expand_items(incoming: IncomingRequest, made: ResolvedInput) -> ResolvedInput:
    """Replace references by their items, and expand compactions."""
    items = [*(made.past.items if made.past else ()), *made.new]
    names = [lenient.get_text(item, "id") for item in lenient.as_objects(made.new) if _is_reference(item)]
    there = {lenient.get_text(item, "id") for item in lenient.as_objects(items) if not _is_reference(item)}
    reads, store, tenant = incoming.services.response_reads, incoming.services.response_store, incoming.caller.tenant
    known: dict[str, Object] = await reads.read(lambda: store.items(tenant, names)) if names else {}
    if known:
        made.new = [_resolve_reference(item, known, there) for item in made.new]
        made.new = [item for item in made.new if item is not None]
        items = [*(made.past.items if made.past else ()), *made.new]
    full = expand_compactions(items)
    if made.past is not None or known or full is not items:
        made.body = {**made.body, "input": full}
        incoming.history_bytes = max(0, len(_encode(full)) - len(incoming.raw))
    return made


def _is_reference(item: Object) -> bool:
    kind = item.get("type", "" if "role" in item else "item_reference")
    return bool(kind == "item_reference")


def _resolve_reference(item: Any, known: dict[str, Object], there: set[str]) -> Any:
    """Return the referenced item; None if the conversation already contains it."""
    row = lenient.as_object(item)
    if not row or not _is_reference(row):
        return item
    name = lenient.get_text(row, "id")
    return None if name in there else known.get(name, row)


def _provider_may_know(incoming: IncomingRequest, body: Object) -> bool:
    """Return whether the provider may have the response itself. Never true if tenants share a provider key."""
    services = incoming.services
    if services.access.keyed and not incoming.caller.forward:
        return False
    try:
        model = lenient.get_text(body, "model") or services.catalogue.default_model
        targets = resolve_targets(model, services.upstream.router.config, services.env)
        return all(find_endpoint(target, RESPONSES)[1].protocol == RESPONSES for target in targets)
    except PenstockError:
        return False


SUMMARY_PREFIX = "penstock1."
MAX_SUMMARY_BYTES = 2**20  # bytes of a summary
SUMMARY_INTRODUCTION = "What was said before this point was cut short. A summary of it:\n\n"


def pack_summary(summary: str) -> str:
    """Encode a summary for a compaction item. It is not secret: the client has sent the conversation."""
    packed = zlib.compress(summary.encode("utf-8", "replace")[:MAX_SUMMARY_BYTES])
    return SUMMARY_PREFIX + urlsafe_b64encode(packed).decode()


def unpack_summary(content: str) -> str | None:
    """Decode a summary; None if it is damaged or from another vendor."""
    if not content.startswith(SUMMARY_PREFIX):
        return None
    try:
        packed = urlsafe_b64decode(content.removeprefix(SUMMARY_PREFIX))
        return zlib.decompressobj().decompress(packed, MAX_SUMMARY_BYTES).decode("utf-8", "replace")
    except (ValueError, zlib.error):
        return None


def expand_compactions(items: list[Any]) -> list[Any]:
    """Replace our compaction items by messages. Returns the same list if there are none."""
    result = [_expand_compaction(item) for item in items]
    return items if all(new is old for new, old in zip(result, items, strict=True)) else result


def _expand_compaction(item: Any) -> Any:
    row: Object = lenient.as_object(item)
    if row.get("type") != "compaction":
        return item
    summary = unpack_summary(lenient.get_text(row, "encrypted_content"))
    if summary is None:
        return item
    content = [{"type": "input_text", "text": SUMMARY_INTRODUCTION + summary}]
    return {"type": "message", "role": "user", "content": content}


PREFIX = "/v1/responses/"
PAGE_SIZE, MAX_PAGE_SIZE = 20, 100  # items

STOPPED_ERROR = {"code": "server_error", "message": "the gateway was stopped before this response was done"}
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


# ── what there is ─────────────────────────────────────────────────────────────────────────────────


async def get_response(services: Services, incoming: IncomingRequest) -> bytes | EventStream:
    """`GET /v1/responses/{id}`; with `?stream=true` as a stream."""
    id, tenant = incoming.params["response"], incoming.caller.tenant  # noqa: A001 — as the protocol calls it
    stream = incoming.query.get("stream") == "true"
    after = query_integer(incoming.query, "starting_after", -1, least=-1)
    logged = await _open_log(services, incoming, needed=stream)
    resumed = await logged.after_event(incoming) if stream and logged is not None else None
    if resumed is not None:
        return resumed
    if stream and logged is not None:
        last = b'"sequence_number":%d' % after if after >= 0 else b""
        return logged.events(last=last, is_seen=(lambda frame: _frame_number(frame) <= after) if last else None)
    live = services.background.get(tenant, id)
    if live is not None:
        return _encode(live.response)
    if logged is not None and not logged.state and logged.head.response:  # it runs on another replica
        return _encode({**_decode(logged.head.response), "status": "in_progress"})
    response = await _load_response(services, incoming, logged)
    return EventStream(frames_after(_replay_response(response), after)) if stream else _encode(response)


async def delete_response(services: Services, incoming: IncomingRequest) -> bytes:
    """`DELETE /v1/responses/{id}`. Later responses of the conversation lose this part of their history.

    The replica that makes the response may write it again: the store refuses that. If a store is away the answer is an
    error, and the request can be sent again: a response that is called deleted must not come back with the store.
    """
    id, tenant, store = incoming.params["response"], incoming.caller.tenant, services.response_store  # noqa: A001
    logged = await _open_log(services, incoming, needed=True)
    await _cancel(services, tenant, id)
    stored = await services.response_reads.read(lambda: store.drop(tenant, id, exists=logged is not None))
    if logged is not None:
        await services.resume.drop(tenant, id.removeprefix(ID_PREFIX))
    if not stored and logged is None:
        raise _response_not_found(id)
    return _encode({"id": id, "object": "response", "deleted": True})


async def cancel_response(services: Services, incoming: IncomingRequest) -> bytes:
    """`POST /v1/responses/{id}/cancel`: for background responses; one that has ended does not change."""
    id, tenant = incoming.params["response"], incoming.caller.tenant  # noqa: A001
    await _open_log(services, incoming)
    await _cancel(services, tenant, id)
    logged = await _open_log(services, incoming)
    response = await _load_response(services, incoming, logged)
    if not response.get("background"):
        raise responses_error("Only a response with background set to true can be cancelled: this one was waited for.")
    return _encode(response)


async def list_input_items(services: Services, incoming: IncomingRequest) -> bytes:
    """`GET /v1/responses/{id}/input_items`: the input with its history, the latest first."""
    id, tenant = incoming.params["response"], incoming.caller.tenant  # noqa: A001
    found = await services.response_reads.read(lambda: services.response_store.input_items(tenant, id))
    if found is None:
        raise _response_not_found(id)
    items = [_format_input_item(item, f"{id.removeprefix('resp_')}_{position}") for position, item in enumerate(found)]
    if incoming.query.get("order", "desc") != "asc":
        items.reverse()
    names = [item["id"] for item in items]
    after = incoming.query.get("after")
    size = min(max(query_integer(incoming.query, "limit", PAGE_SIZE), 1), MAX_PAGE_SIZE)
    if after is not None and after not in names:
        raise responses_error(f"after: there is no item {after[:200]!r} here", param="after")
    start = names.index(after) + 1 if after is not None else 0
    page = items[start : start + size]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return _encode({"object": "list", "data": page, **ends, "has_more": start + size < len(items)})


ROUTES: Mapping[tuple[str, str], Callable[[Any, Any], Awaitable[bytes | EventStream]]] = {
    ("GET", ""): get_response,
    ("DELETE", ""): delete_response,
    ("POST", "cancel"): cancel_response,
    ("GET", "input_items"): list_input_items,
}


async def _cancel(services: Services, tenant: str, id: str) -> None:
    """Cancel a background response, on whatever replica it runs."""
    if not await services.background.cancel(tenant, id):
        await services.resume.cancel(tenant, id.removeprefix(ID_PREFIX))


async def _open_log(services: Services, incoming: IncomingRequest, *, needed: bool = False) -> FollowedStream | None:
    """Return the stream of a response, if it is kept. Raises if the response was deleted on any replica."""
    id, tenant = incoming.params["response"], incoming.caller.tenant  # noqa: A001
    await services.response_reads.apply_deletions()
    try:
        return await services.resume.open(tenant, id.removeprefix(ID_PREFIX), needed=needed)
    except DeletedStream:
        store = services.response_store  # stores may be separate
        await services.telemetry.state.read(lambda: store.drop(tenant, id, exists=True))
        raise _response_not_found(id) from None


async def _load_response(services: Services, incoming: IncomingRequest, logged: FollowedStream | None) -> Object:
    """Return a response that has ended: from the store, or from its log if another replica has stored it."""
    id, tenant = incoming.params["response"], incoming.caller.tenant  # noqa: A001
    found = await services.response_reads.read(lambda: services.response_store.get(tenant, id))
    if found is not None and found.response.get("status") not in UNFINISHED:
        return found.response
    if logged is not None and logged.head.response:
        return await _read_logged_response(logged)
    if found is None:
        raise _response_not_found(id)
    await _open_log(services, incoming, needed=True)  # without the store of streams, nobody knows whether it runs
    return {**found.response, "status": "failed", "error": STOPPED_ERROR}


async def _read_logged_response(logged: FollowedStream) -> Object:
    """Return the response from the last frame of its stream. One without a last frame was cancelled."""
    for _, payload in reversed(SseParser().feed([await logged.read_all()])):
        value = _decode(payload) if payload[:1] == b"{" else {}
        if isinstance(value.get("response"), dict):
            response = lenient.as_object(value["response"])
            if response.get("status") not in UNFINISHED:
                return response
            break
    first: Object = _decode(logged.head.response)
    if logged.state == "lost":
        return {**first, "status": "failed", "error": STOPPED_ERROR}
    return {**first, "status": "cancelled"}


def _response_not_found(id: str) -> StreamFault:
    return responses_error(f"Response with id {id[:200]!r} not found.", code="response_not_found", status=404)


def _format_input_item(item: Any, name: str) -> Object:
    """Format an item for a list: content as parts, and an id."""
    result: Object = {"type": "message", **item} if "role" in item else dict(item)
    if result.get("type") == "message" and isinstance(result.get("content"), str):
        kind = "output_text" if result["role"] == "assistant" else "input_text"
        result["content"] = [{"type": kind, "text": result["content"]}]
    return {**result, "id": result.get("id") or f"item_{name}"}


# ── as a stream ───────────────────────────────────────────────────────────────────────────────────


async def _replay_response(response: Object) -> AsyncIterator[bytes]:
    """Encode a stored response as a stream."""
    decode = protocols.decoder(RESPONSES)
    events = [*decode.feed([(b"", _encode(response))]), *decode.finish()]
    pipe = encoding(RESPONSES, {"id": response["id"], "model": response["model"]})
    for chunk in (*pipe.feed(events), *pipe.finish()):
        yield chunk


async def frames_after(chunks: AsyncIterator[bytes], after: int) -> AsyncIterator[bytes]:
    """Yield the frames after a sequence number that the client has seen."""
    parser, writer = SseParser(), SseWriter()
    async for chunk in chunks:
        frames = [frame for frame in parser.feed([chunk]) if _sequence_number(frame[1]) > after]
        if frames:
            yield b"".join(writer.feed(frames))


def _frame_number(frame: bytes) -> int:
    """Return the number of a frame as it was sent. A comment counts as seen."""
    found = SseParser().feed([frame])
    return _sequence_number(found[0][1]) if found else -1


def _sequence_number(data: bytes) -> int:
    """Return a frame's number. The end mark has none and counts as the last."""
    return msgspec.json.decode(data, type=_SequencedEvent).sequence_number if data[:1] == b"{" else 2**53


class _SequencedEvent(msgspec.Struct):
    sequence_number: int = 0
