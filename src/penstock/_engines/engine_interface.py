"""The interface of engines: the request they take, the response they return, and the record of the router's decisions.

Plain values and two Protocols; no I/O. The record is on the result, in the log, and counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._diagnostics import Diagnostic
from penstock._engines.attempt_trace import AttemptTrace
from penstock._http.request_options import RequestOptions
from penstock._messages.context_trimming import Cleared
from penstock._providers.registry import Endpoint, Provider
from penstock._redaction import redact
from penstock.request import Request

if TYPE_CHECKING:
    from penstock.events import AnyEvent, Fault

# route: the provider that a name resolves to · operation: another operation is used · engine: another engine than the
# configured one is used · retry: the same provider again · fallback: the next provider or endpoint · skip: the circuit
# breaker is open · give-up: no more attempts · open: a response began
DecisionKind: TypeAlias = Literal["route", "operation", "engine", "retry", "fallback", "skip", "give-up", "open"]
log = logging.getLogger("penstock.routing")
INFO_KINDS = frozenset({"engine", "retry", "fallback", "skip", "give-up"})


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision. `code` is for metrics, `why` is a sentence for people."""

    what: DecisionKind
    code: str
    why: str
    provider: str = ""
    model: str = ""
    engine: str = ""
    wait: float = 0.0


class AttemptRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt at a provider, by the monotonic clock. It ends with an error, or when the answer begins.

    `status` is the provider's, 0 if it has sent none. `error` is the kind of its error; empty if it answered.
    `unsure`: it may have answered, and charge for that, although nothing of the answer arrived.
    """

    provider: str
    model: str
    start: float
    end: float
    status: int = 0
    error: str = ""
    unsure: bool = False


class DecisionLog(msgspec.Struct, omit_defaults=True):
    """All decisions of one request, in order. `tries` counts the attempts.

    `key`: where the key of the last attempt is configured, if the provider has several.
    """

    asked: str
    decisions: list[Decision] = []
    tries: int = 0
    key: str = ""
    attempts: list[AttemptRecord] = []

    def total_wait(self) -> float:
        """Returns the seconds of all waits before retries."""
        return sum(one.wait for one in self.decisions)

    def lines(self) -> list[str]:
        """Returns one line for each decision."""
        return [f"{one.what}: {one.why}" for one in self.decisions]


class DecisionRecorder:
    """Adds decisions to the record of a request, to the counters and to the log, and tells those who observe them.

    `counts` holds the number of decisions by kind, code and provider.
    """

    def __init__(self, on_decision: Callable[[Decision], None] | None = None) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.observers: list[Callable[[Decision], None]] = [] if on_decision is None else [on_decision]

    def add(self, record: DecisionLog, decision: Decision) -> None:
        """Adds a decision."""
        level = logging.DEBUG
        if decision.what in INFO_KINDS:  # these quote errors, which may hold secrets; the others hold names only
            decision, level = replace(decision, why=redact(decision.why)), logging.INFO
        record.decisions.append(decision)
        self.counts[decision.what, decision.code, decision.provider] += 1
        if log.isEnabledFor(level):
            log.log(level, "%s %s: %s: %s", decision.provider or "-", record.asked, decision.what, decision.why)
        for observer in self.observers:
            observer(decision)


ChunkEvents: TypeAlias = "tuple[bytes, list[AnyEvent]]"
ChunkHandler: TypeAlias = "Callable[[bytes, list[AnyEvent]], bool]"  # returns False to stop


class HttpRequest(msgspec.Struct, kw_only=True):
    """An HTTP request, ready to send."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    body: bytes = b""
    stream: bool = False


_encode = msgspec.json.Encoder().encode
SignFunction: TypeAlias = Callable[[HttpRequest], Awaitable[HttpRequest]]


class UpstreamRequest(msgspec.Struct, kw_only=True):
    """One attempt at one provider, with everything decided. `secrets` must not appear in logs, errors or headers."""

    provider: Provider
    endpoint: Endpoint
    operation: str
    model: str
    protocol: str  # of the response
    url: str
    base_url: str = ""
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    stream: bool = False
    options: RequestOptions = msgspec.field(default_factory=RequestOptions)
    transforms: tuple[Any, ...] = ()  # event → event stages, new for each attempt
    diagnostics: list[Diagnostic] = []
    request: Request | None = None  # the canonical request, for an engine that answers by itself
    settings: dict[str, str] = {}
    sign: SignFunction | None = None
    secrets: tuple[str, ...] = ()
    same_signature: bool = False  # every request of the plan gets the same signature headers
    request_heads: dict[Any, Any] = {}  # by engine: the encoded request line and headers, shared by the plan's requests
    cleared: Cleared | None = None  # what context management removed
    losses: tuple[str, ...] = ()  # names of settings that the provider cannot take
    trace: AttemptTrace | None = None  # notes what is sent and received, if an observer asks for it

    @property
    def verbatim(self) -> bool:
        """True if the response may be passed through unchanged: nothing to rename, nothing to repair."""
        return not self.transforms and not self.provider.repair

    def to_http(self) -> HttpRequest:
        """Returns the HTTP request, not yet signed."""
        body = self.encode_body()
        return HttpRequest(
            url=self.url, method=self.endpoint.method, headers=dict(self.headers), body=body, stream=self.stream
        )

    def encode_body(self) -> bytes:
        """Returns the body as it is sent."""
        return _encode(self.body) if self.endpoint.method == "POST" else b""


class ResponseSource(Protocol):
    """A response being read. `raw`: reads hold the provider's own bytes."""

    status: int
    headers: Mapping[str, str]
    raw: bool

    async def read(self) -> ChunkEvents | None:
        """Returns the bytes received and the events decoded from them; None at the end. Raises `ProviderError`."""
        ...

    def end_with(self, fault: Fault) -> list[AnyEvent]:
        """Returns the events that close what is open after an error."""
        ...

    def complete(self) -> None:
        """Called at the end of the response: its connection can be reused."""
        ...

    async def aclose(self) -> None:
        """Closes the connection at once."""
        ...

    @property
    def diagnostics(self) -> list[Diagnostic]: ...


class Engine(Protocol):
    """Sends requests to providers."""

    name: str

    def unsupported_reason(self, upstream: UpstreamRequest, /) -> str:
        """Returns why this engine cannot send the request; empty if it can."""
        ...

    async def open(self, upstream: UpstreamRequest, /) -> ResponseSource:
        """Sends a turn. An error response raises `ProviderError`."""
        ...

    async def fetch(self, upstream: UpstreamRequest, /) -> tuple[Mapping[str, str], bytes]:
        """Sends any other request (embeddings, models …); returns the headers and the whole body."""
        ...

    async def aclose(self) -> None: ...
