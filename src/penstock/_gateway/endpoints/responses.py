"""The Responses API: turns over HTTP and WebSocket, background responses.

A request that continues an earlier response gets its whole history; its response is stored unless the request has
`store: false`. Stored responses are served by `stored_responses`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock._framing.sse import SseParser
from penstock._gateway.background_responses import BackgroundResponse
from penstock._gateway.endpoints import ClientEndpoint, IncomingRequest, TurnRequest, is_replay
from penstock._gateway.endpoints import stored_responses as stored
from penstock._gateway.endpoints.count_tokens import count_request
from penstock._gateway.endpoints.stored_responses import PREVIOUS_ID, ResolvedInput
from penstock._gateway.error_responses import unknown_model_fault
from penstock._gateway.internal_turn import run_internal_turn
from penstock._http.response_writer import BODY, EventStream
from penstock._input_limits import decode_deep
from penstock._messages.request_codecs import reader
from penstock._protocols.responses.encode import DEFAULTS
from penstock._store.key_value import StoredTurn
from penstock.errors import BadRequest, PenstockError, StreamFault
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock._gateway.catalogue import ModelCatalogue
    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object

    Send = Callable[[Any], Awaitable[None]]

PROVIDER_HISTORY = ("elsewhere",)  # the history is stored by the provider, not here
GATEWAY_FIELDS = ("background", "generate", "stream_id", "type")  # fields that are not sent to providers


async def read_responses(incoming: IncomingRequest) -> TurnRequest:
    """`POST /v1/responses`."""
    body = await incoming.offload(incoming.json_body)
    known = await resolve_request(incoming, body)
    own_id = bool(incoming.services.resume.resume_mode(incoming))  # a stream that is kept is found by its response's id
    keep = ResponseSaver(incoming, known, own_id=own_id).save if body.get("store") is not False else None
    return await incoming.offload(lambda: build_turn_request(incoming, body, known, keep, own_id=own_id))


async def resolve_request(
    incoming: IncomingRequest, body: Object, memory: stored.ResponseLookup | None = None
) -> ResolvedInput:
    """Return a request with its history, or raise for features that are not supported."""
    if body.get("conversation") is not None:
        reason = "conversation: conversations are not served here; leave it out and go on with previous_response_id"
        raise stored.responses_error(reason, param="conversation")
    if is_replay(body):
        body.setdefault("input", [])
    forwarded = {key: value for key, value in body.items() if key not in GATEWAY_FIELDS}
    return await stored.resolve_input(incoming, forwarded, memory)


def build_turn_request(
    incoming: IncomingRequest,
    body: Object,
    known: ResolvedInput,
    keep: Callable[[Object], Any] | None,
    *,
    background: bool = False,
    own_id: bool = False,
) -> TurnRequest:
    """Build the turn. `keep` is called with the complete response. `own_id`: it never has the provider's id."""
    request, own_id = reader("responses")(known.body), own_id or background
    turn_request = TurnRequest(
        request, "responses", operation="responses", allow_passthrough=known.past is None and not own_id
    )
    turn_request.cacheable = not background and body.get(PREVIOUS_ID) is None
    turn_request.options = {
        "id": f"resp_{incoming.id}",
        "model": request.model,
        "created": int(time.time()),
        "clock": _unix_time,
        "settings": {**echo_settings(body, background=background), PREVIOUS_ID: body.get(PREVIOUS_ID)},
        "renames": "all" if own_id else "foreign",
    }
    if keep is not None:
        turn_request.wrap_send = ResponseCapture(keep).wrap_send
    return turn_request


class ResponseSaver:
    """Stores the response of a request: once, or several times for a background response.

    `own_id`: the response has the id of the request; the key of its row too, so that any replica can delete it.
    """

    def __init__(self, incoming: IncomingRequest, known: ResolvedInput, *, own_id: bool = False) -> None:
        self._store, self._tenant = incoming.services.response_store, incoming.caller.tenant
        past = known.past
        self._before = () if past is None or past.chain is None else past.chain
        if known.body.get(PREVIOUS_ID) is not None:
            self._before = PROVIDER_HISTORY
        # a history that only the connection has is stored with this response
        self._input = [*past.items, *known.new] if past is not None and past.chain is None else known.new
        self._key = incoming.id if own_id else ""

    def save(self, response: Object) -> tuple[str, ...]:
        """Store a response. Returns the ids of all rows of the conversation."""
        self._key = self._store.put(self._tenant, StoredTurn(self._input, response), self._before, self._key)
        return (*self._before, self._key)


