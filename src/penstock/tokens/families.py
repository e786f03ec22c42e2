"""The facts of tables.toml as Structs: vocabularies, families of models, picture formulas; which model is of which.

A model is looked up by `provider/model` in lower case: the first rule whose pattern is found in it names the family.
Rules and numbers are data; nothing here knows a provider. Numbers that were fitted stand in fitted.toml.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from operator import mul
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLAIN = (
    "words", "humps", "fives", "nines", "digits", "numbers", "marks", "clusters", "gaps", "tabs", "lines", "breaks",
    "capitals",
)  # fmt: skip
"""The counts of any text, in this order."""
SCRIPTS = (
    "latin", "greek", "cyrillic", "semitic", "indic", "symbols", "kana", "han", "hangul", "wide", "astral",
)  # fmt: skip
"""One more count each for what is not ASCII, in this order."""
COUNTS = (*PLAIN, *SCRIPTS)

_CODES = b"lgyhiskCHfe"  # the classes of SCRIPTS
_CONTINUATION = bytes(range(0x80, 0xC0))


def _ranges(*rows: tuple[int, int, bytes]) -> bytes:
    """A table for `translate`: first byte, last byte, what they become; everything else is a mark."""
    table = bytearray(b".") * 256
    for first, last, code in rows:
        for byte in range(first, last + 1):
            table[byte] = code[0]
    return bytes(table)


_CLASS = _ranges(
    (0x61, 0x7A, b"a"), (0x41, 0x5A, b"A"), (0x30, 0x39, b"0"), (0x20, 0x20, b" "), (0x09, 0x09, b"\t"),
    (0x0A, 0x0A, b"\n"), (0x0D, 0x0D, b"\n"), (0xC2, 0xCD, b"l"), (0xCE, 0xCF, b"g"), (0xD0, 0xD5, b"y"),
    (0xD6, 0xDF, b"h"), (0xE0, 0xE1, b"i"), (0xE2, 0xE2, b"s"), (0xE3, 0xE3, b"k"), (0xE4, 0xE9, b"C"),
    (0xEA, 0xED, b"H"), (0xEE, 0xEF, b"f"), (0xF0, 0xFF, b"e"),
)  # fmt: skip


def _only(codes: Iterable[int], as_one: bytes, rest: bytes) -> bytes:
    """A table that sees one class, or several as one, and nothing else."""
    table = bytearray(rest) * 256
    for code in codes:
        table[code] = as_one[0]
    return bytes(table)


_LETTERS = _only(b"aAlgyh", b"a", b" ")
_DIGITS = _only(b"0", b"0", b" ")
_MARKS = _only(b".", b".", b" ")
_SPACES = _only(b" ", b" ", b".")
_BREAKS = _only(b"\n", b"\n", b" ")


def counts(text: str) -> list[int]:
    """The counts in the order of COUNTS; of plain ASCII only those of PLAIN."""
    plain = text.isascii()
    data = text.encode("utf-8", "surrogatepass")
    # What begins the text begins a run, as after a space.
    seen = (b" " + data).translate(_CLASS) if plain else (b" " + data).translate(_CLASS, _CONTINUATION)
    count, letters = seen.count, seen.translate(_LETTERS)
    found = [
        letters.count(b" a"), count(b"aA"), letters.count(b"aaaaa"), letters.count(b"aaaaaaaaa"),
        count(b"0"), seen.translate(_DIGITS).count(b" 0"), count(b"."), seen.translate(_MARKS).count(b" ."),
        seen.translate(_SPACES).count(b".  "), count(b"\t"), count(b"\n"), seen.translate(_BREAKS).count(b" \n"),
        count(b"AA"),
    ]  # fmt: skip
    if not plain:
        found += [seen.count(code) for code in _CODES]
    return found


def weigh(text: str, weights: Sequence[float]) -> float:
    """The counts of a text times the weights of a vocabulary: about how many tokens it is."""
    return sum(map(mul, weights, counts(text))) if text else 0.0


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


VERSION = 1


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """`weights` go by the names of the counts, `constants` by the names of what is counted around text."""

    version: int = VERSION
    tables: str
    model: str
    provider: str
    family: str
    weights: dict[str, float]
    constants: dict[str, float]
    low: float
    high: float
    factor: float
    rendering: str
    media: Media
    picture: Picture

    def json(self) -> bytes:
        return msgspec.json.encode(self)


def factors(model: str, provider: str, family: Family, facts: Tables, factor: float) -> Factors:
    """What is known of a family, in the form that is sent."""
    constants = family.constants
    return Factors(
        tables=facts.version, model=model, provider=provider, family=family.name,
        weights=dict(zip(COUNTS, family.weights, strict=True)),
        constants={name: getattr(constants, name) for name in FITTED}, low=constants.low, high=constants.high,
        factor=round(factor, 4), rendering=family.rendering, media=family.media,
        picture=facts.pictures[family.media.picture],
    )  # fmt: skip


LEAST, MOST = 0.5, 2.0
LEAP = 0.25  # no sample is believed to be further off than this
SLOW = 0.15  # the weight of a sample once there are many
SOLID = 150.0  # a prompt of fewer tokens says less


class Factor(msgspec.Struct, frozen=True):
    """Actual by estimated, and from how many turns that is known."""

    value: float = 1.0
    turns: int = 0


def learned(factor: Factor, estimated: float, actual: float) -> Factor:
    """The factor after one more turn."""
    if estimated <= 0 or actual <= 0:
        return factor
    now = factor.value
    seen = min(max(actual / estimated, now * (1 - LEAP)), now * (1 + LEAP))
    weight = max(SLOW, 1 / (factor.turns + 2)) * min(1.0, estimated / SOLID)
    return Factor(min(max(now + weight * (seen - now), LEAST), MOST), factor.turns + 1)


def read(data: bytes | None) -> Factor:
    """A stored factor; what cannot be read, or is out of bounds, has not been learned by this version."""
    try:
        found = msgspec.json.decode(data or b"{}", type=Factor)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Factor()
    return found if LEAST <= found.value <= MOST else Factor()


def written(factor: Factor) -> bytes:
    """A factor as a store keeps it."""
    return msgspec.json.encode(factor)
