"""One request of a WebSocket: a turn whose events are its messages, or a note for the next one. Leans on `inside`."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock import lenient_fields as lenient
from penstock import protocols
from penstock.errors import PenstockError, StreamFault
from penstock.events import Fault, Finish, Start, Usage
from penstock.framing import SseParser
from penstock.gateway import error_responses, internal_turn
from penstock.gateway.client_stream import Translation
from penstock.gateway.endpoints import Door
from penstock.gateway.endpoints.responses import Keeper, asked_of, known_of
from penstock.gateway.endpoints.stored_responses import PREVIOUS
from penstock.http.response_writer import BODY
from penstock.jsontext import parse_lenient
from penstock.store.key_value import Past

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.gateway.byte_budget import ConnectionBytes
    from penstock.gateway.endpoints import Asked, Headers, Visit
    from penstock.gateway.endpoints.stored_responses import Told
    from penstock.gateway.websocket import Connection
    from penstock.lenient_fields import Object


class WebSocketTurn:
    """A request being answered. `done` once its response is whole, and remembered."""

    def __init__(self, connection: Connection, visit: Visit, body: Object) -> None:
        self._connection, self._visit, self._body = connection, visit, body
        self._frames = Frames(connection.text, connection.pause, body.get("stream_id"))
        self.done = False

    async def turn(self) -> None:
        """Ask somebody."""
        await internal_turn.run(Door("responses", self._asked), self._visit, self._frames.send, self._connection.gone)

    async def warm(self) -> None:
        """Only take note: the next request goes on from here, and nobody is asked for anything yet."""
        try:
            asked = await self._asked(self._visit)
            asked.request.model = asked.request.model or self._visit.services.default
            self._visit.caller.check(asked.request.model)
            if not self._visit.services.means(asked.request.model):
                said = ValueError(f"{asked.request.model[:200]!r} is no model that is known here")
                raise StreamFault(error_responses.unknown_model(said))
        except PenstockError as error:
            await self._frames.refuse(
                *error_responses.refusal("responses", error_responses.fault_of(error, "responses"))
            )
            return
        way = Translation(asked)
        data = way.feed((b"", [Start(), Usage(input=0, output=0), Finish("stop")])) + way.finish()
        assert asked.over is not None  # noqa: S101 — set by `_asked`
        await asked.over(self._frames.send)({"type": BODY, "body": data, "more_body": False})

    async def _asked(self, visit: Visit) -> Asked:
        known = await known_of(visit, self._body, self._connection.memory)
        keeper = Keeper(visit, known) if self._body.get("store") is not False else None
        return await visit.offload(
            lambda: asked_of(visit, self._body, known, lambda response: self._kept(response, known, keeper))
        )

    def _kept(self, response: Object, known: Told, keeper: Keeper | None) -> None:
        self._frames.ended = True
        if response.get("status") not in {"completed", "incomplete"}:
            return
        chain = keeper.keep(response) if keeper is not None else None
        past, output = known.past.items if known.past else [], lenient.get_list(response, "output")
        previous, memory = str(self._body.get(PREVIOUS)), self._connection.memory
        size = len(self._visit.raw) + len(msgspec.json.encode(output))
        if past and memory.find(previous) is None:  # it came from the store
            size += len(msgspec.json.encode(past))
        memory.keep(response["id"], Past([*past, *known.new, *output], chain), size, previous)
        self.done = True


_OK = 200
_DONE = b"[DONE]"
_ERROR = re.compile(rb'\s*\{\s*"type"\s*:\s*"error"')
_FAILED = re.compile(rb'\s*\{\s*"type"\s*:\s*"response\.failed"')


def error_event(status: int, data: bytes, headers: Headers) -> bytes:
    """The body of a refusal, or an error in mid-stream, as the message that ends a turn.

    It carries what HTTP would say beside the body: Codex repeats a request after a 429 only if `headers` say when
    (https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/endpoint/responses_websocket.rs).
    """
    said = lenient.as_object(parse_lenient(data)) if data[:1] == b"{" else {}
    error = lenient.get_object(said, "error") or said
    sort = lenient.get_text(error, "type") or "server_error"
    full = {
        "type": sort, "code": lenient.get_text(error, "code") or sort,  # a text, always: OpenAI's schema says so
        "message": lenient.get_text(error, "message") or "the request failed", "param": error.get("param"),
    }  # fmt: skip
    event = {"type": "error", "sequence_number": 0, "status": status, "error": full, "headers": _header_table(headers)}
    return msgspec.json.encode(event)


def failure_event(data: bytes) -> bytes:
    """A `response.failed` in mid-turn, with the status that the error has in HTTP and with when to come back."""
    status, _, headers = _failure(data)
    said = lenient.as_object(parse_lenient(data))
    return msgspec.json.encode({**said, "status": status, "headers": _header_table(headers)}) if said else data


def _failure(data: bytes) -> tuple[int, bytes, Headers]:
    """An error in mid-stream as HTTP would say it, by its own words: flat, or in an object of its own."""
    decode = protocols.decoder("responses")
    events = [*decode.feed([(b"", data)]), *decode.finish()]
    fault = next((event for event in events if isinstance(event, Fault)), Fault("server", ""))
    headers = tuple(one for one in error_responses.headers_of(fault) if one[0] != error_responses.REFUSED_BY)
    return error_responses.status_of(fault, "responses"), error_responses.body_of("responses", fault), headers


def _header_table(headers: Headers) -> dict[str, str]:
    """Headers as a frame has them, without those that describe a body."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers if not name.startswith(b"content-")
    }  # fmt: skip


