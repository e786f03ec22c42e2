"""A turn as a row of the list: from the journal, or from a turn that is still going on. Nothing that was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock.secrecy import hide

if TYPE_CHECKING:
    from penstock.gateway.turn import Turn as Going
    from penstock.store.journal import Turn

State: TypeAlias = Literal["open", "streaming", "finish", "fault", "cancelled", "refused"]


class Row(msgspec.Struct, kw_only=True):
    """One turn. `held`: its frames can be looked at."""

    id: str
    time: float
    client: str
    route: str
    key: str
    asked: str
    model: str
    provider: str
    engine: str
    decisions: list[str]
    protocol: str
    upstream: str
    operation: str
    stream: bool
    tee: bool
    state: State
    finish: str
    fault: str
    message: str
    http: int
    ttft: float | None
    duration: float | None
    rate: float | None
    input: int | None
    output: int | None
    cached: int | None
    reasoning: int | None
    cost: float | None
    estimate: int | None
    low: int | None
    high: int | None
    held: bool
    times: int = 1
    malformed: int = 0  # frames that could not be read

    @property
    def said(self) -> str:
        """All in it that others have written."""
        texts = (self.client, self.route, self.key, self.asked, self.model, self.provider, self.fault, self.message)
        return "\0".join((*texts, *self.decisions))


def of_journal(turn: Turn, *, held: bool) -> Row:
    """A turn that is over."""
    return Row(
        id=turn.request_id, time=turn.time, client=turn.client, route=turn.route, key=turn.key, asked=turn.asked,
        model=turn.model, provider=turn.provider, engine=turn.engine, decisions=turn.decisions.splitlines(),
        protocol=turn.protocol, upstream=turn.upstream, operation=turn.operation, stream=turn.stream, tee=turn.tee,
        state=turn.status, finish=turn.finish, fault=turn.fault,
        message=hide(turn.fault_message) if turn.fault_message else "", http=turn.http, ttft=turn.ttft,
        duration=turn.duration, rate=_rate(turn), input=turn.input, output=turn.output, cached=turn.cached,
        reasoning=turn.reasoning, cost=turn.cost, estimate=turn.estimate, low=turn.low, high=turn.high, held=held,
        times=turn.times, malformed=turn.malformed,
    )  # fmt: skip


def of_turn(turn: Going, time: float, *, held: bool) -> Row:
    """A turn that is going on, that began at this time."""
    visit, asked, reply = turn.visit, turn.asked, turn.reply
    answered: dict[str, Any] = {name: getattr(reply, name, "") for name in ("model", "provider", "engine")}
    usage = reply.usage if reply is not None else None
    return Row(
        id=visit.id, time=time, client=visit.client.name, route=visit.path, key=visit.caller.key,
        asked=asked.request.model if asked else "", decisions=reply.record.lines() if reply is not None else [],
        protocol=asked.protocol if asked else turn.door.protocol, operation=asked.operation if asked else "",
        stream=bool(asked and asked.request.stream), tee=turn.teed, state="open" if reply is None else "streaming",
        finish="", fault="", message="", http=turn.status, ttft=turn.first if reply is not None else None,
        duration=None, rate=None, input=usage.input if usage else None, output=usage.output if usage else None,
        cached=usage.cached if usage else None, reasoning=usage.reasoning if usage else None, cost=None, estimate=None,
        low=None, high=None, held=held, upstream=reply.protocol if reply is not None else "",
        malformed=turn.malformed, **answered,
    )  # fmt: skip


def _rate(turn: Turn) -> float | None:
    """Tokens a second, once they began to come."""
    spent = turn.duration - (turn.ttft or 0.0)
    if turn.output is None or not turn.stream or turn.status == "refused" or spent <= 0:
        return None
    return round(turn.output / spent, 1)
