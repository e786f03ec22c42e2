"""Model families: how models count text, tools and files; loaded from tables.toml and fitted.toml.

A model is looked up by `provider/model` in lower case: the first rule whose pattern matches gives the family. Rules and
numbers are data; the code names no provider. fitted.toml has the fitted numbers.

Text is counted by features: words, digits, marks, gaps and scripts. Every character has a class by the first byte of
its UTF-8 form, and features are short patterns in the string of classes. `bytes.translate` and `bytes.count` do the
work, so a megabyte takes tens of milliseconds. docs/tokens.md describes the same features for other languages.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from operator import mul
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# ── text features ─────────────────────────────────────────────────────────────────────────────────────────────────────

_ASCII = "words humps fives nines digits numbers marks clusters gaps tabs lines breaks capitals"
_SCRIPTS = "latin greek cyrillic semitic indic symbols kana han hangul wide astral"
ASCII_FEATURES = tuple(_ASCII.split())
TEXT_FEATURES = (*ASCII_FEATURES, *_SCRIPTS.split())
_SCRIPT_CLASSES = b"lgyhiskCHfe"  # in the order of _SCRIPTS
_CONTINUATION = bytes(range(0x80, 0xC0))
_CLASS_RANGES = (  # first byte, last byte, class
    (0x61, 0x7A, b"a"), (0x41, 0x5A, b"A"), (0x30, 0x39, b"0"), (0x20, 0x20, b" "), (0x09, 0x09, b"\t"),
    (0x0A, 0x0A, b"\n"), (0x0D, 0x0D, b"\n"), (0xC2, 0xCD, b"l"), (0xCE, 0xCF, b"g"), (0xD0, 0xD5, b"y"),
    (0xD6, 0xDF, b"h"), (0xE0, 0xE1, b"i"), (0xE2, 0xE2, b"s"), (0xE3, 0xE3, b"k"), (0xE4, 0xE9, b"C"),
    (0xEA, 0xED, b"H"), (0xEE, 0xEF, b"f"), (0xF0, 0xFF, b"e"),
)  # fmt: skip


def _translation(rows: Iterable[tuple[int, int, bytes]], default: bytes) -> bytes:
    """Builds a table for `translate`: every byte of a range becomes its class, all others the default."""
    table = bytearray(default) * 256
    for first, last, code in rows:
        table[first : last + 1] = code * (last + 1 - first)
    return bytes(table)


def _select(classes: bytes, default: bytes = b" ") -> bytes:
    """Builds a table that keeps one class, or several as the first one."""
    return _translation(((code, code, classes[:1]) for code in classes), default)


_CLASS = _translation(_CLASS_RANGES, b".")
_LETTERS, _DIGITS, _MARKS, _BREAKS = _select(b"aAlgyh"), _select(b"0"), _select(b"."), _select(b"\n")
_SPACES = _select(b" ", b".")
_PIECE = 2**20  # characters of a text that are counted at once, because counting copies them several times


def count_text_features(text: str) -> list[int]:
    """Returns the counts in the order of TEXT_FEATURES; of an ASCII text only those of ASCII_FEATURES."""
    if len(text) > _PIECE:
        pieces = [count_text_features(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE)]
        return [sum(counts) for counts in zip_longest(*pieces, fillvalue=0)]
    # The start of the text starts a run, as after a space.
    if text.isascii():
        classes = (b" " + text.encode()).translate(_CLASS)
    else:
        classes = (b" " + text.encode("utf-8", "surrogatepass")).translate(_CLASS, _CONTINUATION)
    letters, count = classes.translate(_LETTERS), classes.count
    humps, digits, marks = count(b"aA"), count(b"0"), count(b".")
    tabs, lines, capitals = count(b"\t"), count(b"\n"), count(b"AA")
    words, fives = letters.count(b" a"), letters.count(b"aaaaa")
    nines = letters.count(b"aaaaaaaaa") if fives else 0
    # Runs are counted only where there may be any: most short texts have few.
    numbers = classes.translate(_DIGITS).count(b" 0") if digits > 1 else digits
    clusters = classes.translate(_MARKS).count(b" .") if marks > 1 else marks
    gaps = classes.translate(_SPACES).count(b".  ") if b"  " in classes else 0
    breaks = classes.translate(_BREAKS).count(b" \n") if lines > 1 else lines
    runs = [words, humps, fives, nines, digits, numbers, marks, clusters, gaps, tabs, lines, breaks, capitals]
    return runs if text.isascii() else runs + [classes.count(code) for code in _SCRIPT_CLASSES]


def weigh_text(text: str, weights: Sequence[float]) -> float:
    """Estimates the tokens of a text: its features times the weights of a vocabulary."""
    return sum(map(mul, weights, count_text_features(text))) if text else 0.0


# ── families ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Rendering: TypeAlias = Literal["json", "spaced", "typescript", "words", "declared"]
DEFAULT_FAMILY = "general"  # of models that no rule matches
_MAX_NAMES = 1_000  # remembered model names, which come from clients
_MAX_NAME_LENGTH = 300


class ImageFormula(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's formula for the tokens of an image."""

    kind: Literal["tiles", "patches", "area", "fixed", "crops"]
    side: int = 1  # pixels of a tile's or patch's side
    each: float = 1.0  # tokens of a tile or patch; with the kind `area`, pixels of a token
    first: float = 0.0  # tokens before the first tile
    long: int = 0  # the longer side is scaled down to this
    short: int = 0  # then the shorter side
    most: int = 0  # maximum of tiles, patches or tokens
    low: float = 0.0  # tokens with `detail: low`, if the provider has it
    source: str = ""


class MediaCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of everything that is not text."""

    picture: str = "area"  # the name of the image formula
    page: float = 1500.0  # tokens of a PDF page
    second: float = 32.0  # tokens of a second of audio
    video: float = 3000.0  # tokens of a video of unknown length
    video_second: float = 300.0  # tokens of a second of video


class Constants(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per feature, then the error of each kind of tokens.

    `base_error` is in tokens, the other errors are shares. `low` and `high` are multiples of the combined error that
    contain 90% of the actual counts.
    """

    base: float = 3.0
    message: float = 4.0
    text: float = 1.0
    call: float = 8.0
    result: float = 5.0
    parallel: float = 0.0  # each further call of the same message
    reasoning: float = 0.5
    hidden: float = 0.0  # reasoning beside a call, by reference or encrypted
    citations: float = 0.0  # the instructions for citations
    thinking: float = 0.0  # the instructions for reasoning
    tools: float = 60.0
    tool: float = 8.0
    schema: float = 1.0
    forced: float = 0.0
    format: float = 10.0
    shape: float = 0.5
    base_error: float = 3.0
    framing_error: float = 0.1
    text_error: float = 0.05
    tools_error: float = 0.1
    hidden_error: float = 0.1
    low: float = 1.5
    high: float = 1.5


FEATURE_NAMES = tuple(name for name in Constants.__struct_fields__[:-2] if not name.endswith("_error"))
ERROR_NAMES = tuple(name for name in Constants.__struct_fields__ if name.endswith("_error"))
_INHERITED = (
    "vocabulary",
    "rendering",
    "unused_tools",
    "run_tools",
    "media",
    "builtin",
    "endpoints",
    "tool_prompts",
    "json_mode",
)


