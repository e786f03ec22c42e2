"""The endpoints of the gateway, one module for each client protocol, and the values that they share.

An `Endpoint` reads an `IncomingRequest` and returns a `TurnRequest`: what to ask a model, and the form of the answer.
"""

from __future__ import annotations

import os
import random
import re
import time
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import msgspec

from penstock import _protocols as protocols
from penstock import request as rq
from penstock._engines.failure_policy import RetryWait
from penstock._http.header_fields import read_headers
from penstock._input_limits import NestingError, decode_bounded
from penstock._lenient_json import parse_lenient_bounded, replace_surrogates
from penstock._messages.context_trimming import Cleared
from penstock._messages.request_codecs import reader
from penstock._providers.registry import PLAIN, ClientProfile
from penstock._strict_fields import read_deep_body
from penstock.errors import BadRequest, InputError, TooDeep

if TYPE_CHECKING:
    from penstock._gateway.byte_budget import ByteBudget
    from penstock._lenient_fields import Object
    from penstock._store.journal import JournalEntry

T = TypeVar("T")
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
ACCESS_KEY = "penstock.access"  # where the access log's entry is in an ASGI scope
REPLAY_PREFIX = "replay/"  # models that are packaged streams: a request needs no messages
LARGE_BODY = 256 * 1024  # bytes: larger bodies are converted in a thread; for smaller ones a thread costs more
_ids = random.Random()  # noqa: S311 — ids are not secrets, and the system's generator is slower
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.seed)  # workers must not make the same ids


