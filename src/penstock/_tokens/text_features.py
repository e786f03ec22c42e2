"""Counts the features of messages and requests that cost tokens: one amount for each fitted constant.

Amounts times the constants of a model family give the estimate, so the same features serve counting and fitting. Error
bounds are in tokens and come from four sources: framing, text, tools and formats, files. `low` and `high` of a family
are multiples of that error that contain 90% of the recorded requests that the constants were not fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import hypot, sqrt
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from penstock._lenient_json import as_json
from penstock._tokens import file_costs
from penstock._tokens.families import (
    ASCII_FEATURES,
    ERROR_NAMES,
    FEATURE_NAMES,
    TEXT_FEATURES,
    Constants,
    Family,
    ImageFormula,
    count_text_features,
    weigh_text,
)
from penstock._tokens.hidden_additions import (
    adds_system,
    asks_to_think,
    find_builtin,
    is_deferred,
    read_endpoint,
)
from penstock._tokens.tool_rendering import render_json, render_schema, render_tool
from penstock.request import Call, File, Json, Message, Opaque, Reasoning, Request, Result, Source, Text, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock._tokens.count_cache import Count

BASE, MESSAGE, TEXT, CALL, RESULT, PARALLEL, REASONING, HIDDEN, CITATIONS = range(9)
THINKING, TOOLS, TOOL, SCHEMA, FORCED, FORMAT, SHAPE = range(9, len(FEATURE_NAMES))
BASE_ERROR, FRAMING_ERROR, TEXT_ERROR, TOOLS_ERROR, HIDDEN_ERROR = range(
    len(FEATURE_NAMES), len(FEATURE_NAMES) + len(ERROR_NAMES)
)
FRAMING_FEATURES = (MESSAGE, CALL, RESULT, PARALLEL, REASONING, HIDDEN, CITATIONS)
TOOL_FEATURES, HIDDEN_FEATURES = (TOOL, SCHEMA), (THINKING, TOOLS, FORCED, FORMAT, SHAPE)
_KIND_SQUARE = 0.6**2  # 0.6 is the share of a text's error that does not average out
_SHORT_TEXT = 60.0  # tokens
_KNOWN_FILE_ERROR, _GUESSED_FILE_ERROR = 0.06, 0.3  # the file's header was read, or its size was guessed
_PAGE_ERROR = 0.2  # pages differ in how much text they have
_KNOWN_BUILTIN_ERROR, _GUESSED_BUILTIN_ERROR = 0.06, 0.5  # a built-in tool's tokens are documented, or a guess
_PLAIN_FEATURES = ("words", "humps", "fives", "nines", "gaps", "tabs", "lines", "breaks", "latin")
_ROUGH_ASCII = itemgetter(*(at for at, name in enumerate(ASCII_FEATURES) if name not in _PLAIN_FEATURES))
_SHOWN_OPAQUE = 0.5  # share of opaque data that the model reads
_LONG_GAP = " " * 128  # the longest run of spaces that is one token
_TEXT_MEDIA = ("text/", "application/json", "application/xml", "application/javascript")


@dataclass(slots=True)
class FeatureAmounts:
    """Amounts in the order of `FEATURE_NAMES`, and the tokens of files and of what a provider adds."""

    amounts: list[float] = field(default_factory=lambda: [0.0] * len(FEATURE_NAMES))
    rough: float = 0.0  # tokens of the text that are not plain words
    files: float = 0.0
    risk: float = 0.0  # tokens by which the files may be wrong
    added: float = 0.0  # tokens of built-in tools and of an endpoint's own prompt
    added_risk: float = 0.0
    hidden: bool = False  # there is reasoning without text

    def add(self, other: FeatureAmounts) -> None:
        self.amounts = [one + more for one, more in zip(self.amounts, other.amounts, strict=True)]
        self.rough += other.rough
        self.files += other.files
        self.risk += other.risk
        self.added += other.added
        self.added_risk += other.added_risk

    def add_file(self, tokens: float, *, known: bool, error: float = _KNOWN_FILE_ERROR) -> None:
        self.files += tokens
        self.risk += tokens * (error if known else _GUESSED_FILE_ERROR)

    def add_hidden(self, tokens: float, *, known: bool) -> None:
        self.added += tokens
        self.added_risk += abs(tokens) * (_KNOWN_BUILTIN_ERROR if known else _GUESSED_BUILTIN_ERROR)


def estimate_tokens(features: FeatureAmounts, constants: Sequence[float]) -> float:
    """Returns the tokens of these features."""
    return float(sum(map(mul, features.amounts, constants))) + features.files + features.added


def constant_values(constants: Constants) -> tuple[float, ...]:
    """Returns the constants in the order of `FEATURE_NAMES`, then the errors in the order of `ERROR_NAMES`."""
    return tuple(getattr(constants, name) for name in (*FEATURE_NAMES, *ERROR_NAMES))


# ── error bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────


def sum_features(features: FeatureAmounts, constants: Sequence[float], positions: Iterable[int]) -> float:
    """Returns the tokens of some features."""
    amounts = features.amounts
    return sum(amounts[position] * constants[position] for position in positions if amounts[position])


def text_error(tokens: float, rough: float, constants: Sequence[float]) -> float:
    """Returns the error of a text. What is not plain words counts twice: marks, numbers, emoji, other scripts."""
    return average_out((tokens + rough) * constants[TEXT]) * constants[TEXT_ERROR]


def average_out(tokens: float) -> float:
    """Returns less for long texts: the errors of single words average out, those of a kind of text remain."""
    return tokens * sqrt(_KIND_SQUARE + (1.0 - _KIND_SQUARE) / (1.0 + tokens / _SHORT_TEXT))


def message_error(features: FeatureAmounts, constants: Sequence[float]) -> float:
    """Returns the error of one message. Errors of messages add up, because the same kind of text is wrong alike."""
    text = text_error(features.amounts[TEXT], features.rough, constants)
    framing = sum_features(features, constants, FRAMING_FEATURES) * constants[FRAMING_ERROR]
    return text + framing + features.risk


def frame_error(features: FeatureAmounts, constants: Sequence[float]) -> float:
    """Returns the error of everything around the messages. Its parts are independent."""
    return hypot(*(error for _, error in split_frame(features, constants)))


def combine_errors(frame: float, messages: float) -> float:
    """Returns the error of a whole prompt. The two errors are independent."""
    return hypot(frame, messages)


# ── parts for a breakdown ─────────────────────────────────────────────────────────────────────────────────────────────


class FrameParts(NamedTuple):
    """Tokens and error of what stands around the messages.

    `tools` are the tools of the caller. `framing` is what every prompt has. `hidden` is what the provider adds and
    never shows: its prompt for tools, built-in tools, a forced choice, the response format.
    """

    tools: Count
    framing: Count
    hidden: Count


class MessageParts(NamedTuple):
    """Tokens and error of a message: its text with the framing, and its images and other files."""

    text: Count
    files: Count


def split_frame(features: FeatureAmounts, constants: Sequence[float]) -> FrameParts:
    """Splits the count of a frame. The tokens add up to `estimate_tokens`."""
    tools = sum_features(features, constants, TOOL_FEATURES)
    hidden = sum_features(features, constants, HIDDEN_FEATURES)
    hidden_risk = hypot(hidden * constants[HIDDEN_ERROR], features.added_risk)
    return FrameParts(
        tools=(tools, tools * constants[TOOLS_ERROR]),
        framing=(features.amounts[BASE] * constants[BASE], constants[BASE_ERROR]),
        hidden=(hidden + features.added, hidden_risk),
    )


def split_message(features: FeatureAmounts, constants: Sequence[float]) -> MessageParts:
    """Splits the count of a message. The tokens add up to `estimate_tokens`."""
    tokens, error = estimate_tokens(features, constants), message_error(features, constants)
    return MessageParts((tokens - features.files, error - features.risk), (features.files, features.risk))


# ── counting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class FeatureCounter:
    """Counts features for one family. `count` is a real tokenizer; without it text features are weighed."""

    def __init__(
        self, family: Family, formulas: dict[str, ImageFormula], count: Callable[[str], float] | None = None
    ) -> None:
        self.family = family
        self._weights = family.weights
        self._rough = [
            0.0 if name in _PLAIN_FEATURES else weight
            for name, weight in zip(TEXT_FEATURES, family.weights, strict=False)
        ]
        self._rough_ascii = _ROUGH_ASCII(self._rough)
        self._image_formula = formulas[family.media.picture]
        self._count = count

    def count_text(self, text: str) -> float:
        return weigh_text(text, self._weights) if self._count is None else self._count(text)

    def measure_text(self, text: str) -> tuple[float, float]:
        """Returns the tokens of a text, and how many of them are not plain words."""
        if self._count is not None or not text:
            return self.count_text(text), 0.0
        counts = count_text_features(text)
        tokens = sum(map(mul, self._weights, counts))
        is_ascii = len(counts) == len(ASCII_FEATURES)
        rough = sum(map(mul, self._rough_ascii, _ROUGH_ASCII(counts)) if is_ascii else map(mul, self._rough, counts))
        if _LONG_GAP in text:
            runs = text.count(_LONG_GAP)
            tokens, rough = tokens + runs, rough + runs
        return max(1.0, tokens), rough  # spaces alone are a token

    def count_message(self, message: Message) -> FeatureAmounts:
        features = FeatureAmounts()
        features.amounts[MESSAGE] = 1.0
        if message.name:
            features.amounts[TEXT] += self.count_text(message.name)
        self._add_parts(features, message.parts)
        features.amounts[PARALLEL] = max(0.0, features.amounts[CALL] - 1.0)
        features.amounts[HIDDEN] = float(features.hidden and features.amounts[CALL] > 0)
        return features

    def _add_parts(self, features: FeatureAmounts, parts: Iterable[Any]) -> None:
        for part in parts:
            add = self._kinds.get(type(part))  # pyright: ignore[reportUnknownArgumentType]
            if add is not None:
                add(self, features, part)

    def _add_string(self, features: FeatureAmounts, text: str) -> None:
        tokens, rough = self.measure_text(text)
        features.amounts[TEXT] += tokens
        features.rough += rough

    def _add_text(self, features: FeatureAmounts, part: Text) -> None:
        self._add_string(features, part.text)

    def _add_json(self, features: FeatureAmounts, part: Json) -> None:
        self._add_string(features, render_json(part.json, self.family.rendering))

    def _add_reasoning(self, features: FeatureAmounts, part: Reasoning) -> None:
        """Adds reasoning. Hidden reasoning is only read if the turn continues, that is beside a call."""
        features.amounts[REASONING] += self.count_text(part.text)
        if part.extra is not None or part.item:
            features.hidden = True

    def _add_call(self, features: FeatureAmounts, part: Call) -> None:
        arguments = render_json(part.json, self.family.rendering)
        features.amounts[CALL] += 1.0
        features.amounts[TEXT] += self.count_text(part.name)
        self._add_string(features, arguments)

    def _add_result(self, features: FeatureAmounts, part: Result) -> None:
        features.amounts[RESULT] += 1.0
        self._add_parts(features, part.content)

    def _add_source(self, features: FeatureAmounts, part: Source) -> None:
        features.amounts[TEXT] += self.count_text(part.quote)
        self._add_citations(features, part.extra)

    def _add_opaque(self, features: FeatureAmounts, part: Opaque) -> None:
        features.amounts[TEXT] += self.count_text(as_json(part.data)) * _SHOWN_OPAQUE
        self._add_citations(features, {part.protocol: part.data})

    def _add_citations(self, features: FeatureAmounts, extra: dict[str, Any] | None) -> None:
        if any(_enables_citations(row, 0) for row in (extra or {}).values()):
            features.amounts[CITATIONS] = 1.0

    def _add_file(self, features: FeatureAmounts, part: File) -> None:
        self._add_citations(features, part.extra)
        for row in (part.extra or {}).values():
            if isinstance(context := row.get("context"), str):  # the model reads it with the document
                self._add_string(features, context)
        media, costs = part.media, self.family.media
        if media.startswith("image/"):
            size = file_costs.image_size(file_costs.decode_head(part.data), part.url)
            tokens = file_costs.image_tokens(self._image_formula, size.width, size.height, part.detail)
            features.add_file(tokens, known=size.known)
        elif media == "application/pdf":
            pages, known = file_costs.count_pages(part.data)
            features.add_file(pages * costs.page, known=known, error=_PAGE_ERROR)
        elif media.startswith(("audio/", "video/")):
            self._add_recording(features, part)
        elif part.data and media.startswith(_TEXT_MEDIA):
            text = file_costs.decode_head(part.data, len(part.data) + 3).decode("utf-8", "replace")
            self._add_string(features, text)
            features.amounts[TEXT] += self.count_text(part.name)
        else:  # a provider converts other files to pages, or refuses them
            features.add_file(costs.page * file_costs.count_pages(part.data)[0], known=False)

    def _add_recording(self, features: FeatureAmounts, part: File) -> None:
        """Adds sound or video by its length. Without a header, sound has a usual bit rate and video a usual length."""
        costs, seconds = self.family.media, file_costs.media_seconds(part.data)
        if part.media.startswith("audio/"):
            guess = max(1.0, len(part.data) * 0.75 / file_costs.AUDIO_BYTES)
            features.add_file(costs.second * (seconds or guess), known=seconds is not None)
        else:
            features.add_file(costs.video_second * seconds if seconds else costs.video, known=seconds is not None)

    _kinds: ClassVar[dict[type, Callable[[FeatureCounter, FeatureAmounts, Any], None]]] = {
        Text: _add_text,
        Json: _add_json,
        Reasoning: _add_reasoning,
        Call: _add_call,
        Result: _add_result,
        Source: _add_source,
        Opaque: _add_opaque,
        File: _add_file,
    }

    def count_frame(self, request: Request) -> FeatureAmounts:
        """Counts what is paid once per prompt: its framing, tools, and what the provider adds."""
        features, mode = FeatureAmounts(), request.choice.mode if request.choice else "auto"
        amounts = features.amounts
        amounts[BASE] = 1.0
        amounts[THINKING] = float(asks_to_think(request))
        endpoint = read_endpoint(request)
        features.add_hidden(self.family.endpoints.get(endpoint, 0.0), known=True)
        if adds_system(request, self.family):
            features.add_hidden(self.family.default_system, known=True)
        self._add_tools(features, request.tools if mode != "none" or self.family.unused_tools else [])
        if amounts[TOOL]:
            features.add_hidden(self.family.tool_prompts.get(endpoint or "chat", 0.0), known=True)
        if amounts[TOOLS]:
            amounts[FORCED] = float(mode in ("required", "tool"))
        format_ = request.settings.format
        if format_ is not None and format_.kind == "schema":
            schema = render_schema(format_.schema, self.family.rendering)
            amounts[FORMAT] = 1.0
            amounts[SHAPE] = self.count_text(schema) + self.count_text(format_.description)
        elif format_ is not None and format_.kind == "json":
            features.add_hidden(self.family.json_mode, known=True)
        return features

    def _add_tools(self, features: FeatureAmounts, tools: Iterable[Tool]) -> None:
        amounts, rendering = features.amounts, self.family.rendering
        for tool in tools:
            builtin = find_builtin(tool, self.family)
            if builtin is not None:
                features.add_hidden(builtin.tokens, known=not builtin.guessed)
                amounts[TOOLS] = max(amounts[TOOLS], float(self.family.run_tools))
            elif not is_deferred(tool):
                amounts[TOOLS] = 1.0
                amounts[TOOL] += 1.0
                amounts[SCHEMA] += self.count_text(render_tool(tool, rendering))


def _enables_citations(value: Any, depth: int) -> bool:
    """True if the value asks for citations, on any of the levels that protocols use."""
    if not isinstance(value, dict) or depth > 2:  # noqa: PLR2004 - no protocol uses a deeper level
        return False
    citations = value.get("citations")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(citations, dict) and citations.get("enabled") is True:  # pyright: ignore[reportUnknownMemberType]
        return True
    return any(_enables_citations(row, depth + 1) for row in value.values())  # pyright: ignore[reportUnknownVariableType]


# ── one model ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_REREADS_REASONING = 50.0  # a family with a higher constant for hidden reasoning reads it again


class ModelCounter:
    """Counts for one provider's model. `salt` separates its counts in the cache; `exact`: a real tokenizer counts."""

    __slots__ = ("constants", "counter", "factor", "family", "high", "low", "name", "salt")

    def __init__(self, name: str, family: Family, counter: FeatureCounter, salt: bytes, *, exact: bool) -> None:
        self.name = name
        self.family = family
        self.counter = counter
        self.salt = salt
        constants = list(constant_values(family.constants))
        if exact:
            constants[TEXT] = 1.0  # the fitted constant corrects errors of counting by text features
        self.constants = tuple(constants)
        self.low, self.high = family.constants.low, family.constants.high
        self.factor = 1.0

    def count_message(self, message: Message) -> Count:
        counted = self.counter.count_message(message)
        return estimate_tokens(counted, self.constants), message_error(counted, self.constants)

    def count_frame(self, request: Request) -> Count:
        counted = self.counter.count_frame(request)
        return estimate_tokens(counted, self.constants), frame_error(counted, self.constants)

    def split_message(self, message: Message) -> MessageParts:
        """Counts the text and the files of a message apart."""
        return split_message(self.counter.count_message(message), self.constants)

    def split_frame(self, request: Request) -> FrameParts:
        """Counts tools, framing and hidden additions apart."""
        return split_frame(self.counter.count_frame(request), self.constants)

    def count_reread_reasoning(self, message: Message, reasoning: float) -> float:
        """Returns how much of a turn's reasoning the model reads again in the next request."""
        amounts = self.counter.count_message(message).amounts
        if amounts[HIDDEN]:
            return reasoning if self.constants[HIDDEN] > _REREADS_REASONING else 0.0
        return min(reasoning, amounts[REASONING] * self.constants[REASONING])
