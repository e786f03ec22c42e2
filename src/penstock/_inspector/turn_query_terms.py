"""Fields and terms of the query language. A term is a condition in SQL with bound values, and a test of one turn.

Both say the same: the list searches the journal in SQL, and the live feed tests single turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from penstock._inspector.turn_query_values import parse_amount, parse_dollars, parse_seconds
from penstock._store.journal_queries import MODEL_NAME, SqlCondition, escape_like
from penstock._store.turn_states import SHOWN_STATES, TURN_STATES, join_names, shown_state, turn_state

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock._store.journal import JournalEntry

    FoundTurns: TypeAlias = Mapping[str, Collection[str]]
    """For each phrase the ids of kept turns whose texts hold it."""
    IdCondition: TypeAlias = Callable[[Collection[str], str], SqlCondition]
    """Returns the condition that a turn has one of these request ids."""


class QueryField(NamedTuple):
    """A field of the language. `columns`: of the journal; `convert` reads the value of a field with numbers."""

    about: str
    example: str
    columns: tuple[str, ...] = ()
    convert: Callable[[str], float] | None = None


QUERY_FIELDS: dict[str, QueryField] = {
    "model": QueryField("the model that answered, or the one that was asked for", "opus", ("model", "asked")),
    "state": QueryField("how it ended, or that it runs", "fault"),
    "provider": QueryField("the provider that answered", "anthropic", ("provider",)),
    "client": QueryField("the program that asked, or its user agent", "curl", ("client", "agent")),
    "tool": QueryField("a tool that the model called", "bash", ("tools",)),
    "key": QueryField("the gateway key", "anna", ("key",)),
    "fault": QueryField("the kind of an error, or words of its message", "auth", ("fault", "fault_message")),
    "finish": QueryField("why the answer ended", "length", ("finish",)),
    "route": QueryField("the path that was asked", "/v1/messages", ("route",)),
    "engine": QueryField("the engine, and why it was chosen", "native", ("engine", "decisions")),
    "protocol": QueryField("the protocol of the client or of the provider", "responses", ("protocol", "upstream")),
    "operation": QueryField("what was asked for", "chat", ("operation",)),
    "id": QueryField("the id of the request", "4f1d", ("request_id", "upstream_id")),
    "http": QueryField("the HTTP status that the client got", "429", ("http",), parse_amount),
    "cost": QueryField("dollars", "0.1", ("cost",), parse_dollars),
    "ttft": QueryField("time to first token", "2s", ("ttft",), parse_seconds),
    "duration": QueryField("time from the request to the end", "30s", ("duration",), parse_seconds),
    "input": QueryField("tokens of the prompt", "10k", ("input",), parse_amount),
    "output": QueryField("tokens of the answer", "500", ("output",), parse_amount),
    "cached": QueryField("tokens of the prompt that came from the provider's cache", "1k", ("cached",), parse_amount),
    "reasoning": QueryField("tokens of reasoning", "1k", ("reasoning",), parse_amount),
    "notes": QueryField("how many notes a turn has", "1", ("notes",), parse_amount),
    "tries": QueryField("how many requests were sent to providers", "2", ("tries",), parse_amount),
    "bytes": QueryField("bytes that the client got", "100k", ("bytes_out",), parse_amount),
    "since": QueryField("began at this time or later: a span or a date", "1h"),
    "until": QueryField("began before this time: a span or a date", "2026-11-01"),
    "has": QueryField("has something", "notes"),
}
STATE_VALUES: dict[str, tuple[str, ...]] = {
    "running": ("open", "streaming"),
    "waiting": ("open",),
    "streaming": ("streaming",),
    "finish": ("finish",),
    "warning": ("warning",),
    "fault": ("fault",),
    "refused": ("refused",),
    "cancelled": ("cancelled",),
    "broken": ("fault", "refused"),
}
"""Values of `state:` → states of a turn. `finish` has no warning."""
HAS_VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "notes": ("(notes > 0 OR malformed > 0)", lambda turn: turn.notes > 0 or turn.malformed > 0),
    "tools": ("tools <> ''", lambda turn: turn.tools != ""),
    "fault": ("fault <> ''", lambda turn: turn.fault != ""),
    "cost": ("cost IS NOT NULL", lambda turn: turn.cost is not None),
    "usage": ("(input IS NOT NULL OR output IS NOT NULL)", lambda turn: (turn.input, turn.output) != (None, None)),
    "retries": ("tries > 1", lambda turn: turn.tries > 1),
    "estimate": ("estimate IS NOT NULL", lambda turn: turn.estimate is not None),
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ":": lambda one, other: one == other,
    "=": lambda one, other: one == other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
}
_ZERO_COLUMNS = frozenset({"http", "notes", "tries", "bytes_out"})  # NULL only in rows of old versions


class QueryTerm(msgspec.Struct, frozen=True):
    """One condition: any of its values holds, or none if it is `excluded`."""

    values: tuple[str, ...]
    excluded: bool = False
    field: str = ""
    operator: str = ":"
    numbers: tuple[float, ...] = ()  # the values of a field with numbers or times

    def to_sql(self, found: FoundTurns, among: IdCondition) -> SqlCondition:
        """Returns the condition of a query of the journal."""
        conditions = [self._value_sql(place, found, among) for place in range(len(self.values))]
        where = " OR ".join(condition.where for condition in conditions)
        values = tuple(value for condition in conditions for value in condition.values)
        return SqlCondition(f"NOT coalesce(({where}), FALSE)" if self.excluded else f"({where})", values)

    def matches(self, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        """Returns whether a turn meets the condition. `running`: its state if it is not over."""
        places = range(len(self.values))
        return self.excluded != any(self._value_matches(place, turn, running, found) for place in places)

    def _value_sql(self, place: int, found: FoundTurns, among: IdCondition) -> SqlCondition:
        raise NotImplementedError

    def _value_matches(self, place: int, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        raise NotImplementedError


class PhraseTerm(QueryTerm, frozen=True):
    """A bare word or a quoted phrase."""

    def _value_sql(self, place: int, found: FoundTurns, among: IdCondition) -> SqlCondition:
        phrase = self.values[place]
        names = SqlCondition("names LIKE ? ESCAPE '\\'", (contains_pattern(phrase.lower()),))
        if not found.get(phrase):
            return names
        kept = among(found[phrase], phrase)
        return SqlCondition(f"({kept.where} OR {names.where})", kept.values + names.values)

    def _value_matches(self, place: int, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        phrase = self.values[place]
        return phrase.lower() in join_names(turn) or turn.request_id in found.get(phrase, ())


class StateTerm(QueryTerm, frozen=True):
    """`state:fault`, or what the list shows as the state: `state:length`. Turns that run are not in the journal."""

    def _value_sql(self, place: int, found: FoundTurns, among: IdCondition) -> SqlCondition:
        value = self.values[place]
        if value in SHOWN_STATES:
            return SqlCondition(SHOWN_STATES[value])
        wanted = [TURN_STATES[state] for state in STATE_VALUES[value] if state in TURN_STATES]
        return SqlCondition(f"({' OR '.join(wanted) or 'FALSE'})")

    def _value_matches(self, place: int, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        value = self.values[place]
        if value in SHOWN_STATES:
            return not running and shown_state(turn) == value
        return (running or turn_state(turn)) in STATE_VALUES[value]


class HasTerm(QueryTerm, frozen=True):
    """`has:notes`."""

    def _value_sql(self, place: int, found: FoundTurns, among: IdCondition) -> SqlCondition:
        return SqlCondition(HAS_VALUES[self.values[place]][0])

    def _value_matches(self, place: int, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        return HAS_VALUES[self.values[place]][1](turn)


class TimeTerm(QueryTerm, frozen=True):
    """`since:1h` and `until:2026-11-01`."""

    def _value_sql(self, place: int, found: FoundTurns, among: IdCondition) -> SqlCondition:
        return SqlCondition(f"time {'>=' if self.field == 'since' else '<'} ?", (self.numbers[place],))

    def _value_matches(self, place: int, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        limit = self.numbers[place]
        return turn.time >= limit if self.field == "since" else turn.time < limit


class NumberTerm(QueryTerm, frozen=True):
    """`cost>0.1`. An unknown number meets no condition."""

    def _value_sql(self, place: int, found: FoundTurns, among: IdCondition) -> SqlCondition:
        column = QUERY_FIELDS[self.field].columns[0]
        operand = f"coalesce({column}, 0)" if column in _ZERO_COLUMNS else column
        operator = "=" if self.operator == ":" else self.operator
        return SqlCondition(f"{operand} {operator} ?", (self.numbers[place],))

    def _value_matches(self, place: int, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        number = getattr(turn, QUERY_FIELDS[self.field].columns[0])
        return number is not None and _COMPARISONS[self.operator](number, self.numbers[place])


class NameTerm(QueryTerm, frozen=True):
    """`model:opus` finds a part of a name, `model=anthropic/claude-opus-4-5` the whole name."""

    def _value_sql(self, place: int, found: FoundTurns, among: IdCondition) -> SqlCondition:
        value, columns = self.values[place], QUERY_FIELDS[self.field].columns
        if self.operator != "=":
            return _any_of([_contains_sql(column, value) for column in columns])
        if self.field == "model":
            return _any_of([_equals_sql(column, value) for column in (MODEL_NAME, "model")])
        if self.field == "tool":  # its lines are names
            return _contains_sql("'\n' || tools || '\n'", f"\n{value}\n")
        equal = [_equals_sql(f"coalesce({column}, '')", value) for column in columns]
        if value:
            return _any_of(equal)
        return SqlCondition(f"({' AND '.join(one.where for one in equal)})", ("",) * len(equal))  # no column has a name

    def _value_matches(self, place: int, turn: JournalEntry, running: str, found: FoundTurns) -> bool:
        value = self.values[place].lower()
        texts = [str(getattr(turn, column)).lower() for column in QUERY_FIELDS[self.field].columns]
        if self.operator != "=":
            return any(value in text for text in texts)
        if self.field == "model":
            return value in {f"{turn.provider}/{turn.model}".lower() if turn.model else turn.asked.lower(), texts[0]}
        if self.field == "tool":
            return value in texts[0].split("\n")
        return value in texts if value else not any(texts)


TERM_TYPES: dict[str, type[QueryTerm]] = {
    "state": StateTerm, "has": HasTerm, "since": TimeTerm, "until": TimeTerm,
    **{name: NumberTerm for name, field in QUERY_FIELDS.items() if field.convert is not None},
}  # fmt: skip
"""The terms of fields that are not names."""


def contains_pattern(text: str) -> str:
    """Returns a pattern for LIKE that finds a text anywhere."""
    return f"%{escape_like(text)}%"


def _contains_sql(column: str, text: str) -> SqlCondition:
    """Returns the condition that a text is anywhere in a column, in upper or lower case."""
    like = SqlCondition(f"{column} LIKE ? ESCAPE '\\'", (contains_pattern(text),))
    if text.isascii():  # LIKE ignores the case of these letters
        return like
    letters, values = _lower_letters(column, text)
    return _any_of([like, SqlCondition(f"{letters} LIKE ? ESCAPE '\\'", (*values, contains_pattern(text.lower())))])


def _equals_sql(column: str, text: str) -> SqlCondition:
    """Returns the condition that a column is a text, in upper or lower case."""
    if text.isascii():
        return SqlCondition(f"lower({column}) = ?", (text.lower(),))
    letters, values = _lower_letters(column, text)
    same = SqlCondition(f"{column} = ?", (text,))
    return _any_of([same, SqlCondition(f"lower({letters}) = ?", (*values, text.lower()))])


def _lower_letters(column: str, text: str) -> tuple[str, tuple[str, str]]:
    """Returns a column in which the letters of a text that are not of ASCII are in lower case, and the values for it.

    The databases themselves do that only for letters of ASCII, or as their locale says. Letters whose cases are no
    pair, such as ß, stay as they are.
    """
    pairs = {letter.upper(): letter for letter in text.lower() if not letter.isascii()}
    pairs = {upper: lower for upper, lower in pairs.items() if len(upper) == 1 and not upper.isascii()}
    return f"translate({column}, ?, ?)", ("".join(pairs), "".join(pairs.values()))


def _any_of(conditions: Sequence[SqlCondition]) -> SqlCondition:
    where = " OR ".join(condition.where for condition in conditions)
    return SqlCondition(f"({where})", tuple(value for condition in conditions for value in condition.values))


def format_exact(field: str, value: str) -> str:
    """Returns the query for turns with exactly this name; empty if no query can say it."""
    if '"' in value or "\n" in value:
        return ""
    plain = value and not any(character.isspace() or character == "," for character in value)
    return f"{field}={value}" if plain else f'{field}="{value}"'
