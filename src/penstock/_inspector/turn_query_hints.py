"""Hints about queries that can be read, but may mean something else than their author thinks."""

from __future__ import annotations

import re
import time

from penstock._inspector.query_completion import QueryProblem
from penstock._inspector.turn_query import QueryPart, split_query
from penstock._inspector.turn_query_terms import QUERY_FIELDS

MAX_HINTS = 5
_CONNECTIVES = {
    "AND": "AND is searched as a word. Leave it out: a request must match all terms.",
    "OR": "OR is searched as a word, and a request must match all terms. Only values of a field can be alternatives, "
    "such as state:fault,refused.",
    "NOT": "NOT is searched as a word. To leave out requests with a word, write - before it.",
}
_FIELD = re.compile(r"[^a-z_]*+([a-z_]++)(!?)[:=<>]", re.IGNORECASE)
_CLOCK = re.compile(r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?")
_OTHER_QUOTES = frozenset("'`\u2018\u201a\u201c\u201e\u00ab")
_SHOWN = 40  # characters of a term in a hint


def find_hints(text: str) -> list[QueryProblem]:
    """Returns what may surprise in a query, at most `MAX_HINTS`. The query can be read."""
    parts = split_query(text)
    found = [
        QueryProblem(hint, part.start, part.length)
        for place, part in enumerate(parts)
        if (hint := _between_hint(parts, place) or _clock_hint(part.value) or _hint(part, text, len(parts)))
    ]
    return found[:MAX_HINTS]


def _between_hint(parts: list[QueryPart], place: int) -> str:
    """A word such as `or` between two fields is meant to connect them; in other places it is a word."""
    word = parts[place]
    if word.quoted or word.operator or word.excluded or not 0 < place < len(parts) - 1:
        return ""
    between = parts[place - 1].operator and parts[place + 1].operator
    known = _CONNECTIVES.get(word.value.upper(), "") if between else ""
    return known.replace(word.value.upper(), word.value, 1)


def _clock_hint(value: str) -> str:
    """A time of day, as it stands in the list."""
    if not _CLOCK.fullmatch(value):
        return ""
    full = f"0{value}" if value[1] == ":" else value
    date = time.strftime("%Y-%m-%d")
    return f"{value} is searched as a word. For a time, write a date too: since:{date}T{full}."


def _hint(part: QueryPart, text: str, count: int) -> str:
    written = text[part.start : part.start + part.length][:_SHOWN]
    if part.operator:
        return _field_hint(part, written)
    if not any(map(str.isalnum, part.value)):
        return f"{written} has no letter and no digit. Signs are looked for in names only, not in prompts and answers."
    return "" if part.quoted else _word_hint(part, written, count)


def _field_hint(part: QueryPart, written: str) -> str:
    value = next((value.text for value in part.values if not value.quoted and "*" in value.text), "")
    if not value:
        return ""
    rest = value.replace("*", "")
    fix = f" Without it, {part.field}:{rest[:_SHOWN]} finds a part of a name." if rest else ""
    return f"The * in {written} is searched as it is: it is not a wildcard.{fix}"


def _word_hint(part: QueryPart, written: str, count: int) -> str:
    value = part.value[:_SHOWN]
    if value in _CONNECTIVES and count > 1 and not part.excluded:
        return _CONNECTIVES[value]
    field = _FIELD.match(part.value)
    name = field[1].lower() if field is not None else ""
    if name in QUERY_FIELDS:
        example = f"{name}:{QUERY_FIELDS[name].example}"
        return f"{written} is searched as words. Write {example} for a value of a field, -{example} for all others."
    if value[0] in _OTHER_QUOTES:
        return f'Only " quotes words: {written} is searched as a word.'
    if part.excluded:
        word = value.lstrip("-")
        return f'{written} leaves out requests with {word}. To search for {word}, write "{written}" in quotes.'
    if "*" in value:
        return f"The * in {written} is not a wildcard: prompts and answers are searched for whole words."
    return ""
