"""Reports about sessions for the page: a row of each for the list, and one session turn by turn.

Slow for long sessions: not for the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from penstock._inspector.schemas import TurnRow
from penstock._inspector.session_findings import SessionFinding, TimedTurn, find_loops, find_stalls
from penstock._inspector.session_turns import SessionTurn, TurnLink, TurnSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock._inspector.session_digests import CallDigest, ResultDigest

T = TypeVar("T", int, float)
GapKind: TypeAlias = Literal["tools", "user", "client"]
"""Whom a session waited for: the tools that the client ran, the user, or the client, which sent again or compacted."""
_TOOLS_SHOWN = 3
_JUST_NOW = 2.0  # seconds


class SessionRow(msgspec.Struct, kw_only=True):
    """A session in the list. Sums are of the turns that are known, and None if nothing is.

    `unpriced`: finished turns whose cost is not known. `uncounted`: those whose tokens are not.
    """

    id: str
    client: str
    key: str
    title: str
    models: list[str]
    began: float
    ended: float
    running: bool
    turns: int
    faults: int
    input: int | None
    output: int | None
    cached: int | None
    cost: float | None
    unpriced: int
    uncounted: int
    stalls: int
    loops: int
    forked_from: str


class SessionCall(msgspec.Struct):
    """A tool call. `failed` is None if no result is known."""

    name: str
    preview: str
    failed: bool | None = None


class TurnGap(msgspec.Struct):
    """The time between the end of the turn before and the beginning of a turn, and what ran meanwhile."""

    seconds: float
    kind: GapKind
    calls: list[SessionCall]


class SessionStep(msgspec.Struct, kw_only=True):
    """A turn of a session. `added`: messages that the turn before did not have. `window`: the model's, 0 is unknown."""

    row: TurnRow
    link: TurnLink
    previous: str
    messages: int
    added: int
    gap: TurnGap | None
    calls: list[SessionCall]
    silence: float
    silent_from: float
    window: int


class SessionReport(msgspec.Struct):
    """One session."""

    session: SessionRow
    steps: list[SessionStep]
    findings: list[SessionFinding]


class SessionFacts(NamedTuple):
    """What a report needs of the turns, by id. Turns without a row are left out."""

    rows: Mapping[str, TurnRow]
    titles: Mapping[str, str]
    silences: Callable[[str], tuple[float, float]]  # seconds, and after how many seconds
    last_calls: Callable[[SessionTurn], tuple[CallDigest, ...]]  # of a turn that no other goes on from
    window: Callable[[TurnRow], int]


def report_session(session: TurnSession, facts: SessionFacts, now: float) -> SessionReport | None:
    """Returns the report of a session; None if nothing of it is known any more."""
    turns = [turn for turn in session.turns if turn.id in facts.rows]
    if not turns:
        return None
    known = {turn.id for turn in turns}
    # Every turn has the messages of the turn before it: each message is looked at once.
    messages = (turn.new_messages if turn.previous in known else turn.messages for turn in turns)
    results = {result.call: result for some in messages for message in some for result in message.results}
    calls = _find_calls(turns, facts)
    steps = list(_steps(turns, calls, results, facts))
    timed = [
        TimedTurn(
            step.row.id,
            _duration(step.row, now),
            step.gap.seconds if step.gap is not None and step.gap.kind != "user" else None,
            _join_names(step.gap.calls) if step.gap is not None else "",
            step.silence,
            step.silent_from,
            running=step.row.duration is None,
            silent_now=step.row.duration is None and _is_silent_until(step, now),
        )
        for step in steps
    ]
    sequence = [(turn.id, call) for turn in turns for call in calls[turn.id]]
    findings = [*find_stalls(timed), *find_loops(sequence, results)]
    return SessionReport(_session_row(session, turns, steps, findings, facts, now), steps, findings)


