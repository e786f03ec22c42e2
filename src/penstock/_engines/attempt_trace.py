"""What one attempt sent and got, for an observer that asked for it.

Only references are kept: nothing is copied or encoded before somebody looks. The router and the engines fill it in.
"""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from penstock._http.connection_timing import ConnectionTiming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._diagnostics import Diagnostic
    from penstock._http.pool import PreparedHead
    from penstock.errors import ProviderError

MAX_ERROR_BODY_BYTES = 64 * 1024  # of an error response that is kept
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_now = time.monotonic


class TracedRequest(Protocol):
    """What a trace takes from the request that is sent: `engine_interface.UpstreamRequest`."""

    @property
    def provider(self) -> Any: ...

    @property
    def endpoint(self) -> Any: ...

    @property
    def model(self) -> str: ...

    @property
    def operation(self) -> str: ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


class AttemptTrace(ConnectionTiming):
    """One attempt. Times are by the monotonic clock; 0 for what did not happen.

    `url` and `headers` are those that were sent; of a prepared request, `prepared` has them. `decision_count`: the
    router's decisions before this attempt. `traces`: the attempts of the turn, this one among them. It is a structure
    because one is made for every attempt, and a structure is made fastest.
    """

    provider: str
    model: str
    operation: str
    endpoint: Any  # the provider's: its protocol and method
    diagnostics: Sequence[Diagnostic]
    decision_count: int
    traces: list[AttemptTrace]
    start: float
    engine: str = ""
    secrets: tuple[str, ...] = ()
    method: str = ""  # if it is not the endpoint's
    url: str = ""
    headers: Mapping[str, str] = NO_HEADERS
    prepared: PreparedHead | None = None
    body: bytes | None = None  # None: nothing was sent over HTTP
    cut_from: int = 0  # bytes that the body had before it was cut; 0: it is whole
    status: int = 0
    response_headers: Mapping[str, str] = NO_HEADERS
    error: tuple[str, str] = ("", "")  # kind and message
    error_body: bytes = b""
    head_at: float = 0.0  # the head of the response has arrived
    end: float = 0.0  # the attempt failed

    def set_response(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the response has arrived."""
        self.status, self.response_headers, self.head_at = status, headers, _now()

    def fail(self, error: ProviderError, received: bytes = b"") -> None:
        """The attempt failed. `received`: what had arrived of an answer."""
        self.end, self.error = _now(), (error.kind, error.message)
        self.status = self.status or error.status or 0
        self.response_headers = self.response_headers or error.headers
        if not self.error_body:
            self.error_body = received[:MAX_ERROR_BODY_BYTES] or error.body.encode("utf-8", "replace")

    def repeat(self, request: TracedRequest, decision_count: int) -> AttemptTrace:
        """The same request is sent once more, changed. Returns the trace of that attempt."""
        again = begin_trace(request, self.traces, decision_count)
        again.engine, again.secrets = self.engine, self.secrets
        return again


def begin_trace(request: TracedRequest, traces: list[AttemptTrace], decision_count: int) -> AttemptTrace:
    """Adds the trace of an attempt that begins to those of its turn, and returns it."""
    trace = AttemptTrace(
        request.provider.name, request.model, request.operation, request.endpoint, request.diagnostics, decision_count,
        traces, _now(),
    )  # fmt: skip
    traces.append(trace)
    return trace
