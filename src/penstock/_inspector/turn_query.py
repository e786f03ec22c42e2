"""The query language of the inspector's list: text → terms → SQL with bound values, or a test of one turn.

`model:opus state:fault cost>0.1 "exact words" -client:curl since:1h`. Terms are separated by spaces, and a turn must
match all of them. `field:value` looks for a part of a name, `field=value` for the whole name, commas separate
alternatives, `-` excludes. Bare words and quoted phrases are found in names, and in the texts of turns that are kept:
the caller looks them up (`TurnQuery.phrases`) and gives the ids of those turns. No IO.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock._inspector.turn_query_terms import (
    HAS_VALUES,
    QUERY_FIELDS,
    STATE_VALUES,
    TERM_TYPES,
    NameTerm,
    PhraseTerm,
    QueryField,
    QueryTerm,
)
from penstock._inspector.turn_query_values import parse_moment
from penstock._store.journal_queries import SqlCondition
from penstock._store.turn_states import SHOWN_STATES
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock._store.journal import JournalEntry

MAX_QUERY_CHARACTERS = 1000
MAX_QUERY_TERMS = 30
_OPERATORS = (">=", "<=", ":", "=", ">", "<")
_SIGNS = frozenset("-:=<>")
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz_")


class QueryError(InputError):
    """A query that cannot be read. `position` and `length` say where, in characters; the message says how to fix it."""

    def __init__(self, message: str, position: int, length: int) -> None:
        super().__init__(message)
        self.position: int = position
        self.length: int = length


class TurnQuery(msgspec.Struct, frozen=True):
    """A query that was read. A turn must match all terms."""

    terms: tuple[QueryTerm, ...] = ()

    @property
    def phrases(self) -> list[str]:
        """Bare words and quoted phrases: to be looked up among the texts of kept turns."""
        return [term.values[0] for term in self.terms if isinstance(term, PhraseTerm)]

    def without_phrases(self) -> TurnQuery:
        """Returns the query without terms that look into texts."""
        return TurnQuery(tuple(term for term in self.terms if not isinstance(term, PhraseTerm)))

    def to_sql(
        self, found: Mapping[str, Collection[str]], among: Callable[[Collection[str], str], SqlCondition]
    ) -> SqlCondition:
        """Returns the condition of a query of the journal. `found`: for each phrase the ids of turns with it."""
        conditions = [term.to_sql(found, among) for term in self.terms]
        where = " AND ".join(condition.where for condition in conditions)
        return SqlCondition(where, tuple(value for condition in conditions for value in condition.values))

    def matches(
        self, turn: JournalEntry, running: str = "", found: Mapping[str, Collection[str]] | None = None
    ) -> bool:
        """Returns whether a turn matches. `running`: `open` or `streaming` if it is not over."""
        return all(term.matches(turn, running, found or {}) for term in self.terms)


def parse_query(text: str, now: float) -> TurnQuery:
    """Reads a query. `now`: seconds since the epoch, for spans such as `since:1h`. Raises `QueryError`."""
    if len(text) > MAX_QUERY_CHARACTERS:
        message = f"a query has at most {MAX_QUERY_CHARACTERS} characters; this one has {len(text)}"
        raise QueryError(message, MAX_QUERY_CHARACTERS, len(text) - MAX_QUERY_CHARACTERS)
    control = next((place for place, character in enumerate(text) if character < " " and not character.isspace()), None)
    if control is not None:
        raise QueryError("remove this control character", control, 1)
    terms: list[QueryTerm] = []
    for part in split_query(text):
        if len(terms) == MAX_QUERY_TERMS:
            raise QueryError(f"a query has at most {MAX_QUERY_TERMS} terms; remove some", part.start, part.length)
        terms.append(_read_term(part, now))
    return TurnQuery(tuple(terms))


class QueryValue(NamedTuple):
    """A value of a term as it is written. `text` is without quotes; `start` and `length` are with them."""

    text: str
    start: int
    length: int
    quoted: bool = False
    closed: bool = True


class QueryPart(NamedTuple):
    """A term as it is written. Only a field has several values. `value_at` is where they begin."""

    start: int
    length: int
    excluded: bool
    field: str
    operator: str
    value_at: int
    values: tuple[QueryValue, ...]

    @property
    def value(self) -> str:
        """The first value. Words have no other."""
        return self.values[0].text

    @property
    def quoted(self) -> bool:
        """True if the first value is quoted."""
        return self.values[0].quoted


def split_query(text: str) -> list[QueryPart]:
    """Returns the terms of a query, unchecked."""
    parts: list[QueryPart] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        part = _split_part(text, at)
        parts.append(part)
        at = part.start + part.length
    return parts


def _split_part(text: str, start: int) -> QueryPart:
    at = start
    excluded = text[at] == "-" and at + 1 < len(text) and not text[at + 1].isspace()
    at += excluded
    name_at = at
    while at < len(text) and text[at].lower() in _NAME_CHARACTERS:
        at += 1
    operator = next((one for one in _OPERATORS if text.startswith(one, at)), "") if at > name_at else ""
    field = text[name_at:at].lower() if operator else ""
    value_at = at + len(operator) if operator else name_at
    values = [_split_value(text, value_at, is_list=bool(operator))]
    while operator and values[-1].closed and text.startswith(",", end := values[-1].start + values[-1].length):
        values.append(_split_value(text, end + 1, is_list=True))
    length = values[-1].start + values[-1].length - start
    return QueryPart(start, length, excluded, field, operator, value_at, tuple(values))


def _split_value(text: str, start: int, *, is_list: bool) -> QueryValue:
    if text.startswith('"', start):
        end = text.find('"', start + 1)
        if end < 0:
            return QueryValue(text[start + 1 :], start, len(text) - start, quoted=True, closed=False)
        return QueryValue(text[start + 1 : end], start, end + 1 - start, quoted=True)
    end = start
    while end < len(text) and not text[end].isspace() and not (is_list and text[end] == ","):
        end += 1
    return QueryValue(text[start:end], start, end - start)


def _read_term(part: QueryPart, now: float) -> QueryTerm:
    if not part.values[-1].closed:
        raise QueryError('the quote is not closed: add a " at the end', part.values[-1].start, part.values[-1].length)
    if not part.operator:
        return _read_phrase(part)
    field = QUERY_FIELDS.get(part.field)
    at = part.start + part.excluded
    if field is None:
        raise QueryError(_describe_unknown(part.field), at, len(part.field))
    given = [value for value in part.values if value.text or value.quoted]
    if not given or (part.operator != "=" and not all(value.text for value in given)):
        example = f"{part.field}:{field.example}"
        message = f"{part.field} needs a value, for example {example}"
        raise QueryError(message, at, part.length - part.excluded)
    if part.operator not in {":", "="} and field.convert is None:
        message = f"{part.field} is not a number: write {part.field}:{part.value}"
        raise QueryError(message, at, part.length - part.excluded)
    has_words = part.field in {"state", "has"}
    values = tuple(_read_word(part.field, value) if has_words else value.text for value in given)
    numbers = (_read_number(part.field, field, value, now) for value in given)
    known = tuple(number for number in numbers if number is not None)
    make = TERM_TYPES.get(part.field, NameTerm)
    return make(values, part.excluded, part.field, part.operator, known)


def _describe_unknown(name: str) -> str:
    close = get_close_matches(name, QUERY_FIELDS, 3) or get_close_matches(name, QUERY_FIELDS, 1, 0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "the button ? shows all fields."
    return f"there is no field {name!r}: {hint} Quotes search for the words."


def _read_phrase(part: QueryPart) -> QueryTerm:
    if not part.quoted:
        _check_signs(part)
    value = " ".join(part.value.split()) if part.quoted else part.value
    if not value:
        raise QueryError("the quotes are empty: write words between them", part.value_at, 2)
    return PhraseTerm((value,), part.excluded)


def _check_signs(part: QueryPart) -> None:
    """Raises `QueryError` for a word that is a sign of the language alone, or has a quote in it."""
    quote = part.value.find('"')
    if quote >= 0:
        message = "a quote begins a term or follows a field: put a space before this one, or remove it"
        raise QueryError(message, part.value_at + quote, 1)
    if _SIGNS.issuperset(part.value):
        sign = part.value[:10]
        fix = f"after {sign} what to leave out, such as -client:curl"
        fix = fix if sign.startswith("-") else f"a field before {sign}, such as model:opus"
        raise QueryError(f"write {fix}; to search for the sign, put it in quotes", part.start, part.length)


def _read_word(field: str, value: QueryValue) -> str:
    known = (*STATE_VALUES, *SHOWN_STATES) if field == "state" else tuple(HAS_VALUES)
    aliases = {"finished": "finish", "open": "waiting", "error": "broken", "warnings": "warning"}
    word = value.text.lower()
    word = aliases.get(word, word) if field == "state" else word
    if word not in known:
        message = f"{field}: expected one of {', '.join(known)}; found {value.text[:40]!r}"
        raise QueryError(message, value.start, value.length)
    return word


def _read_number(name: str, field: QueryField, value: QueryValue, now: float) -> float | None:
    try:
        if name in {"since", "until"}:
            return parse_moment(value.text, now)
        return field.convert(value.text) if field.convert is not None else None
    except ValueError as error:
        raise QueryError(f"{name}: {error}", value.start, value.length) from None