def _steps(
    turns: list[SessionTurn],
    calls: Mapping[str, tuple[CallDigest, ...]],
    results: Mapping[str, ResultDigest],
    facts: SessionFacts,
) -> Iterator[SessionStep]:
    ended: float | None = None
    for number, turn in enumerate(turns):
        row = facts.rows[turn.id]
        silence, silent_from = facts.silences(turn.id)
        last = turns[number - 1].id if number else ""
        before = [_session_call(call, results) for call in calls.get(last, ())]
        yield SessionStep(
            row=row,
            link=turn.link,
            previous=turn.previous,
            messages=len(turn.messages),
            added=len(turn.messages) - turn.shared,
            gap=_gap(turn, ended, before) if ended is not None else None,
            calls=[_session_call(call, results) for call in calls[turn.id]],
            silence=silence,
            silent_from=silent_from,
            window=facts.window(row),
        )
        ended = turn.ended if turn.ended is not None else turn.time


def _is_silent_until(step: SessionStep, now: float) -> bool:
    """True if the longest time without bytes lasts until now."""
    return step.row.time + step.silent_from + step.silence > now - _JUST_NOW


def _gap(turn: SessionTurn, ended: float, calls: list[SessionCall]) -> TurnGap:
    seconds = max(0.0, turn.time - ended)
    if turn.link == "continue" and any(message.results for message in turn.new_messages):
        return TurnGap(seconds, "tools", calls)
    if turn.link == "edit" and calls and turn.messages[-1].results:  # it has shortened older messages, too
        return TurnGap(seconds, "tools", calls)
    return TurnGap(seconds, "client" if turn.link in ("retry", "compact") else "user", [])


def _find_calls(turns: list[SessionTurn], facts: SessionFacts) -> dict[str, tuple[CallDigest, ...]]:
    """Returns the calls of each turn's answer: as the next turn sends them back, else decoded."""
    sent_back: dict[str, tuple[CallDigest, ...]] = {}
    for following in turns:
        new = following.new_messages
        if following.link == "continue" and new and new[0].answer and following.previous not in sent_back:
            calls = (call for message in new if message.answer for call in message.calls)
            sent_back[following.previous] = tuple(calls)
    return {turn.id: sent_back[turn.id] if turn.id in sent_back else facts.last_calls(turn) for turn in turns}


def _session_call(call: CallDigest, results: Mapping[str, ResultDigest]) -> SessionCall:
    result = results.get(call.id)
    return SessionCall(call.name, call.preview, None if result is None else result.failed)


def _session_row(
    session: TurnSession,
    turns: list[SessionTurn],
    steps: list[SessionStep],
    findings: list[SessionFinding],
    facts: SessionFacts,
    now: float,
) -> SessionRow:
    rows = [step.row for step in steps]
    return SessionRow(
        id=session.id,
        client=session.scope.client,
        key=session.scope.key,
        title=next((title for turn in turns if (title := facts.titles.get(turn.id, ""))), ""),
        models=list(dict.fromkeys(row.model or row.asked for row in rows)),
        began=rows[0].time,
        ended=max(row.time + _duration(row, now) for row in rows),
        running=any(row.duration is None for row in rows),
        turns=len(rows),
        faults=sum(row.state in ("fault", "refused") for row in rows),
        input=_sum_known(row.input for row in rows),
        output=_sum_known(row.output for row in rows),
        cached=_sum_known(row.cached for row in rows),
        cost=_sum_known(row.cost for row in rows),
        unpriced=sum(row.cost is None and row.duration is not None for row in rows),
        uncounted=sum(None in {row.input, row.output} and row.duration is not None for row in rows),
        stalls=sum(finding.kind == "stall" for finding in findings),
        loops=sum(finding.kind == "loop" for finding in findings),
        forked_from=session.forked_from,
    )


def _sum_known(amounts: Iterable[T | None]) -> T | None:
    """Returns the sum of what is known; None if nothing is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known[1:], start=known[0]) if known else None


def _duration(row: TurnRow, now: float) -> float:
    return row.duration if row.duration is not None else max(0.0, now - row.time)


def _join_names(calls: list[SessionCall]) -> str:
    names = list(dict.fromkeys(call.name for call in calls))
    more = len(names) - _TOOLS_SHOWN
    return ", ".join(names[:_TOOLS_SHOWN]) + (f" and {more} more" if more > 0 else "")
