"""The facts of tables.toml as Structs: vocabularies, families of models, picture formulas; which model is of which.

A model is looked up by `provider/model` in lower case: the first rule whose pattern is found in it names the family.
Rules and numbers are data; nothing here knows a provider. Numbers that were fitted stand in fitted.toml.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import msgspec

from penstock.errors import InputError
from penstock.tokens.classes import COUNTS

Rendering: TypeAlias = Literal["json", "spaced", "typescript", "words", "declared"]
REMEMBERED = 1_000  # names of models, which come from outside
LONGEST = 300  # characters of such a name that are looked at
GENERAL = "general"
"""The family of models that no rule knows."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's formula for a picture: tiles, patches, area, or the same for all."""

    kind: Literal["tiles", "patches", "area", "fixed", "crops"]
    side: int = 1  # pixels of a tile's or patch's side
    each: float = 1.0  # tokens of a tile or patch; pixels of a token where `kind` is area
    first: float = 0.0  # tokens before the first of them
    long: int = 0  # the longer side is brought down to this first
    short: int = 0  # then the shorter one
    most: int = 0  # tiles, patches or tokens at most
    low: float = 0.0  # tokens with `detail: low`, where that is a thing
    source: str = ""


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """What else than text costs."""

    picture: str = "area"
    page: float = 1500.0  # tokens of a PDF's page
    second: float = 32.0  # tokens of a second of sound
    video: float = 3000.0  # tokens of a video whose length nobody knows


class Constants(msgspec.Struct, frozen=True, kw_only=True):
    """What is multiplied with what was counted. `low` and `high` are how far off, in spreads, 90% stay."""

    base: float = 3.0
    message: float = 4.0
    text: float = 1.0
    call: float = 8.0
    result: float = 5.0
    reasoning: float = 0.5
    hidden: float = 0.0  # reasoning that goes along with a call, by reference or encrypted
    citations: float = 0.0  # what the model is told where it may cite
    tools: float = 60.0
    tool: float = 8.0
    schema: float = 1.0
    forced: float = 0.0
    format: float = 10.0
    shape: float = 0.5
    low: float = 2.5
    high: float = 2.5


FITTED = Constants.__struct_fields__[:-2]
"""The constants in the order of a tally."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Models that count alike."""

    name: str
    vocabulary: str = "o200k"
    rendering: Rendering = "json"
    parent: str = ""
    unused_tools: bool = True  # whether tools are in the prompt although `tool_choice` is none
    run_tools: bool = True  # whether tools that the provider runs are in it
    media: Media = Media()
    prior: dict[str, float] = {}
    source: str = ""
    constants: Constants = Constants()
    weights: tuple[float, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """Which models are of a family."""

    match: str
    family: str


class Tables:
    """All facts together; `of` finds the family of a model."""

    def __init__(
        self, families: dict[str, Family], rules: list[Rule], pictures: dict[str, Picture], version: str = "",
        of: str = "",
    ) -> None:  # fmt: skip
        self.families = families
        self.rules = rules
        self.pictures = pictures
        self.version = version
        self.fitted_to = of  # what the numbers were fitted to
        self._patterns = [(re.compile(rule.match), rule.family) for rule in rules]
        self._known: dict[str, Family] = {}

    def of(self, model: str, provider: str = "") -> Family:
        name = f"{provider}/{model}"[:LONGEST]
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[name] = self._look_up(name.lower())
        return found

    def _look_up(self, name: str) -> Family:
        return self.families[next((row for pattern, row in self._patterns if pattern.search(name)), GENERAL)]

    def with_constants(self, constants: dict[str, Constants]) -> Tables:
        """The same facts with other fitted numbers."""
        families = {
            name: msgspec.structs.replace(row, constants=constants.get(name, row.constants))
            for name, row in self.families.items()
        }
        return Tables(families, self.rules, self.pictures, self.version, self.fitted_to)


@cache
def tables() -> Tables:
    """The facts that come with the package."""
    here = files("penstock.tokens")
    facts, fitted = (tomllib.loads(here.joinpath(name).read_text("utf-8")) for name in ("tables.toml", "fitted.toml"))
    return build(facts, fitted)


def build(facts: dict[str, Any], fitted: dict[str, Any]) -> Tables:
    """Tables out of parsed TOML; what is not there, or of another shape, is said."""
    vocabularies = {name: tuple(row["weights"]) for name, row in fitted["vocabularies"].items()}
    if wrong := [name for name, row in vocabularies.items() if len(row) != len(COUNTS)]:
        raise InputError(f"vocabularies.{wrong[0]}.weights: expected {len(COUNTS)} numbers")
    families: dict[str, Family] = {}
    for name, row in facts["families"].items():
        above = families.get(row.get("parent", ""))
        whole = {**(_inherited(above) if above else {}), **row, "name": name}
        whole["weights"] = vocabularies[whole.get("vocabulary", "o200k")]
        whole["constants"] = fitted["families"].get(name, {})
        families[name] = msgspec.convert(whole, Family)
    rules = msgspec.convert(facts["models"], list[Rule])
    pictures = msgspec.convert(facts["pictures"], dict[str, Picture])
    return Tables(families, rules, pictures, str(fitted.get("date", "")), str(fitted.get("of", "")))


def _inherited(family: Family) -> dict[str, Any]:
    return {
        "vocabulary": family.vocabulary, "rendering": family.rendering, "unused_tools": family.unused_tools,
        "run_tools": family.run_tools, "media": family.media,
    }  # fmt: skip