class BuiltinTool(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a tool that the provider defines. Its definition is not in the request."""

    match: str  # a pattern for the tool's type or name
    tokens: float
    guessed: bool = False  # no documentation and no recorded usage says so
    source: str = ""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Models that count alike."""

    name: str
    vocabulary: str = "o200k"
    rendering: Rendering = "json"
    parent: str = ""
    unused_tools: bool = True  # tools are in the prompt even if `tool_choice` is none
    run_tools: bool = True  # tools that the provider runs are in the prompt
    media: MediaCosts = MediaCosts()
    builtin: tuple[BuiltinTool, ...] = ()
    endpoints: dict[str, float] = {}  # tokens that a protocol's endpoint adds to every prompt
    tool_prompts: dict[str, float] = {}  # tokens that an endpoint adds to functions
    default_system: float = 0.0  # tokens of the chat template's own system prompt, if the request has none
    json_mode: float = 0.0  # tokens that JSON without a schema adds
    prior: dict[str, float] = {}
    source: str = ""
    constants: Constants = Constants()
    weights: tuple[float, ...] = ()


class FamilyRule(msgspec.Struct, frozen=True):
    """The family of models whose name matches a pattern."""

    match: str
    family: str


class Tables:
    """All families, rules and image formulas. `fitted_to` names the data that the numbers were fitted to."""

    def __init__(
        self,
        families: dict[str, Family],
        rules: list[FamilyRule],
        pictures: dict[str, ImageFormula],
        version: str = "",
        fitted_to: str = "",
    ) -> None:
        self.families = families
        self.rules = rules
        self.pictures = pictures
        self.version = version
        self.fitted_to = fitted_to
        self._patterns = [(re.compile(rule.match), rule.family) for rule in rules]
        self._known: dict[str, Family] = {}

    def find_family(self, model: str, provider: str = "") -> Family:
        name = f"{provider}/{model}"[:_MAX_NAME_LENGTH]
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= _MAX_NAMES:
                self._known.clear()
            matches = (family for pattern, family in self._patterns if pattern.search(name.lower()))
            found = self._known[name] = self.families[next(matches, DEFAULT_FAMILY)]
        return found

    def with_constants(self, constants: dict[str, Constants]) -> Tables:
        """Returns the same tables with other fitted constants."""
        families = {
            name: msgspec.structs.replace(row, constants=constants.get(name, row.constants))
            for name, row in self.families.items()
        }
        return Tables(families, self.rules, self.pictures, self.version, self.fitted_to)


@cache
def load_tables() -> Tables:
    """Loads the tables of the package."""
    folder = files("penstock._tokens")
    facts, fitted = (tomllib.loads(folder.joinpath(name).read_text("utf-8")) for name in ("tables.toml", "fitted.toml"))
    return build_tables(facts, fitted)


def build_tables(facts: dict[str, Any], fitted: dict[str, Any]) -> Tables:
    """Builds tables from parsed TOML; raises an error if a value is missing or of the wrong type."""
    vocabularies = {name: tuple(row["weights"]) for name, row in fitted["vocabularies"].items()}
    if wrong := [name for name, row in vocabularies.items() if len(row) != len(TEXT_FEATURES)]:
        raise InputError(f"vocabularies.{wrong[0]}.weights: expected {len(TEXT_FEATURES)} numbers")
    families: dict[str, Family] = {}
    builtin = msgspec.convert(facts.get("builtin_tools", {}), dict[str, tuple[BuiltinTool, ...]])
    for name, row in facts["families"].items():
        parent = families.get(row.get("parent", ""))
        fields = {key: getattr(parent, key) for key in _INHERITED} if parent else {}
        fields |= {**row, "name": name, "constants": fitted["families"].get(name, {})}
        fields["builtin"] = (*builtin.get(name, ()), *fields.get("builtin", ()))  # the first match counts
        fields["weights"] = vocabularies[fields.get("vocabulary", "o200k")]
        families[name] = msgspec.convert(fields, Family)
    rules = msgspec.convert(facts["models"], list[FamilyRule])
    pictures = msgspec.convert(facts["pictures"], dict[str, ImageFormula])
    return Tables(families, rules, pictures, str(fitted.get("date", "")), str(fitted.get("of", "")))


# ── factors for thin clients ──────────────────────────────────────────────────────────────────────────────────────────


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a thin client needs to count for one model; docs/tokens.md describes the client's side.

    The keys of `weights` are text features, the keys of `constants` are features of messages and requests.
    """

    version: int = 1
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
    media: MediaCosts
    picture: ImageFormula

    def json(self) -> bytes:
        return msgspec.json.encode(self)


def build_factors(model: str, provider: str, family: Family, tables: Tables, factor: float) -> Factors:
    """Builds the factors of a model."""
    constants = family.constants
    return Factors(
        tables=tables.version,
        model=model,
        provider=provider,
        family=family.name,
        weights=dict(zip(TEXT_FEATURES, family.weights, strict=True)),
        constants={name: getattr(constants, name) for name in FEATURE_NAMES},
        low=constants.low,
        high=constants.high,
        factor=round(factor, 4),
        rendering=family.rendering,
        media=family.media,
        picture=tables.pictures[family.media.picture],
    )


# ── learned factors ───────────────────────────────────────────────────────────────────────────────────────────────────
# One factor per provider and model, a bounded exponential average. A single sample moves it by a few percent at most.

_MIN_FACTOR, _MAX_FACTOR = 0.5, 2.0
_MAX_CHANGE = 0.25  # a sample counts as no further off than this
_MIN_WEIGHT = 0.15  # of a sample after many turns
_FULL_WEIGHT_TOKENS = 150.0  # a shorter prompt has less weight


class Factor(msgspec.Struct, frozen=True):
    """Actual tokens divided by estimated tokens, learned from this many turns."""

    value: float = 1.0
    turns: int = 0


def update_factor(factor: Factor, estimated: float, actual: float) -> Factor:
    """Returns the factor after one more turn."""
    if estimated <= 0 or actual <= 0:
        return factor
    value = factor.value
    sample = min(max(actual / estimated, value * (1 - _MAX_CHANGE)), value * (1 + _MAX_CHANGE))
    weight = max(_MIN_WEIGHT, 1 / (factor.turns + 2)) * min(1.0, estimated / _FULL_WEIGHT_TOKENS)
    return Factor(min(max(value + weight * (sample - value), _MIN_FACTOR), _MAX_FACTOR), factor.turns + 1)


def decode_factor(data: bytes | None) -> Factor:
    """Decodes a stored factor. An unreadable one, or one out of bounds, counts as not learned."""
    try:
        found = msgspec.json.decode(data or b"{}", type=Factor)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Factor()
    return found if _MIN_FACTOR <= found.value <= _MAX_FACTOR else Factor()


def encode_factor(factor: Factor) -> bytes:
    """Encodes a factor for a store."""
    return msgspec.json.encode(factor)
