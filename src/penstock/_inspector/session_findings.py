"""Finds stalls and loops in a session, and explains each in words.

A stall is a turn or a gap between turns that is far longer than the session's others, or a stream without bytes. A loop
is the same call with the same arguments again and again, also in turn with others (A, B, A, B).
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._inspector.session_digests import CallDigest, ResultDigest

STALL_SECONDS = 10.0  # shorter ones are not marked
STALL_FACTOR = 4.0  # times the median of the session
SILENT_SECONDS = 10.0  # without bytes in a stream
COMPARED = 4  # turns or gaps that a median needs
MIN_REPEATS = 3  # of one call
MIN_ROUNDS = 2  # of several calls in turn
MAX_PERIOD = 4  # calls in turn
MIN_COMPARED = 2  # results of each call, to say that they were the same
MAX_FINDINGS = 200  # of one session
_MINUTES_FROM = 100  # seconds


class SessionFinding(msgspec.Struct):
    """A stall or a loop. `turn` is the turn where it is shown, `turns` are all that belong to it."""

    kind: Literal["stall", "loop"]
    where: Literal["turn", "gap", "stream", "calls"]
    turn: str
    words: str
    turns: list[str]


class TimedTurn(NamedTuple):
    """The times of a turn in seconds. `gap`: before it, while tools ran; None if the user was asked meanwhile.

    `silence`: the longest time without bytes in its stream, after `silent_from`. `silent_now`: it has not ended.
    """

    id: str
    duration: float
    gap: float | None
    tools: str
    silence: float
    silent_from: float
    running: bool = False
    silent_now: bool = False


def find_stalls(turns: Sequence[TimedTurn]) -> list[SessionFinding]:
    """Returns the stalls of a session's turns."""
    usual_duration = _usual_time([turn.duration for turn in turns if not turn.running])
    usual_gap = _usual_time([turn.gap for turn in turns if turn.gap is not None])
    found: list[SessionFinding] = []
    for turn in turns:
        if turn.gap is not None and _is_stall(turn.gap, usual_gap):
            who = f"{turn.tools} took" if turn.tools else "the client waited"
            words = f"{who} {_compare_times(turn.gap, usual_gap, 'the usual gap of')}"
            found.append(SessionFinding("stall", "gap", turn.id, words, [turn.id]))
        if turn.silence >= SILENT_SECONDS:
            came = "no bytes have come" if turn.silent_now else "no bytes came"
            words = f"{came} for {_seconds(turn.silence)}"
            words += f", from {_seconds(turn.silent_from)} after the beginning" if turn.silent_from else ""
            found.append(SessionFinding("stall", "stream", turn.id, words, [turn.id]))
        elif _is_stall(turn.duration, usual_duration):
            took = "has run for" if turn.running else "took"
            words = f"the turn {took} {_compare_times(turn.duration, usual_duration, 'the usual')}"
            found.append(SessionFinding("stall", "turn", turn.id, words, [turn.id]))
    return found[:MAX_FINDINGS]


def _usual_time(times: Sequence[float]) -> float:
    """Returns the median; 0 if there are too few times to compare with."""
    return median(times) if len(times) >= COMPARED else 0.0


def _is_stall(seconds: float, usual: float) -> bool:
    return 0.0 < usual <= seconds / STALL_FACTOR and seconds >= STALL_SECONDS


def _compare_times(seconds: float, usual: float, name: str) -> str:
    return f"{_seconds(seconds)}: {seconds / usual:.0f} times {name} {_seconds(usual)}"


def _seconds(seconds: float) -> str:
    if seconds < _MINUTES_FROM:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {seconds % 60:.0f} s"


# ── loops ─────────────────────────────────────────────────────────────────────────────────────────


def find_loops(calls: Sequence[tuple[str, CallDigest]], results: Mapping[str, ResultDigest]) -> list[SessionFinding]:
    """Returns the loops of a session's calls, each with the turn that made it. `results`: by the id of the call."""
    digests = [call.digest for _, call in calls]
    covered: set[int] = set()
    found: list[SessionFinding] = []
    for period in range(1, MAX_PERIOD + 1):
        for start, end in _repeated_runs(digests, period):
            repeats = (end - start) // period
            places = range(start, start + repeats * period)
            if repeats < (MIN_REPEATS if period == 1 else MIN_ROUNDS) or not covered.isdisjoint(places):
                continue
            covered.update(places)
            found.append(_describe_loop([calls[place] for place in places], period, repeats, results))
    return found[:MAX_FINDINGS]


def _repeated_runs(digests: Sequence[bytes], period: int) -> list[tuple[int, int]]:
    """Returns the stretches in which every call is the one so many places before it."""
    runs: list[tuple[int, int]] = []
    start: int | None = None
    for place in range(period, len(digests) + 1):
        same = place < len(digests) and digests[place] == digests[place - period]
        if same and start is None:
            start = place - period
        elif not same and start is not None:
            runs.append((start, place))
            start = None
    return runs


def _describe_loop(
    calls: Sequence[tuple[str, CallDigest]], period: int, repeats: int, results: Mapping[str, ResultDigest]
) -> SessionFinding:
    names = " and ".join(dict.fromkeys(call.name for _, call in calls[:period]))
    how = f"{repeats} times in a row" if period == 1 else f"in turn, {repeats} times"
    verb = "was" if len({call.name for _, call in calls[:period]}) == 1 else "were"
    words = f"{names} {verb} called {how} with the same arguments"
    words += _compare_results([call.id for _, call in calls], period, results)
    turns = list(dict.fromkeys(turn for turn, _ in calls))
    return SessionFinding("loop", "calls", turns[-1], words, turns)


def _compare_results(ids: Sequence[str], period: int, results: Mapping[str, ResultDigest]) -> str:
    """Says whether the results that are known were the same. The last calls have none yet, or never get one."""
    known = [[results[one].digest for one in ids[place::period] if one in results] for place in range(period)]
    if any(len({*digests}) > 1 for digests in known):
        return "; the results differ"
    if any(len(digests) < MIN_COMPARED for digests in known):
        return ""
    every = sum(map(len, known)) == len(ids)
    return "; the results were the same each time" if every else "; the results so far were the same each time"