class Frames:
    """In place of ASGI's `send`. `ended` once the response itself has said that it is over.

    A turn ends with one message: an error that a failed response follows is not sent, or it would be read as the
    answer to what is asked next. `lane` is the client's own name for it, which every message repeats.
    """

    def __init__(
        self, text: Callable[[bytes], Awaitable[None]], pause: Callable[[], Awaitable[None]], lane: Any = None
    ) -> None:
        self.ended = False
        self._say, self._pause = text, pause
        self._lane = b',"stream_id":%b}' % msgspec.json.encode(lane) if isinstance(lane, str) else b""
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
            await self._events(message["body"])
        if not message["more_body"]:
            await self._over()

    async def _events(self, data: bytes) -> None:
        frames = self._parser.feed([data]) if data else []
        if not frames:
            await self._pause()
        for _, payload in frames:
            if _ERROR.match(payload):
                self._error = payload
            elif payload != _DONE:
                await self._text(failure_event(payload) if _FAILED.match(payload) else payload)

    async def _text(self, payload: bytes) -> None:
        await self._say(payload.rstrip()[:-1] + self._lane if self._lane else payload)

    async def refuse(self, status: int, data: bytes, headers: Headers) -> None:
        """Say no, in place of a response."""
        await self._text(error_event(status, data, headers))

    async def _over(self) -> None:
        if self._status != _OK:
            await self.refuse(self._status, self._refusal, self._headers)
        elif self._error and not self.ended:
            await self.refuse(*_failure(self._error))


RESPONSES = 16


class _Segment(NamedTuple):
    """The bytes of one turn. Compared by identity: turns of one conversation share those before them."""

    size: int
    name: object


class _Kept(NamedTuple):
    past: Past
    segments: tuple[_Segment, ...]


class ResponseMemory:
    """The last responses of a connection. What is forgotten is not found; a client then sends all of it again."""

    def __init__(self, account: ConnectionBytes) -> None:
        self._account = account
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def find(self, id: str) -> Past | None:
        found = self._kept.get(id)
        return found.past if found is not None else None

    def keep(self, id: str, past: Past, size: int, previous: str = "") -> None:
        """Remember a response. `size`: the bytes that this turn added to those of `previous`."""
        before = self._kept.get(previous)
        self._kept[id] = _Kept(past, (*(before.segments if before else ()), _Segment(size, object())))
        self._kept.move_to_end(id)
        while self._kept and (len(self._kept) > RESPONSES or self._size() > self._account.limit):
            self._kept.popitem(last=False)
        self._account.remember(self._size())

    def drop(self, id: str) -> None:
        if self._kept.pop(id, None) is not None:
            self._account.remember(self._size())

    def clear(self) -> None:
        self._kept.clear()
        self._account.remember(0)

    def _size(self) -> int:
        return sum(segment.size for segment in {one for kept in self._kept.values() for one in kept.segments})