class IncomingRequest:
    """An HTTP request or WebSocket message. `params` come from the path; `caller` is set once it is admitted."""

    __slots__ = (
        "_budget _counted_bytes access_entry aux_request caller client headers history_bytes id method params path "
        "query_string raw services started"
    ).split()

    def __init__(self, scope: Any) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope.get("query_string", b"")
        self.headers: dict[str, str] = read_headers(scope["headers"])
        self.params: dict[str, str] = {}
        self.raw: bytes = b""
        self.history_bytes: int = 0  # of earlier turns that the gateway has stored, and adds to the request
        self._budget: ByteBudget | None = None  # the budget that counts its body
        self._counted_bytes = 0
        self.caller: Any = None
        self.client: ClientProfile = PLAIN
        self.services: Any = None  # the gateway's `Services`, set once it is admitted
        self.aux_request: Any = None  # an `AuxRequest`, if the request is not a turn
        self.access_entry: Any = scope.get(ACCESS_KEY)  # of the access log, if there is one
        if self.access_entry is not None:
            self.access_entry.incoming = self
        self.id: str = f"{_ids.getrandbits(128):032x}"
        self.started: float = time.monotonic()

    def log_row(self, row: JournalEntry) -> None:
        """The journal gets a row for this request: the access log shows it, if there is one."""
        if self.access_entry is not None:
            self.access_entry.add_row(row)

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the query string."""
        return dict(parse_qsl(self.query_string.decode("latin-1"), keep_blank_values=True))

    def count_body(self, budget: ByteBudget) -> None:
        """Count the complete body in a budget."""
        budget.change(len(self.raw))
        self._budget, self._counted_bytes = budget, len(self.raw)

    def release_body(self) -> None:
        """Stop counting the body."""
        if self._budget is not None:
            self._budget.change(-self._counted_bytes)
            self._budget = None

    def detach_body(self) -> Callable[[], None]:
        """Return a function that stops counting the body, for work that outlives the request."""
        budget, self._budget = self._budget, None
        return partial(budget.change, -self._counted_bytes) if budget is not None else _do_nothing

    def without_body(self, *, headers: bool = True) -> IncomingRequest:
        """Return a copy without the body, and without the headers if they are not wanted either."""
        copied = copy(self)
        copied.raw = b""
        if not headers:
            copied.headers = {}
        return copied

    @property
    def prompt_bytes(self) -> int:
        """The bytes of the request with its history."""
        return len(self.raw) + self.history_bytes

    @property
    def is_small(self) -> bool:
        """Whether the body is converted on the event loop."""
        return len(self.raw) <= LARGE_BODY

    async def offload(self, work: Callable[[], T]) -> T:
        """Run `work` on the body: at once if the body is small, else in the conversion thread."""
        if self.is_small or self.services is None:
            return work()
        result: T = await self.services.conversion_thread.run(work)
        return result

    def json_body(self) -> Object:
        """Parse the body as a JSON object. Accepts some invalid JSON that programs send, such as lone surrogates."""
        try:
            value = decode_bounded(self.raw)
        except (msgspec.DecodeError, UnicodeError):
            value = self._repair_body()
        except NestingError as error:
            raise TooDeep(error.path) from None
        if not isinstance(value, dict):
            raise BadRequest("an object", value)
        return value  # pyright: ignore[reportUnknownVariableType]

    def _repair_body(self) -> Any:
        text = self.raw.removeprefix(BOM_UTF8).lstrip()
        try:
            value = replace_surrogates(parse_lenient_bounded(text)) if text[:1] == b"{" else None
        except NestingError as error:
            raise TooDeep(error.path) from None
        if value is None:
            excerpt = repr(self.raw[:80].decode("utf-8", "replace")) if self.raw else "it is empty"
            raise InputError(f"the body is not JSON: {excerpt}")
        return value


def _do_nothing() -> None:
    pass


class TurnRequest(msgspec.Struct):
    """A turn that a client asks for: the request, the operation, and the form of the answer.

    `source` is the protocol of the request if it differs from the answer's. `options` go to the encoder.
    `include_usage` is false if the client did not ask for a usage chunk at the end of the stream.
    """

    request: rq.Request
    protocol: str
    source: str = ""
    operation: str = "chat"
    framing: str = "sse"
    options: dict[str, Any] = {}
    headers: Headers = ()
    allow_passthrough: bool = True  # the provider's bytes may be sent unchanged if it speaks the same protocol
    include_usage: bool = True
    encoder: Callable[[], Any] | None = None  # replaces the protocol's encoder
    body: Callable[[Any], bytes] | None = None  # joins the encoder's frames to a body
    wrap_send: Callable[[Any], Any] | None = None  # wraps ASGI's `send`, to observe the answer
    turn_id: str = ""  # an id of the turn that the client sends back
    encode_notice: Callable[[RetryWait | Cleared], bytes] | None = None  # encodes a notice beside the answer
    cacheable: bool = True  # the answer depends on nothing but the request
    stream_name: str = ""  # under which a client finds the newest stream of its conversation


class ClientEndpoint(msgspec.Struct, frozen=True):
    """A route of a client protocol. `read` returns the turn; it is awaited if it must look something up first.

    `find_alternative` returns the handler of a request that needs no turn, or None.
    """

    protocol: str
    read: Callable[[IncomingRequest], TurnRequest | Awaitable[TurnRequest]]
    find_alternative: Callable[[IncomingRequest], Any] | None = None


def is_replay(body: Object) -> bool:
    """Return whether a request names a packaged stream: it then needs no messages."""
    return str(body.get("model", "")).startswith(REPLAY_PREFIX)


def read_body(incoming: IncomingRequest, read: Callable[[Object], T]) -> T:
    """Apply `read` to the body. Inputs of tool calls may be nested deeper than the rest of a body."""
    try:
        body = incoming.json_body()
    except TooDeep as error:
        return read_deep_body(incoming.raw, read, error)
    return read(body)


def read_request(incoming: IncomingRequest, protocol: str) -> tuple[Object, rq.Request]:
    """Return the body and the request that it means. The body is empty if it is nested too deep for plain values."""
    try:
        body = incoming.json_body()
    except TooDeep as error:
        return {}, read_deep_body(incoming.raw, lambda deep: _read_request(incoming, protocol, deep)[1], error)
    return _read_request(incoming, protocol, body)


def _read_request(incoming: IncomingRequest, protocol: str, body: Object) -> tuple[Object, rq.Request]:
    if "model" in incoming.params:  # the path overrides the body
        body["model"] = incoming.params["model"]
    if is_replay(body):
        body.setdefault(protocols.protocol(protocol).messages_field, [])
    return body, reader(protocol)(body)


MAX_SAFE_INTEGER = 2**53 - 1  # the largest that every JSON reader accepts
LATEST_TIME = 253_402_300_798.0  # seconds since the epoch: a calendar has it, and the whole second after it
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?")
_MAX_QUOTED = 40  # characters of a value that an error quotes


class BadQueryParameter(BadRequest):
    """A query parameter has a wrong value."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        super().__init__(expected, found, name)
        self.found = repr(found[:_MAX_QUOTED])


def query_integer(
    query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = MAX_SAFE_INTEGER
) -> int:
    """Return an integer from `least` to `most`; the default if the parameter is missing."""
    text = query.get(name, "")
    if not text:
        return default
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not least <= value <= most:
        raise BadQueryParameter(name, f"a whole number from {least} to {most}", text)
    return value


def query_decimal(query: Mapping[str, str], name: str, default: float, *, most: float = LATEST_TIME) -> float:
    """Return a finite number from 0 to `most`; the default if the parameter is missing."""
    text = query.get(name, "")
    if not text:
        return default
    value = float(text) if _DECIMAL.fullmatch(text) else -1.0
    if not 0 <= value <= most:
        raise BadQueryParameter(name, f"a number from 0 to {most:.0f}", text)
    return value