def check_model(incoming: IncomingRequest, turn_request: TurnRequest) -> None:
    """Set the default model, and raise if the model is unknown or the caller may not use it."""
    catalogue: ModelCatalogue = incoming.services.catalogue
    model = turn_request.request.model = turn_request.request.model or catalogue.default_model
    incoming.caller.check_model(model)
    if not catalogue.is_known(model):
        raise StreamFault(unknown_model_fault(ValueError(f"{model[:200]!r} is no model that is known here")))


def unfinished_response(turn_request: TurnRequest, status: str) -> Object:
    """Return a response object without output."""
    options: dict[str, Any] = turn_request.options
    head = {"id": options["id"], "object": "response", "status": status, "created_at": options["created"]}
    model = turn_request.request.model
    return {**DEFAULTS, **options["settings"], **head, "output": [], "model": model, "usage": None}


def _unix_time() -> int:
    return int(time.time())


async def start_background_response(services: Services, incoming: IncomingRequest) -> bytes | EventStream:
    """Start a background response. With `stream` the client follows it and may reconnect."""
    body = await incoming.offload(incoming.json_body)
    if body.get("store") is False:
        reason = "background: a response that is not stored could not be asked for"
        raise stored.responses_error(reason, param="background")
    if services.background.is_full:
        raise StreamFault(Fault("rate-limit", "too many responses are being made in the background", retry_after=5))
    known = await resolve_request(incoming, body)
    saver, live = ResponseSaver(incoming, known, own_id=True), BackgroundResponse({})

    def keep(response: Object) -> None:
        live.response = response
        saver.save(response)

    turn_request = await incoming.offload(lambda: build_turn_request(incoming, body, known, keep, background=True))
    follow, turn_request.request.stream = turn_request.request.stream, True
    check_model(incoming, turn_request)
    keep(unfinished_response(turn_request, "queued"))

    release_body = incoming.detach_body()  # it is held longer than the client's request

    async def work(live: BackgroundResponse) -> None:
        live.response = {**live.response, "status": "in_progress"}
        try:
            endpoint = ClientEndpoint("responses", lambda _: turn_request)
            await run_internal_turn(endpoint, incoming, live.send, live.cancel_event, begun=True)
        finally:
            release_body()
        if live.response["status"] in stored.UNFINISHED:
            lost = {"status": "failed", "error": stored.STOPPED_ERROR} if services.stopped else {"status": "cancelled"}
            keep({**live.response, **lost})
        if services.config.stores.postgres:  # whoever sees the end on another replica may read or delete the response
            await asyncio.to_thread(services.telemetry.state.flush)

    first = msgspec.json.encode(live.response)
    live.writer = services.resume.begin_background(incoming, turn_request, first)
    live.writer.when_cancelled(live.cancel_event.set)
    await services.resume.log.flush()  # a replica that is asked for it must know it
    services.background.start(incoming.caller.tenant, live, work)
    if not follow:
        return first
    stream = await services.resume.open(incoming.caller.tenant, incoming.id)
    assert stream is not None  # noqa: S101 — it has just begun
    return stream.events()


def find_background_handler(incoming: IncomingRequest) -> Any:
    """Return the handler of a background request."""
    if b'"background"' not in incoming.raw:
        return None
    try:
        return start_background_response if incoming.json_body().get("background") is True else None
    except PenstockError:
        return None  # the turn reports the error


RESPONSES = ClientEndpoint("responses", read_responses, find_background_handler)


_NOT_ECHOED = frozenset({"background", "completed_at", "error", "incomplete_details", "store"})  # set by the gateway
_TOOL_DEFAULTS: Object = {"type": "function", "name": "", "description": None, "parameters": None, "strict": None}
_SCHEMA_DEFAULTS: Object = {"type": "json_schema", "name": "", "description": None, "strict": False}
_REASONING_VALUES = {"effort": {"none", "low", "medium", "high", "xhigh"}, "summary": {"concise", "detailed", "auto"}}


