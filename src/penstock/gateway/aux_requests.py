"""What is asked of a provider and is no turn: embeddings, rankings, counts. Its place among the limits, and its row.

A door fills an errand in as it learns; the application notes it when the answer is out, whatever became of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.errors import ProviderError
from penstock.gateway.journal import Turn as Row
from penstock.gateway.journal import cost

if TYPE_CHECKING:
    from penstock.engines.decisions import Record
    from penstock.events import Fault, Usage
    from penstock.gateway.endpoints import Visit
    from penstock.gateway.limits import Ticket

COUNT = "count"  # asks for nothing that is paid for, and may be asked for often
_ENDS = {"cancelled": "cancelled"}


class Errand:
    """One of them. `asked` is the model by its name, `counted` what a count came to."""

    def __init__(self, operation: str, protocol: str) -> None:
        self.operation, self.protocol = operation, protocol
        self.asked = self.provider = self.model = ""
        self.ticket: Ticket | None = None
        self.fault: Fault | None = None
        self.usage: Usage | None = None
        self.record: Record | None = None
        self.counted: int | None = None

    def met(self, provider: str, model: str, usage: Usage | None = None, record: Record | None = None) -> None:
        """Who answered, and what that took."""
        self.provider, self.model, self.usage, self.record = provider, model, usage, record

    def failed(self, fault: Fault, error: BaseException | None = None) -> None:
        """It came to nothing."""
        self.fault = fault
        if isinstance(error, ProviderError):
            self.provider, self.model = error.provider, error.model

    @property
    def sparing(self) -> bool:
        """There may be thousands of the kind."""
        return self.operation == COUNT or self.ticket is None

    def row(self, visit: Visit, http: int, size: int) -> Row:
        """Its row in the journal."""
        fault = self.fault
        usage, spent = self.usage, time.monotonic() - visit.started
        more: dict[str, Any] = {"input": usage.input, "output": usage.output} if usage is not None else {}
        if fault is not None:
            status = _ENDS.get(fault.kind, "refused")
            more |= {"status": status, "fault": fault.kind, "fault_message": fault.message}
        if self.record is not None:
            more |= {"tries": self.record.tries, "decisions": "\n".join(self.record.lines())}
        return Row(
            time=time.time() - spent, key=visit.caller.key, tenant=visit.caller.tenant, client=visit.client.name,
            route=visit.path, protocol=self.protocol, operation=self.operation, asked=self.asked,
            provider=self.provider, model=self.model, http=http, duration=spent, request_id=visit.id,
            estimate=self.counted, cost=cost(visit.services.price_list, self.provider, self.model, usage),
            bytes_in=len(visit.raw), bytes_out=size, **more,
        )  # fmt: skip

    def leave(self, spent: float) -> None:
        """Give its place up."""
        if self.ticket is not None:
            self.ticket.leave(self.usage, spent)


def turned_away(visit: Visit, protocol: str, http: int, fault: Fault) -> Row:
    """The row of a request that was not let in, of whom little is known."""
    spent = time.monotonic() - visit.started
    who = {} if visit.caller is None else {"key": visit.caller.key, "tenant": visit.caller.tenant}
    return Row(
        time=time.time() - spent, client=visit.client.name, route=visit.path, protocol=protocol, http=http,
        status="refused", fault=fault.kind, fault_message=fault.message, duration=spent, request_id=visit.id,
        bytes_in=len(visit.raw), **who,
    )  # fmt: skip
