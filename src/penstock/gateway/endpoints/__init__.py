"""A door: one address of one client protocol. A visit is what came to it, `Asked` what it wants: a turn, and its form.

Plain values; nothing here reads or writes. The doors themselves are the other files of this folder.
"""

from __future__ import annotations

import random
import re
import time
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from penstock import request as rq
from penstock.engines.retries import Wait
from penstock.errors import BadRequest, InputError, TooDeep
from penstock.gateway.request_body import LARGE
from penstock.http.header_fields import read_headers
from penstock.input_limits import NestingError, decode_bounded
from penstock.jsontext import parse_lenient_bounded, replace_surrogates
from penstock.messages.context import Cleared
from penstock.messages.request_codecs import reader
from penstock.protocols import protocol as row
from penstock.providers.registry import PLAIN
from penstock.strict_fields import read_deep_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.gateway.byte_budget import ByteBudget
    from penstock.gateway.request_body import ConversionThread
    from penstock.lenient_fields import Object
    from penstock.providers.registry import ClientProfile

T = TypeVar("T")
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
PLAYED = "replay/"  # a packaged stream asks for nothing but its name
_ids = random.Random()  # noqa: S311 — names, no secrets: asking the system for each would cost more than all the rest


class Visit:
    """A request as it came. `params` are what the path says, `caller` is who was let in."""

    __slots__ = ("_budget", "_counted", "caller", "client", "errand", "headers", "id", "method", "params", "path",
                 "query_string", "raw", "services", "started")  # fmt: skip

    def __init__(self, scope: Any) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope.get("query_string", b"")
        self.headers = read_headers(scope["headers"])
        self.params: dict[str, str] = {}
        self.raw = b""
        self._budget: ByteBudget | None = None  # where its body counts,
        self._counted = 0  # and with how many bytes
        self.caller: Any = None
        self.client: ClientProfile = PLAIN
        self.services: Any = None  # of the gateway that let it in
        self.errand: Any = None  # what is asked of a provider, where that is no turn
        self.id = f"{_ids.getrandbits(128):032x}"
        self.started = time.monotonic()

    @property
    def query(self) -> dict[str, str]:
        """What stands behind the question mark."""
        return dict(parse_qsl(self.query_string.decode("latin-1"), keep_blank_values=True))

    def count_body(self, budget: ByteBudget) -> None:
        """Count the body, which has come whole, among those that the gateway holds."""
        budget.change(len(self.raw))
        self._budget, self._counted = budget, len(self.raw)

    def forget_body(self) -> None:
        """The body counts no more among those that the gateway holds."""
        if self._budget is not None:
            self._budget.change(-self._counted)
            self._budget = None

    def hand_over_body(self) -> Callable[[], None]:
        """What has the body count no more: for work that goes on when the request is over."""
        budget, self._budget = self._budget, None
        return partial(budget.change, -self._counted) if budget is not None else _nothing

    @property
    def is_small(self) -> bool:
        """Whether its body is read and converted at once."""
        return len(self.raw) <= LARGE

    async def offload(self, work: Callable[[], T]) -> T:
        """Have something done with the body: at once if it is small, in a thread if it is large."""
        if self.is_small or self.services is None:
            return work()
        return await cast("ConversionThread", self.services.conversions).run(work)

    def body(self) -> Object:
        """The body as an object. What JSON forbids but programs send, such as half a character, is forgiven."""
        try:
            value = decode_bounded(self.raw)
        except (msgspec.DecodeError, UnicodeError):
            value = self._mended_body()
        except NestingError as error:
            raise TooDeep(error.path) from None
        if not isinstance(value, dict):
            raise BadRequest("an object", value)
        return value  # pyright: ignore[reportUnknownVariableType]

    def _mended_body(self) -> Any:
        said = self.raw.removeprefix(BOM_UTF8).lstrip()
        try:
            value = replace_surrogates(parse_lenient_bounded(said)) if said[:1] == b"{" else None
        except NestingError as error:
            raise TooDeep(error.path) from None
        if value is None:
            raise InputError(f"the body is not JSON: {_shown(self.raw)}")
        return value