def echo_settings(body: Object, *, background: bool = False) -> Object:
    """Return the settings that a response repeats from its request, in the full form of Open Responses.

    Built-in tools, schemas and efforts without an equivalent there are not repeated.
    """
    fields = {key: body[key] for key in DEFAULTS if key not in _NOT_ECHOED and body.get(key) is not None}
    full = {key: complete(fields[key]) for key, complete in _ECHO.items() if key in fields}
    return {**fields, **full, "background": background, "store": body.get("store") is not False}


def _echo_tools(given: Any) -> list[Object]:
    rows = [row for row in lenient.as_objects(given) if row.get("type") == "function"]
    return [{**_TOOL_DEFAULTS, **{key: row[key] for key in _TOOL_DEFAULTS if key in row}} for row in rows]


def _echo_reasoning(given: Any) -> Object:
    reasoning = lenient.as_object(given)
    known = {key: reasoning.get(key) in words for key, words in _REASONING_VALUES.items()}
    return {**reasoning, **{key: reasoning[key] if is_known else None for key, is_known in known.items()}}


def _echo_text(given: Any) -> Object:
    fields = {"format": {"type": "text"}, **lenient.as_object(given)}
    form = lenient.get_object(fields, "format")
    if form.get("type") != "json_schema":
        return fields
    return {**fields, "format": {**_SCHEMA_DEFAULTS, **form, "schema": None}}


def _echo_tool_choice(given: Any) -> Any:
    """Return the tool choice. A built-in tool becomes "required"."""
    if not isinstance(given, dict):
        return given
    choice = lenient.as_object(given)
    if choice.get("type") == "allowed_tools":
        functions = [row for row in lenient.get_objects(choice, "tools") if row.get("type") == "function"]
        return {"mode": "auto", **choice, "tools": functions}
    return choice if choice.get("type") == "function" else "required"


_ECHO: dict[str, Callable[[Any], Any]] = {
    "tools": _echo_tools,
    "reasoning": _echo_reasoning,
    "text": _echo_text,
    "tool_choice": _echo_tool_choice,
}


END_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_END_EVENT = re.compile(rb"response\.(?:completed|incomplete|failed)[\"\s]")
_OK = 200
log = logging.getLogger("penstock.gateway")


@dataclass(slots=True, eq=False)
class ResponseCapture:
    """Wraps ASGI's `send` and calls `keep` once with the complete response, before the client can ask for it.

    It reads the bytes that are sent, so that the stored response is the one that the client got.
    """

    keep: Callable[[Object], None]
    _status: int = _OK
    _stream: bool = True
    _done: bool = False
    _parser: SseParser | None = None

    def wrap_send(self, send: Send) -> Send:
        async def sending(message: Any) -> None:
            if message["type"] != BODY:
                self._status = message["status"]
                self._stream = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            elif not self._done and message["body"]:
                self._read_sent(message["body"])
            await send(message)

        return sending

    def _read_sent(self, data: bytes) -> None:
        if not self._stream:
            if self._status == _OK:
                self._keep_response(_decode_object(data))
        elif self._parser is not None or _END_EVENT.search(data) is not None:
            self._parser = self._parser or SseParser()
            for _, payload in self._parser.feed([data]):
                if _END_EVENT.search(payload) is not None:  # the words may also occur in text
                    value = _decode_object(payload)
                    self._keep_response(
                        value["response"] if value.get("type") in END_EVENTS and "response" in value else {}
                    )

    def _keep_response(self, response: Any) -> None:
        value = lenient.as_object(response)
        if lenient.get_text(value, "id") and isinstance(value.get("output"), list):
            self._done = True
            try:
                self.keep(value)
            except Exception:  # the answer is sent anyway
                log.exception("response %s was not kept", value["id"])


def _decode_object(data: bytes) -> Object:
    try:
        return lenient.as_object(decode_deep(data, trusted=True))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


async def count_input_tokens(services: Services, incoming: IncomingRequest) -> bytes:
    """`POST /v1/responses/input_tokens`: counts the tokens of a request with its history."""
    body = await incoming.offload(incoming.json_body)
    if body.get("input", "") is None:
        raise BadRequest("a text or a list", None, "input")
    request = reader("responses")((await resolve_request(incoming, body)).body)
    count = await count_request(services, incoming, request, "responses")
    return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": count.tokens})
