"""How a model takes reasoning settings: as an effort, a budget, a level, a switch, adaptively, or not at all. And what
else of a request it refuses: sampling settings, a last turn of the assistant, calls without a signature.

The families stand in `thinking.toml`, each with the vendor's documentation. A model that no family matches gets the
facts of its nearest relative: same maker, most words of the name in common, nearest version. `relative` then names it.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import translate
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from penstock._providers.identity import identify
from penstock._providers.registry import Form
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

Sampling: TypeAlias = Literal["always", "one", "unthinking", "never"]
EFFORTS = ("low", "medium", "high")  # the words that every form with words takes, unless a row says more
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[a-z]+")
_DATE = 4  # digits that are no version any more
_NEWEST = 1000.0  # the version of a name without one
_LEAST = 1024  # tokens of a budget, where only the form is known: what the strictest vendor takes


class Thinking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `thinking.toml` says of a family. `relative`: the family it was taken from, for a model that is unknown."""

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


class _Kin(msgspec.Struct, frozen=True):
    """A known name, taken apart."""

    name: str
    words: frozenset[str]
    version: float


class _Table(msgspec.Struct, frozen=True):
    families: tuple[_Family, ...]


def thinking_in_form(form: str, known: Thinking | None = None) -> Thinking:
    """The facts of a model of which somebody says only the form, such as in a table of one's own models.

    `known`: what the table says of it; what it refuses besides stays true.
    """
    if form not in get_args(Form):
        raise InputError(f"unknown form of reasoning settings {form!r}; known are: {', '.join(get_args(Form))}")
    words = EFFORTS if form in ("adaptive", "effort", "level") else ()
    made = msgspec.convert(
        {"form": form, "efforts": words, "least": _LEAST if form == "budget" else 0, "source": "configuration"},
        Thinking,
    )
    return replace(made, prefill=known.prefill, sampling=known.sampling, signed=known.signed) if known else made


@lru_cache(maxsize=4096)
def thinking_of(id: str) -> Thinking | None:
    """How a model takes reasoning settings; None where its maker is not known, or none of the maker's families is."""
    who = identify(id)
    families = _families().get(who.maker)
    if not families:
        return None
    name = who.name.lower()
    for fits, facts, _ in families:
        if fits(name) or fits(who.family):
            return facts
    words, version = _parsed(name)
    rows = ((kin, facts) for _, facts, kindred in families for kin in kindred)
    nearest, facts = max(rows, key=lambda row: _kinship(words, version, row[0]))
    return replace(facts, relative=nearest.name)


def without_thinking(found: Thinking | None) -> Thinking | None:
    """The facts of a model that is known not to reason: a guess from its relatives does not count."""
    return replace(found, form="none", also="", efforts=(), on=False, off=True) if found and found.relative else found


def _kinship(words: frozenset[str], version: float, kin: _Kin) -> tuple[int, int, float, float]:
    """How near a known name is: words in common, words of its own, distance of versions; the newer one wins a tie."""
    return len(words & kin.words), -len(kin.words - words), -abs(version - kin.version), kin.version


def _parsed(name: str) -> tuple[frozenset[str], float]:
    """The words of a name, and its version as one number: `claude-opus-4-8` is 4.8, and so is `gpt-4.8`."""
    tokens: list[str] = _TOKEN.findall(name)
    words = frozenset(token for token in tokens if token.isalpha())
    numbers = [token for token in tokens if not token.isalpha() and len(token) < _DATE][:2]
    if not numbers:
        return words, _NEWEST
    if "." in numbers[0] or len(numbers) == 1 or "." in numbers[1]:
        return words, float(numbers[0])
    return words, float(f"{numbers[0]}.{numbers[1]}")


@cache
def _families() -> dict[str, list[tuple[Callable[[str], object], Thinking, list[_Kin]]]]:
    """Of each maker: who belongs to a family, its facts, and its names taken apart."""
    text = files("penstock._providers").joinpath("thinking.toml").read_text(encoding="utf-8")
    found: dict[str, list[tuple[Callable[[str], object], Thinking, list[_Kin]]]] = {}
    for row in msgspec.convert(tomllib.loads(text), _Table).families:
        fits = re.compile("|".join(map(translate, row.models))).match
        facts = Thinking(**{name: getattr(row, name) for name in Thinking.__struct_fields__})
        kindred = [_Kin(name, *_parsed(name)) for name in (pattern.strip("-*") for pattern in row.models)]
        found.setdefault(row.maker, []).append((fits, facts, kindred))
    return found
