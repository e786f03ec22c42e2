"""Completes a query at a cursor: names of fields, words such as states, and values that the journal has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock._inspector.turn_query import QueryError, QueryPart, parse_query, split_query
from penstock._inspector.turn_query_terms import QUERY_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_OPTIONS = 12
STATE_HELP = {
    "running": "waiting or streaming",
    "waiting": "no byte of the answer has come",
    "streaming": "the answer is coming",
    "finish": "ended well",
    "warning": "cut, refused by the model, filtered, or with malformed frames",
    "fault": "broke off in the answer",
    "refused": "got no answer",
    "cancelled": "the client left",
    "broken": "fault or refused",
    "stop": "ended well: the answer is complete",
    "calls": "ended well: with tool calls",
    "pause": "ended well: the provider paused",
    "other": "ended well: for another reason",
    "length": "cut: it reached the limit of its length",
    "filter": "the provider filtered the answer",
    "refusal": "the model refused to answer",
    "malformed": "ended well, but frames could not be read",
    "failed": "refused with a status from 500 on",
}
HAS_HELP = {
    "notes": "losses, repairs and other findings",
    "tools": "the model called tools",
    "fault": "an error",
    "cost": "a known price",
    "usage": "tokens that the provider counted",
    "retries": "more than one request to providers",
    "estimate": "an estimate of its tokens",
}
SPANS = {"15m": "15 minutes", "1h": "an hour", "1d": "a day", "7d": "a week"}


class CompletionOption(msgspec.Struct):
    """One option. `text` replaces the query from `start` to `end`; `about` explains it."""

    text: str
    about: str = ""


class QueryProblem(msgspec.Struct):
    """Why a query cannot be read, and where."""

    message: str
    position: int
    length: int


class Completion(msgspec.Struct):
    """What fits at the cursor. An option replaces the characters from `start` to `end`.

    `error`: why the whole query cannot be read as it is.
    """

    start: int
    end: int
    options: list[CompletionOption]
    error: QueryProblem | None = None


def find_problem(text: str, now: float) -> QueryProblem | None:
    """Returns why a query cannot be read; None if it can."""
    try:
        parse_query(text, now)
    except QueryError as error:
        return QueryProblem(str(error), error.position, error.length)
    return None


def complete_query(text: str, at: int, values_of: Callable[[Sequence[str]], Mapping[str, int]]) -> Completion:
    """Returns what fits at a cursor. `values_of(columns)` returns values of the journal and how often they occur."""
    part = next((part for part in split_query(text) if part.start < at <= part.start + part.length), None)
    if part is None:
        return Completion(at, at, _field_options(""))
    end = part.start + part.length
    if not part.operator:
        typed = text[part.start + part.excluded : at].lower()
        options = [] if part.quoted else _field_options(typed)
        return Completion(part.start + part.excluded, end, options)
    if part.field not in QUERY_FIELDS or at < part.value_at:
        return Completion(at, at, [])
    return _complete_value(text, at, part, values_of)


def _field_options(typed: str) -> list[CompletionOption]:
    found = [name for name in QUERY_FIELDS if typed in name]
    found.sort(key=lambda name: not name.startswith(typed))
    options = [CompletionOption(_with_operator(name), QUERY_FIELDS[name].about) for name in found]
    return options if not typed else options[:MAX_OPTIONS]


def _with_operator(name: str) -> str:
    return f"{name}>" if QUERY_FIELDS[name].convert is not None and name != "http" else f"{name}:"


def _complete_value(
    text: str, at: int, part: QueryPart, values_of: Callable[[Sequence[str]], Mapping[str, int]]
) -> Completion:
    value = next(value for value in part.values if at <= value.start + value.length)
    typed = text[value.start : at].strip('"').lower()
    field = QUERY_FIELDS[part.field]
    known = {"state": STATE_HELP, "has": HAS_HELP, "since": SPANS, "until": SPANS}.get(part.field)
    if known is not None:
        options = [CompletionOption(name, about) for name, about in known.items() if typed in name]
    elif field.convert is not None and part.field != "http":
        options = []
    else:
        columns = field.columns[:1] if part.field in {"fault", "engine", "id"} else field.columns
        counts = values_of(columns)
        found = sorted((name for name in counts if typed in name.lower()), key=lambda name: (-counts[name], name))
        options = [CompletionOption(_quote(name), f"{counts[name]:,}") for name in found[:MAX_OPTIONS]]
    return Completion(value.start, value.start + value.length, options)


def _quote(value: str) -> str:
    plain = '"' not in value and "," not in value and not any(character.isspace() for character in value)
    return value if plain and value else f'"{value.replace(chr(34), "")}"'