def _nothing() -> None:
    pass


class Asked(msgspec.Struct):
    """A turn that is asked for: of whom, by which operation, and how the answer is to look.

    `source` is the protocol of the request where the answer's is another. `options` are the encoder's. `usage` is
    false where a stream must not end with a chunk of usage that was not asked for.
    """

    request: rq.Request
    protocol: str
    source: str = ""
    operation: str = "chat"
    framing: str = "sse"
    options: dict[str, Any] = {}
    headers: Headers = ()
    tee: bool = True  # the upstream's own bytes will do, where it speaks the same protocol
    usage: bool = True
    encoder: Callable[[], Any] | None = None  # where the protocol has none of its own,
    body: Callable[[Any], bytes] | None = None  # and what makes a body of its frames
    over: Callable[[Any], Any] | None = None  # put around ASGI's `send`, to see the answer go by
    mark: str = ""  # the turn's own name, where the client sends it back
    notice: Callable[[Wait | Cleared], bytes] | None = None  # what is told beside the answer, as a frame's payload


class Door(msgspec.Struct, frozen=True):
    """An address and what is understood there. `instead`: what answers those visits that want no turn.

    `read` is awaited where it gives no `Asked` at once, because something must be looked up first.
    """

    protocol: str
    read: Callable[[Visit], Asked | Awaitable[Asked]]
    instead: Callable[[Visit], Any] | None = None


def read_body(visit: Visit, read: Callable[[Object], T]) -> T:
    """What `read` makes of the body. Inputs of tool calls may be deeper than the rest of a body."""
    try:
        body = visit.body()
    except TooDeep as error:
        return read_deep_body(visit.raw, read, error)
    return read(body)


def canonical(visit: Visit, protocol: str) -> tuple[Object, rq.Request]:
    """The body and what it means. The body is empty if it is deeper than plain values may be."""
    try:
        body = visit.body()
    except TooDeep as error:
        return {}, read_deep_body(visit.raw, lambda deep: _canonical(visit, protocol, deep)[1], error)
    return _canonical(visit, protocol, body)


def _canonical(visit: Visit, protocol: str, body: Object) -> tuple[Object, rq.Request]:
    if "model" in visit.params:  # where an address names it, the body's word counts for nothing
        body["model"] = visit.params["model"]
    if str(body.get("model", "")).startswith(PLAYED):
        body.setdefault(row(protocol).messages_field, [])
    return body, reader(protocol)(body)


def _shown(raw: bytes) -> str:
    return repr(raw[:80].decode("utf-8", "replace")) if raw else "it is empty"


LARGEST = 2**53 - 1  # that every JSON reader takes
END_OF_TIME = 253_402_300_800.0  # seconds since the epoch: the year 10000
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?")
_SHOWN = 40  # characters of a value that an error quotes


class BadQuery(BadRequest):
    """A parameter of the query is not what it must be."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        super().__init__(expected, found, name)
        self.found = repr(found[:_SHOWN])


def whole_number(
    query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = LARGEST
) -> int:  # fmt: skip
    """A whole number from `least` to `most`; the default where there is none."""
    said = query.get(name, "")
    if not said:
        return default
    value = int(said) if _WHOLE.fullmatch(said) else None
    if value is None or not least <= value <= most:
        raise BadQuery(name, f"a whole number from {least} to {most}", said)
    return value


def decimal_number(query: Mapping[str, str], name: str, default: float, *, most: float = END_OF_TIME) -> float:
    """A finite number from 0 to `most`; the default where there is none."""
    said = query.get(name, "")
    if not said:
        return default
    value = float(said) if _DECIMAL.fullmatch(said) else -1.0
    if not 0 <= value <= most:
        raise BadQuery(name, f"a number from 0 to {most:.0f}", said)
    return value
