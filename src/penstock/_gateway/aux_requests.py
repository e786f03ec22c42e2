"""Auxiliary requests: requests to a provider that are not turns (embeddings, rerank, token counts).

An endpoint fills the `AuxRequest` in; the application journals it when the answer is sent, however it ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock._gateway.journal import usage_cost
from penstock._store.journal import JournalEntry as Row
from penstock.errors import ProviderError

if TYPE_CHECKING:
    from penstock._engines.decisions import DecisionLog
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.limits import LimitSlot
    from penstock.events import Fault, Usage

COUNT = "count"  # the operation of token counts: free, and frequent


class AuxRequest:
    """One auxiliary request. `requested_model` is the name that the client sent, `counted` the result of a count."""

    def __init__(self, operation: str, protocol: str) -> None:
        self.operation, self.protocol = operation, protocol
        self.requested_model = self.provider = self.model = ""
        self.slot: LimitSlot | None = None
        self.fault: Fault | None = None
        self.usage: Usage | None = None
        self.record: DecisionLog | None = None
        self.counted: int | None = None

    def answered_by(
        self, provider: str, model: str, usage: Usage | None = None, record: DecisionLog | None = None
    ) -> None:
        """Set the provider that answered, its usage, and the router's decisions."""
        self.provider, self.model, self.usage, self.record = provider, model, usage, record

    def failed(self, fault: Fault, error: BaseException | None = None) -> None:
        """Set why the request failed."""
        self.fault = fault
        if isinstance(error, ProviderError):
            self.provider, self.model = error.provider, error.model

    @property
    def is_throttled(self) -> bool:
        """Whether thousands of the kind may come, so that only a few get a journal row."""
        return self.operation == COUNT or self.slot is None

    def row(self, incoming: IncomingRequest, http: int, size: int) -> Row:
        """Return the journal row."""
        fault = self.fault
        usage, duration = self.usage, time.monotonic() - incoming.started
        more: dict[str, Any] = {"input": usage.input, "output": usage.output} if usage is not None else {}
        if fault is not None:
            status = "cancelled" if fault.kind == "cancelled" else "refused"
            more |= {"status": status, "fault": fault.kind, "fault_message": fault.message}
        if self.record is not None:
            more |= {"tries": self.record.tries, "decisions": "\n".join(self.record.lines())}
        return Row(
            time=time.time() - duration,
            key=incoming.caller.key,
            tenant=incoming.caller.tenant,
            client=incoming.client.name,
            route=incoming.path,
            protocol=self.protocol,
            operation=self.operation,
            asked=self.requested_model,
            provider=self.provider,
            model=self.model,
            http=http,
            duration=duration,
            request_id=incoming.id,
            estimate=self.counted,
            cost=usage_cost(incoming.services.upstream.price_list, self.provider, self.model, usage),
            bytes_in=len(incoming.raw),
            bytes_out=size,
            **more,
        )

    def leave(self, cost: float) -> None:
        """Free the slot of the caller's limits."""
        if self.slot is not None:
            self.slot.leave(self.usage, cost)


def refused_row(incoming: IncomingRequest, protocol: str, http: int, fault: Fault) -> Row:
    """Return the journal row of a request that was not admitted."""
    duration = time.monotonic() - incoming.started
    who = {} if incoming.caller is None else {"key": incoming.caller.key, "tenant": incoming.caller.tenant}
    return Row(
        time=time.time() - duration,
        client=incoming.client.name,
        route=incoming.path,
        protocol=protocol,
        http=http,
        status="refused",
        fault=fault.kind,
        fault_message=fault.message,
        duration=duration,
        request_id=incoming.id,
        bytes_in=len(incoming.raw),
        **who,
    )
