"""How a model takes reasoning settings: as an effort, a budget, a level, a switch, adaptively, or not at all. Also what
else it refuses: sampling settings, a last turn of the assistant, calls without a signature.

The families are in `thinking.toml`, each with the vendor's documentation. A model that no family matches gets the facts
of its nearest relative: same maker, most words of the name in common, nearest version. `relative` then names it.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec.structs import replace

from penstock._diagnostics import read_tables
from penstock._providers.model_identity import identify
from penstock._providers.registry import Form
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    _FamilyRow: TypeAlias = tuple[Callable[[str], object], "Thinking", list["_KnownName"]]

Sampling: TypeAlias = Literal["always", "one", "unthinking", "never"]
EFFORTS = ("low", "medium", "high")  # the default of forms with words
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[a-z]+")
_DATE = 4  # digits that are no version any more
_NEWEST = 1000.0  # the version of a name without one
_LEAST = 1024  # tokens of a budget, where only the form is known: what the strictest vendor takes


class Thinking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of a family in `thinking.toml`. `relative`: the family whose facts an unknown model gets."""

    form: Form = "none"
    also: Form | Literal[""] = ""  # a second form that is taken too
    efforts: tuple[str, ...] = ()  # lowest first
    raised: tuple[str, ...] = ()  # words that it does not take and that become the next higher one
    least: int = 0
    most: int = 0
    on: bool = False  # it thinks if nothing is said
    off: bool = True  # it can be switched off
    exclusive: bool = False  # while it thinks it refuses temperature, top_p, top_k and a tool that must be called
    prefill: bool = True  # a conversation may end with a turn of the assistant
    sampling: Sampling = "always"  # when it takes temperature, top_p, top_k, penalties and log probabilities
    signed: bool = False  # calls of the current turn must carry their thought signature
    source: str = ""
    relative: str = ""


class _Family(Thinking, frozen=True, kw_only=True):
    maker: str
    models: tuple[str, ...]


class _KnownName(msgspec.Struct, frozen=True):
    """The name of a known model, its words and its version."""

    name: str
    words: frozenset[str]
    version: float


def thinking_in_form(form: str, known: Thinking | None = None) -> Thinking:
    """Returns the facts of a model of which only the form is known, such as in a user's table of models.

    `known`: its facts in the table; what it refuses besides stays true.
    """
    if form not in get_args(Form):
        raise InputError(f"unknown form of reasoning settings {form!r}; known are: {', '.join(get_args(Form))}")
    efforts = EFFORTS if form in ("adaptive", "effort", "level") else ()
    least = _LEAST if form == "budget" else 0
    facts = Thinking(form=cast("Form", form), efforts=efforts, least=least, source="configuration")
    return replace(facts, prefill=known.prefill, sampling=known.sampling, signed=known.signed) if known else facts


@lru_cache(maxsize=4096)
def thinking_of(id: str) -> Thinking | None:
    """Returns how a model takes reasoning settings; None if its maker or the maker's families are not known."""
    identity = identify(id)
    families = _families().get(identity.maker)
    if not families:
        return None
    name = identity.name.lower()
    for fits, facts, _ in families:
        if fits(name) or fits(identity.family):
            return facts
    words, version = _parse_name(name)
    rows = ((known, facts) for _, facts, names in families for known in names)
    nearest, facts = max(rows, key=lambda row: _similarity(words, version, row[0]))
    return replace(facts, relative=nearest.name)


def without_thinking(found: Thinking | None) -> Thinking | None:
    """Returns the facts of a model that does not reason. A guess from its relatives does not count."""
    return replace(found, form="none", also="", efforts=(), on=False, off=True) if found and found.relative else found


def _similarity(words: frozenset[str], version: float, known: _KnownName) -> tuple[int, int, float, float]:
    """Ranks a known name: words in common, other words, distance of versions; the newer version wins a tie."""
    return len(words & known.words), -len(known.words - words), -abs(version - known.version), known.version


def _parse_name(name: str) -> tuple[frozenset[str], float]:
    """Returns the words of a name, and its version as one number: `claude-opus-4-8` is 4.8, and so is `gpt-4.8`."""
    tokens: list[str] = _TOKEN.findall(name)
    words = frozenset(token for token in tokens if token.isalpha())
    numbers = [token for token in tokens if not token.isalpha() and len(token) < _DATE][:2]
    if not numbers:
        return words, _NEWEST
    if "." in numbers[0] or len(numbers) == 1 or "." in numbers[1]:
        return words, float(numbers[0])
    return words, float(f"{numbers[0]}.{numbers[1]}")


@cache
def _families() -> dict[str, list[_FamilyRow]]:
    """Returns the families of each maker."""
    tables = read_tables("penstock._providers", "thinking.toml")
    found: dict[str, list[_FamilyRow]] = {}
    for row in msgspec.convert(tables["families"], list[_Family]):
        fits = re.compile("|".join(map(translate, row.models))).match
        facts = Thinking(**{name: getattr(row, name) for name in Thinking.__struct_fields__})
        names = [_KnownName(name, *_parse_name(name)) for name in (pattern.strip("-*") for pattern in row.models)]
        found.setdefault(row.maker, []).append((fits, facts, names))
    return found
