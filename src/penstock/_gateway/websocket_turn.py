"""One request on a WebSocket: runs the turn and sends its events as messages, and remembers its response."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _protocols as protocols
from penstock._framing.sse import SseParser
from penstock._gateway import error_responses
from penstock._gateway.client_stream import Translation
from penstock._gateway.endpoints import ClientEndpoint, Headers, IncomingRequest, TurnRequest
from penstock._gateway.endpoints.responses import ResponseSaver, build_turn_request, check_model, resolve_request
from penstock._gateway.endpoints.stored_responses import PREVIOUS_ID, ResolvedInput
from penstock._gateway.internal_turn import run_internal_turn
from penstock._http.response_writer import BODY
from penstock._lenient_json import parse_lenient
from penstock._store.key_value import ConversationPast
from penstock.errors import PenstockError
from penstock.events import Fault, Finish, Start, Usage

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from penstock._gateway.byte_budget import ConnectionBytes
    from penstock._lenient_fields import Object


_OK = 200
_DONE_MARK = b"[DONE]"
_ERROR_EVENT = re.compile(rb'\s*\{\s*"type"\s*:\s*"error"')
_FAILED_EVENT = re.compile(rb'\s*\{\s*"type"\s*:\s*"response\.failed"')


def error_event(status: int, data: bytes, headers: Headers) -> bytes:
    """Return an error body, or an error inside a stream, as the message that ends a turn.

    It includes the status and headers of HTTP: Codex repeats a request after a 429 only if `headers` say when
    (https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/endpoint/responses_websocket.rs).
    """
    body = lenient.as_object(parse_lenient(data)) if data[:1] == b"{" else {}
    error = lenient.get_object(body, "error") or body
    kind = lenient.get_text(error, "type") or "server_error"
    full = {
        "type": kind,
        "code": lenient.get_text(error, "code") or kind,  # always a string in OpenAI's schema
        "message": lenient.get_text(error, "message") or "the request failed",
        "param": error.get("param"),
    }
    event = {"type": "error", "sequence_number": 0, "status": status, "error": full}
    return msgspec.json.encode({**event, "headers": _headers_object(headers)})


def failure_event(data: bytes) -> bytes:
    """Add the HTTP status and headers of the error to a `response.failed` event."""
    status, _, headers = _mid_stream_error(data)
    event = lenient.as_object(parse_lenient(data))
    return msgspec.json.encode({**event, "status": status, "headers": _headers_object(headers)}) if event else data


def _mid_stream_error(data: bytes) -> tuple[int, bytes, Headers]:
    """Return the HTTP response of an error inside a stream, whether its fields are flat or nested."""
    decode = protocols.decoder("responses")
    events = [*decode.feed([(b"", data)]), *decode.finish()]
    fault = next((event for event in events if isinstance(event, Fault)), Fault("server", ""))
    headers = tuple(one for one in error_responses.error_headers(fault) if one[0] != error_responses.REFUSED_BY)
    return error_responses.error_status(fault, "responses"), error_responses.error_body("responses", fault), headers


def _headers_object(headers: Headers) -> dict[str, str]:
    """Return headers as a JSON object, without those that describe a body."""
    texts = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    return {name: value for name, value in texts if not name.startswith("content-")}


class WebSocketSender:
    """Replaces ASGI's `send`: sends the events of a stream as messages. `ended` is set once the response has ended.

    A turn ends with one message. An error that a failed response follows is not sent: the client would read it as the
    answer to its next request. `stream_id` is the client's id of the request; every message repeats it.
    """

    def __init__(
        self, text: Callable[[bytes], Awaitable[None]], pause: Callable[[], Awaitable[None]], stream_id: Any = None
    ) -> None:
        self.ended = False
        self._send_text, self._pause = text, pause
        is_named = isinstance(stream_id, str)
        self._suffix = b',"stream_id":%b}' % msgspec.json.encode(stream_id) if is_named else b""
        self._status = _OK
        self._parser = SseParser()
        self._refusal = b""
        self._headers: Headers = ()
        self._error = b""

    async def send(self, message: Any) -> None:
        if message["type"] != BODY:
            self._status, self._headers = message["status"], tuple(message.get("headers") or ())
            return
        if self._status != _OK:
            self._refusal += message["body"]
        else:
            await self._send_events(message["body"])
        if not message["more_body"]:
            await self._end()

    async def _send_events(self, data: bytes) -> None:
        frames = self._parser.feed([data]) if data else []
        if not frames:
            await self._pause()
        for _, payload in frames:
            if _ERROR_EVENT.match(payload):
                self._error = payload
            elif payload != _DONE_MARK:
                await self._send_message(failure_event(payload) if _FAILED_EVENT.match(payload) else payload)

    async def _send_message(self, payload: bytes) -> None:
        await self._send_text(payload.rstrip()[:-1] + self._suffix if self._suffix else payload)

    async def refuse(self, status: int, data: bytes, headers: Headers) -> None:
        """Send an error instead of a response."""
        await self._send_message(error_event(status, data, headers))

    async def _end(self) -> None:
        if self._status != _OK:
            await self.refuse(self._status, self._refusal, self._headers)
        elif self._error and not self.ended:
            await self.refuse(*_mid_stream_error(self._error))


MAX_RESPONSES = 16


class _Segment(NamedTuple):
    """The bytes of one turn. Compared by identity: turns of one conversation share the earlier segments."""

    size: int
    name: object


class _RememberedResponse(NamedTuple):
    past: ConversationPast
    segments: tuple[_Segment, ...]


class ResponseMemory:
    """The last responses of a WebSocket with their history, limited in number and bytes.

    If a response is no longer remembered, the client must send the whole conversation again.
    """

    def __init__(self, account: ConnectionBytes) -> None:
        self._account = account
        self._responses: OrderedDict[str, _RememberedResponse] = OrderedDict()

    def find(self, id: str) -> ConversationPast | None:
        found = self._responses.get(id)
        return found.past if found is not None else None

    def add(self, id: str, past: ConversationPast, size: int, previous: str = "") -> None:
        """Remember a response. `size`: the bytes that this turn added to those of `previous`."""
        before = self._responses.get(previous)
        segments = (*(before.segments if before else ()), _Segment(size, object()))
        self._responses[id] = _RememberedResponse(past, segments)
        self._responses.move_to_end(id)
        while self._responses and (len(self._responses) > MAX_RESPONSES or self._size() > self._account.limit):
            self._responses.popitem(last=False)
        self._account.remember(self._size())

    def drop(self, id: str) -> None:
        if self._responses.pop(id, None) is not None:
            self._account.remember(self._size())

    def clear(self) -> None:
        self._responses.clear()
        self._account.remember(0)

    def _size(self) -> int:
        segments = {segment for response in self._responses.values() for segment in response.segments}
        return sum(segment.size for segment in segments)


@dataclass(slots=True, eq=False)
class WebSocketTurn:
    """A request on a WebSocket. `done` is set once its response is complete and remembered in `memory`."""

    incoming: IncomingRequest
    body: Object
    sender: WebSocketSender
    memory: ResponseMemory
    gone: asyncio.Event
    done: bool = False

    async def run(self) -> None:
        """Answer the request with a turn."""
        endpoint = ClientEndpoint("responses", self._read)
        await run_internal_turn(endpoint, self.incoming, self.sender.send, self.gone)

    async def remember(self) -> None:
        """Answer a request with `generate: false`: remember its input for the next request, and ask no provider."""
        try:
            turn_request = await self._read(self.incoming)
            check_model(self.incoming, turn_request)
        except PenstockError as error:
            fault = error_responses.fault_from_error(error, "responses")
            await self.sender.refuse(*error_responses.error_response("responses", fault))
            return
        writer = Translation(turn_request)
        data = writer.feed((b"", [Start(), Usage(input=0, output=0), Finish("stop")])) + writer.finish()
        assert turn_request.wrap_send is not None  # noqa: S101 — set by `_read`
        await turn_request.wrap_send(self.sender.send)({"type": BODY, "body": data, "more_body": False})

    async def _read(self, incoming: IncomingRequest) -> TurnRequest:
        resolved = await resolve_request(incoming, self.body, self.memory)
        saver = ResponseSaver(incoming, resolved) if self.body.get("store") is not False else None

        def save(response: Object) -> None:
            self._save(response, resolved, saver)

        return await incoming.offload(lambda: build_turn_request(incoming, self.body, resolved, save))

    def _save(self, response: Object, resolved: ResolvedInput, saver: ResponseSaver | None) -> None:
        self.sender.ended = True
        if response.get("status") not in {"completed", "incomplete"}:
            return
        chain = saver.save(response) if saver is not None else None
        past, output = resolved.past.items if resolved.past else [], lenient.get_list(response, "output")
        previous, memory = str(self.body.get(PREVIOUS_ID)), self.memory
        size = len(self.incoming.raw) + len(msgspec.json.encode(output))
        if past and memory.find(previous) is None:  # it came from the store
            size += len(msgspec.json.encode(past))
        memory.add(response["id"], ConversationPast([*past, *resolved.new, *output], chain), size, previous)
        self.done = True
