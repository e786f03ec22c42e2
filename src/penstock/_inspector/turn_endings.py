"""Who ended a turn with an error, the gateway or a provider, and why a turn has no frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from penstock.events import Fault

# gateway: it made the error by itself · provider: it answered with the error, or did not answer · unsent: the gateway
# could not send the request to the provider · empty: not known
FaultParty: TypeAlias = Literal["", "gateway", "provider", "unsent"]
OWN_CODES = frozenset({"circuit-open", "cool-down", "no-operation", "shutting-down", "key_revoked"})
"""Codes of errors that only the gateway makes, whatever a provider answered to an earlier attempt."""
FIRST_ERROR_STATUS = 400
_HTTP_ENGINES = frozenset({"", "native"})  # the others answer without an HTTP request; empty: no engine was found
_END = ": there are no frames"


class LastAttempt(NamedTuple):
    """How the last attempt of a turn went. `error` is the kind of its error; empty if an answer began."""

    provider: str
    status: int
    error: str
    engine: str
    sent: bool

    @property
    def reached_provider(self) -> bool:
        """True if the request went to the provider."""
        return self.sent or self.status > 0 or self.engine not in _HTTP_ENGINES


def find_fault_party(fault: Fault | None, last: LastAttempt | None) -> FaultParty:
    """Returns who made the error of a finished turn. An error inside of a stream is the provider's: it has a frame."""
    if fault is None:
        return ""
    if last is None or fault.code in OWN_CODES:
        return "gateway"
    if not last.reached_provider:
        return "unsent"
    return "provider" if last.error else "gateway"


def explain_no_frames(fault: Fault | None, last: LastAttempt | None, *, finished: bool) -> str:
    """Returns why a turn that is kept has no frames."""
    if not finished:
        return f"no provider has answered yet{_END}"
    left = fault is not None and fault.kind == "cancelled"
    if last is not None:
        return _explain_attempt(last, left=left) + _END
    if left or fault is None:
        return f"{'the client left before a' if left else 'no'} provider was asked{_END}"
    return "the gateway refused it: no provider was asked"


def _explain_attempt(last: LastAttempt, *, left: bool) -> str:
    """Returns why the last attempt of a turn gave no frames. `left`: the client left."""
    name = f"provider {last.provider}"
    if not last.reached_provider:
        return f"the gateway could not send it to the {name}"
    if last.status:
        return f"the {name} answered {last.status if last.status >= FIRST_ERROR_STATUS else 'with an error'}"
    if left:
        return f"the client left before the {name} answered"
    return f"the {name} {_SILENCES.get(last.error, 'gave no answer')}"


_SILENCES = {
    "timeout": "did not answer in time",
    "network": "could not be reached, or broke off before it answered",
}
