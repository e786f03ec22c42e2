"""The state of a finished turn, and the names by which it is found: the same in SQL and in Python.

A turn that ended by itself, but not well, has the state `warning`: the answer was cut (`length`), refused or filtered,
or frames of the provider could not be read.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WARNING_REASONS = ("length", "filter", "refusal")
_WARNS = f"(finish IN {WARNING_REASONS!r} OR coalesce(malformed, 0) > 0)"
TURN_STATES: dict[str, str] = {
    "finish": f"(status = 'finish' AND NOT coalesce({_WARNS}, FALSE))",
    "warning": f"(status = 'finish' AND {_WARNS})",
    "fault": "status = 'fault'",
    "cancelled": "status = 'cancelled'",
    "refused": "status = 'refused'",
}
"""Each state of a finished turn, as a condition on its row of the journal."""
FIRST_SERVER_ERROR = 500
_GOOD_REASONS = ("stop", "calls", "pause", "other")
SHOWN_STATES: dict[str, str] = {
    **{reason: f"({TURN_STATES['finish']} AND finish = '{reason}')" for reason in _GOOD_REASONS},
    **{reason: f"(status = 'finish' AND finish = '{reason}')" for reason in WARNING_REASONS},
    "malformed": f"({TURN_STATES['warning']} AND NOT coalesce(finish IN {WARNING_REASONS!r}, FALSE))",
    "failed": f"(status = 'refused' AND coalesce(http, 0) >= {FIRST_SERVER_ERROR})",
}
"""What the list shows instead of a state if it knows more, as a condition on a row: `shown_state` returns it."""
_NAMES = """client agent asked provider model engine route protocol upstream key operation finish fault fault_message
    tools request_id upstream_id""".split()
_read_names: Callable[[Any], tuple[str, ...]] = attrgetter(*_NAMES)
NAMES_SQL = "lower(" + " || '\n' || ".join(f"coalesce({name}, '')" for name in _NAMES) + ")"
"""The value of the column `names`, for rows that were written before it existed."""


def turn_warning(turn: Any) -> str:
    """Returns why a turn that ended by itself did not end well; empty if it did."""
    if turn.finish in WARNING_REASONS:
        return str(turn.finish)
    return "malformed" if turn.malformed else ""


def turn_state(turn: Any) -> str:
    """Returns the state of a row of the journal: a key of `TURN_STATES`."""
    return "warning" if turn.status == "finish" and turn_warning(turn) else str(turn.status)


def shown_state(turn: Any) -> str:
    """Returns what the list shows of a row of the journal if that says more than its state; else empty."""
    if turn.status == "finish":
        return turn_warning(turn) or str(turn.finish)
    return "failed" if turn.status == "refused" and turn.http >= FIRST_SERVER_ERROR else ""


def join_names(turn: Any) -> str:
    """Returns all names of a row in lower case: what bare words of a search are looked for in."""
    return "\n".join(_read_names(turn)).lower()
