"""What one attempt sent and got, for an observer that asked for it.

Only references are kept: nothing is copied or encoded before somebody looks. The router and the engines fill it in.
"""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock._http.connection_timing import ConnectionTiming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._diagnostics import Diagnostic
    from penstock._http.pool import PreparedHead
    from penstock.errors import ProviderError

MAX_ERROR_BODY_BYTES = 64 * 1024  # of an error response that is kept
_now = time.monotonic


class AttemptTrace(ConnectionTiming):
    """One attempt. Times are by the monotonic clock; 0 for what did not happen.

    `headers` are those that were sent; of a prepared request, `prepared` has them. `decision_count`: the router's
    decisions before this attempt. `traces`: the attempts of the turn; each adds itself.
    """

    # Defaults of the class: setting thirty attributes for each turn would cost more than all else here.
    operation: str = ""
    protocol: str = ""
    diagnostics: Sequence[Diagnostic] = ()
    secrets: tuple[str, ...] = ()
    engine: str = ""
    url: str = ""
    method: str = ""
    headers: Mapping[str, str] = MappingProxyType({})
    prepared: PreparedHead | None = None
    body: bytes | None = None  # None: nothing was sent over HTTP
    cut_from: int = 0  # bytes that the body had before it was cut; 0: it is whole
    status: int = 0
    response_headers: Mapping[str, str] = MappingProxyType({})
    error: tuple[str, str] = ("", "")  # kind and message
    error_body: bytes = b""
    head_at: float = 0.0  # the head of the response has arrived
    end: float = 0.0  # the attempt failed

    def __init__(self, provider: str, model: str, traces: list[AttemptTrace], decision_count: int) -> None:
        self.provider: str = provider
        self.model: str = model
        self.decision_count: int = decision_count
        self.traces: list[AttemptTrace] = traces
        self.start: float = _now()
        traces.append(self)

    def set_engine(self, engine: str, secrets: tuple[str, ...]) -> None:
        """The engine is chosen, and the request has its credentials."""
        self.engine, self.secrets = engine, secrets

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

    def repeat(self, decision_count: int) -> AttemptTrace:
        """The same request is sent once more, changed. Returns the trace of that attempt."""
        again = AttemptTrace(self.provider, self.model, self.traces, decision_count)
        for name in ("operation", "protocol", "diagnostics", "secrets", "engine", "url", "method", "headers"):
            setattr(again, name, getattr(self, name))
        return again
